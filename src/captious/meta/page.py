"""Agreement with people as one HTML page that opens from disk: for those who would rather look.

Correlations with intervals, who beats whom, reference sweep, score groups, and how agreement
depends on length, judges and errors. The page holds no script and asks for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files as resources
from importlib.util import find_spec
from typing import Any

import numpy as np

from captious._version import __version__
from captious.errors import MissingExtra
from captious.judgements.judgement_set import Pairs
from captious.judgements.protocols import Protocol
from captious.meta import diagnostics, tables
from captious.meta.disagreements import metric_groups, people_groups
from captious.meta.evaluate import Evaluation, Result, Test, evaluate, mean_rating
from captious.meta.scoring import Scorer
from captious.types import Floats

LEVEL = 0.05
SWEEP = (1, 2, 3, 4, 5)
"""Numbers of references of the sweep."""
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#777777", "#7a5195")


def sweep(
    evaluation: Evaluation, protocol: Protocol, scorer: Scorer, most: int = 8
) -> dict[str, list[float]]:
    """Return the agreement of the best metrics with fewer references, metric by metric.

    Metrics whose value does not change with the references are left out.
    """
    if protocol.references is not None or protocol.draws > 1:
        return {}
    least = int(evaluation.judged.samples.reference_counts.min())
    numbers = [k for k in SWEEP if k <= least]
    if len(numbers) < 2:
        return {}
    per_number = [
        {
            r.metric: r.value
            for r in evaluate(
                evaluation.judged, protocol.changed(references=k, draws=1), scorer, resamples=0
            ).results
        }
        for k in numbers
    ]
    names = [r.metric for r in ranked(evaluation) if not r.reason]
    lines = {n: [values.get(n, math.nan) for values in per_number] for n in names}
    changing = {n: v for n, v in lines.items() if max(v) - min(v) > 1e-9}
    return dict(list(changing.items())[:most])


def ranked(evaluation: Evaluation) -> list[Result]:
    """Return the results, the best first; those without a value at the end."""
    return sorted(evaluation.results, key=lambda r: -r.value if not math.isnan(r.value) else 9.0)


def page(evaluation: Evaluation, tests: Sequence[Test], swept: dict[str, list[float]]) -> str:
    """Return the page.

    Raises:
        MissingExtra: Jinja2 is not installed.
    """
    if find_spec("jinja2") is None:
        raise MissingExtra("jinja2", "report", "a report")
    import jinja2

    web = resources("captious.report") / "web"
    made = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = made.from_string((web / "agreement.html.j2").read_text("utf-8"))
    good = [r for r in ranked(evaluation) if not r.reason]
    return template.render(
        title=f"Agreement with people: {evaluation.judged.card.title}",
        protocol=evaluation.protocol.name,
        words=evaluation.protocol.describe(),
        measure=evaluation.protocol.measure,
        css=(web / "report.css").read_text("utf-8"),
        results=good,
        groups=sorted({g for r in good for g in r.groups}),
        chart=_intervals(good),
        matrix=_matrix(good, tests),
        level=LEVEL,
        comparisons=len(tests),
        sweep=_lines(swept),
        pool=evaluation.judged.pool is not None,
        steps=_groups(evaluation, good),
        splits=_splits(evaluation, good),
        remarks=tables.remarks(evaluation, tests, True),
        version=__version__,
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers from ``low`` to ``high``.

    Example:
        >>> _ticks(0.0, 0.46), _ticks(0.19, 0.44)
        ([0.0, 0.1, 0.2, 0.3, 0.4], [0.2, 0.25, 0.3, 0.35, 0.4])
    """
    rough = (high - low or 1.0) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * k, 10) for k in range(first, last + 1)]


def _intervals(results: Sequence[Result]) -> dict[str, Any]:
    """Return where every metric's agreement and interval lie, in per cent of the chart's width."""
    known = [v for r in results for v in (r.value, r.low, r.high) if math.isfinite(v)]
    if not known:
        return {}
    low, high = min(*known, 0.0), max(*known, 0.0)

    def at(value: float) -> float:
        return 100 * (value - low) / (high - low or 1)

    rows = [
        {
            "metric": r.metric,
            "value": r.value,
            "at": at(r.value),
            "low": at(r.low) if math.isfinite(r.low) else at(r.value),
            "span": at(r.high) - at(r.low) if math.isfinite(r.low) else 0.0,
        }
        for r in results
    ]
    return {"rows": rows, "ticks": [(at(t), f"{t:g}") for t in _ticks(low, high)]}


