"""Why did a caption get its score? Evidence is filled in as for scoring, then one row is told."""

from __future__ import annotations

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
    made = registry.create(metric) if isinstance(metric, str) else metric
    steps = steps_for([made])
    check(steps, samples)
    one = evidence.complete(samples.take([row]), [made])
    check(steps, one, completed=True)
    whole = replace(samples, evidence=one.evidence) if corpus is None else corpus
    return made.explain(one[0], made.prepare(whole))
