"""Score many files into a folder: one output per input, and only what is not there yet.

A shard is read, scored and written by one worker; its output has a temporary name until it is
whole. ``captious.json`` in the folder says what the outputs are; a run that would not fit to it is
refused. A run that was killed is started again with the same command and redoes only the shards
that were not finished. Rows of one image must be in one shard.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious import registry
from captious._version import __version__
from captious.calling import Unscored
from captious.engine import evidence
from captious.engine.executors import Executor, Local
from captious.engine.job import ScoringJob
from captious.engine.plan import Step
from captious.engine.run import leaves, merged_facts
from captious.engine.stream import PrepareBatch, ScoreBatch, passes, reader_of, ready
from captious.engine.tally import Histogram, StreamSummary, Sums, Tally, context_of
from captious.errors import InputError, UsageError
from captious.evidence.regions import MemoryRegions
from captious.io.batches import MANIFEST, ROWS, Reader
from captious.io.files import replacing, sweep
from captious.io.sinks import ParquetSink
from captious.metrics.base import Metric
from captious.progress import Progress
from captious.reading import read_arrays, read_json
from captious.types import CaptionSet, Evidence, Labels


@dataclass(frozen=True)
class Shard:
    """An input file, its system, and where its scores go."""

    path: str
    system: str
    output: Path

    @property
    def sums(self) -> Path:
        """Where the sums of the shard are kept, from which corpus values are made."""
        return self.output.with_suffix(".sums.npz")

    @property
    def done(self) -> bool:
        """Whether it was finished: the sums are written before the output gets its name."""
        return self.output.exists() and self.sums.exists()


@dataclass(frozen=True)
class PrepareShard:
    """Corpus facts of a shard, per metric; runs in a worker."""

    metrics: tuple[Metric, ...]
    rows: int

    def __call__(self, shard: Shard) -> list[Any]:
        """Read the shard and merge the facts of its batches."""
        reader = Reader([(shard.path, shard.system)], rows=self.rows)
        facts: dict[Metric, Any] = {}
        for counting, rows in passes(self.metrics, reader):
            prepare = PrepareBatch(counting)
            merged = merged_facts(counting, (prepare(part) for part in rows))
            facts |= zip(counting, merged, strict=True)
        return [facts[metric] for metric in self.metrics]


@dataclass(frozen=True)
class ScoreShard:
    """Scores a shard and writes its output; runs in a worker."""

    function: ScoreBatch
    job: ScoringJob
    rows: int

    def __call__(self, shard: Shard) -> int:
        """Return how many captions were scored."""
        sink = ParquetSink(shard.output)
        tally = Tally(self.function.steps)
        try:
            for batch in Reader([(shard.path, shard.system)], rows=self.rows):
                scored = self.function(batch)
                values = tally.add(batch, scored)
                sink.write(batch.samples, values, [s.rows for s in scored.stats])
            _save(tally, shard.sums)
            sink.close(tally.summary(dict(self.function.contexts), self.job))
        except BaseException:
            sink.abandon()
            raise
        return tally.rows


def score_shards(
    job: ScoringJob, folder: Path, *, executor: Executor | None = None, rows: int = ROWS
) -> StreamSummary:
    """Score every file of the input into a folder; finished ones are not scored again.

    Args:
        job: what to do; captions are files, folders, globs or addresses that hold their references.
        folder: where outputs go, and the manifest.
        executor: who does the work; this process if None.
        rows: about how many rows a batch has.

    Raises:
        UsageError: the folder holds outputs of another job.
    """
    if job.references is not None or job.images is not None:
        raise UsageError(
            "with a folder as output, references and photographs are columns of the input files"
        )
    worker = executor or Local()
    steps = ready(job)
    metrics = leaves(step.metric for step in steps)
    size = min([rows, *(metric.batch for metric in metrics)])
    listed = _listed(job, folder)
    _agree(folder, job, steps, listed)
    contexts = _contexts(metrics, listed, worker, size)
    _agree_on_signatures(folder, steps, contexts)
    function = ScoreBatch(tuple(steps), tuple(contexts.items()), job.resamples, job.seed)
    todo = [shard for shard in listed if not shard.done]
    with Progress("scoring", len(listed), "shards") as bar:
        bar.advance(len(listed) - len(todo))
        for _ in worker.map(ScoreShard(function, job, size), todo):
            bar.advance()
    tally = Tally(steps)
    for shard in listed:
        sweep(shard.output)
        sweep(shard.sums)
        tally.merge(_load(shard.sums, steps))
    return tally.summary(contexts, job)


def _listed(job: ScoringJob, folder: Path) -> list[Shard]:
    files = reader_of(job, ROWS).files
    names: dict[str, int] = {}
    out = []
    for path, system in files:
        stem = Path(path).name.removesuffix(".gz").rpartition(".")[0] or Path(path).name
        seen = names[stem] = names.get(stem, 0) + 1
        name = stem if seen == 1 else f"{stem}-{seen}"
        out.append(Shard(path, system, folder / f"{name}.parquet"))
    wrong = [s for s in out if Path(s.path).resolve() == s.output.resolve()]
    if wrong:
        raise UsageError(f"{folder}: the output would overwrite the input; name another folder")
    return out


def _agree_on_signatures(
    folder: Path, steps: Sequence[Step], contexts: Mapping[Metric, Any]
) -> None:
    """Refuse weights, tables or document frequencies that are not those of finished files."""
    texts = [s.metric.signature("any", context_of(s.metric, contexts)) for s in steps]
    path = folder / MANIFEST
    held = read_json(path)
    before = held.setdefault("signatures", texts)
    if before != texts:
        changed = [f"was {a}, is now {b}" for a, b in zip(before, texts, strict=True) if a != b]
        raise UsageError(
            f"{path}: files that were finished before have another signature: "
            f"{'; '.join(changed)}. Name another folder, or delete this one"
        )
    with replacing(path) as file:
        file.write(json.dumps(held, indent=1) + "\n")


def _agree(folder: Path, job: ScoringJob, steps: Sequence[Step], listed: Sequence[Shard]) -> None:
    """Write the manifest, or check that the one that is there says the same."""
    facts = {
        "format": "captious-shards/1",
        "metrics": [registry.text_form(step.metric) for step in steps],
        "captious": __version__,
        "resamples": job.resamples,
        "seed": job.seed,
        "shards": {s.output.name: [s.path, s.system, _size(s.path)] for s in listed},
    }
    path = folder / MANIFEST
    if path.exists():
        held = read_json(path)
        differ = [k for k in facts if not isinstance(held, Mapping) or held.get(k) != facts[k]]
        if differ:
            raise UsageError(
                f"{path}: the folder holds scores of another job (its {', '.join(differ)} differ); "
                "name another folder, or delete this one"
            )
        return
    if folder.exists() and any(folder.glob("*.parquet")):
        raise UsageError(f"{folder}: holds parquet files that no manifest describes")
    with replacing(path) as file:
        file.write(json.dumps(facts, indent=1) + "\n")


def _size(path: str) -> int | None:
    place = Path(path)
    return place.stat().st_size if place.is_file() else None


def _contexts(
    metrics: Sequence[Metric], listed: Sequence[Shard], worker: Executor, rows: int
) -> dict[Metric, Any]:
    facts: dict[Metric, Any] = dict.fromkeys(metrics)
    asking = [m for m in metrics if type(m).prepare is not Metric.prepare]
    counting = tuple(m for m in asking if m.counts_run)
    nothing = CaptionSet.build([""], [[""]])
    facts |= {m: m.prepare(nothing) for m in asking if m not in counting}
    if counting:
        parts = worker.map(PrepareShard(counting, rows), listed)
        merged = merged_facts(counting, parts)
        facts |= {m: m.freeze(whole) for m, whole in zip(counting, merged, strict=True)}
    return facts


# -- tallies on disk -------------------------------------------------------------------------------


def _save(tally: Tally, path: Path) -> None:
    said = {
        "rows": tally.rows,
        "fewest": tally.fewest,
        "most": tally.most,
        "counted": [[column, why, n] for (column, why), n in tally.counted.items()],
        "unscored": [list(u) for u in tally.unscored],
        "notes": tally.notes,
        "systems": list(tally.sums),
        "images": [sums.images for sums in tally.sums.values()],
        "labels": None if tally.evidence.labels is None else tally.evidence.labels.source,
        "regions": [store.source for store in tally.evidence.regions],
    }
    arrays: dict[str, Any] = {"said": np.frombuffer(json.dumps(said).encode(), np.uint8)}
    arrays |= dict(_named(tally))
    with replacing(path, "wb") as file:
        np.savez(file, **arrays)


def _named(tally: Tally) -> Iterator[tuple[str, Any]]:
    for number, histogram in enumerate(tally.histograms.values()):
        yield f"histogram {number}", histogram.counts
    for system, sums in enumerate(tally.sums.values()):
        for at in range(len(tally.steps)):
            yield f"totals {system} {at}", sums.totals[at]
            yield f"drawn {system} {at}", sums.drawn[at]
        yield f"counts {system}", np.array(sums.counts)


def _load(path: Path, steps: Sequence[Step]) -> Tally:
    arrays = read_arrays(path)
    tally = Tally(steps)
    try:
        said = json.loads(bytes(arrays["said"]))
        tally.rows, tally.fewest, tally.most = said["rows"], said["fewest"], said["most"]
        tally.counted = {(column, why): n for column, why, n in said["counted"]}
        tally.unscored = [Unscored(*u) for u in said["unscored"]]
        tally.notes = said["notes"]
        labels = None if said["labels"] is None else Labels({}, said["labels"])
        regions = [evidence.region_handle(MemoryRegions({}, name)) for name in said["regions"]]
        tally.evidence = Evidence(labels, tuple(regions))  # what signatures name of it
        for number, name in enumerate(tally.histograms):
            edges = tally.histograms[name].edges
            tally.histograms[name] = Histogram(edges, arrays[f"histogram {number}"])
        for at, (system, images) in enumerate(zip(said["systems"], said["images"], strict=True)):
            each = range(len(tally.steps))
            tally.sums[system] = Sums(
                [arrays[f"totals {at} {step}"] for step in each],
                arrays[f"counts {at}"].tolist(),
                [arrays[f"drawn {at} {step}"] for step in each],
                images,
            )
    except (KeyError, ValueError, TypeError) as err:
        raise InputError(f"{path}: damaged; delete it, and the shard is scored again") from err
    return tally
