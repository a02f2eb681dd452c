"""Region features from photographs, on a laptop: a backbone's feature map pooled over boxes.

A photograph is resized to about 143,000 pixels (320 x 448 for the usual 5:7 landscape, sides in
multiples of 32) or to a square (``side=``), goes once through each backbone, and the last feature
map is averaged over every box with the exact share of each cell. The boxes are a fixed multi-scale
grid:

====== ================= ==============================
number boxes             size, as a fraction of a side
====== ================= ==============================
1      whole photograph  1
1      centre            2/3
9      3 x 3 overlapping 1/2
25     5 x 5 overlapping 1/3
====== ================= ==============================

so 36 in all. Boxes of a detector can take the place of the smallest grid boxes (``detector=``).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from captious import assets, settings
from captious.errors import InputError, UsageError
from captious.evidence.backbones import Backbone, EfficientNetLite, base_of
from captious.evidence.handles import ExtractedRegions
from captious.evidence.images import open_photograph, photograph_digest
from captious.evidence.photographs import open_photographs
from captious.evidence.regions import KeyTable, RegionFolder, RegionSet, RegionWriter
from captious.progress import Progress

if TYPE_CHECKING:
    from PIL import Image

T = TypeVar("T")
Floats = NDArray[np.float32]
PATIENCE = 20.0
"""Seconds after which what was extracted is stored, even if it is not a full part."""

PART_BYTES = 256 << 20
"""Encoded photographs out of an archive that wait in memory for the backbones."""

Detector = Callable[["Image.Image"], Floats]

AREA = 320 * 448
STRIDE = 32
_ONE_THREAD = 4 * 65536  # multiplications up to which OpenBLAS stays in one thread
IMAGENET_BACKBONES = ("efficientnet-lite0", "efficientnet-lite2")
DEFAULT_KIND = "lite0-captions+lite2-captions/square256/grid36/v1"
"""What all our own models read."""


def grid_boxes(count: int = 36) -> Floats:
    """Relative boxes of the multi-scale grid, coarse to fine, the first ``count`` of them.

    >>> grid_boxes(2).tolist()[0]
    [0.0, 0.0, 1.0, 1.0]
    >>> grid_boxes().shape
    (36, 4)
    """
    boxes: list[tuple[float, float, float, float]] = [(0, 0, 1, 1), (1 / 6, 1 / 6, 5 / 6, 5 / 6)]
    for steps, size in ((3, 1 / 2), (5, 1 / 3), (7, 1 / 4)):
        starts = np.linspace(0, 1 - size, steps)
        boxes += [(x, y, x + size, y + size) for y in starts for x in starts]
    if not 1 <= count <= len(boxes):
        raise InputError(f"the grid has 1 to {len(boxes)} regions, not {count}")
    return np.array(boxes[:count], np.float32)


def pooling_weights(boxes: Floats, rows: int, columns: int) -> Floats:
    """``[n, rows * columns]``: share of every map cell in the mean over each (relative) box."""

    def overlap(low: Floats, high: Floats, cells: int) -> Floats:
        edge = np.arange(cells + 1, dtype=np.float32) / cells
        inner = np.minimum(high[:, None], edge[None, 1:]) - np.maximum(
            low[:, None], edge[None, :-1]
        )
        return np.clip(inner, 0, None)

    y = overlap(boxes[:, 1], boxes[:, 3], rows)
    x = overlap(boxes[:, 0], boxes[:, 2], columns)
    weights = (y[:, :, None] * x[:, None, :]).reshape(len(boxes), -1)
    total = weights.sum(1, keepdims=True)
    return np.asarray(weights / np.maximum(total, 1e-12), np.float32)


def pool(weights: Floats, maps: Floats) -> Floats:
    """``weights [n, cells] @ maps [channels, cells]`` transposed, in pieces of one thread each.

    OpenBLAS gives larger products to all cores. Photographs are spread over threads already, and
    the waiting of these threads for each other took more time than the backbones.
    """
    step = max(1, _ONE_THREAD // weights.size)
    parts = [weights @ maps[begin : begin + step].T for begin in range(0, len(maps), step)]
    return np.concatenate(parts, axis=1)


def input_size(width: int, height: int, area: int = AREA) -> tuple[int, int]:
    """Width and height the backbone sees: the aspect kept as multiples of 32 allow."""
    ratio = min(max(width / height, 1 / 3), 3.0)
    tall = (area / ratio) ** 0.5
    return (
        max(STRIDE, round(tall * ratio / STRIDE) * STRIDE),
        max(STRIDE, round(tall / STRIDE) * STRIDE),
    )


@dataclass
class Extractor:
    """Photograph -> :class:`RegionSet`; the same photograph always gives the same features."""

    backbones: Sequence[Backbone]
    count: int = 36
    detector: Detector | None = None
    max_detections: int = 12
    flip: bool = False
    """Mirror every photograph first: more examples for training, not for scoring."""
    side: int | None = None
    """Pixels of the square that the photograph is squashed to; None keeps its shape."""

    @property
    def dim(self) -> int:
        """Length of a region's feature vector: the backbones side by side."""
        return sum(one.dim for one in self.backbones)

    @property
    def source(self) -> str:
        """Named in signatures: two stores with the same source hold comparable features."""
        names = "+".join(one.name for one in self.backbones)
        boxes = "grid" if self.detector is None else "detector+grid"
        square = "" if self.side is None else f"square{self.side}/"
        return f"{names}/{square}{boxes}{self.count}/v1" + ("/flipped" if self.flip else "")

    def __call__(self, image: Image.Image) -> RegionSet:
        """Regions of one photograph."""
        from PIL import Image as pil

        image = image.convert("RGB")
        if self.flip:
            image = image.transpose(pil.Transpose.FLIP_LEFT_RIGHT)
        width, height = image.size
        size = input_size(width, height) if self.side is None else (self.side, self.side)
        pixels = np.asarray(image.resize(size, pil.Resampling.BICUBIC), np.float32)
        boxes = self._boxes(image)
        pooled = []
        for backbone in self.backbones:
            maps = backbone.maps(pixels)
            channels, rows, columns = maps.shape
            weights = (
                _grid_weights(self.count, rows, columns)
                if self.detector is None
                else pooling_weights(boxes, rows, columns)
            )
            pooled.append(pool(weights, maps.reshape(channels, -1)))
        scale = np.array([width, height, width, height], np.float32)
        return RegionSet(
            np.concatenate(pooled, axis=1).astype(np.float16),
            (boxes * scale).astype(np.float32),
            width,
            height,
        )

    def _boxes(self, image: Image.Image) -> Floats:
        grid = grid_boxes(self.count)
        if self.detector is None:
            return grid
        detected = self.detector(image)[: min(self.max_detections, self.count - 1)]
        return np.concatenate([grid[: self.count - len(detected)], detected]).astype(np.float32)


