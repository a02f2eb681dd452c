"""Exact earth mover's distance for many small problems.

Problems of equal shape are solved together. With one word on a side the plan is forced; with two
it is a sorted fill (send the cheapest differences first); both are closed forms over whole batches.
Larger ones go to the network simplex of POT, called without its Python front, which costs ten
times what the solver does on problems of this size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from captious.errors import CaptiousError
from captious.text.bags import Bags
from captious.text.vectors import WordVectors
from captious.types import Floats, Ints

Cost = Callable[[Ints, Ints, Ints], Floats]
"""Called with problem numbers (b,), left rows (b, n) and right rows (b, m); returns (b, n, m)."""

_PIVOTS = 1_000_000
_ELEMENTS = 4_000_000  # of one batch of cost matrices: 32 MB


def distances(left: Bags, i: Ints, right: Bags, j: Ints, cost: Cost) -> Floats:
    """Return the distance of `left[i[k]]` to `right[j[k]]` for every `k` (inf: a bag is empty)."""
    out = np.full(len(i), np.inf)
    n, m = left.sizes[i], right.sizes[j]
    alive = np.flatnonzero((n > 0) & (m > 0))
    if not len(alive):
        return out
    shape = n[alive] * (int(m.max()) + 1) + m[alive]
    order = np.argsort(shape, kind="stable")
    edges = np.flatnonzero(np.diff(shape[order])) + 1
    for group in np.split(alive[order], edges):
        rows, columns = int(n[group[0]]), int(m[group[0]])
        step = max(1, _ELEMENTS // (rows * columns))
        for start in range(0, len(group), step):
            part = group[start : start + step]
            words_a, a = left.gather(i[part], rows)
            words_b, b = right.gather(j[part], columns)
            out[part] = emd(a, b, cost(part, words_a, words_b))
    return out


def emd(a: Floats, b: Floats, costs: Floats) -> Floats:
    """Return the least cost of moving `a` onto `b`, for a batch of problems of one shape.

    Args:
        a: (batch, n) masses that sum to 1 in each problem.
        b: (batch, m) likewise.
        costs: (batch, n, m).

    Example:
        >>> emd(np.array([[0.5, 0.5]]), np.array([[1.0]]), np.array([[[1.0], [3.0]]]))
        array([2.])
    """
    n, m = costs.shape[1:]
    if n == 1:
        return np.einsum("bj,bj->b", b, costs[:, 0, :])
    if m == 1:
        return np.einsum("bi,bi->b", a, costs[:, :, 0])
    if n == 2:
        return _two(a, b, costs)
    if m == 2:
        return _two(b, a, costs.transpose(0, 2, 1))
    from ot.lp.emd_wrap import emd_c

    costs = np.ascontiguousarray(costs)
    b = b * (a.sum(axis=1) / b.sum(axis=1))[:, None]
    out = np.empty(len(costs))
    for k in range(len(costs)):
        _, out[k], _, _, state = emd_c(a[k], b[k], costs[k], _PIVOTS, 1)
        if state != 1:
            raise CaptiousError(f"the transport solver stopped early (state {state}); report this")
    return out


def plan(a: Floats, b: Floats, costs: Floats) -> Floats:
    """Return an optimal plan (n, m) of a single problem."""
    from ot.lp.emd_wrap import emd_c

    flow, _, _, _, _ = emd_c(a, b * (a.sum() / b.sum()), np.ascontiguousarray(costs), _PIVOTS, 1)
    return np.asarray(flow, dtype=np.float64)


def euclidean(left: Floats, right: Floats, same: Floats, power: float) -> Floats:
    """Return the costs |x - y|^power of batches of vectors (batch, n, d) and (batch, m, d).

    Args:
        left: vectors of one side.
        right: vectors of the other side.
        same: (batch, n, m), true where both are the same word: its cost is 0 without rounding.
        power: 1 for the distance, 2 for its square.
    """
    squares = np.matmul(left, right.transpose(0, 2, 1))
    squares *= -2.0
    squares += np.einsum("bnd,bnd->bn", left, left)[:, :, None]
    squares += np.einsum("bmd,bmd->bm", right, right)[:, None, :]
    np.maximum(squares, 0.0, out=squares)
    squares[same] = 0.0
    if power == 2.0:
        return squares
    return np.sqrt(squares) if power == 1.0 else squares ** (power / 2.0)


def _two(a: Floats, b: Floats, costs: Floats) -> Floats:
    """Two sources: the first one serves the targets where it is cheapest against the second."""
    gain = costs[:, 0, :] - costs[:, 1, :]
    order = np.argsort(gain, axis=1)
    masses = np.take_along_axis(b, order, axis=1)
    before = np.cumsum(masses, axis=1) - masses
    first = np.clip(a[:, :1] - before, 0.0, masses)
    served = np.einsum("bj,bj->b", first, np.take_along_axis(gain, order, axis=1))
    return np.einsum("bj,bj->b", b, costs[:, 1, :]) + served


class Space:
    """The vectors of the words that a batch uses, gathered once.

    Args:
        vectors: the whole table.
        rows: every row that will be asked for, in any order.
        unit: whether vectors are brought to length 1.
    """

    def __init__(self, vectors: WordVectors, rows: Ints, unit: bool) -> None:
        self.rows = np.unique(rows)
        self.points = vectors.take(self.rows, unit)

    def index(self, rows: Ints) -> Ints:
        """Return the place in `points` of each row."""
        return np.searchsorted(self.rows, rows)

    def cost(self, power: float) -> Cost:
        """Return the plain word-to-word cost |x - y|^power."""

        def costs(_: Ints, left: Ints, right: Ints) -> Floats:
            same = left[:, :, None] == right[:, None, :]
            x, y = self.points[self.index(left)], self.points[self.index(right)]
            return euclidean(x, y, same, power)

        return costs
