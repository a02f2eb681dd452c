"""The report as data and as a file: what stands in it, how large it gets, what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import captious
from captious.cli import main
from captious.engine.table import ScoreTable
from captious.report import contents, page
from captious.types import Place

pytest.importorskip("jinja2")


def table(samples: int = 12, systems: int = 2, metrics: str = "bleu,cider_d") -> ScoreTable:
    rng = np.random.default_rng(1)
    words = "dog cat man woman runs sits red blue ball tree house river bird car child".split()
    rows = []
    for n in range(samples):
        references = [" ".join(rng.choice(words, 6)) for _ in range(3)]
        for s in range(systems):
            take = 4 if s == 0 else 1
            text = " ".join([*references[0].split()[:take], *rng.choice(words, 3)])
            rows.append({"id": f"s{n}", "system": f"system {s}", "caption": text,
                         "references": references})  # fmt: skip
    return captious.score(rows, metrics=[m for m in metrics.split(",")])


def data_of(path: Path) -> dict:
    text = path.read_text("utf-8")
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(inside.group(1))


def test_one_file_holds_everything_and_asks_for_nothing(tmp_path):
    found = table()
    page.write(found, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert "default-src 'none'" in text
    data = data_of(tmp_path / "report.html")
    assert data["systems"] == ["system 0", "system 1"]
    assert [c["label"] for c in data["columns"] if c["main"]] == ["BLEU-4", "CIDEr-D"]
    value = found.corpora["system 0"]["cider_d"]
    at = list(found.values).index("cider_d")
    np.testing.assert_allclose(data["corpus"][0][at], [value, value.low, value.high], rtol=1e-4)
    assert len(data["items"]) == 12
    assert len(data["explained"]) == 24
    assert {p["kind"] for told in data["explained"].values() for t in told for p in t["parts"]} == {
        "WordMarks"
    }


def test_tests_have_enough_trials_to_find_what_is_there(tmp_path):
    """p is at least 1 / trials, times the number of comparisons: too few, and nothing is found."""
    found = contents.contents(table(samples=40), contents.choose(table(samples=40), 500))
    columns = [c["name"] for c in found["columns"]]
    test = next(t for t in found["tests"] if t[0] == columns.index("cider_d"))
    assert test[3] < 0
    assert test[7] == 1


def test_beyond_the_limit_the_page_says_what_was_left_out(tmp_path):
    found = table(samples=60)
    remarks = page.write(found, tmp_path / "r.html", page.Options(most=40, seconds=0))
    data = data_of(tmp_path / "r.html")
    assert len(data["items"]) == 20
    assert data["samples"] == 60
    assert "best" in data["shown"]["how"]
    assert any("20 of 60 samples" in line for line in remarks)
    assert len(data["dots"]["systems"]) == 80


def test_best_and_worst_are_inside():
    found = table(samples=60, systems=1, metrics="cider_d")
    rows = contents.rows_of(contents.choose(found, 20)).tolist()
    assert len(rows) == 20
    order = np.argsort(found.values["cider_d"], kind="stable")
    assert {int(order[0]), int(order[-1])} <= set(rows)


def test_a_bundle_holds_all(tmp_path):
    page.write(table(samples=60), tmp_path / "out", page.Options(bundle=True, seconds=0, most=3))
    text = (tmp_path / "out/data.js").read_text("utf-8")
    data = json.loads(text.removeprefix("window.CAPTIOUS_DATA=").rstrip().removesuffix(";"))
    assert len(data["items"]) == 60
    assert "photographs.js" in (tmp_path / "out/index.html").read_text("utf-8")


def test_five_hundred_captions_stay_within_the_budget(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    rows = []
    for n in range(500):
        noise = rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((640, 480)).save(tmp_path / f"photos/{n}.jpg")
        rows.append({"id": str(n), "image": f"{n}.jpg", "caption": f"a dog runs past house {n}",
                     "references": [f"the dog runs {n}", "a dog near a house"]})  # fmt: skip
    found = captious.score(rows, images=tmp_path / "photos", metrics=["bleu", "cider_d", "rouge_l"])
    page.write(found, tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size <= page.BUDGET
    data = data_of(tmp_path / "r.html")
    assert sum("photo" in item for item in data["items"]) == 500


def test_captions_cannot_break_out_of_the_page(tmp_path):
    evil = "</script><script>alert(1)</script> & <b>bold</b>"
    rows = [{"id": "<x>", "caption": evil, "references": [evil, "a"]}] * 1
    rows.append({"id": "y", "caption": "b", "references": ["b c"]})
    page.write(captious.score(rows, metrics=["bleu"]), tmp_path / "r.html")
    assert "<script>alert" not in (tmp_path / "r.html").read_text("utf-8")
    assert data_of(tmp_path / "r.html")["items"][0]["captions"][0]["t"] == evil


def test_the_verb_reads_stored_tables_and_refuses_others(tmp_path, capsys):
    table().save(tmp_path / "scores.parquet")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "scores.parquet"), "-o", str(out), "-q"]) == 0
    assert data_of(out)["captions"] == 24
    (tmp_path / "other.json").write_text("[]")
    assert main(["report", str(tmp_path / "other.json"), "-o", str(out)]) == 3
    assert "captious score" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "scores.parquet"), "-o", str(tmp_path / "x.pdf")]) == 2
    assert ".html" in capsys.readouterr().err


def test_score_writes_a_report_too(tmp_path, capsys):
    (tmp_path / "c.jsonl").write_text(
        "\n".join(
            json.dumps({"id": str(n), "caption": f"a dog {n}", "references": ["a dog"]})
            for n in range(3)
        )
    )
    out = tmp_path / "r.html"
    assert main(["score", str(tmp_path / "c.jsonl"), "-m", "bleu", "--report", str(out)]) == 0
    assert "wrote" in capsys.readouterr().err
    assert data_of(out)["systems"] == ["captions"]


def test_the_gate_fails_on_a_significant_loss_only(tmp_path, capsys):
    table(samples=40).save(tmp_path / "scores.parquet")
    command = ["compare", str(tmp_path / "scores.parquet"), "-q", "--fail-if-worse"]
    assert main([*command, "cider_d"]) == 1
    assert "system 1 is significantly worse than system 0" in capsys.readouterr().err
    assert main([*command, "CIDEr-D"]) == 1
    assert "in cider_d" in capsys.readouterr().err
    assert main([*command, "bleu_1", "CIDEr-D"]) == 1  # spaces as well as commas
    assert "in cider_d" in capsys.readouterr().err
    ignored = ["compare", str(tmp_path / "scores.parquet"), "-m", "bleu", "--refs", "refs.json"]
    assert main(ignored) == 2
    assert "nothing is scored again: leave out --metrics, --refs" in capsys.readouterr().err
    files = ["compare", "-q", "--fail-if-worse", "cider_d", str(tmp_path / "scores.parquet")]
    assert main(files) == 1  # a file behind the columns is a file
    capsys.readouterr()
    assert main([*command, "cider_x"]) == 2
    assert "cider_d" in capsys.readouterr().err
    assert main(command[:-1]) == 0
    capsys.readouterr()
    assert main([*command, "cider_d", "--trials", "50"]) == 2
    assert "--trials 200" in capsys.readouterr().err


def test_several_metrics_on_one_page(tmp_path, capsys):
    sentence = ["-c", "a dog <runs>", "-R", "a dog is running"]
    out = tmp_path / "why.html"
    assert main(["explain", "-m", "bleu,rouge_l", *sentence, "-o", str(out), "-q"]) == 0
    said = capsys.readouterr().out
    assert said.index("-- bleu --") < said.index("-- rouge_l --")
    text = out.read_text("utf-8")
    assert text.count("<svg") == 2
    assert "a dog &lt;runs&gt;" in text


def test_notebooks_show_explanations():
    told = captious.explain("bleu", "a dog", ["a dog runs"])
    assert told._repr_svg_().startswith("<svg")
    assert "<pre>" in told._repr_html_()
    both = captious.compare(table(samples=40))
    assert "<sup>b</sup>" in both._repr_html_()


def test_one_caption_is_refused_as_by_score(capsys):
    """With one image every weight of CIDEr is 0: an explanation of 0.0000 would mislead."""
    assert main(["explain", "-m", "cider_d", "-c", "a dog", "-R", "a dog runs", "-q"]) == 3
    assert "coco-val" in capsys.readouterr().err


def test_columns_of_the_user_are_buckets_and_axes(tmp_path, capsys):
    found = table(samples=30)
    found.save(tmp_path / "scores.parquet")
    rows = [
        {"id": f"s{n}", "system": f"system {s}", "rating": n % 4 + s, "place": "in" if n % 3 else
         "out", "remark": f"text {n}"}
        for n in range(30) for s in range(2)
    ]  # fmt: skip
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    out = tmp_path / "r.html"
    command = ["report", str(tmp_path / "scores.parquet"), "-o", str(out), "--columns"]
    assert main([*command, str(tmp_path / "mine.json")]) == 0
    assert "'remark' is neither numbers nor" in capsys.readouterr().err
    data = data_of(out)
    assert data["axes"] == ["rating"]
    item = next(i for i in data["items"] if i["id"] == "s5")
    assert [cap["v"][-1] for cap in item["captions"]] == [1.0, 2.0]
    titles = {b["title"]: b for b in data["buckets"]}
    assert [(p["label"], p["n"]) for p in titles["place"]["parts"]] == [("in", 40), ("out", 20)]
    inside = [n % 3 > 0 for n in range(30)]
    values = found.values["cider_d"].reshape(30, 2)[inside, 0].mean()
    at = list(found.values).index("cider_d")
    np.testing.assert_allclose(titles["place"]["parts"][0]["values"][0][at][0], values, rtol=1e-4)
    assert "rating" in titles
    (tmp_path / "other.csv").write_text("id,rating\nnobody,3\n")
    assert main([*command, str(tmp_path / "other.csv")]) == 3
    assert "no id is in the table" in capsys.readouterr().err


def test_agreement_with_people_is_a_page(tmp_path, capsys):
    rng = np.random.default_rng(3)
    words = "a dog runs on the beach with one red ball near water".split()
    rows = []
    for n in range(40):
        references = [" ".join(rng.permutation(words)[:6]) for _ in range(3)]
        kept = n % 4
        caption = " ".join([*references[0].split()[: 2 * kept], *rng.choice(words, 6 - 2 * kept)]
                           if kept < 3 else references[0].split())  # fmt: skip
        rows.append({"caption": caption, "references": references, "rating": [kept, kept],
                     "image": f"i{n}"})  # fmt: skip
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    out = tmp_path / "why.html"
    command = ["meta", "bleu_1", "rouge_l", "--set", str(tmp_path / "mine.json"), "--trials", "50",
               "--cache", str(tmp_path / "c"), "--report"]  # fmt: skip
    assert main([*command, str(out)]) == 0
    said = capsys.readouterr()
    assert f"wrote {out}" in said.err
    text = out.read_text("utf-8")
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    value = re.search(r"rouge_l +(\d\.\d{4})", said.out).group(1)
    assert f"<b>{value}</b>" in text
    for part in ("Who beats whom", "Number of references", "Score groups", "Caption length"):
        assert part in text
    dots = [float(x) for x in re.findall(r'<s style="left:([\d.]+)%"', text)]
    bars = re.findall(r'<i style="left:([\d.]+)%;width:([\d.]+)%"', text)
    assert len(dots) == len(bars) == 2
    for dot, (left, width) in zip(dots, bars, strict=True):
        assert 0 <= float(left) <= dot <= float(left) + float(width) <= 100.01
    assert main([*command, str(out), "--quiet"]) == 0
    assert "wrote" not in capsys.readouterr().err
    assert main([*command, str(tmp_path / "why.pdf")]) == 2


def test_boxes_of_objects_are_kept_by_a_stored_table_and_shown_without_a_second_photograph(
    tmp_path,
):
    from captious import demo

    photo = demo.folder() / "photos" / "astronaut.jpg"  # 400 by 400 pixels
    samples = captious.CaptionSet.build(
        ["a person in a suit"], ids=["1"], images=[str(photo)]
    ).with_labels(
        {str(photo): ("person",)},
        "given",
        {str(photo): (Place("person", 0.7, (100, 50, 200, 400)),)},
    )
    stored = tmp_path / "scores.parquet"
    captious.score(samples, metrics=["vifidel"], intervals=False).save(stored)
    page.write(ScoreTable.load(stored), tmp_path / "report.html")
    told = data_of(tmp_path / "report.html")["explained"]["0"][0]["parts"]
    seen = next(p for p in told if p["kind"] == "LabelledPhotograph")
    assert seen["boxes"] == [{"text": "person .70", "box": [0.25, 0.125, 0.5, 1.0]}]
    assert "data:image/" not in json.dumps(told)
