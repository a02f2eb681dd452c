"""n-gram counts of all distinct strings of a run, as sparse matrices.

An n-gram is named by a 64-bit hash of its words, the same on every machine, so that document
frequencies can be saved, merged and looked up without keeping text (docs/decisions/0002).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import columns
from captious.text import gram_kernels, tokens
from captious.text.gram_kernels import Grams
from captious.text.machine_code import side_by_side
from captious.types import TextPool, WorkKey

Hashes = npt.NDArray[np.uint64]
ORDERS = 4
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of a word's name is lost


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
    return pool.derived(
        WorkKey[NgramTable]("ngrams", (tokenizer, stem)), lambda: _build(pool, tokenizer, stem)
    )


def compiled(
    pool: TextPool, tokenizer: str = "ptb", stem: bool = False
) -> tuple[Grams, ...] | None:
    """Return the n-grams of a pool per order as compiled code wants them.

    None where the pool is small or numba is not installed: then :func:`table` serves.
    """
    key = WorkKey[tuple[Grams, ...] | None]("compiled n-grams", (tokenizer, stem))
    return pool.derived(key, lambda: _build_compiled(pool, tokenizer, stem))


def _build_compiled(pool: TextPool, tokenizer: str, stem: bool) -> tuple[Grams, ...] | None:
    if gram_kernels.kernels(len(pool)) is None:
        return None
    toks = tokens.table(pool, tokenizer)
    named = _names(toks.vocabulary, stem)
    parts = named, toks.ids, toks.offsets
    orders = range(1, ORDERS + 1)
    return tuple(side_by_side(lambda n: gram_kernels.counted(*parts, n), orders, len(pool)))


def _names(vocabulary: list[str], stem: bool) -> Hashes:
    words = _stems(vocabulary) if stem else vocabulary
    return np.frombuffer(b"".join(map(_name, words)), "<u8").astype(np.uint64, copy=False)


def named(words: list[str], n: int, stem: bool = False) -> dict[int, str]:
    """Map the hash of every n-gram of a short text, the same as in a table, to its words."""
    word = _names(words, stem)
    size = max(len(words) - n + 1, 0)
    hashed = word[:size]
    for k in range(1, n):
        hashed = hashed * _STEP + word[k : k + size]
    return {name: " ".join(words[i : i + n]) for i, name in enumerate(hashed.tolist())}


def word_hash(word: str) -> int:
    """Return the 64-bit name of a word."""
    return int.from_bytes(_name(word), "little")


@lru_cache(maxsize=1 << 17)
def _name(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _stems(words: list[str]) -> list[str]:
    import snowballstemmer

    return list(snowballstemmer.stemmer("porter").stemWords(words))


def _build(pool: TextPool, tokenizer: str, stem: bool) -> NgramTable:
    toks = tokens.table(pool, tokenizer)
    named = _names(toks.vocabulary, stem)
    word = named[toks.ids] if len(named) else np.zeros(0, np.uint64)
    left = np.repeat(toks.offsets[1:], toks.lengths) - np.arange(len(word))
    single, column = np.unique(named, return_inverse=True)  # stems may be fewer than words
    ones = column[toks.ids] if len(named) else np.zeros(0, np.int64)
    done = [(single, _matrix(toks.lengths, 1, ones, len(single)))]
    hashed = word
    parts: list[tuple[int, Hashes]] = []
    for n in range(2, ORDERS + 1):
        # Words have random 64-bit names, so this sum is a good name of their sequence.
        size = max(len(word) - n + 1, 0)
        hashed = hashed[:size] * _STEP + word[n - 1 : n - 1 + size]
        parts.append((n, hashed[left[:size] >= n]))
    done += side_by_side(lambda part: _counted(toks.lengths, *part), parts, len(pool))
    grams, counts = zip(*done, strict=True)
    return NgramTable(grams, counts, np.append(toks.lengths, 0))


def _counted(lengths: npt.NDArray[np.int64], n: int, hashed: Hashes) -> tuple[Hashes, Any]:
    """Return the distinct n-grams of one order and how often each string holds them."""
    coded = columns.of_numbers(hashed).dictionary_encode()
    names = columns.numbers_of(coded.dictionary)
    gram_columns = columns.numbers_of(coded.indices)
    # Columns stand in the order of their names, so that sums over a row do not depend on what else
    # is in the chunk: the same bits whatever the chunks.
    order = np.argsort(names)
    place = np.empty(len(names), np.int32)
    place[order] = np.arange(len(names), dtype=np.int32)
    return names[order], _matrix(lengths, n, place[gram_columns], len(names))


def _matrix(lengths: npt.NDArray[np.int64], n: int, columns: Any, width: int) -> Any:
    """Return counts (strings + 1, grams) from the column of every n-gram in running order."""
    from scipy import sparse  # slow to import; large sets never come here

    indptr = np.zeros(len(lengths) + 2, np.int64)
    np.cumsum(np.maximum(lengths - n + 1, 0), out=indptr[1:-1])
    indptr[-1] = indptr[-2]
    wide = np.int32 if len(columns) < 2**31 else np.int64
    matrix = sparse.csr_matrix(
        (np.ones(len(columns), np.int32), np.array(columns, wide), indptr.astype(wide)),
        shape=(len(lengths) + 1, max(width, 1)),
    )
    matrix.sum_duplicates()
    return matrix
