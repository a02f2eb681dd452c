"""Which kind of region features a model was trained on, without opening the model."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from captious import assets
from captious.errors import CaptiousError
from captious.reading import json_object


def model_features(name: str) -> str:
    """Return the kind of features that a model names in its config.json, or ``""``."""
    return str(_config(name).get("features") or "")


def model_kind(name: str) -> str:
    """Return the type that a model names in its config.json, or ``""``."""
    return str(_config(name).get("model_type") or "")


def _config(name: str) -> dict[str, Any]:
    path = assets.available(name) if name in assets.known() else Path(name)
    config = None if path is None else path / "config.json"
    if config is None or not config.is_file():
        return {}
    return _read(config, config.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _read(config: Path, time: int) -> dict[str, Any]:
    try:
        return json_object(config, "a model's config")
    except CaptiousError:
        return {}  # whoever opens the model says what is wrong with it
