"""Pick the best of several captions per image.

Either by a score of its own (``fit``, ``captious_free``), or by consensus: the caption that agrees
most with the other candidates (minimum Bayes risk; Kumar and Byrne 2004), with any reference-based
metric as the measure of agreement::

    expected utility of c = mean over the other candidates o of metric(c, reference=o)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from captious.engine.executors import Executor
from captious.engine.job import ScoringJob, score
from captious.engine.plan import steps_for
from captious.engine.scorer import with_frequencies
from captious.errors import UsageError
from captious.types import CaptionSet, Floats, Need


@dataclass(frozen=True)
class Choice:
    """The chosen caption of an image, whose it is, its score, and how many there were."""

    image: str
    caption: str
    system: str
    score: float
    candidates: int


def rerank(
    samples: CaptionSet,
    by: str,
    *,
    consensus: bool = False,
    df: str = "coco-val",
    executor: Executor | None = None,
) -> list[Choice]:
    """Return the best caption of every image, in the order of the images.

    Args:
        samples: candidates; those of one image share its name (or id).
        by: a metric; its first column is read.
        consensus: measure agreement with the other candidates instead of a score of its own.
            Images with one candidate keep it (its score is NaN).
        df: document frequencies for metrics that would count them on the candidates.
        executor: who does the work.
    """
    step = with_frequencies(steps_for(by)[0], df)
    needs_references = Need.REFERENCES in step.metric.needs
    if consensus and not needs_references:
        raise UsageError(f"{by} uses no references: leave out --consensus")
    if needs_references and not consensus and not samples.reference_counts.any():
        raise UsageError(
            f"{by} needs references: give --refs, or --consensus to compare the candidates"
        )
    if consensus:
        values = _agreement(samples, step.metric, executor)
    else:
        table = score(ScoringJob(samples, metrics=(step.metric,), resamples=0), executor=executor)
        values = table[step.names[0]]
    sign = 1.0 if step.columns[0].higher_is_better else -1.0
    groups = _by_image(samples)
    captions = samples.captions()
    out = []
    for image, rows in groups.items():
        ranked = np.where(np.isnan(values[rows]), -np.inf, sign * values[rows])
        best = rows[int(np.argmax(ranked))]
        system = str(samples.systems[best])
        out.append(Choice(image, captions[best], system, float(values[best]), len(rows)))
    return out


def _agreement(samples: CaptionSet, metric: Any, executor: Executor | None) -> Floats:
    """Return the mean score of every caption against each other caption of its image."""
    groups = _by_image(samples)
    pairs = [(a, b) for rows in groups.values() for a in rows for b in rows if a != b]
    out = np.full(len(samples), np.nan)
    if not pairs:
        return out
    captions = samples.captions()
    made = CaptionSet.build(
        [captions[a] for a, _ in pairs],
        [[captions[b]] for _, b in pairs],
        images=[str(samples.image_keys[a]) for a, _ in pairs],
    )
    if any(image is not None for image in samples.images):
        rows = [a for a, _ in pairs]
        made = replace(made, images=samples.images[rows], evidence=samples.evidence)
    table = score(ScoringJob(made, metrics=(metric,), resamples=0), executor=executor)
    values = next(iter(table.values.values()))
    mine = np.array([a for a, _ in pairs])
    known = ~np.isnan(values)
    sums = np.bincount(mine[known], values[known], minlength=len(samples))
    counts = np.bincount(mine[known], minlength=len(samples))
    return np.divide(sums, counts, out=out, where=counts > 0)


def _by_image(samples: CaptionSet) -> dict[str, list[int]]:
    """Return the rows of every image, named or not, in the order of appearance."""
    groups: dict[str, list[int]] = {}
    for row, image in enumerate(samples.image_keys):
        groups.setdefault(str(image), []).append(row)
    return groups
