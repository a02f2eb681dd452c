"""Score captions that do not fit into memory: read, score and write, batch by batch.

Two passes over the input: corpus facts (document frequencies) are prepared and merged, then every
batch is scored with the frozen facts and written. Metrics without corpus facts need one pass.
Values of captions are those of :func:`captious.engine.job.score`. Corpus values come from summed
statistics, intervals from a Poisson bootstrap over images, distributions from merged histograms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.engine import evidence
from captious.engine.cache import StatisticsCache
from captious.engine.executors import Executor, Local
from captious.engine.job import ScoringJob
from captious.engine.plan import Step
from captious.engine.run import PrepareChunk, ScoreChunk, combined, leaves, merged_facts
from captious.engine.tally import Scored, StreamSummary, Sums, Tally
from captious.errors import CaptiousError, InputError
from captious.io.batches import ROWS, Batch, Reader, shards
from captious.io.grids import many
from captious.io.references import References
from captious.io.sinks import Sink
from captious.metrics.base import Metric
from captious.progress import Progress
from captious.statistics import bootstrap, poisson
from captious.types import CaptionSet, Floats, Stats


@dataclass(frozen=True)
class ScoreBatch:
    """Scores a batch with frozen corpus facts; runs in a worker."""

    steps: tuple[Step, ...]
    contexts: tuple[tuple[Metric, Any], ...]
    resamples: int
    seed: int
    cache: StatisticsCache | None = None

    def __call__(self, batch: Batch) -> Scored:
        """Return the statistics of every row; rows that cannot be judged are NaN.

        What raises is halved until the row is alone; it becomes NaN with the error as its reason.
        """
        try:
            return self._scored(batch)
        except CaptiousError:
            raise
        except Exception as err:
            if len(batch) == 1 and not batch.problems:
                return self(Batch(batch.samples, {0: f"{type(err).__name__}: {err}"[:500]}))
            if len(batch) == 1:
                raise
            return self._in_halves(batch)

    def _in_halves(self, batch: Batch) -> Scored:
        middle = len(batch) // 2
        left, right = (self(batch.part(a, b)) for a, b in ((0, middle), (middle, len(batch))))
        stats = []
        for a, b in zip(left.stats, right.stats, strict=True):
            reasons = a.reasons | {row + middle: why for row, why in b.reasons.items()}
            notes = {n: a.notes.get(n, 0) + b.notes.get(n, 0) for n in a.notes | b.notes}
            stats.append(Stats(np.concatenate([a.rows, b.rows]), reasons, notes))
        sums = left.sums
        for system, part in right.sums.items():
            if system in sums:
                sums[system].add(part)
            else:
                sums[system] = part
        return Scored(stats, sums, right.evidence)

    def _scored(self, batch: Batch) -> Scored:
        samples = batch.samples
        metrics = [metric for metric, _ in self.contexts]
        samples = evidence.complete(samples, metrics)
        done = {}
        for metric, context in self.contexts:
            # What costs little is computed again rather than looked up.
            cache = self.cache if metric.batch < Metric.batch else None
            done[metric] = ScoreChunk((metric,), (context,), cache)(samples)[0], context
        stats = [
            _spoilt(combined(step.metric, samples, done)[0], batch.problems) for step in self.steps
        ]
        sums = {}
        for system in dict.fromkeys(samples.systems.tolist()):
            mine = np.flatnonzero(samples.systems == system)
            sums[system] = self._sums([s.rows[mine] for s in stats], samples, mine)
        return Scored(stats, sums, samples.evidence.only(()))

    def _sums(self, blocks: list[Floats], samples: CaptionSet, mine: Any) -> Sums:
        names, groups = np.unique(samples.image_keys[mine].astype(str), return_inverse=True)
        out = Sums([], [], [], len(names))
        for rows in blocks:
            scored = rows[~np.isnan(rows).any(axis=1)]
            out.totals.append(scored.sum(axis=0))
            out.counts.append(float(len(scored)))
        widths = [rows.shape[1] + 1 for rows in blocks]
        drawn = np.zeros((0, sum(widths)))
        if self.resamples:  # the draws are the same for every metric: make them once
            grouped = (bootstrap.group(rows, groups, len(names)) for rows in blocks)
            joined = np.column_stack([column for pair in grouped for column in pair])
            hashed = poisson.image_hashes(names.tolist())
            drawn = poisson.resampled_sums(hashed, joined, self.resamples, self.seed)
        out.drawn.extend(np.split(drawn, np.cumsum(widths)[:-1], axis=1))
        return out


@dataclass(frozen=True)
class PrepareBatch:
    """Prepares corpus facts on the rows of a batch that can be judged; runs in a worker."""

    metrics: tuple[Metric, ...]

    def __call__(self, batch: CaptionSet) -> list[Any]:
        """Return the facts per metric."""
        return PrepareChunk(self.metrics, sealed=True)(batch)


def stream(
    job: ScoringJob,
    sink: Sink | None = None,
    *,
    executor: Executor | None = None,
    cache: StatisticsCache | None = None,
    rows: int = ROWS,
    say: Callable[[str], None] | None = None,
) -> StreamSummary:
    """Run a job batch by batch; memory does not grow with the input.

    Args:
        job: what to do. Captions are files, folders, globs or addresses, one system each.
            References in files of their own are held in memory.
        sink: where rows are written; nowhere if None.
        executor: who does the work; this process if None.
        cache: where statistics of costly metrics are kept.
        rows: about how many rows a batch has.
        say: called with remarks that are not errors.
    """
    worker = executor or Local()
    steps = ready(job)
    metrics = leaves(step.metric for step in steps)
    size = min([rows, *(metric.batch for metric in metrics)])
    reader = reader_of(job, size)
    contexts = prepared(metrics, reader, worker)
    function = ScoreBatch(tuple(steps), tuple(contexts.items()), job.resamples, job.seed, cache)
    tally = Tally(steps)
    try:
        with Progress("scoring", None, "captions") as bar:
            for batch, scored in _side_by_side(worker, function, reader):
                values = tally.add(batch, scored)
                if sink is not None:
                    sink.write(batch.samples, values, [s.rows for s in scored.stats])
                bar.advance(len(batch))
        summary = tally.summary(contexts, job)
        if sink is not None:
            sink.close(summary)
    except BaseException:
        if sink is not None:
            sink.abandon()
        raise
    if say is not None:
        for (column, why), count in summary.counted.items():
            say(f"{column}: {many(count, 'caption')} not scored: {why}")
    return summary


def reader_of(job: ScoringJob, rows: int) -> Reader:
    """Return the reader of a job's files."""
    places = job.captions if isinstance(job.captions, list | tuple) else [job.captions]
    names = job.systems or ([""] if len(places) == 1 else [Path(str(p)).stem for p in places])
    if len(names) != len(places):
        raise InputError(f"{len(places)} inputs, but {len(names)} system names")
    files = [(f, name) for place, name in zip(places, names, strict=True) for f in shards(place)]
    problems: list[str] = []
    references = References(job.references, problems) if job.references is not None else None
    if problems:
        raise InputError(problems)
    return Reader(files, references, None if job.images is None else Path(job.images), rows)


