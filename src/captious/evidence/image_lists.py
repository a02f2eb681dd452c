"""Lists of images by name or file: which images a number was measured on.

Two lists come with captious, numbers of COCO photographs: ``karpathy-test`` and ``karpathy-val``,
5,000 each (the photographs of CxC's test and validation parts). A file may hold one image per line,
a JSON list, or JSON lines with ``image_id`` or ``image`` (what most captioners write).

An image is on a list if its name is, with or without folder and ending, or if both mean the same
COCO number: 42, 000000000042.jpg and COCO_val2014_000000000042.jpg are one photograph.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from captious.errors import InputError, UsageError, did_you_mean
from captious.reading import parse_json, read_text

_FOLDER = Path(__file__).parent / "lists"
SHIPPED = ("karpathy-test", "karpathy-val")
_COCO = re.compile(r"(?:COCO_[a-z]+\d{4}_)?0*(\d{1,12})(?:\.(?:jpe?g|png))?", re.IGNORECASE)
_FIELDS = ("image_id", "image", "file_name")


@dataclass(frozen=True)
class ImageList:
    """Images that belong together.

    Attributes:
        name: of the list, with a checksum of which images it holds.
        keys: what its images are known by.
    """

    name: str
    keys: frozenset[str]

    def __contains__(self, image: object) -> bool:
        return key(str(image)) in self.keys

    def __len__(self) -> int:
        return len(self.keys)


def key(image: str) -> str:
    """Return what an image is known by: its COCO number, or its name without folder and ending.

    Example:
        >>> key("val2014/COCO_val2014_000000000042.jpg"), key("42"), key("beach.jpg")
        ('42', '42', 'beach')
    """
    name = image.replace("\\", "/").rpartition("/")[2]
    number = _COCO.fullmatch(name)
    if number:
        return number[1]
    stem, point, ending = name.rpartition(".")
    return stem if point and stem and len(ending) <= 4 else name


def load(wanted: str) -> ImageList:
    """Return a shipped list, or that of a file.

    Raises:
        UsageError: no list of that name is shipped.
        InputError: there is no such file, or it holds something else.
    """
    if wanted in SHIPPED:
        return _read(str(_FOLDER / f"{wanted}.txt"), wanted, 0)
    path = Path(wanted)
    if not path.is_file():
        hint = did_you_mean(wanted, SHIPPED)
        kind = InputError if path.suffix or path.name != wanted else UsageError  # a file, or a name
        raise kind(
            f"there is no list of images {wanted!r}{hint}; name a file, or one of "
            f"{', '.join(SHIPPED)}"
        )
    return _read(wanted, path.name, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: str, name: str, stamp: int) -> ImageList:
    text = read_text(path)
    start = text.lstrip()[:1]
    if start == "[":
        entries = [(str(n), entry) for n, entry in enumerate(parse_json(text, path), 1)]
    else:
        lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        entries = [
            (str(n), parse_json(line, f"{path}, line {n}") if start == "{" else line)
            for n, line in lines
        ]
    keys = frozenset(key(_image(entry, f"{path}, entry {at}")) for at, entry in entries)
    if not keys:
        raise InputError(f"{path}: the list of images is empty")
    digest = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:8]
    return ImageList(f"{name}-{len(keys)}-{digest}", keys)


def _image(entry: Any, where: str) -> str:
    if isinstance(entry, dict):
        named = [entry[field] for field in _FIELDS if field in entry]
        if not named:
            raise InputError(f"{where}: names no image; one of {', '.join(_FIELDS)} is expected")
        entry = named[0]
    if isinstance(entry, bool) or not isinstance(entry, str | int) or not str(entry).strip():
        raise InputError(f"{where}: {str(entry)[:40]!r} is not an image")
    return str(entry)
