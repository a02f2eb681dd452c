"""Why did a caption get its score? Evidence is filled in as for scoring, then one row is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from captious import registry
from captious.engine import evidence
from captious.engine.plan import check, steps_for
from captious.metrics.base import Metric
from captious.types import CaptionSet, Explanation


def explain(
    samples: CaptionSet, metric: str | Metric, row: int, corpus: CaptionSet | None = None
) -> Explanation:
    """Explain one row.

    Args:
        samples: the captions that it stands among.
        metric: a name, spec or metric.
        row: its number.
        corpus: whose statistics (document frequencies) apply; the samples' own if None.
    """
    return explainer(samples, metric, [row], corpus)(row)


def explainer(
    samples: CaptionSet,
    metric: str | Metric,
    rows: Sequence[int],
    corpus: CaptionSet | None = None,
) -> Callable[[int], Explanation]:
    """Return a function that explains any of these rows; what they share is prepared once.

    Args:
        samples: the captions that they stand among.
        metric: a name, spec or metric.
        rows: their numbers.
        corpus: whose statistics (document frequencies) apply; the samples' own if None.
    """
    made = registry.create(metric) if isinstance(metric, str) else metric
    steps = steps_for([made])
    check(steps, samples)
    asked = evidence.complete(samples.take(rows), [made])
    check(steps, asked, completed=True)
    whole = replace(samples, evidence=asked.evidence) if corpus is None else corpus
    context = made.prepare(whole)
    place = {row: at for at, row in enumerate(rows)}
    return lambda row: made.explain(asked[place[row]], context)
