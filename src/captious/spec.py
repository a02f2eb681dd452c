"""The text form of a metric: ``cider_d(df='coco-val')`` to and from a :class:`MetricSpec`.

Values are Python literals (numbers, quoted text, True, False, None); a bare word is text, so that
``cider_d(df=coco-val)`` can be typed in a shell without quotes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from captious.errors import UsageError

_FORM = re.compile(r"\s*([A-Za-z_][\w.@-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class MetricSpec:
    """A metric's name and the parameters that were written out.

    Example:
        >>> str(parse("cider_d( df = coco-val, sigma=6.0 )"))
        "cider_d(df='coco-val', sigma=6.0)"
    """

    name: str
    parameters: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.parameters)})"


def parse(text: str) -> MetricSpec:
    """Read one metric.

    Raises:
        UsageError: the text is not of the form ``name`` or ``name(key=value, ...)``.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise UsageError(
            f"cannot read the metric {text!r}: write name or name(parameter=value, ...)"
        )
    name, inside = form.groups()
    parameters = []
    for part in split(inside or ""):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise UsageError(
                f"cannot read {part.strip()!r} in {text.strip()!r}: "
                "parameters are written as key=value"
            )
        parameters.append((key.strip(), _value(value.strip(), text)))
    names = [k for k, _ in parameters]
    for key in names:
        if names.count(key) > 1:
            raise UsageError(f"the parameter {key!r} is given twice in {text.strip()!r}")
    return MetricSpec(name, tuple(parameters))


def parse_many(texts: str | Iterable[str]) -> list[MetricSpec]:
    """Read several metrics: a list, or one text with commas or spaces between them."""
    listed = [texts] if isinstance(texts, str) else texts
    items = [item for text in listed for item in split(text, spaces=True)]
    if not items:
        raise UsageError("no metric is named; `captious metrics` lists them")
    return [parse(item) for item in items]


def split(text: str, spaces: bool = False) -> list[str]:
    """Split at commas that stand outside of brackets and quotes.

    Args:
        text: what to split.
        spaces: split at blanks too, except before a bracket.

    Example:
        >>> split("bleu cider_d (df=coco-val, sigma=6), meteor", spaces=True)
        ['bleu', 'cider_d (df=coco-val, sigma=6)', 'meteor']
    """
    parts, depth, quote, start = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and (
            char == "," or (spaces and char.isspace() and not text[i:].lstrip().startswith("("))
        ):
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    if depth or quote:
        raise UsageError(f"a bracket or quote is not closed in {text!r}")
    return [p.strip() for p in parts if p.strip()]


def _value(text: str, whole: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if re.fullmatch(r"[\w./\\:@+~-]+", text):
            return text
        raise UsageError(f"cannot read the value {text!r} in {whole.strip()!r}") from None
    if not isinstance(value, str | int | float | bool | type(None)):
        raise UsageError(f"the value {text!r} in {whole.strip()!r} must be a number or text")
    return value
