"""Opening photographs that came from anywhere.

Every picture of captious is opened here, so that one set of rules holds for detectors, region
extractors, reports and the service: the EXIF orientation is applied, a file that would unpack to
more pixels than allowed is refused from its header (before any pixel is decoded), truncated and
corrupt files are refused rather than half read, and the result is always plain 8-bit RGB. The
format is told by the content, and only those of ``FORMATS`` are opened: Pillow knows dozens more,
some of which start other programs (an EPS file runs Ghostscript).

A refusal is an :class:`~captious.errors.InputError` whose message starts with the file, so a caller
that walks over a folder can list it and go on (see :func:`open_images`).
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious import assets
from captious.errors import InputError
from captious.reading import reading, regular

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 80_000_000
"""Largest picture that is opened: 240 MB once decoded, above the photographs of any data set."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""What is opened, by content and whatever the file is called."""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})


def open_image(
    path: str | os.PathLike[str], max_pixels: int = MAX_PIXELS, upright: bool = True
) -> Image.Image:
    """Decode one picture to upright 8-bit RGB.

    Args:
        path: the file.
        max_pixels: width times height above which the file is refused unread.
        upright: False to leave it as it is stored, whatever its EXIF mark says.

    Raises:
        InputError: the file is absent, not a picture, damaged, or too large.
    """
    regular(path)
    with reading(path, "a picture", f"supported: {', '.join(FORMATS)}"):
        return _decoded(path, path, max_pixels, upright)


def decode_image(
    content: bytes, where: object, max_pixels: int = MAX_PIXELS, upright: bool = True
) -> Image.Image:
    """Decode a picture that is in memory, by the same rules as :func:`open_image`."""
    with reading(where, "a picture", f"supported: {', '.join(FORMATS)}"):
        return _decoded(io.BytesIO(content), where, max_pixels, upright)


def _decoded(source: Any, path: object, max_pixels: int, upright: bool) -> Image.Image:
    from PIL import Image, ImageOps

    try:
        with Image.open(source, formats=FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise InputError(
                    f"{path}: {width} x {height} pixels is more than the {max_pixels:,} allowed; "
                    "scale it down or raise max_pixels"
                )
            if width < 1 or height < 1:
                raise InputError(f"{path}: the picture has no pixels")
            image.load()
            return _as_rgb(ImageOps.exif_transpose(image) if upright else image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(
            f"{path}: refused, it would unpack to too many pixels ({error})"
        ) from error


def open_photograph(
    picture: Path | bytes, name: str = "picture", upright: bool = True
) -> Image.Image:
    """Open a photograph that is a file, or that was handed over as encoded bytes."""
    if isinstance(picture, bytes):
        return decode_image(picture, name, upright=upright)
    return open_image(picture, upright=upright)


def photograph_digest(picture: Path | bytes) -> str:
    """Return what a photograph is known by: 32 hex digits of the sha256 of its content.

    Raises:
        InputError: there is no such file.
    """
    if isinstance(picture, bytes):
        return hashlib.sha256(picture).hexdigest()[:32]
    regular(picture)
    return assets.digest(picture)[:32]


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
        raise InputError(f"{folder}: there is no such folder or file")
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


def data_uri(path: str | os.PathLike[str] | None, width: int) -> str | None:
    """Return the picture as a small JPEG to be written into an SVG; None if there is no file."""
    if path is None or not Path(path).is_file():
        return None
    picture = open_image(path)
    picture.thumbnail((width, width))
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def handed_over(picture: Any, where: str) -> tuple[str, bytes | None]:
    """Return the name of a picture from Python, and its encoded content where it is no file.

    Args:
        picture: a path, encoded bytes, a PIL image, an array (height, width, 3) or a tensor
            (3, height, width) of 0..255 or of fractions, or ``{"bytes": ..., "path": ...}``.
        where: how an error names it, ``images[3]``.

    Raises:
        InputError: it is none of these.
    """
    if isinstance(picture, dict) and ("bytes" in picture or "path" in picture):
        picture = picture.get("bytes") or picture.get("path")
    if isinstance(picture, str | os.PathLike):
        return os.fspath(picture), None
    if isinstance(picture, bytes | bytearray | memoryview):
        content = bytes(picture)
    elif hasattr(picture, "save") and hasattr(picture, "getbands"):
        content = _encoded(picture)
    elif hasattr(picture, "__array__"):
        content = _encoded(_of_array(picture, where))
    else:
        raise InputError(
            f"{where} is {type(picture).__name__}; a picture is a path, encoded bytes, "
            "a PIL image or an array"
        )
    return f"picture-{photograph_digest(content)}", content


def _encoded(picture: Any) -> bytes:
    out = io.BytesIO()
    _as_rgb(picture).save(out, "PNG", compress_level=1)
    return out.getvalue()


def _of_array(picture: Any, where: str) -> Any:
    import numpy as np
    from PIL import Image

    values = np.asarray(picture)
    if values.ndim == 3 and values.shape[0] in (1, 3) and values.shape[2] not in (1, 3, 4):
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    fine = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))
    if not fine or not values.size:
        raise InputError(
            f"{where}: an array of shape {np.asarray(picture).shape} is not a picture; "
            "expected (height, width, 3)"
        )
    if values.dtype.kind == "f":
        if not (values.min() >= 0.0 and values.max() <= 1.0):
            raise InputError(f"{where}: fractions are from 0 to 1; undo the normalisation first")
        values = np.rint(values * 255.0)
    elif values.dtype.kind not in "ui" or values.min() < 0 or values.max() > 255:
        raise InputError(f"{where}: the numbers of a picture are from 0 to 255")
    return Image.fromarray(np.ascontiguousarray(values.astype(np.uint8)))
