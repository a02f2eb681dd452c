"""Draw an alignment: caption above, reference below, a line for each match."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from captious.report.pictures import palette
from captious.types import Alignment

COLOURS: Final = {
    "exact": palette.GREEN,
    "stem": palette.BLUE,
    "synonym": palette.PURPLE,
    "paraphrase": palette.RED,
}
_LETTER: Final = 8.2
_GAP: Final = 12
_TOP, _BOTTOM, _HEIGHT = 24, 104, 148


def draw(part: Alignment) -> str:
    """Return an SVG of the two sentences and the lines between them."""
    above, below = _places(part.caption), _places(part.reference)
    width = max(above[-1][1] if above else 0, below[-1][1] if below else 0, 330) + _GAP
    colour1 = {i: _colour(m.kind) for m in part.links for i in range(*m.caption)}
    colour2 = {i: _colour(m.kind) for m in part.links for i in range(*m.reference)}
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {_HEIGHT}" '
        f'width="{width:.0f}" height="{_HEIGHT}" role="img" '
        'font-family="monospace" font-size="13">',
        f"<title>{escape(part.title)}</title>",
        f'<rect width="{width:.0f}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for link in part.links:
        x1, x2 = _middle(above, link.caption), _middle(below, link.reference)
        out.append(
            f'<line x1="{x1:.1f}" y1="{_TOP + 6}" x2="{x2:.1f}" y2="{_BOTTOM - 14}" '
            f'stroke="{_colour(link.kind)}" stroke-width="2"/>'
        )
    for words, places, y, colours in (
        (part.caption, above, _TOP, colour1),
        (part.reference, below, _BOTTOM, colour2),
    ):
        out += [
            f'<text x="{x:.1f}" y="{y}" fill="{colours.get(i, palette.QUIET)}">{escape(word)}'
            "</text>"
            for i, (word, (x, _)) in enumerate(zip(words, places, strict=True))
        ]
    x = float(_GAP)
    for stage, colour in COLOURS.items():
        out.append(f'<text x="{x:.1f}" y="{_HEIGHT - 8}" fill="{colour}">{stage}</text>')
        x += _LETTER * len(stage) + _GAP
    return "".join(out) + "</svg>"


def _colour(kind: str) -> str:
    return COLOURS.get(kind, palette.QUIET)


def _places(words: Sequence[str]) -> list[tuple[float, float]]:
    """Return left and right edge of each word."""
    out, x = [], float(_GAP)
    for word in words:
        out.append((x, x + _LETTER * len(word)))
        x = out[-1][1] + _GAP
    return out


def _middle(places: list[tuple[float, float]], span: Sequence[int]) -> float:
    return (places[span[0]][0] + places[span[1] - 1][1]) / 2
