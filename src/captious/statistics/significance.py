"""Intervals and tests for agreement with people. Images are the units, never rows: captions of
one image share their references and their judges.

Kendall's numerator is a quadratic form of how often each image is drawn. With K[a, b] the sum of
sign(x_i - x_j) sign(y_i - y_j) over the observations i of image a and j of image b, the concordant
minus discordant pairs of a resample with weights w are w'Kw / 2. K is built once, in one sweep over
the sorted scores, and a thousand resamples are one matrix product: exact, no approximation.

The permutation test (PERM-BOTH of Deutsch et al. 2021) swaps the scores of two metrics image by
image; with the observations of both metrics side by side that is a choice of weights again.
"""  # noqa: D205

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from captious.types import Floats, Ints

MAX_UNITS = 2000  # more images are gathered into this many random blocks (memory: units squared)
_BLOCK = 4_000_000
_FLIPS = 2000


@dataclass(frozen=True)
class Observations:
    """Scores beside ratings.

    Attributes:
        x: score of every observation.
        y: rating of every observation.
        units: image number of every observation.
        size: number of images.
    """

    x: Floats
    y: Floats
    units: Ints
    size: int


def blocks(units: Ints, size: int, seed: int) -> tuple[Ints, int]:
    """Gather images into at most ``MAX_UNITS`` random blocks of nearly equal size."""
    if size <= MAX_UNITS:
        return units, size
    place = np.random.default_rng(seed).permutation(size) % MAX_UNITS
    return place[units], MAX_UNITS


@dataclass(frozen=True)
class Kernel:
    """Everything that tau of any reweighting of images needs.

    Attributes:
        signs: (size, size) sums of sign products between images.
        ties: (size, size) number of observation pairs with equal scores between images; sparse
            where few scores are equal.
        levels: (size, levels) number of observations with each rating.
        scores: (scores, size) number of observations with each score; only for few scores.
    """

    signs: Floats
    ties: Any
    levels: Floats
    scores: Floats | None

    def tau(self, weights: Floats, variant: str) -> Floats:
        """Return tau-b or tau-c for each row of weights."""
        return self._tau(weights, variant, weights @ self.signs)

    def tau_both(self, weights: Floats, variant: str) -> tuple[Floats, Floats]:
        """Return tau for 0/1 weights and for their complement, with one matrix product."""
        product = weights @ self.signs
        return self._tau(weights, variant, product), self._tau(
            1 - weights, variant, self.signs.sum(axis=0) - product
        )

    def _tau(self, weights: Floats, variant: str, product: Floats) -> Floats:
        counts = self.levels.sum(axis=1)
        n = weights @ counts
        numerator = np.einsum("ru,ru->r", product, weights) / 2
        per_level = weights @ self.levels
        with np.errstate(invalid="ignore", divide="ignore"):
            if variant == "tau-c":
                classes = (per_level > 0).sum(axis=1)
                if self.scores is not None:
                    classes = np.minimum(classes, (weights @ self.scores.T > 0).sum(axis=1))
                return np.asarray(2 * numerator * classes / (n**2 * (classes - 1)))
            total = n * (n - 1) / 2
            tied = np.einsum("ur,ru->r", self.ties @ weights.T, weights)
            x_ties = (tied - n) / 2
            y_ties = ((per_level**2).sum(axis=1) - n) / 2
            return np.asarray(numerator / np.sqrt((total - x_ties) * (total - y_ties)))


def kernel(data: Observations) -> Kernel:
    """Build the kernel: one sweep over the observations in order of their score."""
    from scipy import sparse

    values, level = np.unique(data.y, return_inverse=True)
    distinct, group = np.unique(data.x, return_inverse=True)
    size, steps = data.size, len(values)
    direction = np.sign(np.arange(steps)[:, None] - np.arange(steps)[None, :]).astype(float)
    signs = np.zeros((size, size))
    lower = np.zeros((steps, size))  # what an observation of each rating gains over those below
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=len(distinct)))
    units, levels = data.units, level
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        tied = order[start:stop]
        for i in tied:
            signs[units[i]] += lower[levels[i]]
        for i in tied:
            lower[:, units[i]] += direction[:, levels[i]]
    ones = np.ones(len(units))
    seen = sparse.csr_matrix((ones, (group, units)), shape=(len(distinct), size))
    per_level = np.zeros((size, steps))
    np.add.at(per_level, (units, levels), 1.0)
    ties = (seen.T @ seen).tocsr()
    return Kernel(
        signs + signs.T,
        ties if ties.nnz < 0.05 * size**2 else ties.toarray(),
        per_level,
        seen.toarray() if len(distinct) <= 256 else None,
    )


