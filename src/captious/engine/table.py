"""The result of a run: scores of captions and of systems, each with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious import settings
from captious.engine.plan import Step
from captious.errors import UsageError, did_you_mean
from captious.statistics import bootstrap
from captious.types import CaptionSet, Column, Floats

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class CorpusValue(float):
    """A corpus score; ``low`` and ``high`` bound its 95 % bootstrap interval."""

    low: float
    high: float

    def __new__(
        cls, value: float, low: float = float("nan"), high: float = float("nan")
    ) -> CorpusValue:
        """Make the number that carries its interval."""
        self = super().__new__(cls, value)
        self.low, self.high = float(low), float(high)
        return self


class Unscored(NamedTuple):
    """A caption that a column has no value for."""

    id: str
    system: str
    column: str
    reason: str


@dataclass(frozen=True)
class ScoreTable:
    """Scores of every caption and every system.

    Attributes:
        ids: sample id of every row.
        systems: system of every row.
        images: image key of every row (groups of the bootstrap).
        captions: text of every row.
        columns: description of every column, by name.
        values: column name -> one number per row (NaN: see ``unscored``).
        corpora: system -> column -> corpus value with its interval.
        signatures: column name -> what has to stand beside its numbers.
        unscored: what could not be scored, and why.
        notes: remarks with how many captions they concern.
        run: how the table was made (files, options), for ``captious verify``.
    """

    ids: npt.NDArray[np.object_]
    systems: npt.NDArray[np.object_]
    images: npt.NDArray[np.object_]
    captions: list[str]
    columns: dict[str, Column]
    values: dict[str, Floats]
    corpora: dict[str, dict[str, CorpusValue]]
    signatures: dict[str, str]
    unscored: list[Unscored]
    notes: dict[str, int] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list, repr=False)
    blocks: list[Floats] = field(default_factory=list, repr=False)

    @classmethod
    def assemble(
        cls,
        samples: CaptionSet,
        steps: list[Step],
        blocks: list[Floats],
        signatures: dict[str, str],
        unscored: list[Unscored],
        notes: dict[str, int],
        resamples: int,
    ) -> ScoreTable:
        """Turn statistics into values, corpus values and intervals."""
        values: dict[str, Floats] = {}
        columns: dict[str, Column] = {}
        told = {(u.id, u.system, u.column) for u in unscored}
        unscored = list(unscored)
        for step, rows in zip(steps, blocks, strict=True):
            scores = step.metric.scores(rows)
            for name, column, at in zip(step.names, step.columns, step.index, strict=True):
                values[name], columns[name] = scores[:, at].copy(), column
                for row in np.flatnonzero(np.isnan(values[name])):
                    key = (str(samples.ids[row]), str(samples.systems[row]), name)
                    if key not in told:
                        unscored.append(Unscored(*key, column.undefined))
        corpora = {}
        for system in dict.fromkeys(samples.systems.tolist()):
            mine = samples.systems == system
            corpora[system] = _corpus(
                steps, [b[mine] for b in blocks], samples.image_keys[mine], resamples
            )
        if resamples:
            seed = settings.get().seed
            signatures = {k: f"{v}|bs:{resamples}|rs:{seed}" for k, v in signatures.items()}
        return cls(
            samples.ids,
            samples.systems,
            samples.image_keys,
            samples.captions(),
            columns,
            values,
            corpora,
            signatures,
            unscored,
            notes,
            {},
            steps,
            blocks,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, column: str) -> Floats:
        if column not in self.values:
            raise UsageError(
                f"the table has no column {column!r}.{did_you_mean(column, self.values)} "
                f"It has: {', '.join(self.values)}."
            )
        return self.values[column]

    @cached_property
    def corpus(self) -> dict[str, CorpusValue]:
        """Corpus values of the only system.

        Raises:
            UsageError: there are several; ask ``corpora[system]``.
        """
        if len(self.corpora) != 1:
            raise UsageError(
                f"the table holds {len(self.corpora)} systems ({', '.join(self.corpora)}): "
                "ask for table.corpora[system][column]"
            )
        return next(iter(self.corpora.values()))

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; corpus values and signatures are in its metadata."""
        from captious.io.tables import to_arrow

        return to_arrow(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write to a file (json, jsonl, csv, parquet, md, tex, txt), whole or not at all."""
        from captious.io.tables import save

        save(self, Path(path), format)

    def __str__(self) -> str:
        from captious.io.tables import render

        return render(self, "text")


def _corpus(
    steps: Sequence[Step],
    blocks: Sequence[Floats],
    images: npt.NDArray[np.object_],
    resamples: int,
) -> dict[str, CorpusValue]:
    point = [s.metric.aggregate(b) for s, b in zip(steps, blocks, strict=True)]
    bounds = [(np.full(len(p), np.nan),) * 2 for p in point]
    if resamples:
        keys, groups = np.unique(images.astype(str), return_inverse=True)
        if len(keys) > 1:
            grouped = [bootstrap.group(b, groups, len(keys)) for b in blocks]
            drawn = bootstrap.resampled([g[0] for g in grouped], [g[1] for g in grouped], resamples)
            bounds = [
                bootstrap.interval(s.metric.corpus(totals, counts))
                for s, (totals, counts) in zip(steps, drawn, strict=True)
            ]
    return {
        name: CorpusValue(values[at], low[at], high[at])
        for step, values, (low, high) in zip(steps, point, bounds, strict=True)
        for name, at in zip(step.names, step.index, strict=True)
    }
