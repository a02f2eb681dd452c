"""Who does the work on chunks: this process, or several. An executor is ``map(function, chunks)``.

Results come back in the order of the chunks. A function that is mapped is data (a frozen dataclass
with ``__call__``), so that it can travel; chunks are small and self-contained.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from captious import settings
from captious.errors import CaptiousError, UsageError
from captious.settings import Settings

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """What the engine needs of whoever does the work."""

    @property
    def workers(self) -> int:
        """How many chunks are worked on at once."""
        ...

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield ``function(item)`` for every item, in their order."""
        ...


@dataclass(frozen=True)
class Local:
    """This process, one chunk after the other."""

    workers: int = 1

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the results as they are made."""
        return (function(item) for item in items)


@dataclass(frozen=True)
class Processes:
    """Several processes of this machine.

    Attributes:
        workers: how many; each computes on its share of the threads.
    """

    workers: int = 2

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise UsageError(f"at least one worker is needed, not {self.workers}")

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Hand items out, a few ahead of the workers; memory does not grow with the run."""
        chosen = settings.get()
        share = replace(chosen, threads=max(1, chosen.threads // self.workers), progress=False)
        waiting: deque[Future[R]] = deque()
        source = iter(items)
        with (
            threads_of_children(share.threads),
            ProcessPoolExecutor(
                self.workers, get_context("spawn"), _start, (share, function)
            ) as pool,
        ):
            try:
                for item in source:
                    waiting.append(pool.submit(_work, item))
                    if len(waiting) >= 2 * self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BrokenProcessPool as err:
                raise CaptiousError(
                    "a worker process was killed, perhaps because memory ran out. Start again with "
                    "fewer workers; with an output file, finished chunks are not computed again."
                ) from err
            finally:
                for future in waiting:
                    future.cancel()


def named(engine: str, workers: int | None = None) -> Executor:
    """Return an executor by its name: ``local``, ``processes`` or ``ray``.

    Args:
        engine: the name.
        workers: how many; as many as there are cores (or as the cluster has) if None.
    """
    if engine == "local":
        if workers not in (None, 1):
            raise UsageError("several workers need --engine processes or --engine ray")
        return Local()
    if engine == "processes":
        return Processes(workers or os.cpu_count() or 1)
    raise UsageError(f"no engine is called {engine!r}; there are: local, processes")


@contextmanager
def threads_of_children(count: int) -> Iterator[None]:
    """Let children of this block compute with so many threads."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


# -- in the worker --------------------------------------------------------------------------------

_here: dict[str, Any] = {}


def _start(chosen: Settings, function: Callable[[Any], Any]) -> None:
    stack = ExitStack()
    stack.enter_context(settings.use(chosen))  # for the life of this process
    _here.update(stack=stack, function=function)


def _work(item: Any) -> Any:
    return _here["function"](item)
