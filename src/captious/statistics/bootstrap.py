"""Bootstrap over images: corpus values of many resamples from summed statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from captious.types import Floats

RESAMPLES = 1000
SEED = 12345
LEVEL = 0.95
_CELLS = 4_000_000


def group(
    rows: Floats, groups: npt.NDArray[np.int64], size: int
) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Sum statistics within groups; rows that could not be scored are left out."""
    scored = ~np.isnan(rows).any(axis=1)
    where = groups[scored]
    sums = np.zeros((size, rows.shape[1]))
    np.add.at(sums, where, rows[scored])
    return sums, np.bincount(where, minlength=size).astype(np.float64)


def draws(size: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of weights (resamples, size): how often each group is drawn."""
    rng = np.random.default_rng(seed)
    block = max(1, min(resamples, _CELLS // max(size, 1)))
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        picked = rng.integers(0, size, (count, size))
        picked += np.arange(count)[:, None] * size
        flat = np.bincount(picked.ravel(), minlength=count * size)
        yield flat.reshape(count, size).astype(np.float64)


def all_draws(size: int, resamples: int, seed: int) -> Floats:
    """Return (resamples, size): how often each group is drawn in each resample."""
    return np.concatenate(list(draws(size, resamples, seed)))


def resampled(
    sums: Sequence[Floats], counts: Sequence[Floats], resamples: int, seed: int = SEED
) -> list[tuple[Floats, Floats]]:
    """Return for each metric the (resamples, k) totals and (resamples,) counts.

    All metrics see the same draws, so that their differences are paired.
    """
    widths = np.cumsum([0] + [s.shape[1] + 1 for s in sums])
    joined = np.concatenate([np.column_stack([s, c]) for s, c in zip(sums, counts, strict=True)], 1)
    totals = np.concatenate([w @ joined for w in draws(len(joined), resamples, seed)])
    return [
        (totals[:, a : b - 1], totals[:, b - 1]) for a, b in zip(widths, widths[1:], strict=False)
    ]


def interval(values: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return the percentile interval over the first axis; NaN draws are left out."""
    tail = (1 - level) / 2
    low, high = np.full(values.shape[1:], np.nan), np.full(values.shape[1:], np.nan)
    known = ~np.isnan(values).all(axis=0)
    if known.any():
        low[known], high[known] = np.nanquantile(values[:, known], [tail, 1 - tail], axis=0)
    return low, high


def single_interval(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Return the percentile interval of one statistic over its resamples."""
    low, high = interval(values[:, None], level)
    return float(low[0]), float(high[0])