@lru_cache(maxsize=64)
def _grid_weights(count: int, rows: int, columns: int) -> Floats:
    return pooling_weights(grid_boxes(count), rows, columns)


def extractor(
    backbones: Iterable[str] = IMAGENET_BACKBONES,
    count: int = 36,
    *,
    detect: str | None = None,
    flip: bool = False,
    side: int | None = None,
) -> Extractor:
    """Return an extractor; ``backbones`` are asset names, ``detect`` names a detector."""
    boxes = None if detect is None else detector_boxes(detect)
    networks = [EfficientNetLite(name) for name in backbones]
    return Extractor(networks, count, boxes, flip=flip, side=side)


def detector_boxes(name: str) -> Detector:
    """A detector as a source of boxes: relative to the photograph, the surest first.

    One photograph at a time passes through it: OpenCV's networks hold the picture they work on.
    """
    from captious.evidence.detect import THRESHOLD, load_detector

    detector, turn = load_detector(name), Lock()

    def boxes(image: Image.Image) -> Floats:
        with turn:
            detections = detector.detect(image, THRESHOLD)
        scale = np.array([*image.size, *image.size], np.float32)
        relative = (
            np.array([detection.box for detection in detections], np.float32).reshape(-1, 4) / scale
        )
        return np.asarray(relative[(relative[:, 2:] > relative[:, :2]).all(axis=1)])

    return boxes


def extractor_of(kind: str) -> Extractor:
    """Return the extractor of a kind of features.

    Kinds are, for example, ``efficientnet-lite0/grid36/v1`` and
    ``lite2-captions/square256/grid36/v1``.

    Raises:
        UsageError: these features are not made here; they must be given.
    """
    known = re.fullmatch(r"(?P<names>[\w+-]+)/(?:square(?P<side>\d+)/)?grid(?P<count>\d+)/v1", kind)
    names = known["names"].split("+") if known else []
    if known is None or any(name not in assets.known() for name in names):
        raise UsageError(
            f"features of the kind {kind or 'of this model'!r} cannot be extracted here: give them "
            "with --regions STORE (regions=... in Python)"
        )
    side = None if known["side"] is None else int(known["side"])
    return extractor(names, int(known["count"]), side=side)


def is_ours(source: str) -> bool:
    """Return whether features of this kind are made here."""
    try:
        return bool(extractor_of(source).backbones)
    except UsageError:
        return False


def backbones_of(kind: str) -> tuple[str, ...]:
    """Return the assets that extraction of a kind of features needs."""
    names = [one.name for one in extractor_of(kind).backbones]
    return tuple(dict.fromkeys([*names, *(base_of(name) for name in names)]))


