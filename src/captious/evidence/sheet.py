"""A contact sheet: small pictures in a grid with the boxes that a detector drew."""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.evidence._object_files import Found, read
from captious.evidence.images import open_image

LIMIT = 60


def contact_sheet(
    detections: Path,
    images: Sequence[tuple[str, Path]],
    out: Path,
    *,
    columns: int = 5,
    tile: int = 320,
    limit: int = LIMIT,
) -> int:
    """Draw the first `limit` photographs of a file of detections; return how many were drawn."""
    from PIL import Image

    by_photograph: dict[str, list[Found]] = {}
    for item in read(detections):
        by_photograph.setdefault(item.image, []).append(item)
    tiles: list[Any] = []
    for key, path in images:
        if len(tiles) == limit:
            break
        if key in by_photograph:
            tiles.append(_tile(key, path, by_photograph[key], tile))
    if not tiles:
        raise InputError("no photograph to draw on the sheet")
    columns = min(columns, len(tiles))
    lines = -(-len(tiles) // columns)
    sheet = Image.new("RGB", (columns * tile, lines * (tile + 18)), "white")
    for i, picture in enumerate(tiles):
        sheet.paste(picture, (i % columns * tile, i // columns * (tile + 18)))
    sheet.save(out)
    return len(tiles)


def _tile(key: str, path: Path, boxes: list[Found], size: int) -> Any:
    from PIL import Image, ImageDraw

    picture = open_image(path)
    scale = min(size / picture.width, size / picture.height)
    small = picture.resize(
        (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
    )
    tile = Image.new("RGB", (size, size + 18), "white")
    tile.paste(small, (0, 0))
    draw = ImageDraw.Draw(tile)
    for item in boxes:
        if item.label is None or item.box is None:
            continue
        left, top, right, bottom = (v * scale for v in item.box)
        colour = _colour(item.label)
        draw.rectangle((left, top, right, bottom), outline=colour, width=2)
        text = item.label if item.score is None else f"{item.label} {item.score:.2f}"
        place = draw.textbbox((left + 2, top + 1), text)
        draw.rectangle(place, fill=colour)
        draw.text((left + 2, top + 1), text, fill="white")
    draw.text((2, size + 3), key[-48:], fill="black")
    return tile


def _colour(label: str) -> tuple[int, int, int]:
    """A dark colour that is always the same for the same label."""
    hue = hashlib.sha256(label.encode()).digest()[0] / 255
    red, green, blue = colorsys.hls_to_rgb(hue, 0.38, 0.75)
    return int(red * 255), int(green * 255), int(blue * 255)
