"""The engine: plan, run, intervals, parts, tables, comparisons."""

from __future__ import annotations

import csv
import json
import pickle

import numpy as np
import pyarrow.parquet as pq
import pytest

import captious
from captious.engine.cache import StatisticsCache
from captious.engine.compare import _Pair, _swaps, compare
from captious.engine.executors import Processes
from captious.engine.job import ScoringJob, score
from captious.engine.run import run
from captious.engine.table import ScoreTable, join
from captious.errors import CaptiousError, InputError, UsageError
from captious.io import tables
from captious.metrics.base import Stats
from captious.metrics.bleu import Bleu
from captious.metrics.rouge_l import RougeL
from captious.statistics import bootstrap
from captious.statistics.corrections import corrected
from captious.types import CaptionSet

WORDS = "a the dog cat man runs sits on red bus street park green ball small big".split()


def made(n: int, seed: int = 0, systems: int = 1, noise: float = 0.5) -> CaptionSet:
    """Captions that share words with their references; later systems are noisier."""
    rng = np.random.default_rng(seed)
    refs = [[" ".join(rng.choice(WORDS, 8)) for _ in range(3)] for _ in range(n)]
    captions, ids, names = [], [], []
    for s in range(systems):
        for i in range(n):
            words = refs[i][0].split()
            for k in range(len(words)):
                if rng.random() < noise + 0.25 * s:
                    words[k] = str(rng.choice(WORDS))
            captions.append(" ".join(words))
            ids.append(str(i))
            names.append(f"s{s}")
    return CaptionSet.build(captions, refs * systems, ids=ids, images=ids, systems=names)


def test_batches_and_whole_agree(monkeypatch):
    samples = made(50)
    whole = run(samples, ["bleu", "cider_d"], resamples=0)
    for size in (1, 7, 49):
        monkeypatch.setattr("captious.metrics.base.Metric.batch", size)
        parts = run(samples, ["bleu", "cider_d"], resamples=0)
        for column in whole.values:
            np.testing.assert_array_equal(whole[column], parts[column])
            assert whole.corpus[column] == parts.corpus[column]


def test_rows_without_references_are_unscored_with_a_reason():
    table = captious.score(
        ["a dog", "a cat", "a bus"], [["a dog"], [], ["a bus"]], metrics="rouge_l"
    )
    assert np.isnan(table["rouge_l"][1])
    assert [(u.id, u.reason) for u in table.unscored] == [("1", "it has no reference")]
    assert table.corpus["rouge_l"] == pytest.approx(1.0)


def test_missing_inputs_are_listed_together():
    with pytest.raises(CaptiousError) as err:
        captious.score(["a dog"], metrics="bleu,rouge_l")
    assert str(err.value).count("needs references") == 2


def test_unknown_metric_before_anything_runs():
    with pytest.raises(UsageError, match="Did you mean 'bleu'"):
        captious.score(["a"], [["a"]], metrics="blue")


def test_bootstrap_agrees_with_plain_resampling():
    """Intervals from summed statistics equal those of recomputing BLEU on resampled rows."""
    samples = made(40)
    rows = Bleu().stats(samples, None).rows
    [(totals, counts)] = bootstrap.resampled([rows], [np.ones(40)], 300, seed=5)
    weights = np.concatenate(list(bootstrap.draws(40, 300, 5)))
    assert (weights.sum(axis=1) == 40).all()
    assert (counts == 40).all()
    again = [Bleu().aggregate(np.repeat(rows, w.astype(int), axis=0)) for w in weights[:20]]
    np.testing.assert_allclose(Bleu().corpus(totals[:20], counts[:20]), again, atol=1e-12)


def test_interval_holds_the_value_and_shrinks():
    small, large = (run(made(n), ["rouge_l"]).corpus["rouge_l"] for n in (30, 480))
    for value in (small, large):
        assert value.low < value < value.high
    assert large.high - large.low < 0.5 * (small.high - small.low)


def test_bootstrap_is_over_images():
    """Ten captions of each image are no more evidence than the images they show."""
    one = made(40)
    ten = one.take(np.repeat(np.arange(40), 10))
    a, b = (run(s, ["rouge_l"]).corpus["rouge_l"] for s in (one, ten))
    assert b.high - b.low == pytest.approx(a.high - a.low, rel=0.15)


