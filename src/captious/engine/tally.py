"""What is added up over the batches of a stream, and what is left of it in the end.

Statistics are summed per system, with the sums of every draw of the bootstrap; values are counted
in histograms; captions without a value are counted by their reason. Tallies of shards can be
merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import registry
from captious.calling import Unscored
from captious.engine.job import ScoringJob
from captious.engine.plan import Step
from captious.engine.table import CorpusValue
from captious.errors import CaptiousError, InputError
from captious.io.batches import Batch
from captious.metrics.base import Metric
from captious.statistics import bootstrap
from captious.types import CaptionSet, Column, Evidence, Floats, Need, Stats

LISTED = 1_000
"""Unscored captions that a summary names one by one; all are counted."""

_BINS = 200


@dataclass(frozen=True)
class Histogram:
    """How a column's values are spread: ``counts[i]`` lie from ``edges[i]`` to ``edges[i + 1]``."""

    edges: Floats
    counts: npt.NDArray[np.int64]

    @classmethod
    def over(cls, column: Column) -> Histogram:
        """Return an empty one over the range of a column, or over -50..50 where it has no end."""
        low = column.low if np.isfinite(column.low) else -50.0
        high = column.high if np.isfinite(column.high) else 50.0
        return cls(np.linspace(low, high, _BINS + 1), np.zeros(_BINS, np.int64))

    def add(self, values: Floats) -> Histogram:
        """Return it with more values; those outside go into the first and the last bin."""
        known = np.clip(values[~np.isnan(values)], self.edges[0], self.edges[-1])
        return replace(self, counts=self.counts + np.histogram(known, self.edges)[0])

    def quantile(self, share: float) -> float:
        """Return the value below which this share lies, to the width of a bin."""
        total = int(self.counts.sum())
        if not total:
            return float("nan")
        at = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return float(self.edges[min(at, _BINS - 1) : min(at, _BINS - 1) + 2].mean())


@dataclass
class Sums:
    """Mergeable sums of one system: per step, rows and counts, and those of every draw."""

    totals: list[Floats]
    counts: list[float]
    drawn: list[Floats]
    images: int = 0

    def add(self, other: Sums) -> None:
        """Add the sums of other rows."""
        for at in range(len(self.totals)):
            self.totals[at] = self.totals[at] + other.totals[at]
            self.counts[at] += other.counts[at]
            self.drawn[at] = self.drawn[at] + other.drawn[at]
        self.images += other.images


@dataclass(frozen=True)
class Scored:
    """What a worker returns of a batch: statistics per step, sums per system, evidence's kind."""

    stats: list[Stats]
    sums: dict[str, Sums]
    evidence: Evidence


@dataclass(frozen=True)
class StreamSummary:
    """What is left of a stream when all its rows are written.

    Attributes:
        rows: how many captions were read.
        corpora: system -> column -> corpus value with its interval.
        signatures: column -> what has to stand beside its numbers.
        histograms: column -> how its values are spread.
        counted: (column, reason) -> how many captions have no value for it.
        unscored: the first of them, by name.
        notes: remarks with how many captions they concern.
        columns: description of every column.
        steps: the metrics, and the columns that were asked for.
        job: how it was made, as plain data.
        seed: of the draws.
    """

    rows: int
    corpora: dict[str, dict[str, CorpusValue]]
    signatures: dict[str, str]
    histograms: dict[str, Histogram]
    counted: dict[tuple[str, str], int]
    unscored: list[Unscored]
    notes: dict[str, int]
    columns: dict[str, Column]
    steps: list[Step]
    job: dict[str, Any] = field(default_factory=dict)
    seed: int = bootstrap.SEED

    @property
    def metric_forms(self) -> list[str]:
        """The text form of every metric."""
        return [registry.text_form(step.metric) for step in self.steps]

    def __len__(self) -> int:
        return self.rows

    @property
    def corpus(self) -> dict[str, CorpusValue]:
        """Corpus values of the only system."""
        if len(self.corpora) != 1:
            raise CaptiousError("there are several systems: ask for corpora[system][column]")
        return next(iter(self.corpora.values()))


