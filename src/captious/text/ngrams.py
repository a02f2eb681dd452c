"""n-gram counts of all distinct strings of a run, as sparse matrices.

An n-gram is named by a 64-bit hash of its words, the same on every machine, so that document
frequencies can be saved, merged and looked up without keeping text (docs/decisions/0002).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from captious.text import tokens
from captious.types import TextPool

Hashes = npt.NDArray[np.uint64]
ORDERS = 4


@dataclass(frozen=True)
class NgramTable:
    """Counts per string, ``counts[n-1][string, gram]``; the last row is empty: "no string".

    Attributes:
        grams: per order, the hash of every column.
        counts: per order, a CSR matrix (strings + 1, grams) of int32.
        lengths: tokens per string (0 for the extra row).
    """

    grams: tuple[Hashes, ...]
    counts: tuple[Any, ...]
    lengths: npt.NDArray[np.int64]

    @cached_property
    def none(self) -> int:
        """Number of the empty row."""
        return len(self.lengths) - 1


def table(pool: TextPool, tokenizer: str = "ptb", stem: bool = False) -> NgramTable:
    """Return the n-gram counts of a pool, counting on first use."""
    return pool.derived(("ngrams", tokenizer, stem), lambda: _build(pool, tokenizer, stem))


def word_hash(word: str) -> int:
    """Return the 64-bit name of a word."""
    raw = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(raw, "little")


def _stems(words: list[str]) -> list[str]:
    import snowballstemmer

    return list(snowballstemmer.stemmer("porter").stemWords(words))


def _build(pool: TextPool, tokenizer: str, stem: bool) -> NgramTable:
    toks = tokens.table(pool, tokenizer)
    words = _stems(toks.vocabulary) if stem else toks.vocabulary
    named = np.fromiter((word_hash(w) for w in words), dtype=np.uint64, count=len(words))
    word = named[toks.ids] if len(words) else np.zeros(0, np.uint64)
    left = np.repeat(toks.offsets[1:], toks.lengths) - np.arange(len(word))
    grams, counts = [], []
    hashed = np.zeros(len(word), np.uint64)
    for n in range(1, ORDERS + 1):
        hashed = _mix(hashed[: len(word) - n + 1] + word[n - 1 :]) if len(word) >= n else word[:0]
        inside = left[: len(hashed)] >= n
        coded = pa.array(hashed[inside]).dictionary_encode()
        columns = coded.indices.to_numpy(zero_copy_only=False)
        indptr = np.zeros(len(toks.lengths) + 2, np.int64)
        np.cumsum(np.maximum(toks.lengths - n + 1, 0), out=indptr[1:-1])
        indptr[-1] = indptr[-2]
        names = coded.dictionary.to_numpy(zero_copy_only=False)
        matrix = sparse.csr_matrix(
            (np.ones(len(columns), np.int32), columns.astype(np.int32), indptr.astype(np.int32))
            if len(columns) < 2**31
            else (np.ones(len(columns), np.int32), columns, indptr),
            shape=(len(toks.lengths) + 1, max(len(names), 1)),
        )
        matrix.sum_duplicates()
        grams.append(names.astype(np.uint64, copy=False))
        counts.append(matrix)
    return NgramTable(tuple(grams), tuple(counts), np.append(toks.lengths, 0))


def _mix(x: Hashes) -> Hashes:
    """Scramble 64-bit numbers so that sums of them tell word order apart (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
