"""Is one system better than another? Paired bootstrap and paired approximate randomisation.

Both work on summed statistics, so corpus metrics (BLEU, METEOR) are tested as they are reported.
Rows are paired by sample id, resampled or swapped by image. p-values are two-sided and corrected
for the number of comparisons shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from itertools import combinations
from string import ascii_lowercase
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.engine.plan import Step
from captious.engine.table import ScoreTable
from captious.errors import InputError, UsageError
from captious.io.grids import Part, blocks, grid, joined, many
from captious.io.pages import WIDE, paper_table
from captious.statistics import bootstrap, corrections
from captious.types import Floats


@dataclass(frozen=True)
class Difference:
    """System ``b`` minus system ``a`` in one column."""

    column: str
    a: str
    b: str
    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_randomisation: float
    corrected: float
    significant: bool


@dataclass(frozen=True)
class Comparison:
    """All pairwise differences; the first system is the baseline."""

    table: ScoreTable
    systems: tuple[str, ...]
    differences: tuple[Difference, ...]
    level: float
    correction: str
    trials: int
    seed: int

    def beats(self, column: str, system: str) -> list[str]:
        """Return the systems that ``system`` is significantly better than."""
        better = 1.0 if self.table.columns[column].higher_is_better else -1.0
        out = []
        for d in self.differences:
            if d.column == column and d.significant:
                if d.b == system and d.difference * better > 0:
                    out.append(d.a)
                elif d.a == system and d.difference * better < 0:
                    out.append(d.b)
        return out

    def render(self, format: str = "text") -> str:
        """Return the comparison as text, markdown, latex or JSON."""
        if format == "json":
            whole = {
                "baseline": self.systems[0],
                "systems": {
                    s: {
                        c: {"value": float(v), "low": v.low, "high": v.high}
                        for c, v in held.items()
                    }
                    for s, held in self.table.corpora.items()
                },
                "differences": [asdict(d) for d in self.differences],
                "level": self.level,
                "correction": self.correction,
                "trials": self.trials,
                "seed": self.seed,
                "signatures": self.table.signatures,
            }
            return json.dumps(whole, indent=1) + "\n"
        if format == "latex":
            body = "\n".join(f"% {line}" for line in [self._legend(), *self._said()])
            table = paper_table(self.table, _letters(self.systems), self._letters)
            return f"{table}\n{body}\n\n{grid(self._tests(), format)}\n"
        return joined(self.parts(format), format)

    def parts(self, format: str = "text") -> list[Part]:
        """Return the values, the tests and the remarks, for text or markdown."""
        letter = _letters(self.systems)
        cells = [["metric", *(f"{letter[s]} {s}" for s in self.systems)]]
        for column in self.table.values:
            row = [column]
            for system in self.systems:
                above = self._letters(column, system)
                value = f"{self.table.corpora[system][column]:.4f}"
                if format == "markdown":
                    row.append(f"{value}<sup>{above}</sup>" if above else value)
                else:
                    row.append(f"{value}{above and '^' + above}")
            cells.append(row)
        columns: dict[str, list[str]] = {}
        for column, signature in self.table.signatures.items():
            columns.setdefault(signature, []).append(column)
        said = [*self._said(), *(f"{', '.join(of)}: {told}" for told, of in columns.items())]
        mark = {"text": "", "markdown": "- "}[format]
        remarks = "\n".join(mark + line for line in said)
        values = blocks(cells, WIDE) if format == "text" else [cells]
        return [*values, self._tests(), remarks]

    def _letters(self, column: str, system: str) -> str:
        """Return the letters of the systems that a system beats."""
        letter = _letters(self.systems)
        return "".join(sorted(letter[s] for s in self.beats(column, system)))

    def _legend(self) -> str:
        return ", ".join(f"{letter} = {s}" for s, letter in _letters(self.systems).items())

    def _tests(self) -> list[list[str]]:
        """Return every test that was corrected for, one row each."""
        tests = [["metric", "pair", "difference", "95 % interval", "p boot", "p swap", "p corr."]]
        for d in self.differences:
            tests.append(
                [
                    d.column,
                    f"{d.b} - {d.a}",
                    f"{d.difference:+.4f}",
                    f"[{d.low:+.4f}, {d.high:+.4f}]",
                    f"{d.p_bootstrap:.4f}",
                    f"{d.p_randomisation:.4f}",
                    f"{d.corrected:.4f}{'*' if d.significant else ''}",
                ]
            )
        return tests

    def _said(self) -> list[str]:
        count, columns = len(self.differences), len(self.table.values)
        pairs = len(self.systems) * (len(self.systems) - 1) // 2
        how = _CORRECTIONS[self.correction]
        return [
            f"{many(count, 'test')}: {many(columns, 'column')} x "
            f"{many(pairs, 'pair')} of systems; p corr. = p swap, {how}",
            f"baseline: {self.systems[0]}; a raised letter (^a) = significantly better than that "
            f"system (p corr. < {self.level:g})",
            f"p swap: paired approximate randomisation; p boot: paired bootstrap; {self.trials:,} "
            f"trials each, by image, seed {self.seed}",
        ]

    def __str__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str:
        """Show values with superscripts in a notebook; the differences are on hover."""
        letter = _letters(self.systems)
        head = "".join(f"<th>{letter[s]} {escape(s)}</th>" for s in self.systems)
        told = {(d.column, d.b): d for d in self.differences if d.a == self.systems[0]}
        rows = []
        for column in self.table.values:
            cells = ""
            for system in self.systems:
                beaten = self._letters(column, system)
                value = f"{self.table.corpora[system][column]:.4f}"
                gap = told.get((column, system))
                title = "" if gap is None else f"{gap.difference:+.4f}, p {gap.corrected:.4f}"
                cells += f'<td title="{title}">{value}<sup>{beaten}</sup></td>'
            rows.append(f"<tr><th>{escape(column)}</th>{cells}</tr>")
        return (
            f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def __repr__(self) -> str:
        real = sum(d.significant for d in self.differences)
        return (
            f"<Comparison of {', '.join(self.systems)}: {real} of {len(self.differences)} "
            f"differences are significant>"
        )


_CORRECTIONS = {
    "holm": "corrected for the number of tests (Holm)",
    "bh": "corrected for the number of tests (Benjamini-Hochberg)",
    "none": "not corrected for the number of tests",
}


def _letters(systems: tuple[str, ...]) -> dict[str, str]:
    """Return a letter for each system: a to z, then aa, ab, ..."""
    names = [*ascii_lowercase, *(x + y for x in ascii_lowercase for y in ascii_lowercase)]
    return dict(zip(systems, names, strict=False))


def compare(
    table: ScoreTable, *, trials: int | None = None, level: float = 0.05, correction: str = "holm"
) -> Comparison:
    """Test every pair of systems of a table.

    Args:
        table: scores of two or more systems on the same samples.
        trials: bootstrap draws and random swaps; by :func:`default_trials` if None.
        level: a corrected p-value below this is significant.
        correction: ``holm``, ``bh`` (false discovery rate) or ``none``.
    """
    if correction not in corrections.CORRECTIONS:
        raise UsageError(f"correction is 'holm', 'bh' or 'none', not {correction!r}")
    systems = tuple(table.corpora)
    if len(systems) < 2:
        raise UsageError("compare needs at least two systems; give two or more caption files")
    order = _aligned(table, systems)
    images = table.images[order[systems[0]]].astype(str)
    keys, groups = np.unique(images, return_inverse=True)
    seed = table.seed
    if trials is None:
        trials = default_trials(len(systems), len(table.values), len(keys))
    pairs: list[tuple[Step, str, str, _Pair]] = []
    for step, rows in zip(table.steps, table.blocks, strict=True):
        sums = {}
        both = np.ones(len(images), bool)
        for system in systems:
            both &= ~np.isnan(rows[order[system]]).any(axis=1)
        for system in systems:
            block = np.where(both[:, None], rows[order[system]], np.nan)
            sums[system] = bootstrap.group(block, groups, len(keys))
        pairs += [
            (step, a, b, _Pair(step.metric, sums[a], sums[b])) for a, b in combinations(systems, 2)
        ]
    for weights in bootstrap.draws(len(keys), trials, seed):
        for *_, pair in pairs:
            pair.draw(weights)
    for swap in _swaps(len(keys), trials, seed + 1):
        for *_, pair in pairs:
            pair.swap(swap)
    listed: list[dict[str, Any]] = []
    for step, a, b, pair in pairs:
        result = pair.result(trials)
        for name, at in zip(step.names, step.index, strict=True):
            listed.append({"column": name, "a": a, "b": b} | {k: v[at] for k, v in result.items()})
    corrected = corrections.corrected(np.array([f["p_randomisation"] for f in listed]), correction)
    differences = tuple(
        Difference(**f, corrected=float(p), significant=bool(p < level))
        for f, p in zip(listed, corrected, strict=True)
    )
    return Comparison(table, systems, differences, level, correction, trials, seed)


def default_trials(systems: int, columns: int, images: int) -> int:
    """Return enough trials for the correction: 100 per comparison, between 1,000 and 10,000.

    A p-value is at least 1 / (trials + 1), and Holm multiplies the smallest by the number of
    comparisons: with too few trials nothing is significant, however large the difference. Beyond
    100,000 images there are fewer, so that the time stays bounded.
    """
    comparisons = systems * (systems - 1) // 2 * columns
    bounded = max(1000, int(1e9 / max(images, 1)))
    return min(max(1000, 100 * comparisons), 10_000, bounded)


def _aligned(table: ScoreTable, systems: tuple[str, ...]) -> dict[str, npt.NDArray[np.int64]]:
    """Return for each system its row numbers, in the order of the first system's ids."""
    place = {s: {} for s in systems}  # type: dict[str, dict[str, int]]
    for row, (system, name) in enumerate(zip(table.systems, table.ids, strict=True)):
        place[system][name] = row
    first = place[systems[0]]
    problems = []
    for system in systems[1:]:
        lacking = [i for i in first if i not in place[system]]
        extra = [i for i in place[system] if i not in first]
        for less, more, ids in ((system, systems[0], lacking), (systems[0], system, extra)):
            if ids:
                shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
                problems.append(
                    f"systems are compared on the same captions' ids, but {less} lacks {len(ids)} "
                    f"of the ids of {more}: {shown}"
                )
    if problems:
        raise InputError(problems)
    return {s: np.array([place[s][i] for i in first], np.int64) for s in systems}


