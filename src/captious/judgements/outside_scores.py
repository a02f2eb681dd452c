"""Scores that others have made of judged captions: released with a paper, or by a tool of yours.

One file (JSON list, JSON lines, CSV, TSV or parquet), one record per caption: any columns of
numbers beside ``id``, or beside ``image`` and ``caption`` (``caption`` alone where no image is
named). Pairs may stand side by side: ``caption_a``, ``caption_b`` and columns of numbers that end
in ``_a`` and ``_b``. A file with neither is taken row by row, if it has as many rows as the set has
captions. Higher must be better.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.judgements.judgement_set import Checks
from captious.judgements.sets.user_files import Record, read_records
from captious.reading import read_bytes
from captious.types import CaptionSet, Floats

_KEYS = ("id", "image", "caption", "references", "label", "rating", "group", "kind", "system")
Key = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OutsideScores:
    """Columns of scores, not yet matched with captions.

    Attributes:
        path: the file.
        columns: column -> one value per record; NaN where the file has none.
        keys: what tells the records apart; empty where their order does.
        by: what the keys are made of: ``id``; ``image`` and ``caption``; or ``caption``.
        sha: digest of the file.
    """

    path: Path
    columns: dict[str, Floats]
    keys: tuple[Key, ...]
    by: tuple[str, ...]
    sha: str

    def match(self, samples: CaptionSet) -> dict[str, Floats]:
        """Return each column in the order of the captions; NaN where the file has no score.

        Raises:
            InputError: no caption is in the file, or its number of rows does not fit.
        """
        if not self.by:
            count = len(next(iter(self.columns.values())))
            if count != len(samples):
                raise InputError(
                    f"{self.path}: {count:,} rows for {len(samples):,} captions; without a column "
                    "id, or image and caption, rows are matched by their order: add such a column"
                )
            return dict(self.columns)
        place = {key: row for row, key in enumerate(self.keys)}
        asked = _keys_of(samples, self.by)
        rows = np.array([place.get(key, -1) for key in asked])
        if (rows < 0).all():
            raise InputError(
                f"{self.path}: has no score for any of the {len(samples):,} captions. Records are "
                f"matched by {' and '.join(self.by)}; the first caption is {asked[0]}, the first "
                f"record {self.keys[0]}"
            )
        return {
            name: np.where(rows >= 0, values[rows], np.nan) for name, values in self.columns.items()
        }


def load(text: str) -> OutsideScores:
    """Read ``FILE`` or ``NAME=FILE``; the name stands in the table, by default that of the file.

    Raises:
        InputError: the file has no scores, or several different ones for one caption.
    """
    name, equals, path_text = text.partition("=")
    path = Path(path_text if equals else text)
    checks = Checks(path.name)
    records = read_records(path, checks)
    checks.stop_if_bad()
    if not records:
        raise InputError(f"{path}: holds no records")
    records = _one_per_caption(records)
    names = list(dict.fromkeys(str(k) for _, row in records for k in row))
    by = _matched_by(names)
    columns = {
        column: values
        for column in names
        if column not in _KEYS and (values := _numbers(records, column, checks)) is not None
    }
    checks.stop_if_bad()
    if not columns:
        raise InputError(f"{path}: has no column of numbers (columns: {', '.join(names)})")
    keys = tuple(_key([row.get(k) for k in by], by) for _, row in records) if by else ()
    kept = _without_doubles(keys, columns, records, checks)
    checks.stop_if_bad()
    stem = name if equals else path.stem
    shown = {c: stem if len(columns) == 1 else f"{stem}.{c}" for c in columns}
    return OutsideScores(
        path,
        {shown[c]: values[kept] for c, values in columns.items()},
        tuple(keys[i] for i in kept) if by else (),
        by,
        hashlib.sha256(read_bytes(path)).hexdigest()[:8],
    )


def _one_per_caption(records: Sequence[Record]) -> list[Record]:
    """Cut records of two captions into two."""
    if not all({"caption_a", "caption_b"} <= set(row) for _, row in records):
        return list(records)
    out: list[Record] = []
    for place, row in records:
        for side in ("_a", "_b"):
            single = {k.removesuffix(side): v for k, v in row.items() if k.endswith(side)}
            out.append((place, single | ({"image": row["image"]} if "image" in row else {})))
    return out


def _matched_by(names: Sequence[str]) -> tuple[str, ...]:
    for keys in (("id",), ("image", "caption"), ("caption",)):
        if set(keys) <= set(names):
            return keys
    return ()


def _key(values: Sequence[Any], by: Sequence[str]) -> Key:
    """Return values as they are compared: bare file names, texts without surplus spaces."""
    how: dict[str, Callable[[str], str]] = {
        "image": lambda text: Path(text).name,
        "caption": lambda text: " ".join(text.split()),
        "id": str,
    }
    return tuple(how[k](str(v)) for k, v in zip(by, values, strict=True))


def _keys_of(samples: CaptionSet, by: Sequence[str]) -> list[Key]:
    columns = {
        "id": samples.ids.tolist(),
        "image": samples.images.tolist(),
        "caption": samples.captions(),
    }
    return [_key(values, by) for values in zip(*(columns[k] for k in by), strict=True)]


def _numbers(records: Sequence[Record], column: str, checks: Checks) -> Floats | None:
    """Return a column of numbers, NaN where empty; None where it holds text throughout."""
    out = np.full(len(records), np.nan)
    wrong: list[str] = []
    for at, (place, row) in enumerate(records):
        value = row.get(column)
        if value is None or value == "":
            continue
        try:
            out[at] = float(value)
        except (TypeError, ValueError):
            wrong.append(f"{place}: {value!r}"[:120])
    if np.isnan(out).all():
        return None
    for place in wrong:
        checks.bad(f"scores in {column} that are not numbers", place)
    return out


def _without_doubles(
    keys: Sequence[Key], columns: dict[str, Floats], records: Sequence[Record], checks: Checks
) -> list[int]:
    """Return one record per key; the same caption with two different scores is an error."""
    if not keys:
        return list(range(len(records)))
    first: dict[Key, int] = {}
    for row, key in enumerate(keys):
        other = first.setdefault(key, row)
        if any(not np.array_equal(v[row], v[other], equal_nan=True) for v in columns.values()):
            checks.bad("captions with two different scores", f"{records[row][0]}: {key}"[:160])
    return list(first.values())
