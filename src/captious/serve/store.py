"""Runs: a SQLite file that says what each is, and a folder per run with its files.

A run's folder holds what was uploaded (under names of our own), the stored table
(``scores.parquet``) and what the pages show (``contents.json``).
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from captious.errors import InputError, UsageError

WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"

_TABLE = """
CREATE TABLE IF NOT EXISTS runs (
  id TEXT PRIMARY KEY, title TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
  created REAL NOT NULL, finished REAL, metrics TEXT NOT NULL, job TEXT NOT NULL,
  captions INTEGER, systems TEXT NOT NULL DEFAULT '[]',
  what TEXT NOT NULL DEFAULT '', done INTEGER NOT NULL DEFAULT 0, total INTEGER,
  error TEXT NOT NULL DEFAULT '')
"""


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        id: its name in addresses; no part of it comes from outside.
        title: what people call it.
        kind: ``score`` (uploaded captions), ``compare`` (several runs side by side) or ``table``
            (a table that the operator named).
        state: waiting, running, done, failed or cancelled.
        created: when, in seconds since 1970.
        finished: when, or None.
        metrics: what is computed.
        job: what the worker reads; file names are our own.
        captions: how many, once they are read.
        systems: their names, once they are read.
        what: what is being done.
        done: how much of it.
        total: of how much.
        error: why it failed.
    """

    id: str
    title: str
    kind: str
    state: str
    created: float
    metrics: list[str]
    job: dict[str, Any]
    finished: float | None = None
    captions: int | None = None
    systems: list[str] = field(default_factory=list)
    what: str = ""
    done: int = 0
    total: int | None = None
    error: str = ""

    def plain(self) -> dict[str, Any]:
        """Return what callers may see."""
        return {k: v for k, v in asdict(self).items() if k != "job"}


class Store:
    """All runs of a service.

    Args:
        folder: where the database and the folders of the runs lie; made if absent.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
            with self._open() as base:
                base.execute("PRAGMA journal_mode=WAL")
                base.execute(_TABLE)
        except (OSError, sqlite3.Error) as err:
            raise UsageError(
                f"{folder}: runs cannot be kept here ({err}); name another place with --data FOLDER"
            ) from err

    def path(self, run: str) -> Path:
        """Return the folder of a run."""
        return self.folder / "runs" / run

    def new(self) -> tuple[str, Path]:
        """Return a fresh id and its folder, which is there and empty."""
        name = secrets.token_hex(8)
        folder = self.path(name)
        folder.mkdir()
        return name, folder

    def add(self, run: Run) -> None:
        """Keep a run."""
        with self._open() as base:
            base.execute(
                "INSERT INTO runs (id, title, kind, state, created, metrics, job) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run.id, run.title, run.kind, run.state, run.created, json.dumps(run.metrics),
                 json.dumps(run.job)),
            )  # fmt: skip

    def get(self, run: str) -> Run:
        """Return a run.

        Raises:
            InputError: there is none of that id.
        """
        with self._open() as base:
            row = base.execute("SELECT * FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None:
            raise InputError(f"there is no run {run!r}")
        return _run(row)

    def all(self) -> list[Run]:
        """Return all runs, the newest first."""
        with self._open() as base:
            rows = base.execute("SELECT * FROM runs ORDER BY created DESC").fetchall()
        return [_run(row) for row in rows]

    def next(self) -> Run | None:
        """Return the run that has waited longest."""
        with self._open() as base:
            row = base.execute(
                "SELECT * FROM runs WHERE state = ? ORDER BY created LIMIT 1", (WAITING,)
            ).fetchone()
        return None if row is None else _run(row)

    def change(self, run: str, unless: str = "", **fields: Any) -> bool:
        """Change fields of a run, unless its state is ``unless``; tell whether it was changed."""
        fields = {k: json.dumps(v) if isinstance(v, list) else v for k, v in fields.items()}
        named = ", ".join(f"{name} = ?" for name in fields)
        with self._open() as base:
            done = base.execute(
                f"UPDATE runs SET {named} WHERE id = ? AND state != ?",
                (*fields.values(), run, unless),
            )
            return done.rowcount > 0

    def recover(self) -> int:
        """Put back what was being worked on when the service ended; return how many."""
        with self._open() as base:
            done = base.execute("UPDATE runs SET state = ? WHERE state = ?", (WAITING, RUNNING))
            return done.rowcount

    def remove(self, run: str) -> None:
        """Forget a run and delete its files."""
        with self._open() as base:
            base.execute("DELETE FROM runs WHERE id = ?", (run,))
        shutil.rmtree(self.path(run), ignore_errors=True)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        base = sqlite3.connect(self.folder / "runs.sqlite3", timeout=20)
        base.row_factory = sqlite3.Row
        try:
            with base:
                yield base
        finally:
            base.close()


def waiting(store: Store, folder: str, title: str, kind: str, job: dict[str, Any]) -> Run:
    """Add a run that waits to be worked on, and return it."""
    run = Run(folder, title, kind, WAITING, time.time(), list(job.get("metrics", [])), job)
    store.add(run)
    return run


def _run(row: sqlite3.Row) -> Run:
    held = dict(row)
    for name in ("metrics", "job", "systems"):
        held[name] = json.loads(held[name])
    return Run(**held)
