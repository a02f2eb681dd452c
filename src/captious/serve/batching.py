"""Requests that come at the same time are scored together.

While a batch is being scored, requests wait; the next batch takes as many of them as there is
room for. Nobody waits for a batch to fill up, and under load the cost of a call is shared. A
caption gets the number that it gets alone: where a metric counts facts on the captions of a call
(``df='corpus'``), its requests are scored one by one.
"""

from __future__ import annotations

import contextvars
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from typing import Any

from captious.engine.scorer import Scorer, Scores
from captious.serve.limits import Busy, Limits, Stopped

log = logging.getLogger("captious")

REMEMBERED = 256
"""Lists of references that stay counted per scorer: few, since callers are strangers."""


@dataclass(frozen=True)
class Call:
    """What one request asks of a scorer: a row per caption, None where nothing is given."""

    captions: Sequence[str]
    references: Sequence[Sequence[str]]
    images: Sequence[bytes | None]
    objects: Sequence[Sequence[str] | None]
    scores: Future[Scores] = field(default_factory=Future)

    @property
    def given(self) -> tuple[bool, bool, bool]:
        """Whether there are references, images, labels: a call without them may be refused."""
        return any(self.references), _any(self.images), _any(self.objects)


class Batcher:
    """One prepared scorer, one thread, and the requests that wait for it."""

    def __init__(
        self, scorer: Scorer, limits: Limits, measured: Callable[[int, int], None] | None = None
    ) -> None:
        self.scorer, self._limits = scorer, limits
        self._measured = measured or (lambda requests, captions: None)
        self._calls: deque[Call] = deque()
        self._captions = 0
        self._changed = Condition()
        self._closed = False
        context = contextvars.copy_context()  # settings are those of whoever made the batcher
        self._thread = Thread(target=context.run, args=(self._work,), daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Captions that wait."""
        return self._captions

    def submit(self, call: Call) -> Future[Scores]:
        """Take a request and return what will hold its scores.

        Raises:
            Busy: too much is waiting.
            Stopped: the service is being stopped.
        """
        with self._changed:
            if self._closed:
                raise Stopped("the service is being stopped")
            waiting = self._captions + len(call.captions)
            if self._calls and waiting > self._limits.waiting:
                raise Busy(f"{self._captions:,} captions are waiting; try again in a second")
            self._calls.append(call)
            self._captions = waiting
            self._changed.notify()
        return call.scores

    def close(self, wait: bool = True) -> None:
        """Take nothing more; finish what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if wait:
            self._thread.join()

    def _work(self) -> None:
        while calls := self._next():
            self._measured(len(calls), sum(len(call.captions) for call in calls))
            if len(calls) > 1:
                try:
                    self._score(calls)
                    continue
                except Exception as err:  # one of them spoils the batch: each for itself
                    log.debug("a batch is scored call by call: %s", err)
            for call in calls:
                try:
                    self._score([call])
                except Exception as err:  # whatever it is, its caller is told and no one else
                    if not call.scores.done():
                        call.scores.set_exception(err)

    def _next(self) -> list[Call]:
        """Wait for requests; an empty list says that there will be none."""
        with self._changed:
            while not self._calls and not self._closed:
                self._changed.wait()
            taken: list[Call] = []
            size = 0
            most = self._limits.together if self.scorer.steady else 0
            while self._calls:
                call = self._calls[0]
                full = size + len(call.captions) > most
                if taken and (full or call.given != taken[0].given):
                    break
                self._calls.popleft()
                self._captions -= len(call.captions)
                if call.scores.set_running_or_notify_cancel():  # its caller may have gone
                    taken.append(call)
                    size += len(call.captions)
            return taken or ([] if self._closed and not self._calls else self._next())

    def _score(self, calls: list[Call]) -> None:
        captions = [c for call in calls for c in call.captions]
        ids = list(range(len(captions)))
        scores = self.scorer(
            captions,
            [list(r) for call in calls for r in call.references],
            images=[i for call in calls for i in call.images] if calls[0].given[1] else None,
            objects=[o for call in calls for o in call.objects] if calls[0].given[2] else None,
            ids=ids,
        )
        start = 0
        for call in calls:
            stop = start + len(call.captions)
            if not call.scores.done():
                call.scores.set_result(scores.part(start, stop))
            start = stop


def _any(rows: Sequence[Any]) -> bool:
    return any(row is not None for row in rows)


class Batchers:
    """Prepared scorers by their metrics; those that were asked for longest ago are dropped."""

    def __init__(self, limits: Limits, measured: Callable[[int, int], None] | None = None) -> None:
        self._limits, self._measured = limits, measured
        self._held: OrderedDict[tuple[tuple[str, ...], str], Batcher] = OrderedDict()
        self._lock, self._making = Lock(), Lock()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Captions that wait, over all scorers."""
        with self._lock:
            return sum(batcher.waiting for batcher in self._held.values())

    def ready(self, metrics: Sequence[str], df: str) -> Batcher | None:
        """Return the batcher of these metrics if it is prepared."""
        with self._lock:
            key = (tuple(metrics), df)
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def prepare(self, metrics: Sequence[str], df: str) -> Batcher:
        """Return the batcher of these metrics; making it may take seconds."""
        with self._making:
            made = self.ready(metrics, df)
            if made is not None:
                return made
            made = Batcher(
                Scorer(tuple(metrics), df=df, remember=REMEMBERED), self._limits, self._measured
            )
            with self._lock:
                self._held[tuple(metrics), df] = made
                dropped = [
                    self._held.popitem(last=False)[1]
                    for _ in range(len(self._held) - self._limits.prepared)
                ]
        for batcher in dropped:
            batcher.close(wait=False)
        return made

    def submit(self, metrics: Sequence[str], df: str, call: Call) -> Future[Scores]:
        """Prepare the metrics where that is not done, and take a request for them."""
        while True:
            batcher = self.ready(metrics, df) or self.prepare(metrics, df)
            try:
                return batcher.submit(call)
            except Stopped:  # it was dropped in between, or the service stops
                if self._closed:
                    raise

    def close(self) -> None:
        """Finish what waits, take nothing more."""
        self._closed = True
        with self._lock:
            held = list(self._held.values())
        for batcher in held:
            batcher.close()
