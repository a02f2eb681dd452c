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
    out = np.array(p, np.float64)
    known = np.flatnonzero(~np.isnan(out))
    if how == "none" or not len(known):
        return out
    if how == "bh":
        from scipy.stats import false_discovery_control

        out[known] = false_discovery_control(out[known])
        return out
    order = known[np.argsort(out[known])]
    raised = np.maximum.accumulate(out[order] * np.arange(len(order), 0, -1))
    out[order] = np.minimum(raised, 1.0)
    return out
