"""Captions in batches: files, folders, globs, tars and addresses of any length, read once through.

A batch is a small caption set. Rows of one image that stand side by side stay in one batch. A row
that cannot be judged (no caption, half a line of JSON) is in the batch with the reason, so that one
bad row in a million does not stop the other 999,999.
"""

from __future__ import annotations

import csv
import glob
import io
import itertools
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from captious.calling import key, text_problem
from captious.errors import InputError
from captious.evidence.images import handed_over
from captious.io import sources
from captious.io.load import Album
from captious.io.references import References
from captious.io.sources import NAMES
from captious.reading import cause, is_address, parquet_batches, reading, streamed
from captious.types import CaptionSet

ROWS = 20_000
"""Rows of a batch: some 100 MB of working memory with five references each."""

KINDS = ("parquet", "jsonl", "ndjson", "csv", "tsv", "txt", "json", "tar")
MANIFEST = "captious.json"
"""What a folder of scores holds; it has no rows."""
_LINE = 1 << 26
_MEMBER = 1 << 28
_COLUMNS = {
    "id": pa.string(),
    "image": pa.string(),
    "system": pa.string(),
    "caption": pa.large_string(),
    "references": pa.list_(pa.large_string()),
    "objects": pa.list_(pa.large_string()),
    "photograph": pa.large_binary(),
    "problem": pa.string(),
}
_SCHEMA = pa.schema(list(_COLUMNS.items()))


@dataclass(frozen=True)
class Batch:
    """Rows to be judged.

    Attributes:
        samples: the captions.
        problems: row -> why it cannot be judged; its caption is empty.
    """

    samples: CaptionSet
    problems: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, stop: int) -> Batch:
        """Return some rows."""
        samples = self.samples.take(np.arange(start, stop)).compact()
        problems = {r - start: w for r, w in self.problems.items() if start <= r < stop}
        return Batch(samples, problems)

    def sound(self) -> CaptionSet:
        """Return the rows that can be judged."""
        if not self.problems:
            return self.samples
        return self.samples.take([i for i in range(len(self)) if i not in self.problems])


def shards(place: str | Path) -> list[str]:
    """Return the files that a file, a folder, a glob or an address names, in order.

    Raises:
        InputError: there is none, or one has an ending that cannot be read in batches.
    """
    text = str(place)
    if is_address(text):
        listed = _addresses(text) if glob.has_magic(text) else [text]
    elif Path(text).is_dir():
        inside = sorted(p for p in Path(text).iterdir() if p.name != MANIFEST)
        listed = [str(p) for p in inside if kind_of(str(p)) in KINDS]
    elif glob.has_magic(text) and not Path(text).exists():
        listed = sorted(glob.glob(text, recursive=True))
    else:
        listed = [text]
    if not listed:
        raise InputError(f"{place}: holds no caption files ({', '.join('.' + k for k in KINDS)})")
    wrong = [f for f in listed if kind_of(f) not in KINDS]
    if wrong:
        raise InputError(
            [f"{f}: only {', '.join('.' + k for k in KINDS)} can be read in batches" for f in wrong]
        )
    return listed


def kind_of(path: str) -> str:
    """Return the ending that tells the format, without ``.gz``."""
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    return name.rpartition(".")[2] if "." in name else ""


def _addresses(text: str) -> list[str]:
    import fsspec

    scheme = text.partition("://")[0]
    with reading(text, "an address that fsspec opens"):
        return sorted(f"{scheme}://{p.lstrip('/')}" if scheme != "file" else p
                      for p in fsspec.filesystem(scheme).glob(text))  # fmt: skip


