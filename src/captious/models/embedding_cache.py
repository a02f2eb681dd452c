"""Token vectors on disk: one SQLite file of bounded size, shared by runs and by processes.

Off unless asked for: ``CAPTIOUS_EMBEDDING_CACHE=8`` keeps up to 8 GB below the cache folder. An
entry is found by everything its value depends on (weights, layer, number type, text), so a hit
gives the very numbers that were computed before. Entries used longest ago leave first.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious import settings
from captious.errors import UsageError

Entry = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]

_BATCH = 500  # SQLite binds at most 999 values in old builds


def configured() -> EmbeddingCache | None:
    """Return the cache that the environment asks for, or None."""
    size = os.environ.get("CAPTIOUS_EMBEDDING_CACHE", "")
    if not size:
        return None
    try:
        limit = int(float(size) * 1e9)
    except ValueError:
        limit = 0
    if limit <= 0:
        raise UsageError(
            f"CAPTIOUS_EMBEDDING_CACHE={size!r} must be a number of gigabytes, such as 8"
        )
    return EmbeddingCache(settings.get().cache_dir / "embeddings.sqlite", limit)


class EmbeddingCache:
    """Piece ids and vectors of sentences by key.

    Args:
        path: the file; made when it is absent.
        max_bytes: the vectors kept never exceed this (the file is a little larger).
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path, self.max_bytes = Path(path), max_bytes
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=OFF")  # losing a cache in a power cut costs nothing
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
        found: dict[bytes, Entry] = {}
        for start in range(0, len(keys), _BATCH):
            part = keys[start : start + _BATCH]
            marks = ",".join("?" * len(part))
            rows = self._base.execute(
                f"SELECT key, pieces, vectors FROM entry WHERE key IN ({marks})", part
            ).fetchall()
            for key, pieces, vectors in rows:
                ids = np.frombuffer(pieces, np.int32)
                found[key] = ids, np.frombuffer(vectors, np.float32).reshape(len(ids), -1)
        if found:
            now = time.time()
            self._change("UPDATE entry SET used = ? WHERE key = ?", [(now, k) for k in found])
        return found

    def put(self, entries: Iterable[tuple[bytes, Entry]]) -> None:
        """Add entries and let the oldest go when the limit is passed."""
        now = time.time()
        rows = [
            (k, i.astype(np.int32).tobytes(), v.astype(np.float32).tobytes(), v.size * 4, now)
            for k, (i, v) in entries
        ]
        self._change("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", rows)
        self._trim()

    def size(self) -> int:
        """Return the bytes of all vectors kept."""
        return int(self._base.execute("SELECT COALESCE(SUM(size), 0) FROM entry").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._base.close()

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
