"""Scores of judged captions: by registered metrics, or by a function of the user's.

What cannot be scored stays in the result with its reason. Statistics of registered metrics are kept
in the engine's cache, so that a metric made of others (a composite) finds those of its inputs.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from captious import registry, settings
from captious._version import __version__
from captious.engine import evidence
from captious.engine.cache import StatisticsCache, samples_digest
from captious.engine.plan import steps_for
from captious.engine.run import run
from captious.errors import CaptiousError, InputError, UsageError
from captious.metrics.base import Metric
from captious.types import CaptionSet, Floats


@dataclass(frozen=True)
class Scores:
    """One column of scores, turned so that higher is better.

    Attributes:
        name: the column.
        values: one per caption; NaN where it could not be scored.
        signature: how they were made.
        reason: why there are none at all, if so.
        unscored: reason -> number of captions.
        notes: remark -> number of captions.
    """

    name: str
    values: Floats
    signature: str = ""
    reason: str = ""
    unscored: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)


class Scorer:
    """Scores caption sets with a fixed list of metrics.

    Args:
        metrics: names or specs; ``all`` (or None) takes every registered metric; a path with a
            function (``my.py:score``) takes that function.
        store: whether statistics are kept in the cache folder.
        regions: region features of the judged photographs: a store, or its path.
    """

    def __init__(
        self,
        metrics: str | Iterable[str] | None = None,
        store: bool = True,
        regions: Any = None,
    ) -> None:
        texts = ["all"] if metrics is None else [metrics] if isinstance(metrics, str) else metrics
        self.functions: list[tuple[str, Callable[..., Any]]] = []
        self.steps: list[tuple[Metric, str, tuple[str, ...], tuple[str, ...]]] = []
        plain: list[str] = []
        for text in texts:
            if ".py:" in text:
                self.functions.append((text.rpartition(":")[2], user_function(text)))
            elif text == "all":
                plain += registry.names()
            else:
                plain.append(text)
        for step in steps_for(plain) if plain else []:
            form = registry.text_form(step.metric)
            columns = tuple(c.name for c in step.columns)
            # Other parameters are always shown: cider_d and cider_d(by='row') differ.
            names = tuple(c + form[len(step.metric.name) :] for c in columns)
            self.steps.append((step.metric, form, columns, names))
        folder = settings.get().cache_dir / "statistics" if store else None
        self.cache = StatisticsCache(folder, {})
        self.regions = regions
        self._memo: dict[tuple[str, str], list[Scores]] = {}

    def __call__(self, samples: CaptionSet) -> dict[str, Scores]:
        """Return the columns, in the order of the metrics."""
        samples = evidence.given(samples, regions=self.regions)
        data = samples_digest(samples)
        out: list[Scores] = []
        for metric, form, columns, names in self.steps:
            if (data, form) not in self._memo:
                self._memo[data, form] = self._metric(metric, samples)
            found = {s.name: s for s in self._memo[data, form]}
            out += [replace(found[c], name=n) for c, n in zip(columns, names, strict=True)]
        out += [_call(name, function, samples) for name, function in self.functions]
        return {s.name: s for s in out}

    def _metric(self, metric: Metric, samples: CaptionSet) -> list[Scores]:
        """Return all columns of one metric, under their own names."""
        try:
            table = run(samples, [metric], resamples=0, cache=self.cache)
        except CaptiousError as err:
            why = " ".join(str(err).split()).removeprefix(
                "nothing was scored, because something is not installed: - "
            )
            empty = np.full(len(samples), np.nan)
            return [Scores(c.name, empty, reason=why) for c in metric.columns]
        found = []
        for column, values in table.values.items():
            sign = 1.0 if table.columns[column].higher_is_better else -1.0
            why_not = Counter(u.reason for u in table.unscored if u.column == column)
            found.append(
                Scores(
                    column,
                    sign * values,
                    table.signatures[column],
                    unscored=dict(why_not),
                    notes=table.notes,
                )
            )
        return found


# -- a user's own function -------------------------------------- ---


def user_function(text: str) -> Callable[..., Any]:
    """Return the function that ``path.py:name`` names; the file is run, as the user asks for."""
    where, _, name = text.rpartition(":")
    path = Path(where)
    if not path.is_file():
        raise UsageError(f"there is no file {path} (from {text!r})")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as Python")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{path} has no function {name!r}")
    return function


def _call(name: str, function: Callable[..., Any], samples: CaptionSet) -> Scores:
    """Call ``f(captions, references, ...)`` once, or ``f(caption, references, ...)`` per row.

    Which of the two is told by the name of the first parameter; ``images`` or ``image``,
    ``objects`` are handed over if the function asks for them by name.
    """
    wanted = list(inspect.signature(function).parameters)
    if not wanted:
        raise UsageError(f"{name}() takes no argument; it must take captions and references")
    columns: dict[str, list[Any]] = {
        "references": samples.references(),
        "images": samples.images.tolist(),
        "objects": (samples.objects if samples.objects is not None else [None] * len(samples)),
    }
    one = wanted[0] in ("caption", "candidate", "prediction", "sentence", "text")
    columns["image"] = columns["images"]
    for other in ("refs", "reference", "mult_references", "targets"):
        columns[other] = columns["references"]
    unknown = [
        w
        for w in wanted[1:]
        if w not in columns
        and inspect.signature(function).parameters[w].default is inspect.Parameter.empty
    ]
    if unknown:
        raise UsageError(
            f"{name}() wants {unknown[0]!r}; captious can give: references, images, objects"
        )
    given = {w: columns[w] for w in wanted[1:] if w in columns}
    captions = samples.captions()
    if one:
        result = [
            function(c, **{k: v[i] for k, v in given.items()}) for i, c in enumerate(captions)
        ]
    else:
        result = function(captions, **given)
    try:
        values = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}() must return one number per caption") from None
    if values.shape != (len(samples),):
        raise InputError(
            f"{name}() must return one number per caption: {len(samples):,} are wanted, "
            f"its result has the shape {values.shape}"
        )
    gone = int(np.isnan(values).sum())
    return Scores(
        name,
        values,
        f"{name}|user function|captious:{__version__}",
        unscored={"the function gave NaN": gone} if gone else {},
    )
