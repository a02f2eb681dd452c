"""How far do scores and people agree? Measures on plain arrays, through scipy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.judgements.judgement_set import JudgementSet, Pairs, Ratings
from captious.types import Floats, Ints

TIE_RULES = {"strict": 0.0, "half": 0.5, "correct": 1.0}


def kendall_b(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Kendall's tau-b: ties in either list are taken out of the denominator."""
    return _of(x, y, lambda stats, a, b: stats.kendalltau(a, b, variant="b").statistic)


def kendall_c(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Stuart's tau-c: for a rating scale of few steps against a continuous score."""
    return _of(x, y, lambda stats, a, b: stats.kendalltau(a, b, variant="c").statistic)


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Spearman's rho with mid-ranks."""
    return _of(x, y, lambda stats, a, b: stats.spearmanr(a, b).statistic)


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Pearson's r."""
    return _of(x, y, lambda stats, a, b: stats.pearsonr(a, b).statistic)


MEASURES: dict[str, Callable[[npt.ArrayLike, npt.ArrayLike], float]] = {
    "tau-b": kendall_b,
    "tau-c": kendall_c,
    "rho": spearman,
    "r": pearson,
}


def _of(x: npt.ArrayLike, y: npt.ArrayLike, compute: Callable[[Any, Floats, Floats], Any]) -> float:
    """Compute a correlation; a list without variation has none (NaN)."""
    from scipy import stats

    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return float("nan")
    return float(compute(stats, a, b))


def p_value(measure: str, x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return the p-value (two-sided) of a correlation, observations taken as independent.

    Example:
        >>> round(p_value("r", [1, 2, 3, 4, 5], [1, 3, 2, 5, 4]), 3)
        0.104
    """
    tests: dict[str, Callable[[Any, Floats, Floats], float]] = {
        "tau-b": lambda stats, a, b: stats.kendalltau(a, b, variant="b").pvalue,
        "tau-c": lambda stats, a, b: stats.kendalltau(a, b, variant="c").pvalue,
        "rho": lambda stats, a, b: stats.spearmanr(a, b).pvalue,
        "r": lambda stats, a, b: stats.pearsonr(a, b).pvalue,
    }
    return _of(x, y, tests[measure])


def credit(first: Floats, second: Floats, preference: Floats, ties: str) -> Floats:
    """Return for each pair 1 if the metric prefers the same caption as people, else 0.

    Args:
        first: score of the first caption.
        second: score of the second caption.
        preference: +1 if people prefer the first, -1 the second, 0 undecided (NaN is given).
        ties: what equal scores earn: ``strict`` 0, ``half`` 0.5, ``correct`` 1.

    Example:
        >>> credit(np.array([.3, .5]), np.array([.2, .5]), np.array([1., 1.]), "half").tolist()
        [1.0, 0.5]
    """
    with np.errstate(invalid="ignore"):
        agree = np.sign(first - second) * preference
        out = np.where(agree > 0, 1.0, np.where(first == second, TIE_RULES[ties], 0.0))
    out[np.isnan(first) | np.isnan(second) | (preference == 0)] = np.nan
    return out


def leave_one_out(x: Floats, y: Floats) -> tuple[float, float]:
    """Return the smallest and largest Pearson r when one system at a time is left out."""
    rest = ~np.eye(len(x), dtype=bool)
    values = [pearson(x[keep], y[keep]) for keep in rest]
    return float(np.min(values)), float(np.max(values))


def rating_matrix(judged: Ratings, rows: int) -> Floats:
    """Return (rows, judges) ratings, NaN where a judge did not rate a caption."""
    out = np.full((rows, int(judged.judges.max()) + 1), np.nan)
    out[judged.rows, judged.judges] = judged.values
    return out


def ceiling(judged: JudgementSet) -> dict[str, float]:
    """Return how far people agree with each other: the most that a metric can be asked for.

    Ratings of several judges: mean over pairs of judges, and each judge against the mean of the
    others. Pairs with several votes: how often one voter agrees with the majority of the others.
    An empty dictionary means that the files hold one opinion per caption only.
    """
    if isinstance(judged.judged, Pairs):
        return _voter_ceiling(judged.judged.votes)
    table = rating_matrix(judged.judged, len(judged.samples))
    if table.shape[1] < 2:
        return {}
    full = table[~np.isnan(table).any(axis=1)]
    judges = range(full.shape[1])
    out: dict[str, float] = {}
    for name in ("tau-b", "tau-c", "rho", "r"):
        measure = MEASURES[name]
        out[f"{name}, pairs of judges"] = float(
            np.mean([measure(full[:, a], full[:, b]) for a, b in combinations(judges, 2)])
        )
        out[f"{name}, one judge against the mean of the others"] = float(
            np.mean([measure(full[:, a], np.delete(full, a, axis=1).mean(axis=1)) for a in judges])
        )
    return out


def _voter_ceiling(votes: Floats) -> dict[str, float]:
    total = votes.sum(axis=1)
    if not (total > 1).any():
        return {}
    agree = np.zeros(len(votes))
    for mine, other in ((0, 1), (1, 0)):
        rest = np.sign(votes[:, mine] - 1 - votes[:, other])
        agree += votes[:, mine] * np.where(rest > 0, 1.0, np.where(rest == 0, 0.5, 0.0))
    several = total > 1
    return {
        "accuracy, one voter against the majority of the others (ties half)": float(
            (agree[several] / total[several]).mean()
        )
    }


def by_group(values: Floats, groups: npt.NDArray[np.object_]) -> dict[str, float]:
    """Return the mean of each group, NaN left out, in sorted order."""
    out = {}
    for group in sorted(set(groups.tolist())):
        inside = values[groups == group]
        inside = inside[~np.isnan(inside)]
        out[str(group)] = float(inside.mean()) if len(inside) else float("nan")
    return out


def unit_numbers(units: npt.NDArray[np.object_]) -> tuple[Ints, int]:
    """Number the images 0..k-1."""
    keys, numbers = np.unique(units.astype(str), return_inverse=True)
    return numbers.astype(np.int64), len(keys)
