"""A scikit-learn style score: ``caption_score(y_true, y_pred, metric="rouge_l")``.

It works in ``sklearn.metrics.make_scorer`` with estimators whose ``predict`` gives captions;
scikit-learn itself is not needed here.
"""

from __future__ import annotations

from typing import Any

from captious import api
from captious.errors import InputError, UsageError

__all__ = ["caption_score"]


def caption_score(y_true: Any, y_pred: Any, *, metric: Any = "cider_d") -> float:
    """Return the corpus value of a metric.

    Args:
        y_true: one list of references (or one text) per caption.
        y_pred: the captions.
        metric: a name or spec with one column, such as ``bleu_4``, or a function.

    Raises:
        ValueError: the input cannot be scored; every wrong entry is named.
    """
    try:
        listed = [[r] if isinstance(r, str) else list(r) for r in y_true]
        table = api.score([_text(c) for c in y_pred], listed, metrics=[metric], intervals=False)
    except InputError as err:
        raise ValueError(str(err)) from err
    if len(table.corpus) != 1:
        raise UsageError(f"{metric} has several columns: name one of {', '.join(table.corpus)}")
    return float(next(iter(table.corpus.values())))


def _text(value: Any) -> Any:
    """Return a text of numpy as a plain one."""
    return str(value) if isinstance(value, str) else value
