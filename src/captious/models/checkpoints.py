"""Torch checkpoints of others, read without running code from them.

Such a file is a pickle, and a pickle can call any function. Newer files go through
``torch.load(weights_only=True)`` with :class:`argparse.Namespace` allowed, which is what the
training scripts of the time stored their options in. Files written by Python 2 (byte strings,
``copy_reg``) are read the same way with latin-1 text. Whatever else a file asks for is refused by
name; nothing is imported on its behalf.
"""

from __future__ import annotations

import argparse
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.reading import check_zip, reading, regular


def load_torch(path: Path | str) -> Any:
    """The content of a checkpoint: tensors, containers, plain values, option namespaces.

    Raises:
        InputError: the file is damaged, or asks for a type outside the allow-list.
    """
    import torch

    path = Path(path)
    regular(path)
    if zipfile.is_zipfile(path):
        check_zip(path)
    allowed: list[Any] = [argparse.Namespace]
    try:
        with torch.serialization.safe_globals(allowed):
            try:
                return torch.load(path, map_location="cpu", weights_only=True)
            except UnicodeDecodeError:
                return torch.load(path, map_location="cpu", weights_only=True, encoding="latin1")
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path}: refused, the checkpoint asks for more than tensors, plain values and "
            f"options ({_first_line(error)})"
        ) from error
    except Exception as error:  # torch does not say what it raises on a damaged file
        raise InputError(f"{path}: not a readable checkpoint ({_first_line(error)})") from error


def load_safetensors(path: Path | str) -> dict[str, Any]:
    """The tensors of a safetensors file; the library checks its header against its size."""
    from safetensors.torch import load_file

    regular(path)
    with reading(path, "a safetensors file"):
        return load_file(path)


def fit_sizes(path: Path, weights: Mapping[str, Any], *sizes: Any) -> None:
    """Complain about sizes in a configuration that no tensor of the file has.

    A network is made before its weights are put in: without this check a configuration alone could
    ask for any amount of memory.
    """
    sides = {side for value in weights.values() for side in value.shape}
    largest = max(sides, default=0)
    for size in sizes:
        if type(size) is not int or not 0 < size <= largest:
            raise InputError(
                f"{path}: its configuration gives the size {str(size)[:40]}, the largest in "
                f"its weights is {largest}; the two do not match"
            )


def options_of(value: Any) -> dict[str, Any]:
    """Training options as a plain dict with text keys, from a Namespace or a dict."""
    items = vars(value) if isinstance(value, argparse.Namespace) else value
    if not isinstance(items, dict):
        raise InputError(f"checkpoint options are a {type(value).__name__}, not a set of options")
    return {_text(key): _text(option) for key, option in items.items()}


def _text(value: Any) -> Any:
    return value.decode("latin1") if isinstance(value, bytes) else value


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in lines if "GLOBAL" in line or "Unsupported" in line), "")
    return (telling or (lines[0] if lines else type(error).__name__))[:200]
