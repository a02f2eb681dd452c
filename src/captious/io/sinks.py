"""Write scores batch by batch; a file is whole or not there at all.

parquet, jsonl and json hold everything that :meth:`captious.ScoreTable.save` writes, and can be
read back; csv has its corpus values in a file beside it.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from captious.errors import UsageError
from captious.io import files, tables
from captious.types import CaptionSet, Floats

if TYPE_CHECKING:
    from captious.engine.stream import StreamSummary

FORMATS = ("parquet", "jsonl", "json", "csv")


class Sink(Protocol):
    """Where the rows of a stream go."""

    def write(self, samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]) -> None:
        """Write a batch: its captions, values by column, statistics by step."""
        ...

    def close(self, summary: StreamSummary) -> None:
        """Write what is known at the end, and give the file its name."""
        ...

    def abandon(self) -> None:
        """Leave nothing behind."""
        ...


def sink_for(path: Path, format: str | None = None) -> Sink:
    """Return the sink of an output file.

    Raises:
        UsageError: the format cannot be written batch by batch, or the place not at all.
    """
    kind = tables.check_output(path, format)
    if kind not in FORMATS:
        raise UsageError(
            f"{path}: {kind} is not written batch by batch; use one of {', '.join(FORMATS)}"
        )
    if kind == "parquet":
        return ParquetSink(path)
    return CsvSink(path) if kind == "csv" else JsonSink(path)


class _File:
    """A temporary neighbour of the output that takes its place when it is closed."""

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path
        self._stack = ExitStack()
        self.file: Any = self._stack.enter_context(files.replacing(path, mode))

    def close(self) -> None:
        self._stack.close()

    def abandon(self) -> None:
        with suppress(_Abandoned):
            self._stack.__exit__(_Abandoned, _Abandoned(), None)


class _Abandoned(Exception):
    """Ends the writing of a file without putting it into its place."""


class ParquetSink:
    """One row group per batch; all else stands in the metadata, as in a stored table."""

    def __init__(self, path: Path) -> None:
        self._out = _File(path, "wb")
        self._writer: pq.ParquetWriter | None = None

    def write(self, samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]) -> None:
        """Write a batch."""
        table = pa.table(rows_of(samples, values, blocks))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._out.file, table.schema)
        self._writer.write_table(table)

    def close(self, summary: StreamSummary) -> None:
        """Write corpus values and signatures into the footer."""
        if self._writer is not None:
            facts = json.dumps(tables.facts(summary, None))
            self._writer.add_key_value_metadata({"captious": facts})
            self._writer.close()
        self._out.close()

    def abandon(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            with suppress(OSError, ValueError):
                self._writer.close()
        self._out.abandon()


def rows_of(
    samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]
) -> dict[str, pa.Array]:
    """Return the columns of a stored table."""
    texts = samples.pool.array
    caption = texts.take(pa.array(samples.caption))
    references = pa.ListArray.from_arrays(
        pa.array(samples.offsets.astype(np.int32)), texts.take(pa.array(samples.reference))
    )
    columns: dict[str, Any] = {
        "id": pa.array(samples.ids, pa.string()),
        "system": pa.array(samples.systems, pa.string()),
        "image": pa.array(samples.images, pa.string()),
        "caption": caption.cast(pa.large_string()),
        "references": references.cast(pa.list_(pa.large_string())),
    }
    columns |= {name: pa.array(column) for name, column in values.items()}
    for number, block in enumerate(blocks):
        flat = pa.array(np.ascontiguousarray(block).ravel())
        columns[f"statistics {number}"] = pa.FixedSizeListArray.from_arrays(flat, block.shape[1])
    return columns


class JsonSink:
    """Rows go to a neighbour first, since the head with the corpus values is known last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = files.suffix(path) == "jsonl"
        self._rows = path.with_name(f".{path.name[:200]}.{os.getpid()}.rows")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self._rows, "w", encoding="utf-8")  # noqa: SIM115 - closed below
        self._empty = True

    def write(self, samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]) -> None:
        """Write a batch."""
        for row in tables.json_rows(samples, values, blocks):
            if not self._lines and not self._empty:
                self._file.write(",\n")
            self._file.write(json.dumps(row, ensure_ascii=False))
            if self._lines:
                self._file.write("\n")
            self._empty = False

    def close(self, summary: StreamSummary) -> None:
        """Put head and rows together."""
        self._file.close()
        head = json.dumps(tables.facts(summary, None), ensure_ascii=False)
        try:
            with files.replacing(self._path) as out, open(self._rows, encoding="utf-8") as rows:
                out.write(head + "\n" if self._lines else head[:-1] + ', "captions": [\n')
                shutil.copyfileobj(rows, out, 1 << 20)
                out.write("" if self._lines else "\n]}\n")
        finally:
            self._rows.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._rows.unlink(missing_ok=True)


class CsvSink:
    """One line per caption."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._out = _File(path, "w")
        self._writer = csv.writer(self._out.file, lineterminator="\n")
        self._begun = False

    def write(self, samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]) -> None:
        """Write a batch."""
        if not self._begun:
            self._writer.writerow(["system", "id", "caption", *values])
            self._begun = True
        columns = [["" if v != v else repr(v) for v in c.tolist()] for c in values.values()]
        rows = zip(samples.systems, samples.ids, samples.captions(), *columns, strict=True)
        self._writer.writerows(rows)

    def close(self, summary: StreamSummary) -> None:
        """Write the corpus values beside it."""
        self._out.close()
        with files.replacing(tables.corpus_file(self._path)) as file:
            file.write(tables.corpus_csv(summary))

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._out.abandon()
