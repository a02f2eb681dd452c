"""Finding the phrases of METEOR's paraphrase table in sentences, compiled.

Words are numbers of the table's vocabulary; those that it does not have share the number behind
the last. The table is a trie (``captious.text.paraphrase``): a phrase is known by its node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from captious.text.machine_code import I32, I64, MachineCode

_int64: Any = np.int64  # for numba; type checkers take its whole numbers for ints


def list_phrases(
    ids: I32, offsets: I64, sentences: int, roots: I32, labels: I32, children: I32, spans: I32,
    room: int, bounds: I64, steps: I64, reached: I32, memory: int,
) -> int:  # fmt: skip
    """List (start, length, node) of all spans that the trie knows, sentence by sentence.

    ``roots`` holds the node of each word on its own, 0 if no phrase begins with it; ``bounds`` is
    filled with where each sentence's spans begin. ``steps`` and ``reached`` remember steps in the
    trie (``memory`` of them, a power of two; -1 at first): sentences repeat each other's. Returns
    how many there are; those behind the first ``room`` are only counted.
    """
    n = _int64(0)
    for s in range(sentences):
        bounds[s] = n
        for start in range(offsets[s], offsets[s + 1]):
            node = _int64(0)
            for t in range(start, offsets[s + 1]):
                if t == start:
                    node = _int64(roots[ids[t]])
                else:
                    word = _int64(ids[t])
                    step = node << 32 | word
                    slot = (node * 40503 + word * 2654435761) >> 11 & (memory - 1)
                    if steps[slot] == step:
                        node = _int64(reached[slot])
                    else:
                        node = _int64(_child(labels, children, node, word))
                        steps[slot], reached[slot] = step, node
                if node == 0:
                    break
                if n < room:
                    spans[3 * n], spans[3 * n + 1] = start - offsets[s], t - start + 1
                    spans[3 * n + 2] = node
                n += 1
    bounds[sentences] = n
    return n


def _child(labels: I32, children: I32, node: int, word: int) -> int:
    """Extend a phrase by a word; 0 if the table has no such beginning."""
    begin, end = children[node], children[node + 1]
    low, high = _int64(begin), _int64(end)
    while low < high:
        middle = (low + high) >> 1
        if labels[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low + 1 if low < end and labels[low] == word else _int64(0)


# Work is counted in words. Where nothing is kept yet, compiling waits for as much work as it takes.
kernels = MachineCode(globals(), ("list_phrases",), helpers=("_child",), small=4_000, unmade=20_000)
