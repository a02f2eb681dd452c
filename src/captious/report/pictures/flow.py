"""A transport plan: words as two columns of boxes, flows as bands, dark where they cost much."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from captious.report.pictures import palette
from captious.types import Flow


def draw(part: Flow) -> str:
    """Draw the words and where their mass went."""
    box, gap, width, top = 150, 10, 640, 40
    scale = 240.0
    left_at = _stack(part.left_mass, scale, gap, top)
    right_at = _stack(part.right_mass, scale, gap, top)
    height = int(max(_bottom(left_at, part.left_mass, scale),
                     _bottom(right_at, part.right_mass, scale))) + 10  # fmt: skip
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="13" role="img">'
        f"<title>{escape(part.left_title)} to {escape(part.right_title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="4" y="20" font-weight="bold">{escape(part.left_title)}</text>',
        f'<text x="{width - 4}" y="20" text-anchor="end" font-weight="bold">'
        f"{escape(part.right_title)}</text>",
    ]
    used_left, used_right = list(left_at), list(right_at)
    dearest = max((cost for *_, cost in part.moved), default=0.0) or 1.0
    for i, j, mass, cost in sorted(part.moved):
        thick = mass * scale
        y1, y2 = used_left[i] + thick / 2, used_right[j] + thick / 2
        used_left[i] += thick
        used_right[j] += thick
        x1, x2 = box, width - box
        middle = (x1 + x2) / 2
        colour = palette.viridis(1 - cost / dearest)
        out.append(
            f'<path d="M{x1},{y1:.1f} C{middle:.0f},{y1:.1f} {middle:.0f},{y2:.1f} '
            f'{x2},{y2:.1f}" fill="none" stroke="{colour}" stroke-opacity=".55" '
            f'stroke-width="{max(thick, 1):.1f}"><title>{escape(part.left[i])} to '
            f"{escape(part.right[j])}: mass {mass:.3f}, cost {cost:.3f}</title></path>"
        )
    out.extend(_boxes(part.left, left_at, [m * scale for m in part.left_mass], 0, box))
    out.extend(_boxes(part.right, right_at, [m * scale for m in part.right_mass], width - box, box))
    return "".join([*out, "</svg>"])


def _bottom(tops: list[float], masses: Sequence[float], scale: float) -> float:
    return tops[-1] + max(float(masses[-1]) * scale, 16.0)


def _stack(masses: Sequence[float], scale: float, gap: int, top: int) -> list[float]:
    """Upper edges of boxes one below the other."""
    edges, at = [], float(top)
    for mass in masses:
        edges.append(at)
        at += max(float(mass) * scale, 16.0) + gap
    return edges


def _boxes(
    words: Sequence[str], tops: list[float], heights: Sequence[float], x: int, wide: int
) -> list[str]:
    out = []
    for word, y, high in zip(words, tops, heights, strict=True):
        tall = max(float(high), 16.0)
        out.append(
            f'<rect x="{x}" y="{y:.1f}" width="{wide}" height="{tall:.1f}" rx="3" fill="#e8edf3" '
            f'stroke="#8796a8"/><text x="{x + wide / 2:.0f}" y="{y + tall / 2 + 5:.1f}" '
            f'text-anchor="middle" fill="#1f2328">{escape(word)}</text>'
        )
    return out
