"""Run metrics over a caption set, chunk by chunk: prepare, merge, stats, one table at the end.

Chunks are cut by image. Corpus facts are prepared per chunk and merged; then every chunk is scored
with the frozen facts. Both steps are pure functions of a chunk, so whoever maps them (this process,
several, a cluster) gets the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.calling import Unscored
from captious.engine import evidence
from captious.engine.cache import StatisticsCache
from captious.engine.executors import Executor, Local
from captious.engine.plan import Asked, check, has, steps_for
from captious.engine.table import ScoreTable
from captious.metrics.base import Metric
from captious.progress import Progress
from captious.statistics.bootstrap import RESAMPLES, SEED
from captious.types import CaptionSet, Floats, Need, Stats

_SMALL = 500_000
"""Rows up to which chunks keep their working memory between the two steps."""

_WHY = {
    Need.REFERENCES: "it has no reference",
    Need.IMAGE_OBJECTS: "its image has no object labels",
    Need.IMAGE_REGIONS: "it has no image",
    Need.IMAGE_PIXELS: "it has no image",
}


def run(
    samples: CaptionSet,
    metrics: Asked | Iterable[Asked] | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    executor: Executor | None = None,
    cache: StatisticsCache | None = None,
) -> ScoreTable:
    """Score a caption set.

    Args:
        samples: what to judge.
        metrics: names, specs or metric objects; None for the default metrics.
        resamples: bootstrap draws for the intervals; 0 for none.
        seed: of these draws.
        executor: who does the work; this process if None.
        cache: where statistics of chunks are kept; nowhere if None.
    """
    steps = steps_for(metrics, samples)
    wanted = [step.metric for step in steps]
    check(steps, samples)
    samples = evidence.complete(samples, wanted)
    check(steps, samples, completed=True)
    done = compute(samples, leaves(wanted), executor or Local(), cache)
    blocks: list[Floats] = []
    signatures: dict[str, str] = {}
    unscored: list[Unscored] = []
    notes: dict[str, int] = {}
    for step in steps:
        stats, context = combined(step.metric, samples, done)
        blocks.append(stats.rows)
        text = step.metric.signature(reference_label(samples), context, samples.evidence)
        signatures |= dict.fromkeys(step.names, text)
        for row, why in sorted(stats.reasons.items()):
            unscored += [
                Unscored(str(samples.ids[row]), str(samples.systems[row]), name, why)
                for name in step.names
            ]
        for note, count in stats.notes.items():
            key = f"{step.metric.name}: {note}"
            notes[key] = notes.get(key, 0) + count
    if cache is not None:
        cache.prune()
    return ScoreTable.assemble(samples, steps, blocks, signatures, unscored, notes, resamples, seed)


def leaves(metrics: Iterable[Metric]) -> list[Metric]:
    """Return the metrics that are computed from captions, each once, inputs of others included."""
    metrics_run: dict[Metric, None] = {}
    for metric in metrics:
        inputs = metric.inputs
        metrics_run |= dict.fromkeys(leaves(inputs) if inputs else [metric])
    return list(metrics_run)


Computed = dict[Metric, tuple[Stats, Any]]


def compute(
    samples: CaptionSet,
    metrics: Sequence[Metric],
    executor: Executor,
    cache: StatisticsCache | None = None,
    frozen: Mapping[Metric, Any] | None = None,
) -> Computed:
    """Return statistics and corpus facts of every metric; rows that lack something are NaN.

    Args:
        samples: what to judge.
        metrics: those that are computed from captions.
        executor: who does the work.
        cache: where statistics of chunks are kept; nowhere if None.
        frozen: corpus facts that were prepared before; the others are prepared on these samples.
    """
    known = frozen or {}
    done: Computed = {}
    sizes = dict.fromkeys(metric.batch for metric in metrics)
    for size in sizes:
        mine = tuple(metric for metric in metrics if metric.batch == size)
        chunks = _Chunks(samples, _share(size, len(samples), executor.workers))
        fresh = tuple(metric for metric in mine if metric not in known)
        made = dict(zip(fresh, _contexts(fresh, chunks, executor), strict=True))
        contexts = tuple(known[m] if m in known else made[m] for m in mine)
        parts: list[list[Stats]] = []
        what = mine[0].name if len(mine) == 1 else f"{len(mine)} metrics"
        with Progress(what, len(samples), "captions") as bar:
            scored = executor.map(ScoreChunk(mine, contexts, cache), chunks)
            for rows, stats in zip(chunks.rows, scored, strict=True):
                parts.append(stats)
                bar.advance(len(rows))
        for at, metric in enumerate(mine):
            joined = _joined(chunks.rows, [part[at] for part in parts], len(samples), metric)
            done[metric] = joined, contexts[at]
    return done


def _share(size: int, rows: int, workers: int) -> int:
    """Return the size of a chunk: small enough that every worker gets several."""
    return size if workers == 1 else min(size, max(256, -(-rows // (4 * workers))))


class _Chunks:
    """The chunks of a caption set; small sets keep them, large ones make each when asked."""

    def __init__(self, samples: CaptionSet, size: int) -> None:
        self.samples = samples
        self.rows = samples.chunks(size)
        self._kept: list[CaptionSet] | None = None
        if len(self.rows) == 1:
            self._kept = [samples]
        elif len(samples) <= _SMALL:
            self._kept = [samples.take(rows).compact() for rows in self.rows]

    def __iter__(self) -> Iterator[CaptionSet]:
        if self._kept is not None:
            yield from self._kept
            return
        for rows in self.rows:
            chunk = self.samples.take(rows).compact()
            yield chunk
            chunk.pool.forget()


def _contexts(metrics: tuple[Metric, ...], chunks: _Chunks, executor: Executor) -> tuple[Any, ...]:
    """Prepare chunk by chunk and merge."""
    alone = len(chunks.rows) == 1
    if alone:
        return tuple(PrepareChunk(metrics, sealed=False)(chunks.samples))
    asking = tuple(m for m in metrics if type(m).prepare is not Metric.prepare)
    merged: dict[Metric, Any] = {}
    if asking:
        prepared = executor.map(PrepareChunk(asking, sealed=True), chunks)
        whole = merged_facts(asking, prepared)
        merged = {m: m.freeze(facts) for m, facts in zip(asking, whole, strict=True)}
    return tuple(merged.get(metric) for metric in metrics)


def merged_facts(metrics: Sequence[Metric], parts: Iterable[list[Any]]) -> list[Any]:
    """Merge the corpus facts of all chunks, like with like in size, so that each is copied seldom.

    Args:
        metrics: those that have corpus facts.
        parts: per chunk, the facts of each metric.
    """
    waiting: list[tuple[int, list[Any]]] = []  # how many chunks are in it, and what was merged

    def join() -> None:
        (many, right), (more, left) = waiting.pop(), waiting.pop()
        facts = [m.merge(a, b) for m, a, b in zip(metrics, left, right, strict=True)]
        waiting.append((many + more, facts))

    for part in parts:
        waiting.append((1, part))
        while len(waiting) > 1 and waiting[-2][0] <= waiting[-1][0]:
            join()
    while len(waiting) > 1:
        join()
    return waiting[0][1]


@dataclass(frozen=True)
class PrepareChunk:
    """Corpus facts of a chunk, per metric."""

    metrics: tuple[Metric, ...]
    sealed: bool

    def __call__(self, chunk: CaptionSet) -> list[Any]:
        """Prepare every metric on the rows that it can score."""
        out = []
        for metric in self.metrics:
            rows, _ = usable(metric, chunk)
            context = metric.prepare(chunk if len(rows) == len(chunk) else chunk.take(rows))
            out.append(metric.seal(context) if self.sealed and context is not None else context)
        return out


@dataclass(frozen=True)
class ScoreChunk:
    """Statistics of a chunk, per metric."""

    metrics: tuple[Metric, ...]
    contexts: tuple[Any, ...]
    cache: StatisticsCache | None = None

    def __call__(self, chunk: CaptionSet) -> list[Stats]:
        """Score with every metric; what the cache holds is not computed."""
        return [
            self._score(metric, context, chunk)
            for metric, context in zip(self.metrics, self.contexts, strict=True)
        ]

    def _score(self, metric: Metric, context: Any, chunk: CaptionSet) -> Stats:
        key = self.cache.key(metric, chunk, context) if self.cache is not None else None
        kept = self.cache.load(key) if self.cache is not None else None
        if kept is not None and len(kept.rows) == len(chunk):
            return kept
        index, reasons = usable(metric, chunk)
        whole = len(index) == len(chunk)
        stats = metric.stats(chunk if whole else chunk.take(index), context)
        if not whole:
            rows = np.full((len(chunk), stats.rows.shape[1]), np.nan)
            rows[index] = stats.rows
            reasons |= {int(index[row]): why for row, why in stats.reasons.items()}
            stats = Stats(rows, reasons, stats.notes)
        if self.cache is not None:
            self.cache.save(key, stats)
        return stats


def usable(metric: Metric, samples: CaptionSet) -> tuple[npt.NDArray[np.int64], dict[int, str]]:
    """Return the rows that carry what a metric needs, and why the others do not."""
    fine = np.ones(len(samples), bool)
    reasons: dict[int, str] = {}
    for need in sorted(metric.needs, key=lambda n: n.value):
        held = has(samples, need)
        reasons |= {int(row): _WHY[need] for row in np.flatnonzero(fine & ~held)}
        fine &= held
    return np.flatnonzero(fine), reasons


def _joined(
    chunks: Sequence[npt.NDArray[np.int64]], parts: Sequence[Stats], size: int, metric: Metric
) -> Stats:
    """Put the statistics of the chunks into the order of the caption set."""
    width = parts[0].rows.shape[1] if parts else len(metric.columns)
    rows = np.full((size, width), np.nan)
    reasons: dict[int, str] = {}
    notes: dict[str, int] = {}
    for index, stats in zip(chunks, parts, strict=True):
        rows[index] = stats.rows
        reasons |= {int(index[row]): why for row, why in stats.reasons.items()}
        for note, count in stats.notes.items():
            notes[note] = notes.get(note, 0) + count
    return Stats(rows, reasons, notes)


def combined(metric: Metric, samples: CaptionSet, done: Computed) -> tuple[Stats, Any]:
    """Return the statistics of a metric, computing one made of others from its inputs."""
    if metric not in done:
        parts = [combined(part, samples, done) for part in metric.inputs]
        contexts = tuple(context for _, context in parts)
        stats = metric.combine([part for part, _ in parts], contexts, samples.evidence)
        done[metric] = stats, contexts
    return done[metric]


def reference_label(samples: CaptionSet) -> str:
    """Return how many references the captions have: ``5``, ``5..7`` or ``0``."""
    low, high = int(samples.reference_counts.min()), int(samples.reference_counts.max())
    return str(low) if low == high else f"{low}..{high}"
