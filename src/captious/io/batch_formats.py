"""Rows of one file of any length, format by format, as tables of the same columns.

A row that cannot be judged stays, with the reason in the column ``problem``.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from captious.calling import key, text_problem
from captious.errors import InputError
from captious.evidence.images import handed_over
from captious.io import sources
from captious.io.sources import NAMES
from captious.reading import cause, parquet_batches, reading, streamed

KINDS = ("parquet", "jsonl", "ndjson", "csv", "tsv", "txt", "json", "tar")
_LINE = 1 << 26
_MEMBER = 1 << 28
COLUMNS = {
    "id": pa.string(),
    "image": pa.string(),
    "system": pa.string(),
    "caption": pa.large_string(),
    "references": pa.list_(pa.large_string()),
    "objects": pa.list_(pa.large_string()),
    "photograph": pa.large_binary(),
    "problem": pa.string(),
}
_SCHEMA = pa.schema(list(COLUMNS.items()))


def kind_of(path: str) -> str:
    """Return the ending that tells the format, without ``.gz``."""
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    return name.rpartition(".")[2] if "." in name else ""


def tables(path: str, rows: int, prefix: str) -> Iterator[pa.Table]:
    """Yield the rows of a file, about ``rows`` at a time; ``prefix`` stands before made-up ids."""
    kind = kind_of(path)
    if kind == "parquet":
        yield from _of_parquet(path, rows, prefix)
    elif kind == "tar":
        yield from _blocks(_of_tar(path), rows)
    else:
        start = 0
        for source, broken in _sources(path, kind, rows):
            yield checked(source, broken, start, prefix)
            start += len(source)


def _picked(names: list[str]) -> list[str]:
    known = {n for listed in NAMES.values() for n in listed}
    return [n for n in names if n in known or sources.NUMBERED.fullmatch(n)]


def _of_parquet(path: str, rows: int, prefix: str) -> Iterator[pa.Table]:
    start = 0
    for batch in parquet_batches(path, rows, _picked):
        held = {name: batch.column(name) for name in batch.schema.names}
        chosen = {what: next((held[n] for n in names if n in held), None)
                  for what, names in NAMES.items()}  # fmt: skip
        if _plain(chosen) and not any(sources.NUMBERED.fullmatch(n) for n in held):
            yield _of_arrow(chosen, path, start, prefix)
        else:
            source = sources.of_columns({n: c.to_pylist() for n, c in held.items()}, path)
            yield checked(source, {}, start, prefix)
        start += batch.num_rows


def _plain(columns: Mapping[str, pa.Array | None]) -> bool:
    """Tell whether columns can be taken over without a look at every value."""
    for what in ("caption", "id", "image", "system"):
        column = columns[what]
        if column is None:
            if what == "caption":
                return False
        elif not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
                  or (what != "caption" and pa.types.is_integer(column.type))):  # fmt: skip
            return False
    references = columns["references"]
    listed = references is None or (
        (pa.types.is_list(references.type) or pa.types.is_large_list(references.type))
        and (pa.types.is_string(references.type.value_type)
             or pa.types.is_large_string(references.type.value_type))
        and references.flatten().null_count == 0
    )  # fmt: skip
    caption = columns["caption"]
    if caption is None or not listed or columns["objects"] is not None:
        return False
    texts = [caption] if references is None else [caption, references.flatten()]
    return all((pc.max(pc.binary_length(t)).as_py() or 0) <= 100_000 for t in texts)


def _of_arrow(columns: Mapping[str, Any], path: str, start: int, prefix: str) -> pa.Table:
    caption = columns["caption"]
    rows = len(caption)
    made: dict[str, pa.Array] = {}
    for name, kind in COLUMNS.items():
        column = columns.get(name)
        made[name] = pa.nulls(rows, kind) if column is None else column.cast(kind)
    number = [f"{prefix}{start + i}" for i in range(rows)] if columns["id"] is None else None
    if number is not None:
        made["id"] = pa.array(number, pa.string())
    elif made["id"].null_count:
        listed = made["id"].to_pylist()
        filled = [f"{prefix}{start + i}" if v is None else v for i, v in enumerate(listed)]
        made["id"] = pa.array(filled, pa.string())
    if caption.null_count:
        why = text_problem(None)
        made["problem"] = pa.array(
            [f"the caption {why}" if null else None for null in caption.is_null().to_pylist()],
            pa.string(),
        )
    return pa.table(made, schema=_SCHEMA)


def _sources(path: str, kind: str, rows: int) -> Iterator[tuple[sources.Source, dict[int, str]]]:
    """Yield stretches of a text file as columns, and which of their rows are broken."""
    if kind == "json":
        whole = sources.read(Path(path))
        if whole.caption is None:
            raise InputError(f"{path}: this file holds references, not one caption each")
        for start in range(0, len(whole), rows):
            yield whole.part(start, start + rows), {}
        return
    with reading(path, kind), streamed(path) as file:
        if kind in ("jsonl", "ndjson"):
            parsed = (_json_line(line) for line in lines_of(file, path))
            yield from _records(parsed, path, "line", rows)
        elif kind == "txt":
            block: list[str] = []
            for line in lines_of(file, path, blank=True):
                block.append(line.decode().rstrip("\r\n"))
                if len(block) == rows:
                    yield sources.Source(path, "line", caption=block, parallel=True), {}
                    block = []
            if block:
                yield sources.Source(path, "line", caption=block, parallel=True), {}
        else:
            yield from _of_csv(file, path, "\t" if kind == "tsv" else None, rows)


def lines_of(file: Any, path: str, blank: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file, without empty ones unless they are asked for."""
    first = True
    while line := file.readline(_LINE):
        if len(line) == _LINE:
            raise InputError(f"{path}: a line is longer than {_LINE >> 20} MiB")
        if first:
            line, first = line.removeprefix(b"\xef\xbb\xbf"), False
        if blank or line.strip():
            yield line


