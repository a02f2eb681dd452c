"""What a prepared scorer is called with and what it returns, here or over a network.

``captious.scorer`` and ``captious.Client`` take the same arguments and answer alike; how captions,
references, images and labels are told apart, and what an answer can be asked, stands here once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from captious.errors import InputError, UsageError, did_you_mean

MAX_CHARS = 100_000


class Unscored(NamedTuple):
    """A caption that a column has no value for."""

    id: str
    system: str
    column: str
    reason: str


@dataclass(frozen=True, repr=False)
class Answer:
    """Scores of the captions of a call.

    Attributes:
        ids: of every caption: those that were given, else its position.
        per_caption: column -> one number per caption (NaN: see ``unscored``).
        unscored: which caption a column has no value for, and why.
    """

    ids: list[str]
    per_caption: dict[str, Any]
    unscored: list[Unscored]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, column: str) -> Any:
        if column not in self.per_caption:
            raise UsageError(
                f"there is no column {column!r}.{did_you_mean(column, self.per_caption)} "
                f"There are: {', '.join(self.per_caption)}."
            )
        return self.per_caption[column]

    def __repr__(self) -> str:
        corpus: Mapping[str, float] = getattr(self, "corpus", {})
        shown = ", ".join(f"{name}={value:.4f}" for name, value in corpus.items())
        return f"<{type(self).__name__}: {len(self):,} captions; {shown}>"


def key(value: Any) -> str:
    """Return an id as text: 42, "42" and 42.0 are the same id."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def text_problem(value: Any) -> str | None:
    """Return what is wrong with a caption, or None. Empty text is a caption."""
    if type(value) is str and value.isascii() and len(value) <= MAX_CHARS:
        return None
    if not isinstance(value, str):
        if value is None or (isinstance(value, float) and value != value):
            return 'is missing (null or NaN); write "" for an empty one'
        return f"is {type(value).__name__} ({repr(value)[:40]}), not text"
    if len(value) > MAX_CHARS:
        return f"has {len(value):,} characters; at most {MAX_CHARS:,} are allowed"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair; the text was cut inside a character"
    return None


class Columns(NamedTuple):
    """The arguments of a call; None where nothing is given."""

    captions: Any
    references: Any = None
    images: Any = None
    objects: Any = None
    ids: Any = None

    def filled(self, rows: Any) -> Columns:
        """Take captions, and all that is not given apart, from rows; None: there are none."""
        if rows is None:
            return self
        found = (rows.references, rows.image, rows.objects, rows.id)
        apart = zip(self[1:], found, strict=True)
        return Columns(rows.caption, *(new if own is None else own for own, new in apart))


def captions_of(given: Any, ids: Sequence[Any] | None) -> tuple[list[str], list[str]]:
    """Return the captions of a call and their ids.

    Args:
        given: texts, ``{id: caption}``, or one text.
        ids: where they are given apart; positions if None.
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        ids, given = list(given), list(given.values())
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise InputError(f"captions are texts, not {given!r}")
    texts = list(given)
    problems = [f"captions[{i}] {wrong}" for i, t in enumerate(texts) if (wrong := text_problem(t))]
    names = [str(i) for i in range(len(texts))] if ids is None else [key(i) for i in ids]
    if len(names) != len(texts):
        problems.append(f"{len(texts)} captions, but {len(names)} ids")
    if problems:
        raise InputError(problems)
    if not texts:
        raise InputError("there are no captions to score")
    return texts, names


def references_of(given: Any, names: list[str], single: bool) -> list[tuple[str, ...]]:
    """Return the references of every caption of a call.

    Args:
        given: one list of texts (or one text) per caption, or ``{id: texts}``.
        names: ids of the captions.
        single: whether the call has one caption that was given as a text.
    """
    problems: list[str] = []
    if isinstance(given, Mapping):
        table = {key(k): v for k, v in given.items()}
        problems = [
            f"captions[{i}]: there are no references for the id {name!r}"
            for i, name in enumerate(names)
            if name not in table
        ]
        out = [texts_of(table.get(n), f"references[{n!r}]", problems) for n in names]
    else:
        rows = list(given) if isinstance(given, Iterable) else None
        if rows is None or (isinstance(given, str) and not single):
            raise InputError(f"references are one list of texts per caption, not {given!r}")
        if single and all(isinstance(r, str) for r in rows):
            rows = [[given] if isinstance(given, str) else rows]
        if len(rows) != len(names):
            raise InputError(f"{len(names)} captions, but {len(rows)} lists of references")
        out = [texts_of(r, f"references[{i}]", problems) for i, r in enumerate(rows)]
    if problems:
        raise InputError(problems)
    return out


def texts_of(given: Any, where: str, problems: list[str]) -> tuple[str, ...]:
    """Return the references of a caption; None means none. What is wrong joins ``problems``."""
    if given is None:
        return ()
    if isinstance(given, str):
        given = (given,)
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        problems.append(f"{where}: references are a list of texts, not {given!r}")
        return ()
    texts = tuple(given)
    for j, text in enumerate(texts):
        if (wrong := text_problem(text)) is not None:
            problems.append(f"{where}[{j}] {wrong}")
    return texts


def per_caption(given: Any, names: list[str], what: str) -> list[Any]:
    """Return one thing (an image, a list of labels) per caption; None where there is none.

    Args:
        given: one per caption, or ``{id: thing}``.
        names: ids of the captions.
        what: the things, for the message where their number is wrong.
    """
    if given is None:
        return [None] * len(names)
    if isinstance(given, Mapping):
        table = {key(k): v for k, v in given.items()}
        return [table.get(name) for name in names]
    if isinstance(given, str | bytes):
        given = [given]
    rows = list(given)
    if len(rows) != len(names):
        raise InputError(f"{len(names)} captions, but {len(rows)} {what}")
    return rows
