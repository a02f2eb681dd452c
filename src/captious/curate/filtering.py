"""Keep the rows that fulfil a condition, and take the best share of them.

Columns of the condition that the file lacks are computed if they are scores of captious. Clauses
that ``and`` joins are applied from left to right, and a score is computed only for the rows that
are left: write the cheap clause first.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captious.batch import ERROR, Scorer
from captious.columns import of_numbers
from captious.curate import rows as files
from captious.curate.expression import Condition, clauses
from captious.curate.rows import Rows, columns_of
from captious.curate.two_stage import Band, Floats, TwoStage, choose_band
from captious.errors import InputError, UsageError, did_you_mean
from captious.io.files import replacing
from captious.progress import Progress

Mask = npt.NDArray[np.bool_]

_REASONS = 10


@dataclass(frozen=True)
class Kept:
    """What a filter did.

    Attributes:
        read: rows that were read.
        kept: rows that were kept.
        lost: rows that each clause cost.
        unscored: why computed scores have no value -> how many rows that concerns.
        band: where the costly scores decided, if there were two stages.
        sure: rows that the cheap score alone decided.
    """

    read: int
    kept: int
    lost: dict[str, int]
    band: Band | None = None
    sure: int = 0
    unscored: dict[str, int] = field(default_factory=dict)


def filter_rows(
    place: str | Path,
    out: Path,
    keep: str,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
    two_stage: TwoStage | None = None,
) -> Kept:
    """Write the rows that fulfil a condition, file by file, in their order and format.

    Args:
        place: a file, a folder or a glob of parquet, JSONL, CSV or TSV.
        out: a file, or a folder for several.
        keep: the condition (:mod:`captious.curate.expression`).
        columns: which column holds captions and so on, for scores that are computed.
        df: document frequencies for scores that are computed.
        two_stage: a cheap score to ask first; the condition is then computed in a band of it.
    """
    scores = Scores(columns, df)
    judge = _Judge(clauses(keep), scores, two_stage)
    read = kept = 0
    with Progress("filtering", None, "rows") as bar:
        for path, target in files.outputs(place, out):
            with files.Writer(target) as writer:
                for held in files.read(path):
                    mask = judge.mask(held.table, path)
                    writer.write(held, mask)
                    read, kept = read + len(held), kept + int(mask.sum())
                    bar.advance(len(held))
    return Kept(read, kept, judge.lost, judge.band, judge.sure, scores.unscored)


class _Judge:
    """Decides rows: by the clauses, or where that is sure by a cheap score."""

    def __init__(
        self, parts: Sequence[Condition], scores: Scores, two_stage: TwoStage | None
    ) -> None:
        self._parts, self._scores, self._two_stage = parts, scores, two_stage
        self._tried: tuple[list[Floats], list[Mask]] = ([], [])
        self.lost = {part.text: 0 for part in parts}
        self.band: Band | None = None
        self.sure = 0

    def mask(self, table: pa.Table, path: str) -> Mask:
        """Return which rows are kept."""
        plan = self._two_stage
        if plan is None:
            return self._fulfilled(table, np.arange(table.num_rows), path)
        cheap = self._scores.numbers(table, plan.first, path)
        done = np.zeros(len(cheap), bool)
        start = 0
        if self.band is None:
            start = min(len(cheap), plan.trial - sum(map(len, self._tried[1])))
            done[:start] = self._fulfilled(table, np.arange(start), path)[:start]
            self._tried[0].append(cheap[:start])
            self._tried[1].append(done[:start].copy())
            if sum(map(len, self._tried[1])) == plan.trial:
                cheap_scores, fulfilled = (np.concatenate(part) for part in self._tried)
                self.band = choose_band(
                    cheap_scores.astype(float), fulfilled.astype(bool), plan.agree
                )
        if self.band is None or start == len(cheap):
            return done
        sure = self.band.sure(cheap[start:])
        self.sure += int((sure != 0).sum())
        clause = f"{plan.first} below the band" if self.band.sign > 0 else f"{plan.first} above it"
        self.lost[clause] = self.lost.get(clause, 0) + int((sure < 0).sum())
        done |= self._fulfilled(table, start + np.flatnonzero(sure == 0), path)
        done[start:] |= sure > 0
        return done

    def _fulfilled(self, whole: pa.Table, left: npt.NDArray[np.int64], path: str) -> Mask:
        """Apply the clauses to some rows, each to those that the ones before have left."""
        mask = np.zeros(whole.num_rows, bool)
        for part in self._parts:
            table = whole if len(left) == whole.num_rows else whole.take(of_numbers(left))
            if not len(left):
                break
            fine = part.mask(self._scores.columns(table, part.names, path))
            self.lost[part.text] += int((~fine).sum())
            left = left[fine]
        mask[left] = True
        return mask


class Scores:
    """Columns of a table, computing those that it lacks; scorers are made once."""

    def __init__(self, columns: Mapping[str, str] | None, df: str) -> None:
        self._columns, self._df = columns, df
        self._made: dict[str, Scorer] = {}
        self.unscored: dict[str, int] = {}

    def columns(self, table: pa.Table, names: Sequence[str], path: str) -> dict[str, Any]:
        """Return the named columns as arrays."""
        for name in names:
            if name not in table.column_names:
                table = self._scorer(name, table, path)(table)
                self._count(table.column(ERROR))
        return columns_of(table, names)

    def numbers(self, table: pa.Table, name: str, path: str) -> Floats:
        """Return one column, which has to hold numbers."""
        column = self.columns(table, [name], path)[name]
        if column.dtype == object:
            raise InputError(f"{path}: the column {name!r} holds {_kind(column)}, not numbers")
        return column

    def _count(self, errors: pa.ChunkedArray) -> None:
        """Count the reasons; those that name a row each stand for themselves up to a bound."""
        for entry in errors.drop_null().value_counts().to_pylist():
            reason = entry["values"]
            if reason not in self.unscored and len(self.unscored) >= _REASONS:
                reason = "other reasons"
            self.unscored[reason] = self.unscored.get(reason, 0) + entry["counts"]

    def _scorer(self, name: str, table: pa.Table, path: str) -> Scorer:
        if name not in self._made:
            try:
                self._made[name] = Scorer(name, self._columns, self._df)
            except UsageError as err:
                raise InputError(
                    f"{path}: has no column {name!r}, and captious has no score of that name."
                    f"{did_you_mean(name, table.column_names)} Columns: "
                    f"{', '.join(table.column_names)}."
                ) from err
            lacking = self._made[name].lacking(table.column_names)
            if lacking is not None:
                raise InputError(
                    f"{path}: {name} needs {lacking}, and no column holds them. Name the column "
                    f"with --columns WHAT=NAME; there are: {', '.join(table.column_names)}."
                )
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
        out: a file, or a folder for several; None if only ``uids`` is written.
        top: the share to keep, 0 to 1; a whole number above 1 is a number of rows.
        by: column or score; more is better.
        uids: also write the kept rows' uids as DataComp wants them: a sorted ``.npy`` of pairs of
            64-bit numbers.
        uid_column: the column of the uids, 32 hexadecimal digits each.
        columns: which column holds captions and so on, if the score is computed.
        df: document frequencies, if the score is computed.
    """
    if not 0 < top <= 1 and not (top > 1 and top == int(top)):
        raise UsageError(f"--top is a share (0 to 1) or a whole number of rows, not {top:g}")
    if out is None and uids is None:
        raise UsageError("name an output file or a file of uids")
    pairs = files.outputs(place, out or Path("unused-folder"))
    scores = Scores(columns, df)
    held = array("d")
    with Progress("reading scores", None, "rows") as bar:
        for path, _ in pairs:
            for part in files.read(path):
                held.extend(scores.numbers(part.table, by, path).tolist())
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
    lost = {f"top {top:g} by {by}": int((~mask).sum())}
    return Kept(len(values), int(mask.sum()), lost, unscored=scores.unscored)


def _kind(column: npt.NDArray[Any]) -> str:
    """Say what a column holds that is no numbers."""
    first = next((value for value in column if value is not None), None)
    return "text" if isinstance(first, str) else f"{type(first).__name__}s"


def best(values: npt.NDArray[np.float64], top: float) -> Mask:
    """Return which of the values are in the top share, or the top rows; ties go to the earlier."""
    asked = int(top * len(values)) if top <= 1 else int(top)
    count = min(asked, int((~np.isnan(values)).sum()))
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