class Reader:
    """Reads batches from a list of files; can be read again from the start.

    Args:
        files: as :func:`shards` lists them, each with the name of its system.
        references: those that stand in files of their own (held in memory).
        images: folder of the photographs.
        rows: about how many rows a batch has.
    """

    def __init__(
        self,
        files: Iterable[tuple[str, str]],
        references: References | None = None,
        images: Path | None = None,
        rows: int = ROWS,
    ) -> None:
        self.files = list(files)
        self.rows = max(1, rows)
        self._references = references
        self._folder = None if images is None else Album.of(images)

    def __iter__(self) -> Iterator[Batch]:
        many = len(self.files) > 1
        for path, system in self.files:
            prefix = f"{Path(path).name}:" if many else ""
            for table in _cut(_tables(path, self.rows, prefix), self.rows):
                yield self._batch(table, system)

    def _batch(self, table: pa.Table, system: str) -> Batch:
        ids, images = (table.column(name).to_pylist() for name in ("id", "image"))
        if self._references is not None:
            listed = self._joined(ids, images, table.column("references"))
            table = table.set_column(table.column_names.index("references"), "references", listed)
        if self._folder is not None:
            named = pa.array(self._photographs(ids, images), pa.string())
            table = table.set_column(table.column_names.index("image"), "image", named)
        return batch_of(table, system)

    def _joined(self, ids: Any, images: Any, own: Any) -> Any:
        pool = self._references
        if pool is None or pool.by_row is not None:
            return own
        held = pool.by_id
        listed = [held.get(str(i)) or held.get(str(m)) for i, m in zip(ids, images, strict=True)]
        return pa.array(listed, _COLUMNS["references"])

    def _photographs(self, ids: Any, images: Any) -> Any:
        folder = self._folder
        out = list(images)
        for row, (name, image) in enumerate(zip(ids, images, strict=True)):
            place = (
                None if folder is None else folder.find(str(image if image is not None else name))
            )
            out[row] = None if place is None else str(place)
        return out


def batch_of(table: pa.Table, system: str = "") -> Batch:
    """Return a batch from rows as :func:`checked` gives them."""
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    samples = CaptionSet.of_arrow(
        column["caption"],
        column["references"],
        ids=column["id"].to_pylist(),
        images=column["image"].to_pylist(),
        systems=column["system"].fill_null(system).to_pylist(),
    )
    samples = _with_evidence(samples, column["objects"], column["photograph"])
    return Batch(samples, _told(column["problem"]))


def _with_evidence(samples: CaptionSet, objects: pa.Array, photographs: pa.Array) -> CaptionSet:
    if objects.null_count < len(objects):
        held = zip(samples.image_keys.tolist(), objects.to_pylist(), strict=True)
        samples = samples.with_labels({str(i): tuple(o) for i, o in held if o is not None})
    if photographs.null_count < len(photographs):
        held = zip(samples.images.tolist(), photographs.to_pylist(), strict=True)
        pictures = {str(i): p for i, p in held if p is not None}
        samples = replace(samples, evidence=replace(samples.evidence, photographs=pictures))
    return samples


def _told(problem: pa.Array) -> dict[int, str]:
    if problem.null_count == len(problem):
        return {}
    return {row: why for row, why in enumerate(problem.to_pylist()) if why is not None}


def _cut(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut where the image changes: neighbours of one image stay together, up to twice the size."""
    rest: pa.Table | None = None
    for table in tables:
        table = table if rest is None else pa.concat_tables([rest, table])
        rest = None
        while table.num_rows > rows:
            image = pc.coalesce(table.column("image"), table.column("id")).slice(0, 2 * rows)
            near = image.slice(rows - 1).to_pylist()
            same = next((i for i, name in enumerate(near) if name != near[0]), None)
            if same is None and table.num_rows < 2 * rows:
                break  # the image may go on in what comes next
            at = rows - 1 + (len(near) if same is None else same)
            yield table.slice(0, at)
            table = table.slice(at)
        rest = table
    if rest is not None and rest.num_rows:
        yield rest


# -- one reader per format -------------------------------------------------------------------------


def _tables(path: str, rows: int, prefix: str) -> Iterator[pa.Table]:
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
    for name, kind in _COLUMNS.items():
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
    made: dict[str, list[Any]] = {name: [None] * rows for name in _COLUMNS}
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
    return pa.table({n: pa.array(c, _COLUMNS[n]) for n, c in made.items()}, schema=_SCHEMA)


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
