"""Features of the training captions, kept across runs and changes of the code.

The engine's own cache forgets everything when a line of captious changes, as it must. Training a
composite reads tens of thousands of slow features, so they are kept here by caption set and input,
and are believed as long as two captions, scored again, come out the same under the same identity
(weights, versions of tokenisers, document frequencies).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from captious.engine import evidence
from captious.engine.cache import samples_digest
from captious.io import files
from captious.learned import features
from captious.reading import read_arrays
from captious.types import CaptionSet, Floats

_CLOSE = 2e-5  # what rounding in other batches may do to a network's value
_CHECKED = 2  # rows that are scored again


@dataclass(frozen=True, eq=False)
class Column:
    """One input over one caption set; NaN where a caption has no value."""

    values: Floats
    identity: dict[str, str]


@dataclass(eq=False)
class FeatureStore:
    """Columns on disk, one file per caption set and metric.

    Attributes:
        folder: where they are kept.
    """

    folder: Path
    _open: dict[tuple[str, str], dict[str, Column]] = field(default_factory=dict)

    def column(
        self, name: str, samples: CaptionSet, regions: Sequence[Path] | None, text: str
    ) -> Column:
        """Return one input of the captions, computed now or kept from before."""
        [wanted] = features.parse_inputs(text)
        key = (name, str(wanted.metric))
        if key not in self._open:
            self._open[key] = self._columns(name, samples, regions, text)
        return self._open[key][wanted.column]

    def _columns(
        self, name: str, samples: CaptionSet, regions: Sequence[Path] | None, text: str
    ) -> dict[str, Column]:
        """Return all columns of the metric behind an input."""
        [wanted] = features.parse_inputs(text)
        options = text.partition("(")[1] + text.partition("(")[2]
        every = features.parse_inputs([c.name + options for c in wanted.metric.columns])
        digest = hashlib.sha256(samples_digest(samples).encode()).hexdigest()[:10]
        form = re.sub(r"\W+", "_", wanted.metric.name + options).strip("_")
        path = self.folder / name.replace(" ", "_") / f"{form}-{digest}.npz"
        seen = samples if regions is None else evidence.given(samples, regions=list(regions))
        few = features.table(seen.take(np.arange(_CHECKED)), every, store=False)
        kept = self._kept(path, few)
        if kept is None:
            began = time.monotonic()
            kept = features.table(seen, every, store=False).values
            sys.stderr.write(f"{name}, {form}: {time.monotonic() - began:.0f} s\n")
            path.parent.mkdir(parents=True, exist_ok=True)
            facts = np.frombuffer(json.dumps(few.identities[0]).encode(), np.uint8)
            with files.replacing(path, "wb") as file:
                np.savez(file, values=kept, identity=facts)
        return {
            spec.column: Column(kept[:, at], few.identities[at]) for at, spec in enumerate(every)
        }

    @staticmethod
    def _kept(path: Path, few: features.Table) -> Floats | None:
        """Return what was kept if it is still what the metric says."""
        if not path.is_file():
            return None
        arrays: dict[str, Any] = read_arrays(path)
        same = json.loads(arrays["identity"].tobytes()) == few.identities[0]
        values: Floats = arrays["values"]
        near = np.allclose(values[:_CHECKED], few.values, atol=_CLOSE, rtol=0, equal_nan=True)
        return values if same and near else None
