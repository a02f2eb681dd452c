"""Paper tables beside our own: printed value, ours, difference, and the reason where known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious import registry
from captious.errors import InputError, UsageError, did_you_mean
from captious.judgements import protocols, sets
from captious.judgements.judgement_set import JudgementSet
from captious.meta.evaluate import Evaluation, Result, evaluate
from captious.meta.scoring import Scorer
from captious.meta.tables import grid, short
from captious.papers.paper_tables import TABLES, Choice, PaperTable, reported
from captious.statistics.bootstrap import SEED
from captious.types import CaptionSet, Floats

EXTRAS = "not in the paper"
SKIPPED = "left out of this run (--skip)"


@dataclass(frozen=True)
class Cell:
    """One number of a paper beside ours."""

    paper: float | None
    ours: float
    low: float = float("nan")
    high: float = float("nan")
    reason: str = ""

    def text(self, scale: float) -> str:
        """Return ``printed | ours (difference)``."""
        digits = 1 if scale == 100.0 else 3
        printed = "-" if self.paper is None else f"{self.paper:.{digits}f}"
        if math.isnan(self.ours):
            return f"{printed} / -"
        ours = f"{printed} / {self.ours:.{digits}f}"
        if self.paper is None:
            return ours
        gap = round(self.ours - self.paper, digits) + 0.0  # no "-0.000"
        return f"{ours} ({gap:+.{digits}f})"


@dataclass(frozen=True)
class Filled:
    """A table of a paper with our numbers."""

    table: PaperTable
    rows: dict[str, list[Cell]]
    used: dict[str, str]
    notes: dict[str, str]
    protocols: tuple[str, ...] = ()


@dataclass
class Bench:
    """The judgement sets, metrics and results that the tables of one session share.

    Attributes:
        root: folder of the judgement sets.
        objects: file of object labels for sets that come without.
        extras: whether registered metrics that a paper does not have join its tables.
        resamples: bootstrap draws.
        store: whether scores are kept in the cache folder.
        skip: metrics to leave out (``vilbertscore``), or on one set (``vilbertscore@flickr8k-cf``).
        regions: region features of the judged photographs.
    """

    root: Path
    objects: Path | None = None
    extras: bool = True
    resamples: int = 1000
    store: bool = True
    skip: tuple[str, ...] = ()
    regions: Path | None = None
    _sets: dict[str, JudgementSet] = field(default_factory=dict)
    _results: dict[tuple[str, str], Evaluation] = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict)

    def fresh(self) -> Bench:
        """Return the same bench with nothing read or computed, for another process."""
        return replace(self, _sets={}, _results={}, _scorers={})

    def keep(
        self, spec: str, protocol: str, results: tuple[Result, ...], scores: dict[str, Floats]
    ) -> None:
        """Take an evaluation that another process made."""
        chosen = protocols.get(protocol)
        judged = self.judged(chosen.set)
        judged = judged.without_own() if chosen.drop_own else judged
        self._results[spec, protocol] = Evaluation(
            judged, chosen, results, scores, SEED, self.resamples
        )

    def skipped(self, spec: str, set_name: str) -> bool:
        """Say whether a metric was asked to be left out."""
        name = spec.partition("(")[0]
        return name in self.skip or f"{name}@{set_name}" in self.skip

    def judged(self, name: str) -> JudgementSet:
        """Return a judgement set, read once."""
        if name not in self._sets:
            found = sets.load_ratings(name, self.root)
            self._sets[name] = labelled(found, self.objects)
        return self._sets[name]

    def scorer(self, spec: str) -> Scorer:
        """Return the scorer of one metric, made once."""
        if spec not in self._scorers:
            self._scorers[spec] = Scorer([spec], store=self.store, regions=self.regions)
        return self._scorers[spec]

    def result(self, spec: str, protocol: str) -> Evaluation:
        """Return the evaluation of one metric under a protocol, computed once."""
        key = (spec, protocol)
        if key not in self._results:
            chosen = protocols.get(protocol)
            if self.skipped(spec, chosen.set):
                return self._left_out(spec, chosen)
            self._results[key] = evaluate(
                self.judged(chosen.set), chosen, self.scorer(spec), resamples=self.resamples
            )
        return self._results[key]

    def _left_out(self, spec: str, protocol: protocols.Protocol) -> Evaluation:
        names = [n for *_, some in self.scorer(spec).steps for n in some]
        empty = tuple(Result(n, float("nan"), reason=SKIPPED) for n in names)
        return Evaluation(self.judged(protocol.set), protocol, empty, {}, 0, self.resamples)

    def columns(
        self, specs: Iterable[str], samples: CaptionSet, why: dict[str, str]
    ) -> dict[str, Floats]:
        """Return the scores of several metrics; what has none is noted in ``why``."""
        out: dict[str, Floats] = {}
        for spec in specs:
            for name, scores in self.scorer(spec)(samples).items():
                if scores.reason or np.isnan(scores.values).all():
                    why[name] = short(scores.reason or next(iter(scores.unscored), "no score"))
                else:
                    out[name] = scores.values
        return out

    def together(self, specs: Iterable[str], protocol: str) -> Evaluation:
        """Return one evaluation of several metrics, from the single ones."""
        parts = [self.result(s, protocol) for s in specs]
        first = parts[0]
        return Evaluation(
            first.judged,
            first.protocol,
            tuple(r for p in parts for r in p.results),
            {k: v for p in parts for k, v in p.scores.items()},
            first.seed,
            first.resamples,
        )


def labelled(judged: JudgementSet, path: Path | None, replacing: bool = False) -> JudgementSet:
    """Give captions the object labels of their image from a file, where the set has none.

    ``replacing`` takes the file's labels even where the set brings its own.
    """
    from captious.evidence.objects import ObjectStore

    if path is None or (judged.samples.objects is not None and not replacing):
        return judged
    store = ObjectStore.read(path)

    def add(samples: CaptionSet) -> CaptionSet:
        known = {str(i): store.labels(str(i)) for i in samples.images if i is not None}
        held = {image: labels for image, labels in known.items() if labels is not None}
        return samples.with_labels(held, store.source)

    return replace(
        judged, samples=add(judged.samples), pool=None if judged.pool is None else add(judged.pool)
    )


def choose(choices: tuple[Choice, ...]) -> tuple[Choice | None, str]:
    """Return the first choice that can run here, or None and why not even the last one can."""
    why = ""
    for choice in choices:
        try:
            missing = registry.create(choice.spec).missing()
        except UsageError as err:
            why = str(err).partition(". ")[0]
            continue
        if not missing:
            return choice, ""
        why = str(missing[0])
    return None, why


def find(paper: str, name: str) -> PaperTable:
    """Return a table by its names.

    Raises:
        UsageError: there is no such paper or table.
    """
    for table in TABLES:
        if (table.paper, table.name) == (paper, name):
            return table
    known = [f"{t.paper} {t.name}" for t in TABLES]
    raise UsageError(
        f"no table is called '{paper} {name}'.{did_you_mean(f'{paper} {name}', known)} "
        f"There are: {', '.join(known)}"
    )


def chosen_rows(table: PaperTable, bench: Bench, notes: dict[str, str]) -> dict[str, Choice | None]:
    """Return what computes each row of a table, our other metrics behind the paper's.

    These join where the references are those of the set: a table with 48 references would take
    longer for them than for all the paper's own rows.
    """
    chosen: dict[str, Choice | None] = {}
    for label in reported()[table.paper][table.key]:
        choices = table.rows.get(label, "no metric of captious stands for this row")
        if isinstance(choices, str):
            chosen[label], notes[label] = None, choices
            continue
        chosen[label], why = choose(choices)
        choice = chosen[label]
        notes[label] = short(why) if choice is None else choice.note
    used = [protocols.get(c.protocol) for c in table.columns if c.protocol]
    if bench.extras and used and all(p.references is None for p in used):
        taken = {c.spec.partition("(")[0] for c in chosen.values() if c is not None}
        for name in registry.names():
            if name not in taken:
                column = registry.load(name).columns[0].name
                label = f"+ {column}"
                chosen[label], why = choose((Choice(name, column),))
                notes[label] = EXTRAS if chosen[label] is not None else short(why)
    return chosen


def fill(table: PaperTable, bench: Bench) -> Filled:
    """Compute what can be computed of a table."""
    printed: dict[str, Any] = reported()[table.paper][table.key]
    rows: dict[str, list[Cell]] = {}
    used: dict[str, str] = {}
    notes: dict[str, str] = {}
    chosen = chosen_rows(table, bench, notes)
    for label, choice in chosen.items():
        if choice is not None:
            used[label] = choice.column
    for label, choice in chosen.items():
        cells = []
        for column in table.columns:
            paper = printed.get(label, {}).get(column.key)
            if choice is None or column.missing:
                cells.append(Cell(paper, float("nan"), reason=column.missing or notes[label]))
                continue
            cells.append(_cell(bench, choice, column.protocol, column.group, paper, table.scale))
        rows[label] = cells
    return Filled(
        table,
        rows,
        used,
        notes,
        tuple(dict.fromkeys(c.protocol for c in table.columns if c.protocol)),
    )


def _cell(
    bench: Bench, choice: Choice, protocol: str, group: str, paper: float | None, scale: float
) -> Cell:
    try:
        result = bench.result(choice.spec, protocol).result(choice.column)
    except InputError as err:
        return Cell(paper, float("nan"), reason=str(err))
    if result.reason:
        return Cell(paper, float("nan"), reason=result.reason)
    value = result.groups[group] if group else result.value
    whole = not group
    return Cell(
        paper,
        value * scale,
        result.low * scale if whole else float("nan"),
        result.high * scale if whole else float("nan"),
    )


def render(filled: Filled, format: str = "text") -> str:
    """Return a filled table: each cell is ``printed / ours (difference)``."""
    table = filled.table
    head = ["row", *(c.key for c in table.columns), "computed by", "remark"]
    cells = [head]
    for label, row in filled.rows.items():
        cells.append(
            [
                label,
                *(c.text(table.scale) for c in row),
                filled.used.get(label, "-"),
                short(filled.notes.get(label) or _first_reason(row), 90),
            ]
        )
    said = [
        f"each cell: paper / ours (difference); {'percent' if table.scale == 100 else 'as printed'}"
    ]
    for name in filled.protocols:
        said.append(f"protocol {name}: {protocols.get(name).describe()}")
    gaps = dict.fromkeys(c.missing for c in table.columns if c.missing)
    said += [f"empty columns: {why}" for why in gaps]
    if table.note:
        said.append(table.note)
    mark = "- " if format == "markdown" else ""
    title = f"### {table.title}" if format == "markdown" else table.title
    return f"{title}\n\n{grid(cells, format)}\n\n" + "\n".join(mark + s for s in said) + "\n"


def _first_reason(row: list[Cell]) -> str:
    return next((c.reason for c in row if c.reason and "COMPOSITE" not in c.reason), "")
