"""Tables on the screen: with rich on a terminal, plain text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from captious.engine.table import ScoreTable
from captious.io import pages, tables
from captious.io.grids import WORDS, Cells, Part, blocks, joined


def show(table: ScoreTable, format: str, rows: int | None) -> None:
    """Print a score table."""
    if format != "text" or not sys.stdout.isatty():
        sys.stdout.write(tables.render(table, format, rows))
        return
    parts: list[Part] = list(pages.corpus_grids(table))
    shown = len(table) if rows is None else min(rows, len(table))
    hidden: list[str] = []
    if shown:
        cells, hidden = pages.fitting(pages.caption_cells(table, rows))
        parts.append(cells)
    draw([*parts, "\n".join(pages.remarks(table, shown, hidden))])


def show_parts(parts: Sequence[Part]) -> None:
    """Print tables and lines of text."""
    if sys.stdout.isatty():
        draw(parts)
    else:
        sys.stdout.write(joined(parts, "text"))


def draw(parts: Sequence[Part]) -> None:
    """Draw tables and lines of text on a terminal.

    A table with too many columns of numbers is cut into several; words are wrapped.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for at, part in enumerate(parts):
        if at:
            console.print()
        if isinstance(part, str):
            console.print(Text(part, style="dim"), soft_wrap=True)
            continue
        words = any(name in WORDS for name in part[0][1:])
        for k, cells in enumerate([part] if words else blocks(part, console.width)):
            if k:
                console.print()
            console.print(_drawn(cells))


def _drawn(cells: Cells) -> object:
    from rich.box import Box
    from rich.table import Table
    from rich.text import Text

    head, *body = cells
    # A rule below the head and nothing else: columns are two blanks apart, as in plain text.
    rule = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
    drawn = Table(box=rule, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for at, name in enumerate(head):
        left = at == 0 or name in WORDS
        drawn.add_column(
            Text(name), justify="left" if left else "right", no_wrap=not left, overflow="fold"
        )
    for row in body:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn
