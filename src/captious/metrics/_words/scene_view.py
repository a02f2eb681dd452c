"""Scene graphs told: words, data and typed graphs of what matched."""

from __future__ import annotations

from typing import Any

from captious.metrics.base import Explanation
from captious.text.scene_graph import Matches, SceneGraph
from captious.types import Graph, Node, SceneGraphs


def explanation(
    caption: SceneGraph, references: SceneGraph, matches: Matches, values: dict[str, float]
) -> Explanation:
    """Describe two graphs and their matches."""
    mine, theirs = tuples(caption), tuples(references)
    hits = _hits(matches)
    used = _used(matches)
    lines = [
        f"spice {values['spice']:.4f} = 2 x {matches.count} matched / "
        f"({len(caption)} caption + {len(references)} reference tuples)"
    ]
    for title, listed, marked in (("caption", mine, hits), ("references", theirs, used)):
        for yes, word in ((True, "matched"), (False, "not matched")):
            part = [_text(t) for key, t in listed.items() if (key in marked) == yes]
            lines.append(f"{title}, {word}: {', '.join(part) or '-'}")
    data: dict[str, Any] = {
        "scores": {k: (None if v != v else float(v)) for k, v in values.items()},
        "caption": [{"tuple": list(t), "matched": key in hits} for key, t in mine.items()],
        "references": [{"tuple": list(t), "matched": key in used} for key, t in theirs.items()],
    }
    drawn = SceneGraphs(_marked(caption, hits), _marked(references, used))
    return Explanation("\n".join(lines), data, (drawn,))


def tuples(graph: SceneGraph) -> dict[tuple[int, ...], tuple[str, ...]]:
    """Return the tuples of a graph as words, by their numbers.

    Keys have one number for an object, two for an attribute, three for a relation.
    """
    names = [str(c) for c in graph.objects]
    out: dict[tuple[int, ...], tuple[str, ...]] = {(i,): (n,) for i, n in enumerate(names)}
    for i, owned in enumerate(graph.attributes):
        for k, concept in enumerate(owned):
            out[i, k] = (names[i], str(concept))
    for (source, target), named in graph.relations.items():
        for k, concept in enumerate(named):
            out[source, target, k] = (names[source], str(concept), names[target])
    return out


def _hits(matches: Matches) -> set[tuple[int, ...]]:
    objects = {(i,) for i, like in enumerate(matches.objects) if like}
    return {*objects, *matches.attributes, *matches.relations}


def _used(matches: Matches) -> set[tuple[int, ...]]:
    objects = {(at,) for like in matches.objects for at in like}
    return {*objects, *matches.attributes.values(), *matches.relations.values()}


def _text(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"({', '.join(words)})"


def _marked(graph: SceneGraph, matched: set[tuple[int, ...]]) -> Graph:
    """Return a graph whose nodes know whether they matched."""
    return Graph(
        tuple(Node(str(concept), (i,) in matched) for i, concept in enumerate(graph.objects)),
        tuple(
            tuple(Node(str(concept), (i, k) in matched) for k, concept in enumerate(owned))
            for i, owned in enumerate(graph.attributes)
        ),
        tuple(
            (source, target, Node(str(concept), (source, target, k) in matched))
            for (source, target), named in graph.relations.items()
            for k, concept in enumerate(named)
        ),
    )
