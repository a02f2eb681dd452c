"""Strings as normalised bags of content words in a space of word vectors.

The words of a bag are rows of one :class:`~captious.text.vectors.WordVectors`; equal words have
equal rows, whatever side of a comparison they stand on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.text import tokenizers, tokens
from captious.text.stoplists import stop_words
from captious.text.vectors import WordVectors
from captious.types import Floats, Ints, TextPool, WorkKey


@dataclass(frozen=True, eq=False)
class Bags:
    """Bag `i` holds `rows[bounds[i]:bounds[i+1]]`, each with its share `weights[...]` of 1.

    Attributes:
        bounds: (bags + 1) offsets.
        rows: vector row of each word, ascending inside a bag.
        weights: share of the word in its bag.
        dropped: per bag, how many content words have no vector.
    """

    bounds: Ints
    rows: Ints
    weights: Floats
    dropped: Ints

    @property
    def sizes(self) -> Ints:
        """Number of different words per bag."""
        return np.diff(self.bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def gather(self, index: Ints, size: int) -> tuple[Ints, Floats]:
        """Return `(rows, weights)` of bags that all have `size` words, as (bags, size) arrays."""
        at = self.bounds[index][:, None] + np.arange(size)
        return self.rows[at], self.weights[at]

    def words_of(self, index: npt.ArrayLike) -> tuple[Ints, Ints]:
        """Return the rows of several bags end to end, and the length of each."""
        index = np.asarray(index, dtype=np.int64)
        lengths = self.sizes[index]
        starts = np.repeat(self.bounds[index], lengths)
        ends = np.cumsum(lengths)
        within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
        return self.rows[starts + within], lengths


def build(bag: Ints, rows: Ints, count: int, dropped: Ints, binary: bool = False) -> Bags:
    """Make bags from loose words: word `k` lies in bag `bag[k]` and has vector row `rows[k]`."""
    width = int(rows.max()) + 1 if len(rows) else 1
    keys, counts = np.unique(bag * width + rows, return_counts=True)
    owner, row = np.divmod(keys, width)
    mass = np.ones(len(keys)) if binary else counts.astype(np.float64)
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=bounds[1:])
    totals = np.bincount(owner, weights=mass, minlength=count)
    return Bags(bounds, row, mass / totals[owner], dropped)


def of_pool(pool: TextPool, vectors: WordVectors, stop: str, tokenizer: str) -> Bags:
    """Return the bags of all strings of a pool; made once per pool and set of choices."""
    key = WorkKey[Bags]("bags", (vectors.name, vectors.sha256, stop, tokenizer))
    return pool.derived(key, lambda: _of_pool(pool, vectors, stop, tokenizer))


def _of_pool(pool: TextPool, vectors: WordVectors, stop: str, tokenizer: str) -> Bags:
    table = tokens.table(pool, tokenizer)
    unwanted = stop_words(stop)
    content = np.array([w.lower() not in unwanted for w in table.vocabulary], dtype=bool)
    row_of = vectors.rows([w.lower() for w in table.vocabulary])
    ids, owner = table.ids, table.rows.astype(np.int64)
    keep = content[ids] if len(ids) else np.zeros(0, bool)
    rows, owner = row_of[ids[keep]], owner[keep]
    known = rows >= 0
    dropped = np.bincount(owner[~known], minlength=len(pool)).astype(np.int64)
    return build(owner[known], rows[known], len(pool), dropped)


def of_labels(
    sets: Sequence[tuple[str, ...]], vectors: WordVectors, *, split: bool, stop: str, binary: bool
) -> Bags:
    """Return one bag per set of object labels.

    Args:
        sets: the labels of each image; a label that occurs twice counts twice.
        vectors: where the words come from.
        split: break every label into words of two letters or more and drop the stop words (as the
            released VIFIDEL does); otherwise a label is a phrase first and words second, and the
            stop list does not touch it.
        stop: the stop list that `split` uses.
        binary: count a word once however often it occurs.
    """
    label_words = {
        label: _label(label, vectors, split, stop) for label in {x for s in sets for x in s}
    }
    owner, rows = [], []
    dropped = np.zeros(len(sets), np.int64)
    for i, labels in enumerate(sets):
        for label in labels:
            known, lost = label_words[label]
            rows.extend(known)
            owner.extend([i] * len(known))
            dropped[i] += lost
    return build(
        np.array(owner, np.int64), np.array(rows, np.int64), len(sets), dropped, binary=binary
    )


def _label(label: str, vectors: WordVectors, split: bool, stop: str) -> tuple[list[int], int]:
    if not split:
        rows, lost = vectors.label_rows(label)
        return rows.tolist(), lost
    words = [w for w in tokenizers.get("words")(label) if w not in stop_words(stop)]
    rows = vectors.rows(words)
    return rows[rows >= 0].tolist(), int((rows < 0).sum())
