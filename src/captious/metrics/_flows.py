"""A transport plan for people: as text, as data, as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from captious.text import transport
from captious.text.bags import Bags
from captious.text.transport import Cost
from captious.text.vectors import WordVectors
from captious.types import Floats


@dataclass(frozen=True)
class Flow:
    """Which word's mass went to which word, and at what cost per unit."""

    left: list[str]
    right: list[str]
    left_mass: Floats
    right_mass: Floats
    moved: Floats
    cost: Floats

    @classmethod
    def between(
        cls, left: Bags, i: int, right: Bags, j: int, cost: Cost, vectors: WordVectors,
        problem: int = 0,
    ) -> Flow:  # fmt: skip
        """Solve one problem and keep its plan."""
        one = np.array([i]), np.array([j])
        rows_a, a = left.gather(one[0], int(left.sizes[i]))
        rows_b, b = right.gather(one[1], int(right.sizes[j]))
        costs = cost(np.array([problem]), rows_a, rows_b)[0]
        return cls(
            left=[vectors.word(r) for r in rows_a[0]],
            right=[vectors.word(r) for r in rows_b[0]],
            left_mass=a[0],
            right_mass=b[0],
            moved=transport.plan(a[0], b[0], costs),
            cost=costs,
        )

    def parts(self) -> list[tuple[int, int, float, float]]:
        """Return `(left, right, mass, cost per unit)` of every flow, dearest first."""
        found = [
            (int(i), int(j), float(self.moved[i, j]), float(self.cost[i, j]))
            for i, j in np.argwhere(self.moved > 1e-12)
        ]
        return sorted(found, key=lambda f: (-f[2] * f[3], f[0], f[1]))

    def as_data(self) -> dict[str, Any]:
        """Return the plan as JSON-able data."""
        return {
            "flows": [
                {"from": self.left[i], "to": self.right[j], "mass": mass, "cost": cost}
                for i, j, mass, cost in self.parts()
            ],
            "distance": float((self.moved * self.cost).sum()),
        }

    def as_text(self) -> str:
        """Return one line per flow, dearest first."""
        wide = max(len(w) for w in self.left)
        lines = [
            f"  {self.left[i]:>{wide}} -> {self.right[j]:<18} mass {mass:.3f} x {cost:.3f} "
            f"= {mass * cost:.4f}"
            for i, j, mass, cost in self.parts()
        ]
        return "\n".join(lines)

    def as_svg(self, left_title: str, right_title: str) -> str:
        """Draw the words as two columns of boxes and the flows as bands, red where dear."""
        box, gap, width, top = 150, 10, 640, 40
        scale = 240.0
        left_at = _stack(self.left_mass, scale, gap, top)
        right_at = _stack(self.right_mass, scale, gap, top)
        height = int(max(_bottom(left_at, self.left_mass, scale),
                         _bottom(right_at, self.right_mass, scale))) + 10  # fmt: skip
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif" font-size="13" role="img">'
            f"<title>{escape(left_title)} to {escape(right_title)}</title>",
            f'<text x="0" y="20" font-weight="bold">{escape(left_title)}</text>',
            f'<text x="{width}" y="20" text-anchor="end" font-weight="bold">'
            f"{escape(right_title)}</text>",
        ]
        used_left, used_right = list(left_at), list(right_at)
        dearest = float(self.cost.max()) or 1.0
        for i, j, mass, cost in sorted(self.parts()):
            thick = mass * scale
            y1, y2 = used_left[i] + thick / 2, used_right[j] + thick / 2
            used_left[i] += thick
            used_right[j] += thick
            x1, x2 = box, width - box
            middle = (x1 + x2) / 2
            hue = 120 * (1 - cost / dearest)
            out.append(
                f'<path d="M{x1},{y1:.1f} C{middle:.0f},{y1:.1f} {middle:.0f},{y2:.1f} '
                f'{x2},{y2:.1f}" fill="none" stroke="hsl({hue:.0f},60%,45%)" stroke-opacity=".55" '
                f'stroke-width="{max(thick, 1):.1f}"><title>{escape(self.left[i])} to '
                f"{escape(self.right[j])}: mass {mass:.3f}, cost {cost:.3f}</title></path>"
            )
        out.extend(_boxes(self.left, left_at, self.left_mass * scale, 0, box))
        out.extend(_boxes(self.right, right_at, self.right_mass * scale, width - box, box))
        return "".join([*out, "</svg>"])


def _bottom(tops: list[float], masses: Floats, scale: float) -> float:
    return tops[-1] + max(float(masses[-1]) * scale, 16.0)


def _stack(masses: Floats, scale: float, gap: int, top: int) -> list[float]:
    """Upper edges of boxes one below the other."""
    edges, at = [], float(top)
    for mass in masses:
        edges.append(at)
        at += max(float(mass) * scale, 16.0) + gap
    return edges


def _boxes(words: list[str], tops: list[float], heights: Floats, x: int, wide: int) -> list[str]:
    out = []
    for word, y, high in zip(words, tops, heights, strict=True):
        tall = max(float(high), 16.0)
        out.append(
            f'<rect x="{x}" y="{y:.1f}" width="{wide}" height="{tall:.1f}" rx="3" fill="#e8edf3" '
            f'stroke="#8796a8"/><text x="{x + wide / 2:.0f}" y="{y + tall / 2 + 5:.1f}" '
            f'text-anchor="middle">{escape(word)}</text>'
        )
    return out
