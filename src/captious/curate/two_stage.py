"""Two-stage scoring: a cheap score decides where it is sure, costly ones decide the band between.

On the first rows of a collection both are computed. The band is the narrowest one outside of which
the cheap score alone decides as the condition does, but for a share of rows that may differ.

>>> import numpy as np
>>> cheap = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
>>> fulfilled = np.array([0, 0, 0, 1, 0, 1, 1, 1], bool)
>>> band = choose_band(cheap, fulfilled, agree=1.0)
>>> band.sure(cheap).tolist()
[-1, -1, -1, 0, 0, 1, 1, 1]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.errors import UsageError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TwoStage:
    """How to score in two stages.

    Attributes:
        first: the cheap score: a column or a score.
        agree: share of rows that must be decided as the condition alone would.
        trial: rows at the beginning on which the band is chosen.
    """

    first: str
    agree: float = 0.99
    trial: int = 2_000

    def __post_init__(self) -> None:
        if not 0 < self.agree <= 1:
            raise UsageError(f"--agree is a share of rows between 0 and 1, not {self.agree}")
        if self.trial < 50:
            raise UsageError(f"a band is chosen on 50 rows or more, not on {self.trial}")


@dataclass(frozen=True)
class Band:
    """Where the cheap score is not sure: from ``low`` to ``high``.

    Attributes:
        low: rows below are lost.
        high: rows above are kept.
        sign: -1 where a low score speaks for a row (then ``low`` and ``high`` are negated scores).
        rows: on how many rows it was chosen.
        agreement: share of these that it decides as the condition does.
    """

    low: float
    high: float
    sign: int
    rows: int
    agreement: float

    def sure(self, cheap: Floats) -> npt.NDArray[np.int8]:
        """Return 1 for rows to keep, -1 for rows to lose, 0 where the costly scores decide."""
        value = self.sign * cheap
        with np.errstate(invalid="ignore"):
            return (value > self.high).astype(np.int8) - (value < self.low).astype(np.int8)


def choose_band(cheap: Floats, fulfilled: npt.NDArray[np.bool_], agree: float) -> Band:
    """Return the band that leaves the fewest rows to the costly scores.

    Args:
        cheap: the cheap score of some rows; NaN is never sure.
        fulfilled: whether each fulfils the condition.
        agree: share of the rows that must come out as ``fulfilled`` says.
    """
    most = int((1 - agree) * len(cheap) + 1e-9)
    bands = [_band(sign, cheap, fulfilled, most) for sign in (1, -1)]
    return max(bands, key=lambda band: int(np.abs(band.sure(cheap)).sum()))


def _band(sign: int, cheap: Floats, fulfilled: npt.NDArray[np.bool_], most: int) -> Band:
    known = ~np.isnan(cheap)
    value, fine = sign * cheap[known], fulfilled[known]
    every = np.sort(value)
    kept, lost = np.sort(value[fine]), np.sort(value[~fine])[::-1]

    def low(mistakes: int) -> float:  # rows that fulfil the condition and would be lost
        return float(kept[mistakes]) if mistakes < len(kept) else np.inf

    def high(mistakes: int) -> float:
        return float(lost[mistakes]) if mistakes < len(lost) else -np.inf

    best, edges = -1, (-np.inf, np.inf)
    for below in range(most + 1):
        a, b = low(below), high(most - below)
        if a > b:  # the two sides meet: one threshold decides all
            a = b = max(b, float(every[0]) if len(every) else 0.0) if np.isinf(a) else a
        decided = int(np.searchsorted(every, a, "left"))
        decided += len(every) - int(np.searchsorted(every, b, "right"))
        if decided > best:
            best, edges = decided, (a, b)
    band = Band(*edges, sign, len(cheap), 1.0)
    sure = band.sure(cheap)
    right = (sure == 0) | ((sure > 0) == fulfilled)
    return Band(*edges, sign, len(cheap), float(right.mean()) if len(cheap) else 1.0)
