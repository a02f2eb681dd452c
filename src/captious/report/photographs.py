"""Photographs of a report: small pictures in one string, as large as the budget allows."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from captious.errors import InputError
from captious.evidence.images import open_photograph

if TYPE_CHECKING:
    from PIL import Image

_WIDTHS = (640, 480, 384, 320, 256, 208, 160, 128)
_TRIED = 12  # photographs whose size tells how large all of them may be


@dataclass(frozen=True)
class Photographs:
    """Small pictures behind each other as base64.

    Attributes:
        text: all of them; each starts at a multiple of four letters, so a slice decodes alone.
        places: image -> (start, length) in ``text``.
        kind: their media type.
        sizes: image -> width and height in pixels of the original.
        problems: what could not be read.
    """

    text: str
    places: dict[str, tuple[int, int]]
    kind: str
    sizes: dict[str, tuple[int, int]]
    problems: list[str]


def gather(files: Mapping[str, Path | bytes], budget: int) -> Photographs:
    """Read the photographs and make them as large as fits into ``budget`` letters."""
    if not files:
        return Photographs("", {}, "", {}, [])
    from PIL import features

    kind = "webp" if features.check("webp") else "jpeg"
    width = _width(files, budget, kind)
    parts: list[str] = []
    places: dict[str, tuple[int, int]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    problems: list[str] = []
    at = 0
    for image, file in files.items():
        try:
            picture = open_photograph(file, image)
        except InputError as err:
            problems.append(str(err))
            continue
        sizes[image] = picture.size
        text = base64.b64encode(_small(picture, width, kind)).decode()
        if at + len(text) > 1.15 * budget:
            problems.append(f"{image}: left out, the photographs use up their share of the file")
            continue
        places[image] = (at, len(text))
        parts.append(text)
        at += len(text)
    return Photographs("".join(parts), places, f"image/{kind}", sizes, problems)


def _width(files: Mapping[str, Path | bytes], budget: int, kind: str) -> int:
    """Return the largest width at which all photographs fit, told by a few of them."""
    step = max(1, len(files) // _TRIED)
    tried = []
    for image, file in list(files.items())[::step][:_TRIED]:
        try:
            tried.append(open_photograph(file, image))
        except InputError:
            continue
    for width in _WIDTHS:
        mean = sum(len(_small(p, width, kind)) for p in tried) / max(len(tried), 1)
        if mean * 4 / 3 * len(files) <= budget:
            return width
    return _WIDTHS[-1]


def _small(picture: Image.Image, width: int, kind: str) -> bytes:
    copy = picture.copy()
    copy.thumbnail((width, width))
    buffer = io.BytesIO()
    copy.save(buffer, format=kind.upper(), quality=72 if width >= 320 else 66)
    return buffer.getvalue()
