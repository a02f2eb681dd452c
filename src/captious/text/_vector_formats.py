"""Readers of word-vector files. Each yields `(words, float32 matrix)` in pieces of bounded size.

Known layouts: GloVe text (no header), word2vec text and fastText ``.vec`` (a header line with the
number of words and dimensions), word2vec binary, each plain, gzipped or inside a zip; a ``.npy``
matrix beside a word list; an ``.npz`` with the arrays *words* and *vectors*; the JSON of
wink-embeddings. Python pickles (gensim's own saves) are refused: they can run code.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.reading import (
    Budget,
    opened,
    read_array,
    read_arrays,
    read_json,
    read_parquet,
    read_text,
    reading,
    regular,
)

Matrix = npt.NDArray[np.float32]
Piece = tuple[list[str], Matrix]

_PIECE = 20_000
_LONGEST = 1 << 24  # bytes of the first line
_WIDEST = 1 << 16  # numbers of a vector
_WORD_LISTS = (".parquet", ".txt", ".json", ".csv", ".tsv")
_PICKLES = {".pkl", ".pickle", ".kv", ".model", ".gensim", ".pt", ".pth"}
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")


def read(path: Path, member: str = "") -> Iterator[Piece]:
    """Yield the vectors of a file or folder in whatever known layout it has.

    Args:
        path: the file, or a folder that holds a ``.npy`` and a word list.
        member: the file to take out of a zip that holds several.

    Raises:
        InputError: the layout is unknown, refused or damaged.
    """
    with reading(path, "word vectors"):
        yield from _read(path, member)


def _read(path: Path, member: str) -> Iterator[Piece]:
    suffix = path.suffix.lower()
    if suffix in _PICKLES:
        raise InputError(
            f"{path}: a Python pickle can run code and is not opened; save the vectors in "
            "word2vec format (gensim: KeyedVectors.save_word2vec_format)"
        )
    pair = matrix_and_words(path)
    if pair is not None:
        yield from _read_npy(*pair)
    elif suffix == ".npz":
        yield from _read_npz(path)
    elif _starts(path, b'{"'):
        yield from _read_wink(path)
    else:
        with ExitStack() as stack:
            yield from _read_stream(path, _open(path, member, stack))


def matrix_and_words(path: Path) -> tuple[Path, Path] | None:
    """Return the matrix and the word list of the npy layout, or None if it is another one."""
    if path.is_dir():
        matrices = sorted(path.glob("*.npy"))
        lists = [p for s in _WORD_LISTS for p in sorted(path.glob(f"*{s}"))]
        if len(matrices) != 1 or not lists:
            raise InputError(f"{path}: expected one .npy file and a word list ({_lists()}) in it")
        return matrices[0], lists[0]
    if path.suffix.lower() != ".npy":
        return None
    for suffix in _WORD_LISTS:
        if path.with_suffix(suffix).is_file():
            return path, path.with_suffix(suffix)
    raise InputError(f"{path}: no word list beside it; expected {path.stem} with {_lists()}")


def read_words(path: Path) -> list[str]:
    """Return the words of a list: the first column of a table, a JSON list or one per line."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return [str(w) for w in read_parquet(path).column(0).to_pylist()]
    if suffix == ".json":
        words = read_json(path)
        if not isinstance(words, list):
            raise InputError(f"{path}: expected a JSON list of words in the order of the rows")
        return [str(w) for w in words]
    lines = read_text(path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    separator = {".csv": ",", ".tsv": "\t"}.get(suffix)
    return [line.rstrip("\r").split(separator)[0] if separator else line.rstrip("\r")
            for line in lines]  # fmt: skip


def _starts(path: Path, mark: bytes) -> bool:
    with opened(path) as file:
        return file.read(len(mark)) == mark


def _lists() -> str:
    return " or ".join(_WORD_LISTS)


def _read_npy(matrix_path: Path, words_path: Path) -> Iterator[Piece]:
    matrix = read_array(matrix_path, mapped=True)
    words = read_words(words_path)
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or len(words) != len(matrix):
        raise InputError(
            f"{matrix_path}: {matrix.dtype} of shape {matrix.shape} does not fit the "
            f"{len(words):,} words of "
            f"{words_path.name}"
        )
    for start in range(0, len(words), _PIECE):
        stop = start + _PIECE
        yield words[start:stop], np.asarray(matrix[start:stop], dtype=np.float32)


def _read_npz(path: Path) -> Iterator[Piece]:
    archive = read_arrays(path)
    if not {"words", "vectors"} <= set(archive):
        raise InputError(f"{path}: expected the arrays 'words' and 'vectors' in it")
    words, vectors = archive["words"], archive["vectors"]
    if vectors.ndim != 2 or words.shape != vectors.shape[:1]:
        raise InputError(f"{path}: words of shape {words.shape}, vectors of shape {vectors.shape}")
    yield [str(w) for w in words], vectors.astype(np.float32)


def _read_wink(path: Path) -> Iterator[Piece]:
    """The npm package wink-embeddings: word -> numbers, with norm and rank behind the vector."""
    content = read_json(path)
    if not isinstance(content, dict) or not {"vectors", "dimensions"} <= set(content):
        raise InputError(f"{path}: a JSON of word vectors has the keys 'vectors' and 'dimensions'")
    dim, table = int(content["dimensions"]), content["vectors"]
    if not isinstance(table, dict) or dim < 1:
        raise InputError(f"{path}: 'vectors' is not a table of words")
    words = list(table)
    for start in range(0, len(words), _PIECE):
        piece = words[start : start + _PIECE]
        yield piece, np.array([table[w][:dim] for w in piece], dtype=np.float32)


def _open(path: Path, member: str, stack: ExitStack) -> Any:
    """Open a plain, gzipped or zipped file as bytes."""
    size = regular(path)
    if zipfile.is_zipfile(path):
        archive = stack.enter_context(zipfile.ZipFile(path))
        names = [n for n in archive.namelist() if not n.endswith("/")]
        if not member and len(names) == 1:
            member = names[0]
        if member not in names:
            raise InputError(
                f"{path}: say which file to take, as {path.name}#NAME; it holds {', '.join(names)}"
            )
        return _Counted(stack.enter_context(archive.open(member)), Budget(path, size))
    if _starts(path, b"\x1f\x8b"):
        packed: Any = stack.enter_context(gzip.GzipFile(path))
        return _Counted(packed, Budget(path, size))
    return stack.enter_context(opened(path))


class _Counted(io.RawIOBase):
    """Bytes of a packed file, as many as its budget allows."""

    def __init__(self, source: IO[bytes], budget: Budget) -> None:
        self._source, self._budget = source, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._source.read(len(buffer))
        self._budget.spend(len(block))
        buffer[: len(block)] = block
        return len(block)


def _read_stream(path: Path, raw: Any) -> Iterator[Piece]:
    """Tell the three stream layouts apart by their first two lines."""
    stream: Any = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
    first = stream.readline(_LONGEST)
    if first.startswith(_FASTTEXT_MODEL):
        raise InputError(f"{path}: this is a fastText model; use the .vec file beside it")
    if len(first) == _LONGEST:
        raise InputError(
            f"{path}: its first line is longer than {_LONGEST >> 20} MiB; not word vectors"
        )
    fields = first.split()
    if len(fields) == 2 and all(f.isdigit() and len(f) < 12 for f in fields):
        count, dim = int(fields[0]), int(fields[1])
        if not 0 < dim <= _WIDEST:
            raise InputError(f"{path}: vectors of {dim:,} numbers; 1 to {_WIDEST:,} are read")
        ahead = stream.peek(1 << 16)
        if _is_text_row(ahead.split(b"\n", 1)[0], dim):
            yield from _read_text(path, stream, dim, b"")
        else:
            yield from _read_binary(path, stream, count, dim)
        return
    dim = len(fields) - 1
    if not 2 <= dim <= _WIDEST or not _is_text_row(first, dim):
        raise InputError(f"{path}: not a known layout of word vectors")
    yield from _read_text(path, stream, dim, first)


def _is_text_row(line: bytes, dim: int) -> bool:
    """Whether the line ends in numbers (the last may be cut off by the look-ahead)."""
    fields = line.split()[1:]
    try:
        [float(f) for f in fields[: min(dim, 8)]]
    except ValueError:
        return False
    return len(fields) >= min(dim, 8)


def _read_text(path: Path, stream: IO[bytes], dim: int, first: bytes) -> Iterator[Piece]:
    """Rows of a word and `dim` numbers; the word itself may hold spaces (GloVe 840B)."""
    words: list[str] = []
    numbers: list[list[bytes]] = []
    lines = iter(stream) if not first else _chain(first, stream)
    for line in lines:
        parts = line.rstrip().rsplit(b" ", dim)
        if len(parts) != dim + 1:
            if line.strip():
                raise InputError(f"{path}: row {line[:40]!r} does not have {dim} numbers")
            continue
        words.append(parts[0].decode("utf-8", errors="replace"))
        numbers.append(parts[1:])
        if len(words) == _PIECE:
            yield words, _numbers(words, numbers, path)
            words, numbers = [], []
    if words:
        yield words, _numbers(words, numbers, path)


def _numbers(words: list[str], rows: list[list[bytes]], path: Path) -> Matrix:
    try:
        return np.array(rows, dtype=np.float32)
    except ValueError as error:
        raise InputError(
            f"{path}: between {words[0][:20]!r} and {words[-1][:20]!r}: {error}"
        ) from None


def _chain(first: bytes, rest: IO[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _read_binary(path: Path, stream: IO[bytes], count: int, dim: int) -> Iterator[Piece]:
    """word2vec binary: the word, a space, `dim` little-endian float32, sometimes a newline."""
    size = 4 * dim
    buffer, at = b"", 0
    words: list[str] = []
    rows: list[bytes] = []
    for _ in range(count):
        end = buffer.find(b" ", at)
        if end < 0 or end + 1 + size > len(buffer):
            buffer, at = buffer[at:] + stream.read(max(1 << 22, 2 * size)), 0
            end = buffer.find(b" ")
            if end < 0 or end + 1 + size > len(buffer):
                raise InputError(f"{path}: ends before its {count:,} words; download it again")
        words.append(buffer[at:end].lstrip(b"\n").decode("utf-8", errors="replace"))
        rows.append(buffer[end + 1 : end + 1 + size])
        at = end + 1 + size
        if len(words) == _PIECE:
            yield words, _floats(rows, dim)
            words, rows = [], []
    if words:
        yield words, _floats(rows, dim)


def _floats(rows: list[bytes], dim: int) -> Matrix:
    return np.frombuffer(b"".join(rows), dtype="<f4").reshape(-1, dim).astype(np.float32)
