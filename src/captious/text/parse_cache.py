"""Parses kept on disk, so that a sentence is parsed once per machine and not once per run.

One SQLite file per parser (its fingerprint is in the name): a new model or a new version never
reads old parses. Several processes may read and write at once; a file that is damaged is set aside
and begun anew, because it holds nothing that cannot be computed again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from captious.errors import UsageError

T = TypeVar("T")
_LIMIT: Final = 3_000_000  # sentences; about 150 bytes each
_CHUNK: Final = 500
_PATIENCE: Final = 30.0  # seconds to wait for another process that is writing


class ParseCache:
    """Maps sentences to encoded parses.

    Example:
        >>> import tempfile
        >>> cache = ParseCache(Path(tempfile.mkdtemp()) / "p.sqlite")
        >>> cache.put([("a dog", "DT NN")])
        >>> cache.get(["a dog", "a cat"])
        {'a dog': 'DT NN'}
    """

    def __init__(self, path: Path, limit: int = _LIMIT) -> None:
        self.path, self.limit = path, limit

    def get(self, texts: Sequence[str]) -> dict[str, str]:
        """Return the parses that are known."""
        return self._use(lambda db: _find(db, texts)) if self.path.exists() else {}

    def put(self, parses: Iterable[tuple[str, str]]) -> None:
        """Add parses; the oldest go when there are more than ``limit``."""
        rows = [(_key(text), data) for text, data in parses]

        def add(db: sqlite3.Connection) -> None:
            with db:
                db.executemany("INSERT OR IGNORE INTO parse (key, data) VALUES (?, ?)", rows)
                (last,) = db.execute("SELECT max(rowid) FROM parse").fetchone()
                db.execute("DELETE FROM parse WHERE rowid <= ?", [(last or 0) - self.limit])

        self._use(add)

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Work with the file; one that is damaged is set aside, and a fresh one takes its place."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return self._worked(work)
            except sqlite3.OperationalError:
                raise  # locked, not writable, full disk: not our data
            except (sqlite3.DatabaseError, OverflowError, TypeError, UnicodeError):
                os.replace(self.path, self.path.with_suffix(".damaged"))
                for kind in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + kind).unlink(missing_ok=True)
                return self._worked(work)
        except (sqlite3.OperationalError, OSError) as error:
            raise UsageError(self._refused(error)) from error

    def _worked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = self._connect()
        try:
            return work(db)
        finally:
            db.close()

    def _refused(self, error: Exception) -> str:
        return (
            f"{self.path}: the cache of parsed sentences cannot be used ({error}); free "
            "some space, or name another folder with --cache or CAPTIOUS_CACHE"
        )

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_PATIENCE)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(
                "CREATE TABLE IF NOT EXISTS parse "
                "(rowid INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB UNIQUE, data TEXT)"
            )
        except BaseException:  # a damaged file can also raise UnicodeDecodeError
            db.close()
            raise
        return db


def _find(db: sqlite3.Connection, texts: Sequence[str]) -> dict[str, str]:
    parses: dict[str, str] = {}
    for start in range(0, len(texts), _CHUNK):
        keys = {_key(t): t for t in texts[start : start + _CHUNK]}
        marks = ",".join("?" * len(keys))
        rows = db.execute(f"SELECT key, data FROM parse WHERE key IN ({marks})", [*keys])
        for key, data in rows:
            if key not in keys or not isinstance(data, str):
                raise sqlite3.DatabaseError("a row that is not a parse")
            parses[keys[key]] = data
    return parses


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
