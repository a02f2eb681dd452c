"""How much did each feature add to a composite's score?

Shapley values against the mean caption of the training set: the score with a set S of features at
the caption's own values and the rest at the mean is computed for every S (2^n of them, n is small),
so the values are exact and add up to score minus baseline score. In the log odds of a weighted sum
the contribution of a feature is its weight times its scaled distance from the mean, exact as well.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

from captious.errors import UsageError
from captious.learned.model_file import Model
from captious.types import Floats

MOST = 14  # features; 2^14 scores are still one small matrix product


def shapley(value: Callable[[Floats], Floats], here: Floats, base: Floats) -> Floats:
    """Return the exact Shapley value of every feature.

    Args:
        value: scores of (rows, features).
        here: the caption's features.
        base: the features it is compared with.

    Example:
        >>> shapley(lambda x: x[:, 0] + 2 * x[:, 1], np.array([1.0, 1.0]), np.zeros(2)).tolist()
        [1.0, 2.0]
    """
    n = len(here)
    if n > MOST:
        raise UsageError(f"exact contributions are computed for up to {MOST} features, not {n}")
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    values = value(np.where(sets == 1, here, base))
    sizes = sets.sum(axis=1)
    share = np.array([factorial(s) * factorial(n - s - 1) / factorial(n) for s in range(n)])
    out = np.empty(n)
    for i in range(n):
        without = np.flatnonzero(sets[:, i] == 0)
        gain = values[without + (1 << i)] - values[without]
        out[i] = (share[sizes[without]] * gain).sum()
    return out


def log_odds_parts(model: Model, here: Floats) -> Floats:
    """Return what each feature adds to the log odds of a weighted sum."""
    both = model.scaling(np.stack([here, model.baseline]))
    return model.weights * (both[0] - both[1])
