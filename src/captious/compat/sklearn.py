"""A scikit-learn style score: ``caption_score(y_true, y_pred, metric="rouge_l")``.

It works in ``sklearn.metrics.make_scorer`` with estimators whose ``predict`` gives captions;
scikit-learn itself is not needed here.
"""

from __future__ import annotations

from typing import Any

from captious import api
from captious.compat._checking import needs_references, paired
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
    needed = needs_references([metric])
    captions, listed = paired(y_pred, y_true, ("y_pred", "y_true"), needed)
    try:
        table = api.score(captions, listed, metrics=[metric], intervals=False)
    except InputError as err:
        raise ValueError(str(err)) from err
    if len(table.corpus) != 1:
        raise UsageError(f"{metric} has several columns: name one of {', '.join(table.corpus)}")
    return float(next(iter(table.corpus.values())))
