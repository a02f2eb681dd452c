"""The data that flows through captious: frozen, columnar inside, no behaviour beyond access."""

from captious.types.captions import CaptionSet, Sample, TextPool, WorkKey
from captious.types.explanations import (
    Alignment,
    Contribution,
    Contributions,
    Explanation,
    Flow,
    Graph,
    LabelledPhotograph,
    Link,
    MatchMatrix,
    Node,
    Part,
    RegionAttention,
    SceneGraphs,
    WordMark,
    WordMarks,
)
from captious.types.image_evidence import Evidence, Labels, Place, Regions
from captious.types.metric_values import Column, Floats, Ints, Need, Stats

__all__ = [
    "Alignment",
    "CaptionSet",
    "Column",
    "Contribution",
    "Contributions",
    "Evidence",
    "Explanation",
    "Floats",
    "Flow",
    "Graph",
    "Ints",
    "LabelledPhotograph",
    "Labels",
    "Link",
    "MatchMatrix",
    "Need",
    "Node",
    "Part",
    "Place",
    "RegionAttention",
    "Regions",
    "Sample",
    "SceneGraphs",
    "Stats",
    "TextPool",
    "WordMark",
    "WordMarks",
    "WorkKey",
]