class _Pair:
    """One metric and two systems; draws are made once and serve every pair."""

    def __init__(self, metric: Any, a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> None:
        self._metric, self._a, self._b = metric, a, b
        self._gap = b[0] - a[0], b[1] - a[1]
        self._sums = [(x.sum(axis=0), n.sum()) for x, n in (a, b)]
        first, second = (_value(metric, *sums) for sums in self._sums)
        self._observed = second - first
        self._drawn: list[Floats] = []
        self._reached = np.zeros(len(self._observed))

    def draw(self, weights: Floats) -> None:
        """Add bootstrap draws: how often each image is taken."""
        value, a, b = self._metric, self._a, self._b
        self._drawn.append(
            _value(value, weights @ b[0], weights @ b[1])
            - _value(value, weights @ a[0], weights @ a[1])
        )

    def swap(self, swap: Floats) -> None:
        """Add random swaps: whose captions change places."""
        moved, counts = swap @ self._gap[0], swap @ self._gap[1]
        (a_rows, a_count), (b_rows, b_count) = self._sums
        shuffled = _value(self._metric, b_rows - moved, b_count - counts) - _value(
            self._metric, a_rows + moved, a_count + counts
        )
        with np.errstate(invalid="ignore"):
            self._reached += (np.abs(shuffled) >= np.abs(self._observed) - 1e-15).sum(axis=0)

    def result(self, trials: int) -> dict[str, Floats]:
        """Return difference, interval and p-values, one per column of the metric."""
        drawn, observed = np.concatenate(self._drawn), self._observed
        low, high = bootstrap.interval(drawn)
        # Centred on the observed difference: how often would chance alone reach as far?
        with np.errstate(invalid="ignore"):
            far = np.abs(drawn - observed) >= np.abs(observed) - 1e-15
        return {
            "difference": observed,
            "low": low,
            "high": high,
            "p_bootstrap": (far.sum(axis=0) + 1) / (trials + 1),
            "p_randomisation": (self._reached + 1) / (trials + 1),
        }


def _swaps(size: int, trials: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of random swaps, a row of 0 and 1 per trial."""
    rng = np.random.default_rng(seed)
    block = max(1, min(trials, 4_000_000 // max(size, 1)))
    for start in range(0, trials, block):
        yield rng.integers(0, 2, (min(block, trials - start), size)).astype(np.float64)


def _value(metric: Any, totals: Floats, counts: Floats) -> Floats:
    return metric.corpus(np.asarray(totals), np.asarray(counts))
