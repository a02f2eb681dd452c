"""Keep the rows that fulfil a condition, and take the best share of them.

Columns of the condition that the file lacks are computed if they are scores of captious. Clauses
that ``and`` joins are applied from left to right, and a score is computed only for the rows that
are left: write the cheap clause first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captious.batch import Scorer
from captious.curate import rows as files
from captious.curate.expression import Condition, clauses
from captious.curate.rows import Rows, columns_of
from captious.errors import InputError, UsageError, did_you_mean
from captious.io.files import replacing
from captious.progress import Progress

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Kept:
    """What a filter did: rows read, rows kept, and rows that each clause cost."""

    read: int
    kept: int
    lost: dict[str, int]


def filter_rows(
    place: str | Path,
    out: Path,
    keep: str,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
) -> Kept:
    """Write the rows that fulfil a condition, file by file, in their order and format.

    Args:
        place: a file, a folder or a glob of parquet, JSONL, CSV or TSV.
        out: a file, or a folder for several.
        keep: the condition (:mod:`captious.curate.expression`).
        columns: which column holds captions and so on, for scores that are computed.
        df: document frequencies for scores that are computed.
    """
    parts = clauses(keep)
    scores = Scores(columns, df)
    lost = {part.text: 0 for part in parts}
    read = kept = 0
    with Progress("filtering", None, "rows") as bar:
        for path, target in files.outputs(place, out):
            with files.Writer(target) as writer:
                for held in files.read(path):
                    mask = _fulfilled(held, parts, scores, lost, path)
                    writer.write(held, mask)
                    read, kept = read + len(held), kept + int(mask.sum())
                    bar.advance(len(held))
    return Kept(read, kept, lost)


def _fulfilled(
    held: Rows, parts: Sequence[Condition], scores: Scores, lost: dict[str, int], path: str
) -> Mask:
    left = np.arange(len(held))
    for part in parts:
        table = held.table if len(left) == len(held) else held.table.take(pa.array(left))
        fine = part.mask(scores.columns(table, part.names, path)) if len(left) else left > 0
        lost[part.text] += int((~fine).sum())
        left = left[fine]
    mask = np.zeros(len(held), bool)
    mask[left] = True
    return mask


class Scores:
    """Columns of a table, computing those that it lacks; scorers are made once."""

    def __init__(self, columns: Mapping[str, str] | None, df: str) -> None:
        self._columns, self._df = columns, df
        self._made: dict[str, Scorer] = {}

    def columns(self, table: pa.Table, names: Sequence[str], path: str) -> dict[str, Any]:
        """Return the named columns as arrays."""
        for name in names:
            if name not in table.column_names:
                table = self._scorer(name, table, path)(table)
        return columns_of(table, names)

    def _scorer(self, name: str, table: pa.Table, path: str) -> Scorer:
        if name not in self._made:
            try:
                self._made[name] = Scorer(name, self._columns, self._df)
            except UsageError as err:
                raise InputError(
                    f"{path}: has no column {name!r}, and no score of captious is called so."
                    f"{did_you_mean(name, table.column_names)} Columns: "
                    f"{', '.join(table.column_names)}."
                ) from err
        return self._made[name]


def select_rows(
    place: str | Path,
    out: Path | None,
    top: float,
    by: str,
    *,
    uids: Path | None = None,
    uid_column: str = "uid",
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
) -> Kept:
    """Write the best share of all rows by a score; the number of rows is exact.

    The first pass reads the scores (8 bytes of memory per row), the second writes. Among equal
    scores at the threshold the earlier rows are taken; rows without a score never are.

    Args:
        place: a file, a folder or a glob.
        out: a file, or a folder for several; None if only ``uids`` is wanted.
        top: the share to keep, 0 to 1.
        by: column or score; more is better.
        uids: also write the kept rows' uids as DataComp wants them: a sorted ``.npy`` of pairs of
            64-bit numbers.
        uid_column: the column of the uids, 32 hexadecimal digits each.
        columns: which column holds captions and so on, if the score is computed.
        df: document frequencies, if the score is computed.
    """
    if not 0 < top <= 1:
        raise UsageError(f"--top is a share between 0 and 1, not {top}")
    if out is None and uids is None:
        raise UsageError("name an output file or a file of uids")
    pairs = files.outputs(place, out or Path("unused-folder"))
    scores = Scores(columns, df)
    held = array("d")
    with Progress("reading scores", None, "rows") as bar:
        for path, _ in pairs:
            for part in files.read(path):
                held.extend(scores.columns(part.table, [by], path)[by].tolist())
                bar.advance(len(part))
    values = np.frombuffer(held)
    mask = best(values, top)
    names: list[npt.NDArray[np.uint64]] = []
    at = 0
    for path, target in pairs:
        at = _written(path, target if out is not None else None, mask, at,
                      names if uids is not None else None, uid_column)  # fmt: skip
    if uids is not None:
        _write_uids(uids, names)
    return Kept(len(values), int(mask.sum()), {f"top {top:g} by {by}": int((~mask).sum())})


def best(values: npt.NDArray[np.float64], top: float) -> Mask:
    """Return which of the values are in the top share; ties go to the earlier."""
    count = min(int(top * len(values)), int((~np.isnan(values)).sum()))
    mask = np.zeros(len(values), bool)
    if not count:
        return mask
    ranked = np.where(np.isnan(values), -np.inf, values)
    threshold = np.partition(ranked, len(ranked) - count)[len(ranked) - count]
    mask[ranked > threshold] = True
    equal = np.flatnonzero((ranked == threshold) & ~np.isnan(values))
    mask[equal[: count - int(mask.sum())]] = True
    return mask


def _written(
    path: str,
    target: Path | None,
    mask: Mask,
    at: int,
    names: list[npt.NDArray[np.uint64]] | None,
    uid_column: str,
) -> int:
    def parts() -> Iterator[tuple[Rows, Mask]]:
        nonlocal at
        for part in files.read(path):
            mine = mask[at : at + len(part)]
            at += len(part)
            if names is not None:
                if uid_column not in part.table.column_names:
                    raise InputError(f"{path}: has no column {uid_column!r} for the file of uids")
                listed = part.table.column(uid_column).filter(pa.array(mine)).to_pylist()
                names.append(_pairs(listed, path))
            yield part, mine

    if target is None:
        for _ in parts():
            pass
        return at
    with files.Writer(target) as writer:
        for part, mine in parts():
            writer.write(part, mine)
    return at


def _pairs(listed: Sequence[Any], path: str) -> npt.NDArray[np.uint64]:
    try:
        pairs = [(int(u[:16], 16), int(u[16:32], 16)) for u in listed]
    except (TypeError, ValueError):
        raise InputError(f"{path}: a uid is 32 hexadecimal digits") from None
    return np.array(pairs, np.uint64).reshape(-1, 2)


def _write_uids(path: Path, names: list[npt.NDArray[np.uint64]]) -> None:
    joined = np.concatenate(names) if names else np.zeros((0, 2), np.uint64)
    kept = np.zeros(len(joined), np.dtype("u8,u8"))
    kept["f0"], kept["f1"] = joined[:, 0], joined[:, 1]
    with replacing(path, "wb") as file:
        np.save(file, np.sort(kept))
