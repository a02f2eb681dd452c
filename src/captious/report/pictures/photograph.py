"""A photograph with labelled boxes: what was seen in it, and where."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from captious.evidence.images import data_uri, open_image
from captious.report.pictures import palette
from captious.types import LabelledPhotograph, Place

_WIDTH = 360
_LINE = 17
_MOST = 12


def draw(part: LabelledPhotograph) -> str:
    """Draw the boxes over the photograph; labels of the whole photograph stand below it."""
    wide, high = _size(part)
    tall = round(_WIDTH * high / wide)
    photo = data_uri(part.image, 2 * _WIDTH)
    whole, boxed = _sorted(part.places, wide, high)
    below = [f"in the whole photograph: {', '.join(_told(p) for p in whole[:_MOST])}"] * bool(whole)
    deep = tall + 34 + _LINE * sum(len(_wrapped(line)) for line in below)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{deep}" '
        f'viewBox="0 0 {_WIDTH} {deep}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(part.title)}</title>",
        f'<rect width="{_WIDTH}" height="{deep}" fill="#fff"/>',
        f'<text y="16" font-weight="bold">{escape(part.title)}</text>',
        '<g transform="translate(0,24)">',
        palette.ground(photo, _WIDTH, tall),
        *_boxes(boxed[:_MOST], _WIDTH / wide, tall / high, tall),
    ]
    y = tall + _LINE
    for line in below:
        for text in _wrapped(line):
            out.append(f'<text y="{y}" fill="{palette.INK}">{escape(text)}</text>')
            y += _LINE
    return "\n".join([*out, "</g>", "</svg>"])


def plain(part: LabelledPhotograph) -> dict[str, Any]:
    """Return title, labels of the whole photograph, and boxes as shares of its width and height."""
    wide, high = _size(part)
    whole, boxed = _sorted(part.places, wide, high)
    return {
        "title": part.title,
        "whole": [_told(place) for place in whole[:_MOST]],
        "boxes": [
            {
                "text": _told(place),
                "box": [
                    round(min(max(v / side, 0.0), 1.0), 4)
                    for v, side in zip(place.box, (wide, high, wide, high), strict=True)
                ],
            }
            for place in boxed[:_MOST]
        ],
    }


def _size(part: LabelledPhotograph) -> tuple[float, float]:
    """Width and height of the photograph; of a lost one, what the boxes need."""
    if Path(part.image).is_file():
        width, height = open_image(part.image).size
        return float(width), float(height)
    right = max((p.box[2] for p in part.places), default=4.0)
    return max(right, 1.0), max((p.box[3] for p in part.places), default=3.0) or 1.0


def _sorted(places: tuple[Place, ...], wide: float, high: float) -> tuple[list[Place], list[Place]]:
    """Labels that cover the photograph, and labels with a place of their own, the surest first."""
    whole: dict[str, Place] = {}
    boxed: dict[tuple[str, tuple[float, ...]], Place] = {}
    for place in sorted(places, key=lambda p: -p.score):
        x1, y1, x2, y2 = place.box
        if (x2 - x1) * (y2 - y1) >= 0.95 * wide * high:
            whole.setdefault(place.label, place)
        else:
            boxed.setdefault((place.label, place.box), place)
    return list(whole.values()), list(boxed.values())


def _told(place: Place) -> str:
    return f"{place.label} {place.score:.2f}".replace("0.", ".")


def _boxes(places: list[Place], across: float, down: float, tall: float) -> list[str]:
    """Outlines with their labels on plates; labels that share a corner stand one below another."""
    outlines, plates = [], []
    taken: list[tuple[float, float]] = []
    corners: dict[tuple[float, ...], int] = {}
    for place in places:
        x1, y1, x2, y2 = place.box
        x1, x2, y1, y2 = x1 * across, x2 * across, y1 * down, y2 * down
        colour = palette.DARK[corners.setdefault(place.box, len(corners)) % len(palette.DARK)]
        shape = (
            f'x="{x1 + 1:.1f}" y="{y1 + 1:.1f}" width="{max(x2 - x1 - 2, 1):.1f}" '
            f'height="{max(y2 - y1 - 2, 1):.1f}" fill="none"'
        )
        outlines.append(f'<rect {shape} stroke="#fff" stroke-width="4"/>')
        outlines.append(f'<rect {shape} stroke="{colour}" stroke-width="2"/>')
        text = _told(place)
        long = 7.0 * len(text) + 8
        x, y = min(x1 + 2, _WIDTH - long), min(y1 + 2, tall - _LINE)
        while any(abs(x - px) < 90 and abs(y - py) < _LINE for px, py in taken):
            y += _LINE
            if y > tall - _LINE:
                y, x = y1 + 2, x + 95
        taken.append((x, y))
        plates.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{long:.0f}" height="{_LINE - 1}" '
            f'fill="{colour}"/><text x="{x + 4:.1f}" y="{y + 12:.1f}" fill="#fff" '
            f'font-weight="bold" font-size="11">{escape(text)}</text>'
        )
    return outlines + plates


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 58)
