"""Pictures of explanations, drawn from their typed parts only."""

from __future__ import annotations

from captious.report.pictures import (
    alignment,
    bars,
    flow,
    graphs,
    matrix,
    photograph,
    regions,
    words,
)
from captious.report.pictures.side_by_side import joined, stacked
from captious.types import (
    Alignment,
    Explanation,
    Flow,
    LabelledPhotograph,
    MatchMatrix,
    Part,
    RegionAttention,
    SceneGraphs,
    WordMarks,
)


def draw(explanation: Explanation) -> str | None:
    """Return one SVG of all parts, one below the other; None where there is nothing to draw.

    A photograph stands beside the part that follows it.
    """
    drawn: list[str] = []
    beside: list[str] = []
    for part in explanation.parts:
        beside.append(picture(part))
        if not isinstance(part, LabelledPhotograph):
            drawn.append(joined(beside))
            beside = []
    drawn += beside
    return stacked(drawn) if drawn else None


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
    if isinstance(part, LabelledPhotograph):
        return photograph.draw(part)
    if isinstance(part, SceneGraphs):
        return graphs.draw(part)
    if isinstance(part, WordMarks):
        return words.draw(part)
    return bars.draw(part)
