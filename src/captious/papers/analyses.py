"""What the figures of the papers share: an analysis as table and drawing, and its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from captious import registry
from captious.errors import InputError, UsageError
from captious.judgements.judgement_set import JudgementSet, Ratings
from captious.meta.tables import bullets, grid, short
from captious.papers.bench import SKIPPED, Bench
from captious.types import Floats


@dataclass(frozen=True)
class Analysis:
    """A figure of a paper as a table, and as curves where it is one.

    Attributes:
        title: what it is.
        cells: the table; its first row is the head.
        remarks: what has to stand beside it.
        lines: name -> values, to be drawn over ``at``.
        at: positions of the values.
        axes: what the axes of the curves mean.
        heat: rows, columns, values and their middle, to be drawn as a heat map.
        panels: title -> (positions, curves), to be drawn side by side.
    """

    title: str
    cells: list[list[str]]
    remarks: list[str]
    lines: dict[str, list[float]] = field(default_factory=dict)
    at: tuple[float, ...] = ()
    axes: tuple[str, str] = ("", "")
    heat: tuple[list[str], list[str], Floats, float] | None = None
    panels: dict[str, tuple[tuple[float, ...], dict[str, list[float]]]] = field(
        default_factory=dict
    )

    @property
    def drawable(self) -> bool:
        """Whether there is something to draw."""
        return bool(self.lines or self.panels or self.heat is not None)

    def draw(self, path: Path) -> None:
        """Draw the panels, the heat map or the curves."""
        from captious.meta import pictures

        if self.panels:
            pictures.panels(self.panels, path, *self.axes)
        elif self.heat is not None:
            rows, columns, values, middle = self.heat
            pictures.heat(rows, columns, values, path, self.title, middle)
        else:
            pictures.curves(self.lines, self.at, path, *self.axes)

    def render(self, format: str = "text") -> str:
        """Return it as text or markdown."""
        head = "### " if format == "markdown" else ""
        said = bullets(self.remarks, format)
        return f"{head}{self.title}\n\n{grid(self.cells, format)}\n\n{said}\n"


def usable(specs: tuple[str, ...] | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the metrics that can run here, and why the others cannot."""
    fine, why = [], {}
    for spec in specs or tuple(registry.names()):
        try:
            missing = registry.create(spec).missing()
        except UsageError as err:
            why[spec] = short(str(err).partition(". ")[0])
            continue
        if missing:
            why[spec] = short(str(missing[0]).partition(". ")[0], 200)
        else:
            fine.append(spec)
    return fine, why


def wanted(bench: Bench, only: tuple[str, ...] | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the metrics of an analysis: all that can run and were not asked to be left out."""
    fine, why = usable(only or bench.metrics or None)
    skipped = [s for s in fine if bench.skipped(s, "")]
    return [s for s in fine if s not in skipped], why | dict.fromkeys(skipped, SKIPPED)


def left_out(why: dict[str, str]) -> list[str]:
    """Return a remark for everything that was not computed, the same reasons together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in why.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"{', '.join(names)}: not computed: {reason}" for reason, names in by_reason.items()]


def ratings_of(judged: JudgementSet) -> Ratings:
    """Return the ratings of a set."""
    if not isinstance(judged.judged, Ratings):
        raise InputError(f"{judged.name} holds no ratings")
    return judged.judged


def number(value: float | None, digits: int) -> str:
    """Return a number, or a dash."""
    return "-" if value is None or value != value else f"{value:.{digits}f}"
