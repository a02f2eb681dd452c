"""Pictures of explanations, drawn from their typed parts only."""

from __future__ import annotations

from captious.report.pictures import alignment, bars, flow, graphs, matrix, regions, words
from captious.report.pictures.side_by_side import stacked
from captious.types import (
    Alignment,
    Explanation,
    Flow,
    MatchMatrix,
    Part,
    RegionAttention,
    SceneGraphs,
    WordMarks,
)


def draw(explanation: Explanation) -> str | None:
    """Return one SVG of all parts, one below the other; None where there is nothing to draw."""
    return stacked([picture(part) for part in explanation.parts]) if explanation.parts else None


def picture(part: Part) -> str:
    """Return the SVG of one part."""
    if isinstance(part, Alignment):
        return alignment.draw(part)
    if isinstance(part, MatchMatrix):
        return matrix.draw(part)
    if isinstance(part, Flow):
        return flow.draw(part)
    if isinstance(part, RegionAttention):
        return regions.draw(part)
    if isinstance(part, SceneGraphs):
        return graphs.draw(part)
    if isinstance(part, WordMarks):
        return words.draw(part)
    return bars.draw(part)
