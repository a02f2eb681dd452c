"""What a metric needs and gives: needs, columns, statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Need(Enum):
    """What a metric must be given besides the caption."""

    REFERENCES = "references"
    IMAGE_PIXELS = "image pixels"
    IMAGE_OBJECTS = "object labels"
    IMAGE_REGIONS = "region features"

    @property
    def given_as(self) -> str:
        """What people give: photographs, in which labels and features are found."""
        found = {
            Need.IMAGE_PIXELS: "photographs",
            Need.IMAGE_OBJECTS: "photographs (or object labels)",
            Need.IMAGE_REGIONS: "photographs (or region features)",
        }
        return found.get(self, self.value)


@dataclass(frozen=True)
class Column:
    """One number that a metric gives per caption and per corpus.

    ``undefined`` says why a scored caption may lack just this number.
    """

    name: str
    low: float
    high: float
    meaning: str
    higher_is_better: bool = True
    undefined: str = "undefined for this caption"


@dataclass(frozen=True)
class Stats:
    """Statistics of a batch: one row per sample.

    Attributes:
        rows: float64 (n, k); a row with NaN could not be scored.
        reasons: row number -> why it could not be scored.
        notes: remark -> how many samples it concerns ("captions cut to 512 tokens": 3).
    """

    rows: Floats
    reasons: dict[int, str] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
