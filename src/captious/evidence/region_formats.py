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

Pickles are read by an unpickler that knows numpy's array reconstruction and plain values, and
refuses every other name: nothing in the file is run.
"""

from __future__ import annotations

import base64
import binascii
import io
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captious.errors import InputError, MissingExtra
from captious.evidence.regions import (
    KeyTable,
    MemoryRegions,
    RegionFolder,
    RegionSet,
    RegionStore,
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
        inside = sorted(one.parent for one in path.glob("*/store.json"))
        if inside:
            return JoinedRegions([RegionFolder(one) for one in inside])
        raise InputError(
            f"{path}: neither our format (or a folder of such), nor LMDB, nor a folder of npy/npz "
            "files"
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
        kinds = {(one.source, one.dim) for one in stores}
        if len(kinds) > 1:
            told = ", ".join(f"{one.path.name}: {one.source} ({one.dim})" for one in stores)
            raise InputError(f"stores of different features cannot be read as one: {told}")
        self._stores = list(stores)
        ((self.source, self.dim),) = kinds
        KeyTable(self.ids())  # complains about an id that two stores hold

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def __contains__(self, image: object) -> bool:
        return any(image in one for one in self._stores)

    def __getitem__(self, image: str) -> RegionSet:
        for one in self._stores:
            if image in one:
                return one[image]
        raise KeyError(image)

    def ids(self) -> Sequence[str]:
        """All image ids, store after store."""
        return [name for one in self._stores for name in one.ids()]


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
        self._data = np.load(path, mmap_mode="r", allow_pickle=False)
        if self._data.ndim != 3:
            raise InputError(f"{path}: has shape {self._data.shape}, not [images, regions, dim]")
        stem = path.name.removesuffix("_ims.npy")
        names: list[str] | None = None
        for kind in ("names", "ids"):
            listing = path.with_name(f"{stem}_{kind}.txt")
            if listing.exists():
                names = listing.read_text(encoding="utf-8").split()
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
        with open(path, "rb") as file:
            for line in file:
                if line.strip():
                    self._starts.append(position)
                    ids.append(line.split(b"\t", 1)[0].decode())
                position += len(line)
        self._index(ids)
        self.source = f"tsv:{path.name}"
        self.dim = self._read(0).dim if ids else 0

    def _read(self, row: int) -> RegionSet:
        with open(self.path, "rb") as file:
            file.seek(self._starts[row])
            parts = file.readline().rstrip(b"\r\n").split(b"\t")
        where = f"{self.path}, image {self._names[row]}"
        if len(parts) != len(self.COLUMNS):
            raise InputError(f"{where}: {len(parts)} columns, not {', '.join(self.COLUMNS)}")
        try:
            width, height, count = (int(float(one)) for one in parts[1:4])
            boxes = np.frombuffer(base64.b64decode(parts[4], validate=True), "<f4")
            features = np.frombuffer(base64.b64decode(parts[5], validate=True), "<f4")
            return RegionSet(
                features.reshape(count, -1), boxes.reshape(count, 4).copy(), width, height
            )
        except (ValueError, binascii.Error) as error:
            raise InputError(f"{where}: damaged line ({error})") from error


class ArrayFolder(_Keyed):
    """One ``.npz`` or ``.npy`` per image; the file name without extension is the id."""

    def __init__(self, path: Path) -> None:
        self._files = sorted([*path.glob("*.npz"), *path.glob("*.npy")])
        self._index([file.name[: -len(file.suffix)] for file in self._files])
        self.source = f"npz:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        file = self._files[row]
        try:
            loaded = np.load(file, allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{file}: refused, it holds pickled objects or is damaged") from error
        if isinstance(loaded, np.ndarray):
            return _region_set({"features": loaded}, str(file))
        with loaded:
            return _region_set({name: loaded[name] for name in loaded.files}, str(file))


class Hdf5Regions(_Keyed):
    """HDF5: a group per image (``file[id]["features"]``), or side-by-side arrays with ``ids``."""

    def __init__(self, path: Path) -> None:
        try:
            import h5py
        except ImportError as error:
            raise MissingExtra("h5py", "regions", f"reading {path.name}") from error
        self._file = h5py.File(path, "r")
        top = {name.lower(): name for name in self._file}
        ids = next((top[n] for n in ("ids", "image_ids", "image_id") if n in top), None)
        self._flat = ids is not None
        if ids is not None:
            self._arrays = {name: self._file[name] for name in self._file if name != ids}
            names = [
                one.decode() if isinstance(one, bytes) else str(one) for one in self._file[ids]
            ]
        else:
            names = list(self._file)
        if not names:
            raise InputError(f"{path}: holds no images")
        self._index(names)
        self.source = f"hdf5:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        name = self._names[row]
        if self._flat:
            return _region_set({key: one[row] for key, one in self._arrays.items()}, name)
        group = self._file[name]
        if hasattr(group, "keys"):
            fields = {key: group[key][()] for key in group}
            return _region_set({**dict(group.attrs), **fields}, name)
        return _region_set({"features": group[()]}, name)


class LmdbRegions(_Keyed):
    """Both ViLBERT layouts: base64 strings (the 2019 release) or arrays inside a pickled dict."""

    def __init__(self, path: Path) -> None:
        try:
            import lmdb
        except ImportError as error:
            raise MissingExtra("lmdb", "regions", f"reading {path.name}") from error
        self._base = lmdb.open(
            str(path), readonly=True, lock=False, readahead=False, subdir=path.is_dir()
        )
        with self._base.begin() as view:
            listed = view.get(b"keys")
            if listed is not None:
                raw = list(_plain(listed, f"{path}, keys"))
            else:
                raw = [bytes(key) for key, _ in view.cursor()]
        self._raw = [one if isinstance(one, bytes) else str(one).encode() for one in raw]
        if not self._raw:
            raise InputError(f"{path}: holds no images")
        self._index([one.decode("utf-8") for one in self._raw])
        self.source = f"lmdb:{path.name}"
        self.dim = self._read(0).dim

    def _read(self, row: int) -> RegionSet:
        with self._base.begin() as view:
            value = view.get(self._raw[row])
        where = f"{self.source}, image {self._names[row]}"
        if value is None:
            raise InputError(f"{where}: listed but absent")
        item = _plain(value, where)
        if not isinstance(item, Mapping):
            raise InputError(f"{where}: holds a {type(item).__name__}, not a dict")
        return _region_set(item, where)


def convert_pickle(path: Path | str) -> MemoryRegions:
    """``imgs_rcnn``-style pickles: ``{id: array}`` or ``{id: {"features": ..., "boxes": ...}}``."""
    path = Path(path)
    data = _plain(path.read_bytes(), str(path))
    if not isinstance(data, Mapping) or not data:
        raise InputError(f"{path}: holds a {type(data).__name__}, not a dict of images")
    sets = {}
    for name, item in data.items():
        entry = item if isinstance(item, Mapping) else {"features": item}
        sets[_text(name)] = _region_set(entry, f"{path}, image {name}")
    return MemoryRegions(sets, f"pickle:{path.name}")


def _region_set(raw: Mapping[Any, Any], where: str) -> RegionSet:
    item = {_text(key): value for key, value in raw.items()}
    features = next((item[name] for name in FEATURE_NAMES if name in item), None)
    if features is None:
        raise InputError(f"{where}: no features among {', '.join(sorted(item)) or 'nothing'}")
    count = item.get("num_boxes")
    array = _array(features, where)
    if array.ndim == 1:
        if count is None:
            raise InputError(f"{where}: a flat feature vector without num_boxes")
        array = array.reshape(int(count), -1)
    if array.ndim != 2 or not len(array):
        raise InputError(f"{where}: features of shape {array.shape}, not [regions, dim]")
    boxes = next((item[name] for name in BOX_NAMES if name in item), None)
    places = None
    if boxes is not None:
        places = _array(boxes, where).astype(np.float32).reshape(len(array), -1)[:, :4]
    return RegionSet(array, places, _size(item, "w", "width"), _size(item, "h", "height"))


def _size(item: Mapping[str, Any], short: str, long: str) -> int | None:
    for name in (f"image_{short}", f"image_{long}", f"img_{short}", long, short):
        if name in item:
            return int(float(np.asarray(item[name]).reshape(-1)[0]))
    return None


def _array(value: Any, where: str) -> NDArray[Any]:
    if isinstance(value, (bytes, str)):
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


def _encode(text: str, encoding: str) -> bytes:
    """Stand-in for ``codecs.encode``, which protocol 2 uses to write bytes: latin-1 only."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"refused: text encoding {encoding}")
    return text.encode("latin1")


