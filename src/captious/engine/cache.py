"""The one cache of statistics: what was computed for a chunk is never computed again.

The key of an entry holds everything that its numbers can depend on: the metric's text form and
signature, its corpus facts, the captions and references of the chunk, the evidence of its images,
the files that the metric reads, and the version of captious (in a development checkout, a digest of
the code that the metric uses).
"""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import captious
from captious import assets, registry, settings
from captious._version import __version__
from captious.errors import CaptiousError
from captious.io import files
from captious.metrics.base import Metric
from captious.reading import read_arrays
from captious.types import CaptionSet, Need, Stats

log = logging.getLogger("captious")

_KEPT_BYTES = 2 << 30
NOT_AN_ENTRY = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_CODE = ("metrics", "text", "models", "evidence", "learned", "engine")
_ROOT = Path(captious.__file__).parent


@dataclass(frozen=True)
class StatisticsCache:
    """Statistics of chunks, in a folder; several processes may use it at once.

    Attributes:
        folder: where entries are kept; None keeps them in this process alone.
        memory: entries of this process, if it is to remember them.
    """

    folder: Path | None
    memory: dict[str, Stats] | None = None

    def key(self, metric: Metric, chunk: CaptionSet, context: Any) -> str | None:
        """Return the name of an entry, or None where a result cannot be named safely."""
        facts = metric.context_digest(context)
        files_read = _files_read(metric)
        if facts is None or files_read is None:
            return None
        parts = [
            registry.text_form(metric),
            [column.name for column in metric.columns],
            metric.signature("", context, chunk.evidence),
            facts,
            files_read,
            evidence_digest(metric, chunk),
            content_digest(chunk),
            version(metric),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]

    def load(self, key: str | None) -> Stats | None:
        """Return an entry; one that cannot be read is none."""
        if key is None:
            return None
        if self.memory is not None and key in self.memory:
            return self.memory[key]
        if self.folder is None:
            return None
        path = self._path(self.folder, key)
        try:
            held = read_arrays(path)
            rows, said = held["rows"], json.loads(bytes(held["said"]))
            reasons = {int(row): str(why) for row, why in said["reasons"].items()}
            notes = {str(note): int(count) for note, count in said["notes"].items()}
        except (CaptiousError, OSError, *NOT_AN_ENTRY):
            return None
        if rows.ndim != 2 or rows.dtype != np.float64:
            return None
        with suppress(OSError):
            os.utime(path)
        return Stats(rows, reasons, notes)

    def save(self, key: str | None, stats: Stats) -> None:
        """Keep an entry. A cache that cannot be written is no reason to lose the result."""
        if key is None:
            return
        if self.memory is not None:
            self.memory[key] = stats
        if self.folder is None:
            return
        said = json.dumps({"reasons": stats.reasons, "notes": stats.notes}).encode()
        try:
            with files.replacing(self._path(self.folder, key), "wb") as file:
                np.savez(file, rows=stats.rows, said=np.frombuffer(said, np.uint8))
        except OSError as err:
            log.warning("cannot keep statistics in %s: %s", self.folder, err)

    def prune(self, most: int = _KEPT_BYTES) -> None:
        """Drop the entries that were not used for longest, once there are too many."""
        if self.folder is None:
            return
        try:
            held = [(p, p.stat()) for p in self.folder.glob("*/*.npz")]
        except OSError:
            return
        total = sum(s.st_size for _, s in held)
        for path, state in sorted(held, key=lambda item: item[1].st_mtime):
            if total <= most:
                return
            path.unlink(missing_ok=True)
            total -= state.st_size

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.npz"


def default_cache() -> StatisticsCache:
    """Return the cache below the folder of the settings."""
    return StatisticsCache(settings.get().cache_dir / "statistics")


def samples_digest(samples: CaptionSet) -> str:
    """Return a hash of everything that scores of a caption set can depend on."""
    digest = hashlib.sha256(content_digest(samples).encode())
    digest.update(json.dumps([samples.ids.tolist(), samples.systems.tolist()]).encode())
    digest.update(json.dumps(samples.objects).encode())
    for store in samples.evidence.regions:
        images = dict.fromkeys(str(i) for i in samples.image_keys)
        digest.update("\0".join(store.identity(i) for i in images).encode())
    return digest.hexdigest()


def content_digest(samples: CaptionSet) -> str:
    """Return a hash of what is judged: captions, references and images, row by row."""
    digest = hashlib.sha256()
    order = np.concatenate([samples.caption, samples.reference])
    for part in samples.pool.take(order).chunks():
        digest.update(json.dumps(part).encode())
    digest.update(np.ascontiguousarray(samples.offsets).tobytes())
    digest.update(json.dumps([str(i) for i in samples.image_keys]).encode())
    return digest.hexdigest()


def evidence_digest(metric: Metric, samples: CaptionSet) -> str:
    """Return a hash of the evidence that a metric reads for these samples."""
    evidence = samples.evidence
    facts: list[Any] = []
    images = list(dict.fromkeys(str(i) for i in samples.image_keys))
    if Need.IMAGE_OBJECTS in metric.needs and evidence.labels is not None:
        facts += [[image, evidence.labels.by_image.get(image)] for image in images]
    if Need.IMAGE_REGIONS in metric.needs:
        store = evidence.regions_like(metric.region_kind)
        if store is not None:
            facts += [store.identity(image) for image in images]
    if evidence.digests:
        facts += [[image, evidence.digests.get(image)] for image in images]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _files_read(metric: Metric) -> list[Any] | None:
    """Return name, size and time of every file that a metric reads; None where one is missing."""
    read: list[Any] = []
    for name in metric.assets:
        try:
            read.append([name, _state(assets.resolve(name, wanted_by=metric.name))])
        except CaptiousError:
            return None
    for value in metric.parameters().values():
        if isinstance(value, str) and value and len(value) < 4096 and Path(value).exists():
            read.append(_state(Path(value)))
    return read


def _state(path: Path) -> list[tuple[str, int, int]]:
    held = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    stats = [(p, p.stat()) for p in held]
    return [(str(p), s.st_size, s.st_mtime_ns) for p, s in stats]


# -- which code made it ------------------------------------------------------------------------


def version(metric: Metric) -> str:
    """Return the version of captious; in a checkout, with a digest of the code that is used."""
    if not (_ROOT.parents[1] / "pyproject.toml").is_file():
        return __version__
    return f"{__version__}+{_code(type(metric).__module__)}"


@lru_cache(maxsize=64)
def _code(module: str) -> str:
    """Return a digest of the files that a metric imports, wherever, and those that these import."""
    paths = set(_imported(module))
    if _ROOT / "registry.py" in paths:  # it may run any other metric
        paths |= {p for folder in _CODE for p in (_ROOT / folder).rglob("*.py")}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _imported(module: str) -> tuple[Path, ...]:
    seen: set[Path] = set()
    todo = [module]
    while todo:
        parts = todo.pop().split(".")
        place = _ROOT.joinpath(*parts[1:])
        files_there = [p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()]
        if parts[0] != "captious" or len(parts) < 2 or not files_there or files_there[0] in seen:
            continue
        seen.add(files_there[0])
        for node in ast.walk(ast.parse(files_there[0].read_bytes())):
            if isinstance(node, ast.Import):
                todo += [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                todo += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
    return tuple(seen)
