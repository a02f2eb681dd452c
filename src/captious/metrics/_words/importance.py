"""How important each word is to the people who wrote the references (VIFIDEL, equation 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from captious.text.bags import Bags
from captious.text.transport import Cost, Space, euclidean
from captious.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Importance:
    """The penalty rho of every word of every problem, 0 = all references mention it.

    A key is (number of the reference set) * (words of the space) + (place of the word).
    """

    space: Space
    group: Ints  # reference set of each problem
    keys: Ints  # ascending
    rho: Floats

    @classmethod
    def of_problems(
        cls, space: Space, words: Bags, seen: Bags, groups: list[Ints],
        group: Ints, label_set: Ints, caption: Any,
    ) -> Importance:  # fmt: skip
        """Weigh the labels and caption words of all problems.

        Args:
            space: vectors of every word involved.
            words: bags of the texts (captions and references).
            seen: bags of the label sets.
            groups: the texts of each reference set.
            group: reference set of each problem.
            label_set: label bag of each problem.
            caption: caption of each problem.
        """
        width = len(space.rows)
        parts = []
        for bags, index in ((seen, label_set), (words, np.asarray(caption, np.int64))):
            rows, lengths = bags.words_of(index)
            parts.append(np.repeat(group, lengths) * width + space.index(rows))
        keys = np.unique(np.concatenate(parts))
        owner, place = np.divmod(keys, width)
        length = np.linalg.norm(space.points, axis=1, keepdims=True)
        unit = space.points / np.where(length > 0, length, 1.0)
        rho = np.ones(len(keys))
        edges = np.searchsorted(owner, np.arange(len(groups) + 1))
        for g, texts in enumerate(groups):
            a, b = edges[g], edges[g + 1]
            if a == b or not len(texts):
                continue
            rows, lengths = words.words_of(texts)
            cosine = unit[place[a:b]] @ unit[space.index(rows)].T
            starts = np.cumsum(lengths) - lengths
            nearest = np.maximum.reduceat(cosine, starts, axis=1)
            rho[a:b] = np.clip((1.0 - nearest) / 2.0, 0.0, 1.0).mean(axis=1)
        return cls(space, group, keys, rho)

    def cost(self, power: float) -> Cost:
        """Return the weighted cost |rho_i x_i - rho_j x_j|^power."""

        def costs(problems: Ints, left: Ints, right: Ints) -> Floats:
            same = left[:, :, None] == right[:, None, :]
            points, place = self.space.points, self.space.index
            x = points[place(left)] * self.of(problems, left)[:, :, None]
            y = points[place(right)] * self.of(problems, right)[:, :, None]
            return euclidean(x, y, same, power)

        return costs

    def of(self, problems: Ints, rows: Ints) -> Floats:
        """Return rho of the vector rows (problems, words)."""
        width = len(self.space.rows)
        keys = self.group[problems][:, None] * width + self.space.index(rows)
        return self.rho[np.searchsorted(self.keys, keys)]