def spearman(data: Observations, weights: Floats) -> Floats:
    """Return Spearman's rho of every resample (mid-ranks of the resample itself).

    Observations of one image with the same score and rating are one cell; ranks are those of the
    resample, shifted by one half (the mean of n ranks is then n / 2).
    """
    _, group = np.unique(data.x, return_inverse=True)
    values, level = np.unique(data.y, return_inverse=True)
    keys = (group * len(values) + level) * data.size + data.units
    cells, counts = np.unique(keys, return_counts=True)
    cell, unit = np.divmod(cells, data.size)
    group, level = np.divmod(cell, len(values))
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    per_level = np.zeros((data.size, len(values)))
    np.add.at(per_level, (unit, level), counts)
    rhos = []
    step = max(1, _BLOCK // len(cells))
    for start in range(0, len(weights), step):
        part = weights[start : start + step]
        w = part[:, unit] * counts
        x_totals, y_totals = np.add.reduceat(w, starts, axis=1), part @ per_level
        half = y_totals.sum(axis=1, keepdims=True) / 2
        x = np.cumsum(x_totals, axis=1) - x_totals / 2 - half
        y = np.cumsum(y_totals, axis=1) - y_totals / 2 - half
        w *= y[:, level]
        together = np.einsum("rg,rg->r", np.add.reduceat(w, starts, axis=1), x)
        spread = np.einsum("rg,rg,rg->r", x_totals, x, x) * np.einsum("rl,rl,rl->r", y_totals, y, y)
        with np.errstate(invalid="ignore", divide="ignore"):
            rhos.append(together / np.sqrt(spread))
    return np.concatenate(rhos)


def pearson(data: Observations, weights: Floats) -> Floats:
    """Return Pearson's r of every resample, from sums per image."""
    x, y = data.x - data.x.mean(), data.y - data.y.mean()
    sums = np.zeros((data.size, 6))
    np.add.at(sums, data.units, np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y]))
    n, sx, sy, sxx, syy, sxy = (weights @ sums).T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((sxy - sx * sy / n) / np.sqrt((sxx - sx**2 / n) * (syy - sy**2 / n)))


def resampled(measure: str, data: Observations, weights: Floats) -> Floats:
    """Return a measure for every row of weights."""
    if measure in ("tau-b", "tau-c"):
        return kernel(data).tau(weights, measure)
    return spearman(data, weights) if measure == "rho" else pearson(data, weights)


def standardised(x: Floats, measure: str) -> Floats:
    """Bring scores of different metrics to one scale before they are swapped."""
    from scipy.stats import rankdata

    if measure == "r":
        return (x - x.mean()) / (x.std() or 1.0)
    return np.asarray(rankdata(x) / len(x))


def permutation(
    measure: str,
    a: Floats,
    b: Floats,
    y: Floats,
    units: Ints,
    size: int,
    trials: int,
    seed: int,
) -> tuple[float, float]:
    """Test whether metric ``a`` agrees better with ``y`` than metric ``b`` (PERM-BOTH).

    Scores are brought to one scale (ranks; z-scores for Pearson's r). In each trial every image's
    scores change places between the metrics with probability one half. Spearman's rho is taken as
    the Pearson correlation of these ranks, without ranking anew after a swap.

    Returns:
        The difference of the measures, and the two-sided p-value.
    """
    scaled_a, scaled_b = standardised(a, measure), standardised(b, measure)
    if linear(measure, scaled_a, scaled_b, y):
        gaps, p = flips(tau_c_gap(scaled_a, scaled_b, y, units, size)[:, None], trials, seed)
        return float(gaps[0]), float(p[0])
    swap = np.random.default_rng(seed).integers(0, 2, (trials, size), np.int8)
    swap = np.vstack([np.zeros((1, size), np.int8), swap])  # first, the observed assignment
    mine = np.hstack([1 - swap, swap]).astype(np.float64)
    both = Observations(
        np.concatenate([scaled_a, scaled_b]),
        np.concatenate([y, y] if measure != "rho" else [standardised(y, "rho")] * 2),
        np.concatenate([units, units + size]),
        2 * size,
    )
    if measure in ("tau-b", "tau-c"):
        values, others = kernel(both).tau_both(mine, measure)
    else:
        values, others = pearson(both, mine), pearson(both, 1 - mine)
    gaps = values - others
    far = (np.abs(gaps[1:]) >= abs(gaps[0]) - 1e-12).sum()
    return float(gaps[0]), float((far + 1) / (trials + 1))


