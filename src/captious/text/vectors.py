"""Word vectors: named or given by path, converted once, then memory-mapped.

The first opening of a file turns it into four flat arrays in the cache: the matrix, the words, the
sorted 64-bit hashes of the words and the row of each hash. Later openings map these and read only
the rows that are asked for, so three million vectors open as fast as a thousand. A ``.npy`` matrix
of float32 is mapped where it lies and not copied.

Example:
    >>> vectors = open_vectors("glove-6b-50d")  # doctest: +SKIP
    >>> vectors.rows(["dog", "qwzx"])  # doctest: +SKIP
    array([2926,   -1])
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from captious import assets, settings
from captious.errors import InputError, UsageError
from captious.progress import Progress
from captious.reading import json_object, read_array, reading
from captious.text import _vector_formats as formats
from captious.types import Floats, Ints

DEFAULT = "glove-6b-50d"
_LAYOUT = 1  # part of the cache key: raise it when the converted files change
_PARTS = re.compile(r"[^\w]+|_+")


@dataclass(frozen=True, eq=False)
class WordVectors:
    """An opened table of word vectors; every array is a read-only map of a file.

    Attributes:
        name: the asset's name, or the file's.
        sha256: of the source, for signatures.
        matrix: float32 (words, dimensions).
    """

    name: str
    sha256: str
    matrix: npt.NDArray[np.float32]
    _text: npt.NDArray[np.uint8]
    _bounds: Ints
    _hashes: npt.NDArray[np.uint64]
    _order: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return int(self.matrix.shape[1])

    @property
    def signature(self) -> str:
        """Name, dimensions and the start of the checksum, for score signatures."""
        return f"{self.name}({self.dim}d,{self.sha256[:8]})"

    def word(self, row: int) -> str:
        """Return the word of a row."""
        return bytes(self._text[self._bounds[row] : self._bounds[row + 1]]).decode("utf-8")

    def rows(self, words: Sequence[str]) -> Ints:
        """Return the row of every word, -1 where it is out of vocabulary."""
        found = np.full(len(words), -1, np.int64)
        if not len(words) or not len(self):
            return found
        codes = np.array([_hash(w) for w in words], dtype=np.uint64)
        places = np.searchsorted(self._hashes, codes)
        inside = np.minimum(places, len(self._hashes) - 1)
        for i in np.flatnonzero(self._hashes[inside] == codes).tolist():
            at = int(places[i])
            while at < len(self._hashes) and self._hashes[at] == codes[i]:
                row = int(self._order[at])
                if self.word(row) == words[i]:
                    found[i] = row
                    break
                at += 1
        return found

    def label_rows(self, label: str) -> tuple[Ints, int]:
        """Return the rows that stand for a label of one or more words, and how many had none.

        A phrase with its own vector (``fire_hydrant`` in word2vec) is taken whole; otherwise each
        of its words counts, and the words without a vector are dropped.
        """
        parts = [p for p in _PARTS.split(label.lower()) if p]
        whole = self.rows([label.lower().strip(), "_".join(parts), "-".join(parts)])
        if whole.max() >= 0:
            return whole[whole >= 0][:1], 0
        rows = self.rows(parts)
        return rows[rows >= 0], int((rows < 0).sum())

    def take(self, rows: npt.ArrayLike, unit: bool) -> Floats:
        """Return the vectors of these rows in float64, brought to length 1 if `unit`."""
        out = self.matrix[np.asarray(rows, dtype=np.int64)].astype(np.float64)
        if unit:
            length = np.linalg.norm(out, axis=-1, keepdims=True)
            out /= np.where(length > 0, length, 1.0)
        return out


def open_vectors(name: str = DEFAULT) -> WordVectors:
    """Open vectors by the name of an asset or by path (``glove.6B.zip#glove.6B.100d.txt``).

    Raises:
        MissingAsset: a named table is not on this machine.
        UsageError: no vectors of that name are known.
        InputError: there is no such file, or its layout is not known.
    """
    path, member, label = locate(name)
    facts = _source(path).stat()
    key = f"{_LAYOUT}|{path.resolve()}|{member}|{facts.st_size}|{facts.st_mtime_ns}"
    folder = settings.get().cache_dir / "vectors" / hashlib.sha256(key.encode()).hexdigest()[:16]
    return _opened(path, member, label, folder)


def locate(name: str) -> tuple[Path, str, str]:
    """Return `(path, member of a zip, name for the signature)` of a table of vectors."""
    if name in assets.known():
        return assets.resolve(name, wanted_by="word vectors"), "", name
    text, _, member = name.partition("#")
    path = Path(text).expanduser()
    if not path.exists():
        named = [a for a in assets.known() if a.startswith(("glove", "word2vec", "wink"))]
        kind = InputError if path.suffix or path.name != text else UsageError  # a file, or a name
        raise kind(
            f"no word vectors are called {name!r} and there is no such file. "
            f"Known names: {', '.join(named)}"
        )
    return path, member, member or path.name


def _source(path: Path) -> Path:
    """The file whose size, time and checksum stand for the table."""
    pair = formats.matrix_and_words(path)
    return pair[0] if pair else path


@lru_cache(maxsize=4)
def _opened(path: Path, member: str, label: str, folder: Path) -> WordVectors:
    if not (folder / "meta.json").is_file():
        _convert(path, member, folder)
    with reading(folder, "converted word vectors", "delete this folder, it will be made again"):
        meta = json_object(folder / "meta.json", "a description of word vectors")
        if meta["matrix"]:
            home = path.parent if path.is_file() else path
            matrix = read_array(home / Path(meta["matrix"]).name, mapped=True)
        else:
            shape = (meta["words"], meta["dim"])
            matrix = np.memmap(folder / "matrix.f32", dtype="<f4", mode="r", shape=shape)
        return WordVectors(
            name=label,
            sha256=meta["sha256"],
            matrix=matrix,
            _text=np.memmap(folder / "words.bin", dtype=np.uint8, mode="r"),
            _bounds=read_array(folder / "bounds.npy", mapped=True),
            _hashes=read_array(folder / "hashes.npy", mapped=True),
            _order=read_array(folder / "order.npy", mapped=True),
        )


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8"), digest_size=8).digest(), "little")


def _convert(path: Path, member: str, folder: Path) -> None:
    """Write the mapped form beside its final place and move it there in one step."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
    except OSError as error:
        raise UsageError(
            f"cannot write converted word vectors to {folder.parent} ({error}); set CAPTIOUS_CACHE "
            "to a folder that can be written"
        ) from error
    try:
        meta = _write(path, member, work)
        (work / "meta.json").write_text(json.dumps(meta), "utf-8")
        try:
            os.replace(work, folder)
        except OSError:
            if not (folder / "meta.json").is_file():  # else another process was faster
                raise InputError(
                    f"{folder}: incomplete; delete this folder, and it will be made again"
                ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(path: Path, member: str, work: Path) -> dict[str, Any]:
    pair = formats.matrix_and_words(path)
    in_place = pair is not None and _is_plain(pair[0])
    hashes: list[int] = []
    sizes: list[int] = []
    dim = 0
    with (
        Progress(f"converting {path.name}", unit="words") as bar,
        (work / "words.bin").open("wb") as text,
        (work / "matrix.f32").open("wb") as numbers,
    ):
        for words, matrix in formats.read(path, member):
            if dim and matrix.shape[1] != dim:
                raise InputError(f"{path}: rows of {dim} and of {matrix.shape[1]} numbers")
            dim = matrix.shape[1]
            _append(text, words, hashes, sizes)
            if not in_place:
                numbers.write(np.ascontiguousarray(matrix, dtype="<f4").tobytes())
            bar.advance(len(words))
    if not hashes:
        raise InputError(f"{path}: holds no vectors")
    codes = np.array(hashes, dtype=np.uint64)
    order = np.argsort(codes, kind="stable").astype(np.int32)  # stable: the first of equals wins
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    np.save(work / "hashes.npy", codes[order])
    np.save(work / "order.npy", order)
    np.save(work / "bounds.npy", bounds)
    return {
        "words": len(sizes),
        "dim": dim,
        "sha256": assets.digest(_source(path)),
        "matrix": pair[0].name if in_place and pair else "",
    }


def _append(text: IO[bytes], words: list[str], hashes: list[int], sizes: list[int]) -> None:
    for word in words:
        code = word.encode("utf-8")
        text.write(code)
        sizes.append(len(code))
        hashes.append(_hash(word))


def _is_plain(path: Path) -> bool:
    """Whether the matrix can be used where it lies."""
    matrix = read_array(path, mapped=True)
    return matrix.ndim == 2 and matrix.dtype == np.float32
