"""Token vectors that are kept: some in memory, more on disk if asked, both of bounded size.

In memory, ``CAPTIOUS_EMBEDDING_MEMORY=1`` (the default) lets the vectors of an encoder take 1 GB:
up to three quarters to be found again by the next metric, a quarter for the texts that are being
scored. On disk, off unless asked for, ``CAPTIOUS_EMBEDDING_CACHE=8`` keeps up to 8 GB in one SQLite
file below the cache folder, shared by runs and by processes. An entry is found by everything its
value depends on (weights, layer, number type, text), so a hit gives the very numbers that were
computed before: scores do not depend on either bound. On disk, entries used longest ago leave
first.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from captious import settings
from captious.errors import UsageError

if TYPE_CHECKING:
    import torch

Entry = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]

MEMORY_GB = 1.0
log = logging.getLogger("captious")
_BATCH = 500  # SQLite binds at most 999 values in old builds


def configured() -> EmbeddingCache | None:
    """Return the cache that the environment asks for, or None."""
    limit = _gigabytes("CAPTIOUS_EMBEDDING_CACHE")
    if limit is None:
        return None
    return EmbeddingCache(settings.get().cache_dir / "embeddings.sqlite", limit)


def memory_bytes() -> int:
    """Return how much memory the vectors of an encoder may take."""
    return _gigabytes("CAPTIOUS_EMBEDDING_MEMORY") or int(MEMORY_GB * 1e9)


def _gigabytes(name: str) -> int | None:
    """Return the bytes that a variable of the environment asks for, None where it is not set."""
    size = os.environ.get(name, "")
    if not size:
        return None
    try:
        limit = int(float(size) * 1e9)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise UsageError(f"{name}={size!r} must be a number of gigabytes, such as 8")
    return limit


class Kept:
    """Vectors in memory, up to three quarters of :func:`memory_bytes`.

    A run passes over its texts in the same order for every metric. If it is larger than the memory,
    throwing out what was used longest ago would throw out every entry just before it is needed
    again; so what came first stays. Only when twice the bound went by without a single hit is all
    of it taken to be of an earlier run, and dropped.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[int, str], torch.Tensor] = {}
        self._refused = 0
        self.size = 0

    def get(self, key: tuple[int, str]) -> torch.Tensor | None:
        """Return the vectors of a layer and text that are there."""
        vectors = self._entries.get(key)
        if vectors is not None:
            self._refused = 0
        return vectors

    def put(self, key: tuple[int, str], vectors: torch.Tensor) -> None:
        """Copy vectors in if there is room."""
        size, limit = vectors.nbytes, memory_bytes() * 3 // 4
        if key in self._entries or size > limit:
            return
        if self.size + size > limit:
            self._refused += size
            if self._refused <= 2 * limit:
                return
            self.clear()
        self._entries[key] = vectors.clone()
        self.size += size

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._refused = self.size = 0


class EmbeddingCache:
    """Piece ids and vectors of sentences by key.

    A file that is damaged or cannot be written is no longer used, with a warning: it holds nothing
    that cannot be computed again.

    Args:
        path: the file; made when it is absent.
        max_bytes: the vectors kept never exceed this (the file is a little larger).
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path, self.max_bytes = Path(path), max_bytes
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._usable = True
        with self._guarded():
            self._base = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=OFF")  # a cache lost in a power cut is no loss
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS entry (key BLOB PRIMARY KEY, pieces BLOB NOT NULL,"
                " vectors BLOB NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL) WITHOUT ROWID"
            )
            self._base.execute("CREATE INDEX IF NOT EXISTS by_age ON entry (used, size)")

    @staticmethod
    def key(encoder: str, layer: int, text: str) -> bytes:
        """Return the name of an entry."""
        whole = f"{encoder}\0{layer}\0{text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(whole, digest_size=16).digest()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Return the entries that are there."""
        entries: dict[bytes, Entry] = {}
        with self._guarded():
            for start in range(0, len(keys) if self._usable else 0, _BATCH):
                part = keys[start : start + _BATCH]
                marks = ",".join("?" * len(part))
                rows = self._base.execute(
                    f"SELECT key, pieces, vectors FROM entry WHERE key IN ({marks})", part
                ).fetchall()
                for key, pieces, vectors in rows:
                    ids = np.frombuffer(pieces, np.int32)
                    entries[key] = ids, np.frombuffer(vectors, np.float32).reshape(len(ids), -1)
            if entries:
                now = time.time()
                self._change("UPDATE entry SET used = ? WHERE key = ?", [(now, k) for k in entries])
        return entries

    def put(self, entries: Iterable[tuple[bytes, Entry]]) -> None:
        """Add entries and let the oldest go when the limit is passed."""
        now = time.time()
        rows = [
            (k, i.astype(np.int32).tobytes(), v.astype(np.float32).tobytes(), v.size * 4, now)
            for k, (i, v) in entries
        ]
        with self._guarded():
            if self._usable:
                self._change("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", rows)
                self._trim()

    def size(self) -> int:
        """Return the bytes of all vectors kept."""
        return int(self._base.execute("SELECT COALESCE(SUM(size), 0) FROM entry").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        if hasattr(self, "_base"):
            self._base.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Give the file up, with a warning, where it cannot be read or written."""
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            self._usable = False
            self.close()
            log.warning("%s is not used: %s. Delete it, and it is made anew.", self.path, error)

    def _trim(self) -> None:
        surplus = self.size() - self.max_bytes
        if surplus <= 0:
            return
        leaving = []
        for key, size in self._base.execute("SELECT key, size FROM entry ORDER BY used, key"):
            leaving.append((key,))
            surplus -= size
            if surplus <= 0:
                break
        self._change("DELETE FROM entry WHERE key = ?", leaving)

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._base.executemany(statement, rows)
        except sqlite3.Error:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")
