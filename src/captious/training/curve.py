"""The picture of a training run: losses on the left axis, dev scores on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def draw_curve(
    history: Sequence[Mapping[str, Any]],
    target: Path,
    losses: Sequence[str] = ("hinge",),
    scores: Sequence[str] = ("tiger", "similarity"),
) -> Path:
    """Draw the named entries of a history (one mapping per validation) over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    steps = [entry["step"] for entry in history]
    for axis, names, style in ((left, losses, "--"), (right, scores, "-")):
        for name in names:
            values = [entry.get(name) for entry in history]
            if None not in values:
                axis.plot(steps, np.asarray(values, float), style, label=name)
    left.set_xlabel("step")
    left.set_ylabel("loss (dashed)")
    right.set_ylabel("dev score")
    handles = [*left.get_lines(), *right.get_lines()]
    right.legend(handles=handles, loc="center right")
    figure.savefig(target, dpi=120)
    return target