class Tally:
    """What is summed over batches; tallies of shards can be merged."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)
        self.sums: dict[str, Sums] = {}
        self.histograms = {
            name: Histogram.over(column)
            for step in steps
            for name, column in zip(step.names, step.columns, strict=True)
        }
        self.counted: dict[tuple[str, str], int] = {}
        self.unscored: list[Unscored] = []
        self.notes: dict[str, int] = {}
        self.rows = 0
        self.fewest, self.most = 1 << 62, 0
        self.evidence = Evidence()

    def add(self, batch: Batch, scored: Scored) -> dict[str, Floats]:
        """Count a batch; return its values by column."""
        samples = batch.samples
        self.rows += len(samples)
        self.fewest = min(self.fewest, int(samples.reference_counts.min(initial=1 << 62)))
        self.most = max(self.most, int(samples.reference_counts.max(initial=0)))
        self.evidence = scored.evidence
        self._add_sums(scored.sums)
        values: dict[str, Floats] = {}
        for step, stats in zip(self.steps, scored.stats, strict=True):
            scores = step.metric.scores(stats.rows)
            for note, count in stats.notes.items():
                name = f"{step.metric.name}: {note}"
                self.notes[name] = self.notes.get(name, 0) + count
            for name, column, at in zip(step.names, step.columns, step.index, strict=True):
                values[name] = scores[:, at].copy()
                self.histograms[name] = self.histograms[name].add(values[name])
                self._note_unscored(samples, name, column, values[name], stats)
        return values

    def merge(self, other: Tally) -> None:
        """Add what another tally counted."""
        self.rows += other.rows
        self.fewest, self.most = min(self.fewest, other.fewest), max(self.most, other.most)
        self.evidence = other.evidence
        self._add_sums(other.sums)
        for name, histogram in other.histograms.items():
            mine = self.histograms[name]
            self.histograms[name] = replace(mine, counts=mine.counts + histogram.counts)
        for key, count in other.counted.items():
            self.counted[key] = self.counted.get(key, 0) + count
        for note, count in other.notes.items():
            self.notes[note] = self.notes.get(note, 0) + count
        self.unscored = (self.unscored + other.unscored)[:LISTED]

    def _add_sums(self, sums: Mapping[str, Sums]) -> None:
        for system, part in sums.items():
            if system in self.sums:
                self.sums[system].add(part)
            else:
                self.sums[system] = part

    def _note_unscored(
        self, samples: CaptionSet, name: str, column: Column, values: Floats, stats: Stats
    ) -> None:
        for row in np.flatnonzero(np.isnan(values)).tolist():
            why = stats.reasons.get(row, column.undefined)
            self.counted[name, why] = self.counted.get((name, why), 0) + 1
            if len(self.unscored) < LISTED:
                place = str(samples.ids[row]), str(samples.systems[row])
                self.unscored.append(Unscored(*place, name, why))

    def summary(self, contexts: Mapping[Metric, Any], job: ScoringJob) -> StreamSummary:
        """Return corpus values, intervals and signatures of everything that was added."""
        if not self.rows:
            raise InputError("there are no captions to score")
        for step in self.steps:
            if Need.REFERENCES in step.metric.needs and not self.most:
                raise InputError(
                    f"{step.metric.name} needs references, and no caption has any: put them "
                    "into the column 'references', or name files with --refs"
                )
        label = str(self.fewest) if self.fewest == self.most else f"{self.fewest}..{self.most}"
        signatures: dict[str, str] = {}
        for step in self.steps:
            context = context_of(step.metric, contexts)
            text = step.metric.signature(label, context, self.evidence)
            if job.resamples:
                text += f"|bs:{job.resamples}|rs:{job.seed}|bs_kind:poisson"
            signatures |= dict.fromkeys(step.names, text)
        corpora = {system: self._corpus(sums) for system, sums in self.sums.items()}
        columns = {n: c for s in self.steps for n, c in zip(s.names, s.columns, strict=True)}
        return StreamSummary(
            self.rows,
            corpora,
            signatures,
            self.histograms,
            self.counted,
            self.unscored,
            self.notes,
            columns,
            self.steps,
            replace(job, captions=_texts(job.captions)).to_json(),
            job.seed,
        )

    def _corpus(self, sums: Sums) -> dict[str, CorpusValue]:
        out: dict[str, CorpusValue] = {}
        for at, step in enumerate(self.steps):
            width = len(step.metric.columns)
            values = low = high = np.full(width, np.nan)
            if sums.counts[at]:
                values = step.metric.corpus(sums.totals[at], np.array(sums.counts[at]))
                if len(sums.drawn[at]) and sums.images > 1:
                    drawn = sums.drawn[at]
                    low, high = bootstrap.interval(step.metric.corpus(drawn[:, :-1], drawn[:, -1]))
            out |= {
                name: CorpusValue(values[place], low[place], high[place])
                for name, place in zip(step.names, step.index, strict=True)
            }
        return out


def context_of(metric: Metric, contexts: Mapping[Metric, Any]) -> Any:
    """Return the corpus facts of a metric; those of its inputs if it is made of others."""
    if metric.inputs:
        return tuple(context_of(part, contexts) for part in metric.inputs)
    return contexts.get(metric)


def _texts(captions: Any) -> Any:
    """Return folders, globs and addresses as they were given; files are described by content."""
    places = captions if isinstance(captions, list | tuple) else [captions]
    return [Path(str(p)) for p in places]
