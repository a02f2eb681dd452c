"""Reading lines and tables of judgement files: positions are kept for the messages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from captious.errors import InputError
from captious.io import files
from captious.judgements.judgement_set import Checks


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


def number(text: str, low: float, high: float, place: str, checks: Checks) -> float:
    """Return a rating; what is no number or out of range is noted as bad and gives NaN."""
    try:
        value = float(text)
    except ValueError:
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