def extract_photographs(
    photographs: Mapping[str, Path | bytes], extract: Extractor, folder: Path | None = None
) -> ExtractedRegions:
    """Extract the regions of photographs, or find them in the cache.

    The cache knows a photograph by its content, so a moved or renamed file is not extracted again,
    and a new photograph costs one extraction.

    Args:
        photographs: image -> its file, or its encoded bytes.
        extract: what turns a photograph into regions.
        folder: of the cache; by default below that of the settings.

    Raises:
        InputError: with every photograph that could not be read.
    """
    if folder is None:
        name = hashlib.sha256(extract.source.encode()).hexdigest()[:12]
        folder = settings.get().cache_dir / "regions" / name
    writer = RegionWriter(folder, extract.dim, extract.source)
    done = writer.done()
    content: dict[str, str] = {}
    todo: dict[str, str] = {}
    problems: list[str] = []
    for image, file in photographs.items():
        if isinstance(file, Path) and not file.is_file():
            problems.append(f"{file}: no such photograph, and no region features were given")
            continue
        content[image] = photograph_digest(file)
        if content[image] not in done:
            todo.setdefault(content[image], image)
    with Progress("extracting regions", len(todo), "photographs") as bar:
        for chunk in _chunks([(digest, photographs[i]) for digest, i in todo.items()], 64):
            part: list[tuple[str, RegionSet]] = []
            for digest, regions in extract_many(chunk, extract):
                if isinstance(regions, str):
                    problems.append(regions)
                else:
                    part.append((digest, regions))
                bar.advance()
            if part:
                writer.write_part(part)
    if problems:
        raise InputError(problems)
    return ExtractedRegions(str(folder), extract.source, content)


def extract_many(
    photographs: Sequence[tuple[str, Path | bytes]], extract: Callable[[Image.Image], RegionSet]
) -> Iterator[tuple[str, RegionSet | str]]:
    """Regions of many photographs in their order; a string says why one could not be read.

    Photographs are spread over threads, one thread each: decoding and the backbones run outside
    Python's lock, and small networks gain little from more threads inside.
    """

    def one(item: tuple[str, Path | bytes]) -> tuple[str, RegionSet | str]:
        try:
            return item[0], extract(open_photograph(item[1], item[0]))
        except InputError as error:
            return item[0], str(error)

    for backbone in getattr(extract, "backbones", ()):
        opened = getattr(backbone, "open", None)
        if opened is not None:
            opened()
    with ThreadPoolExecutor(settings.get().threads) as pool:
        yield from pool.map(one, photographs)


def extract_folder(
    photographs: Path | str,
    target: Path | str,
    extract: Extractor,
    part: int = 128,
    only: Sequence[str] | None = None,
) -> tuple[RegionFolder, list[str]]:
    """Extract every photograph of a folder, a tar or a zip; a stopped run goes on where it was.

    Args:
        photographs: the folder or archive, or one photograph.
        target: where the store is written.
        extract: what turns a photograph into regions.
        part: photographs that are written at once.
        only: photographs to take, by path inside the folder or archive, or file name; None = all.

    Returns:
        The store, and one line per photograph that could not be read.
    """
    collection = open_photographs(photographs)
    names = collection.names()
    if not names:
        raise InputError(
            [f"{photographs}: no photographs found there", *collection.problems]
            if collection.problems
            else f"{photographs}: no photographs found there"
        )
    writer = RegionWriter(target, extract.dim, extract.source)
    if only is not None:
        names = _chosen(photographs, names, only)
    done = writer.done()
    left = [name for name in names if name not in done]
    problems: list[str] = []
    with Progress("extracting regions", len(left), "photographs") as bar:
        for chunk in _readable_parts(collection.read(left), part):
            sets: list[tuple[str, RegionSet]] = []
            written = time.monotonic()
            for name, regions in extract_many(chunk, extract):
                if isinstance(regions, str):
                    problems.append(regions)
                else:
                    sets.append((name, regions))
                bar.advance()
                if sets and time.monotonic() - written > PATIENCE:
                    writer.write_part(sets)
                    sets, written = [], time.monotonic()
            if sets:
                writer.write_part(sets)
    return RegionFolder(target), collection.problems + problems


def _chosen(place: Path | str, names: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the names of the photographs that a list asks for, in the order of the list."""
    table = KeyTable(names)
    rows = {name: table.find(name) for name in only}
    absent = [name for name, row in rows.items() if row is None]
    if absent:
        raise InputError(
            [f"{place}: there is no photograph {name!r} (it holds, for example, {names[0]!r})"
             for name in absent]
        )  # fmt: skip
    return list(dict.fromkeys(names[row] for row in rows.values() if row is not None))


def _readable_parts(
    photographs: Iterable[tuple[str, Path | bytes]], size: int
) -> Iterator[list[tuple[str, Path | bytes]]]:
    """Yield lists of at most ``size`` photographs that take bounded memory before decoding."""
    part: list[tuple[str, Path | bytes]] = []
    held = 0
    for name, picture in photographs:
        part.append((name, picture))
        held += len(picture) if isinstance(picture, bytes) else 0
        if len(part) == size or held > PART_BYTES:
            yield part
            part, held = [], 0
    if part:
        yield part


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]
