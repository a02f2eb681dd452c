"""Read text files through the one door, and write files whole or not at all."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from captious.errors import UsageError
from captious.reading import cause, parse_json, read_bytes, read_json, read_text

__all__ = ["parse_json", "read_bytes", "read_json", "read_text", "replacing", "suffix", "sweep"]


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Write a file whole or not at all: a temporary neighbour takes its place at the end.

    Raises:
        UsageError: the place cannot be written to, or the disk is full; an old file stays as it is.
    """
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise UsageError(f"{path}: this is a folder; name a file to write to")
        with open(part, mode, **text) as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({cause(error)}); what was there before is unchanged. "
            "Free some space or name another place"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Remove what writers of a file left behind that were killed on this machine."""
    for part in path.parent.glob(f".{glob.escape(path.name[:200])}.*.part"):
        number = part.name.rpartition(".part")[0].rpartition(".")[2]
        if number.isdigit() and int(number) != os.getpid() and not _alive(int(number)):
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    try:  # killed, but nobody has asked for its exit code yet: a zombie writes no more
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return not state.rpartition(")")[2].lstrip().startswith("Z")


def suffix(path: Path) -> str:
    """Return the ending that tells the format, without ``.gz``."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix.lstrip(".")
