"""The sentences of a run as METEOR sees them: numbers for words, stems, synonyms and phrases.

Every distinct sentence is normalised once, every distinct word stemmed and looked up once, and the
paraphrase table is joined with the phrases that really occur. What remains for a pair of sentences
is comparing integers (``align``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
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
    function = np.array([word in tables.function_words for word in words], np.uint8)
    synonyms = _relation(*_synonyms(words, tables), size=len(words))
    if paraphrases is None:
        spans, bounds = np.zeros((0, 3), np.int32), np.zeros(len(offsets), np.int64)
        none = np.zeros(0, np.int64)
        pairs = _relation(none, none, none, size=0)
    else:
        spans, bounds, pairs = _phrases(words, ids, offsets, paraphrases)
    arrays = (
        ids, offsets, key, stem, function, *synonyms[:2], spans.reshape(-1), bounds, *pairs,
        *_both_ways(pairs),
    )  # fmt: skip
    return Lexicon(words, ids, offsets, arrays)


def _normalised(
    table: tokens.TokenTable, tables: WordTables
) -> tuple[list[str], npt.NDArray[np.int32], Int64s]:
    """Return vocabulary, word numbers and offsets after METEOR's own normaliser.

    Plain words stay as they are, and a word between plain ones becomes the same words wherever it
    stands: whole arrays at a time. Other sentences are normalised one by one.
    """
    numbers = {word: i for i, word in enumerate(table.vocabulary)}
    normalize = partial(
        meteor_norm.normalize, prefixes=tables.prefixes, numeric_prefixes=tables.numeric_prefixes
    )
    odd = np.array([not meteor_norm.is_plain(word) for word in table.vocabulary], bool)
    restless = np.zeros(len(odd), bool)  # words that look beyond the spaces around them
    widths = np.ones(len(odd), np.int64)
    became: list[int] = []
    for at in np.flatnonzero(odd).tolist():
        word = table.vocabulary[at].replace("|||", "")
        restless[at] = meteor_norm.looks_around(word)
        words = [] if restless[at] else normalize(word)
        became.extend([numbers.setdefault(made, len(numbers)) for made in words])
        widths[at] = len(words)
    begins = np.cumsum(widths) - widths
    flat = np.arange(len(odd), dtype=np.int32).repeat(widths)
    flat[np.repeat(odd, widths)] = became

    # 0: a sentence of plain words; 1: with odd ones, each on its own; 2: one looks around, or two
    # odd words meet.
    rows, odd_token = table.rows, odd[table.ids]
    hard = restless[table.ids]
    hard[1:] |= odd_token[1:] & odd_token[:-1] & (rows[1:] == rows[:-1])
    kind = np.zeros(len(table.lengths), np.int8)
    kind[rows[odd_token]] = 1
    kind[rows[hard]] = 2
    lengths = table.lengths.copy()
    token_kind = np.repeat(kind, lengths)
    mixed = table.ids[token_kind == 1]
    width = widths[mixed]
    lengths[kind == 1] = np.bincount(rows[token_kind == 1], width, len(kind))[kind == 1]
    one_by_one: list[int] = []
    for i in np.flatnonzero(kind == 2).tolist():
        words = normalize(" ".join(table.tokens(i)).replace("|||", ""))
        one_by_one.extend([numbers.setdefault(word, len(numbers)) for word in words])
        lengths[i] = len(words)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    made_kind = np.repeat(kind, lengths)
    ids = np.empty(offsets[-1], np.int32)
    ids[made_kind == 0] = table.ids[token_kind == 0]
    within = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
    ids[made_kind == 1] = flat[np.repeat(begins[mixed], width) + within]
    ids[made_kind == 2] = one_by_one
    # Drop words that only occurred before normalising.
    kept = np.bincount(ids, minlength=len(numbers)) > 0
    place = np.cumsum(kept, dtype=np.int32) - 1
    return list(compress(numbers, kept.tolist())), place[ids], offsets


def java_hashes(words: Sequence[str]) -> Int64s:
    """Return the 32-bit hashes by which the reference program compares words.

    Two words of equal hash (``an`` and ``c0``) are one word to it, and therefore to us.
    """
    encoded = [word.encode("utf-16-le") for word in words]
    ends = np.cumsum([len(word) // 2 for word in encoded], dtype=np.int64)
    sizes = np.diff(ends, prepend=0)
    units = np.frombuffer(b"".join(encoded), "<u2").astype(np.uint32)
    powers = np.cumprod([1] + [31] * int(sizes.max(initial=0)), dtype=np.uint32)
    weighted = units * powers[np.repeat(ends, sizes) - 1 - np.arange(len(units))]
    sums = np.concatenate([[0], np.cumsum(weighted, dtype=np.uint32)]).astype(np.uint32)
    return (sums[ends] - sums[ends - sizes]).astype(np.int64)


def _numbered(words: Sequence[str]) -> npt.NDArray[np.int32]:
    """Number words so that equal numbers mean equal hashes."""
    return np.unique(java_hashes(words), return_inverse=True)[1].astype(np.int32)


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
    synsets = [tables.all_synset_numbers(word) for word in words]
    owner = np.repeat(np.arange(len(words)), np.array(list(map(len, synsets)), np.int64))
    synset = np.array(list(map(int, chain.from_iterable(synsets))), np.int64)
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
    kernels = phrases.kernels.if_worth(len(ids))
    list_phrases = phrases.list_phrases if kernels is None else kernels.list_phrases
    unknown = len(table.words)
    known = np.array([table.numbers.get(word, unknown) for word in words], np.int32)
    labels, children = table.labels.view(np.ndarray), table.children.view(np.ndarray)
    roots = np.zeros(unknown + 1, np.int32)
    roots[labels[: children[1]]] = np.arange(1, children[1] + 1)
    bounds = np.zeros(len(offsets), np.int64)
    memory = 1 << min(16, len(ids).bit_length())
    steps, reached = np.full(memory, -1, np.int64), np.zeros(memory, np.int32)
    room = 4 * len(ids) + 16
    while True:  # once, or twice if the guess was too small
        flat = np.empty(3 * room, np.int32)
        count = list_phrases(
            known[ids], offsets, len(offsets) - 1, roots, labels, children, flat, room, bounds,
            steps, reached, memory,
        )  # fmt: skip
        if count <= room:
            break
        room = count
    spans = flat.reshape(-1, 3)[:count]
    nodes = distinct(spans[:, 2], len(children))
    left, right, rank = table.pairs_among(nodes)
    used = np.unique(np.concatenate([left, right]))
    number = Places(nodes[used], len(children))(spans[:, 2])
    kept = number >= 0
    spans[:, 2] = number
    bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
    pairs = _relation(np.searchsorted(used, left), np.searchsorted(used, right), rank, len(used))
    return np.ascontiguousarray(spans[kept]), bounds, pairs
