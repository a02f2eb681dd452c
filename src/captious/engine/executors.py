"""Who does the work on chunks: this process, or several. An executor is ``map(function, chunks)``.

Results come back in the order of the chunks. A function that is mapped is data (a frozen dataclass
with ``__call__``), so that it can travel; chunks are small and self-contained.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar

from captious import settings
from captious.errors import CaptiousError, UsageError
from captious.settings import Settings

_DEATHS = 2  # times that a worker may die at one item

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


class Processes:
    """Several processes of this machine; they stay for the next call until :meth:`close`.

    A worker that is killed is started again and gets its item once more, twice at most.

    Args:
        workers: how many; each computes on its share of the threads.
    """

    def __init__(self, workers: int = 2) -> None:
        if workers < 1:
            raise UsageError(f"at least one worker is needed, not {workers}")
        self.workers = workers
        self._crew: list[_Worker] = []
        weakref.finalize(self, _dismiss, self._crew)

    def __repr__(self) -> str:
        return f"Processes({self.workers})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Processes, (self.workers,)

    def close(self) -> None:
        """End the processes; a later call starts new ones."""
        _dismiss(self._crew)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Hand items out, a few ahead of the results; memory does not grow with the run."""
        chosen = settings.get()
        share = replace(chosen, threads=max(1, chosen.threads // self.workers), progress=False)
        while len(self._crew) < self.workers:
            self._crew.append(_Worker(share.threads))
        for worker in self._crew:
            worker.teach(share, function)
        source = enumerate(items)
        done: dict[int, R] = {}
        due, more = 0, True
        try:
            while True:
                while due in done:
                    yield done.pop(due)
                    due += 1
                idle = [worker for worker in self._crew if worker.at is None]
                if more and idle and len(done) < 2 * self.workers:
                    following = next(source, None)
                    if following is None:
                        more = False
                    else:
                        idle[0].give(*following)
                    continue
                busy = [worker for worker in self._crew if worker.at is not None]
                if not busy:
                    return
                ready = wait([worker.line for worker in busy])
                for worker in busy:
                    if worker.line in ready:
                        at, result = worker.take()
                        done[at] = result
        finally:
            if any(worker.at is not None for worker in self._crew):
                _dismiss(self._crew)  # what they are still at is of no use to anybody


class _Worker:
    """A process that is taught a function and then given items, one at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._taught: Any = None
        self.at: int | None = None
        self._item: Any = None
        self._start()

    def _start(self) -> None:
        spawn = get_context("spawn")
        self.line, other = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(other,))
        with threads_of_children(self._threads):
            self._process.start()
        other.close()

    def teach(self, chosen: Settings, function: Callable[[Any], Any]) -> None:
        self._taught = ("function", (chosen, function))
        self._send(self._taught)

    def give(self, at: int, item: Any) -> None:
        self.at, self._item, self._deaths = at, item, 0
        self._send(("item", item))

    def take(self) -> tuple[int, Any]:
        """Return number and result of the item; a worker that died begins it again."""
        while True:
            try:
                kind, result = self.line.recv()
            except (EOFError, OSError):
                self._again()
                continue
            at, self.at, self._item = int(self.at or 0), None, None
            if kind == "error":
                raise result
            return at, result

    def _send(self, message: Any) -> None:
        try:
            self.line.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._again()

    def _again(self) -> None:
        self._deaths = getattr(self, "_deaths", 0) + 1
        if self._deaths > _DEATHS:
            raise CaptiousError(
                f"a worker process was killed {self._deaths} times at the same part of the input, "
                "perhaps because memory ran out. Start again with fewer workers; with an output "
                "file, finished parts of costly metrics are not computed again."
            )
        self.end()
        self._start()
        if self._taught is not None:
            self.line.send(self._taught)
        if self.at is not None:
            self.line.send(("item", self._item))

    def end(self) -> None:
        self.line.close()
        self._process.terminate()
        self._process.join()


def _dismiss(crew: list[_Worker]) -> None:
    while crew:
        crew.pop().end()


def named(engine: str, workers: int | None = None, gpus: float = 0) -> Executor:
    """Return an executor by its name: ``local``, ``processes`` or ``ray``.

    Args:
        engine: the name.
        workers: how many; as many as there are cores (or as the cluster has) if None.
        gpus: for each worker of Ray, also a fraction.
    """
    if gpus and engine != "ray":
        raise UsageError("GPUs are shared out by Ray: --engine ray; elsewhere, --device cuda")
    if not gpus >= 0:
        raise UsageError(f"a worker gets 0 or more GPUs, or a fraction of one, not {gpus:g}")
    if engine == "local":
        if workers not in (None, 1):
            raise UsageError("several workers need --engine processes or --engine ray")
        return Local()
    if engine == "processes":
        return Processes(workers or os.cpu_count() or 1)
    if engine == "ray":
        from captious.engine.ray_cluster import Ray

        return Ray(workers, gpus)
    raise UsageError(f"no engine is called {engine!r}; there are: local, processes, ray")


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


def _serve(line: Connection) -> None:
    """Do what comes down the line until it is closed."""
    function: Callable[[Any], Any] | None = None
    with ExitStack() as stack:
        while True:
            try:
                kind, content = line.recv()
            except (EOFError, OSError, KeyboardInterrupt):
                return  # whoever started us is gone
            if kind == "function":
                stack.pop_all().close()
                chosen, function = content
                stack.enter_context(settings.use(chosen))
                continue
            try:
                if function is None:
                    raise RuntimeError("an item came before any function")
                message = ("result", function(content))
            except Exception as err:
                message = ("error", err)
            try:
                line.send(message)
            except (BrokenPipeError, ConnectionResetError):
                return
