"""Colours that colour-blind people can tell apart: Okabe and Ito for kinds, viridis for amounts."""

from __future__ import annotations

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, RED = "#56B4E9", "#D55E00"
KINDS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)
DARK = ("#9c2a6b", BLUE, "#8a5a00", "#00694d")
"""Dark enough for white letters, told apart by colour-blind people."""
INK, QUIET, LINE, PAPER = "#1f2328", "#6b7280", "#c9ced6", "#ffffff"

_VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962",
            "#addc30", "#fde725")  # fmt: skip


def viridis(share: float) -> str:
    """Return the colour of an amount between 0 and 1.

    Example:
        >>> viridis(0.0), viridis(1.0)
        ('#440154', '#fde725')
    """
    return _between(_VIRIDIS, share)


def blues(share: float) -> str:
    """Return a light to dark blue, for cells that carry a number."""
    return _between(("#f7f9fc", "#c6dbef", "#6baed6", "#2171b5", "#08407e"), share)


def _between(stops: tuple[str, ...], share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    at = min(int(place), len(stops) - 2)
    low, high = (_rgb(stops[k]) for k in (at, at + 1))
    mixed = (round(a + (b - a) * (place - at)) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{v:02x}" for v in mixed)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def ground(photo: str | None, wide: int, tall: int, name: str = "") -> str:
    """Return the photograph, or a grey plate where its file is gone."""
    own = f' id="{name}"' if name else ""
    if photo is None:
        return f'<rect{own} width="{wide}" height="{tall}" fill="#888888"/>'
    return f'<image{own} width="{wide}" height="{tall}" href="{photo}" preserveAspectRatio="none"/>'
