"""The one door for files that came from anywhere: what a reader may cost, and how it may fail.

Every reader of captious opens its file through this module, so that five promises hold for all:

* only a regular file is opened (a FIFO, a device or a folder is refused before a byte is read);
* what is unpacked is bounded by size, and by its ratio to the packed file, which bounds the time;
* arrays are numbers or text, and their shape fits the bytes that are there;
* nothing in a file is run: no object arrays, and of pickles only what
  :mod:`captious.plain_pickle` rebuilds;
* whatever a parser raises on a damaged file reaches the caller as one
  :class:`~captious.errors.InputError` that names the file and the cause (:func:`reading`).
"""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from captious.errors import CaptiousError, InputError, MissingExtra

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

LIMIT = 8 << 30
"""Bytes after unpacking; a larger file is no file of captions, vectors or regions."""

RATIO = 200
"""How many times its packed size a file may unpack to, once it passes ``FREE`` bytes."""

FREE = 256 << 20
_BLOCK = 1 << 20
_BATCH = 1024
_KINDS = {
    stat.S_ISDIR: "this is a folder; a file is expected here",
    stat.S_ISFIFO: "this is a pipe (FIFO); write its content to a file and name that",
    stat.S_ISCHR: "this is a device; a file is expected here",
    stat.S_ISBLK: "this is a device; a file is expected here",
    stat.S_ISSOCK: "this is a socket; a file is expected here",
}


@contextmanager
def reading(path: object, what: str, remedy: str = "") -> Iterator[None]:
    """Turn whatever a parser raises inside the block into one InputError.

    The block must hold nothing but the reading of one file: there, any exception is the file's
    fault, and which one a parser raises on damage is not part of its documentation.
    """
    try:
        yield
    except CaptiousError:
        raise
    except Exception as error:
        tail = f"; {remedy}" if remedy else ""
        raise InputError(f"{path}: not readable as {what} ({cause(error)}){tail}") from error


def cause(error: BaseException) -> str:
    """Return an error's message in one line of at most 200 characters."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, KeyError):
        return f"no entry {str(error)[:100]}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def regular(path: str | os.PathLike[str]) -> int:
    """Return the size of a file after checking that it is a regular one.

    Raises:
        InputError: it is absent, or a folder, a FIFO, a device or a socket.
    """
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({cause(error)})") from error
    for is_kind, text in _KINDS.items():
        if is_kind(facts.st_mode):
            raise InputError(f"{path}: {text}")
    return facts.st_size


def opened(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file for reading bytes."""
    regular(path)
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({cause(error)})") from error


class Budget:
    """Counts unpacked bytes and complains before they are too many.

    Args:
        path: the packed file, for the message.
        packed: its size in bytes.
        limit: most bytes in all.
    """

    def __init__(self, path: object, packed: int, limit: int = LIMIT) -> None:
        self._path, self._used = path, 0
        self._most = min(limit, max(FREE, RATIO * packed))

    def spend(self, count: int) -> None:
        """Count more bytes.

        Raises:
            InputError: the file unpacks to more than is allowed.
        """
        self._used += count
        if self._used > self._most:
            raise InputError(
                f"{self._path}: unpacks to more than {self._most / (1 << 30):.2g} GiB "
                f"({RATIO} times its size, and never more than {LIMIT >> 30} GiB, is allowed); "
                "unpack it yourself and split it if you trust it"
            )


def read_bytes(path: Path | str, limit: int = LIMIT) -> bytes:
    """Return the content of a file, unpacked if it is gzip.

    Raises:
        InputError: not a regular file, too large, empty, or broken gzip.
    """
    size = regular(path)
    if size > limit:
        raise InputError(f"{path}: larger than {limit / (1 << 30):.2g} GiB; split it")
    with opened(path) as file:
        try:
            raw = file.read(limit + 1 if limit < _BLOCK else -1)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({cause(error)})") from error
    if raw[:2] == b"\x1f\x8b":
        raw = _gunzip(path, raw, limit)
    if not raw.strip():
        raise InputError(f"{path}: the file is empty")
    return raw


