"""Reading lines and tables of judgement files: positions are kept for the messages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.io import files
from captious.judgements.judgement_set import Checks
from captious.reading import parquet_columns, parse_json, read_parquet


def tab_lines(path: Path, columns: int, checks: Checks) -> Iterator[tuple[str, list[str]]]:
    """Yield (place, fields) of a tab-separated file; lines of another width are noted as bad."""
    for number, line in enumerate(files.read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        fields = line.split("\t")
        place = f"{path.name} line {number}"
        if len(fields) != columns:
            checks.bad(f"lines that do not have {columns} columns", f"{place}: {len(fields)}")
            continue
        yield place, [f.strip() for f in fields]


def table(path: Path, delimiter: str = ",") -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """Return the header and (place, record) of a table with a header line."""
    reader = csv.DictReader(io.StringIO(files.read_text(path), newline=""), delimiter=delimiter)
    try:
        rows = [
            (f"{path.name} line {reader.line_num}", {k: v or "" for k, v in row.items() if k})
            for row in reader
        ]
    except csv.Error as err:
        raise InputError(f"{path}: line {reader.line_num}: {err}") from None
    return list(reader.fieldnames or []), rows


def records(
    path: Path, keep: tuple[str, ...] = ()
) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Return the fields and (place, record) of a CSV, JSON or parquet file.

    A JSON file is a list of objects, one object per line, an object of objects, or an object of
    equally long lists. Columns of a parquet file that usually hold pixels (``image``, ``img``) are
    not read unless ``keep`` names them.

    Raises:
        InputError: it is neither.
    """
    if path.suffix == ".csv":
        header, lines = table(path)
        return header, [(place, dict(line)) for place, line in lines]
    if path.suffix == ".parquet":
        names = [n for n in parquet_columns(path) if n in keep or n not in ("image", "img")]
        content: Any = read_parquet(path, names).to_pylist()
    else:
        content = _json(path)
    if isinstance(content, dict) and all(isinstance(v, dict) for v in content.values()):
        content = list(content.values())
    if isinstance(content, dict) and all(isinstance(v, list) for v in content.values()):
        lengths = {len(v) for v in content.values()}
        if len(lengths) == 1:
            content = [
                dict(zip(content, row, strict=True)) for row in zip(*content.values(), strict=True)
            ]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise InputError(f"{path}: expected a list of objects, or lists of equal length by name")
    fields = list(dict.fromkeys(name for row in content for name in row))
    return fields, [(f"{path.name} entry {n}", row) for n, row in enumerate(content, 1)]


def _json(path: Path) -> Any:
    """The content of a JSON file; of several lines that are an object each, all of them."""
    text = files.read_text(path)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(line[0] == "{" and line[-1] == "}" for line in lines):
        return [parse_json(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]
    return parse_json(text, path)


def number(text: Any, low: float, high: float, place: str, checks: Checks) -> float:
    """Return a rating; what is no number or out of range is noted as bad and gives NaN."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        checks.bad("ratings that are not numbers", f"{place}: {text!r}")
        return float("nan")
    if not low <= value <= high:
        checks.bad(f"ratings outside {low:g}..{high:g}", f"{place}: {text}")
        return float("nan")
    return value


def picture(folder: Path, name: str, checks: Checks, otherwise: str = "") -> str:
    """Return the path of a photograph, or its bare name where the file is absent.

    The name (or ``otherwise``) stays: it tells which captions belong to one image, with or without
    the photograph.
    """
    path = folder / name
    if path.exists():
        return str(path)
    if folder.is_dir():
        checks.note("photographs that are not in the image folder", name)
    return otherwise or name
