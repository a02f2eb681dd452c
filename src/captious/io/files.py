"""Open text files safely: gzip by content, bounded size, UTF-8 or a clear complaint."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from captious.errors import InputError

LIMIT = 8 << 30  # bytes after decompression; a larger file is no caption file


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is gzip."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a folder; a file is wanted here") from None
    except (OSError, ValueError) as err:
        raise InputError(f"{path}: cannot be read ({err})") from err
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                raw = file.read(LIMIT + 1)
        except (OSError, EOFError, zlib.error) as err:
            raise InputError(f"{path}: broken gzip file ({err})") from err
    if len(raw) > LIMIT:
        raise InputError(f"{path}: larger than {LIMIT >> 30} GiB once decompressed; split it")
    if not raw.strip():
        raise InputError(f"{path}: the file is empty")
    return raw


def read_text(path: Path) -> str:
    """Return the content of a UTF-8 file (a byte-order mark is dropped)."""
    raw = read_bytes(path)
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path}: encoded as UTF-16; save it as UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = raw[: err.start].count(b"\n") + 1
        raise InputError(
            f"{path}: not UTF-8 (byte 0x{raw[err.start]:02x} in line {line}); save it as UTF-8"
        ) from None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as err:
        raise InputError(
            f"{path}: not valid JSON: {err.msg} at line {err.lineno}, column {err.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: JSON nested too deeply to be a caption file") from None


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Write a file whole or not at all: a temporary neighbour takes its place at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(part, mode, **text) as file:
            yield file
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def suffix(path: Path) -> str:
    """Return the ending that tells the format, without ``.gz``."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix.lstrip(".")