def decoded(file: Any) -> Iterator[str]:
    """Yield the lines of a file as text, line ends included."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        yield from text
    finally:
        text.detach()  # whoever opened the file closes it


def cells_of(file: Any, delimiter: str | None) -> Any:
    """Return a reader of CSV; without a delimiter, the first line tells it."""
    csv.field_size_limit(1 << 27)
    text = decoded(file)
    first = next(text, "")
    lines = itertools.chain([first], text)
    return csv.reader(lines, delimiter=delimiter or sources.delimiter_of(first))


def _json_line(line: bytes) -> dict[str, Any] | str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as err:
        return f"the line is not valid JSON: {getattr(err, 'msg', '') or cause(err)}"
    return row if isinstance(row, dict) else 'the line is not an object like {"caption": ...}'


def _of_csv(
    file: Any, path: str, delimiter: str | None, rows: int
) -> Iterator[tuple[sources.Source, dict[int, str]]]:
    lines = cells_of(file, delimiter)
    header = [h.strip() for h in next(lines, [])]

    def parsed() -> Iterator[dict[str, Any] | str]:
        for cells in lines:
            if cells and len(cells) != len(header):
                yield f"the row has {len(cells)} cells, the header has {len(header)}"
            elif cells:
                yield dict(zip(header, cells, strict=True))

    for source, broken in _records(parsed(), path, "row", rows):
        source.first = 2
        for what in ("references", "objects"):
            cells = getattr(source, what)
            if cells is not None:
                setattr(source, what, [sources.cell_list(c) for c in cells])
        yield source, broken


def _records(
    parsed: Iterator[dict[str, Any] | str], path: str, unit: str, rows: int
) -> Iterator[tuple[sources.Source, dict[int, str]]]:
    block: list[dict[str, Any]] = []
    broken: dict[int, str] = {}
    for row in parsed:
        if isinstance(row, str):
            broken[len(block)] = row
            row = {"caption": ""}
        block.append(row)
        if len(block) == rows:
            yield sources.of_records(block, path, unit), broken
            block, broken = [], {}
    if block:
        yield sources.of_records(block, path, unit), broken


def checked(
    source: sources.Source,
    broken: Mapping[int, str] | None = None,
    start: int = 0,
    prefix: str = "",
) -> pa.Table:
    """Check every value of a stretch of rows; what is wrong with a row stands beside it.

    Args:
        source: the rows as columns.
        broken: rows that are known to be unreadable, and why.
        start: number of the first row, for rows without an id.
        prefix: of those numbers.
    """
    if source.caption is None:
        raise InputError(f"{source.path}: this file holds references, not one caption each")
    rows = len(source)
    made: dict[str, list[Any]] = {name: [None] * rows for name in COLUMNS}
    for row in range(rows):
        why = (broken or {}).get(row)
        caption = source.caption[row]
        if why is None and (wrong := text_problem(caption)) is not None:
            why = f"the caption {wrong}"
        listed = source.references[row] if source.references is not None else None
        texts, wrong = _listed(listed)
        why = why or wrong
        image = source.image[row] if source.image is not None else None
        name, picture, wrong = _picture(image)
        why = why or wrong
        held_id = source.id[row] if source.id is not None else None
        system = source.system[row] if source.system is not None else None
        labels = source.objects[row] if source.objects is not None else None
        made["id"][row] = f"{prefix}{start + row}" if held_id is None else key(held_id)
        made["image"][row] = name
        made["photograph"][row] = picture
        made["system"][row] = None if system in (None, "") else str(system)
        made["caption"][row] = "" if why else caption
        made["references"][row] = [] if why else texts
        if isinstance(labels, list | tuple) and all(isinstance(o, str) for o in labels):
            made["objects"][row] = list(labels)
        made["problem"][row] = why
    return pa.table({n: pa.array(c, COLUMNS[n]) for n, c in made.items()}, schema=_SCHEMA)


def _listed(value: Any) -> tuple[list[str], str | None]:
    if value is None:
        return [], None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        return [], f"references are a list of texts, not {repr(value)[:40]}"
    for number, text in enumerate(texts, 1):
        if (wrong := text_problem(text)) is not None:
            return [], f"reference {number} {wrong}"
    return list(texts), None


def _picture(image: Any) -> tuple[str | None, bytes | None, str | None]:
    if image is None or (isinstance(image, str) and not image):
        return None, None, None
    if isinstance(image, str | int | float):
        return key(image), None, None
    try:
        name, content = handed_over(image, "its image")
    except InputError as err:
        return None, None, str(err)
    return name, content, None


def _of_tar(path: str) -> Iterator[dict[str, Any]]:
    """Yield samples of a webdataset: neighbours whose names share all before the first dot."""
    words = ("txt", "caption", "cap")
    with reading(path, "a tar archive"), streamed(path) as file:
        sample: dict[str, Any] = {}
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                if not member.isfile():
                    continue
                folder, _, base = member.name.rpartition("/")
                stem, _, ending = base.partition(".")
                name = f"{folder}/{stem}" if folder else stem
                if sample and sample["id"] != name:
                    yield sample
                    sample = {}
                sample.setdefault("id", name)
                content = archive.extractfile(member)
                if content is None or member.size > _MEMBER:
                    continue
                kind = ending.lower().rpartition(".")[2]
                if kind in words:
                    sample["caption"] = content.read().decode("utf-8", "replace").strip()
                elif kind == "json":
                    said = _json_line(content.read())
                    if isinstance(said, dict):
                        sample |= {k: v for k, v in said.items() if k in ("caption", "references")}
                elif kind in ("jpg", "jpeg", "png", "webp"):
                    sample["image"] = content.read()
            if sample:
                yield sample


def _blocks(rows: Iterator[dict[str, Any]], size: int) -> Iterator[pa.Table]:
    # Photographs are in memory here, so a block is small.
    block: list[dict[str, Any]] = []
    for row in rows:
        block.append({"caption": None, "references": None, "image": None, **row})
        if len(block) == min(size, 512):
            yield checked(sources.of_records(block, "tar", "sample"), {}, 0, "")
            block = []
    if block:
        yield checked(sources.of_records(block, "tar", "sample"), {}, 0, "")
