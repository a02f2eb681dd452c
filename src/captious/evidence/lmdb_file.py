"""The file of an LMDB database, read by page with every number checked first.

The LMDB library maps the file and follows the page numbers that it finds in it: a damaged file ends
the process (SIGBUS), which no ``except`` can catch. The layout is simple, so it is read here: two
meta pages, of which the later transaction counts, and a tree of branch and leaf pages. Every page
number and offset is compared with the size of the file before it is used, each page is visited at
most once, and the values stay on disk until they are asked for.

The layout is that of lmdb.h and mdb.c (0.9, 64 bit, little-endian), which has not changed since
2013. Databases inside the database, duplicate keys and integer keys are not read: no collection of
region features uses them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from captious.errors import InputError
from captious.reading import opened, regular

_MAGIC = 0xBEEFC0DE
_META = struct.Struct("<16xII16xI48xHH32xQQQ")
_HEADER = struct.Struct("<Q2xHHH")
_OVERFLOW = struct.Struct("<Q2xHI")
_NODE = struct.Struct("<HHHH")
_BRANCH, _LEAF, _LONG = 1, 2, 4
_BIG_DATA, _SUB_DATA, _DUPLICATES = 1, 2, 4
_NONE = (1 << 64) - 1


class LmdbFile:
    """Keys of a database, and the places of their values.

    Args:
        path: the file ``data.mdb``.

    Raises:
        InputError: the file is damaged, or of a kind that is not read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = regular(path)
        self._places: dict[bytes, tuple[int, int]] = {}
        with opened(path) as file:
            self._page_size, root = self._meta(file)
            for key, place in self._walk(file, root):
                self._places[key] = place

    def __len__(self) -> int:
        return len(self._places)

    def keys(self) -> list[bytes]:
        """All keys, in the order of the database."""
        return list(self._places)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        place = self._places.get(key)
        if place is None:
            return None
        with opened(self.path) as file:
            return self._read(file, *place)

    def _meta(self, file: IO[bytes]) -> tuple[int, int]:
        """Return the size of a page and the number of the root page."""
        metas, at = [], 0
        for _ in range(2):
            magic, version, page, flags, _, root, _, transaction = _META.unpack(
                self._read(file, at, _META.size)
            )
            if magic != _MAGIC or version != 1:
                raise self._damaged("this is not an LMDB file")
            metas.append((transaction, page, flags, root))
            at = page
        _, page, flags, root = max(metas)
        if page not in (1 << n for n in range(9, 17)):
            raise self._damaged(f"pages of {page} bytes")
        if flags:
            raise InputError(f"{self.path}: LMDB with duplicate or integer keys is not read")
        return page, root

    def _walk(self, file: IO[bytes], root: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Yield every key with the place of its value, from left to right."""
        if root == _NONE:
            return
        ahead, seen = [root], set[int]()
        while ahead:
            number = ahead.pop()
            if number in seen:
                raise self._damaged(f"page {number} is used twice")
            seen.add(number)
            page = self._read(file, number * self._page_size, self._page_size)
            _, flags, lower, upper = _HEADER.unpack_from(page)
            if not flags & (_BRANCH | _LEAF) or not 16 <= lower <= upper <= self._page_size:
                raise self._damaged(f"page {number} is not a page of keys")
            starts = struct.unpack_from(f"<{(lower - 16) // 2}H", page, 16)
            if flags & _BRANCH:
                children = []
                for start in starts:
                    low, high, top, _ = self._node(page, start)
                    children.append(low | high << 16 | top << 32)
                ahead += reversed(children)
                continue
            for start in starts:
                low, high, kind, size = self._node(page, start)
                key, length = page[start + 8 : start + 8 + size], low | high << 16
                if kind & (_SUB_DATA | _DUPLICATES):
                    raise InputError(f"{self.path}: LMDB with named databases is not read")
                if len(key) != size:
                    raise self._damaged(f"a key of page {number} is cut off")
                at = number * self._page_size + start + 8 + size
                if kind & _BIG_DATA:
                    yield key, (self._overflow(file, at, length), length)
                else:
                    yield key, (at, length)

    def _node(self, page: bytes, start: int) -> tuple[int, int, int, int]:
        if not 16 <= start <= len(page) - _NODE.size:
            raise self._damaged("a key lies outside of its page")
        return _NODE.unpack_from(page, start)

    def _overflow(self, file: IO[bytes], at: int, length: int) -> int:
        """Return where a long value starts: on pages of its own."""
        (number,) = struct.unpack("<Q", self._read(file, at, 8))
        place = number * self._page_size
        _, flags, pages = _OVERFLOW.unpack(self._read(file, place, 16))
        if flags != _LONG or 16 + length > pages * self._page_size:
            raise self._damaged(f"page {number} does not begin a long value")
        return place + 16

    def _read(self, file: IO[bytes], at: int, count: int) -> bytes:
        if at + count > self._size:
            raise self._damaged("it is shorter than it says")
        file.seek(at)
        return file.read(count)

    def _damaged(self, why: str) -> InputError:
        return InputError(f"{self.path}: damaged LMDB file ({why}); copy it again")
