"""Draw an alignment: caption above, reference below, a line for each match."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

COLOURS: Final = {
    "exact": "#1b7837",
    "stem": "#2166ac",
    "synonym": "#762a83",
    "paraphrase": "#b35806",
}
_LETTER: Final = 8.2
_GAP: Final = 12
_TOP, _BOTTOM, _HEIGHT = 24, 104, 148


def draw(caption: Sequence[str], reference: Sequence[str], matches: list[dict[str, Any]]) -> str:
    """Return an SVG of the two sentences and the lines between them."""
    above, below = _places(caption), _places(reference)
    width = max(above[-1][1] if above else 0, below[-1][1] if below else 0, 330) + _GAP
    colour1 = {i: COLOURS[m["stage"]] for m in matches for i in range(*m["caption"])}
    colour2 = {i: COLOURS[m["stage"]] for m in matches for i in range(*m["reference"])}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {_HEIGHT}" '
        f'width="{width:.0f}" height="{_HEIGHT}" role="img" '
        'font-family="monospace" font-size="13">',
        "<title>METEOR alignment: caption above, reference below</title>",
    ]
    for match in matches:
        x1, x2 = _middle(above, match["caption"]), _middle(below, match["reference"])
        parts.append(
            f'<line x1="{x1:.1f}" y1="{_TOP + 6}" x2="{x2:.1f}" y2="{_BOTTOM - 14}" '
            f'stroke="{COLOURS[match["stage"]]}" stroke-width="2"/>'
        )
    for words, places, y, colours in (
        (caption, above, _TOP, colour1),
        (reference, below, _BOTTOM, colour2),
    ):
        parts += [
            f'<text x="{x:.1f}" y="{y}" fill="{colours.get(i, "#777")}">{escape(word)}</text>'
            for i, (word, (x, _)) in enumerate(zip(words, places, strict=True))
        ]
    x = float(_GAP)
    for stage, colour in COLOURS.items():
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 8}" fill="{colour}">{stage}</text>')
        x += _LETTER * len(stage) + _GAP
    return "".join(parts) + "</svg>"


def _places(words: Sequence[str]) -> list[tuple[float, float]]:
    """Return left and right edge of each word."""
    out, x = [], float(_GAP)
    for word in words:
        out.append((x, x + _LETTER * len(word)))
        x = out[-1][1] + _GAP
    return out


def _middle(places: list[tuple[float, float]], span: Sequence[int]) -> float:
    return (places[span[0]][0] + places[span[1] - 1][1]) / 2
