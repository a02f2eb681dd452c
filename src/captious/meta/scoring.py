"""Scores of judged captions: by registered metrics, or by a function of the user's.

What cannot be scored stays in the result with its reason. Statistics of registered metrics are kept
in the engine's cache, so that a metric made of others (a composite) finds those of its inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from captious import registry, settings
from captious.engine import evidence
from captious.engine.cache import StatisticsCache, samples_digest
from captious.engine.job import ScoringJob, score
from captious.engine.plan import Asked, steps_for
from captious.errors import CaptiousError
from captious.judgements.outside_scores import OutsideScores
from captious.metrics.base import Metric
from captious.metrics.function import FunctionMetric, function_in_file
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
        outside: scores that others have made, read from files.
        several_sets: whether caption sets that ``regions`` is not of are scored without it;
            otherwise that is an error.
    """

    def __init__(
        self,
        metrics: str | Iterable[str] | None = None,
        store: bool = True,
        regions: Any = None,
        outside: Iterable[OutsideScores] = (),
        several_sets: bool = False,
    ) -> None:
        texts = ["all"] if metrics is None else [metrics] if isinstance(metrics, str) else metrics
        self.steps: list[tuple[Metric, str, tuple[str, ...], tuple[str, ...]]] = []
        plain: list[Asked] = []
        for text in texts:
            if ".py:" in text:
                plain.append(function_in_file(text))
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
        self.several_sets = several_sets
        self.outside = tuple(outside)
        self._memo: dict[tuple[str, str], list[Scores]] = {}

    def __call__(self, samples: CaptionSet) -> dict[str, Scores]:
        """Return the columns, in the order of the metrics."""
        if self.regions is not None and (not self.several_sets or self._held(samples)):
            samples = evidence.given(samples, regions=self.regions)
        data = samples_digest(samples)
        asked: list[Scores] = []
        for metric, form, columns, names in self.steps:
            if (data, form) not in self._memo:
                self._memo[data, form] = self._metric(metric, samples)
            scores = {s.name: s for s in self._memo[data, form]}
            asked += [replace(scores[c], name=n) for c, n in zip(columns, names, strict=True)]
        asked += [column for file in self.outside for column in _outside(file, samples)]
        return {s.name: s for s in asked}

    def _held(self, samples: CaptionSet) -> bool:
        """Say whether the region features are of these photographs.

        They are if all have some; or some have, and there is no photograph to look at instead.
        """
        stores = evidence.region_handles(self.regions)
        images = [image for image in set(samples.images.tolist()) if image is not None]
        known = [all(image in store for store in stores) for image in images]
        return all(known) if evidence.photographs_of(samples) else any(known)

    def _metric(self, metric: Metric, samples: CaptionSet) -> list[Scores]:
        """Return all columns of one metric, under their own names."""
        try:
            job = ScoringJob(samples, metrics=(metric,), resamples=0)
            table = score(job, cache=self.cache)
        except CaptiousError as err:
            if isinstance(metric, FunctionMetric):  # the user's own mistake is theirs to see
                raise
            why = " ".join(str(err).split()).removeprefix(
                "nothing was scored, because something is not installed: - "
            )
            empty = np.full(len(samples), np.nan)
            return [Scores(c.name, empty, reason=why) for c in metric.columns]
        columns = []
        for column, values in table.values.items():
            sign = 1.0 if table.columns[column].higher_is_better else -1.0
            why_not = Counter(u.reason for u in table.unscored if u.column == column)
            columns.append(
                Scores(
                    column,
                    sign * values,
                    table.signatures[column],
                    unscored=dict(why_not),
                    notes=table.notes,
                )
            )
        return columns


def _outside(file: OutsideScores, samples: CaptionSet) -> list[Scores]:
    """Return the columns of a file for these captions."""
    columns = []
    for name, values in file.match(samples).items():
        gone = int(np.isnan(values).sum())
        why = {f"{file.path.name} has no score for it": gone} if gone else {}
        columns.append(Scores(name, values, f"{name}|outside scores:{file.sha}", unscored=why))
    return columns
