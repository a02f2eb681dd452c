"""Functions over plain arrays, compiled once to machine code that loads in milliseconds.

numba compiles. Importing it and loading what it keeps on disk takes longer than thousands of
captions need, though; so what it made is kept here as an object file, and llvmlite alone loads it.

A function that is compiled this way is written like C: it reads and writes arrays that the caller
made, by one index; it is told their lengths, makes no array itself, and returns a whole number.
Its annotations are its signature: the names of :data:`ARRAYS`, ``int``, ``float`` and ``bool``.
Calls let go of the interpreter's lock, so threads run them side by side.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from captious import settings

U8 = npt.NDArray[np.uint8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
ARRAYS = {"U8": "uint8", "I16": "int16", "I32": "int32", "U32": "uint32"} | {
    "I64": "int64",
    "U64": "uint64",
    "F64": "float64",
}
_SINGLE = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_bool}
_KEPT = "machine-code"
_MANY = 4_000
_loading = threading.Lock()
T = TypeVar("T")
R = TypeVar("R")


class MachineCode:
    """Functions of a module, compiled together on demand.

    Args:
        space: the ``globals()`` of the module.
        names: functions to call from outside.
        helpers: functions that they call; one that calls another stands behind it.
        small: the amount of work, over all calls, up to which other ways are done sooner.
        unmade: the same where nothing is kept yet, so that the functions have to be compiled.
    """

    def __init__(
        self,
        space: dict[str, Any],
        names: Sequence[str],
        helpers: Sequence[str],
        small: int,
        unmade: int,
    ) -> None:
        self._space, self._names, self._helpers = space, tuple(names), tuple(helpers)
        self._left, self._until_compiled = small, unmade - small

    def if_worth(self, work: int) -> Any | None:
        """Return the functions as attributes; None where there is little to do, or no numba."""
        if "loaded" in self.__dict__:
            return self.loaded
        self._left -= work
        if self._left >= 0 or not _installed():
            return None
        if self._left + self._until_compiled >= 0 and not self._file.exists():
            return None
        return self.loaded

    @cached_property
    def loaded(self) -> Any:
        """The functions, from the object file that is kept, or compiled now."""
        with _loading:
            if "loaded" in self.__dict__:  # another thread was faster
                return self.__dict__["loaded"]
            import llvmlite.binding as llvm

            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            machine = llvm.Target.from_default_triple().create_target_machine(
                *_processor(), opt=3, jit=True, codemodel="jitdefault"
            )
            kept = _read(self._file)
            if kept is None:
                kept = self._compiled(llvm, machine)
                _write(self._file, *kept)
            symbols, code = kept
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
            return SimpleNamespace(
                **{
                    name: _caller(self._space[name], self._engine.get_function_address(symbol))
                    for name, symbol in symbols.items()
                }
            )

    @property
    def _file(self) -> Path:
        """Where machine code for this source, compiler and processor is kept."""
        return settings.get().cache_dir / _KEPT / self._file_name

    @cached_property
    def _file_name(self) -> str:
        source = Path(self._space["__file__"])
        key = hashlib.sha256(source.read_bytes() + Path(__file__).read_bytes())
        facts = self._names, self._helpers, _processor(), _compiler(), sys.version
        key.update(repr(facts).encode())
        return f"{source.stem}-{key.hexdigest()[:24]}"

    def _compiled(self, llvm: Any, machine: Any) -> tuple[dict[str, str], bytes]:
        """Return the symbol of every function, and the object file that holds them."""
        import numba

        # Without numba's memory and its exceptions nothing outside of the code itself is called.
        options: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
        space = dict(self._space)  # compiled functions must see each other, not the plain ones
        for name in self._helpers:
            plain = FunctionType(self._space[name].__code__, space, name)
            space[name] = numba.njit(**options)(plain)
        symbols: dict[str, str] = {}
        whole = llvm.parse_assembly("")
        for name in self._names:
            types = [_numba_type(numba, kind) for kind in _kinds(self._space[name])]
            signature = numba.types.int64(*types)
            plain = FunctionType(self._space[name].__code__, space, name)
            made = numba.cfunc(signature, **options)(plain)
            wrapper = made.native_name  # for callers from C; talks to Python, so it is left out
            symbols[name] = wrapper.removeprefix("cfunc.")
            text = made.inspect_llvm()
            text = re.sub(rf"(?ms)^define [^\n]*@{re.escape(wrapper)}\(.*?^}}\n", "", text)
            whole.link_in(llvm.parse_assembly(text))
        _check(str(whole), symbols.values())
        whole.triple, whole.data_layout = machine.triple, str(machine.target_data)
        return symbols, machine.emit_object(whole)


@cache
def _installed() -> bool:
    return all(find_spec(name) is not None for name in ("numba", "llvmlite"))


@cache
def _processor() -> tuple[str, str]:
    """Return name and features of this machine's processor."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def _compiler() -> bytes:
    """Return what tells versions of the compiler apart; package metadata is slower to read."""
    places = [find_spec(name) for name in ("numba", "llvmlite")]
    files = [Path(spec.origin).parent / "_version.py" for spec in places if spec and spec.origin]
    return b"".join(file.read_bytes() for file in files if file.exists())


