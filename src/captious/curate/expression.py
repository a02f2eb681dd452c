"""A small language for conditions on columns: ``fit > 0.3 and not (bleu_4 < 0.1 or lm < -2)``.

Names are columns (in back quotes if they are no plain words), numbers and quoted texts are values;
``+ - * /``, ``< <= > >= == !=`` (also chained: ``0.2 < fit < 0.6``), ``and``, ``or``, ``not``,
``is missing``. Nothing in it is run as Python. A comparison with a missing value is false.

>>> condition = parse("0.2 < fit < 0.6 and system == 'a'")
>>> condition.names
('fit', 'system')
>>> import numpy as np
>>> condition.mask({"fit": np.array([0.1, 0.5]), "system": np.array(["a", "a"], object)}).tolist()
[False, True]
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import UsageError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_][\w.]*(?:\([^()]*\))?)|`(?P<quoted>[^`]+)`"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<sign><=|>=|==|!=|[-+*/<>()]))"
)
_DEEPEST = 50
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ADD: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub}
_TIMES: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "/": operator.truediv}

Columns = Mapping[str, npt.NDArray[Any]]
_Value = Callable[[Columns], Any]


@dataclass(frozen=True)
class Condition:
    """A condition on the columns of a row.

    Attributes:
        text: as it was written.
        names: columns that it reads.
    """

    text: str
    names: tuple[str, ...]
    _value: _Value

    def mask(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Return which rows fulfil it.

        Raises:
            UsageError: a text is compared with a number.
        """
        size = len(next(iter(columns.values()))) if columns else 0
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(self._value(columns))
        except KeyError as err:
            raise UsageError(f"{self.text}: there is no column {err}") from None
        except TypeError as err:
            raise UsageError(f"{self.text}: text and numbers cannot be compared ({err})") from None
        if value.dtype != bool:
            raise UsageError(f"{self.text}: this is a number, not a condition; compare it: > 0.3")
        return np.broadcast_to(value, (size,)).copy()


def clauses(text: str) -> list[Condition]:
    """Return the parts of a condition that ``and`` joins at its top, in their order."""
    return _Parser(text).clauses()


def parse(text: str) -> Condition:
    """Return the condition that a text writes.

    Raises:
        UsageError: it is none; the message says where.
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._cut(text))
        self._at = self._deep = 0
        self._names: dict[str, None] = {}

    def _cut(self, text: str) -> Iterator[tuple[str, str, int]]:
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise UsageError(f"{text}: {text[at:].strip()[:12]!r} cannot be read here")
            kind = str(match.lastgroup)
            yield kind, match.group(kind), match.start(kind)
            at = match.end()

    def whole(self) -> Condition:
        value = self._or()
        self._end()
        return Condition(self._text.strip(), tuple(self._names), value)

    def clauses(self) -> list[Condition]:
        out: list[Condition] = []
        while True:
            start, self._names = self._place(), {}
            value = self._or() if not out and self._has_or() else self._not()
            text = self._text[start : self._place()].strip().removesuffix("and").strip()
            out.append(Condition(text, tuple(self._names), value))
            if not self._take("and"):
                break
        self._end()
        return out

    def _has_or(self) -> bool:
        depth = 0
        for kind, word, _ in self._tokens:
            depth += {"(": 1, ")": -1}.get(word, 0) if kind == "sign" else 0
            if depth == 0 and kind == "name" and word == "or":
                return True
        return False

    def _place(self) -> int:
        return self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)

    def _end(self) -> None:
        if self._at < len(self._tokens):
            raise UsageError(f"{self._text}: {self._tokens[self._at][1]!r} is not expected here")

    def _take(self, *words: str) -> str | None:
        if self._at < len(self._tokens):
            kind, word, _ = self._tokens[self._at]
            if kind in ("name", "sign") and word in words:
                self._at += 1
                return word
        return None

    def _or(self) -> _Value:
        left = self._and()
        while self._take("or"):
            left = _both(np.logical_or, left, self._and())
        return left

    def _and(self) -> _Value:
        left = self._not()
        while self._take("and"):
            left = _both(np.logical_and, left, self._not())
        return left

    def _not(self) -> _Value:
        if self._take("not"):
            inner = self._not()
            return lambda columns: np.logical_not(inner(columns))
        return self._comparison()

    def _comparison(self) -> _Value:
        left = self._sum()
        if self._take("is"):
            negated = self._take("not")
            if not self._take("missing"):
                raise UsageError(f"{self._text}: after 'is' comes 'missing' or 'not missing'")
            return lambda columns: _missing(left(columns)) != bool(negated)
        made: _Value | None = None
        while sign := self._take(*_COMPARE):
            right = self._sum()
            comparison = _both(_compared(_COMPARE[sign]), left, right)
            made = comparison if made is None else _both(np.logical_and, made, comparison)
            left = right
        return left if made is None else made

    def _sum(self) -> _Value:
        left = self._product()
        while sign := self._take(*_ADD):
            left = _both(_ADD[sign], left, self._product())
        return left

    def _product(self) -> _Value:
        left = self._single()
        while sign := self._take(*_TIMES):
            left = _both(_TIMES[sign], left, self._single())
        return left

    def _single(self) -> _Value:
        self._deep += 1
        if self._deep > _DEEPEST:
            raise UsageError(f"{self._text[:60]}...: nested too deeply")
        try:
            return self._atom()
        finally:
            self._deep -= 1

    def _atom(self) -> _Value:
        if self._take("-"):
            inner = self._single()
            return lambda columns: -inner(columns)
        if self._take("("):
            inside = self._or()
            if not self._take(")"):
                raise UsageError(f"{self._text}: a bracket is not closed")
            return inside
        if self._at == len(self._tokens):
            raise UsageError(f"{self._text}: something is missing at the end")
        kind, word, _ = self._tokens[self._at]
        if kind == "sign" or word in ("and", "or", "not", "is", "missing"):
            raise UsageError(f"{self._text}: a column or a number is expected before {word!r}")
        self._at += 1
        if kind == "number":
            number = np.float64(word)  # divides by zero without raising
            return lambda columns: number
        if kind == "text":
            return lambda columns: word[1:-1]
        self._names[word] = None
        return lambda columns: columns[word]


def _both(join: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
    return lambda columns: join(left(columns), right(columns))


def _compared(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compared(left: Any, right: Any) -> Any:
        known = ~(_missing(left) | _missing(right))
        if not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray):
            return bool(compare(left, right))
        shape = np.broadcast(left, right).shape
        out = np.zeros(shape, bool)
        a, b = np.broadcast_to(left, shape), np.broadcast_to(right, shape)
        where = np.broadcast_to(known, shape)
        out[where] = compare(a[where], b[where])
        return out

    return compared


def _missing(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.array([v is None or v != v for v in value], bool)
    if isinstance(value, str):
        return np.False_
    return np.isnan(value)