def _gunzip(path: Path | str, raw: bytes, limit: int) -> bytes:
    """Unpack in blocks, so that a small file never asks for much memory at once."""
    import gzip

    budget = Budget(path, len(raw), limit)
    blocks = []
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while block := file.read(_BLOCK):
                budget.spend(len(block))
                blocks.append(block)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: broken gzip file ({error})") from error
    return b"".join(blocks)


def read_text(path: Path | str, limit: int = LIMIT) -> str:
    """Return the content of a UTF-8 file (a byte-order mark is dropped)."""
    raw = read_bytes(path, limit)
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path}: encoded as UTF-16; save it as UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}: not UTF-8 (byte 0x{raw[error.start]:02x} in line {line}); save it as UTF-8"
        ) from None


def read_json(path: Path | str) -> Any:
    """Return the content of a JSON file."""
    return parse_json(read_text(path), path)


def parse_json(text: str | bytes, where: object) -> Any:
    """Return the content of a JSON text; ``where`` begins the message if it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: JSON nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits, bytes that are not UTF-8
        raise InputError(f"{where}: not valid JSON: {cause(error)}") from None


def json_object(path: Path | str, what: str) -> dict[str, Any]:
    """Return the content of a JSON file that must be an object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: not {what} (expected a JSON object)")
    return content


def read_parquet(path: Path | str, columns: list[str] | None = None) -> pa.Table:
    """Return the table of a parquet file (also of one that was gzipped whole).

    Rows are read in small batches, so that a file that names few values many times over is
    refused when it passes its budget, not when memory is gone.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = regular(path)
    with reading(path, "parquet"):
        with opened(path) as file:
            packed = file.read(2) == b"\x1f\x8b"
        source = pa.BufferReader(read_bytes(path)) if packed else os.fspath(path)
        budget = Budget(path, size)
        with pq.ParquetFile(source) as file:
            budget.spend(max(0, file.metadata.num_rows))  # no row is smaller than a byte
            schema = file.schema_arrow
            if columns is not None:
                schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
            batches = []
            for batch in file.iter_batches(_BATCH, columns=columns, use_threads=False):
                batch = _written_out(batch)
                budget.spend(batch.nbytes)
                batches.append(batch)
        return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)


def parquet_batches(
    path: Path | str, rows: int, pick: Callable[[list[str]], list[str]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a parquet file a few at a time; memory does not grow with the file.

    Args:
        path: a file, or an address that fsspec opens.
        rows: most rows of a batch.
        pick: which columns to read, given all names.
    """
    import pyarrow.parquet as pq

    with (
        reading(path, "parquet"),
        streamed(path, packed=False) as source,
        pq.ParquetFile(source, pre_buffer=False) as file,
    ):
        columns = pick(file.schema_arrow.names)
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            yield _written_out(batch)


@contextmanager
def streamed(path: Path | str, packed: bool = True) -> Iterator[IO[bytes]]:
    """Open a file (or an address that fsspec knows) to be read from front to back.

    Args:
        path: a regular file, or an address such as ``s3://bucket/key``.
        packed: unpack gzip while reading, within the allowed ratio.
    """
    if is_address(path):
        file: Any = _address(str(path))
        size = getattr(file, "size", None) or 0
    else:
        size = regular(path)
        file = opened(path)
    with file:
        if packed and file.read(2) == b"\x1f\x8b":
            import gzip

            file.seek(0)
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield io.BufferedReader(_Metered(unpacked, Budget(path, size, limit=1 << 62)))
            return
        file.seek(0)
        yield file


def is_address(path: object) -> bool:
    """Tell whether this names a place that fsspec opens (``s3://...``) and not a file here."""
    return "://" in str(path)


