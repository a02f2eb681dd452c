"""What trainers write while they run: the state to go on from, and the history of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch


def write_state(state: Mapping[str, Any], path: Path) -> None:
    """Write tensors and numbers; a run that is killed meanwhile leaves the file of before."""
    temporary = path.with_name(path.name + ".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def write_history(folder: Path, options: Any, history: Sequence[Mapping[str, Any]]) -> None:
    """Write what was asked for (a dataclass) and what was measured."""
    text = json.dumps({"options": asdict(options), "history": history}, indent=1)
    (folder / "history.json").write_text(text, encoding="utf-8")


def mean_losses(losses: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every loss since the last look.

    Example:
        >>> mean_losses([{"hinge": 1.0}, {"hinge": 0.5}])
        {'hinge': 0.75}
    """
    return {name: float(np.mean([loss[name] for loss in losses])) for name in losses[0]}
