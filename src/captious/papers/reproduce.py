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
from captious.judgements import labels, protocols, sets
from captious.judgements.judgement_set import JudgementSet
from captious.judgements.labels import DETECTOR, GOLD, Source
from captious.meta import agreement
from captious.meta.evaluate import Evaluation, Result, evaluate
from captious.meta.scoring import Scorer
from captious.meta.tables import grid, short
from captious.papers.paper_tables import (
    PROFILE,
    TABLES,
    Choice,
    PaperColumn,
    PaperTable,
    Row,
    reported,
)
from captious.statistics.bootstrap import SEED
from captious.types import CaptionSet, Floats

EXTRAS = "not in the paper"
SKIPPED = "left out of this run (--skip)"
APART = 5.0  # points between strict and half ties that deserve a remark
# Parts of a signature that say which numbers a row holds.
_HOW = {
    "profile": "profile",
    "encoder": "encoder",
    "layer": "layer",
    "vectors": "vectors",
    "model": "model",
    "objects": "labels",
    "counts": "counts",
    "df": "df",
}


@dataclass(frozen=True)
class Cell:
    """One number of a paper beside ours."""

    paper: float | None
    ours: float
    low: float = float("nan")
    high: float = float("nan")
    reason: str = ""
    p: float = float("nan")

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
    """A table of a paper with our numbers.

    Attributes:
        table: which.
        rows: label -> cells.
        used: label -> the metric that computed it.
        notes: label -> what differs from the paper.
        how: label -> profile, encoder, vectors, labels, ties, references.
        remarks: what has to stand below.
    """

    table: PaperTable
    rows: dict[str, list[Cell]]
    used: dict[str, str]
    notes: dict[str, str]
    how: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols of the columns, each once."""
        return tuple(dict.fromkeys(c.protocol for c in self.table.columns))


@dataclass
class Bench:
    """The judgement sets, metrics and results that the tables of one session share.

    Attributes:
        root: folder of the judgement sets.
        objects: named files of object labels.
        extras: whether registered metrics that a paper does not have join its tables.
        resamples: bootstrap draws.
        store: whether scores are kept in the cache folder.
        skip: metrics to leave out (``vilbertscore``), or on one set (``vilbertscore@flickr8k-cf``).
        regions: region features of the judged photographs.
        profile: the profile of the paper's own metrics; empty for the one of its text.
        metrics: what figures about any metric are made of; empty for all that can run.
        pairs: replaced words of a kind that TIGEr's Figure 7 draws.
        wordnet: whether WordNet adds synonyms to the words of that figure.
        vectors: further word vectors that VIFIDEL is tried with (section 4.5).
    """

    root: Path
    objects: tuple[Source, ...] = ()
    extras: bool = True
    resamples: int = 1000
    store: bool = True
    skip: tuple[str, ...] = ()
    regions: Path | None = None
    profile: str = ""
    metrics: tuple[str, ...] = ()
    pairs: int = 300
    wordnet: bool = False
    vectors: tuple[str, ...] = ()
    _sets: dict[tuple[str, str, bool], JudgementSet] = field(default_factory=dict)
    _results: dict[tuple[str, str, str], Evaluation] = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict)

    def fresh(self) -> Bench:
        """Return the same bench with nothing read or computed, for another process."""
        return replace(self, _sets={}, _results={}, _scorers={})

    def keep(
        self,
        spec: str,
        protocol: str,
        objects: str,
        results: tuple[Result, ...],
        scores: dict[str, Floats],
    ) -> None:
        """Take an evaluation that another process made."""
        chosen = protocols.get(protocol)
        judged = protocols.selected(self.judged(chosen.set, objects), chosen)
        self._results[spec, protocol, objects] = Evaluation(
            judged, chosen, results, scores, SEED, self.resamples
        )

    def skipped(self, spec: str, set_name: str) -> bool:
        """Say whether a metric was asked to be left out."""
        name = spec.partition("(")[0]
        return name in self.skip or f"{name}@{set_name}" in self.skip

    def judged(self, name: str, objects: str = "", counts: bool = False) -> JudgementSet:
        """Return a judgement set, read once, with the object labels of the named sources.

        Raises:
            InputError: files of the set, or labels of these sources, are not there.
        """
        key = (name, objects, counts)
        if key not in self._sets:
            raw = self._raw(name)
            self._sets[key] = (
                labels.labelled(raw, self._sources(objects), counts)
                if objects
                else self._given(raw)
            )
        return self._sets[key]

    def _raw(self, name: str) -> JudgementSet:
        """Return a set with the labels that it brings itself: these are its gold ones."""
        key = (name, GOLD + " only", False)
        if key not in self._sets:
            self._sets[key] = sets.load_ratings(name, self.root)
        return self._sets[key]

    def _given(self, judged: JudgementSet) -> JudgementSet:
        """Give a set without labels of its own those that the user named, where they fit."""
        files = tuple(s for s in self.objects if s.path is not None)
        if judged.samples.objects is not None or not files:
            return judged
        try:
            return labels.labelled(judged, files)
        except InputError:  # the files are of other images: this set stays as it is
            return judged

    def _sources(self, objects: str) -> tuple[Source, ...]:
        """Return the sources of a row: ``gold+D500``."""
        named = {s.name.lower(): s for s in self.objects}
        sources = []
        for name in objects.split("+"):
            if name.lower() in named:
                sources.append(named[name.lower()])
            elif name in (GOLD, DETECTOR):
                sources.append(Source(name))
            else:
                raise InputError(f"labels called {name} are needed: --objects {name}=FILE")
        return tuple(sources)

    def has(self, objects: str) -> bool:
        """Say whether the user named all sources of a row (gold and the detector need no file)."""
        try:
            self._sources(objects)
        except InputError:
            return False
        return True

    def scorer(self, spec: str) -> Scorer:
        """Return the scorer of one metric, made once."""
        if spec not in self._scorers:
            self._scorers[spec] = Scorer([spec], store=self.store, regions=self.regions)
        return self._scorers[spec]

    def result(self, spec: str, protocol: str, objects: str = "") -> Evaluation:
        """Return the evaluation of one metric under a protocol, computed once."""
        key = (spec, protocol, objects)
        if key not in self._results:
            chosen = protocols.get(protocol)
            if self.skipped(spec, chosen.set):
                return self._left_out(spec, chosen)
            counts = "+" in objects and "counts=True" in spec
            self._results[key] = evaluate(
                self.judged(chosen.set, objects, counts),
                chosen,
                self.scorer(spec),
                resamples=self.resamples,
            )
        return self._results[key]

    def _left_out(self, spec: str, protocol: protocols.Protocol) -> Evaluation:
        names = [n for *_, columns in self.scorer(spec).steps for n in columns]
        empty = tuple(Result(n, float("nan"), reason=SKIPPED) for n in names)
        return Evaluation(self.judged(protocol.set), protocol, empty, {}, 0, self.resamples)

    def columns(
        self, specs: Iterable[str], samples: CaptionSet, why: dict[str, str]
    ) -> dict[str, Floats]:
        """Return the scores of several metrics; what has none is noted in ``why``."""
        scored: dict[str, Floats] = {}
        for spec in specs:
            for name, scores in self.scorer(spec)(samples).items():
                if scores.reason or np.isnan(scores.values).all():
                    why[name] = short(scores.reason or next(iter(scores.unscored), "no score"))
                else:
                    scored[name] = scores.values
        return scored

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


# -- which metric stands for a row -----------------------------------------------------------------


def missing_here(spec: str) -> str:
    """Return what a metric lacks on this machine, or nothing."""
    try:
        missing = registry.create(spec).missing()
    except UsageError as err:
        return str(err).partition(". ")[0]
    return str(missing[0]) if missing else ""


def choose(choices: tuple[Choice, ...], bench: Bench) -> tuple[Choice | None, str]:
    """Return the first choice that can run here, or None and why not even the last one can."""
    why = ""
    for choice in choices:
        lacking = missing_here(choice.spec)
        if not lacking and choice.objects and not bench.has(choice.objects):
            named = [n for n in choice.objects.split("+") if not bench.has(n)]
            lacking = "needs --objects " + " ".join(f"{n}=FILE" for n in named)
        if not lacking:
            return choice, ""
        why = lacking
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


def profiled(choice: Choice, table: PaperTable, bench: Bench) -> Choice:
    """Return the choice with the profile that this run takes."""
    chosen = bench.profile or table.profile
    return replace(choice, spec=choice.spec.replace(PROFILE, chosen))


def chosen_rows(table: PaperTable, bench: Bench, notes: dict[str, str]) -> dict[str, Choice | None]:
    """Return what computes each row of a table, our other metrics behind the paper's.

    These join where the references are those of the set: a table with 48 references would take
    longer for them than for all the paper's own rows.
    """
    chosen: dict[str, Choice | None] = {}
    for row in table.rows:
        if row.human:
            chosen[row.label], notes[row.label] = None, "agreement among the judges of the set"
            continue
        if isinstance(row.choices, str):
            chosen[row.label], notes[row.label] = None, row.choices
            continue
        choices = tuple(profiled(c, table, bench) for c in row.choices)
        chosen[row.label], why = choose(choices, bench)
        choice = chosen[row.label]
        notes[row.label] = short(why) if choice is None else choice.note
    used = [protocols.get(c.protocol) for c in table.columns]
    if bench.extras and all(p.references is None for p in used):
        taken = {c.spec.partition("(")[0] for c in chosen.values() if c is not None}
        for name in registry.names():
            if name not in taken:
                column = registry.load(name).columns[0].name
                label = f"+ {column}"
                chosen[label], why = choose((Choice(name, column),), bench)
                notes[label] = EXTRAS if chosen[label] is not None else short(why)
    return chosen


def asked_spec(choice: Choice, options: str = "") -> str:
    """Return the metric of a choice in its usual form, with further parameters."""
    name, _, rest = choice.spec.rstrip(")").partition("(")
    told = ",".join(filter(None, (rest, options)))
    return registry.text_form(registry.create(f"{name}({told})" if told else name))


def asked(choice: Choice, column: PaperColumn) -> tuple[str, str]:
    """Return the metric that a cell asks for, and the full name of its column.

    Example:
        >>> asked(Choice("vifidel(profile='paper')", "vifidel"),
        ...       PaperColumn("k", "p", options="counts=False"))[1]
        "vifidel(profile='paper', counts=False)"
    """
    form = asked_spec(choice, column.options)
    return form, choice.column + form[len(form.partition("(")[0]) :]


# -- filling ---------------------------------------------------------------------------------------


def fill(table: PaperTable, bench: Bench) -> Filled:
    """Compute what can be computed of a table."""
    printed: dict[str, Any] = reported()[table.paper][table.key]
    rows: dict[str, list[Cell]] = {}
    used: dict[str, str] = {}
    notes: dict[str, str] = {}
    how: dict[str, str] = {}
    known = {row.label: row for row in table.rows}
    chosen = chosen_rows(table, bench, notes)
    for label, choice in chosen.items():
        row = known.get(label, Row(label))
        values = printed.get(row.printed, {})
        if row.human:
            rows[label] = [_people(bench, row, c, values.get(c.key)) for c in table.columns]
            used[label] = row.human
            continue
        if choice is None:
            rows[label] = [
                Cell(values.get(c.key), float("nan"), reason=notes[label]) for c in table.columns
            ]
            continue
        used[label] = asked(choice, table.columns[0])[1]
        signature = ""
        rows[label] = []
        for column in table.columns:
            cell, said = _cell(bench, choice, column, values.get(column.key), table.scale)
            rows[label].append(cell)
            signature = signature or said
        how[label] = _how(signature, table)
    remarks = (*_p_values(table, rows), *_ties_apart(table, bench, chosen), *_dashes(table, rows))
    return Filled(table, rows, used, notes, how, remarks)


def _people(bench: Bench, row: Row, column: PaperColumn, paper: float | None) -> Cell:
    chosen = protocols.get(column.protocol)
    try:
        judged = protocols.selected(bench.judged(chosen.set), chosen)
    except InputError as err:
        return Cell(paper, float("nan"), reason=lacking_files(err, chosen.set))
    ceilings = agreement.ceiling(judged)
    if row.human not in ceilings:
        return Cell(paper, float("nan"), reason=f"{chosen.set} holds one rating per caption")
    return Cell(paper, ceilings[row.human])


def _cell(
    bench: Bench, choice: Choice, column: PaperColumn, paper: float | None, scale: float
) -> tuple[Cell, str]:
    """Return a cell and the signature of its scores."""
    spec, name = asked(choice, column)
    nothing = float("nan")
    try:
        result = bench.result(spec, column.protocol, choice.objects).result(name)
    except InputError as err:
        set_name = protocols.get(column.protocol).set
        return Cell(paper, nothing, reason=lacking_files(err, set_name)), ""
    if result.reason:
        why = result.reason
        if protocols.get(column.protocol).references == 0 and "needs references" in why:
            why = "needs references, and these columns have none"
        return Cell(paper, nothing, reason=why), ""
    value = result.groups[column.group] if column.group else result.value
    whole = not column.group
    cell = Cell(
        paper,
        value * scale,
        result.low * scale if whole else nothing,
        result.high * scale if whole else nothing,
        p=result.p,
    )
    return cell, result.signature


def lacking_files(err: InputError, set_name: str) -> str:
    """Say which files of a set are missing, in one line; other problems as they are."""
    lines = str(err).splitlines()
    absent = [line for line in lines if line.rstrip().endswith("is not there")]
    if not absent:
        return short(lines[0], 200)
    return f"the files of {set_name} are not here (`captious data {set_name}` names them)"


def _how(signature: str, table: PaperTable) -> str:
    """Return what decides a row's numbers: from the signature, and from the protocols."""
    parts = dict(part.partition(":")[::2] for part in signature.split("|")[1:])
    said = [
        f"{word} {parts[key]}"
        for key, word in _HOW.items()
        if parts.get(key) not in (None, "none", "given")
    ]
    used = [protocols.get(c.protocol) for c in table.columns]
    ties = sorted({p.ties for p in used if p.measure == "accuracy"})
    if ties:
        said.append(f"ties {'/'.join(ties)}")
    counts = dict.fromkeys("the set's" if p.references is None else str(p.references) for p in used)
    said.append(f"references {'/'.join(counts)}")
    return ", ".join(said)


