"""A scoring job: what to read, what evidence, which metrics; and the one pipeline that runs it.

Every caller (Python, each verb, meta-evaluation, a service) makes a job and calls :func:`score`. A
job is data: a stored table carries it, so that the table can be verified and the job run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from captious import assets, registry, spec
from captious.engine import evidence
from captious.engine.cache import StatisticsCache, default_cache
from captious.engine.executors import Executor
from captious.engine.plan import DEFAULT, Asked, Step, asked, refuse_missing, steps_for
from captious.engine.run import run
from captious.engine.table import ScoreTable
from captious.errors import InputError, UsageError
from captious.io.load import load
from captious.io.references import paths_in
from captious.metrics.base import Metric
from captious.statistics.bootstrap import RESAMPLES, SEED
from captious.types import CaptionSet

INLINE = "inline"
"""Stands in a stored job for data that were handed over in Python: they are in the table."""


@dataclass(frozen=True)
class ScoringJob:
    """A run, described.

    Attributes:
        captions: a path or several (one system each), texts, records, ``{id: caption}``, a frame,
            or a caption set.
        references: a path or several, one list of texts per caption, or ``{id: [texts]}``.
        images: a folder, one image per caption, or ``{id: image}``.
        objects: label files, one list of labels per caption, or ``{image: labels}``.
        regions: a store of region features, its path, or several of different kinds.
        systems: a name per caption file.
        metrics: names, specs, metric objects or functions of a caption and its references.
        resamples: bootstrap draws for the intervals; 0 for none.
        seed: of every draw.
        keep: whether statistics of finished chunks are kept in the cache, so that a killed run
            goes on and a second run costs nothing.
        skip_unmatched: leave out captions without references or image file instead of refusing.
    """

    captions: Any
    references: Any = None
    images: Any = None
    objects: Any = None
    regions: Any = None
    systems: tuple[str, ...] | None = None
    metrics: tuple[Asked, ...] = DEFAULT
    resamples: int = RESAMPLES
    seed: int = SEED
    keep: bool = False
    skip_unmatched: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", asked(self.metrics))
        if self.systems is not None:
            object.__setattr__(self, "systems", tuple(self.systems))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise UsageError(f"a seed must be 0 or a positive whole number, not {self.seed!r}")
        if self.resamples < 0:
            raise UsageError(
                f"resamples must be 0 or a positive whole number, not {self.resamples!r}"
            )

    def check(self) -> list[Step]:
        """Refuse what can be refused before the first row is read; return the metrics to run.

        Raises:
            UsageError: unknown names or parameters, all of them.
            CaptiousError: packages and weights that are missing, all of them.
            InputError: files that are not there, all of them.
        """
        steps = steps_for(self.metrics)
        refuse_missing([err for step in steps for err in step.metric.missing()])
        problems = []
        for what in ("captions", "references", "objects"):
            for path in paths_in(getattr(self, what)) or ():
                if not path.exists():
                    problems.append(f"{path}: there is no such file ({what})")
        if isinstance(self.images, str | os.PathLike) and not Path(self.images).is_dir():
            problems.append(f"{self.images}: this is not a folder of images")
        for store in self.regions if isinstance(self.regions, list | tuple) else [self.regions]:
            if isinstance(store, str | os.PathLike) and not Path(store).exists():
                problems.append(f"{store}: there is no such store of region features")
        if problems:
            raise InputError(problems)
        return steps

    def read(self, say: Callable[[str], None] | None = None) -> CaptionSet:
        """Read captions, references and the evidence that is named.

        Args:
            say: called with remarks that are not errors (references that no caption uses).
        """
        label_files = paths_in(self.objects)
        samples = load(
            self.captions,
            self.references,
            images=self.images,
            systems=self.systems,
            objects=None if label_files else self.objects,
            skip_unmatched=self.skip_unmatched,
            say=say,
        )
        return evidence.given(samples, label_files or (), self.regions)

    def to_json(self) -> dict[str, Any]:
        """Return the job as plain data; files are named with their sha256."""
        return {
            "captions": _described(self.captions),
            "references": _described(self.references),
            "images": _described(self.images, folder=True),
            "objects": _described(self.objects),
            "regions": _stores(self.regions),
            "systems": None if self.systems is None else list(self.systems),
            "metrics": [_form(metric) for metric in self.metrics],
            "resamples": self.resamples,
            "seed": self.seed,
            "skip_unmatched": self.skip_unmatched,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], beside: Path | None = None) -> ScoringJob:
        """Return the job that :meth:`to_json` described.

        Args:
            data: the description.
            beside: folder where files are looked for too, if they are not where they were.

        Raises:
            InputError: the data are no job, or a file is not there or has changed.
        """
        known = {f.name for f in fields(cls)}
        if not isinstance(data, Mapping) or "captions" not in data:
            raise InputError("this is not the description of a scoring job")
        fields_held = {k: v for k, v in data.items() if k in known}
        problems: list[str] = []
        for what in ("captions", "references", "images", "objects", "regions"):
            fields_held[what] = _restored(fields_held.get(what), what, beside, problems)
        if problems:
            raise InputError(problems)
        return cls(**fields_held)


def score(
    job: ScoringJob,
    *,
    executor: Executor | None = None,
    cache: StatisticsCache | None = None,
    say: Callable[[str], None] | None = None,
) -> ScoreTable:
    """Run a job.

    Args:
        job: what to do.
        executor: who does the work; this process if None.
        cache: where statistics are kept; if None, in the default cache where the job says so.
        say: called with remarks that are not errors.
    """
    job.check()
    samples = job.read(say)
    if cache is None and job.keep:
        cache = default_cache()
    table = run(
        samples,
        job.metrics,
        resamples=job.resamples,
        seed=job.seed,
        executor=executor,
        cache=cache,
    )
    # A group means what is installed here; the stored job names the metrics themselves.
    metrics = tuple(table.metric_forms) if _names_group(job.metrics) else job.metrics
    return replace(table, job=replace(job, metrics=metrics).to_json())


def _names_group(metrics: tuple[Asked, ...]) -> bool:
    texts = [metric for metric in metrics if isinstance(metric, str)]
    named = spec.parse_many(texts) if texts else []
    return any(registry.group(wanted.name.lower()) is not None for wanted in named)


def _form(metric: Asked) -> str:
    if isinstance(metric, str):
        return metric
    if isinstance(metric, Metric):
        return registry.text_form(metric)
    return str(getattr(metric, "__name__", metric))


def _described(value: Any, folder: bool = False) -> Any:
    """Return files by path and sha256, and everything else as "inline"."""
    if value is None:
        return None
    if folder:
        return str(value) if isinstance(value, str | os.PathLike) else INLINE
    paths = paths_in(value)
    if paths is None:
        return INLINE
    return [{"path": str(p), "sha256": assets.digest(p) if p.is_file() else ""} for p in paths]


def _stores(value: Any) -> Any:
    """Return stores of region features by their paths."""
    if isinstance(value, list | tuple):
        places = [_described(store, folder=True) for store in value]
        return INLINE if INLINE in places else [{"path": place} for place in places]
    return _described(value, folder=True)


def _restored(value: Any, what: str, beside: Path | None, problems: list[str]) -> Any:
    if value is None or isinstance(value, str):
        return value
    out = []
    for entry in value:
        named = Path(entry["path"])
        places = [named]
        if beside is not None:
            places += [beside / named, beside / named.name]
        file = next((place for place in places if place.exists()), None)
        if file is None:
            problems.append(f"{named}: this file of the job ({what}) no longer exists")
        elif entry.get("sha256") and assets.digest(file) != entry["sha256"]:
            problems.append(
                f"{file}: this is not the file of the job ({what}), its sha256 has changed"
            )
        else:
            out.append(file)
    return out
