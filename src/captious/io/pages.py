"""A score table for people: corpus values, some captions, signatures, and what was not scored."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from captious.io.grids import (
    Tex,
    blocks,
    grid,
    latex,
    many,
    number,
    shortened,
    together,
    widths,
    with_interval,
)
from captious.io.labels import label, times

if TYPE_CHECKING:
    from captious.engine.table import ScoreTable
    from captious.engine.tally import StreamSummary

WIDE = 80
"""Characters that a text table may be wide."""

_CAPTION = 32


def text(table: ScoreTable, format: str, rows: int | None) -> str:
    """Return corpus table, caption table and remarks; in LaTeX, the table that a paper prints."""
    if format == "latex":
        captions = [caption_cells(table, rows)] if rows else []
        return "\n\n".join([paper_table(table), *(latex(c) for c in captions)]) + "\n"
    parts = [grid(cells, format) for cells in corpus_grids(table, format)]
    shown = len(table) if rows is None else min(rows, len(table))
    hidden: list[str] = []
    if shown:
        cells = caption_cells(table, rows)
        if format == "text":
            cells, hidden = fitting(cells)
        parts.append(grid(cells, format))
    mark = {"text": "", "markdown": "- "}[format]
    said = remarks(table, shown, hidden)
    parts.append("\n".join(mark + line.replace("\n", " ") for line in said))
    return "\n\n".join(parts) + "\n"


def corpus_grids(table: ScoreTable, format: str = "text") -> list[list[list[str]]]:
    """Return corpus values, metrics as rows; several tables where one would be too wide."""
    cells = [["metric", *(system or "score" for system in table.corpora)]]
    for name in table.values:
        cells.append([name, *(with_interval(v[name], format) for v in table.corpora.values())])
    return blocks(cells, WIDE) if format == "text" else [cells]


def caption_cells(table: ScoreTable, rows: int | None) -> list[list[str]]:
    """Return the first captions with all their values."""
    shown = len(table) if rows is None else min(rows, len(table))
    systems = table.systems[:shown] if len(table.corpora) > 1 else None
    values = [column[:shown] for column in table.values.values()]
    cells = row_cells(table.ids[:shown], systems, table.captions[:shown], values)
    return [row_head(table.values, systems is not None), *cells]


def row_head(names: Iterable[str], several: bool) -> list[str]:
    """Return the header above :func:`row_cells`."""
    return ["id", *(["system"] if several else []), "caption", *names]


def row_cells(
    ids: Iterable[Any], systems: Iterable[Any] | None, captions: Iterable[str], values: Any
) -> list[list[str]]:
    """Return the cells of some captions, one column of numbers after the other."""
    told = [[shortened(str(name), 24) for name in ids]]
    told += [] if systems is None else [[shortened(str(name), 12) for name in systems]]
    told.append([shortened(caption, _CAPTION) for caption in captions])
    told += [[number(value) for value in column] for column in values]
    return [list(row) for row in zip(*told, strict=True)]


def fitting(cells: list[list[str]]) -> tuple[list[list[str]], list[str]]:
    """Return as many columns as fit, and the names of those that do not."""
    stop = room(cells[0], widths(cells))
    return [row[:stop] for row in cells], cells[0][stop:]


def room(head: Sequence[str], widest: Sequence[int]) -> int:
    """Return how many columns of a table of captions fit, one number at least."""
    stop = len(head)
    while stop > head.index("caption") + 2 and together(widest[:stop]) > WIDE:
        stop -= 1
    return stop


def remarks(table: ScoreTable, shown: int, hidden: list[str]) -> list[str]:
    """Say how many captions there are, what is not shown, the signatures, what was not scored."""
    said = [f"{many(len(table), 'caption')}; 95 % intervals from a bootstrap over images"]
    if not any(not math.isnan(v.low) for held in table.corpora.values() for v in held.values()):
        said = [many(len(table), "caption")]
    left = len(table) - shown
    if left > 0 or hidden:
        parts = [many(left, "caption")] if left > 0 else []
        parts += [f"the column{'s' * (len(hidden) > 1)} {', '.join(hidden)}"] if hidden else []
        said.append(
            f"not shown: {' and '.join(parts)}; --rows all prints every caption, --format json "
            "everything"
        )
    for signature in dict.fromkeys(table.signatures.values()):
        of = [name for name, told in table.signatures.items() if told == signature]
        said.append(f"{', '.join(of)}: {signature}")
    said += [f"note: {note} ({count:,})" for note, count in table.notes.items()]
    reasons: dict[tuple[str, str], int] = {}
    for u in table.unscored:
        reasons[u.column, u.reason] = reasons.get((u.column, u.reason), 0) + 1
    said += [f"{c}: {many(n, 'caption')} not scored: {why}" for (c, why), n in reasons.items()]
    return said


def paper_table(
    table: ScoreTable | StreamSummary,
    letters: Mapping[str, str] | None = None,
    marks: Callable[[str, str], str] | None = None,
) -> str:
    """Return the table that a paper prints: systems as rows, values x100, the best in bold.

    Args:
        table: the scores.
        letters: a letter for each system, to stand before its name.
        marks: letters to stand above the value of a column and a system.
    """
    names = list(table.columns)
    best = {}
    for name in names:
        known = [v[name] for v in table.corpora.values() if not math.isnan(v[name])]
        pick = max if table.columns[name].higher_is_better else min
        best[name] = pick(known) if len(table.corpora) > 1 and known else None
    cells = [["System", *map(label, names)]]
    for system, values in table.corpora.items():
        before = f"$^{{{letters[system]}}}$ " if letters is not None else ""
        row: list[str] = [Tex(before + Tex.escaped(system or "captions"))]
        for name in names:
            shown = times(table.columns[name]) * values[name]
            value = "-" if math.isnan(shown) else f"{shown:.1f}"
            value = f"\\mathbf{{{value}}}" if best[name] == values[name] else value
            above = marks(name, system) if marks is not None else ""
            row.append(Tex(f"${value}^{{{above}}}$" if above else f"${value}$"))
        cells.append(row)
    said = [f"{many(len(table), 'caption')}; values x100, unbounded scores as they are"]
    said += [f"{name}: {told}" for name, told in table.signatures.items()]
    return latex(cells) + "\n\n" + "\n".join(f"% {line}" for line in said)


def html_table(table: ScoreTable) -> str:
    """The corpus values as a small HTML table, for notebooks."""
    systems = list(table.corpora)
    head = "".join(f"<th>{html.escape(s or 'score')}</th>" for s in systems)
    rows = []
    for name in table.values:
        cells = "".join(
            f"<td>{with_interval(table.corpora[s][name], 'text')}</td>" for s in systems
        )
        title = html.escape(table.signatures[name], quote=True)
        rows.append(f'<tr title="{title}"><th>{html.escape(name)}</th>{cells}</tr>')
    return (
        f"<table><caption>{len(table):,} captions</caption><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
