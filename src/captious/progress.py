"""A progress line on stderr: only on a terminal, only for work longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TypeVar

from captious import settings

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
    """Counts finished units and redraws one line at most ten times a second.

    Example:
        >>> with Progress("parsing", total=3) as bar:
        ...     for _ in range(3):
        ...         bar.advance()
    """

    def __init__(self, what: str, total: int | None = None, unit: str = "") -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._start = self._last = time.monotonic()
        self._drawn = False
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
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, n: int = 1, note: str = "") -> None:
        """Count ``n`` more units as done; ``note`` is shown behind the bar."""
        self.done += n
        self._tell()
        if not self._on:
            return
        now = time.monotonic()
        if now - self._start < _PATIENCE or now - self._last < 0.1:
            return
        self._last, self._drawn = now, True
        rate = self.done / (now - self._start)
        if self.total:
            filled = int(24 * min(1.0, self.done / self.total))
            left = (self.total - self.done) / rate if rate else 0.0
            line = f"{self.what} [{'#' * filled}{'.' * (24 - filled)}] {self.done:,}/{self.total:,}"
            line += f"{self.unit and ' ' + self.unit} {rate:,.0f}/s"
            # A first unit that waited for a model says nothing about the others.
            if now - self._start > 5 * _PATIENCE or self.done >= self.total / 20:
                line += f", {_span(left)} left"
        else:
            line = f"{self.what} {self.done:,}{self.unit and ' ' + self.unit} {rate:,.0f}/s"
        sys.stderr.write("\r\x1b[K" + line + (f" {note}" if note else ""))
        sys.stderr.flush()

    def _tell(self, always: bool = False) -> None:
        now = time.monotonic()
        if self._listener is not None and (always or now - self._told > 0.1):
            self._told = now
            self._listener(self.what, self.done, self.total)


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
