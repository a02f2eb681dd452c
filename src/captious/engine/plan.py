"""Check everything before anything is computed; report all that is missing at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious import registry
from captious.errors import CaptiousError, InputError, UsageError
from captious.metrics.base import Metric, Need
from captious.types import CaptionSet, Column

DEFAULT = ("bleu", "rouge_l", "cider_d")


@dataclass(frozen=True)
class Step:
    """One metric to run, the columns that are wanted of it, and what they are called."""

    metric: Metric
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    index: tuple[int, ...]


def plan(metrics: str | Iterable[str | Metric] | None, samples: CaptionSet) -> list[Step]:
    """Turn names into steps.

    Raises:
        UsageError: unknown names or parameters, all of them.
        CaptiousError: packages, weights or inputs that are missing, all of them.
    """
    if not len(samples):
        raise InputError("there is no caption to score")
    steps = steps_for(metrics)
    missing: list[str] = []
    for step in steps:
        missing += [str(err) for err in step.metric.missing()]
        for need in sorted(step.metric.needs, key=lambda n: n.value):
            if not has(samples, need).any():
                missing.append(_lacking(step.metric, need))
    if missing:
        raise CaptiousError(
            "nothing was scored, because something is missing:\n"
            + "\n".join(f"  - {m}" for m in dict.fromkeys(missing))
        )
    return steps


def steps_for(metrics: str | Iterable[str | Metric] | None) -> list[Step]:
    """Turn names and metric objects into steps with distinct column names."""
    if metrics is None:
        metrics = DEFAULT
    items = [metrics] if isinstance(metrics, str) else list(metrics)
    texts = [m for m in items if isinstance(m, str)]
    made = dict(registry.create_many(texts)) if texts else {}
    for metric in items:
        if isinstance(metric, Metric):
            made.setdefault(metric, tuple(c.name for c in metric.columns))
    if not made:
        raise UsageError("no metric is named; `captious metrics` lists them")
    taken: set[str] = set()
    steps = []
    for metric, wanted in made.items():
        index = tuple(i for i, c in enumerate(metric.columns) if c.name in wanted)
        columns = tuple(metric.columns[i] for i in index)
        form = registry.text_form(metric)
        suffix = form[len(metric.name) :]
        names = tuple(c.name + suffix if c.name in taken else c.name for c in columns)
        taken.update(names)
        steps.append(Step(metric, columns, names, index))
    return steps


def has(samples: CaptionSet, need: Need) -> npt.NDArray[np.bool_]:
    """Return which rows carry what is needed."""
    if need is Need.REFERENCES:
        return samples.reference_counts > 0
    if need is Need.IMAGE_OBJECTS:
        labels = np.zeros(len(samples), bool)
        if samples.objects is not None:
            labels = np.array([o is not None for o in samples.objects])
        return labels
    return np.array([image is not None for image in samples.images])


def _lacking(metric: Metric, need: Need) -> str:
    remedy = {
        Need.REFERENCES: "give them with --refs FILE (references=... in Python)",
        Need.IMAGE_PIXELS: "give the pictures with --images FOLDER (images=... in Python)",
        Need.IMAGE_REGIONS: "give the pictures with --images FOLDER (images=... in Python)",
        Need.IMAGE_OBJECTS: "give labels with --objects FILE, or pictures with --images FOLDER "
        "so that the detector finds them (objects=... in Python)",
    }[need]
    if metric.without_image and need is not Need.REFERENCES:
        remedy += f"; without images ask for {metric.without_image}"
    return f"{metric.name} needs {need.value}, and no caption has any: {remedy}"
