"""Corpus values by group of images: nocaps' domains."""

from __future__ import annotations

import json

import pytest

import captious
from captious import cli
from captious.engine import domains
from captious.errors import InputError

CAPTIONS = ["a dog runs", "a cat", "two red buses", "a man on a horse"]
REFERENCES = [["a dog"], ["a cat sleeps"], ["red buses"], ["a man rides a horse"]]
IMAGES = ["0", "1", "2", "3"]
DOMAINS = {"0": "in-domain", "1": "near-domain", "2": "near-domain", "3": "out-domain"}


@pytest.fixture
def table(cache):
    metrics = ["bleu", "rouge_l", "chair(objects=False)"]
    return captious.score(
        CAPTIONS, REFERENCES, images=IMAGES, metrics=metrics, intervals=False
    )  # fmt: skip


def test_a_group_is_scored_as_if_it_stood_alone(table):
    """For metrics that count nothing on the run; BLEU's corpus value is no mean."""
    near = next(d for d in domains.by_domain(table, DOMAINS) if d.name == "near-domain")
    alone = captious.score(
        CAPTIONS[1:3], REFERENCES[1:3], metrics=["bleu", "rouge_l"], intervals=False
    )
    for column in ("bleu_1", "bleu_2", "rouge_l"):
        assert near.corpora[""][column] == pytest.approx(alone.corpus[column], abs=1e-12)
    means = table["bleu_1"][1:3].mean()
    assert near.corpora[""]["bleu_1"] != pytest.approx(means, abs=1e-3)
    assert [d.captions[""] for d in domains.by_domain(table, DOMAINS)] == [1, 2, 1]


def test_files_of_groups(tmp_path):
    names = ("0013ea", "in-domain"), ("0022b0", "out-domain")
    images = [
        {"id": n, "file_name": f"{name}.jpg", "open_images_id": name, "domain": domain}
        for n, (name, domain) in enumerate(names)
    ]
    nocaps = {"images": images, "annotations": []}
    path = tmp_path / "nocaps.json"
    path.write_text(json.dumps(nocaps))
    found = domains.read(path)
    assert found["0"] == found["0013ea"] == "in-domain"
    assert found["1"] == found["0022b0"] == "out-domain"
    path.write_text(json.dumps({"a.jpg": "x", "b.jpg": "y"}))
    assert domains.read(path) == {"a": "x", "b": "y"}
    (tmp_path / "g.csv").write_text("image,domain\na.jpg,x\n")
    assert domains.read(tmp_path / "g.csv") == {"a": "x"}
    path.write_text("[]")
    with pytest.raises(InputError, match=r"nocaps\.json: no image has a group"):
        domains.read(path)


def test_no_image_has_a_group(table):
    with pytest.raises(InputError, match="'0', '1', '2' in the captions and 'a', 'b'"):
        domains.by_domain(table, {"a": "x", "b": "y"})


def test_through_the_command(tmp_path, capsys, cache):
    rows = [{"image_id": int(i), "caption": c} for i, c in zip(IMAGES, CAPTIONS, strict=True)]
    (tmp_path / "captions.json").write_text(json.dumps(rows))
    (tmp_path / "refs.json").write_text(json.dumps(dict(zip(IMAGES, REFERENCES, strict=True))))
    (tmp_path / "groups.json").write_text(json.dumps(DOMAINS))
    words = ["score", str(tmp_path / "captions.json"), "--refs", str(tmp_path / "refs.json")]
    words += ["-m", "bleu", "--no-intervals", "--by", str(tmp_path / "groups.json"), "-q"]
    assert cli.main([*words, "--rows", "0"]) == 0
    out = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert out[0].split() == ["metric", "in-domain", "near-domain", "out-domain", "all"]
    assert next(line for line in out if line.startswith("captions")).split()[1:] == list("1214")
    assert any(line.startswith("bleu_4") for line in out)
    assert cli.main([*words, "-f", "json"]) == 2
    assert "--by prints tables as text or markdown" in capsys.readouterr().err
