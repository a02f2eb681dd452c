"""Region features of images: one store, whatever the features came from.

A *region set* is what a grounding model sees of a photograph: ``n`` feature vectors, the boxes they
describe (``x1 y1 x2 y2`` in pixels) and the size of the photograph. A :class:`RegionStore` answers
region sets by image id; our own format below is one, the readers of
:mod:`captious.evidence.region_formats` are others.

Our format is a folder, so that it grows part by part (a stopped extraction resumes) and opens
without reading the features (they are memory-mapped)::

    regions/
      store.json                 {"format": "captious-regions", "version": 1, "dim": 2560, ...}
      part-00000-71.features.npy    float16 [rows, dim], the regions of all images of the part
      part-00000-71.boxes.npy       float32 [rows, 4]
      part-00000-71.index.json      {"ids": [...], "offsets": [0, 36, ...], "sizes": [[w, h], ...]}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from captious.errors import InputError
from captious.reading import json_object, read_array

FORMAT = "captious-regions"
VERSION = 1
_NONE = type(None)


@dataclass(frozen=True)
class RegionSet:
    """The regions of one image: features ``[n, d]``, boxes ``[n, 4]`` in pixels, image size."""

    features: NDArray[np.floating[Any]]
    boxes: NDArray[np.float32] | None
    width: int | None
    height: int | None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def dim(self) -> int:
        """Length of one feature vector."""
        return int(self.features.shape[1])

    def spatial(self) -> NDArray[np.float32] | None:
        """Boxes as fractions of the image plus the area covered: ``[n, 5]``, or None if unknown."""
        if self.boxes is None or not self.width or not self.height:
            return None
        scale = np.array([self.width, self.height, self.width, self.height], np.float32)
        unit = self.boxes / scale
        area = (unit[:, 2] - unit[:, 0]) * (unit[:, 3] - unit[:, 1])
        return np.column_stack([unit, area]).astype(np.float32)


@runtime_checkable
class RegionStore(Protocol):
    """Anything that answers region sets by image id."""

    @property
    def dim(self) -> int:
        """Length of a feature vector."""
        ...

    @property
    def source(self) -> str:
        """What the features are, in one short phrase: part of a metric's signature."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, image: object) -> bool: ...

    def __getitem__(self, image: str) -> RegionSet: ...

    def ids(self) -> Sequence[str]:
        """All image ids, in the order of the store."""
        ...


