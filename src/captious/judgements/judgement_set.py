"""What people said of captions: ratings of single captions, or choices between two.

A :class:`JudgementSet` joins captions, references and judgements of one published collection. The
loaders in ``captious.judgements.sets`` read the files as they are distributed; everything that
does not fit is reported together (:class:`Checks`), and what a protocol leaves out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.types import CaptionSet, Floats, Ints

_EXAMPLES = 3


@dataclass(frozen=True)
class Card:
    """What one should know of a collection before printing a number from it.

    Attributes:
        name: as on the command line.
        title: collection and paper.
        licence: what its owners allow.
        files: paths under the data root that must be there.
        optional: paths that some metrics need (photographs, object labels).
        counts: sizes, as published and as read.
        traps: what went wrong for others.
        get: where it comes from.
    """

    name: str
    title: str
    licence: str
    files: tuple[str, ...]
    optional: tuple[str, ...]
    counts: str
    traps: tuple[str, ...]
    get: str


class Checks:
    """Collects what is wrong with the files of one set: how often, with the first examples.

    Example:
        >>> checks = Checks("toy")
        >>> checks.bad("rating outside 1..4", "line 3: 7")
        >>> checks.bad("rating outside 1..4", "line 9: 0")
        >>> print(checks.problems()[0])
        toy: rating outside 1..4: 2 (line 3: 7; line 9: 0)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._bad: dict[str, tuple[int, list[str]]] = {}
        self._noted: dict[str, tuple[int, list[str]]] = {}

    def bad(self, what: str, example: object) -> None:
        """Note something that forbids using the set."""
        self._add(self._bad, what, example)

    def note(self, what: str, example: object) -> None:
        """Note something that the reader should know, but that does no harm."""
        self._add(self._noted, what, example)

    @staticmethod
    def _add(where: dict[str, tuple[int, list[str]]], what: str, example: object) -> None:
        count, examples = where.get(what, (0, []))
        if len(examples) < _EXAMPLES:
            examples.append(str(example))
        where[what] = (count + 1, examples)

    def problems(self) -> list[str]:
        """Return one line per kind of problem."""
        return [f"{self.name}: {line}" for line in _lines(self._bad)]

    def remarks(self) -> tuple[str, ...]:
        """Return one line per kind of remark."""
        return tuple(_lines(self._noted))

    def stop_if_bad(self) -> None:
        """Raise one error that lists every kind of problem.

        Raises:
            InputError: something does not fit.
        """
        if self._bad:
            raise InputError(self.problems())


def _lines(noted: dict[str, tuple[int, list[str]]]) -> Iterable[str]:
    for what, (count, examples) in noted.items():
        more = "; ..." if count > len(examples) else ""
        yield f"{what}: {count:,} ({'; '.join(examples)}{more})"


@dataclass(frozen=True)
class Ratings:
    """Ratings of single captions, one entry per (caption, judge).

    Attributes:
        rows: row of the rated caption.
        values: the rating.
        judges: number of the judge (0, 1, 2 ...).
        low: lowest possible rating.
        high: highest possible rating.
    """

    rows: Ints
    values: Floats
    judges: Ints
    low: float
    high: float


@dataclass(frozen=True)
class Pairs:
    """Choices between two captions of one image.

    Attributes:
        first: row of the first caption.
        second: row of the second caption.
        votes: (pairs, 2) how many people preferred the first, the second.
    """

    first: Ints
    second: Ints
    votes: Floats

    @property
    def preference(self) -> Floats:
        """+1 where people preferred the first caption, -1 the second, 0 where they were split."""
        return np.sign(self.votes[:, 0] - self.votes[:, 1])


@dataclass(frozen=True)
class JudgementSet:
    """Captions with what people said of them.

    Attributes:
        card: what the collection is.
        samples: the judged captions with their references.
        judged: ratings or pairs over the rows of ``samples``.
        units: image of every row; the unit of resampling.
        groups: a label per row (ratings) or per pair, e.g. HC, HI, HM, MM.
        own: rows whose caption is one of its own references.
        pool: the same rows with every reference there is, where ``samples`` has a fixed choice.
        counts: what was read and joined.
        remarks: what the reader should know of these files.
    """

    card: Card
    samples: CaptionSet
    judged: Ratings | Pairs
    units: npt.NDArray[np.object_]
    groups: npt.NDArray[np.object_] | None = None
    own: npt.NDArray[np.bool_] | None = None
    pool: CaptionSet | None = None
    counts: dict[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.card.name

    def without_own(self) -> JudgementSet:
        """Return the set without captions that are their own reference (ratings only)."""
        if self.own is None or not self.own.any():
            return self
        return self.only(~self.own, "left out: caption is its own reference")

    def only(self, keep: npt.NDArray[np.bool_], left_out: str) -> JudgementSet:
        """Return the ratings of the rows that are kept; the others are counted as ``left_out``."""
        if not isinstance(self.judged, Ratings):
            raise InputError(f"{self.name}: captions can be left out of ratings, not of pairs")
        rows = np.flatnonzero(keep)
        place = np.full(len(keep), -1, np.int64)
        place[rows] = np.arange(len(rows))
        stays = keep[self.judged.rows]
        judged = Ratings(
            place[self.judged.rows[stays]],
            self.judged.values[stays],
            self.judged.judges[stays],
            self.judged.low,
            self.judged.high,
        )
        return JudgementSet(
            self.card,
            self.samples.take(rows),
            judged,
            self.units[rows],
            None if self.groups is None else self.groups[rows],
            None if self.own is None or not self.own[rows].any() else self.own[rows],
            None if self.pool is None else self.pool.take(rows),
            self.counts | {left_out: int((~keep).sum())},
            self.remarks,
        )


@dataclass(frozen=True)
class SystemTable:
    """Scores of whole systems: human judgements and published metric values.

    Attributes:
        card: what the collection is.
        systems: names.
        human: column -> one value per system.
        metrics: column -> one value per system (NaN where not published).
    """

    card: Card
    systems: tuple[str, ...]
    human: dict[str, Floats]
    metrics: dict[str, Floats]


def same_text(text: str) -> str:
    """Return the form in which two captions count as the same string."""
    return " ".join(text.lower().split()).rstrip(" .")