def _allowed() -> dict[tuple[str, str], Callable[..., Any] | type]:
    from numpy._core import multiarray, numeric

    names: dict[tuple[str, str], Callable[..., Any] | type] = {("_codecs", "encode"): _encode}
    for room in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray"):
        names[room, "_reconstruct"] = multiarray._reconstruct
        names[room, "scalar"] = multiarray.scalar
        names[room, "ndarray"] = np.ndarray
        names[room, "dtype"] = np.dtype
    for room in ("numpy.core.numeric", "numpy._core.numeric"):
        names[room, "_frombuffer"] = numeric._frombuffer  # type: ignore[attr-defined]
    for room in ("builtins", "__builtin__"):
        for kind in (set, frozenset, list, dict, tuple, int, float, str, bytes, bool):
            names[room, kind.__name__] = kind
    return names


class _Restricted(pickle.Unpickler):
    """Builds arrays and plain values only; every other name in the file is refused."""

    def find_class(self, module: str, name: str) -> Any:
        found = _allowed().get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"refused: the file asks for {module}.{name}")
        return found


def _plain(data: bytes, where: str) -> Any:
    try:
        try:
            return _Restricted(io.BytesIO(data)).load()
        except UnicodeDecodeError:
            return _Restricted(io.BytesIO(data), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{where}: not read ({error})") from error


def images_of(store: RegionStore) -> Iterator[tuple[str, RegionSet]]:
    """All region sets of a store, one after the other."""
    for name in store.ids():
        yield name, store[name]
