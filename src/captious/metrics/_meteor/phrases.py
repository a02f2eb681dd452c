"""Finding the phrases of METEOR's paraphrase table in sentences (see ``text.jit`` for compilation).

Words are numbers of the table's vocabulary, -1 for words that it does not have. The table is a
trie (``captious.text.paraphrase``): a phrase is known by its node.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from captious.text.jit import Kernels

Array = npt.NDArray[Any]


def list_phrases(
    ids: Array, offsets: Array, roots: Array, labels: Array, children: Array, spans: Array,
    bounds: Array,
) -> int:  # fmt: skip
    """List (start, length, node) of all spans that the trie knows, sentence by sentence.

    ``roots`` holds the node of each word on its own, 0 if no phrase begins with it; ``bounds`` is
    filled with where each sentence's spans begin. Returns how many there are; those that find no
    room in ``spans`` are only counted.
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
                if n < len(spans):
                    spans[n, 0], spans[n, 1] = start - offsets[s], t - start + 1
                    spans[n, 2] = node
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
engine = Kernels(globals(), ("_child", "list_phrases"), small=20_000)
