"""A progress bar on stderr: only on a terminal, only for work longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from captious import settings

if TYPE_CHECKING:
    import rich.progress

T = TypeVar("T")
_PATIENCE = 2.0

Listener = Callable[[str, int, int | None], None]
"""Hears what is being done, how much is done, and of how much."""

_listener: ContextVar[Listener | None] = ContextVar("captious_progress", default=None)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Tell a function, too, how far work inside the block is: at most ten times a second."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Progress:
    """Counts finished units and draws a bar at most ten times a second.

    Example:
        >>> with Progress("parsing", total=3) as bar:
        ...     for _ in range(3):
        ...         bar.advance()
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "") -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._start = self._last = time.monotonic()
        self._task: rich.progress.TaskID | None = None
        self._on = settings.get().progress and sys.stderr.isatty()
        self._listener = _listener.get()
        self._told = 0.0

    def __enter__(self) -> Progress:
        self._tell(always=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._tell(always=True)
        if self._task is not None:
            _screen.remove(self._task)
            self._task = None

    def advance(self, n: int = 1, note: str = "") -> None:
        """Count ``n`` more units as done; ``note`` is shown behind the bar."""
        self.done += n
        self._tell()
        if not self._on:
            return
        now = time.monotonic()
        if now - self._start < _PATIENCE or now - self._last < 0.1:
            return
        self._last = now
        if self._task is None:
            self._task = _screen.add(self.what, self.total)
        _screen.update(self._task, self.done, f"{self._speed(now)} {note}".rstrip())

    def _speed(self, now: float) -> str:
        rate = self.done / (now - self._start)
        told = f"{self.done:,}"
        if self.total:
            told += f"/{self.total:,}"
        told += f"{self.unit and ' ' + self.unit} {rate:,.0f}/s"
        # A first unit that waited for a model says nothing about the others.
        steady = now - self._start > 5 * _PATIENCE or self.done >= (self.total or 0) / 20
        if self.total and rate and steady:
            told += f", {_span((self.total - self.done) / rate)} left"
        return told

    def _tell(self, always: bool = False) -> None:
        now = time.monotonic()
        if self._listener is not None and (always or now - self._told > 0.1):
            self._told = now
            self._listener(self.what, self.done, self.total)


class _Screen:
    """The one live display: bars of work inside of work stand below each other."""

    def __init__(self) -> None:
        self._bars: rich.progress.Progress | None = None

    def add(self, what: str, total: int | None) -> rich.progress.TaskID:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        if self._bars is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(24),
                TextColumn("{task.fields[told]}", markup=False),
            )
            console = Console(file=sys.stderr)
            self._bars = Progress(*columns, console=console, transient=True, auto_refresh=False)
            self._bars.start()
        return self._bars.add_task(what, total=total, told="")

    def update(self, task: rich.progress.TaskID, done: int, told: str) -> None:
        if self._bars is not None:
            self._bars.update(task, completed=done, told=told, refresh=True)

    def remove(self, task: rich.progress.TaskID) -> None:
        if self._bars is None:
            return
        self._bars.remove_task(task)
        if not self._bars.tasks:
            self._bars.stop()
            self._bars = None


_screen = _Screen()


def _span(seconds: float) -> str:
    """Say a time as people do.

    >>> _span(42), _span(4000), _span(1143432)
    ('42 s', '67 min', '318 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def track(items: Iterable[T], what: str, total: int | None = None, unit: str = "") -> Iterator[T]:
    """Yield the items and show how far they are."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(what, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()