def _matrix(results: Sequence[Result], tests: Sequence[Test]) -> list[dict[str, Any]]:
    """Return a row per metric: whom it beats, who beats it, and its cells in the same order."""
    if not tests:
        return []
    gap = {(t.a, t.b): t for t in tests}
    names = [r.metric for r in results if any(r.metric in pair for pair in gap)]
    rows = []
    for a in names:
        cells = []
        for b in names:
            test = gap.get((a, b)) or gap.get((b, a))
            if test is None:
                cells.append({"kind": "self", "text": "", "title": ""})
                continue
            value = test.difference if test.a == a else -test.difference
            sure = test.corrected < LEVEL
            kind = "same" if not sure else "better" if value > 0 else "worse"
            p = "p < 0.001" if test.corrected < 0.001 else f"p {test.corrected:.3f}"
            text = f"{100 * value:+.0f}".replace("+0", "0").replace("-0", "0")
            cells.append({"kind": kind, "text": text,
                          "title": f"{a} minus {b}: {100 * value:+.1f}, {p}"})  # fmt: skip
        rows.append({
            "name": a, "cells": cells,
            "beats": sum(c["kind"] == "better" for c in cells),
            "beaten": sum(c["kind"] == "worse" for c in cells),
        })  # fmt: skip
    return rows


def _lines(swept: dict[str, list[float]]) -> str:
    """Draw the reference sweep: one line per metric."""
    if not swept:
        return ""
    values = [v for line in swept.values() for v in line if math.isfinite(v)]
    low, high = min(values), max(values)
    width, tall, left, right = 620, 320, 48, 150
    count = len(next(iter(swept.values())))

    def point(at: int, value: float) -> tuple[float, float]:
        across = left + at / max(count - 1, 1) * (width - left - right)
        return across, tall - 46 - (value - low) / (high - low or 1) * (tall - 66)

    out = []
    for value in _ticks(low, high):
        y = point(0, value)[1]
        out.append(
            f'<line class="axis" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="q" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    for at in range(count):
        across = point(at, low)[0]
        out.append(f'<text class="q" x="{across:.1f}" y="{tall - 24}" text-anchor="middle">'
                   f"{SWEEP[at]}</text>")  # fmt: skip
    out.append(f'<text class="q" x="{(left + width - right) / 2}" y="{tall - 6}" '
               'text-anchor="middle">references per image</text>')  # fmt: skip
    labels = sorted(swept, key=lambda n: -swept[n][-1])
    place: dict[str, float] = {}
    for name in labels:  # names beside the ends of their lines, none upon another
        wanted = point(count - 1, swept[name][-1])[1]
        place[name] = max(wanted, max(place.values(), default=-1e9) + 16)
    for name, colour in zip(swept, _COLOURS, strict=False):
        points = [point(at, v) for at, v in enumerate(swept[name])]
        path = "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        out.append(
            f'<text x="{width - right + 12}" y="{place[name] + 4:.1f}">{escape(name)}</text>'
            f'<line x1="{points[-1][0] + 4:.1f}" x2="{width - right + 9}" '
            f'y1="{points[-1][1]:.1f}" y2="{place[name]:.1f}" stroke="{colour}"/>'
        )
    return (
        f'<svg viewBox="0 0 {width} {tall}" role="img" aria-label="Agreement by the number of '
        f'references" font-size="13">{"".join(out)}</svg>'
    )


def _groups(evaluation: Evaluation, results: Sequence[Result]) -> dict[str, Any]:
    """Return how a metric's score groups meet those of people: share of captions that agree.

    Captions are sorted by score and cut into groups as large as people's.
    """
    if isinstance(evaluation.judged.judged, Pairs):
        return {}
    rows, ratings = mean_rating(evaluation.judged.judged)
    out = []
    names: list[int] = []
    for r in results:
        values: Floats = evaluation.scores[r.metric][rows]
        known = ~np.isnan(values)
        people = people_groups(ratings[known])
        names = sorted(set(people.tolist()))
        theirs = metric_groups(values[known], people)
        shares = [float((theirs[people == group] == group).mean()) for group in names]
        out.append(
            {
                "metric": r.metric,
                "all": float((theirs == people).mean()),
                "far": float((np.abs(theirs - people) > 1).mean()),
                "shares": shares,
            }
        )
    return {"names": names, "rows": out}


def _splits(evaluation: Evaluation, results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return agreement inside parts of the set: where a metric is sensitive, and where not."""
    out = []
    for title, split in (
        ("Caption length", diagnostics.by_length(evaluation)),
        ("How far the judges agree", diagnostics.by_judges(evaluation)),
        ("What a caption says that no reference says", diagnostics.by_error(evaluation)),
    ):
        if not split:
            continue
        inside = diagnostics.within(evaluation, split)
        rows = [(r.metric, [inside[r.metric].get(part, math.nan) for part in split])
                for r in results if r.metric in inside]  # fmt: skip
        counts = [int(np.sum(mask)) for mask in split.values()]
        out.append({"title": title, "parts": list(zip(split, counts, strict=True)), "rows": rows})
    return out
