"""A transport plan for people: as text, as data, as a part of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from captious.text import transport
from captious.text.bags import Bags
from captious.text.transport import Cost
from captious.text.vectors import WordVectors
from captious.types import Floats, Flow


@dataclass(frozen=True)
class Plan:
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
    ) -> Plan:  # fmt: skip
        """Solve one problem and keep its plan."""
        plan = np.array([i]), np.array([j])
        rows_a, a = left.gather(plan[0], int(left.sizes[i]))
        rows_b, b = right.gather(plan[1], int(right.sizes[j]))
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
        """Return `(left, right, mass, cost per unit)` of every flow, most expensive first."""
        flows = [
            (int(i), int(j), float(self.moved[i, j]), float(self.cost[i, j]))
            for i, j in np.argwhere(self.moved > 1e-12)
        ]
        return sorted(flows, key=lambda f: (-f[2] * f[3], f[0], f[1]))

    def as_data(self) -> dict[str, Any]:
        """Return the plan as JSON-able data."""
        return {
            "flows": [
                {"from": self.left[i], "to": self.right[j], "mass": mass, "cost": cost}
                for i, j, mass, cost in self.parts()
            ],
            "distance": float((self.moved * self.cost).sum()),
        }

    def as_text(self, most: int = 8) -> str:
        """Say what each move costs: the dearest ones in lines, the rest together."""
        moves = self.parts()
        free = [move for move in moves if move[2] * move[3] < 5e-5]  # 0.0000 when printed
        dear = [move for move in moves if move not in free]
        wide = max(len(w) for w in self.left)
        lines = ["what each move costs (share of the words x distance), most expensive first:"]
        lines += [
            f"  {self.left[i]:>{wide}} -> {self.right[j]:<18} {mass:.3f} x {cost:.3f} "
            f"= {mass * cost:.4f}"
            for i, j, mass, cost in dear[:most]
        ]
        if rest := dear[most:]:
            lines.append(f"  {len(rest)} more: {sum(move[2] * move[3] for move in rest):.4f}")
        if free:
            same = dict.fromkeys(self.left[move[0]] for move in free)
            lines.append(f"  at no cost: {', '.join(same)}")
        return "\n".join(lines)

    def as_part(self, left_title: str, right_title: str) -> Flow:
        """Return the plan as typed data that can be drawn."""
        return Flow(
            left_title,
            right_title,
            tuple(self.left),
            tuple(self.right),
            tuple(self.left_mass.tolist()),
            tuple(self.right_mass.tolist()),
            tuple(self.parts()),
        )
