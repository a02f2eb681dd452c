"""Two scene graphs, one below the other: objects, their attributes, relations as arcs."""

from __future__ import annotations

from html import escape
from typing import Final

from captious.report.pictures import palette
from captious.types import Graph, Node, SceneGraphs

_YES: Final = palette.BLUE
_NO: Final = palette.QUIET
_ROW: Final = 34  # height of an object with its attributes
_ARC: Final = 200  # room for relations, left of the objects
_SIDE: Final = 560  # least width of one graph
_GLYPH: Final = 6.7  # width of a letter at 12 px


def draw(part: SceneGraphs) -> str:
    """Draw both graphs; what matched is blue, the rest is grey, and a key says so."""
    sides = (("caption", part.caption), ("references", part.references))
    width = max(_width(graph) for _, graph in sides)
    parts, y = [], 0
    for title, graph in sides:
        parts.append(f'<g transform="translate(0,{y})">')
        parts.append(f'<text x="{_ARC}" y="22" font-weight="bold">{title}</text>')
        parts += _relations(graph)
        parts += _objects(graph)
        parts.append("</g>")
        y += 60 + _ROW * max(len(graph.objects), 1)
    parts.append(
        f'<text x="{_ARC}" y="{y - 10}" fill="{_YES}">matched</text>'
        f'<text x="{_ARC + 62}" y="{y - 10}" fill="{_NO}">not matched</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" '
        f'height="{y}" font-family="sans-serif" font-size="12" role="img">'
        "<title>scene graphs of the caption and of the references</title>"
        f'<rect width="{width}" height="{y}" fill="white"/>' + "".join(parts) + "</svg>"
    )


def _width(graph: Graph) -> int:
    """Return the room that the longest row needs."""
    rows = (
        sum(19 + _GLYPH * len(c.name) for c in (concept, *owned))
        for concept, owned in zip(graph.objects, graph.attributes, strict=True)
    )
    return max(_SIDE, _ARC + 20 + int(max(rows, default=0)))


def _objects(graph: Graph) -> list[str]:
    """Draw one box per object, its attributes to the right."""
    out: list[str] = []
    for i, node in enumerate(graph.objects):
        y = 38 + i * _ROW
        x = _ARC + _box(out, _ARC, y, node, solid=True) + 8
        for attribute in graph.attributes[i]:
            x += _box(out, x, y, attribute, solid=False) + 5
    return out


def _box(out: list[str], x: float, y: float, node: Node, solid: bool) -> float:
    text, colour = node.name, _YES if node.matched else _NO
    width = 14 + _GLYPH * len(text)
    fill, ink = (colour, "white") if solid else ("none", colour)
    out.append(
        f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="22" rx="{4 if solid else 11}" '
        f'fill="{fill}" stroke="{colour}"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 15}" text-anchor="middle" fill="{ink}">'
        f"{escape(text)}</text>"
    )
    return width


def _relations(graph: Graph) -> list[str]:
    """Draw one arc per relation, its name in the nearest free line of the left margin."""
    out: list[str] = []
    taken: set[int] = set()
    for source, target, node in sorted(graph.relations, key=lambda r: (r[0] + r[1], r[:2])):
        a, b = (49 + i * _ROW for i in (source, target))
        line = (a + b) // 2 // 13
        while line in taken:
            line += 1
        taken.add(line)
        y = line * 13
        yes = node.matched
        colour = _YES if yes else _NO
        out.append(
            f'<path d="M{_ARC},{a} Q{_ARC - 70},{a} {_ARC - 90},{y} '
            f'Q{_ARC - 70},{b} {_ARC - 5},{b}" fill="none" stroke="{colour}" '
            f'stroke-width="{1.6 if yes else 0.8}"/>'
            f'<path d="M{_ARC},{b} l-7,-3.5 v7 z" fill="{colour}"/>'
            f'<text x="{_ARC - 94}" y="{y + 4}" text-anchor="end" font-size="11" fill="{colour}">'
            f"{escape(node.name)}</text>"
        )
    return out
