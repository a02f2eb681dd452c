"""Settings: where things lie and how fast to work; active inside a ``with`` block.

Nothing here changes a number: what does is a parameter of a metric, evidence, or part of the job.

Defaults come from the environment (``CAPTIOUS_CACHE``, ``CAPTIOUS_DEVICE``, ``CAPTIOUS_THREADS``;
``CAPTIOUS_EMBEDDING_MEMORY`` and ``CAPTIOUS_EMBEDDING_CACHE`` are read by
:mod:`captious.models.embedding_cache`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from captious.errors import UsageError, did_you_mean


def _default_cache() -> Path:
    named = os.environ.get("CAPTIOUS_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "captious"
    except RuntimeError as error:
        raise UsageError(
            "this user has no home folder: say where the cache goes, with --cache FOLDER or the "
            "environment variable CAPTIOUS_CACHE"
        ) from error


def _default_threads() -> int:
    named = os.environ.get("CAPTIOUS_THREADS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@dataclass(frozen=True)
class Settings:
    """Where things lie and how hard to work.

    Attributes:
        cache_dir: converted tables, embeddings, region features.
        device: ``auto`` picks cuda, then mps, then cpu.
        threads: upper bound for worker threads or processes.
        download: whether a missing asset may be fetched from its home.
        progress: whether progress bars may be shown.
    """

    cache_dir: Path = field(default_factory=_default_cache)
    device: str = field(default_factory=lambda: os.environ.get("CAPTIOUS_DEVICE", "auto"))
    threads: int = field(default_factory=_default_threads)
    download: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise UsageError(f"at least one thread is needed, not {self.threads}")


_active: ContextVar[Settings | None] = ContextVar("captious_settings", default=None)


def get() -> Settings:
    """Return the active settings (fresh defaults outside a ``with use(...)`` block)."""
    return _active.get() or Settings()


_MEANT = {"metric": "metrics", "reference": "references", "refs": "references", "image": "images"}


@contextmanager
def use(settings: Settings | None = None, **changes: Any) -> Iterator[Settings]:
    """Make settings active inside the block; ``changes`` replace single fields."""
    known = [f.name for f in fields(Settings)]
    wrong = next((name for name in changes if name not in known), None)
    if wrong is not None:
        hint = did_you_mean(wrong, [*known, *_MEANT.values()], _MEANT)
        raise UsageError(
            f"there is no argument or setting {wrong!r}.{hint} Settings are: {', '.join(known)}."
        )
    chosen = replace(settings or get(), **changes)
    token = _active.set(chosen)
    try:
        yield chosen
    finally:
        _active.reset(token)


def torch_device() -> str:
    """Return the torch device that the active settings ask for."""
    import torch

    device = get().device
    if device != "auto":
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise UsageError(
                f"the device {device!r} is not available here; use cpu, cuda, mps or auto"
            ) from error
        return device
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"
