"""Pickles of plain values and numeric arrays, read without running anything they ask for.

A pickle is a program: it names functions and calls them. Here every name that numpy's own pickles
use stands for a method of ours, and no other name is known. None of numpy's functions is handed to
the file: ``numpy.ndarray`` called with a chosen buffer and strides reads foreign memory. An array
is made in one place, from a type, a shape and bytes that are checked against each other.

Example:
    >>> import pickle, numpy as np
    >>> load(pickle.dumps({"features": np.ones((2, 3), np.float32)}), "example")["features"].shape
    (2, 3)
    >>> load(pickle.dumps(print), "example")
    Traceback (most recent call last):
    ...
    captious.errors.InputError: example: not readable as a pickle of plain arrays (refused: the \
file asks for builtins.print)
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from captious.reading import Budget, check_array, reading

_TYPE = re.compile(r"[biufSU]\d{1,6}")
_DEEPEST = 50


@dataclass(eq=False)
class _Type:
    """A type as a pickle describes it: ``numpy.dtype("f4", False, True)`` and then a state."""

    text: Any
    order: Any = "="

    def plain(self) -> np.dtype[Any]:
        text, order = (_latin(x) for x in (self.text, self.order))
        if not isinstance(text, str) or not _TYPE.fullmatch(text):
            raise pickle.UnpicklingError(f"refused: values of type {str(text)[:40]!r}")
        if order not in ("=", "<", ">", "|"):
            raise pickle.UnpicklingError(f"refused: the byte order {str(order)[:10]!r}")
        return np.dtype(text).newbyteorder(order)


@dataclass(eq=False)
class _Array:
    """An array that is told its type, shape and bytes after it was named."""

    value: npt.NDArray[Any] | None = None


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler with names, and the setting of states, of our own.

    The one written in Python, since its methods can be replaced: the compiled one would set
    attributes on whatever function a file has named.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, data: bytes, encoding: str, where: object) -> None:
        super().__init__(io.BytesIO(data), encoding=encoding)
        self._budget = Budget(where, len(data))
        names: dict[tuple[str, str], Callable[..., Any]] = {("_codecs", "encode"): self._encoded}
        for room in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray"):
            names[room, "_reconstruct"] = lambda *_: _Array()
            names[room, "ndarray"] = lambda *_: _Array()  # only named, never called, by numpy
            names[room, "scalar"] = lambda kind, raw=b"": self._rebuilt(raw, kind, ()).item()
            names[room, "dtype"] = lambda text, *_: _Type(text)
        for room in ("numpy.core.numeric", "numpy._core.numeric"):
            names[room, "_frombuffer"] = self._rebuilt
        for room in ("builtins", "__builtin__"):
            names[room, "bytes"] = names[room, "bytearray"] = self._bytes
            names[room, "set"] = names[room, "frozenset"] = lambda items=(): list(items)
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        stand_in = self._names.get((module, name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"refused: the file asks for {module}.{name}"[:200])
        return stand_in

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("refused: the file asks for an object outside of it")

    def load_build(self) -> None:
        """Set the state of a type or an array; nothing else has one."""
        state, target = self.stack.pop(), self.stack[-1]  # type: ignore[attr-defined]
        if isinstance(target, _Type):
            target.order = state[1]
        elif isinstance(target, _Array):
            _, shape, kind, fortran, raw = state
            target.value = self._rebuilt(raw, kind, shape, "F" if fortran else "C")
        else:
            raise pickle.UnpicklingError("refused: the file sets the state of an object")

    dispatch[pickle.BUILD[0]] = load_build

    def _rebuilt(
        self, raw: Any, kind: Any, shape: Any, order: Any = "C", axes: Any = None
    ) -> npt.NDArray[Any]:
        """Make an array: the one place where a pickle's bytes become numbers."""
        if isinstance(raw, str):
            raw = self._encoded(raw, "latin1")
        if not isinstance(kind, _Type) or not isinstance(raw, bytes | bytearray):
            raise pickle.UnpicklingError("refused: an array without plain type or bytes")
        if not isinstance(shape, tuple) or order not in ("C", "F") or axes is not None:
            raise pickle.UnpicklingError("refused: an array without a plain shape")
        dtype = kind.plain()
        check_array(dtype, shape, len(raw), "an array in it")
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(raw, dtype, count).reshape(shape, order="F" if order == "F" else "C")

    def _encoded(self, text: Any, encoding: Any = None) -> bytes:
        """Stand for ``codecs.encode``, by which protocol 2 writes bytes: latin-1 only."""
        if encoding != "latin1" or not isinstance(text, str):
            raise pickle.UnpicklingError(f"refused: text encoding {str(encoding)[:20]}")
        self._budget.spend(len(text))  # the same text may be named a million times
        return text.encode("latin1")

    def _bytes(self, content: Any = b"") -> bytes:
        if not isinstance(content, bytes | bytearray):
            raise pickle.UnpicklingError("refused: bytes that are not written out")
        return bytes(content)


@dataclass(eq=False)
class _Values:
    """Replaces stand-ins by what they stand for, each object once."""

    done: dict[int, Any] = field(default_factory=dict)

    def of(self, value: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise RecursionError
        if isinstance(value, _Array):
            if value.value is None:
                raise pickle.UnpicklingError("an array without content")
            return value.value
        if value is None or isinstance(value, str | bytes | bool | int | float | np.ndarray):
            return value
        if id(value) in self.done:
            return self.done[id(value)]
        if isinstance(value, Mapping):
            plain: Any = {_key(k): self.of(v, depth + 1) for k, v in value.items()}
        elif isinstance(value, list | tuple | set | frozenset):
            plain = [self.of(v, depth + 1) for v in value]
        else:
            raise pickle.UnpicklingError("refused: something that is neither value nor array")
        self.done[id(value)] = plain
        return plain


def load(data: bytes, where: object) -> Any:
    """Return the plain values (lists for tuples and sets) and numeric arrays of a pickle.

    Raises:
        InputError: the pickle is damaged, or asks for anything else.
    """
    with reading(where, "a pickle of plain arrays"):
        try:
            try:
                content = _Unpickler(data, "ASCII", where).load()
            except UnicodeDecodeError:  # byte strings of Python 2
                content = _Unpickler(data, "latin1", where).load()
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise pickle.UnpicklingError("damaged: its steps do not fit each other") from error
        return _Values().of(content)


def _latin(value: Any) -> Any:
    return value.decode("latin1") if isinstance(value, bytes) else value


def _key(value: Any) -> Any:
    if isinstance(value, str | bytes | int | float):
        return value
    raise pickle.UnpicklingError("refused: a key that is neither text nor a number")
