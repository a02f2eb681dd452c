"""Agreement of every metric with people under one protocol: values, intervals, tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from captious.errors import UsageError
from captious.judgements.judgement_set import JudgementSet, Pairs, Ratings
from captious.judgements.protocols import Protocol, chosen_samples, selected
from captious.meta import agreement
from captious.meta.scoring import Scorer, Scores
from captious.progress import track
from captious.statistics import bootstrap, corrections, significance
from captious.types import Floats, Ints

RESAMPLES = 1000
_TRIALS_PER_PAIR = 100


@dataclass(frozen=True)
class Result:
    """Agreement of one metric.

    Attributes:
        metric: column name.
        value: the measure; NaN with a ``reason`` where it could not be computed.
        low: lower end of the 95 % interval (bootstrap over images).
        high: its upper end.
        n: observations or pairs that entered.
        unscored: observations or pairs without a score.
        groups: the measure within each group of the set.
        spread: standard deviation over draws of references.
        signature: of the scores.
        reason: why there is no value.
        p: of the correlation being zero, observations taken as independent (of several draws the
            largest); NaN for shares of pairs.
    """

    metric: str
    value: float
    low: float = float("nan")
    high: float = float("nan")
    n: int = 0
    unscored: int = 0
    groups: dict[str, float] = field(default_factory=dict)
    spread: float = 0.0
    signature: str = ""
    reason: str = ""
    p: float = float("nan")


@dataclass(frozen=True)
class Test:
    """Does metric ``a`` agree better with people than metric ``b``?"""

    a: str
    b: str
    difference: float
    p: float
    corrected: float = float("nan")
    williams_p: float = float("nan")


@dataclass(frozen=True)
class Evaluation:
    """Results of all metrics on one set under one protocol.

    ``scores`` holds one row of scores (ratings) or credits (pairs) per metric, for the tests.
    """

    judged: JudgementSet
    protocol: Protocol
    results: tuple[Result, ...]
    scores: dict[str, Floats]
    seed: int
    resamples: int

    def result(self, metric: str) -> Result:
        """Return the result of one metric."""
        for result in self.results:
            if result.metric == metric:
                return result
        raise UsageError(f"{metric!r} was not evaluated under {self.protocol.name}")

    def tests(self, metrics: Sequence[str] | None = None, trials: int = 1000) -> list[Test]:
        """Test every pair of metrics (PERM-BOTH by image, Holm-corrected).

        Only captions that all of the metrics can score are compared. With many metrics more than
        ``trials`` permutations are made, or no difference could pass the correction.
        """
        names = [m for m in metrics or self.scores if m in self.scores]
        if len(names) < 2:
            return []
        # The smallest p is 1 / (trials + 1): it must stay below the level after the correction.
        trials = max(trials, _TRIALS_PER_PAIR * len(names) * (len(names) - 1) // 2)
        both = ~np.isnan(np.array([self.scores[n] for n in names])).any(axis=0)
        rows, y = _observations(self.judged, self.protocol)
        stays = both[rows]
        units, size = agreement.unit_numbers(_units(self.judged))
        units, size = significance.blocks(units, size, self.seed)
        units = units[rows[stays]]
        values = {n: self.scores[n][rows[stays]] for n in names}
        pairs = list(combinations(names, 2))
        measure, y = self.protocol.measure, y[stays]
        if measure == "accuracy":
            parts = [significance.accuracy_gap(values[a], values[b], units, size) for a, b in pairs]
        elif measure == "tau-c":
            ranks = {n: significance.standardised(v, measure) for n, v in values.items()}
            parts = [
                significance.tau_c_gap(ranks[a], ranks[b], y, units, size)
                for a, b in pairs
                if significance.linear(measure, ranks[a], ranks[b], y)
            ]
        else:
            parts = []
        if len(parts) == len(pairs):  # one set of flips serves all comparisons
            gaps, p = significance.flips(np.column_stack(parts), trials, self.seed)
            tested = [
                Test(a, b, float(g), float(q)) for (a, b), g, q in zip(pairs, gaps, p, strict=True)
            ]
        else:
            tested = [
                self._test(a, b, values, y, units, size, trials)
                for a, b in track(pairs, "comparing metrics")
            ]
        corrected = corrections.corrected(np.array([t.p for t in tested]))
        return [replace(t, corrected=float(c)) for t, c in zip(tested, corrected, strict=True)]

    def _test(
        self,
        a: str,
        b: str,
        values: dict[str, Floats],
        y: Floats,
        units: Ints,
        size: int,
        trials: int,
    ) -> Test:
        measure, xa, xb = self.protocol.measure, values[a], values[b]
        gap, p = significance.permutation(measure, xa, xb, y, units, size, trials, self.seed)
        extra = float("nan")
        if measure == "r":
            r = [agreement.pearson(u, v) for u, v in ((xa, y), (xb, y), (xa, xb))]
            extra = significance.williams(r[0], r[1], r[2], len(y))[1]
        return Test(a, b, gap, p, williams_p=extra)


def evaluate(
    judged: JudgementSet,
    protocol: Protocol,
    scorer: Scorer,
    *,
    resamples: int = RESAMPLES,
    seed: int = bootstrap.SEED,
) -> Evaluation:
    """Measure how far each metric of the scorer agrees with people.

    Args:
        judged: the judgement set.
        protocol: how to measure.
        scorer: which metrics.
        resamples: bootstrap draws over images; 0 for no intervals.
        seed: of the bootstrap and the tests.
    """
    pairs = isinstance(judged.judged, Pairs)
    if pairs != (protocol.measure == "accuracy"):
        raise UsageError(
            f"{judged.name} holds {'choices between two captions' if pairs else 'ratings'}: "
            f"the protocol {protocol.name} does not apply to it"
        )
    judged = selected(judged, protocol)
    tables = [scorer(chosen_samples(judged, protocol, d)) for d in range(protocol.draws)]
    units, size = agreement.unit_numbers(_units(judged))
    weights = None
    if resamples:
        units, size = significance.blocks(units, size, seed)
        weights = bootstrap.all_draws(size, resamples, seed)
    results, kept = [], {}
    for name in tables[0]:
        columns = [t[name] for t in tables]
        if pairs:
            result, values = _pairs(judged, protocol, columns, units, size, weights)
        else:
            result, values = _ratings(judged, protocol, columns, units, size, weights)
        results.append(result)
        if not result.reason:
            kept[name] = values
    return Evaluation(judged, protocol, tuple(results), kept, seed, resamples)


def _units(judged: JudgementSet) -> npt.NDArray[np.object_]:
    """Return the image of every row (ratings) or pair."""
    if isinstance(judged.judged, Pairs):
        return judged.units[judged.judged.first]
    return judged.units


def _observations(judged: JudgementSet, protocol: Protocol) -> tuple[Ints, Floats]:
    """Return the row (or pair) and the rating of every observation."""
    if isinstance(judged.judged, Pairs):
        count = len(judged.judged.first)
        return np.arange(count), judged.judged.preference
    if protocol.pooling == "each":
        return judged.judged.rows, judged.judged.values
    return mean_rating(judged.judged)


def mean_rating(ratings: Ratings) -> tuple[Ints, Floats]:
    """Return the rated rows and the mean rating of each."""
    rows, place = np.unique(ratings.rows, return_inverse=True)
    total = np.bincount(place, ratings.values) / np.bincount(place)
    # Means of the same three ratings in another order must stay tied.
    return rows, np.round(total, 9)


def _reason(columns: Sequence[Scores], known: bool) -> str:
    told = next((c.reason for c in columns if c.reason), "")
    if told or known:
        return told
    why = next((w for c in columns for w in c.unscored), "")
    return why or "no caption could be scored"


def _ratings(
    judged: JudgementSet,
    protocol: Protocol,
    columns: Sequence[Scores],
    units: Ints,
    size: int,
    weights: Floats | None,
) -> tuple[Result, Floats]:
    rows, y = _observations(judged, protocol)
    name, measure = columns[0].name, agreement.MEASURES[protocol.measure]
    known = ~np.isnan(np.array([c.values for c in columns])).any(axis=0)
    reason = _reason(columns, bool(known.any()))
    if reason:
        return Result(name, float("nan"), reason=reason), columns[0].values
    stays = known[rows]
    per_draw = [measure(c.values[rows[stays]], y[stays]) for c in columns]
    low = high = float("nan")
    if weights is not None:
        drawn = np.mean(
            [
                significance.resampled(
                    protocol.measure,
                    significance.Observations(
                        c.values[rows[stays]], y[stays], units[rows[stays]], size
                    ),
                    weights,
                )
                for c in columns
            ],
            axis=0,
        )
        low, high = bootstrap.single_interval(drawn)
    groups = {}
    if judged.groups is not None:
        for group in sorted(set(judged.groups.tolist())):
            inside = stays & (judged.groups[rows] == group)
            groups[str(group)] = float(
                np.mean([measure(c.values[rows[inside]], y[inside]) for c in columns])
            )
    return Result(
        name,
        float(np.mean(per_draw)),
        low,
        high,
        int(stays.sum()),
        int((~stays).sum()),
        groups,
        float(np.std(per_draw)),
        columns[0].signature,
        p=max(
            agreement.p_value(protocol.measure, c.values[rows[stays]], y[stays]) for c in columns
        ),
    ), np.mean([c.values for c in columns], axis=0)


def _pairs(
    judged: JudgementSet,
    protocol: Protocol,
    columns: Sequence[Scores],
    units: Ints,
    size: int,
    weights: Floats | None,
) -> tuple[Result, Floats]:
    pairs, name = judged.judged, columns[0].name
    if not isinstance(pairs, Pairs):
        raise UsageError(f"{judged.name} holds no pairs")
    credits_by_draw = [
        agreement.credit(
            c.values[pairs.first], c.values[pairs.second], pairs.preference, protocol.ties
        )
        for c in columns
    ]
    credits = np.mean(credits_by_draw, axis=0)
    known = ~np.isnan(credits)
    reason = _reason(columns, bool(known.any()))
    if reason:
        return Result(name, float("nan"), reason=reason), credits
    low = high = float("nan")
    if weights is not None:
        sums = np.bincount(units[known], credits[known], minlength=size)
        counts = np.bincount(units[known], minlength=size)
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = bootstrap.single_interval((weights @ sums) / (weights @ counts))
    decided = pairs.preference != 0
    return Result(
        name,
        float(credits[known].mean()),
        low,
        high,
        int(known.sum()),
        int((decided & ~known).sum()),
        {} if judged.groups is None else agreement.by_group(credits, judged.groups),
        float(np.std([g[known].mean() for g in credits_by_draw])),
        columns[0].signature,
    ), credits
