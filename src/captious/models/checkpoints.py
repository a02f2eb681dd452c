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
from pathlib import Path
from typing import Any

from captious.errors import InputError


def load_torch(path: Path | str) -> Any:
    """The content of a checkpoint: tensors, containers, plain values, option namespaces.

    Raises:
        InputError: the file is damaged, or asks for a type outside the allow-list.
    """
    import torch

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint")
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
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a readable checkpoint ({_first_line(error)})") from error


def options_of(value: Any) -> dict[str, Any]:
    """Training options as a plain dict with text keys, from a Namespace or a dict."""
    items = vars(value) if isinstance(value, argparse.Namespace) else value
    if not isinstance(items, dict):
        raise InputError(f"checkpoint options are a {type(value).__name__}, not a set of options")
    return {_text(key): _text(one) for key, one in items.items()}


def _text(value: Any) -> Any:
    return value.decode("latin1") if isinstance(value, bytes) else value


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = next((line for line in lines if "GLOBAL" in line or "Unsupported" in line), "")
    return (telling or (lines[0] if lines else type(error).__name__))[:200]
