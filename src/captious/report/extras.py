"""Columns of the user's own beside the scores: buckets, and axes of the scatter.

A file (CSV, TSV, JSON, JSON lines, parquet) with a column ``id`` and, where systems differ,
``system``. A column of numbers (a rating by people, a length) is an axis and is cut into thirds; a
column of a few words (a category) is a bucket for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.calling import key
from captious.engine.table import ScoreTable
from captious.errors import InputError
from captious.judgements.judgement_set import Checks
from captious.judgements.sets.user_files import read_records
from captious.reading import reading
from captious.types import Floats

MOST_WORDS = 8
"""Different words of a column that makes buckets."""


@dataclass(frozen=True)
class Extras:
    """The user's columns, a value per row of the table.

    Attributes:
        numbers: column -> values, NaN where the file says nothing.
        words: column -> values, None where the file says nothing.
        left_out: what was not used, and why.
    """

    numbers: dict[str, Floats] = field(default_factory=dict)
    words: dict[str, npt.NDArray[np.object_]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def read(path: Path, table: ScoreTable) -> Extras:
    """Read the columns of a file for the rows of a table.

    Raises:
        InputError: the file has no ids, or none that the table has.
    """
    checks = Checks(path.name)
    with reading(path, "records"):
        records = [record for _, record in read_records(path, checks)]
    checks.stop_if_bad()
    if not records or "id" not in records[0]:
        raise InputError(f"{path}: a column 'id' must say which caption a row belongs to")
    by_system = "system" in records[0]
    held: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        system = str(record.get("system", "")) if by_system else ""
        held[key(record["id"]), system] = record
    rows = [
        held.get((str(name), str(system) if by_system else ""), {})
        for name, system in zip(table.ids, table.systems, strict=True)
    ]
    if not any(rows):
        theirs = ", ".join(repr(name) for name, _ in list(held)[:3])
        ours = ", ".join(map(repr, table.ids[:3].tolist()))
        raise InputError(f"{path}: no id is in the table; ids are {theirs} here and {ours} there")
    out = Extras()
    for column in (c for c in records[0] if c not in ("id", "system")):
        values = [row.get(column) for row in rows]
        numbers = [_number(value) for value in values]
        known = [value for value in values if value not in (None, "")]
        if known and sum(np.isfinite(numbers)) == len(known):
            out.numbers[column] = np.array(numbers)
        elif 1 < len({str(value) for value in known}) <= MOST_WORDS:
            texts = [None if value in (None, "") else str(value) for value in values]
            out.words[column] = np.array(texts, object)
        else:
            out.left_out.append(
                f"{path.name}: the column {column!r} is neither numbers nor 2 to {MOST_WORDS} words"
            )
    return out


def _number(value: Any) -> float:
    """Return a number; several ratings stand for their mean; NaN for anything else."""
    if isinstance(value, list) and value:
        return float(np.mean([_number(v) for v in value]))
    try:
        return float("nan") if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError):
        return float("nan")
