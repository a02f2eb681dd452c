"""Check everything before anything is computed; report all that is missing at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import names, registry
from captious.engine import evidence
from captious.errors import CaptiousError, InputError, UsageError, missing_lines
from captious.metrics.base import Metric, Need
from captious.metrics.function import FunctionMetric
from captious.types import CaptionSet, Column

DEFAULT = (names.COCO,)
"""What is installed of the metrics of COCO's own tool."""

Asked = str | Metric | Callable[..., Any]
"""How a metric may be asked for: a name or spec, a metric object, a plain function."""


@dataclass(frozen=True)
class Step:
    """One metric to run, the columns that were asked for, and what they are called."""

    metric: Metric
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    index: tuple[int, ...]


def check(steps: Sequence[Step], samples: CaptionSet, completed: bool = False) -> None:
    """Refuse what cannot be scored, with everything that is missing at once.

    Args:
        steps: what is to be run.
        samples: the captions.
        completed: whether detection and extraction are done; before that, photographs stand for
            what will be seen in them.

    Raises:
        CaptiousError: packages and weights that are missing, all of them.
        InputError: inputs that are missing, all of them.
    """
    if not len(samples):
        raise InputError("there are no captions to score")
    metrics = [step.metric for step in steps]
    if not completed:
        missing = [err for metric in metrics for err in metric.missing()]
        refuse_missing([*missing, *evidence.missing(samples, metrics)])
    lacking = [
        _lacking(metric, need)
        for metric in metrics
        for need in sorted(metric.needs, key=lambda n: n.value)
        if not _there(samples, need, completed)
    ]
    if lacking:
        raise InputError(lacking)


def refuse_missing(problems: Sequence[CaptiousError]) -> None:
    """Raise one error that names everything that is not installed, one line per extra."""
    if problems:
        raise CaptiousError(
            "nothing was scored, because something is not installed:\n"
            + "\n".join(f"  - {line}" for line in missing_lines(problems))
        )


def _there(samples: CaptionSet, need: Need, completed: bool) -> bool:
    """Tell whether any caption carries what is needed, or a photograph to find it in."""
    if has(samples, need).any():
        return True
    later = not completed and need is Need.IMAGE_OBJECTS
    return later and bool(has(samples, Need.IMAGE_PIXELS).any())


def steps_for(
    metrics: Asked | Iterable[Asked] | None, samples: CaptionSet | None = None
) -> list[Step]:
    """Turn names, metric objects and functions into steps with distinct column names.

    Args:
        metrics: what is asked for.
        samples: the captions; members of a group that lack an input are left out.
    """

    def lacks(metric: Metric) -> str:
        absent = metric.needs - _inputs(samples) if samples is not None else ()
        return " and ".join(sorted(need.value for need in absent))

    items = [_adapted(metric) for metric in asked(metrics)]
    texts = [m for m in items if isinstance(m, str)]
    made = dict(registry.create_many(texts, lacks)) if texts else {}
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


def _inputs(samples: CaptionSet) -> frozenset[Need]:
    """Return what the captions bring; in photographs, regions and objects can be found."""
    needs = {Need.REFERENCES} if has(samples, Need.REFERENCES).any() else set()
    if has(samples, Need.IMAGE_OBJECTS).any():
        needs.add(Need.IMAGE_OBJECTS)
    if samples.evidence.regions:
        needs.add(Need.IMAGE_REGIONS)
    if evidence.photographs_of(samples):
        needs |= {Need.IMAGE_OBJECTS, Need.IMAGE_REGIONS, Need.IMAGE_PIXELS}
    return frozenset(needs)


def asked(metrics: Asked | Iterable[Asked] | None) -> tuple[Asked, ...]:
    """Return what is asked for, one by one; the default metrics if nothing is."""
    if metrics is None:
        return DEFAULT
    if isinstance(metrics, str | Metric) or callable(metrics):
        return (metrics,)
    if not isinstance(metrics, Iterable):
        raise UsageError(f"metrics are names, metric objects or functions, not {metrics!r}")
    return tuple(metrics)


def _adapted(metric: Asked) -> str | Metric:
    if isinstance(metric, str | Metric):
        return metric
    if not callable(metric) or isinstance(metric, type):
        raise UsageError(f"a metric is a name, a metric object or a function, not {metric!r}")
    inner = getattr(metric, "metric", None)  # what captious.metric(...) returns
    return inner if isinstance(inner, Metric) else FunctionMetric(metric)


def stored_step(form: str, columns: tuple[str, ...], names: tuple[str, ...]) -> Step:
    """Return the step that a stored table names: metric, its columns, what they are called."""
    metric = registry.create(form)
    place = {column.name: at for at, column in enumerate(metric.columns)}
    absent = [column for column in columns if column not in place]
    if absent:
        raise InputError(f"the metric {form} no longer has the column {absent[0]!r}")
    index = tuple(place[column] for column in columns)
    return Step(metric, tuple(metric.columns[at] for at in index), names, index)


def has(samples: CaptionSet, need: Need) -> npt.NDArray[np.bool_]:
    """Return which rows carry what is needed."""
    if need is Need.REFERENCES:
        return samples.reference_counts > 0
    if need is Need.IMAGE_OBJECTS:
        if samples.objects is None:
            return np.zeros(len(samples), bool)
        return np.array([labels is not None for labels in samples.objects], bool)
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