class KeyTable(Mapping[str, int]):
    """Image ids -> row, forgiving about how users write them.

    An image may be asked for by its id, by a path ending in it, by its file name or by its file
    name without extension; a COCO photograph by either of its official names. A short form that
    fits two images is not accepted for either.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._exact: dict[str, int] = {}
        short: dict[str, int | None] = {}
        for row, name in enumerate(ids):
            if name in self._exact:
                raise InputError(f"image id {name!r} occurs twice in the region features")
            self._exact[name] = row
            for form in _short_forms(name):
                short[form] = row if short.get(form, row) == row else None
        self._short = {form: row for form, row in short.items() if row is not None}

    def find(self, image: str) -> int | None:
        """Row of an image, or None."""
        if image in self._exact:
            return self._exact[image]
        for form in (image, *_short_forms(image)):
            row = self._exact.get(form, self._short.get(form))
            if row is not None:
                return row
        return None

    def __getitem__(self, image: str) -> int:
        row = self.find(image)
        if row is None:
            raise KeyError(image)
        return row

    def __contains__(self, image: object) -> bool:
        return isinstance(image, str) and self.find(image) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def __len__(self) -> int:
        return len(self._exact)


_COCO = re.compile(r"^COCO_(train|val|test)20\d\d_(?=\d{12}$)")


def _short_forms(name: str) -> tuple[str, ...]:
    base = PurePath(name).name
    stem = base[: base.rfind(".")] if "." in base[1:] else base
    number = _COCO.sub("", stem)  # COCO renamed its files in 2017
    return (base, stem) if number == stem else (base, stem, number)


class MemoryRegions:
    """A store in memory; also the toy twin of the others in tests."""

    def __init__(self, sets: Mapping[str, RegionSet], source: str = "memory") -> None:
        self._sets = dict(sets)
        self._keys = KeyTable(self._sets)
        self._names = list(self._sets)
        self.source = source
        dims = {region_set.dim for region_set in self._sets.values()}
        if len(dims) > 1:
            raise InputError(f"region features of different lengths in one store: {sorted(dims)}")
        self.dim = dims.pop() if dims else 0

    def __len__(self) -> int:
        return len(self._sets)

    def __contains__(self, image: object) -> bool:
        return image in self._keys

    def __getitem__(self, image: str) -> RegionSet:
        return self._sets[self._names[self._keys[image]]]

    def ids(self) -> Sequence[str]:
        """All image ids."""
        return self._names


class RegionFolder:
    """Our own format, opened for reading: features stay on disk until asked for."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.meta = _read_meta(self.path)
        self.dim = int(self.meta["dim"])
        self.source = str(self.meta.get("source", "unknown"))
        self._where: list[tuple[int, int]] = []
        self._parts: list[dict[str, Any]] = []
        self._open: dict[int, tuple[NDArray[np.float16], NDArray[np.float32]]] = {}
        ids: list[str] = []
        known: set[str] = set()
        for index in sorted(self.path.glob("part-*.index.json")):
            part = _read_index(index)
            for row, name in enumerate(part["ids"]):
                if name not in known:  # two processes may have extracted the same image
                    known.add(name)
                    ids.append(name)
                    self._where.append((len(self._parts), row))
            self._parts.append(part)
        self._names = ids
        self._keys = KeyTable(ids)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, image: object) -> bool:
        return image in self._keys

    def __getitem__(self, image: str) -> RegionSet:
        number, row = self._where[self._keys[image]]
        part = self._parts[number]
        features, boxes = self._arrays(number)
        begin, end = part["offsets"][row], part["offsets"][row + 1]
        width, height = part["sizes"][row]
        return RegionSet(features[begin:end], boxes[begin:end], width, height)

    def ids(self) -> Sequence[str]:
        """All image ids, in the order they were written."""
        return self._names

    def _arrays(self, number: int) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
        if number not in self._open:
            stem = self.path / self._parts[number]["stem"]
            rows = self._parts[number]["offsets"][-1]
            arrays = []
            for kind, width in (("features", self.dim), ("boxes", 4)):
                array = read_array(f"{stem}.{kind}.npy", mapped=True)
                if array.shape != (rows, width) or array.dtype.kind != "f":
                    raise InputError(
                        f"{stem}.{kind}.npy: {array.dtype} of shape {array.shape}, expected "
                        f"numbers of shape {(rows, width)}; delete this part and extract it again"
                    )
                arrays.append(array)
            self._open[number] = (arrays[0], arrays[1])
        return self._open[number]

    def __getstate__(self) -> dict[str, Any]:
        """Workers reopen the memory maps themselves."""
        return {**self.__dict__, "_open": {}}


