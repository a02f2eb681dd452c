"""What a detector saw, photograph by photograph: one cache that knows pictures by their content.

Every process writes parts of its own (a part appears whole or not at all), so several may fill one
cache at once; a new photograph costs one detection, a renamed one none.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from captious import settings
from captious.errors import InputError
from captious.evidence.detect import THRESHOLD, Detection, Detector
from captious.evidence.images import open_photograph, photograph_digest
from captious.progress import Progress
from captious.reading import read_parquet, reading

_PART = 100
_SECONDS = 20.0  # a part is written at least this often: a killed run loses no more
_MANY_PARTS = 32


class DetectionCache:
    """Detections of one detector at one threshold.

    Args:
        detector: who looks.
        threshold: how sure it must be.
        folder: of the cache; by default below that of the settings.
    """

    def __init__(
        self, detector: Detector, threshold: float = THRESHOLD, folder: Path | None = None
    ) -> None:
        self.detector, self.threshold = detector, threshold
        self.source = f"{detector.signature}({threshold:g})"
        name = hashlib.sha256(self.source.encode()).hexdigest()[:16]
        self.folder = folder or settings.get().cache_dir / "objects" / name
        self._known: dict[str, list[Detection]] | None = None

    def labels(
        self, photographs: Mapping[str, Path | bytes]
    ) -> tuple[dict[str, tuple[str, ...]], list[str]]:
        """Return the labels by image, and a line for every photograph that cannot be opened."""
        seen, problems = self.detections(photographs)
        return {image: tuple(d.label for d in there) for image, there in seen.items()}, problems

    def detections(
        self, photographs: Mapping[str, Path | bytes]
    ) -> tuple[dict[str, list[Detection]], list[str]]:
        """Return what is seen in each photograph, looking only at those that are new."""
        known = self._read()
        content: dict[str, str] = {}
        problems: list[str] = []
        for image, file in photographs.items():
            try:
                content[image] = photograph_digest(file)
            except InputError as error:
                problems.append(str(error))
        todo = {digest: image for image, digest in content.items() if digest not in known}
        fresh: dict[str, list[Detection]] = {}
        saved = time.monotonic()
        with Progress("detecting", len(todo), "photographs") as bar:
            for digest, image in todo.items():
                try:
                    picture = open_photograph(photographs[image], image)
                except InputError as error:
                    problems.append(str(error))
                else:
                    fresh[digest] = self.detector.detect(picture, self.threshold)
                bar.advance()
                if len(fresh) >= _PART or time.monotonic() - saved > _SECONDS:
                    self._write(fresh)
                    known |= fresh
                    fresh, saved = {}, time.monotonic()
        self._write(fresh)
        known |= fresh
        return {image: known[d] for image, d in content.items() if d in known}, problems

    def _read(self) -> dict[str, list[Detection]]:
        """Read all parts, once; many small ones are joined into one."""
        if self._known is not None:
            return self._known
        known: dict[str, list[Detection]] = {}
        parts = sorted(self.folder.glob("part-*.parquet"))
        for part in parts:
            try:
                with reading(part, "kept detections"):
                    seen = _detections(read_parquet(part).to_pylist())
            except InputError:
                continue  # damaged, or joined away by another process a moment ago
            known |= seen
        if len(parts) > _MANY_PARTS:
            self._write(known)
            for part in parts:
                part.unlink(missing_ok=True)
        self._known = known
        return known

    def _write(self, seen: Mapping[str, list[Detection]]) -> None:
        if not seen:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = []
        for digest, detections in seen.items():
            for detection in detections:
                left, top, right, bottom = map(float, detection.box)
                rows.append({"photograph": digest, "label": detection.label,
                             "score": float(detection.score), "left": left, "top": top,
                             "right": right, "bottom": bottom})  # fmt: skip
            if not detections:
                rows.append({"photograph": digest})
        numbers = [(name, pa.float64()) for name in ("score", "left", "top", "right", "bottom")]
        schema = pa.schema([("photograph", pa.string()), ("label", pa.string()), *numbers])
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"part-{time.time_ns()}-{uuid4().hex[:8]}.parquet"
        work = self.folder / f".{name}"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), work)
        work.replace(self.folder / name)


def _detections(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Detection]]:
    """Return what the rows of a part say of each photograph."""
    seen: dict[str, list[Detection]] = {}
    for row in rows:
        here = seen.setdefault(str(row["photograph"]), [])
        if row["label"] is not None:
            left, top, right, bottom = (float(row[k]) for k in ("left", "top", "right", "bottom"))
            box = (left, top, right, bottom)
            here.append(Detection(str(row["label"]), float(row["score"]), box))
    return seen