def _address(address: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise MissingExtra(
            "fsspec", "ray", f"reading {address.partition(':')[0]} addresses"
        ) from None
    with reading(address, "an address that fsspec opens"):
        return fsspec.open(address, "rb").open()


class _Metered(io.RawIOBase):
    """Counts what is unpacked."""

    def __init__(self, file: Any, budget: Budget) -> None:
        self._file, self._budget = file, budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        self._budget.spend(len(block))
        buffer[: len(block)] = block
        return len(block)


def parquet_columns(path: Path | str) -> list[str]:
    """Return the names of the columns of a parquet file; no row is read."""
    import pyarrow.parquet as pq

    regular(path)
    with reading(path, "parquet"):
        return list(pq.read_schema(os.fspath(path)).names)


def _written_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace columns that name each value once by the values, which is what they will cost."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if "dictionary" in str(column.type):
            raise InputError("dictionaries inside of lists are not read; write plain values")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names, metadata=batch.schema.metadata)


def to_lists(table: pa.Table, path: object) -> dict[str, list[Any]]:
    """Return the columns as Python values; a date or time out of range is the file's fault."""
    with reading(path, "a table"):
        return {name: table.column(name).to_pylist() for name in table.column_names}


def read_array(path: Path | str, mapped: bool = False) -> npt.NDArray[Any]:
    """Return the array of an ``.npy`` file: numbers or text, as many as the file has bytes for.

    Args:
        path: the file.
        mapped: leave the numbers on disk and read them when they are used.
    """
    import numpy as np

    size = regular(path)
    with reading(path, "an npy array"), opened(path) as file:
        shape = _array_header(file, path, size)
        if mapped and size > file.tell() and 0 not in shape:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        file.seek(0)
        return np.load(file, allow_pickle=False)


def read_arrays(path: Path | str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an ``.npz`` file, each checked as by :func:`read_array`."""
    import numpy as np

    arrays = {}
    with reading(path, "an npz archive"):
        for name, content in unzipped(path, ".npy"):
            file = io.BytesIO(content)
            _array_header(file, f"{path}, {name}", len(content))
            file.seek(0)
            arrays[name.removesuffix(".npy")] = np.load(file, allow_pickle=False)
    return arrays


def unzipped(path: Path | str, ending: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a zip's members, within one budget for all."""
    budget = Budget(path, regular(path))
    with reading(path, "a zip archive"), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir() and member.filename.endswith(ending):
                with archive.open(member) as file:
                    yield member.filename, _bounded(file, budget)


def check_zip(path: Path | str) -> None:
    """Refuse a zip whose members say that they unpack to more than is allowed."""
    budget = Budget(path, regular(path))
    with reading(path, "a zip archive"), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            budget.spend(member.file_size)


def _bounded(file: IO[bytes], budget: Budget) -> bytes:
    blocks = []
    while block := file.read(_BLOCK):
        budget.spend(len(block))
        blocks.append(block)
    return b"".join(blocks)


def _array_header(file: Any, where: object, size: int) -> tuple[int, ...]:
    """Return the shape of an npy stream after checking it; the stream stands behind the header."""
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise InputError(f"{where}: npy format {version} is not read; save it with numpy.save")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise InputError(f"{where}: refused, it holds pickled Python objects; save plain numbers")
    check_array(dtype, shape, size - file.tell(), where)
    return shape


def check_array(dtype: Any, shape: tuple[int, ...], size: int, where: object) -> None:
    """Complain about an array that is not plain, or that its bytes do not hold."""
    if dtype.kind not in "biufSU" or dtype.names or not dtype.itemsize:
        raise InputError(f"{where}: values of type {dtype}, not numbers or text")
    count = 1
    for side in shape:
        if not isinstance(side, int) or isinstance(side, bool) or side < 0:
            raise InputError(f"{where}: the shape {shape} is not one of an array")
        count *= side
    if count * dtype.itemsize > size or len(shape) > 8 or max(shape, default=0) > LIMIT:
        raise InputError(
            f"{where}: the shape {str(shape)[:60]} of {dtype} needs {count * dtype.itemsize:,} "
            f"bytes, {size:,} are there; the file is cut off or damaged"
        )
