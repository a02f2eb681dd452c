"""The summary of a stream as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from captious.io import grids

if TYPE_CHECKING:
    from captious.engine.tally import StreamSummary

_SHARES = (0.05, 0.5, 0.95)


def summary_text(summary: StreamSummary) -> str:
    """Return the summary as plain text."""
    return grids.joined(summary_parts(summary), "text")


def summary_parts(summary: StreamSummary, format: str = "text") -> tuple[list[list[str]], str]:
    """Return corpus values with their intervals, and how the captions' values are spread."""
    cells = [["metric", *(s or "score" for s in summary.corpora), "5 %", "median", "95 %"]]
    for name, histogram in summary.histograms.items():
        values = [grids.with_interval(v[name], format) for v in summary.corpora.values()]
        spread = [f"{histogram.quantile(share):.3g}" for share in _SHARES]
        cells.append([name, *values, *spread])
    size = grids.many(len(summary), "caption")
    said = [f"{size}; 95 % intervals from a Poisson bootstrap over images"]
    for text in dict.fromkeys(summary.signatures.values()):
        names = [n for n, s in summary.signatures.items() if s == text]
        said.append(f"{', '.join(names)}: {text}")
    said += [f"note: {note} ({count:,})" for note, count in summary.notes.items()]
    said += [
        f"{column}: {grids.many(count, 'caption')} not scored: {why}"
        for (column, why), count in summary.counted.items()
    ]
    return cells, "\n".join(said)
