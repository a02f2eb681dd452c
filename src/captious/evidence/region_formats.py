"""Readers for region features made by others: each gives a :class:`RegionStore`.

=================== ====================================================================
``scan-npy``        SCAN's ``{split}_ims.npy`` beside ``{split}_ids.txt`` (or ``_names.txt``)
``tsv``             bottom-up attention: image_id, w, h, num_boxes, boxes, features (base64)
``npz``             a folder with one ``.npz`` (features, boxes) or ``.npy`` per image
``hdf5``            per-image groups, or arrays ``features``, ``boxes``, ``ids`` side by side
``stores``          a folder of folders in our format: one store for several collections
``lmdb``            ViLBERT: one pickled dict per image with base64 or with array values
``imgs_rcnn``       a pickled dict id -> features, only by explicit conversion
=================== ====================================================================

Every file comes through :mod:`captious.reading`: pickles are rebuilt by
:mod:`captious.plain_pickle`, LMDB by :mod:`captious.evidence.lmdb_file`; nothing in a file is run.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captious import plain_pickle
from captious.errors import InputError, MissingExtra
from captious.evidence.lmdb_file import LmdbFile
from captious.evidence.regions import (
    KeyTable,
    MemoryRegions,
    RegionFolder,
    RegionSet,
    RegionStore,
)
from captious.reading import (
    Budget,
    opened,
    read_array,
    read_arrays,
    read_bytes,
    read_text,
    reading,
    regular,
)

FEATURE_NAMES = ("features", "feature", "feat", "x", "image_feat", "region_feats")
BOX_NAMES = ("boxes", "bbox", "bboxes", "box", "image_boxes")


def open_regions(path: Path | str) -> RegionStore:
    """Open region features of any supported kind; what it is shows in the files."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no region features there")
    if path.is_dir():
        if (path / "store.json").exists():
            return RegionFolder(path)
        if (path / "data.mdb").exists():
            return LmdbRegions(path)
        if any(path.glob("*.np[yz]")):
            return ArrayFolder(path)
        inside = sorted(file.parent for file in path.glob("*/store.json"))
        if inside:
            return JoinedRegions([RegionFolder(folder) for folder in inside])
        raise InputError(
            f"{path}: no region features in this folder. Expected what `captious regions` writes, "
            "an LMDB, or npy/npz files"
        )
    if path.name.endswith("_ims.npy"):
        return ScanArray(path)
    if path.suffix == ".tsv":
        return TsvRegions(path)
    if path.suffix in {".h5", ".hdf5"}:
        return Hdf5Regions(path)
    if path.suffix in {".pkl", ".pickle", ".p"}:
        raise InputError(
            f"{path}: a pickle is not opened for scoring. Convert it once: "
            f"captious regions {path} -o REGIONS"
        )
    raise InputError(
        f"{path}: not a kind of region features captious knows (folder, *_ims.npy, .tsv, .h5)"
    )


class JoinedRegions:
    """Several stores of the same features as one: an image is looked for in each in turn."""

    def __init__(self, stores: Sequence[RegionFolder]) -> None:
        kinds = {(store.source, store.dim) for store in stores}
        if len(kinds) > 1:
            told = ", ".join(f"{store.path.name}: {store.source} ({store.dim})" for store in stores)
            raise InputError(f"stores of different features cannot be read as one: {told}")
        self._stores = list(stores)
        ((self.source, self.dim),) = kinds
        KeyTable(self.ids())  # complains about an id that two stores hold

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def __contains__(self, image: object) -> bool:
        return any(image in store for store in self._stores)

    def __getitem__(self, image: str) -> RegionSet:
        for store in self._stores:
            if image in store:
                return store[image]
        raise KeyError(image)

    def ids(self) -> Sequence[str]:
        """All image ids, store after store."""
        return [name for store in self._stores for name in store.ids()]


class _Keyed:
    """What the readers share: ids, and lookup by them."""

    source = ""
    dim = 0

    def _index(self, ids: Sequence[str]) -> None:
        self._names = list(ids)
        self._keys = KeyTable(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, image: object) -> bool:
        return image in self._keys

    def ids(self) -> Sequence[str]:
        """All image ids."""
        return self._names

    def __getitem__(self, image: str) -> RegionSet:
        return self._read(self._keys[image])

    def _read(self, row: int) -> RegionSet:
        raise TypeError(f"{type(self).__name__} must say how a row is read")