class RegionWriter:
    """Writes our format; a part is complete the moment its index appears (written last)."""

    def __init__(self, path: Path | str, dim: int, source: str, **facts: Any) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        meta = {"format": FORMAT, "version": VERSION, "dim": dim, "source": source, **facts}
        target = self.path / "store.json"
        if target.exists():
            old = _read_meta(self.path)
            if (old["dim"], old.get("source")) != (dim, source):
                raise InputError(
                    f"{self.path} already holds features of {old.get('source')!r} (length "
                    f"{old['dim']}), not of {source!r} (length {dim}): choose another folder"
                )
        else:
            _write_json(target, meta)

    def done(self) -> set[str]:
        """Ids that finished parts already hold: a resumed run skips them."""
        return set(RegionFolder(self.path).ids())

    def write_part(self, images: Sequence[tuple[str, RegionSet]]) -> str:
        """Write one part under the next free number and return its name."""
        number = len(list(self.path.glob("part-*.index.json")))
        # A random name keeps parts of those who write side by side apart.
        stem = self.path / f"part-{number:05d}-{uuid4().hex[:8]}"
        counts = [len(regions) for _, regions in images]
        np.save(
            f"{stem}.features.npy",
            np.concatenate([np.asarray(regions.features, np.float16) for _, regions in images]),
        )
        no_box = np.float32(np.nan)
        np.save(
            f"{stem}.boxes.npy",
            np.concatenate(
                [
                    np.full((len(regions), 4), no_box) if regions.boxes is None else regions.boxes
                    for _, regions in images
                ]
            ).astype(np.float32),
        )
        _write_json(
            stem.with_name(stem.name + ".index.json"),
            {
                "ids": [name for name, _ in images],
                "offsets": [0, *np.cumsum(counts).tolist()],
                "sizes": [[regions.width, regions.height] for _, regions in images],
            },
        )
        return stem.name


def save_regions(store: RegionStore, path: Path | str, part: int = 1024) -> RegionFolder:
    """Copy any store into our format (also how foreign files are converted)."""
    writer = RegionWriter(path, store.dim, store.source)
    missing = [name for name in store.ids() if name not in writer.done()]
    for begin in range(0, len(missing), part):
        writer.write_part([(name, store[name]) for name in missing[begin : begin + part]])
    return RegionFolder(path)


def require(store: RegionStore, images: Iterable[str]) -> None:
    """Complain about all images without features at once."""
    missing = sorted({image for image in images if image not in store})
    if missing:
        shown = ", ".join(missing[:20]) + (", ..." if len(missing) > 20 else "")
        raise InputError(
            f"{len(missing)} images have no region features in {store.source!r}: {shown}. "
            "Extract them with `captious regions PHOTOS -o REGIONS`"
        )


def _read_meta(path: Path) -> dict[str, Any]:
    target = path / "store.json"
    if not target.exists():
        raise InputError(f"{path} is not a folder of region features (no store.json)")
    meta = json_object(target, "the description of a region store")
    if meta.get("format") != FORMAT or meta.get("version") != VERSION:
        raise InputError(
            f"{target}: format {meta.get('format')!r} version {meta.get('version')!r} is not "
            f"{FORMAT!r} version {VERSION}"
        )
    if type(meta.get("dim")) is not int or not 0 < meta["dim"] < 1 << 20:
        raise InputError(f"{target}: dim is {str(meta.get('dim'))[:40]!r}, not a length")
    return meta


def _read_index(path: Path) -> dict[str, Any]:
    """Read what a part holds, after checking that its three lists fit each other."""
    part = json_object(path, "the index of a region store")
    ids, offsets, sizes = (part.get(name) for name in ("ids", "offsets", "sizes"))
    fits = (
        isinstance(ids, list)
        and all(isinstance(image_id, str) for image_id in ids)
        and isinstance(offsets, list)
        and all(type(offset) is int for offset in offsets)
        and isinstance(sizes, list)
        and all(
            isinstance(size, list) and len(size) == 2 and all(type(n) in (int, _NONE) for n in size)
            for size in sizes
        )
        and len(offsets) == len(ids) + 1 == len(sizes) + 1
        and offsets[0] == 0
        and all(a <= b for a, b in zip(offsets, offsets[1:], strict=False))
    )
    if not fits:
        raise InputError(
            f"{path}: damaged index (ids, offsets and sizes do not fit each other); delete this "
            "part and extract it again"
        )
    return {**part, "stem": path.name.removesuffix(".index.json")}


def _write_json(target: Path, data: Mapping[str, Any]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data), encoding="utf-8")
    temporary.replace(target)
