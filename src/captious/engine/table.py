"""The result of a run: scores of captions and of systems, each with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious import registry
from captious.calling import Unscored
from captious.engine.plan import Step
from captious.errors import InputError, UsageError, did_you_mean
from captious.reading import reading
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


@dataclass(frozen=True, repr=False)
class ScoreTable:
    """Scores of every caption and every system.

    Attributes:
        samples: what was judged: captions, references, images, systems, evidence.
        columns: description of every column, by name.
        values: column name -> one number per row (NaN: see ``unscored``).
        corpora: system -> column -> corpus value with its interval.
        signatures: column name -> what has to stand beside its numbers.
        unscored: what could not be scored, and why.
        notes: remarks with how many captions they concern.
        job: how the table was made, as plain data (see :class:`captious.ScoringJob`).
        seed: of the bootstrap draws.
        steps: the metrics, and the columns that were asked for.
        blocks: per step, the statistics of every row.
    """

    samples: CaptionSet
    columns: dict[str, Column]
    values: dict[str, Floats]
    corpora: dict[str, dict[str, CorpusValue]]
    signatures: dict[str, str]
    unscored: list[Unscored]
    notes: dict[str, int] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    seed: int = bootstrap.SEED
    steps: list[Step] = field(default_factory=list)
    blocks: list[Floats] = field(default_factory=list)

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
        seed: int = bootstrap.SEED,
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
                steps, [b[mine] for b in blocks], samples.image_keys[mine], resamples, seed
            )
        if resamples:
            signatures = {k: f"{v}|bs:{resamples}|rs:{seed}" for k, v in signatures.items()}
        return cls(
            samples, columns, values, corpora, signatures, unscored, notes, {}, seed, steps, blocks
        )

    @classmethod
    def load(cls, path: str | Path) -> ScoreTable:
        """Read a table that :meth:`save` wrote as parquet, JSON or JSON lines.

        Raises:
            InputError: the file is no stored table.
        """
        from captious.engine.plan import stored_step
        from captious.io import tables

        with reading(path, "a stored table of scores"):
            stored = tables.read(Path(path))
            steps = [
                stored_step(m["metric"], tuple(m["columns"]), tuple(m["names"]))
                for m in stored.metrics
            ]
            corpora = {
                system: {c: CorpusValue(*value) for c, value in values.items()}
                for system, values in stored.corpora.items()
            }
            columns = {n: c for s in steps for n, c in zip(s.names, s.columns, strict=True)}
            named = [set(stored.values), set(stored.signatures), *map(set, corpora.values())]
            if any(names != set(columns) for names in named):
                raise InputError(
                    f"{path}: its metrics, values and signatures have different columns"
                )
            if any(len(values) != len(stored.samples) for values in stored.values.values()):
                raise InputError(f"{path}: a column does not have a value for every caption")
            return cls(
                stored.samples,
                columns,
                stored.values,
                corpora,
                {column: str(text) for column, text in stored.signatures.items()},
                [Unscored(*u) for u in stored.unscored],
                {str(note): int(count) for note, count in stored.notes.items()},
                stored.job,
                stored.seed,
                steps,
                stored.statistics,
            )

    @property
    def ids(self) -> npt.NDArray[np.object_]:
        """Sample id of every row."""
        return self.samples.ids

    @property
    def systems(self) -> npt.NDArray[np.object_]:
        """System of every row."""
        return self.samples.systems

    @property
    def images(self) -> npt.NDArray[np.object_]:
        """Image key of every row: the groups of the bootstrap."""
        return self.samples.image_keys

    @cached_property
    def captions(self) -> list[str]:
        """Text of every row."""
        return self.samples.captions()

    @property
    def metric_forms(self) -> list[str]:
        """The text form of every metric."""
        return [registry.text_form(step.metric) for step in self.steps]

    def __len__(self) -> int:
        return len(self.samples)

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
        """Return one row per caption; corpus values and signatures are in the metadata."""
        from captious.io.tables import to_arrow

        return to_arrow(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per caption as a pandas frame; scores are numbers, NaN where unscored."""
        return self.to_arrow().to_pandas()

    def to_csv(self) -> str:
        """Return one row per caption, with a header line, and nothing else."""
        from captious.io.tables import render

        return render(self, "csv")

    def to_latex(self) -> str:
        """Return the corpus values as LaTeX, as a paper prints them: systems as rows, x100."""
        from captious.io.tables import render

        return render(self, "latex", rows=None)

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write to a file (parquet, json, jsonl, csv, md, tex, txt), whole or not at all.

        parquet, json and jsonl hold everything and can be read back with :meth:`load`.
        """
        from captious.io.tables import save

        save(self, Path(path), format)

    def __str__(self) -> str:
        from captious.io.tables import render

        return render(self, "text")

    def __repr__(self) -> str:
        shown = []
        for system, values in self.corpora.items():
            first_values = ", ".join(
                f"{name}={value:.4f}" for name, value in list(values.items())[:4]
            )
            more = f", ... {len(values) - 4} more" if len(values) > 4 else ""
            shown.append(f"{system + ': ' if system else ''}{first_values}{more}")
        return f"<ScoreTable: {len(self):,} captions; {'; '.join(shown[:4])}>"

    def _repr_html_(self) -> str:
        from captious.io.tables import render

        return render(self, "html")


def join(tables: Sequence[ScoreTable], names: Sequence[str]) -> ScoreTable:
    """Put tables of the same metrics side by side, one or more systems each.

    Args:
        tables: stored results.
        names: of the systems of tables that have one nameless system.

    Raises:
        InputError: they hold different metrics.
    """
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    problems = [
        f"{name}: its metrics are {', '.join(table.metric_forms)}, those of {names[0]} are "
        f"{', '.join(first.metric_forms)}; only tables of the same metrics can be compared"
        for table, name in zip(tables, names, strict=True)
        if table.metric_forms != first.metric_forms
    ]
    if problems:
        raise InputError(problems)
    rows = [
        (sample, name if sample.system == "" else sample.system)
        for table, name in zip(tables, names, strict=True)
        for sample in table.samples
    ]
    samples = CaptionSet.of(replace(sample, system=system) for sample, system in rows)
    unscored = [
        u._replace(system=u.system or name)
        for table, name in zip(tables, names, strict=True)
        for u in table.unscored
    ]
    blocks = [np.concatenate(parts) for parts in zip(*(t.blocks for t in tables), strict=True)]
    plain = {k: v.partition("|bs:")[0] for k, v in first.signatures.items()}
    resamples = int(first.job.get("resamples", bootstrap.RESAMPLES))
    return ScoreTable.assemble(
        samples, first.steps, blocks, plain, unscored, {}, resamples, first.seed
    )


def _corpus(
    steps: Sequence[Step],
    blocks: Sequence[Floats],
    images: npt.NDArray[np.object_],
    resamples: int,
    seed: int,
) -> dict[str, CorpusValue]:
    point = [s.metric.aggregate(b) for s, b in zip(steps, blocks, strict=True)]
    bounds = [(np.full(len(p), np.nan),) * 2 for p in point]
    if resamples:
        keys, groups = np.unique(images.astype(str), return_inverse=True)
        if len(keys) > 1:
            grouped = [bootstrap.group(b, groups, len(keys)) for b in blocks]
            drawn = bootstrap.resampled(
                [g[0] for g in grouped], [g[1] for g in grouped], resamples, seed
            )
            bounds = [
                bootstrap.interval(s.metric.corpus(totals, counts))
                for s, (totals, counts) in zip(steps, drawn, strict=True)
            ]
    return {
        name: CorpusValue(values[at], low[at], high[at])
        for step, values, (low, high) in zip(steps, point, bounds, strict=True)
        for name, at in zip(step.names, step.index, strict=True)
    }
