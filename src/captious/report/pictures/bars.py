"""Contributions as bars left (lowers the score) and right (raises it) of a line."""

from __future__ import annotations

from html import escape

from captious.report.pictures import palette
from captious.types import Contributions

_ROW, _LEFT, _HALF = 24, 190, 150


def draw(part: Contributions) -> str:
    """Draw one bar per input."""
    width, height = _LEFT + 2 * _HALF + 70, 60 + _ROW * len(part.items)
    most = max((abs(i.share) for i in part.items), default=0.0) or 1.0
    middle = _LEFT + _HALF
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" role="img" '
        f'aria-label="{escape(part.title)}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="6" y="16" font-size="12" font-weight="bold">{escape(part.title)}</text>',
        f'<line x1="{middle}" y1="26" x2="{middle}" y2="{height - 24}" stroke="#444"/>',
    ]
    for row, item in enumerate(part.items):
        share = item.share
        y = 30 + _ROW * row
        long = abs(share) / most * (_HALF - 46)
        x = middle if share >= 0 else middle - long
        colour = palette.BLUE if share >= 0 else palette.ORANGE
        at = middle + long + 4 if share >= 0 else middle - long - 4
        anchor = "start" if share >= 0 else "end"
        out += [
            f'<text x="6" y="{y + 14}">{escape(item.name)} = {item.value:.3f}</text>',
            f'<rect x="{x:.1f}" y="{y + 3}" width="{long:.1f}" height="14" fill="{colour}"/>',
            f'<text x="{at:.1f}" y="{y + 14}" text-anchor="{anchor}">{share:+.3f}</text>',
        ]
    out.append(
        f'<text x="6" y="{height - 8}" fill="#555">against an average caption of the training set: '
        "left lowers, right raises the score</text></svg>"
    )
    return "".join(out)