def test_seed_decides_and_is_in_the_signature():
    samples = made(30)
    a, b = (run(samples, ["bleu"], seed=1) for _ in range(2))
    c = run(samples, ["bleu"], seed=2)
    assert a.corpus["bleu_1"].low == b.corpus["bleu_1"].low != c.corpus["bleu_1"].low
    assert a.signatures["bleu_1"].endswith("|bs:1000|rs:1")


class Fragile(RougeL):
    """Dies in the third batch until it is told not to."""

    alive = False
    calls = 0
    batch = 10

    def stats(self, samples: CaptionSet, context: object) -> Stats:
        type(self).calls += 1
        if type(self).calls == 3 and not type(self).alive:
            raise KeyboardInterrupt
        return super().stats(samples, context)


def test_a_killed_run_resumes(tmp_path):
    samples, cache = made(50), StatisticsCache(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        run(samples, [Fragile()], resamples=0, cache=cache)
    assert len(list((tmp_path / "kept").rglob("*.npz"))) == 2
    Fragile.alive, Fragile.calls = True, 0
    table = run(samples, [Fragile()], resamples=0, cache=cache)
    assert Fragile.calls == 3
    np.testing.assert_array_equal(
        table["rouge_l"], run(samples, ["rouge_l"], resamples=0)["rouge_l"]
    )
    Fragile.calls = 0
    run(made(50, seed=9), [Fragile()], resamples=0, cache=cache)
    assert Fragile.calls == 5, "statistics of other data must not be used"


def test_two_parameterisations_get_two_columns():
    table = run(made(20), ["cider_d", "cider_d(by=row)"], resamples=0)
    assert list(table.values) == ["cider_d", "cider_d(by='row')"]


def test_formats_hold_corpus_and_captions(tmp_path):
    table = run(made(12, systems=2), ["bleu_4", "rouge_l"])
    for name in ("a.json", "a.jsonl", "a.csv", "a.parquet", "a.md", "a.tex", "a.txt"):
        table.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 350
    assert not list(tmp_path.glob(".*")), "no temporary file is left"
    whole = json.loads((tmp_path / "a.json").read_text())
    assert set(whole["systems"]) == {"s0", "s1"}
    assert len(whole["captions"]) == 24
    assert whole["captions"][0]["rouge_l"] == table["rouge_l"][0]
    lines = [json.loads(x) for x in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert len(lines) == 25
    assert "systems" in lines[0]
    rows = pq.read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(rows["rouge_l"].to_numpy(), table["rouge_l"])
    assert b"captious" in rows.schema.metadata
    captions = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [float(row["rouge_l"]) for row in captions] == table["rouge_l"].tolist()
    corpus = list(csv.DictReader((tmp_path / "a.corpus.csv").read_text().splitlines()))
    assert [(row["system"], row["metric"]) for row in corpus] == [
        (s, m) for s in ("s0", "s1") for m in ("bleu_4", "rouge_l")
    ]
    for name in ("a.md", "a.tex", "a.txt"):
        text = (tmp_path / name).read_text()
        assert "rouge" in text
        assert "bs:1000" in text
    with pytest.raises(UsageError, match="cannot tell the format"):
        table.save(tmp_path / "a.docx")


def test_json_is_written_in_parts_that_add_up(tmp_path, monkeypatch):
    """What stands in the file is what the whole table is as JSON."""
    monkeypatch.setattr(tables, "_PART", 2)
    references = [["a dog runs"], ["cats"], ["x"]]
    table = captious.score(["a dog", "a cat", ""], references, metrics="bleu,rouge_l")
    table.save(tmp_path / "t.json")
    whole = json.dumps(tables.to_json(table), indent=1, ensure_ascii=False) + "\n"
    assert (tmp_path / "t.json").read_text(encoding="utf-8") == whole
    assert "".join(tables._listed([], 1)) == json.dumps([], indent=1)
    table.save(tmp_path / "t.csv")
    rows = (tmp_path / "t.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows] == ["id", *table.ids]


def test_one_system_has_the_documented_json():
    from captious.io.tables import to_json

    whole = to_json(run(made(5), ["rouge_l"]))
    assert set(whole["corpus"]["rouge_l"]) == {"value", "low", "high"}
    assert {"id", "caption", "rouge_l"} <= set(whole["captions"][0])


def test_compare_finds_a_real_difference_and_not_a_false_one():
    samples = made(150, systems=2, noise=0.2)
    found = compare(run(samples, ["rouge_l", "bleu_1"], resamples=0))
    assert all(d.significant and d.difference < 0 for d in found.differences)
    assert found.beats("rouge_l", "s0") == ["s1"]
    assert found.beats("rouge_l", "s1") == []
    rng = np.random.default_rng(1)
    base = made(150)
    swapped = CaptionSet.build(
        base.captions() + [base.captions()[i] for i in rng.permutation(150)],
        base.references() + base.references(),
        ids=[*base.ids, *base.ids],
        systems=["x"] * 150 + ["y"] * 150,
    )
    same = CaptionSet.build(
        base.captions() * 2,
        base.references() * 2,
        ids=[*base.ids, *base.ids],
        systems=["x"] * 150 + ["y"] * 150,
    )
    [equal] = compare(run(same, ["rouge_l"], resamples=0)).differences
    assert equal.difference == 0
    assert equal.p_randomisation == 1.0
    assert not equal.significant
    [worse] = compare(run(swapped, ["rouge_l"], resamples=0)).differences
    assert worse.significant


def test_randomisation_p_values_are_uniform_under_the_null():
    """Two systems of the same kind: p < .1 in a tenth of repeated experiments, p < .5 in half."""
    rng = np.random.default_rng(7)
    found = []
    for seed in range(400):
        pair = [(rng.normal(size=(40, 1)), np.ones(40)) for _ in range(2)]
        tested = _Pair(RougeL(), *pair)
        for weights in bootstrap.draws(40, 200, seed):
            tested.draw(weights)
        for swap in _swaps(40, 200, seed + 1):
            tested.swap(swap)
        found.append(tested.result(200)["p_randomisation"])
    p = np.array(found).ravel()
    assert 0.06 <= (p < 0.1).mean() <= 0.14  # three standard deviations to either side
    assert 0.42 <= (p < 0.5).mean() <= 0.58


def test_compare_needs_the_same_samples():
    samples = made(10, systems=2).take(np.arange(18))
    with pytest.raises(InputError, match="s1 lacks 2"):
        compare(run(samples, ["rouge_l"], resamples=0))
    with pytest.raises(UsageError, match="at least two"):
        compare(run(made(5), ["rouge_l"], resamples=0))


def test_holm_and_bh():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(corrected(p, "holm"), [0.03, 0.06, 0.06, 0.02])
    assert (corrected(p, "bh") <= corrected(p, "holm")).all()
    np.testing.assert_array_equal(corrected(p, "none"), p)


def test_callable_metric():
    judge = captious.metric("cider_d(df='coco-val')")
    corpus, single = judge(["a dog runs"], [["a dog is running"]])
    assert corpus["cider_d"] == pytest.approx(single["cider_d"][0])
    value, values = captious.metric("rouge_l").compute_score({1: ["a dog"]}, {1: ["a dog"]})
    assert value == pytest.approx(1.0)
    assert list(values) == [1.0]


@pytest.mark.parametrize("name", ["bleu", "rouge_l", "cider_d"])
def test_explanations_are_plain_data(name):
    corpus = made(10)
    found = captious.explain(name, "a red dog", ["a small red dog", "the dog"], corpus=corpus)
    assert found.text
    json.dumps(found.data)


@pytest.mark.parametrize("name", ["a.parquet", "a.json", "a.jsonl"])
def test_a_stored_table_reads_back_whole(tmp_path, name):
    table = captious.score(made(12, systems=2), metrics=["bleu", "cider_d"])
    table.save(tmp_path / name)
    again = ScoreTable.load(tmp_path / name)
    assert again.corpora == table.corpora
    assert again.signatures == table.signatures
    assert again.job == table.job
    assert again.samples.references() == table.samples.references()
    for column in table.values:
        np.testing.assert_array_equal(again[column], table[column])
    for a, b in zip(again.blocks, table.blocks, strict=True):
        np.testing.assert_array_equal(a, b)
    assert compare(again, trials=50).differences == compare(table, trials=50).differences


def test_reading_back_keeps_nan_and_its_reason(tmp_path):
    table = captious.score(["a dog", "a cat"], [["a dog"], []], metrics="rouge_l")
    for name in ("a.parquet", "a.json"):
        table.save(tmp_path / name)
        again = ScoreTable.load(tmp_path / name)
        assert np.isnan(again["rouge_l"][1])
        assert again.unscored == table.unscored


def test_what_is_no_stored_table_says_so(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "a.csv").write_text("id,caption")
    for name in ("a.json", "a.csv", "absent.parquet"):
        with pytest.raises(InputError, match=name.partition(".")[0]):
            ScoreTable.load(tmp_path / name)


def test_tables_of_the_same_metrics_join(tmp_path):
    both = made(12, systems=2)
    rows = [np.flatnonzero(both.systems == s) for s in ("s0", "s1")]
    parts = [run(both.take(r), ["rouge_l"]) for r in rows]
    joined = join(parts, ["x", "y"])
    assert joined.corpora == run(both, ["rouge_l"]).corpora
    with pytest.raises(InputError, match="same metrics"):
        join([parts[0], run(both, ["bleu"])], ["x", "y"])


def test_processes_give_the_same_bits():
    samples = made(600, systems=2)
    metrics = ["bleu", "rouge_l", "cider_d", "cider_d(by=row)"]
    here = run(samples, metrics, resamples=0)
    there = run(samples, metrics, resamples=0, executor=Processes(2))
    for column in here.values:
        np.testing.assert_array_equal(here[column], there[column])
    assert here.corpora == there.corpora
    assert here.signatures == there.signatures


def test_chunks_are_cut_by_image_and_small():
    samples = made(100, systems=3)
    run(samples, ["cider_d"], resamples=0)  # fills the working memory of the pool
    chunks = samples.chunks(10)
    assert sorted(np.concatenate(chunks).tolist()) == list(range(300))
    images = [set(samples.images[rows]) for rows in chunks]
    assert sum(len(i) for i in images) == 100, "an image stands in one chunk only"
    one = samples.take([7]).compact()
    assert one[0] == samples[7]
    assert len(pickle.dumps(one)) < 10_000


def test_a_job_is_data(tmp_path):
    captions = [{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "a cat"}]
    (tmp_path / "caps.json").write_text(json.dumps(captions))
    (tmp_path / "refs.json").write_text(json.dumps({"1": ["a dog"], "2": ["one cat"]}))
    job = ScoringJob(tmp_path / "caps.json", tmp_path / "refs.json", metrics="bleu,cider_d", seed=3)
    stored = json.loads(json.dumps(job.to_json()))
    again = ScoringJob.from_json(stored)
    assert again.to_json() == job.to_json()
    assert score(again).corpora == score(job).corpora
    (tmp_path / "refs.json").write_text(json.dumps({"1": ["a cow"], "2": ["one cat"]}))
    with pytest.raises(InputError, match="sha256"):
        ScoringJob.from_json(stored)


def test_a_job_refuses_before_it_reads(tmp_path):
    for job, match in (
        (ScoringJob("absent.json", metrics=("blue",)), "no metric is called 'blue'"),
        (ScoringJob("absent.json", "gone.json", images="nowhere"), "absent.json"),
        (ScoringJob(["a dog"], regions=tmp_path / "none"), "no such store"),
    ):
        with pytest.raises(CaptiousError, match=match):
            job.check()
    with pytest.raises(UsageError, match="seed"):
        ScoringJob(["a dog"], seed=-1)


def test_paths_of_python_runs_are_paths(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(
            json.dumps([{"image_id": 1, "caption": f"{name} dog"}])
        )
    (tmp_path / "refs.json").write_text(json.dumps({"1": ["a dog"]}))
    (tmp_path / "labels.json").write_text(json.dumps({"1": ["dog"]}))
    paths = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    table = captious.score(paths, str(tmp_path / "refs.json"), metrics="rouge_l",
                           objects=str(tmp_path / "labels.json"))  # fmt: skip
    assert list(table.corpora) == ["a", "b"]
    assert table.samples[0].objects == ("dog",)
    assert "labels.json" in json.dumps(table.job)


class Counting(RougeL):
    """Counts how often it is asked."""

    calls = 0

    def stats(self, samples: CaptionSet, context: object) -> Stats:
        type(self).calls += 1
        return super().stats(samples, context)


def test_kept_statistics_hang_on_everything_that_is_read(tmp_path):
    """Another evidence, another content: nothing old comes back."""
    from captious.types import Need

    class Looking(Counting):
        needs = frozenset({Need.REFERENCES, Need.IMAGE_OBJECTS})

    cache = StatisticsCache(tmp_path)
    samples = made(20)
    images = samples.image_keys.tolist()
    labels = {str(i): ("dog",) for i in images}
    for number, (change, calls) in enumerate(
        [
            (labels, 1),
            (labels, 1),
            (labels | {str(images[0]): ("cat",)}, 2),
        ]
    ):
        run(samples.with_labels(change), [Looking()], resamples=0, cache=cache)
        assert Looking.calls == calls, number


def test_metrics_is_a_function_after_scoring():
    captious.score(["a dog"], [["a dog"]], metrics="rouge_l")
    assert "bleu" in captious.metrics()
    assert captious.metrics.bleu.Bleu is Bleu, "the room is still there"


def test_repr_is_short():
    table = run(made(12, systems=2), ["bleu", "rouge_l", "cider_d"])
    assert len(repr(table)) < 400
    assert "24 captions" in repr(table)
    assert "<table>" in table._repr_html_()
    assert "s0" in str(compare(table, trials=20))
    assert len(repr(compare(table, trials=20))) < 200
    frame = table.to_pandas()
    assert frame["rouge_l"].dtype == np.float64
    assert "\\mathbf" in table.to_latex()


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, capsys):
    from captious.cli import main

    (tmp_path / "file").write_text("")
    for output, said in (
        (tmp_path / "a.docx", "format"),
        (tmp_path, "folder"),
        (tmp_path / "file/below.json", "is a file"),
    ):
        code = main(["score", "absent.json", "-m", "bleu", "-o", str(output)])
        assert code == 2
        assert said in capsys.readouterr().err


def test_explain_looks_at_the_photograph_itself(cache):
    pytest.importorskip("cv2")
    from captious.demo import photographs

    cat = next(str(p) for p in photographs() if p.name == "cat.jpg")
    told = captious.explain("vifidel", "a cat looks at the camera", image=cat)
    assert "cat" in told.text


def test_a_metric_that_reads_pixels_is_one_file(tmp_path, cache):
    """Its class alone: the engine finds the photographs, keeps statistics by their content."""
    from dataclasses import dataclass

    from PIL import Image

    from captious.evidence.images import open_image
    from captious.metrics.base import Column, Metric
    from captious.types import Need

    @dataclass(frozen=True)
    class Brightness(Metric):
        name = "brightness"
        needs = frozenset({Need.IMAGE_PIXELS})
        columns = (Column("brightness", 0.0, 255.0, "mean of the pixels"),)

        def stats(self, samples, context):
            calls.append(len(samples))
            values = [np.asarray(open_image(image)).mean() for image in samples.images]
            return Stats(np.array(values)[:, None])

    calls: list[int] = []
    for shade in (10, 200):
        Image.new("RGB", (8, 8), (shade,) * 3).save(tmp_path / f"{shade}.png")
    samples = CaptionSet.build(
        ["dark", "light", "no picture"],
        images=[str(tmp_path / "10.png"), str(tmp_path / "200.png"), None],
    )
    kept = StatisticsCache(tmp_path / "kept")
    for _ in range(2):
        table = run(samples, [Brightness()], resamples=0, cache=kept)
        assert table["brightness"][:2].tolist() == [10.0, 200.0]
        assert table.unscored[0].reason == "it has no image"
    assert len(calls) == 1
    Image.new("RGB", (8, 8), (30, 30, 30)).save(tmp_path / "10.png")
    assert run(samples, [Brightness()], resamples=0, cache=kept)["brightness"][0] == 30.0


def test_a_second_executor_is_a_map():
    """Whatever maps a function over chunks is an executor; this one begins with the last."""

    class Backwards:
        workers = 3

        def map(self, function, items):
            return iter([function(item) for item in list(items)[::-1]][::-1])

    samples = made(900)
    here, there = (
        run(samples, ["bleu", "cider_d"], resamples=0, executor=e) for e in (None, Backwards())
    )
    for column in here.values:
        np.testing.assert_array_equal(here[column], there[column])