def _p_values(table: PaperTable, rows: dict[str, list[Cell]]) -> list[str]:
    """Say the largest p of the table's correlations, where the paper prints p-values."""
    p_values = {
        (label, column.key): cell.p
        for label, cells in rows.items()
        for column, cell in zip(table.columns, cells, strict=True)
        if not math.isnan(cell.p)
    }
    if not table.p:
        return []
    if not p_values:
        return [f"p-values: {table.p}; ours are not computed, for want of data"]
    worst = max(p_values, key=lambda k: p_values[k])
    return [
        f"p-values: {table.p}; ours, observations taken as independent: largest "
        f"{p_values[worst]:.2g} ({worst[0]}, {worst[1]})"
    ]


def _ties_apart(table: PaperTable, bench: Bench, chosen: dict[str, Choice | None]) -> list[str]:
    """Say where the strict rule and ties that count half give different answers."""
    lines = []
    for label, choice in chosen.items():
        for column in table.columns:
            if choice is None or "/strict-" not in column.protocol or not column.group:
                continue
            spec, name = asked(choice, column)
            accuracies = []
            for rule in ("strict", "half"):
                protocol = column.protocol.replace("/strict-", f"/{rule}-")
                try:
                    result = bench.result(spec, protocol, choice.objects).result(name)
                except InputError:
                    break
                if result.reason:
                    break
                accuracies.append(table.scale * result.groups[column.group])
            if len(accuracies) == 2 and accuracies[1] - accuracies[0] >= APART * table.scale / 100:
                lines.append(
                    f"{label}, {column.key}: many equal scores, so that the tie rule decides: "
                    f"{accuracies[0]:.1f} strict, {accuracies[1]:.1f} with ties half"
                )
    return lines


