"""Where metric and people differ: captions by kind of disagreement, the widest gaps first.

Ratings: scores are sorted and given ratings in the numbers in which people gave them (TIGEr,
Appendix A.1), so that a metric's group can be held against people's. Pairs: the metric prefers the
other caption. This is what one reads first to understand a metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.io.grids import Cells
from captious.judgements.judgement_set import Pairs
from captious.meta import agreement
from captious.meta.evaluate import Evaluation
from captious.meta.tables import cut, grid
from captious.types import Floats, Ints

KINDS = ("metric higher", "metric lower", "both agree")


@dataclass(frozen=True)
class Example:
    """A judged caption (or pair) with what people and the metric said.

    Attributes:
        kind: one of ``KINDS``.
        metric: column name.
        image: its photograph.
        caption: the caption; of a pair ``first || second``.
        human: people's group (rounded mean rating), or the votes of a pair.
        group: the metric's group on people's scale, or the caption that it prefers.
        value: the metric's value; of a pair first minus second.
    """

    kind: str
    metric: str
    image: str
    caption: str
    human: str
    group: str
    value: float


def people_groups(ratings: npt.ArrayLike) -> Ints:
    """Return one group per row: the rating, or the rounded mean of several (halves up)."""
    table = np.asarray(ratings, np.float64)
    mean = np.nanmean(table, axis=1) if table.ndim == 2 else table
    return np.floor(mean + 0.5).astype(np.int64)


def metric_groups(values: Floats, people: Ints) -> Ints:
    """Sort rows by score and give them people's groups in people's numbers; ties keep their order.

    Example:
        >>> metric_groups(np.array([0.1, 0.9, 0.2]), np.array([1, 1, 2])).tolist()
        [1, 2, 1]
    """
    groups = np.empty(len(people), np.int64)
    groups[np.argsort(values, kind="stable")] = np.sort(people)
    return groups


def examples(evaluation: Evaluation, metric: str, each: int = 3) -> list[Example]:
    """Return up to ``each`` examples of every kind, of different photographs where possible."""
    if isinstance(evaluation.judged.judged, Pairs):
        return _pairs(evaluation, metric, evaluation.judged.judged, each)
    judged = evaluation.judged
    table = agreement.rating_matrix(evaluation.judged.judged, len(judged.samples))
    rows = np.flatnonzero(~np.isnan(evaluation.scores[metric]) & ~np.isnan(table).all(axis=1))
    people = people_groups(table[rows])
    values = evaluation.scores[metric][rows]
    gap = metric_groups(values, people) - people
    captions, out = judged.samples.captions(), []
    for kind, able in zip(KINDS, (gap > 0, gap < 0, gap == 0), strict=True):
        at = np.flatnonzero(able)
        # Agreement is shown from the best caption down, disagreement from the widest gap.
        size = people[at] if kind == KINDS[2] else np.abs(gap[at])
        for k in _spread(at[np.argsort(-size, kind="stable")], judged.units[rows], each):
            row = int(rows[k])
            out.append(
                Example(
                    kind,
                    metric,
                    str(judged.samples.images[row]),
                    captions[row],
                    str(people[k]),
                    str(people[k] + gap[k]),
                    float(values[k]),
                )
            )
    return out


def _pairs(evaluation: Evaluation, metric: str, pairs: Pairs, each: int) -> list[Example]:
    credit, judged = evaluation.scores[metric], evaluation.judged
    margin = np.abs(pairs.votes[:, 0] - pairs.votes[:, 1])
    captions, out = judged.samples.captions(), []
    for kind, able in (("prefers the other", credit == 0), ("tie", credit == 0.5),
                       ("both agree", credit == 1)):  # fmt: skip
        at = np.flatnonzero(able)
        units = judged.units[pairs.first]
        for k in _spread(at[np.argsort(-margin[at], kind="stable")], units, each):
            first, second = int(pairs.first[k]), int(pairs.second[k])
            chosen = "first" if pairs.preference[k] > 0 else "second"
            other = {"first": "second", "second": "first"}[chosen]
            out.append(
                Example(
                    kind,
                    metric,
                    str(judged.samples.images[first]),
                    f"{captions[first]} || {captions[second]}",
                    f"{chosen} ({pairs.votes[k, 0]:g} to {pairs.votes[k, 1]:g})",
                    {"prefers the other": other, "tie": "neither", "both agree": chosen}[kind],
                    float(credit[k]),
                )
            )
    return out


def _spread(order: Ints, units: Any, each: int) -> list[int]:
    """Return the first rows, each of another photograph as long as there are others."""
    seen: set[str] = set()
    first: list[int] = []
    again: list[int] = []
    for k in order.tolist():
        (again if units[k] in seen else first).append(k)
        seen.add(units[k])
    return (first + again)[:each]


def render(listed: Sequence[Example], format: str = "text") -> str:
    """Return the examples as a table."""
    table, said = parts(listed)
    return f"{grid(table, format)}\n\n{said}\n"


def parts(listed: Sequence[Example]) -> tuple[Cells, str]:
    """Return the examples as cells, and what the columns mean."""
    cells = [["metric", "kind", "people", "metric's", "value", "caption", "photograph"]]
    for e in listed:
        cells.append(
            [e.metric, e.kind, e.human, e.group, f"{e.value:.4f}", cut(e.caption, 120), e.image]
        )
    said = (
        "people: rounded mean rating, or the preferred caption of a pair with its votes; metric's: "
        "its scores, sorted and put on the same scale, each rating given as often as people did"
    )
    return cells, said


def to_json(listed: Sequence[Example]) -> list[dict[str, Any]]:
    """Return the examples as JSON-able data."""
    return [asdict(e) for e in listed]
