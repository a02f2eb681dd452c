"""The calls of Hugging Face's ``evaluate``.

``compute(predictions=..., references=...)`` needs nothing else; ``evaluate.load(module_file(),
"cider_d")`` gives an ``evaluate.Metric`` for those who combine or push metrics.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captious import api
from captious.compat._checking import needs_references, paired
from captious.errors import InputError

__all__ = ["compute", "module_file"]


def compute(
    *, predictions: Any, references: Any = None, metrics: Any = None, **inputs: Any
) -> dict[str, float]:
    """Return corpus values by column, as ``evaluate.Metric.compute`` does.

    Args:
        predictions: one caption each.
        references: one list of texts (or one text) each; None for metrics that read none.
        metrics: names or specs; BLEU, ROUGE-L and CIDEr-D if None.
        **inputs: ``images``, ``objects`` and the other inputs of :func:`captious.score`.

    Raises:
        ValueError: naming every prediction and reference that is wrong.
    """
    needed = needs_references(metrics)
    captions, listed = paired(predictions, references, ("predictions", "references"), needed)
    try:
        table = api.score(captions, listed, metrics=metrics, intervals=False, **inputs)
    except InputError as err:
        raise ValueError(str(err)) from err
    return {name: float(value) for name, value in table.corpus.items()}


def module_file() -> str:
    """Return the path of the file that ``evaluate.load`` takes; its config is a metric's name."""
    return str(Path(__file__).with_name("evaluate_module.py"))