def _kinds(function: Callable[..., Any]) -> list[str]:
    """Return the annotations of a function's parameters as they are written."""
    return [kind for name, kind in function.__annotations__.items() if name != "return"]


def _numba_type(numba: Any, kind: str) -> Any:
    if kind in ARRAYS:
        return numba.types.CPointer(getattr(numba.types, ARRAYS[kind]))
    return {"int": numba.types.int64, "float": numba.types.float64, "bool": numba.types.boolean}[
        kind
    ]


def _check(text: str, symbols: Iterable[str]) -> None:
    """Refuse code that calls what the loader may not find: that would end the process."""
    outside = set(re.findall(r"^declare [^\n]*@\"?([\w.$]+)\"?\(", text, flags=re.M))
    called = {
        name
        for name in outside
        if not name.startswith("llvm.") and len(re.findall(rf"@{re.escape(name)}\b", text)) > 1
    }
    lacking = [symbol for symbol in symbols if f"@{symbol}(" not in text]
    if called or lacking:
        raise RuntimeError(f"machine code is not closed: it calls {called}, it lacks {lacking}")


def _caller(function: Callable[..., Any], address: int) -> Callable[..., int]:
    """Return a function that calls compiled code; arrays of another type are refused."""
    kinds = _kinds(function)
    dtypes = [np.dtype(ARRAYS[kind]) if kind in ARRAYS else None for kind in kinds]
    parameters: list[Any] = [_SINGLE.get(kind, ctypes.c_void_p) for kind in kinds]
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *parameters)
    native = prototype(address)

    def call(*values: Any) -> int:
        passed: list[Any] = []
        for value, dtype in zip(values, dtypes, strict=True):
            if dtype is None:
                passed.append(value)
            elif value.dtype == dtype and value.flags.c_contiguous:
                passed.append(value.ctypes.data)
            else:
                raise TypeError(f"{function.__name__} expects {dtype} in one block: {value.dtype}")
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        native(ctypes.addressof(result), ctypes.addressof(error), *passed)
        return result.value

    return call


def _read(file: Path) -> tuple[dict[str, str], bytes] | None:
    """Return what is kept in a file; None where there is none or it is damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, body = content[:32], content[32:]
    if hashlib.sha256(body).digest() != digest:
        return None
    head, _, code = body.partition(b"\n")
    return json.loads(head), code


def _write(file: Path, symbols: dict[str, str], code: bytes) -> None:
    """Keep machine code; where nothing can be written it is compiled again next time."""
    body = json.dumps(symbols).encode() + b"\n" + code
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(hashlib.sha256(body).digest() + body)
        os.replace(part, file)
    except OSError:
        return


def side_by_side(function: Callable[[T], R], items: Sequence[T], texts: int) -> list[R]:
    """Call a function for every item, in threads where there are texts enough to be worth them."""
    threads = min(settings.get().threads, len(items)) if texts >= _MANY else 1
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as workers:
        return list(workers.map(function, items))
