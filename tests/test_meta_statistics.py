"""Agreement and significance against scipy, brute force and published examples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from captious.judgements.judgement_set import Pairs, Ratings
from captious.meta import agreement
from captious.statistics import bootstrap, corrections, significance


@pytest.fixture(params=[0, 1, 6], ids=["many ties", "ties", "few ties"])
def data(request):
    rng = np.random.default_rng(3)
    n, size = 400, 37
    y = rng.integers(1, 5, n).astype(float)
    x = np.round(0.4 * y + rng.normal(size=n), request.param)
    return significance.Observations(x, y, rng.integers(0, size, n), size)


SCIPY = {
    "tau-b": lambda x, y: stats.kendalltau(x, y, variant="b").statistic,
    "tau-c": lambda x, y: stats.kendalltau(x, y, variant="c").statistic,
    "rho": lambda x, y: stats.spearmanr(x, y).statistic,
    "r": lambda x, y: stats.pearsonr(x, y).statistic,
}


@pytest.mark.parametrize("measure", SCIPY)
def test_every_resample_equals_scipy_on_the_repeated_rows(data, measure):
    weights = bootstrap.all_draws(data.size, 25, seed=1)
    ours = significance.resampled(measure, data, weights)
    for w, value in zip(weights, ours, strict=True):
        rows = np.repeat(np.arange(len(data.x)), w[data.units].astype(int))
        assert value == pytest.approx(SCIPY[measure](data.x[rows], data.y[rows]), abs=1e-12)


def test_tau_c_counts_classes_of_the_resample():
    # A resample may hold fewer score classes than rating levels: tau-c's denominator changes.
    x = np.array([0.0, 0, 0, 1, 1, 1])
    y = np.array([1.0, 2, 3, 2, 3, 4])
    data = significance.Observations(x, y, np.array([0, 0, 1, 1, 2, 2]), 3)
    weights = np.array([[1.0, 1, 1], [2, 0, 1], [0, 2, 1]])
    for w, value in zip(weights, significance.resampled("tau-c", data, weights), strict=True):
        rows = np.repeat(np.arange(6), w[data.units].astype(int))
        assert value == pytest.approx(SCIPY["tau-c"](x[rows], y[rows]), abs=1e-12)


@pytest.mark.parametrize("measure", SCIPY)
def test_permutation_equals_a_plain_loop(data, measure):
    rng = np.random.default_rng(8)
    other = 0.1 * data.y + rng.normal(size=len(data.x))
    gap, p = significance.permutation(
        measure, data.x, other, data.y, data.units, data.size, trials=60, seed=5
    )
    a, b = (significance.standardised(v, measure) for v in (data.x, other))
    swap = np.random.default_rng(5).integers(0, 2, (60, data.size), np.int8)
    swap = np.vstack([np.zeros((1, data.size), int), swap])  # first, the observed assignment
    gaps = []
    plain = SCIPY["r" if measure == "rho" else measure]  # ranks are not ranked anew
    y = stats.rankdata(data.y) if measure == "rho" else data.y
    for s in swap:
        turn = s[data.units] == 1
        first, second = np.where(turn, b, a), np.where(turn, a, b)
        gaps.append(plain(first, y) - plain(second, y))
    assert gap == pytest.approx(gaps[0], abs=1e-12)
    assert gap == pytest.approx(
        SCIPY[measure](data.x, data.y) - SCIPY[measure](other, data.y), abs=1e-9
    )
    far = sum(abs(g) >= abs(gaps[0]) - 1e-12 for g in gaps[1:])
    assert p == pytest.approx((far + 1) / 61)


def test_permutation_finds_no_difference_between_equals_and_one_between_unequals():
    rng = np.random.default_rng(0)
    y = rng.integers(1, 6, 900).astype(float)
    units = np.arange(900) // 3
    good, same, bad = (y + rng.normal(size=900) * s for s in (1.0, 1.0, 6.0))
    assert significance.permutation("tau-b", good, same, y, units, 300, 500, 1)[1] > 0.05
    assert significance.permutation("tau-b", good, bad, y, units, 300, 500, 1)[1] < 0.01


def test_the_linear_way_of_tau_c_equals_the_kernel(data):
    other = np.random.default_rng(8).normal(size=len(data.x))
    a, b = (significance.standardised(v, "tau-c") for v in (data.x, other))
    turn = np.random.default_rng(1).integers(0, 2, (30, data.size)) * 2.0 - 1.0
    both = significance.Observations(
        np.concatenate([a, b]),
        np.concatenate([data.y, data.y]),
        np.concatenate([data.units, data.units + data.size]),
        2 * data.size,
    )
    first = np.hstack([(1 + turn) / 2, (1 - turn) / 2])
    values, others = significance.kernel(both).tau_both(first, "tau-c")
    linear = turn @ significance.tau_c_gap(a, b, data.y, data.units, data.size)
    assert linear == pytest.approx(values - others, abs=1e-12)


def test_permutation_of_accuracies():
    rng = np.random.default_rng(0)
    a, b = (rng.random(600) < 0.9).astype(float), (rng.random(600) < 0.6).astype(float)
    units = np.arange(600) // 2
    parts = np.column_stack(
        [significance.accuracy_gap(a, b, units, 300), significance.accuracy_gap(a, a, units, 300)]
    )
    gaps, p = significance.flips(parts, 3000, 1)
    assert gaps == pytest.approx([a.mean() - b.mean(), 0.0])
    assert p[0] < 0.01
    assert p[1] == 1.0


def test_williams_published_example():
    # The example of r.test in R's package psych: n=103, r12=.4, r13=.5, r23=.1 -> t=-.89, p=.37.
    t, p = significance.williams(0.4, 0.5, 0.1, 103)
    assert t == pytest.approx(-0.89, abs=0.005)
    assert p == pytest.approx(0.37, abs=0.01)


def test_holm():
    found = corrections.corrected(np.array([0.01, 0.04, np.nan, 0.03]))
    assert found[[0, 1, 3]] == pytest.approx([0.03, 0.06, 0.06])
    assert np.isnan(found[2])


def test_many_images_become_blocks(monkeypatch):
    monkeypatch.setattr(significance, "MAX_UNITS", 10)
    units = np.arange(95)
    found, size = significance.blocks(units, 95, seed=1)
    assert size == 10
    assert set(np.bincount(found).tolist()) == {9, 10}


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        effect = np.repeat(rng.normal(size=60), 3)  # images share an effect: rows are dependent
        x = effect + rng.normal(size=180)
        y = effect + rng.normal(size=180)
        data = significance.Observations(x, y, np.arange(180) // 3, 60)
        low, high = bootstrap.single_interval(
            significance.pearson(data, bootstrap.all_draws(60, 300, seed=2))
        )
        hits += low <= 0.5 <= high  # the true correlation is 1 / 2
    assert 0.90 <= hits / 400 <= 0.98  # a percentile interval of 60 images covers a little less


def test_an_interval_without_a_single_known_draw_is_unknown():
    """As of constant scores: `captious meta` ended in a ValueError."""
    low, high = bootstrap.single_interval(np.full(100, np.nan))
    assert np.isnan([low, high]).all()


def test_measures_have_no_value_without_variation():
    for measure in agreement.MEASURES.values():
        assert np.isnan(measure([1, 1, 1], [1, 2, 3]))
        assert measure([1, 2, 3], [1, 2, 3]) == pytest.approx(1.0)


@pytest.mark.parametrize(("ties", "share"), [("strict", 0.25), ("half", 0.5), ("correct", 0.75)])
def test_tie_rules(ties, share):
    first, second = np.array([0.5, 0.5, 0.9, 0.1, 0.3]), np.array([0.5, 0.5, 0.2, 0.6, 0.2])
    people = np.array([1.0, -1, 1, 1, 0])
    credit = agreement.credit(first, second, people, ties)
    assert np.isnan(credit[4])  # people were undecided
    assert np.nanmean(credit) == share


def test_unscored_pairs_have_no_credit():
    found = agreement.credit(np.array([np.nan]), np.array([1.0]), np.array([1.0]), "correct")
    assert np.isnan(found).all()


def test_leave_one_out():
    x, y = np.array([1.0, 2, 3, 10]), np.array([1.0, 3, 2, 10])
    low, high = agreement.leave_one_out(x, y)
    rest = [stats.pearsonr(np.delete(x, i), np.delete(y, i)).statistic for i in range(4)]
    assert (low, high) == pytest.approx((min(rest), max(rest)))


def test_voters_ceiling():
    # 3 to 0: each voter meets two like-minded ones; 2 to 1: two see a draw, one is outvoted.
    votes = np.array([[3.0, 0.0], [2.0, 1.0]])
    found = agreement._voter_ceiling(votes)
    assert next(iter(found.values())) == pytest.approx((1.0 + (2 * 0.5 + 0.0) / 3) / 2)
    assert Pairs(np.array([0]), np.array([1]), votes[:1]).preference.tolist() == [1.0]


def test_rating_matrix():
    ratings = Ratings(np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0]), np.array([0, 1, 1]), 1, 4)
    table = agreement.rating_matrix(ratings, 2)
    assert np.isnan(table[1, 0])
    assert table[1, 1] == 3.0