def linear(measure: str, a: Floats, b: Floats, y: Floats) -> bool:
    """Say whether the difference of two metrics is linear in the swaps."""
    return measure == "tau-c" and min(len(np.unique(a)), len(np.unique(b))) >= len(np.unique(y))


def flips(parts: Floats, trials: int, seed: int) -> tuple[Floats, Floats]:
    """Test sums of image-wise parts by flipping the sign of random images.

    Args:
        parts: (images, tests): the difference that each image contributes.
        trials: number of random flips, the same for all tests.
        seed: of the flips.

    Returns:
        The sums, and their two-sided p-values.
    """
    rng = np.random.default_rng(seed)
    sums = parts.sum(axis=0)
    far = np.zeros(parts.shape[1])
    for start in range(0, trials, _FLIPS):
        size = (min(_FLIPS, trials - start), len(parts))
        turn = 1.0 - 2.0 * rng.integers(0, 2, size, np.int8)
        far += (np.abs(turn @ parts) >= np.abs(sums) - 1e-12).sum(axis=0)
    return sums, (far + 1) / (trials + 1)


def tau_c_gap(a: Floats, b: Floats, y: Floats, units: Ints, size: int) -> Floats:
    """Return v such that tau-c of the first minus tau-c of the second assignment is v . t.

    t is +1 for an image whose scores stay and -1 for one whose scores change places. The terms
    that are quadratic in t are the same for both assignments and cancel, and the denominator of
    tau-c does not depend on the scores: so the difference is linear, and permutations are cheap.
    """
    rows = _signs_against(a, y, a, y) - _signs_against(b, y, b, y)
    rows += _signs_against(a, y, b, y) - _signs_against(b, y, a, y)
    classes = len(np.unique(y))
    scale = 2.0 * classes / (len(y) ** 2 * (classes - 1))
    return scale * np.bincount(units, rows, minlength=size) / 2


def _signs_against(x: Floats, y: Floats, other_x: Floats, other_y: Floats) -> Floats:
    """Return for every observation the sum of sign(x - other x) sign(y - other y)."""
    sums = np.zeros(len(x))
    for level in np.unique(other_y):
        values = np.sort(other_x[other_y == level])
        below = np.searchsorted(values, x, "left")
        above = len(values) - np.searchsorted(values, x, "right")
        sums += np.sign(y - level) * (below - above)
    return sums


def accuracy_gap(a: Floats, b: Floats, units: Ints, size: int) -> Floats:
    """Return what each image contributes to the difference of two accuracies."""
    return np.bincount(units, a - b, minlength=size) / len(a)


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> tuple[float, float]:
    """Williams' test of two dependent Pearson correlations with the same ratings.

    Args:
        r_a: correlation of metric a with people.
        r_b: correlation of metric b with people.
        r_ab: correlation of the two metrics.
        n: number of observations.

    Returns:
        t with n - 3 degrees of freedom, and the two-sided p-value. Rows are taken as independent,
        so with several captions per image the permutation test is the safer one.
    """
    from scipy.stats import t as student

    if n <= 3:
        return float("nan"), float("nan")
    det = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    below = 2 * det * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    value = (r_a - r_b) * np.sqrt((n - 1) * (1 + r_ab) / below)
    return float(value), float(2 * student.sf(abs(value), n - 3))
