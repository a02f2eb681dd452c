"""Pictures of agreement: who beats whom, curves, trees. matplotlib is opened on use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import MissingExtra
from captious.meta.evaluate import Evaluation, Test
from captious.types import Floats

_LINES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
"""Okabe and Ito's colours without yellow, which is faint on white."""
_STYLES = ("-", "--", ":", "-.")
_MARKERS = "os^Dv<>PX*h"


def _plot() -> Any:
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "report", "this picture")
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "captious"  # the same picture gives the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    extra = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 130}
    figure.savefig(path, bbox_inches="tight", **extra)
    _plot().close(figure)


def beats(evaluation: Evaluation, tests: Sequence[Test], path: Path, level: float = 0.05) -> None:
    """Draw who beats whom: a coloured cell is a difference that is not by chance."""
    plt = _plot()
    import matplotlib

    names = sorted(
        {t.a for t in tests} | {t.b for t in tests}, key=lambda n: -evaluation.result(n).value
    )
    place = {n: i for i, n in enumerate(names)}
    gaps = np.full((len(names), len(names)), np.nan)
    sure = np.zeros_like(gaps, dtype=bool)
    for t in tests:
        i, j = place[t.a], place[t.b]
        gaps[i, j], gaps[j, i] = t.difference, -t.difference
        sure[i, j] = sure[j, i] = t.corrected < level
    figure, axes = plt.subplots(figsize=(3.2 + 0.26 * len(names), 1.4 + 0.26 * len(names)))
    state = np.where(np.isnan(gaps), np.nan, np.where(sure, np.sign(gaps), 0.0))
    colours = matplotlib.colors.ListedColormap(["#E69F00", "#ececec", "#0072B2"])
    axes.imshow(state, cmap=colours, vmin=-1, vmax=1)
    axes.set_xticks(np.arange(len(names)), [str(i + 1) for i in range(len(names))], fontsize=7)
    axes.xaxis.tick_top()
    labels = [f"{n}  {evaluation.result(n).value:.3f}  {i + 1}" for i, n in enumerate(names)]
    axes.set_yticks(range(len(names)), labels, fontsize=8)
    axes.set_xticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.set_title(
        f"{evaluation.protocol.name}: blue, the row agrees better; orange, the column does;\n"
        f"grey, no significant difference (p < {level:g}, PERM-BOTH, Holm)",
        fontsize=9,
    )
    _save(figure, path)


def intervals(evaluation: Evaluation, path: Path, columns: Sequence[str] | None = None) -> None:
    """Draw the agreement of every metric (or of the named columns) with its interval."""
    plt = _plot()
    drawn = [r for r in evaluation.results if not r.reason]
    results = sorted(
        (r for r in drawn if columns is None or r.metric in columns), key=lambda r: r.value
    )
    figure, axes = plt.subplots(figsize=(6.4, 0.8 + 0.26 * len(results)))
    at = np.arange(len(results))
    values = np.array([r.value for r in results])
    ends = np.array([[r.value - r.low, r.high - r.value] for r in results]).T
    axes.errorbar(values, at, xerr=np.nan_to_num(ends), fmt="o", color="#2a5d8f", capsize=2)
    axes.set_yticks(at, [r.metric for r in results], fontsize=8)
    axes.set_xlabel(f"{evaluation.protocol.name}, 95 % interval over images", fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    _save(figure, path)


def _look(number: int) -> dict[str, Any]:
    """Return how the n-th line is drawn: colour, then style; every line has a marker of its own.

    Example:
        >>> _look(0)["color"], _look(len(_LINES))["color"], _look(len(_LINES))["linestyle"]
        ('#0072B2', '#0072B2', '--')
    """
    return {
        "color": _LINES[number % len(_LINES)],
        "linestyle": _STYLES[number // len(_LINES) % len(_STYLES)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 4,
    }


def curves(lines: dict[str, list[float]], at: Sequence[float], path: Path, x: str, y: str) -> None:
    """Draw one line per metric."""
    plt = _plot()
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for number, (name, values) in enumerate(lines.items()):
        axes.plot(at, values, **_look(number), label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=1, loc="center left", bbox_to_anchor=(1.01, 0.5))
    _save(figure, path)


def panels(
    parts: Mapping[str, tuple[Sequence[float], dict[str, list[float]]]], path: Path, x: str, y: str
) -> None:
    """Draw several sets of curves side by side: title -> (positions, name -> values)."""
    plt = _plot()
    figure, rows = plt.subplots(
        1, len(parts), figsize=(3.2 * len(parts) + 1.6, 3.8), sharey=True, squeeze=False
    )
    named: dict[str, Any] = {}
    for axes, (title, (at, lines)) in zip(rows[0], parts.items(), strict=True):
        for number, (name, values) in enumerate(lines.items()):
            (drawn,) = axes.plot(at, values, **_look(number), label=name)
            named.setdefault(name, drawn)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x, fontsize=8)
        axes.grid(alpha=0.3)
    rows[0][0].set_ylabel(y, fontsize=8)
    rows[0][-1].legend(
        named.values(), named, fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5)
    )
    _save(figure, path)


def dendrogram(names: list[str], steps: Floats, path: Path) -> None:
    """Draw the tree of which metrics say the same."""
    plt = _plot()
    from scipy.cluster import hierarchy

    figure, axes = plt.subplots(figsize=(6.4, 0.8 + 0.24 * len(names)))
    steps = steps.copy()
    steps[-1, 2] = max(steps[-1, 2], 1e-6)  # metrics that are all alike still need an axis
    hierarchy.dendrogram(steps, labels=names, orientation="right", ax=axes, leaf_font_size=8)
    axes.set_xlabel("1 - Spearman's rho between scores (average linkage)", fontsize=8)
    _save(figure, path)


def heat(
    rows: list[str], columns: list[str], values: Floats, path: Path, title: str, centre: float
) -> None:
    """Draw a table of numbers as a heat map."""
    plt = _plot()
    figure, axes = plt.subplots(figsize=(2.6 + 0.62 * len(columns), 1.4 + 0.27 * len(rows)))
    reach = float(np.nanmax(np.abs(values - centre))) or 1.0
    axes.imshow(values, cmap="RdBu", vmin=centre - reach, vmax=centre + reach, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        if not np.isnan(value):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_title(title, fontsize=9)
    _save(figure, path)
