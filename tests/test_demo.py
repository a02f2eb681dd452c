"""The bundled set is complete, small and free; the verb runs on it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from captious import demo
from captious.cli import demo as verb
from captious.cli import main
from captious.errors import MissingExtra
from captious.metrics.bleu import Bleu

SYSTEMS = ("good", "vague", "wrong")
NAMES = [p.name for p in demo.photographs()]


@pytest.fixture(scope="module")
def captions():
    return [json.loads(line) for line in demo.captions_file().read_text().splitlines()]


@pytest.fixture(scope="module")
def references():
    return json.loads(demo.references_file().read_text())


def test_photographs_are_few_small_and_without_metadata():
    image = pytest.importorskip("PIL.Image")
    assert 12 <= len(NAMES) <= 20
    assert sum(p.stat().st_size for p in demo.photographs()) < 1_800_000
    for path in demo.photographs():
        with image.open(path) as picture:
            picture.load()
            assert picture.format == "JPEG"
            assert 200 <= max(picture.size) <= 400
            assert not picture.getexif()
            assert "icc_profile" not in picture.info


def test_every_photograph_has_author_and_free_licence():
    text = (demo.folder() / "LICENCES.md").read_text()
    rows = {
        cells[0].strip("`"): cells
        for line in text.splitlines()
        if line.startswith("| `") and (cells := [c.strip() for c in line.strip("|").split(" | ")])
    }
    assert sorted(k.strip("`| ") for k in rows) == NAMES
    for cells in rows.values():
        _, what, author, licence, source = cells
        assert what
        assert author
        assert re.match(r"(public domain|CC0 1\.0|CC BY [24]\.0)", licence)
        assert "SA" not in licence
        assert "NC" not in licence
        assert re.match(r"(PyPI|Debian) `[\w.-]+` \d", source)


def test_five_different_references_each(references):
    assert sorted(references) == NAMES
    for texts in references.values():
        assert len(set(texts)) == 5
        assert all(8 <= len(t.split()) <= 15 for t in texts)


def test_three_captions_each_none_copied(captions, references):
    per_system = {s: [c for c in captions if c["system"] == s] for s in SYSTEMS}
    assert sum(map(len, per_system.values())) == len(captions)
    ids = [c["id"] for c in per_system["good"]]
    assert len(set(ids)) == len(ids)
    for rows in per_system.values():
        assert [c["id"] for c in rows] == ids
        assert [c["image"] for c in rows] == NAMES
    for c in captions:
        assert c["caption"] not in references[c["image"]]


def test_the_verb_prints_explains_and_writes(tmp_path, capsys):
    args = ["--metrics", "bleu,rouge_l,cider_d", "--output", str(tmp_path / "out")]
    assert main(["demo", *args]) == 0
    said = capsys.readouterr().out
    head, explained = said.split("Why ")
    assert head.split("\n")[0].split() == ["metric", *SYSTEMS]
    assert max(len(line) for line in head.splitlines()) <= 80
    assert "bleu_4" in head
    assert "cider_d" in head
    assert explained.startswith("cider_d gives this to")
    assert "captious score captions.json" in explained
    report = Path(said.rstrip().splitlines()[-1])
    assert report == tmp_path / "out" / "report.html"
    assert report.stat().st_size > 100_000
    stored = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert set(stored["systems"]) == set(SYSTEMS)
    assert len(stored["captions"]) == 3 * len(NAMES)
    assert not stored["unscored"]
    for column in ("bleu_1", "rouge_l", "cider_d"):
        value = {s: stored["systems"][s][column]["value"] for s in SYSTEMS}
        assert value["good"] > max(value["vague"], value["wrong"])
    assert main(["verify", str(tmp_path / "out" / "scores.json")]) == 0


def test_what_cannot_run_is_named_and_left_out(tmp_path, capsys, monkeypatch):
    lacks = MissingExtra("nothing", "some-extra", "bleu")
    monkeypatch.setattr(Bleu, "missing", lambda self: [lacks])
    choice = verb.choose(["bleu,rouge_l"])
    assert [m.name for m in choice.metrics] == ["rouge_l"]
    assert "captious[some-extra]" in str(choice.skipped[0])
    assert main(["demo", "-m", "bleu", "--output", str(tmp_path / "out")]) == 4
    assert "captious[some-extra]' for bleu" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
