"""Functions in two forms: plain Python, and compiled by numba once there is much to do.

Loading numba and its compiled code takes longer than a handful of sentences needs in plain Python,
and the very first compilation takes seconds. So the amount of work decides.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from types import FunctionType, SimpleNamespace
from typing import Any


class Kernels:
    """A module's functions, compiled together on demand.

    Args:
        space: the ``globals()`` of the module.
        names: its functions that call each other.
        small: the amount of work, over all calls, up to which plain Python is done sooner.
    """

    def __init__(self, space: dict[str, Any], names: Sequence[str], small: int) -> None:
        self._space, self._names, self._left = space, tuple(names), small

    def __call__(self, work: int) -> Any:
        """Return the functions as attributes, in the form that suits this amount of work."""
        self._left -= work
        return self.plain if self._left >= 0 and "compiled" not in self.__dict__ else self.compiled

    def if_worth(self, work: int) -> Any | None:
        """Return the compiled functions, or None where there is little to do or no numba.

        For functions whose plain form is of no use, because numpy does the same work sooner.
        """
        self._left -= work
        if "compiled" in self.__dict__:
            return self.compiled
        if self._left >= 0 or ("numba" not in sys.modules and find_spec("numba") is None):
            return None
        return self.compiled

    @cached_property
    def plain(self) -> Any:
        """The functions as they are written."""
        return SimpleNamespace(**{name: self._space[name] for name in self._names})

    @cached_property
    def compiled(self) -> Any:
        """The functions compiled; machine code is kept on disk between runs."""
        import numba

        jit = numba.njit(cache=True, nogil=True)
        space = dict(self._space)  # compiled functions must see each other, not the plain ones
        for name in self._names:
            space[name] = jit(FunctionType(self._space[name].__code__, space, name))
        return SimpleNamespace(**{name: space[name] for name in self._names})
