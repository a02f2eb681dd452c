"""p-values of several tests, corrected for their number."""

from __future__ import annotations

import numpy as np

from captious.types import Floats

CORRECTIONS = ("holm", "bh", "none")


def corrected(p: Floats, how: str = "holm") -> Floats:
    """Correct p-values: ``holm`` (family-wise), ``bh`` (false discovery rate) or ``none``.

    NaN stays NaN and is not counted.

    Example:
        >>> corrected(np.array([0.01, 0.04, 0.03])).tolist()
        [0.03, 0.06, 0.06]
    """
    adjusted = np.array(p, np.float64)
    known = np.flatnonzero(~np.isnan(adjusted))
    if how == "none" or not len(known):
        return adjusted
    if how == "bh":
        from scipy.stats import false_discovery_control

        adjusted[known] = false_discovery_control(adjusted[known])
        return adjusted
    order = known[np.argsort(adjusted[known])]
    raised = np.maximum.accumulate(adjusted[order] * np.arange(len(order), 0, -1))
    adjusted[order] = np.minimum(raised, 1.0)
    return adjusted
