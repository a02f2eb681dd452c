"""Scene graphs for the eye: words, data and a drawing of what matched."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from captious.metrics.base import Explanation
from captious.text.scene_graph import Matches, SceneGraph

_YES: Final = "#15803d"
_NO: Final = "#9ca3af"
_ROW: Final = 34  # height of an object with its attributes
_ARC: Final = 215  # room for relations, left of the objects
_SIDE: Final = 560  # least width of one graph
_GLYPH: Final = 6.7  # width of a letter at 12 px


def explanation(
    caption: SceneGraph, references: SceneGraph, found: Matches, values: dict[str, float]
) -> Explanation:
    """Describe two graphs and their matches."""
    mine, theirs = tuples(caption), tuples(references)
    hits = _hits(found)
    used = _used(found)
    lines = [
        f"spice {values['spice']:.4f} = 2 x {found.count} matched / "
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
    return Explanation("\n".join(lines), data, _draw(caption, references, hits, used))


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


def _hits(found: Matches) -> set[tuple[int, ...]]:
    objects = {(i,) for i, like in enumerate(found.objects) if like}
    return {*objects, *found.attributes, *found.relations}


def _used(found: Matches) -> set[tuple[int, ...]]:
    objects = {(at,) for like in found.objects for at in like}
    return {*objects, *found.attributes.values(), *found.relations.values()}


def _text(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"({', '.join(words)})"


# -- drawing ----------------------------------------------------------------------------------


def _draw(
    caption: SceneGraph,
    references: SceneGraph,
    hits: set[tuple[int, ...]],
    used: set[tuple[int, ...]],
) -> str:
    """Draw both graphs side by side; what matched is green."""
    height = 60 + _ROW * max(len(caption.objects), len(references.objects), 1)
    left = _width(caption)
    width = left + _width(references)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    sides = ((0, "caption", caption, hits), (left, "references", references, used))
    for x, title, graph, marked in sides:
        parts.append(f'<g transform="translate({x},0)">')
        parts.append(f'<text x="{_ARC}" y="22" font-weight="bold">{title}</text>')
        parts += _relations(graph, marked)
        parts += _objects(graph, marked)
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def _width(graph: SceneGraph) -> int:
    """Return the room that the longest row needs."""
    rows = (
        sum(19 + _GLYPH * len(str(c)) for c in (concept, *owned))
        for concept, owned in zip(graph.objects, graph.attributes, strict=True)
    )
    return max(_SIDE, _ARC + 20 + int(max(rows, default=0)))


def _objects(graph: SceneGraph, marked: set[tuple[int, ...]]) -> list[str]:
    """Draw one box per object, its attributes to the right."""
    out: list[str] = []
    for i, concept in enumerate(graph.objects):
        y = 38 + i * _ROW
        x = _ARC + _box(out, _ARC, y, str(concept), (i,) in marked, solid=True) + 8
        for k, attribute in enumerate(graph.attributes[i]):
            x += _box(out, x, y, str(attribute), (i, k) in marked, solid=False) + 5
    return out


def _box(out: list[str], x: float, y: float, text: str, yes: bool, solid: bool) -> float:
    colour = _YES if yes else _NO
    width = 14 + _GLYPH * len(text)
    fill, ink = (colour, "white") if solid else ("white", colour)
    out.append(
        f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="22" rx="{4 if solid else 11}" '
        f'fill="{fill}" stroke="{colour}"/>'
        f'<text x="{x + 7:.0f}" y="{y + 15}" fill="{ink}">{escape(text)}</text>'
    )
    return width


def _relations(graph: SceneGraph, marked: set[tuple[int, ...]]) -> list[str]:
    """Draw one arc per relation, its name in the nearest free line of the left margin."""
    out: list[str] = []
    taken: set[int] = set()
    listed = [
        (source, target, k, str(concept))
        for (source, target), named in graph.relations.items()
        for k, concept in enumerate(named)
    ]
    for source, target, k, name in sorted(listed, key=lambda r: (r[0] + r[1], r)):
        a, b = (49 + i * _ROW for i in (source, target))
        line = (a + b) // 2 // 13
        while line in taken:
            line += 1
        taken.add(line)
        y = line * 13
        yes = (source, target, k) in marked
        colour = _YES if yes else _NO
        out.append(
            f'<path d="M{_ARC},{a} Q{_ARC - 70},{a} {_ARC - 90},{y} '
            f'Q{_ARC - 70},{b} {_ARC - 5},{b}" fill="none" stroke="{colour}" '
            f'stroke-width="{1.6 if yes else 0.8}"/>'
            f'<path d="M{_ARC},{b} l-7,-3.5 v7 z" fill="{colour}"/>'
            f'<text x="{_ARC - 94}" y="{y + 4}" text-anchor="end" font-size="11" fill="{colour}">'
            f"{escape(name)}</text>"
        )
    return out
