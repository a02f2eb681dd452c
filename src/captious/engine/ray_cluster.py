"""The executor that works on a Ray cluster: actors that are taught a function once.

With the address of a cluster in ``RAY_ADDRESS`` (or after ``ray.init``) its actors are used, else a
local cluster is started. An actor that dies is started again, and its item is done once more.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, TypeVar

from captious import settings
from captious.errors import CaptiousError, MissingExtra
from captious.settings import Settings

T = TypeVar("T")
R = TypeVar("R")
_RETRIES = 2
_LOG = logging.getLogger("captious")


class Ray:
    """Actors of a Ray cluster.

    Args:
        workers: how many actors; as many as the cluster has CPUs if None.
        gpus: GPUs per actor, also a fraction; models of an actor are loaded once.
    """

    def __init__(self, workers: int | None = None, gpus: float = 0) -> None:
        if find_spec("ray") is None:
            raise MissingExtra("ray", "ray", "--engine ray")
        import ray

        if not ray.is_initialized():
            address = os.environ.get("RAY_ADDRESS")
            os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
            ray.init(
                address=address,
                num_cpus=None if address else workers,
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level="error",
            )
        self._ray = ray
        self._gpus = gpus
        there = ray.cluster_resources()
        most = there.get("CPU", 1)
        if gpus:
            most = min(most, there.get("GPU", 0) / gpus)
        self.workers = workers or max(1, int(most))
        if self.workers > most:
            _LOG.warning(
                "the Ray cluster has %g CPUs and %g GPUs now, room for %d of %d workers; "
                "the others wait until there is more",
                there.get("CPU", 0), there.get("GPU", 0), int(most), self.workers,
            )  # fmt: skip

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Hand items out, a few ahead of the results, and yield the results in their order."""
        chosen = settings.get()
        share = replace(chosen, threads=max(1, chosen.threads // self.workers), progress=False)
        actor = self._ray.remote(_Actor).options(
            num_cpus=1, num_gpus=self._gpus, max_restarts=_RETRIES, max_task_retries=_RETRIES
        )
        taught = self._ray.put((share, function))
        actors = [actor.remote(taught) for _ in range(self.workers)]
        waiting: deque[Any] = deque()
        try:
            for at, item in enumerate(items):
                waiting.append(actors[at % len(actors)].work.remote(item))
                if len(waiting) >= 2 * self.workers:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            for held in actors:
                self._ray.kill(held)

    def close(self) -> None:
        """Nothing stays: actors end with the call that started them."""

    def _result(self, future: Any) -> Any:
        try:
            return self._ray.get(future)
        except self._ray.exceptions.RayTaskError as err:
            if isinstance(err.cause, CaptiousError):
                raise err.cause from None
            raise
        except self._ray.exceptions.RayActorError as err:
            if "creation task" in str(err):
                why = [line for line in str(err).splitlines() if "Error" in line]
                raise CaptiousError(
                    f"a worker cannot start on its node: {why[-1].strip() if why else err}. Every "
                    "node of the cluster needs captious and the packages of the metrics."
                ) from err
            raise CaptiousError(
                f"a Ray actor died {_RETRIES + 1} times at the same part of the input, perhaps "
                "because memory ran out. Start again with fewer workers; finished shards are kept."
            ) from err


class _Actor:
    """Holds a function, and the models that it loads."""

    def __init__(self, taught: tuple[Settings, Callable[[Any], Any]]) -> None:
        chosen, self._function = taught
        self._stack = ExitStack()
        self._stack.enter_context(settings.use(chosen))

    def work(self, item: Any) -> Any:
        return self._function(item)
