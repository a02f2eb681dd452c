"""Write scores batch by batch; a file is whole or not there at all.

parquet, jsonl and json hold everything that :meth:`captious.ScoreTable.save` writes, and can be
read back; csv has its corpus values in a file beside it. Text and markdown show every caption as
:meth:`captious.ScoreTable.save` does; LaTeX holds the table of corpus values.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from captious.io import files, grids, pages, tables
from captious.io.summaries import summary_parts
from captious.types import CaptionSet, Floats

if TYPE_CHECKING:
    from captious.engine.tally import StreamSummary


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
        UsageError: the format cannot be told, or the place cannot be written to.
    """
    kind = tables.check_output(path, format)
    if kind == "parquet":
        return ParquetSink(path)
    if kind in ("json", "jsonl"):
        return JsonSink(path, lines=kind == "jsonl")
    return CsvSink(path) if kind == "csv" else TextSink(path, kind)


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
    """One object, or one line per caption below a line with all else."""

    def __init__(self, path: Path, lines: bool) -> None:
        self._path, self._lines = path, lines
        self._rows = _Neighbour(path)
        self._empty = True

    def write(self, samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]) -> None:
        """Write a batch."""
        for row in tables.json_rows(samples, values, blocks):
            if not self._lines and not self._empty:
                self._rows.write(",\n")
            self._rows.write(json.dumps(row, ensure_ascii=False))
            if self._lines:
                self._rows.write("\n")
            self._empty = False

    def close(self, summary: StreamSummary) -> None:
        """Put head and rows together."""
        head = json.dumps(tables.facts(summary, None), ensure_ascii=False)
        with self._rows.read() as rows, files.replacing(self._path) as out:
            out.write(head + "\n" if self._lines else head[:-1] + ', "captions": [\n')
            shutil.copyfileobj(rows, out, 1 << 20)
            out.write("" if self._lines else "\n]}\n")

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._rows.remove()


class TextSink:
    """Tables for people: corpus values, every caption, signatures and what was not scored."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path, self._kind = path, kind
        self._rows = _Neighbour(path)
        self._head: list[str] = []
        self._widest: list[int] = []

    def write(self, samples: CaptionSet, values: dict[str, Floats], blocks: list[Floats]) -> None:
        """Write a batch."""
        self._head = pages.row_head(values, several=True)
        numbers = [column.tolist() for column in values.values()]
        cells = pages.row_cells(samples.ids, samples.systems, samples.captions(), numbers)
        before = [self._widest] if self._widest else []
        here = grids.widths([self._head, *cells])
        self._widest = [max(sizes) for sizes in zip(here, *before, strict=True)]
        self._rows.write("".join(json.dumps(row) + "\n" for row in cells))

    def close(self, summary: StreamSummary) -> None:
        """Put the parts together; LaTeX gets no captions, as from a run in memory."""
        with self._rows.read() as rows, files.replacing(self._path) as out:
            if self._kind == "latex":
                out.write(pages.paper_table(summary) + "\n")
                return
            corpus, told = summary_parts(summary, self._kind)
            said = told.split("\n")
            out.write(grids.grid(corpus, self._kind) + "\n\n")
            if self._head:
                several = len(summary.corpora) > 1
                hidden = self._captions(out, map(json.loads, rows), several)
                said += [f"not shown: {', '.join(hidden)}; .json holds all"] if hidden else []
            mark = "- " if self._kind == "markdown" else ""
            out.write("\n" + "".join(f"{mark}{line}\n" for line in said))

    def _captions(self, out: IO[str], rows: Iterator[list[str]], several: bool) -> list[str]:
        """Write the table of captions; return the columns that it has no room for."""
        at = [i for i, name in enumerate(self._head) if several or name != "system"]
        head, widest = [self._head[i] for i in at], [self._widest[i] for i in at]
        stop = pages.room(head, widest) if self._kind == "text" else len(head)
        cells = ([row[i] for i in at[:stop]] for row in rows)
        if self._kind == "text":
            lines = grids.text_lines(head[:stop], cells, widest[:stop])
        else:
            lines = grids.markdown_lines(head, cells)
        out.writelines(f"{line}\n" for line in lines)
        return head[stop:]

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._rows.remove()


class _Neighbour:
    """Where rows wait for what stands above them, which is known last."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f".{path.name[:200]}.{os.getpid()}.rows")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self._path, "w", encoding="utf-8")  # noqa: SIM115 - closed by its reader
        self.write = self._file.write

    @contextmanager
    def read(self) -> Iterator[IO[str]]:
        """Open what was written, and remove it at the end."""
        self._file.close()
        try:
            with open(self._path, encoding="utf-8") as rows:
                yield rows
        finally:
            self.remove()

    def remove(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._path.unlink(missing_ok=True)


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
