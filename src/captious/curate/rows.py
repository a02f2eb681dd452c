"""Rows of a table file as they are, batch by batch, and a file of some of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from captious.errors import InputError, UsageError
from captious.io import files
from captious.io.batch_formats import cells_of, kind_of, lines_of
from captious.io.batches import ROWS, shards
from captious.reading import parquet_batches, parse_json, reading, streamed

KINDS = ("parquet", "jsonl", "ndjson", "csv", "tsv")


class Rows(Protocol):
    """Some rows of a file."""

    def __len__(self) -> int: ...

    @property
    def table(self) -> pa.Table:
        """The rows as columns."""
        ...

    @property
    def raw(self) -> Any:
        """The rows as they stand in the file."""
        ...


class _Held:
    def __init__(self, table: pa.Table, raw: Any) -> None:
        self.table, self.raw = table, raw

    def __len__(self) -> int:
        return int(self.table.num_rows)


class _Cells(NamedTuple):
    delimiter: str
    header: list[str]
    block: list[list[str]]


def outputs(place: str | Path, out: Path) -> list[tuple[str, Path]]:
    """Return every input file with the file that its rows go to.

    Raises:
        UsageError: several inputs, and the output is a file.
        InputError: an input is not a table.
    """
    listed = shards(place)
    wrong = [f for f in listed if kind_of(f) not in KINDS]
    if wrong:
        raise InputError([f"{f}: only {', '.join('.' + k for k in KINDS)} is read" for f in wrong])
    folder = len(listed) > 1 or out.is_dir() or not out.suffix
    if not folder and kind_of(out.name) != kind_of(listed[0]):
        raise UsageError(f"{out}: the output has the format of the input, .{kind_of(listed[0])}")
    if not folder:
        return [(listed[0], out)]
    return [(f, out / Path(f).name.removesuffix(".gz")) for f in listed]


def read(path: str, rows: int = ROWS) -> Iterator[Rows]:
    """Yield the rows of a file, about ``rows`` at a time."""
    kind = kind_of(path)
    if kind == "parquet":
        for batch in parquet_batches(path, rows, list):
            table = pa.Table.from_batches([batch])
            # Corpus values and signatures of a stored table are of all its rows, not of some.
            facts = dict(table.schema.metadata or {})
            facts.pop(b"captious", None)
            table = table.replace_schema_metadata(facts)
            yield _Held(table, table)
        return
    with reading(path, kind), streamed(path) as file:
        if kind in ("jsonl", "ndjson"):
            yield from _json_rows(file, path, rows)
        else:
            yield from _cell_rows(file, path, "\t" if kind == "tsv" else None, rows)


def _json_rows(file: Any, path: str, rows: int) -> Iterator[Rows]:
    raw: list[bytes] = []
    records: list[Any] = []
    for number, line in enumerate(lines_of(file, path), 1):
        record = parse_json(line, f"{path}: line {number}")
        if not isinstance(record, dict):
            raise InputError(f'{path}: line {number} is not an object like {{"caption": ...}}')
        if number == 1 and "signatures" in record and "caption" not in record:
            continue  # the head of a table that captious stored
        raw.append(line)
        records.append(record)
        if len(raw) == rows:
            yield _Held(_of_records(records), raw)
            raw, records = [], []
    if raw:
        yield _Held(_of_records(records), raw)


def _of_records(records: list[dict[str, Any]]) -> pa.Table:
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(record))
    return pa.table({n: _column([r.get(n) for r in records]) for n in names})


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # mixed types: as text, which no number matches
        return pa.array([None if v is None else json.dumps(v) for v in values])


def _cell_rows(file: Any, path: str, delimiter: str | None, rows: int) -> Iterator[Rows]:
    lines = cells_of(file, delimiter)
    header: list[str] = next(lines, [])
    block: list[list[str]] = []

    def held() -> _Held:
        cells = zip(*block, strict=True)
        table = pa.table({n: _numbers(list(c)) for n, c in zip(header, cells, strict=True)})
        return _Held(table, _Cells(lines.dialect.delimiter, header, block))

    for cells in lines:
        if cells and len(cells) != len(header):
            raise InputError(
                f"{path}: line {lines.line_num} has {len(cells)} cells, the header {len(header)}"
            )
        if cells:
            block.append(cells)
        if len(block) == rows:
            yield held()
            block = []
    if block:
        yield held()


def _numbers(cells: list[str]) -> pa.Array:
    try:
        return pa.array([float(c) if c else None for c in cells])
    except ValueError:
        return pa.array(cells)


class Writer:
    """Writes some rows of what was read, in the same format; whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._kind = kind_of(path.name)
        self._stack = ExitStack()
        mode = "wb" if self._kind in ("parquet", "jsonl", "ndjson") else "w"
        self._file: Any = self._stack.enter_context(files.replacing(path, mode))
        self._parquet: pq.ParquetWriter | None = None
        self._begun = False

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *why: Any) -> None:
        if self._parquet is not None:
            self._parquet.close()
        self._stack.__exit__(*why)

    def write(self, rows: Rows, mask: npt.NDArray[np.bool_]) -> None:
        """Write the rows that the mask keeps."""
        if self._kind == "parquet":
            if self._parquet is None:
                self._parquet = pq.ParquetWriter(self._file, rows.raw.schema)
            self._parquet.write_table(rows.raw.filter(pa.array(mask)))
            return
        if self._kind in ("jsonl", "ndjson"):
            kept = (line for line, keep in zip(rows.raw, mask, strict=True) if keep)
            self._file.writelines(line if line.endswith(b"\n") else line + b"\n" for line in kept)
            return
        cells: _Cells = rows.raw
        delimiter = "\t" if self._kind == "tsv" else cells.delimiter
        writer = csv.writer(self._file, lineterminator="\n", delimiter=delimiter)
        if not self._begun:
            writer.writerow(cells.header)
            self._begun = True
        writer.writerows(row for row, keep in zip(cells.block, mask, strict=True) if keep)


def columns_of(table: pa.Table, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Return columns as arrays: numbers as floats with NaN, all else as objects."""
    out: dict[str, npt.NDArray[Any]] = {}
    for name in names:
        column = table.column(name)
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            out[name] = column.cast(pa.float64()).to_numpy()
        elif pa.types.is_null(kind):
            out[name] = np.full(len(column), np.nan)
        else:
            held = np.empty(len(column), object)
            held[:] = column.to_pylist()
            out[name] = held
    return out
