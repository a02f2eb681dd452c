"""Paper tables beside our own: printed value, ours, difference, and the reason where known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from captious import registry
from captious.errors import InputError, UsageError, did_you_mean
from captious.judgements import protocols
from captious.meta import agreement
from captious.meta.tables import bullets, grid, short
from captious.papers.bench import SKIPPED, Bench, lacking_files
from captious.papers.paper_tables import (
    PROFILE,
    TABLES,
    Choice,
    PaperColumn,
    PaperTable,
    Row,
    reported,
)

__all__ = ["SKIPPED", "Bench", "fill", "find", "render"]
EXTRAS = "not in the paper"
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
        return [f"p-values: {table.p}; ours are not computed because data are missing"]
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
    """Return a filled table: each cell is ``printed / ours (difference)``.

    How a row was computed and what differs from the paper stands below, by letter: rows that share
    both share the letter.
    """
    table = filled.table
    letters: dict[str, str] = {}
    cells = [["row", *(c.key for c in table.columns), "computed by", "note"]]
    for label, row in filled.rows.items():
        told = "; ".join(
            filter(None, (filled.how.get(label, ""), short(filled.notes.get(label, ""))))
        )
        letter = letters.setdefault(told, _letter(len(letters))) if told else ""
        values = (c.text(table.scale) for c in row)
        cells.append([label, *values, filled.used.get(label, "-"), letter])
    said = [
        f"each cell: paper / ours (difference); {'percent' if table.scale == 100 else 'as printed'}"
    ]
    said += [f"note {letter}: {told}" for told, letter in letters.items()]
    for name in filled.protocols:
        said.append(f"protocol {name}: {protocols.get(name).describe()}")
    said += filled.remarks
    if table.note:
        said.append(table.note)
    title = f"### {table.title}" if format == "markdown" else table.title
    return f"{title}\n\n{grid(cells, format)}\n\n{bullets(said, format)}\n"


def _letter(number: int) -> str:
    """Return a, b, ... z, aa, ab, ...

    Example:
        >>> _letter(0), _letter(27)
        ('a', 'ab')
    """
    rest, last = divmod(number, 26)
    return (_letter(rest - 1) if rest else "") + chr(ord("a") + last)
