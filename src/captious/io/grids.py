"""Tables of cells as text, markdown or LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

WORDS = (
    "metric", "id", "system", "caption", "pair", "test", "attack", "remarks", "kind", "photograph",
    "what it is", "needs", "gives", "set", "state", "model or table", "purpose", "licence",
)  # fmt: skip
"""Headers of columns that hold words; all others hold numbers and are set to the right."""

Cells = Sequence[Sequence[str]]
Part = str | Cells
"""A table, or lines of text between tables."""


def grid(cells: Cells, format: str) -> str:
    """Return a table of cells, the first row being its header, as text, markdown or latex."""
    return {"text": _text, "markdown": _markdown, "latex": latex}[format](cells)


def joined(parts: Sequence[Part], format: str) -> str:
    """Return tables and texts below each other, a blank line between them."""
    told = [part if isinstance(part, str) else grid(part, format) for part in parts]
    return "\n\n".join(told) + "\n"


def width(cells: Cells) -> int:
    """Return how many characters the text form is wide."""
    return together(widths(cells))


def widths(cells: Cells) -> list[int]:
    """Return how wide the cells of each column are."""
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def together(widest: Sequence[int]) -> int:
    """Return how wide columns are side by side, two blanks apart."""
    return sum(widest) + 2 * (len(widest) - 1)


def blocks(cells: Cells, room: int, fixed: int = 1) -> list[list[list[str]]]:
    """Cut a table that is too wide into several; the first ``fixed`` columns stand in each.

    Example:
        >>> blocks([["a", "bbb", "ccc"]], room=6)
        [[['a', 'bbb']], [['a', 'ccc']]]
    """
    out = []
    start, end = fixed, len(cells[0])
    while start < end:
        stop = start + 1
        while stop < end and width(_cut(cells, fixed, start, stop + 1)) <= room:
            stop += 1
        out.append(_cut(cells, fixed, start, stop))
        start = stop
    return out or [[list(row) for row in cells]]


def _cut(cells: Cells, fixed: int, start: int, stop: int) -> list[list[str]]:
    return [[*row[:fixed], *row[start:stop]] for row in cells]


def _text(cells: Cells) -> str:
    return "\n".join(text_lines(cells[0], cells[1:], widths(cells)))


def text_lines(
    head: Sequence[str], rows: Iterable[Sequence[str]], widest: Sequence[int]
) -> Iterator[str]:
    """Yield the lines of a table whose rows come one by one; the widths are those of its cells."""
    words = {i for i, name in enumerate(head) if name in WORDS}

    def line(row: Sequence[str]) -> str:
        pairs = enumerate(zip(row, widest, strict=True))
        return "  ".join(c.ljust(w) if i in words else c.rjust(w) for i, (c, w) in pairs).rstrip()

    yield line(head)
    yield "-" * together(widest)
    yield from map(line, rows)


def _markdown(cells: Cells) -> str:
    return "\n".join(markdown_lines(cells[0], cells[1:]))


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose rows come one by one."""

    def line(row: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in row) + " |"

    yield line(head)
    yield "|" + "---|" * len(head)
    yield from map(line, rows)


_TEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "\n": " "}
)


class Tex(str):
    """A cell that is LaTeX already."""

    @classmethod
    def escaped(cls, text: str) -> Tex:
        """Return plain text as LaTeX."""
        return cls(text.translate(_TEX))


def latex(cells: Cells) -> str:
    """Return the cells as a tabular with rules of booktabs; :class:`Tex` is left alone."""
    lines = [r"\begin{tabular}{l" + "r" * (len(cells[0]) - 1) + "}", r"\toprule"]
    for i, row in enumerate(cells):
        done = [c if isinstance(c, Tex) else Tex.escaped(c) for c in row]
        lines.append(" & ".join(done) + r" \\")
        if i == 0:
            lines.append(r"\midrule")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def with_interval(value: Any, format: str, digits: int = 4) -> str:
    """Write a corpus value with the bounds of its interval, where it has one."""
    if math.isnan(value.low):
        return number(value, digits)
    if format == "latex":
        return Tex(f"${number(value)}\\;[{number(value.low)}, {number(value.high)}]$")
    low, high = number(value.low, digits), number(value.high, digits)
    return f"{number(value, digits)} [{low}, {high}]"


def many(count: int, noun: str) -> str:
    """Write a number of things: ``1 caption``, ``2,000 captions``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number(value: float, digits: int = 4) -> str:
    """Write a value with some digits behind the point, a dash for NaN."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def shortened(text: str, most: int) -> str:
    """Return a text in one line of at most so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
