"""Collections of photographs: a folder, one file, a tar or a zip, read in place.

Nothing of an archive is written to disk. Members that are no plain files (links, devices), and
names that point out of the archive, are not read; a photograph is bounded by :data:`LARGEST`, an
archive by the ratio of :class:`captious.reading.Budget`.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from captious.errors import InputError
from captious.evidence.images import MAX_PIXELS, SUFFIXES, find_images
from captious.reading import Budget, cause, opened, reading, regular, streamed

LARGEST = 4 * MAX_PIXELS
"""Bytes of one photograph: what the largest picture has without any compression."""

_NO_LIMIT = 1 << 62  # an archive may be of any size: one photograph at a time is in memory
_TARS = (".tar", ".tar.gz", ".tgz")


class Photographs(Protocol):
    """Photographs by name."""

    problems: list[str]
    """Why a photograph was passed over; grows while the names and the photographs are read."""

    def names(self) -> list[str]:
        """Names of all photographs, in the order in which they are read."""
        ...

    def read(self, wanted: Collection[str]) -> Iterator[tuple[str, Path | bytes]]:
        """Yield name and file, or name and encoded bytes, of the photographs in ``wanted``."""
        ...


def open_photographs(place: Path | str) -> Photographs:
    """Return the photographs of a folder, a file, a tar (also packed by gzip) or a zip.

    Raises:
        InputError: there is no such folder or file.
    """
    path = Path(place)
    if path.is_file() and path.name.lower().endswith(".zip"):
        return ZippedPhotographs(path)
    if path.is_file() and path.name.lower().endswith(_TARS):
        return TarredPhotographs(path)
    return PhotographFolder(path)


@dataclass
class PhotographFolder:
    """All photographs below a folder, by their path in it; or one file, by its name."""

    root: Path
    problems: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """See :class:`Photographs`."""
        base = self.root.parent if self.root.is_file() else self.root
        return [file.relative_to(base).as_posix() for file in find_images(self.root)]

    def read(self, wanted: Collection[str]) -> Iterator[tuple[str, Path | bytes]]:
        """See :class:`Photographs`; the files are opened by who takes them, in the order asked."""
        base = self.root.parent if self.root.is_file() else self.root
        for name in wanted:
            yield name, base / name


@dataclass
class ZippedPhotographs:
    """The photographs of a zip, by their path in it."""

    path: Path
    problems: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """See :class:`Photographs`."""
        budget = Budget(self.path, regular(self.path), _NO_LIMIT)
        names: dict[str, None] = {}
        with reading(self.path, "a zip archive"), zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    _take(self, member.filename, member.file_size, budget, names)
        return list(names)

    def read(self, wanted: Collection[str]) -> Iterator[tuple[str, Path | bytes]]:
        """See :class:`Photographs`."""
        left = set(wanted)
        with reading(self.path, "a zip archive"), zipfile.ZipFile(self.path) as archive:
            for member in archive.infolist():
                name = _plain_name(member.filename)
                if member.is_dir() or name is None or name not in left:
                    continue
                left.discard(name)
                try:
                    with archive.open(member) as file:
                        content = file.read(LARGEST + 1)
                except Exception as error:  # damaged, encrypted, a packing that is not known
                    self.problems.append(f"{self.path}, {name}: not readable ({cause(error)})")
                    continue
                yield name, content


@dataclass
class TarredPhotographs:
    """The photographs of a tar, by their path in it; one packed by gzip is unpacked twice."""

    path: Path
    problems: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        """See :class:`Photographs`."""
        budget = Budget(self.path, regular(self.path), _NO_LIMIT)
        names: dict[str, None] = {}
        for _, member in self._members():
            _take(self, member.name, member.size, budget, names)
        return list(names)

    def read(self, wanted: Collection[str]) -> Iterator[tuple[str, Path | bytes]]:
        """See :class:`Photographs`."""
        left = set(wanted)
        for archive, member in self._members():
            name = _plain_name(member.name)
            if name is None or name not in left:
                continue
            left.discard(name)
            file = archive.extractfile(member)
            if file is not None:
                content = file.read()
                if len(content) < member.size:
                    raise InputError(f"{self.path}: cut off inside of {name}; fetch it again")
                yield name, content

    def _members(self) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        """Yield the plain files of the archive, front to back."""
        with opened(self.path) as start:
            packed = start.read(2) == b"\x1f\x8b"
        with (
            reading(self.path, "a tar archive"),
            streamed(self.path) as file,
            tarfile.open(fileobj=file, mode="r|" if packed else "r:") as archive,
        ):
            for member in archive:
                if member.isreg() and not member.issparse():
                    yield archive, member


def _take(
    photographs: Photographs, name: str, size: int, budget: Budget, names: dict[str, None]
) -> None:
    """Add a member's name to ``names`` if it is a photograph that may be read."""
    budget.spend(size)
    if PurePosixPath(name).suffix.lower() not in SUFFIXES or name.startswith("__MACOSX/"):
        return
    plain = _plain_name(name)
    where = f"{getattr(photographs, 'path', '')}, {name[:200]!r}"
    if plain is None:
        photographs.problems.append(f"{where}: its name points outside the archive")
    elif size > LARGEST:
        photographs.problems.append(f"{where}: {size:,} bytes, at most {LARGEST:,} are read")
    elif plain in names:
        photographs.problems.append(f"{where}: a second photograph of this name; the first is read")
    else:
        names[plain] = None


def _plain_name(name: str) -> str | None:
    """Return a member's name without ``./``; None where it points out of the archive.

    >>> _plain_name("./a/b.jpg"), _plain_name("../b.jpg"), _plain_name("/etc/b.jpg")
    ('a/b.jpg', None, None)
    """
    path = PurePosixPath(name.replace("\\", "/"))
    windows = len(path.parts) > 0 and path.parts[0].endswith(":")
    if path.is_absolute() or ".." in path.parts or windows or "\0" in name:
        return None
    return path.as_posix()
