"""The sentences of a run as METEOR sees them: numbers for words, stems, synonyms and phrases.

Every distinct sentence is normalised once, every distinct word stemmed and looked up once, and the
paraphrase table is joined with the phrases that really occur. What remains for a pair of sentences
is comparing integers (``align``).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.metrics._meteor import phrases
from captious.text import meteor_norm, porter2, tokens
from captious.text.paraphrase import Paraphrases, Places, distinct
from captious.text.synsets import WordTables
from captious.types import TextPool

Ints = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Int64s = npt.NDArray[np.int64]
Relation = tuple[Int64s, npt.NDArray[np.int32], npt.NDArray[np.int32]]


@dataclass(frozen=True)
class Lexicon:
    """Words and sentences as arrays.

    Attributes:
        words: the distinct words after normalisation.
        ids: word numbers of all sentences, one after the other.
        offsets: sentence ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.
        arrays: what the compiled code reads, in its order.
    """

    words: list[str]
    ids: npt.NDArray[np.int32]
    offsets: Int64s
    arrays: tuple[npt.NDArray[Any], ...]

    def sentence(self, index: int) -> list[str]:
        """Return the words of one sentence."""
        return [self.words[w] for w in self.ids[self.offsets[index] : self.offsets[index + 1]]]


def build(
    pool: TextPool, tokenizer: str, tables: WordTables, paraphrases: Paraphrases | None
) -> Lexicon:
    """Prepare all sentences of a pool."""
    words, ids, offsets = _normalised(tokens.table(pool, tokenizer), tables)
    key = _numbered(words)
    stem = _numbered([porter2.stem(word) for word in words])
    function = np.array([word in tables.function_words for word in words], np.int64)
    synonyms = _relation(*_synonyms(words, tables), size=len(words))
    if paraphrases is None:
        spans, bounds = np.zeros((0, 3), np.int32), np.zeros(len(offsets), np.int64)
        none = np.zeros(0, np.int64)
        pairs = _relation(none, none, none, size=0)
    else:
        spans, bounds, pairs = _phrases(words, ids, offsets, paraphrases)
    arrays = (
        ids, offsets, key, stem, function, *synonyms[:2], spans, bounds, *pairs, *_both_ways(pairs),
    )  # fmt: skip
    return Lexicon(words, ids, offsets, arrays)


def _normalised(
    table: tokens.TokenTable, tables: WordTables
) -> tuple[list[str], npt.NDArray[np.int32], Int64s]:
    """Return vocabulary, word numbers and offsets after METEOR's own normaliser.

    Sentences of plain words pass unchanged, whole arrays at a time; the others go one by one.
    """
    numbers = {word: i for i, word in enumerate(table.vocabulary)}
    odd_word = np.array([not meteor_norm.is_plain(w) for w in table.vocabulary], bool)
    odd_seen = np.concatenate([[0], np.cumsum(odd_word[table.ids], dtype=np.int32)])
    odd = np.diff(odd_seen[table.offsets]) > 0
    flat: list[int] = []
    lengths = table.lengths.copy()
    for i in np.flatnonzero(odd).tolist():
        text = " ".join(table.tokens(i)).replace("|||", "")
        words = meteor_norm.normalize(text, tables.prefixes, tables.numeric_prefixes)
        flat.extend([numbers.setdefault(word, len(numbers)) for word in words])
        lengths[i] = len(words)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    odd_token = np.repeat(odd, lengths)
    ids = np.empty(offsets[-1], np.int32)
    ids[odd_token] = flat
    ids[~odd_token] = table.ids[~np.repeat(odd, table.lengths)]
    # Drop words that only occurred before normalising.
    kept = np.bincount(ids, minlength=len(numbers)) > 0
    place = np.cumsum(kept, dtype=np.int32) - 1
    return list(compress(numbers, kept.tolist())), place[ids], offsets


def java_hash(word: str) -> int:
    """Return the 32-bit hash by which the reference program compares words.

    Two words of equal hash (``an`` and ``c0``) are one word to it, and therefore to us.
    """
    value = 0
    for unit in array("H", word.encode("utf-16-le")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def _numbered(words: Iterable[str]) -> npt.NDArray[np.int32]:
    """Number words so that equal numbers mean equal hashes."""
    hashes = np.array([java_hash(word) for word in words], np.int64)
    return np.unique(hashes, return_inverse=True)[1].astype(np.int32)


def _relation(left: Ints, right: Ints, rank: Ints, size: int) -> Relation:
    """Store pairs for lookup: right sides of ``a`` are ``targets[bounds[a]:bounds[a + 1]]``."""
    order = np.argsort(left.astype(np.int64) << 32 | right)
    bounds = np.searchsorted(left[order], np.arange(size + 1))
    return bounds, right[order].astype(np.int32), rank[order].astype(np.int32)


def _both_ways(pairs: Relation) -> tuple[Int64s, npt.NDArray[np.int32]]:
    """Return for each phrase those that are related to it in either direction."""
    bounds, right, _ = pairs
    left = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    packed = np.unique(np.concatenate([left << 32 | right, right.astype(np.int64) << 32 | left]))
    left = packed >> 32
    bounds = np.searchsorted(left, np.arange(len(bounds)))
    return bounds, (packed & 0xFFFFFFFF).astype(np.int32)


def _synonyms(words: Sequence[str], tables: WordTables) -> tuple[Int64s, Int64s, Int64s]:
    """Return all ordered pairs of different words that share a synset."""
    flat, counts = array("q"), array("q")
    for word in words:
        synsets = tables.all_synsets(word)
        flat.extend(synsets)
        counts.append(len(synsets))
    owner = np.repeat(np.arange(len(words)), counts)
    synset = np.array(flat, np.int64)
    order = np.argsort(synset, kind="stable")
    owner = owner[order]
    _, start, count = np.unique(synset[order], return_index=True, return_counts=True)
    group = np.repeat(np.arange(len(start)), count)
    left = np.repeat(owner, count[group])
    within = np.arange(len(left)) - np.repeat(np.cumsum(count[group]) - count[group], count[group])
    right = owner[np.repeat(start[group], count[group]) + within]
    packed = np.unique((left << 32 | right)[left != right])
    left, right = packed >> 32, packed & 0xFFFFFFFF
    return left, right, np.zeros_like(left)


def _phrases(
    words: Sequence[str], ids: npt.NDArray[np.int32], offsets: Int64s, table: Paraphrases
) -> tuple[npt.NDArray[np.int32], Int64s, Relation]:
    """Return the spans of each sentence that have a paraphrase somewhere, and the pairs."""
    trie = phrases.engine(len(ids))
    known = np.array([table.numbers.get(word, -1) for word in words], np.int32)
    labels, children = table.labels.view(np.ndarray), table.children.view(np.ndarray)
    roots = np.zeros(len(table.words) + 1, np.int32)  # the last entry is for unknown words, -1
    roots[labels[: children[1]]] = np.arange(1, children[1] + 1)
    bounds = np.zeros(len(offsets), np.int64)
    room = 4 * len(ids) + 16
    while True:  # once, or twice if the guess was too small
        spans = np.empty((room, 3), np.int32)
        count = trie.list_phrases(known[ids], offsets, roots, labels, children, spans, bounds)
        if count <= room:
            break
        room = count
    spans = spans[:count]
    nodes = distinct(spans[:, 2], len(children))
    left, right, rank = table.pairs_among(nodes)
    used = np.unique(np.concatenate([left, right]))
    number = Places(nodes[used], len(children))(spans[:, 2])
    kept = number >= 0
    spans[:, 2] = number
    bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
    pairs = _relation(np.searchsorted(used, left), np.searchsorted(used, right), rank, len(used))
    return np.ascontiguousarray(spans[kept]), bounds, pairs
