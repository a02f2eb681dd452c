"""A plain Python function as a metric: ``captious.score(..., metrics=[my_function])``.

The function is called with one caption and what its signature asks for by name::

    def brevity(caption, references):
        return min(1.0, len(caption) / min(map(len, references)))

Known names are ``caption`` (or any name in the first place), ``references`` (any name in the second
place), ``image`` (its name or path) and ``objects`` (its labels). It returns a number, or None
where there is no value. The corpus value is the mean.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from captious.errors import UsageError
from captious.metrics.base import Column, Metric, Need, Stats
from captious.types import CaptionSet

_NAMED = {"references": Need.REFERENCES, "image": Need.IMAGE_PIXELS, "objects": Need.IMAGE_OBJECTS}


@dataclass(frozen=True)
class FunctionMetric(Metric):
    """A metric around a function of one caption.

    Args:
        function: called as ``function(caption, references, image=..., objects=...)`` with as many
            of these as it takes.
    """

    function: Callable[..., float | None]

    def __post_init__(self) -> None:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        name = re.sub(r"\W+", "_", name).strip("_") or "function"
        column = Column(name, -math.inf, math.inf, "given by a function of the user")
        needs = frozenset(_NAMED[what] for what in self.takes if what != "caption")
        for what, value in (("name", name), ("columns", (column,)), ("needs", needs)):
            object.__setattr__(self, what, value)

    @property
    def takes(self) -> tuple[str, ...]:
        """What is handed to the function."""
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):
            return ("caption", "references")
        asked = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        out = []
        for at, parameter in enumerate(asked):
            if parameter.name in _NAMED:
                out.append(parameter.name)
            elif at < 2 and parameter.default is parameter.empty:
                out.append(("caption", "references")[at])
            elif parameter.default is parameter.empty:
                raise UsageError(
                    f"the function {self.function!r} asks for {parameter.name!r}; a metric is "
                    f"given caption, references, image and objects"
                )
        if not out or out[0] != "caption":
            raise UsageError(f"the function {self.function!r} takes no caption")
        return tuple(out)

    def parameters(self) -> dict[str, Any]:
        """Return nothing: the function is its own description."""
        return {}

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Call the function for every caption."""
        names = self.takes
        rows = np.full((len(samples), 1), np.nan)
        reasons: dict[int, str] = {}
        for i, sample in enumerate(samples):
            given: dict[str, Any] = {
                "caption": sample.caption,
                "references": list(sample.references),
                "image": sample.image,
                "objects": None if sample.objects is None else list(sample.objects),
            }
            value = self.function(*(given[what] for what in names))
            if value is None:
                reasons[i] = f"{self.name} returned None"
                continue
            try:
                rows[i, 0] = float(value)
            except (TypeError, ValueError) as err:
                raise UsageError(
                    f"{self.name} returned {type(value).__name__} for the caption "
                    f"{sample.id!r}; a metric returns a number, or None for no value"
                ) from err
            if math.isnan(rows[i, 0]):
                reasons[i] = f"{self.name} returned NaN"
        return Stats(rows, reasons)

    def context_digest(self, context: Any) -> None:
        """Say that no result may be kept: what a function does is not known."""
        return None

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name where the function stands."""
        home = getattr(self.function, "__module__", "?")
        return {"function": f"{home}.{getattr(self.function, '__qualname__', self.name)}"}
