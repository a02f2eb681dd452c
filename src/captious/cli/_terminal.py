"""Tables on the screen: with rich on a terminal, plain text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from captious.engine.table import ScoreTable
from captious.io import pages, tables
from captious.io.grids import WORDS, Cells


def show(table: ScoreTable, format: str, rows: int | None) -> None:
    """Print a score table."""
    if format != "text" or not sys.stdout.isatty():
        sys.stdout.write(tables.render(table, format, rows))
        return
    grids: list[Cells] = list(pages.corpus_grids(table))
    shown = len(table) if rows is None else min(rows, len(table))
    hidden: list[str] = []
    if shown:
        cells, hidden = pages.fitting(pages.caption_cells(table, rows))
        grids.append(cells)
    draw(grids, pages.remarks(table, shown, hidden))


def draw(grids: Sequence[Cells], remarks: Sequence[str]) -> None:
    """Draw tables and remarks on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for cells in grids:
        head, *body = cells
        drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in head:
            words = name in WORDS
            drawn.add_column(Text(name), justify="left" if words else "right", no_wrap=True)
        for row in body:
            drawn.add_row(*(Text(cell) for cell in row))
        console.print(drawn)
    for line in remarks:
        console.print(Text(line, style="dim"), soft_wrap=True)