class ScanArray(_Keyed):
    """``{split}_ims.npy`` ``[images or captions, regions, dim]``, memory-mapped.

    One row per caption is usual too: ids then repeat, and the first row of an id is taken (the rows
    of an image are equal). Without an ids file the row number is the id.
    """

    def __init__(self, path: Path) -> None:
        self._data = read_array(path, mapped=True)
        if self._data.ndim != 3 or self._data.dtype.kind not in "fiu":
            raise InputError(
                f"{path}: {self._data.dtype} of shape {self._data.shape}, not numbers of shape "
                "[images, regions, dim]"
            )
        stem = path.name.removesuffix("_ims.npy")
        names: list[str] | None = None
        for kind in ("names", "ids"):
            listing = path.with_name(f"{stem}_{kind}.txt")
            if listing.exists():
                names = read_text(listing).split()
                break
        count = len(self._data)
        if names is None:
            names = [str(row) for row in range(count)]
        if len(names) == 5 * count:
            names = names[::5]
        if len(names) != count:
            raise InputError(f"{path}: {count} rows of features but {len(names)} ids beside it")
        first: dict[str, int] = {}
        for row, name in enumerate(names):
            first.setdefault(name, row)
        self._rows = list(first.values())
        self._index(list(first))
        self.dim = int(self._data.shape[2])
        self.source = f"scan-npy:{path.name}"

    def _read(self, row: int) -> RegionSet:
        return RegionSet(self._data[self._rows[row]], None, None, None)


class TsvRegions(_Keyed):
    """Bottom-up attention's TSV; only the places of the lines are kept in memory."""

    COLUMNS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts: list[int] = []
        ids: list[str] = []
        position = 0
        with reading(path, "bottom-up features"), opened(path) as file:
            for line in file:
                if line.strip():
                    self._starts.append(position)
                    ids.append(line.split(b"\t", 1)[0].decode())
                position += len(line)
        if not ids:
            raise InputError(f"{path}: holds no images")
        self._index(ids)
        self.source = f"tsv:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        with opened(self.path) as file:
            file.seek(self._starts[row])
            columns = file.readline().rstrip(b"\r\n").split(b"\t")
        where = f"{self.path}, image {self._names[row]}"
        if len(columns) != len(self.COLUMNS):
            raise InputError(f"{where}: {len(columns)} columns, not {', '.join(self.COLUMNS)}")
        with reading(where, "a line of bottom-up features"):
            width, height, count = (int(float(number)) for number in columns[1:4])
            boxes = np.frombuffer(base64.b64decode(columns[4], validate=True), "<f4")
            features = np.frombuffer(base64.b64decode(columns[5], validate=True), "<f4")
            if count < 1 or not len(features):
                raise InputError(f"{where}: no region in it")
            return RegionSet(
                features.reshape(count, -1), boxes.reshape(count, 4).copy(), width, height
            )


class ArrayFolder(_Keyed):
    """One ``.npz`` or ``.npy`` per image; the file name without extension is the id."""

    def __init__(self, path: Path) -> None:
        self._files = sorted([*path.glob("*.npz"), *path.glob("*.npy")])
        self._index([file.name[: -len(file.suffix)] for file in self._files])
        self.source = f"npz:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        file = self._files[row]
        if file.suffix == ".npy":
            return _region_set({"features": read_array(file)}, str(file))
        return _region_set(read_arrays(file), str(file))


class Hdf5Regions(_Keyed):
    """HDF5: a group per image (``file[id]["features"]``), or side-by-side arrays with ``ids``."""

    def __init__(self, path: Path) -> None:
        try:
            import h5py
        except ImportError as error:
            raise MissingExtra("h5py", "regions", f"reading {path.name}") from error
        regular(path)
        with reading(path, "HDF5"):
            self._file = h5py.File(path, "r")
            top = {name.lower(): name for name in self._file}
            ids = next((top[n] for n in ("ids", "image_ids", "image_id") if n in top), None)
            self._flat = ids is not None
            if ids is not None:
                self._arrays = {name: self._file[name] for name in self._file if name != ids}
                names = [_text(image_id) for image_id in _held(self._file[ids], path)]
            else:
                names = list(self._file)
        if not names:
            raise InputError(f"{path}: holds no images")
        self._path = path
        self._index(names)
        self.source = f"hdf5:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        name = self._names[row]
        with reading(f"{self._path}, image {name}", "HDF5 region features"):
            if self._flat:
                return _region_set({key: array[row] for key, array in self._arrays.items()}, name)
            group = self._file[name]
            if hasattr(group, "keys"):
                fields = {key: _held(group[key], self._path) for key in group}
                return _region_set({**dict(group.attrs), **fields}, name)
            return _region_set({"features": _held(group, self._path)}, name)


class LmdbRegions(_Keyed):
    """Both ViLBERT layouts: base64 strings (the 2019 release) or arrays inside a pickled dict."""

    def __init__(self, path: Path) -> None:
        self._base = LmdbFile(path / "data.mdb" if path.is_dir() else path)
        listed = self._base.get(b"keys")
        raw = self._base.keys() if listed is None else plain_pickle.load(listed, f"{path}, keys")
        if not isinstance(raw, list) or not all(isinstance(key, bytes | str) for key in raw):
            raise InputError(f"{path}: its entry 'keys' is not a list of ids")
        self._raw = [key if isinstance(key, bytes) else str(key).encode() for key in raw]
        if not self._raw:
            raise InputError(f"{path}: holds no images")
        self._index([_text(key) for key in self._raw])
        self.source = f"lmdb:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        value = self._base.get(self._raw[row])
        where = f"{self.source}, image {self._names[row]}"
        if value is None:
            raise InputError(f"{where}: listed but absent")
        item = plain_pickle.load(value, where)
        if not isinstance(item, Mapping):
            raise InputError(f"{where}: holds a {type(item).__name__}, not a dict")
        return _region_set(item, where)


def convert_pickle(path: Path | str) -> MemoryRegions:
    """``imgs_rcnn``-style pickles: ``{id: array}`` or ``{id: {"features": ..., "boxes": ...}}``."""
    path = Path(path)
    images = plain_pickle.load(read_bytes(path), path)
    if not isinstance(images, Mapping) or not images:
        raise InputError(f"{path}: holds a {type(images).__name__}, not a dict of images")
    sets = {}
    for name, item in images.items():
        entry = item if isinstance(item, Mapping) else {"features": item}
        sets[_text(name)] = _region_set(entry, f"{path}, image {name}")
    return MemoryRegions(sets, f"pickle:{path.name}")


def _region_set(raw: Mapping[Any, Any], where: str) -> RegionSet:
    item = {_text(key): value for key, value in raw.items()}
    features = next((item[name] for name in FEATURE_NAMES if name in item), None)
    if features is None:
        raise InputError(f"{where}: no features among {', '.join(sorted(item)) or 'nothing'}"[:300])
    with reading(where, "region features"):
        array = _array(features, where)
        if array.ndim == 1:
            if item.get("num_boxes") is None:
                raise InputError(f"{where}: a flat feature vector without num_boxes")
            array = array.reshape(int(item["num_boxes"]), -1)
        if array.ndim != 2 or not array.size:
            raise InputError(f"{where}: features of shape {array.shape}, not [regions, dim]")
        boxes = next((item[name] for name in BOX_NAMES if name in item), None)
        places = None
        if boxes is not None:
            places = _array(boxes, where).astype(np.float32).reshape(len(array), -1)[:, :4]
            if places.shape[1] != 4:
                raise InputError(f"{where}: boxes of {places.shape[1]} numbers, not of 4")
        return RegionSet(array, places, _size(item, "w", "width"), _size(item, "h", "height"))


def _size(item: Mapping[str, Any], short: str, long: str) -> int | None:
    for name in (f"image_{short}", f"image_{long}", f"img_{short}", long, short):
        if name in item:
            return int(float(np.asarray(item[name]).reshape(-1)[0]))
    return None


def _array(value: Any, where: str) -> NDArray[Any]:
    if isinstance(value, bytes | str):
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), "<f4").copy()
        except (ValueError, binascii.Error) as error:
            raise InputError(f"{where}: damaged base64 values ({error})") from error
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{where}: values of type {array.dtype}, not numbers")
    return array if array.dtype.kind == "f" else array.astype(np.float32)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _held(value: Any, path: Path) -> Any:
    """Read an HDF5 value whole, unless it says that it holds more than the file could."""
    size = int(np.prod(value.shape, dtype=np.float64)) * value.dtype.itemsize
    Budget(path, regular(path)).spend(size)
    return value[()]


def images_of(store: RegionStore) -> Iterator[tuple[str, RegionSet]]:
    """All region sets of a store, one after the other."""
    for name in store.ids():
        yield name, store[name]
