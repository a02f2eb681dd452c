"""Finding the phrases of METEOR's paraphrase table in sentences (see ``text.jit`` for compilation).

Words are numbers of the table's vocabulary, -1 for words that it does not have. The table is a
trie (``captious.text.paraphrase``): a phrase is known by its node.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from captious.text.jit import Kernels

Array = npt.NDArray[Any]


def mark_phrases(
    ids: Array, offsets: Array, roots: Array, labels: Array, children: Array, seen: Array
) -> None:
    """Mark every node of the phrase trie that a span of any sentence reaches.

    ``roots`` holds the node of each word on its own, 0 if no phrase begins with it.
    """
    for s in range(len(offsets) - 1):
        for start in range(offsets[s], offsets[s + 1]):
            node = 0
            for t in range(start, offsets[s + 1]):
                node = _child(labels, children, node, ids[t]) if t > start else roots[ids[t]]
                if node == 0:
                    break
                seen[node] = True


def list_phrases(
    ids: Array, offsets: Array, roots: Array, labels: Array, children: Array, number: Array,
    spans: Array, bounds: Array,
) -> int:  # fmt: skip
    """List (start, length, phrase) of all spans whose node has a number, sentence by sentence.

    Returns how many there are; those that find no room in ``spans`` are only counted.
    """
    n = 0
    for s in range(len(offsets) - 1):
        bounds[s] = n
        for start in range(offsets[s], offsets[s + 1]):
            node = 0
            for t in range(start, offsets[s + 1]):
                node = _child(labels, children, node, ids[t]) if t > start else roots[ids[t]]
                if node == 0:
                    break
                if number[node] >= 0:
                    if n < len(spans):
                        spans[n, 0], spans[n, 1] = start - offsets[s], t - start + 1
                        spans[n, 2] = number[node]
                    n += 1
    bounds[len(offsets) - 1] = n
    return n


def _child(labels: Array, children: Array, node: int, word: int) -> int:
    """Extend a phrase by a word; 0 if the table has no such beginning."""
    low, high = children[node], children[node + 1]
    while low < high:
        middle = (low + high) >> 1
        if labels[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low + 1 if low < children[node + 1] and labels[low] == word else 0


# Work is counted in words.
engine = Kernels(globals(), ("_child", "mark_phrases", "list_phrases"), small=20_000)
