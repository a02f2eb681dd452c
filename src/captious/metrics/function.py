"""A plain Python function as a metric: ``captious.score(..., metrics=[my_function])``.

The function is called with one caption and what its signature asks for by name::

    def brevity(caption, references):
        return min(1.0, len(caption) / min(map(len, references)))

Known names are ``caption`` (or any name in the first place), ``references`` (any name in the second
place), ``image`` (its name or path) and ``objects`` (its labels). It returns a number, or None
where there is no value. The corpus value is the mean.

Where the first parameter is a plural (``captions``, ``predictions``), the function is called once
with lists of everything and returns one value per caption.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError, UsageError
from captious.metrics.base import Column, Metric, Need, Stats
from captious.types import CaptionSet

_NAMED = {"references": Need.REFERENCES, "image": Need.IMAGE_PIXELS, "objects": Need.IMAGE_OBJECTS}
_SYNONYMS = {"images": "image"} | dict.fromkeys(
    ("refs", "reference", "mult_references", "targets"), "references"
)


@dataclass(frozen=True)
class FunctionMetric(Metric):
    """A metric around a function of one caption.

    Args:
        function: called as ``function(caption, references, image, objects)`` with as many of these
            as it takes, or once with lists of them.
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        name = re.sub(r"\W+", "_", name).strip("_") or "function"
        column = Column(name, -math.inf, math.inf, "given by a function of the user")
        needs = frozenset(_NAMED[what] for what in self.takes if what != "caption")
        for what, value in (("name", name), ("columns", (column,)), ("needs", needs)):
            object.__setattr__(self, what, value)

    @property
    def batch(self) -> int:  # type: ignore[override]
        """Rows per call; a function of all captions is never given a part of them."""
        return sys.maxsize if self.takes_lists else Metric.batch

    @property
    def takes_lists(self) -> bool:
        """Whether the function is called once, with lists."""
        first = next(iter(_parameters(self.function)), "caption")
        return first.endswith("s") and not first.endswith(("is", "ss"))

    @property
    def takes(self) -> tuple[str, ...]:
        """What is handed to the function."""
        kinds = []
        for place, (name, required) in enumerate(_parameters(self.function).items()):
            known = _SYNONYMS.get(name, name)
            if known in _NAMED and place:
                kinds.append(known)
            elif place == 0 or (place == 1 and required):
                kinds.append(("caption", "references")[place])
            elif required:
                raise UsageError(
                    f"the function {self.function!r} asks for {name!r}; a metric is given "
                    f"caption, references, image and objects"
                )
        if not kinds:
            raise UsageError(
                f"the function {self.function!r} takes no argument; it must take a caption"
            )
        return tuple(kinds)

    def parameters(self) -> dict[str, Any]:
        """Return nothing: the function is its own description."""
        return {}

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Call the function for every caption, or once for all of them."""
        columns = [_column(kind, samples) for kind in self.takes]
        if self.takes_lists:
            values: Any = self.function(*columns)
            if not isinstance(values, Sequence | np.ndarray) or len(values) != len(samples):
                size = f"{len(values):,}" if hasattr(values, "__len__") else repr(values)
                raise InputError(
                    f"{self.name}() must return one number per caption: there are "
                    f"{len(samples):,} captions, it returned {size}"
                )
        else:
            values = []
            for row, arguments in enumerate(zip(*columns, strict=True)):
                try:
                    values.append(self.function(*arguments))
                except Exception as err:
                    err.add_note(f"{self.name}() was called for the caption {samples.ids[row]!r}")
                    raise
        rows = np.full((len(samples), 1), np.nan)
        reasons: dict[int, str] = {}
        for row, value in enumerate(values):
            if value is None:
                reasons[row] = f"{self.name} returned None"
                continue
            try:
                rows[row, 0] = float(value)
            except (TypeError, ValueError) as err:
                raise UsageError(
                    f"{self.name}() must return one number per caption, or None for no value; it "
                    f"returned {type(value).__name__} for the caption {str(samples.ids[row])!r}"
                ) from err
            if math.isnan(rows[row, 0]):
                reasons[row] = f"{self.name} returned NaN"
        return Stats(rows, reasons)

    def context_digest(self, context: Any) -> None:
        """Say that no result may be kept: what a function does is not known."""
        return None

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name where the function stands."""
        home = getattr(self.function, "__module__", "?")
        return {"function": f"{home}.{getattr(self.function, '__qualname__', self.name)}"}


def function_in_file(text: str) -> Callable[..., Any]:
    """Return the function that ``path.py:name`` names; the file is run, as the user asks for.

    Raises:
        InputError: there is no such file.
        UsageError: it has no such function.
    """
    where, _, name = text.rpartition(":")
    path = Path(where)
    if not path.is_file():
        raise InputError(f"there is no file {path} (from {text!r})")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as Python")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{path} has no function {name!r}")
    return function


def _parameters(function: Callable[..., Any]) -> dict[str, bool]:
    """Return the names that a function takes, and whether each is required."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in
        return {"caption": True, "references": True}
    return {
        p.name: p.default is p.empty
        for p in parameters
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


def _column(kind: str, samples: CaptionSet) -> list[Any]:
    """Return what a function is given of every caption."""
    if kind == "caption":
        return samples.captions()
    if kind == "references":
        return [list(texts) for texts in samples.references()]
    if kind == "image":
        return samples.images.tolist()
    if samples.objects is None:
        return [None] * len(samples)
    return [None if labels is None else list(labels) for labels in samples.objects]