def _dashes(table: PaperTable, rows: dict[str, list[Cell]]) -> list[str]:
    """Give every dash its reason, the same ones together."""
    rows_by_reason: dict[str, dict[str, list[str]]] = {}
    for label, cells in rows.items():
        for column, cell in zip(table.columns, cells, strict=True):
            if math.isnan(cell.ours):
                why = short(cell.reason or "no value", 200)
                rows_by_reason.setdefault(why, {}).setdefault(label, []).append(column.key)
    lines = []
    for why, columns_by_row in rows_by_reason.items():
        columns = list(dict.fromkeys(k for keys in columns_by_row.values() for k in keys))
        whose = "all rows" if len(columns_by_row) == len(rows) else ", ".join(columns_by_row)
        where = "" if len(columns) == len(table.columns) else f" ({', '.join(columns)})"
        lines.append(f"dash in {whose}{where}: {why}")
    return lines


def render(filled: Filled, format: str = "text") -> str:
    """Return a filled table: each cell is ``printed / ours (difference)``."""
    table = filled.table
    head = ["row", *(c.key for c in table.columns), "computed by", "how", "remark"]
    cells = [head]
    for label, row in filled.rows.items():
        cells.append(
            [
                label,
                *(c.text(table.scale) for c in row),
                filled.used.get(label, "-"),
                filled.how.get(label, "-"),
                short(filled.notes.get(label, ""), 90),
            ]
        )
    said = [
        f"each cell: paper / ours (difference); {'percent' if table.scale == 100 else 'as printed'}"
    ]
    for name in filled.protocols:
        said.append(f"protocol {name}: {protocols.get(name).describe()}")
    said += filled.remarks
    if table.note:
        said.append(table.note)
    mark = "- " if format == "markdown" else ""
    title = f"### {table.title}" if format == "markdown" else table.title
    return f"{title}\n\n{grid(cells, format)}\n\n" + "\n".join(mark + s for s in said) + "\n"
