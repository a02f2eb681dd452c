"""Opening photographs that came from anywhere.

Every picture of captious is opened here, so that one set of rules holds for detectors, region
extractors, reports and the service: the EXIF orientation is applied, a file that would unpack to
more pixels than allowed is refused from its header (before any pixel is decoded), truncated and
corrupt files are refused rather than half read, and the result is always plain 8-bit RGB.

A refusal is an :class:`~captious.errors.InputError` whose message starts with the file, so a caller
that walks over a folder can list it and go on (see :func:`open_images`).
"""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from captious.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 80_000_000
"""Largest picture that is opened: 240 MB once decoded, above the photographs of any data set."""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"})

# What Pillow's readers raise on damaged files; anything else is a fault of ours and passes through.
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    zlib.error,
    IndexError,
    KeyError,
)


def open_image(path: str | os.PathLike[str], max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Decode one picture to upright 8-bit RGB.

    Args:
        path: the file.
        max_pixels: width times height above which the file is refused unread.

    Raises:
        InputError: the file is absent, not a picture, damaged, or too large.
    """
    from PIL import Image, ImageOps

    path = Path(path)
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(f"{path}: {what}")
    try:
        with Image.open(path) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise InputError(
                    f"{path}: {width} x {height} pixels is more than the {max_pixels:,} allowed; "
                    "scale it down or raise max_pixels"
                )
            if width < 1 or height < 1:
                raise InputError(f"{path}: the picture has no pixels")
            image.load()
            return _as_rgb(ImageOps.exif_transpose(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(
            f"{path}: refused, it would unpack to too many pixels ({error})"
        ) from error
    except _DAMAGE as error:
        raise InputError(f"{path}: cannot be read as a picture ({_short(error)})") from error


def open_images(
    paths: Iterable[str | os.PathLike[str]], max_pixels: int = MAX_PIXELS
) -> Iterator[tuple[str, Image.Image | None, str | None]]:
    """Open many pictures; yield `(path, picture, None)` or `(path, None, reason)`."""
    for path in paths:
        try:
            yield os.fspath(path), open_image(path, max_pixels), None
        except InputError as error:
            yield os.fspath(path), None, str(error)


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """All files below `folder` whose suffix is that of a picture, sorted; a file stands for itself.

    Raises:
        InputError: the folder does not exist.
    """
    folder = Path(folder)
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder or file")
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def _as_rgb(image: Image.Image) -> Image.Image:
    """Convert any Pillow mode to RGB; what is transparent becomes white, 16 bits become 8."""
    from PIL import Image

    if image.mode.startswith("I;16") or image.mode == "I":
        import numpy as np

        values = np.asarray(image, dtype=np.int64)
        image = Image.fromarray(np.clip(values >> 8, 0, 255).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        image.alpha_composite(layer)
    return image.convert("RGB")


def _short(error: BaseException) -> str:
    """The first line of an error's message, or its type where it says nothing."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def data_uri(path: str | os.PathLike[str] | None, width: int) -> str | None:
    """Return the picture as a small JPEG to be written into an SVG; None if there is no file."""
    if path is None or not Path(path).is_file():
        return None
    picture = open_image(path)
    picture.thumbnail((width, width))
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
