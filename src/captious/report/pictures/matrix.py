"""A matching matrix as a small SVG: rows are reference pieces, columns caption pieces.

Colour is similarity; a ring marks each row's best match; cells at or below the cut are
grey; words on the stop list are set in italics; the bar at the right is the weight (idf).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from captious.report.pictures import palette
from captious.types import MatchMatrix

_CELL, _LEFT, _TOP, _BAR = 26, 110, 96, 60


def draw(part: MatchMatrix) -> str:
    """Draw the matrix."""
    rows, columns, values, weights = part.rows, part.columns, part.values, part.weights
    title, notes = part.title, part.notes
    width = _LEFT + _CELL * len(columns) + _BAR + (90 if notes else 10)
    height = _TOP + _CELL * len(rows) + 14
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11" '
        f'role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="6" y="16" font-size="12" font-weight="bold">{escape(title)}</text>',
    ]
    for j, word in enumerate(columns):
        x = _LEFT + _CELL * j + _CELL // 2
        style = _style(j, part.column_stop)
        out.append(
            f'<text transform="translate({x + 4},{_TOP - 6}) rotate(-50)"{style}>{escape(word)}'
            "</text>"
        )
    heaviest = max(weights, default=0.0)
    for i, word in enumerate(rows):
        y = _TOP + _CELL * i
        out.append(
            f'<text x="{_LEFT - 6}" y="{y + 17}" text-anchor="end"{_style(i, part.row_stop)}>'
            f"{escape(word)}</text>"
        )
        best = max(range(len(columns)), key=lambda j: values[i][j], default=-1)
        for j, value in enumerate(values[i]):
            out.append(_cell(_LEFT + _CELL * j, y, value, j == best, part.threshold))
        x = _LEFT + _CELL * len(columns) + 8
        if heaviest > 0:
            long = max(0.0, 46 * weights[i] / heaviest)
            out.append(
                f'<rect x="{x}" y="{y + 8}" width="{long:.1f}" height="10" fill="#CC79A7">'
                f"<title>weight {weights[i]:.3f}</title></rect>"
            )
        if notes:
            place = f'x="{x + _BAR - 6}" y="{y + 17}"'
            out.append(f'<text {place} fill="{palette.QUIET}">{escape(notes[i])}</text>')
    out.append("</svg>")
    return "\n".join(out)


def _style(index: int, stop: Sequence[bool]) -> str:
    quiet = f' font-style="italic" fill="{palette.QUIET}"'
    return quiet if index < len(stop) and stop[index] else ""


def _cell(x: int, y: int, value: float, best: bool, threshold: float | None) -> str:
    """Draw one similarity; what the cut removes is grey."""
    kept = threshold is None or value > threshold
    low = threshold or 0.0
    share = min(1.0, max(0.0, (value - low) / max(1e-9, 1.0 - low)))
    fill = palette.blues(share) if kept else "#eeeeee"
    ring = f' stroke="{palette.RED}" stroke-width="2"' if best and kept else ' stroke="#fff"'
    ink = "#fff" if kept and share > 0.55 else "#333" if kept else "#999"
    text = f"{value:.2f}".replace("0.", ".", 1)
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_CELL - 2}" '
        f'fill="{fill}"{ring}/><text x="{x + _CELL // 2}" y="{y + 17}" font-size="9" '
        f'text-anchor="middle" fill="{ink}">{text}</text>'
    )
