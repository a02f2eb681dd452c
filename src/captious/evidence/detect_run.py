"""Run a detector over many photographs: bounded memory, resumable, one parquet file at the end.

Finished photographs are kept in small parts beside the output; a killed run goes on from there, and
a run into an existing file only looks at photographs that are new to it. A file that cannot be
opened is listed and skipped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious import settings
from captious.errors import InputError, UsageError
from captious.evidence.detect import DEFAULT, THRESHOLD, Detection, Detector, load_detector
from captious.evidence.images import MAX_PIXELS, open_image
from captious.evidence.objects import ObjectStore
from captious.progress import Progress

_META = b"captious.detect"
_PART = 200
PATIENCE = 20.0
"""Seconds after which what was detected is stored, even if it is not a full part."""


@dataclass(frozen=True)
class DetectionRun:
    """What a run did.

    Attributes:
        out: the parquet file: a row per object, one row without label per empty photograph.
        looked_at: photographs that the detector saw in this run.
        kept: photographs whose detections were there before.
        skipped: why some files could not be opened, one message each.
    """

    out: Path
    looked_at: int
    kept: int
    skipped: list[str]


def detect_images(
    images: Sequence[tuple[str, Path]],
    detector: Detector,
    out: Path,
    threshold: float = THRESHOLD,
    max_pixels: int = MAX_PIXELS,
) -> DetectionRun:
    """Detect objects in `(key, path)` photographs and write them to `out`.

    Raises:
        UsageError: `out` was made with another detector or threshold.
    """
    if not 0.0 <= threshold <= 1.0:
        raise UsageError(f"the threshold must be between 0 and 1, not {threshold:g}")
    recipe = {"detector": detector.signature, "threshold": threshold}
    parts = out.with_name(out.name + ".parts")
    parts.mkdir(parents=True, exist_ok=True)
    done = {key for file in _files(out, parts) for key in _keys(file, recipe)}
    todo = [(key, path) for key, path in images if key not in done]
    skipped: list[str] = []
    rows: list[dict[str, Any]] = []
    pending = 0
    number = len(list(parts.glob("part-*.parquet")))
    written = time.monotonic()
    with Progress("detecting", len(todo), "photographs") as bar:
        for key, path in todo:
            try:
                picture = open_image(path, max_pixels)
            except InputError as error:
                skipped.append(str(error))
            else:
                rows.extend(_rows(key, detector.detect(picture, threshold)))
                pending += 1
            bar.advance()
            late = time.monotonic() - written > PATIENCE
            if pending == _PART or (pending and late):
                _write(rows, recipe, parts / f"part-{number:06d}.parquet")
                rows, pending, number, written = [], 0, number + 1, time.monotonic()
    if rows:
        _write(rows, recipe, parts / f"part-{number:06d}.parquet")
    _join(out, parts, recipe)
    return DetectionRun(out, len(todo) - len(skipped), len(images) - len(todo), skipped)


def detected_store(
    images: Sequence[str], detector: str = DEFAULT, threshold: float = THRESHOLD
) -> tuple[ObjectStore, list[str]]:
    """Return the labels that a detector sees in these files, and what could not be opened.

    Detections are kept in the cache, so that a second run over the same files costs nothing.
    """
    loaded = load_detector(detector)
    facts = hashlib.sha256(f"{loaded.signature}|{threshold}".encode())
    distinct = sorted(set(images))
    for image in distinct:
        path = Path(image)
        stamp = path.stat() if path.is_file() else None
        size, time = (stamp.st_size, stamp.st_mtime_ns) if stamp else (0, 0)
        facts.update(f"|{image}|{size}|{time}".encode())
    out = settings.get().cache_dir / "objects" / f"{facts.hexdigest()[:20]}.parquet"
    run = detect_images([(i, Path(i)) for i in distinct], loaded, out, threshold)
    if len(run.skipped) == len(distinct):
        return ObjectStore(loaded.signature, {}), run.skipped
    return ObjectStore(loaded.signature, ObjectStore.read(out).by_image), run.skipped


def _rows(key: str, detections: list[Detection]) -> Iterator[dict[str, Any]]:
    for item in detections:
        left, top, right, bottom = item.box
        yield {"image": key, "label": item.label, "score": item.score, "left": left, "top": top,
               "right": right, "bottom": bottom}  # fmt: skip
    if not detections:
        yield {"image": key}


def _schema(recipe: dict[str, Any]) -> Any:
    import pyarrow as pa

    numbers = [(n, pa.float32()) for n in ("score", "left", "top", "right", "bottom")]
    fields = [("image", pa.string()), ("label", pa.string()), *numbers]
    return pa.schema(fields, metadata={_META: json.dumps(recipe).encode()})


def _write(rows: list[dict[str, Any]], recipe: dict[str, Any], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    work = path.with_name("." + path.name)
    pq.write_table(pa.Table.from_pylist(rows, schema=_schema(recipe)), work)
    work.replace(path)


def _files(out: Path, parts: Path) -> list[Path]:
    return [*([out] if out.exists() else []), *sorted(parts.glob("part-*.parquet"))]


def _keys(path: Path, recipe: dict[str, Any]) -> list[str]:
    """The photographs of a file, after checking that it was made the same way."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{path} already exists and is not a file of detections") from error
    made = json.loads((file.schema_arrow.metadata or {}).get(_META, b"{}"))
    if made != recipe:
        raise UsageError(
            f"{path} was made with {made or 'something else'}, but this run uses {recipe}; "
            "choose another output or delete it"
        )
    return list(dict.fromkeys(file.read(columns=["image"]).column("image").to_pylist()))


def _join(out: Path, parts: Path, recipe: dict[str, Any]) -> None:
    """Write all parts into one file and take the parts away."""
    import pyarrow.parquet as pq

    work = out.with_name("." + out.name)
    schema = _schema(recipe)
    with pq.ParquetWriter(work, schema) as writer:
        for file in _files(out, parts):
            writer.write_table(pq.read_table(file).cast(schema))
    work.replace(out)
    shutil.rmtree(parts)
