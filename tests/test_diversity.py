"""Diversity of sets of captions: by hand, and Self-CIDEr by the authors' formula written out."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import captious
from captious import registry
from captious.batch import Scorer
from captious.engine.job import ScoringJob
from captious.engine.shards import score_shards
from captious.engine.stream import stream
from captious.errors import InputError, UsageError
from captious.io.sinks import sink_for
from captious.metrics.diversity import Diversity, self_cider
from captious.types import CaptionSet

TEXTS = ["a dog", "a cat", "a man rides a horse", "a man rides a horse", "a red bus"]
IMAGES = ["1", "1", "2", "2", "3"]


def table(metric: Diversity | None = None) -> tuple[np.ndarray, np.ndarray]:
    metric = metric or Diversity()
    samples = CaptionSet.build(TEXTS, images=IMAGES)
    stats = metric.stats(samples, metric.prepare(samples))
    return metric.scores(stats.rows), metric.aggregate(stats.rows)


def test_values_by_hand():
    rows, corpus = table()
    assert rows[0, :2] == pytest.approx([3 / 4, 2 / 4])
    assert rows[2, :2] == pytest.approx([4 / 10, 4 / 10])
    assert rows[2, 2] == pytest.approx(1.0, abs=1e-6)  # each equals the other
    assert rows[2, 3] == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(rows[4, 2:4]).all()
    assert corpus[0] == pytest.approx((3 / 4 + 4 / 10 + 1) / 3)
    assert corpus[3] == pytest.approx((rows[0, 3] + rows[2, 3]) / 2)
    assert corpus[4] == pytest.approx(8)  # a dog cat man rides horse red bus
    assert corpus[5] == 1


def test_self_cider_by_the_formula():
    metric = registry.create("cider_d(df='coco-val')")
    texts = ["a man on a horse", "a man rides a brown horse", "the dog runs"]
    matrix = np.zeros((3, 3))
    for i in range(3):
        for j in range(i, 3):
            pair = CaptionSet.build([texts[i]], [[texts[j]]])
            matrix[i, j] = matrix[j, i] = metric.stats(pair, metric.prepare(pair)).rows[0, 0]
    roots = np.sqrt(np.linalg.svd(matrix)[1])
    expected = -np.log10(roots.max() / roots.sum()) / np.log10(3)
    samples = CaptionSet.build(texts, images=["1"] * 3)
    found = Diversity().stats(samples, Diversity().prepare(samples)).rows
    assert Diversity().scores(found)[0, 3] == pytest.approx(expected, abs=1e-9)
    assert 0 < expected < 1


def test_self_cider_of_the_paper_is_a_cosine():
    """CIDEr in the place of CIDEr-D: no penalty of length, and either order of a pair."""
    metric = registry.create("cider(df='coco-val')")
    texts = ["a man on a horse", "a man on a horse rides a brown horse by the sea", "the dog runs"]
    pairs = CaptionSet.build([a for a in texts for _ in texts], [[b] for _ in texts for b in texts])
    matrix = metric.stats(pairs, metric.prepare(pairs)).rows[:, 0].reshape(3, 3)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
    roots = np.sqrt(np.linalg.svd(matrix)[1])
    expected = np.log(roots.sum() / roots.max()) / np.log(3)
    samples = CaptionSet.build(texts, images=["1"] * 3)
    by_paper, by_release = Diversity(profile="paper"), Diversity()
    values = [m.scores(m.stats(samples, m.prepare(samples)).rows)[0] for m in
              (by_paper, by_release)]  # fmt: skip
    assert values[0][3] == pytest.approx(expected, abs=1e-9)
    assert values[0][3] < values[1][3]  # the difference in length counts for diversity in CIDEr-D
    np.testing.assert_array_equal(np.delete(values[0], 3), np.delete(values[1], 3))
    with pytest.raises(UsageError, match="release or paper"):
        Diversity(profile="clean")


def test_limits():
    assert self_cider(np.eye(5) * 10) == pytest.approx(1)
    assert self_cider(np.full((5, 5), 7.0)) == pytest.approx(0, abs=1e-6)
    assert self_cider(np.zeros((2, 2))) == 0


def test_systems_are_kept_apart():
    samples = CaptionSet.build(["a dog", "a dog"], images=["1", "1"], systems=["x", "y"])
    metric = Diversity()
    rows = metric.scores(metric.stats(samples, metric.prepare(samples)).rows)
    assert rows[:, 0].tolist() == [1, 1]
    assert rows[:, 4].tolist() == [2, 2]


def test_novel_captions(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("A dog.\na tree\n")
    metric = Diversity(seen=str(path))
    rows, corpus = table(metric)
    assert rows[:, 5].tolist() == [0, 1, 1, 1, 1]
    assert corpus[5] == pytest.approx(4 / 5)
    before = metric.signature("0", None)
    assert "|seen:train.txt(2," in before
    path.write_text("A dog.\na cat\n")  # as many lines, other captions: read again, signed anew
    assert metric.signature("0", None) != before
    assert table(metric)[0][:, 5].tolist() != rows[:, 5].tolist()
    with pytest.raises(InputError, match="no file"):
        Diversity(seen=str(tmp_path / "absent"))


def test_the_table_of_frequencies_is_signed_by_its_content():
    assert re.search(r"\|df:coco-val\(\d+,[0-9a-f]{8}\)\|", Diversity().signature("0", None))


def test_without_a_file_references_are_what_is_known():
    samples = CaptionSet.build(["A dog", "a cat"], [["a dog."], ["a dog"]], images=["1", "2"])
    metric = Diversity()
    rows = metric.scores(metric.stats(samples, metric.prepare(samples)).rows)
    assert rows[:, 5].tolist() == [0, 1]


def test_every_way_of_running_gives_the_same(tmp_path):
    """Sets are made of the captions of the run: none may be frozen or counted in part."""
    names = [f"c{i}" for i in range(5)]
    keyed = dict(zip(names, TEXTS, strict=True))
    seen = dict(zip(names, IMAGES, strict=True))
    whole = captious.score(keyed, images=seen, metrics="diversity", intervals=False)
    prepared = captious.scorer("diversity", references={n: ["a bird"] for n in names})
    called = prepared(keyed, images=seen)
    for column, values in whole.values.items():
        np.testing.assert_array_equal(called[column], values)
        assert called.corpus[column] == whole.corpus[column]
    assert not prepared.steady
    order = [0, 2, 4, 1, 3]  # two captions of an image are in different files
    rows = [{"id": names[i], "image": IMAGES[i], "caption": TEXTS[i]} for i in order]
    folder = tmp_path / "in"
    folder.mkdir()
    for part, some in {"in/0": rows[:3], "in/1": rows[3:], "all": rows}.items():
        lines = "".join(json.dumps(row) + "\n" for row in some)
        (tmp_path / f"{part}.jsonl").write_text(lines)
    one = ScoringJob([tmp_path / "all.jsonl"], metrics="diversity")
    streamed = stream(one, sink_for(tmp_path / "out.parquet"), rows=2)
    parts = ScoringJob([folder], metrics="diversity")
    sharded = score_shards(parts, tmp_path / "shards", rows=2)
    for column, value in whole.corpus.items():
        assert streamed.corpus[column] == pytest.approx(value, rel=1e-12, nan_ok=True)
        assert sharded.corpus[column] == pytest.approx(value, rel=1e-12, nan_ok=True)
    with pytest.raises(UsageError, match="captions of the whole run"):
        Scorer("diversity")


def test_it_says_what_is_said_often():
    metric = Diversity()
    samples = CaptionSet.build(TEXTS, images=IMAGES)
    told = metric.explain(samples[2], metric.prepare(samples))
    assert "2 captions" in told.text
    assert "horse 2 times" in told.text
    assert "Self-CIDEr" in told.text
    (drawn,) = metric.explain(samples[0], metric.prepare(samples)).parts
    states = {mark.word: mark.state for mark in drawn.words}
    assert states == {"a": "lowers", "cat": "raises", "dog": "raises"}  # "a" stands twice
