"""The queue of runs: one worker process after the other, which can be stopped at any time."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from typing import Any

from captious import settings
from captious.io import files
from captious.serve.limits import Busy, Limits
from captious.serve.store import CANCELLED, DONE, FAILED, RUNNING, WAITING, Run, Store, waiting

log = logging.getLogger("captious")


class Jobs:
    """Works on the runs that wait, in a thread and processes of its own."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store, self._limits = store, limits
        self._cache = str(settings.get().cache_dir.absolute())
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._child: tuple[str, subprocess.Popen[bytes]] | None = None
        self._closed = False
        put_back = store.recover()
        if put_back:
            log.info("interrupted runs go on: %d", put_back)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Refuse a further run where too many wait.

        Raises:
            Busy: too many wait.
        """
        held = sum(run.state == WAITING for run in self.store.all())
        if held >= self._limits.jobs:
            raise Busy(f"{held} runs are waiting; try again when one is done")

    def add(self, name: str, title: str, kind: str, job: dict[str, Any]) -> Run:
        """Take a run whose folder is ready."""
        whole = job | {"kind": kind, "title": title, "cache": self._cache,
                       "rows": self._limits.rows}  # fmt: skip
        with files.replacing(self.store.path(name) / "job.json") as file:
            json.dump(whole, file)
        run = waiting(self.store, name, title, kind, job)
        self._wake.set()
        return run

    def cancel(self, name: str) -> None:
        """Stop a run, or take it out of the queue; what is finished of it stays in the cache."""
        with self._lock:
            self.store.change(name, unless=DONE, state=CANCELLED, finished=time.time())
            if self._child is not None and self._child[0] == name:
                self._child[1].kill()

    def again(self, name: str) -> None:
        """Let a run that was cancelled or failed wait once more."""
        self.store.change(name, unless=DONE, state=WAITING, error="", what="", done=0, total=None)
        self._wake.set()

    def close(self) -> None:
        """Stop; the run that is being worked on goes on at the next start."""
        with self._lock:
            self._closed = True
            if self._child is not None:
                self._child[1].kill()
        self._wake.set()
        self._thread.join(20)

    def _work(self) -> None:
        while not self._closed:
            self._wake.clear()
            run = self.store.next()
            if run is None:
                self._wake.wait(5)
                continue
            try:
                self._run(run)
            except Exception:  # a run must not end the queue
                log.exception("the run %s failed", run.id)
                self.store.change(run.id, state=FAILED, error="an error of the service")

    def _run(self, run: Run) -> None:
        with self._lock:
            if self._closed or self.store.get(run.id).state != WAITING:
                return
            child = subprocess.Popen(
                [sys.executable, "-m", "captious.serve.worker", str(self.store.path(run.id))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            self._child = run.id, child
            self.store.change(run.id, state=RUNNING, what="starting", done=0, total=None)
        told: dict[str, Any] = {}
        complaints: list[bytes] = []
        listener = threading.Thread(target=lambda: complaints.append(_last(child.stderr)))
        listener.start()
        kept = 0.0
        for line in child.stdout or ():
            facts = json.loads(line)
            told |= facts
            if "what" in facts and time.monotonic() - kept > 0.15:
                kept = time.monotonic()
                self.store.change(run.id, unless=CANCELLED, **facts)
        code = child.wait()
        listener.join()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
        with self._lock:
            self._child = None
            if self._closed and code != 0:
                self.store.change(run.id, unless=CANCELLED, state=WAITING)
                return
        self._finish(run.id, code, told, b"".join(complaints))

    def _finish(self, name: str, code: int, told: dict[str, Any], complaint: bytes) -> None:
        end = time.time()
        if code == 0:
            # A stored table says itself what it holds; of other runs it is known as asked for.
            metrics = self.store.get(name).metrics or told["metrics"]
            self.store.change(name, unless=CANCELLED, state=DONE, finished=end, what="",
                              captions=told["captions"], systems=told["systems"],
                              metrics=metrics)  # fmt: skip
            return
        error = told.get("error")
        if error is None:
            log.error("the worker of the run %s ended with %d: %s", name, code,
                      complaint.decode("utf-8", "replace"))  # fmt: skip
            error = "an error of the service; see its log"
        self.store.change(name, unless=CANCELLED, state=FAILED, finished=end, error=error)


def _last(stream: Any, size: int = 20_000) -> bytes:
    """Read a stream to its end and return the last of it."""
    kept = b""
    while part := stream.read(4096):
        kept = (kept + part)[-size:]
    return kept
