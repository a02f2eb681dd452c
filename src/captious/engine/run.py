"""Run a plan over a caption set: batch by batch, resumable, one table at the end."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from captious import registry
from captious._version import __version__
from captious.engine import evidence
from captious.engine.plan import has, plan, steps_for
from captious.engine.table import ScoreTable, Unscored
from captious.io import files
from captious.metrics.base import Metric
from captious.progress import Progress
from captious.statistics import bootstrap
from captious.types import CaptionSet, Floats, Need, Stats

BATCH = 8192

_WHY = {
    Need.REFERENCES: "it has no reference",
    Need.IMAGE_OBJECTS: "its image has no object labels",
    Need.IMAGE_REGIONS: "it names no image",
    Need.IMAGE_PIXELS: "it names no image",
}


def run(
    samples: CaptionSet,
    metrics: str | Iterable[str | Metric] | None = None,
    *,
    resamples: int = bootstrap.RESAMPLES,
    parts: Path | Parts | None = None,
) -> ScoreTable:
    """Score a caption set.

    Args:
        samples: what to judge.
        metrics: names, specs or metric objects; None for the n-gram metrics.
        resamples: bootstrap draws for the intervals; 0 for none.
        parts: folder where finished batches are kept, so that a killed run goes on from there;
            it is removed by the caller when the result is safe. Or what keeps them elsewhere.
    """
    samples = evidence.completed(samples, steps_for(metrics))
    steps = plan(metrics, samples)
    keep = parts if isinstance(parts, Parts) else _Folder(parts, samples) if parts else Parts()
    blocks: list[Floats] = []
    signatures: dict[str, str] = {}
    unscored: list[Unscored] = []
    notes: dict[str, int] = {}
    done: dict[Metric, tuple[Stats, Any]] = {}
    for step in steps:
        stats, context = _shared(step.metric, samples, keep, done)
        blocks.append(stats.rows)
        text = step.metric.signature(reference_label(samples), context, samples.objects_from)
        signatures |= dict.fromkeys(step.names, text)
        for row, why in stats.reasons.items():
            unscored += [
                Unscored(str(samples.ids[row]), str(samples.systems[row]), name, why)
                for name in step.names
            ]
        for note, count in stats.notes.items():
            key = f"{step.metric.name}: {note}"
            notes[key] = notes.get(key, 0) + count
    return ScoreTable.assemble(samples, steps, blocks, signatures, unscored, notes, resamples)


def _shared(
    metric: Metric, samples: CaptionSet, keep: Parts, done: dict[Metric, tuple[Stats, Any]]
) -> tuple[Stats, Any]:
    """Run a metric once, whoever asks for it: the user, or a metric that is made of others."""
    if metric not in done:
        if metric.inputs:
            found = [_shared(part, samples, keep, done) for part in metric.inputs]
            contexts = tuple(context for _, context in found)
            done[metric] = metric.combine([stats for stats, _ in found], contexts), contexts
        else:
            done[metric] = _alone(metric, samples, keep)
    return done[metric]


def _alone(metric: Metric, samples: CaptionSet, keep: Parts) -> tuple[Stats, Any]:
    usable = np.ones(len(samples), bool)
    reasons: dict[int, str] = {}
    for need in metric.needs:
        held = has(samples, need)
        for row in np.flatnonzero(usable & ~held):
            reasons[int(row)] = _WHY[need]
        usable &= held
    index = np.flatnonzero(usable)
    scored = samples if usable.all() else samples.take(index)
    context = metric.prepare(scored)
    size = getattr(metric, "batch", BATCH)
    done: list[Floats] = []
    notes: dict[str, int] = {}
    with Progress(metric.name, len(scored), "captions") as bar:
        for number, start in enumerate(range(0, len(scored), size)):
            stop = min(start + size, len(scored))
            stats = keep.load(metric, number, size)
            if stats is None:
                part = scored if (start, stop) == (0, len(scored)) else scored[start:stop]
                stats = metric.stats(part, context)
                keep.save(metric, number, size, stats)
            done.append(stats.rows)
            reasons |= {int(index[start + row]): why for row, why in stats.reasons.items()}
            for note, count in stats.notes.items():
                notes[note] = notes.get(note, 0) + count
            bar.advance(stop - start)
    width = done[0].shape[1] if done else len(metric.columns)
    rows = np.full((len(samples), width), np.nan)
    if done:
        rows[index] = np.concatenate(done)
    return Stats(rows, reasons, notes), context


def reference_label(samples: CaptionSet) -> str:
    """Return how many references the captions have: ``5``, ``5..7`` or ``0``."""
    low, high = int(samples.reference_counts.min()), int(samples.reference_counts.max())
    return str(low) if low == high else f"{low}..{high}"


def fingerprint(samples: CaptionSet) -> str:
    """Return a hash of everything that scores can depend on."""
    digest = hashlib.sha256(__version__.encode())
    for chunk in samples.pool.chunks():
        digest.update("\0".join(chunk).encode("utf-8", "surrogatepass"))
    for array in (samples.caption, samples.reference, samples.offsets):
        digest.update(np.ascontiguousarray(array).tobytes())
    for column in (samples.ids, samples.images, samples.systems, samples.objects):
        if column is not None:
            digest.update(repr(column.tolist()).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class Parts:
    """Finished batches of single metrics; this one keeps none."""

    def path(self, metric: Metric, number: int, size: int) -> Path | None:
        """Return the file of a batch, or None where it is not kept."""
        return None

    def load(self, metric: Metric, number: int, size: int) -> Stats | None:
        """Return a batch that was kept."""
        path = self.path(metric, number, size)
        if path is None or not path.exists():
            return None
        with np.load(path, allow_pickle=False) as file:
            said = json.loads(bytes(file["said"]))
            return Stats(
                file["rows"], {int(k): v for k, v in said["reasons"].items()}, said["notes"]
            )

    def save(self, metric: Metric, number: int, size: int, stats: Stats) -> None:
        """Keep a batch; several processes may do so at once."""
        path = self.path(metric, number, size)
        if path is None:
            return
        said = json.dumps({"reasons": stats.reasons, "notes": stats.notes}).encode()
        with files.replacing(path, "wb") as file:
            np.savez(file, rows=stats.rows, said=np.frombuffer(said, np.uint8))


class _Folder(Parts):
    """A folder that is valid for one data set only."""

    def __init__(self, folder: Path, samples: CaptionSet) -> None:
        self.folder = folder
        stamp, mine = folder / "run.json", {"data": fingerprint(samples)}
        if not (stamp.exists() and json.loads(stamp.read_text()) == mine):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            with files.replacing(stamp, "wb") as file:
                file.write(json.dumps(mine).encode())

    def path(self, metric: Metric, number: int, size: int) -> Path:
        """Name the batch by the metric's text form."""
        form = hashlib.sha256(registry.text_form(metric).encode()).hexdigest()[:16]
        return self.folder / f"{metric.name}-{form}-{size}-{number:06d}.npz"
