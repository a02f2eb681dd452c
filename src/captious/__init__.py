"""captious judges image captions.

    >>> import captious
    >>> table = captious.score(["a dog runs", "a red bus"],
    ...                        references=[["a dog is running"], ["a red bus on a street"]])
    >>> f"{table.corpus['bleu_1']:.3f}"
    '0.428'

The public surface is the names in ``__all__``; everything heavy loads when it is used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from captious._version import __version__

if TYPE_CHECKING:
    from captious.api import compare, explain, load, metric, metrics, score
    from captious.compat.rewards import reward
    from captious.engine.job import ScoringJob
    from captious.engine.scorer import scorer
    from captious.engine.table import ScoreTable
    from captious.errors import CaptiousError
    from captious.serve.client import Client
    from captious.settings import Settings
    from captious.types import CaptionSet, Sample

__all__ = [
    "CaptionSet",
    "CaptiousError",
    "Client",
    "Sample",
    "ScoreTable",
    "ScoringJob",
    "Settings",
    "__version__",
    "compare",
    "explain",
    "load",
    "metric",
    "metrics",
    "reward",
    "score",
    "scorer",
]

_HOME = {
    "CaptionSet": "types",
    "CaptiousError": "errors",
    "Client": "serve.client",
    "Sample": "types",
    "ScoreTable": "engine.table",
    "ScoringJob": "engine.job",
    "Settings": "settings",
    "compare": "api",
    "explain": "api",
    "load": "api",
    "metric": "api",
    "reward": "compat.rewards",
    "score": "api",
    "scorer": "engine.scorer",
}


def __getattr__(name: str) -> Any:
    """Open the public names on first use, so that the import stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'captious' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"captious.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return __all__


class _Room(ModuleType):
    """The room ``captious.metrics``, which users call as a function: ``captious.metrics()``."""

    def __call__(self) -> list[str]:
        """Return the names of all metrics."""
        from captious.api import metrics

        return metrics()


class _Package(ModuleType):
    """The package itself: its name ``metrics`` is both a room and a function, always."""

    @property
    def metrics(self) -> Any:
        """The room, callable."""
        from importlib import import_module

        room = import_module("captious.metrics")
        room.__class__ = _Room
        return room

    @metrics.setter
    def metrics(self, module: Any) -> None:
        """Leave the module to ``sys.modules``, where imports find it."""


sys.modules[__name__].__class__ = _Package