def ready(job: ScoringJob) -> list[Step]:
    """Refuse what can be refused before the first row is read; return the metrics to run."""
    if job.objects is not None or job.regions is not None:
        raise InputError(
            "labels and region features in files of their own are not read while streaming; put "
            "labels into the column 'objects', and give photographs with --images"
        )
    return replace(job, captions=None).check()


def prepared(
    metrics: list[Metric], batches: Iterable[Batch], executor: Executor
) -> dict[Metric, Any]:
    """Return the frozen corpus facts of every metric; reads the input if any metric has some."""
    asking = tuple(m for m in metrics if type(m).prepare is not Metric.prepare)
    facts: dict[Metric, Any] = dict.fromkeys(metrics)
    for metric in asking:
        if not metric.counts_run:
            facts[metric] = metric.prepare(CaptionSet.build([""], [[""]]))
    for counting, rows in passes(asking, batches):
        parts = executor.map(PrepareBatch(counting), rows)
        for metric, whole in zip(counting, merged_facts(counting, parts), strict=True):
            facts[metric] = metric.freeze(whole)
    return facts


def passes(
    metrics: Sequence[Metric], batches: Iterable[Batch]
) -> Iterator[tuple[tuple[Metric, ...], Iterable[CaptionSet]]]:
    """Yield the metrics that count on the run with the rows they count.

    References are counted once per image; a metric that reads captions needs all of them.
    """
    counting = [metric for metric in metrics if metric.counts_run]
    by_image = tuple(metric for metric in counting if not metric.reads_captions)
    by_caption = tuple(metric for metric in counting if metric.reads_captions)
    if by_image:
        yield by_image, once_each(batches)
    if by_caption:
        yield by_caption, (batch.sound() for batch in batches)


def once_each(batches: Iterable[Batch]) -> Iterator[CaptionSet]:
    """Yield the rows of every image that no batch before held: an image is one document."""
    seen = _Seen()
    with Progress("counting", None, "captions") as bar:
        for batch in batches:
            samples = batch.sound()
            fresh = seen.add(samples.image_keys.tolist())
            bar.advance(len(batch))
            if fresh.all():
                yield samples
            elif fresh.any():
                yield samples.take(np.flatnonzero(fresh)).compact()


class _Seen:
    """Names that were met, 8 bytes each: sorted runs of hashes, merged when they are of a size.

    One sorted array would have to be written anew for every batch, which takes longer with each.
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.int64]] = []

    def add(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of the names no call before held."""
        # Python's own hash is the fastest there is; it holds within a process, which is enough.
        hashed = np.fromiter((hash(str(name)) for name in names), np.int64, len(names))
        fresh = np.ones(len(names), bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashed), len(run) - 1)
            fresh &= run[at] != hashed
        if fresh.any():
            self._runs.append(np.sort(hashed[fresh]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")
        return fresh


def _side_by_side(
    executor: Executor, function: ScoreBatch, batches: Iterable[Batch]
) -> Iterator[tuple[Batch, Scored]]:
    """Yield every batch with its result; only those that are under way are held."""
    under_way: deque[Batch] = deque()

    def handed_out() -> Iterator[Batch]:
        for batch in batches:
            under_way.append(batch)
            yield batch

    for scored in executor.map(function, handed_out()):
        batch = under_way.popleft()
        yield batch, scored
        batch.samples.pool.forget()


def _spoilt(stats: Stats, problems: Mapping[int, str]) -> Stats:
    """Return the statistics with the rows that cannot be judged as NaN."""
    if not problems:
        return stats
    rows = stats.rows.copy()
    rows[list(problems)] = np.nan
    return Stats(rows, stats.reasons | dict(problems), stats.notes)
