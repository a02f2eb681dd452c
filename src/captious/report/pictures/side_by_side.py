"""Several pictures in one: the explanations of two captions of one photograph, side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

_GAP = 16
_SIZE = re.compile(r'\b(width|height|viewBox)="([^"]*)"')
_NAMED = re.compile(r'(\bid="|url\(#|href="#)')


def joined(pictures: Sequence[str]) -> str:
    """Return one SVG that shows the given ones from left to right, their tops aligned.

    Example:
        >>> one = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="4"></svg>'
        >>> joined([one, one])[:73]
        '<svg xmlns="http://www.w3.org/2000/svg" width="36" height="4" viewBox="0 '
    """
    return _placed(pictures, across=True)


def stacked(pictures: Sequence[str]) -> str:
    """Return one SVG that shows the given ones from top to bottom."""
    return _placed(pictures, across=False)


def _placed(pictures: Sequence[str], across: bool) -> str:
    if len(pictures) == 1:
        return pictures[0]
    parts, x, y, wide, high = [], 0.0, 0.0, 0.0, 0.0
    for number, picture in enumerate(pictures):
        start = picture.index("<svg")
        w, h = _size(picture[start : picture.index(">", start)])
        # Names inside a picture stay its own: both may define a clip of the same name.
        own = _NAMED.sub(lambda m, n=number: f"{m.group(1)}p{n}-", picture[start:])  # type: ignore[misc]
        parts.append(own.replace("<svg", f'<svg x="{x:g}" y="{y:g}"', 1))
        wide, high = max(wide, x + w), max(high, y + h)
        x, y = (wide + _GAP, 0.0) if across else (0.0, high + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" '
        f'viewBox="0 0 {wide:g} {high:g}">' + "".join(parts) + "</svg>"
    )


def _size(tag: str) -> tuple[float, float]:
    sizes = dict(_SIZE.findall(tag))
    if "width" in sizes and "height" in sizes:
        return float(sizes["width"].rstrip("px")), float(sizes["height"].rstrip("px"))
    *_, wide, tall = (float(v) for v in sizes["viewBox"].split())
    return wide, tall
