"""BLEU, ROUGE-L and CIDEr(-D) of a few captions, without the set-up that a large set is worth.

The metrics work on whole sets: sparse matrices, one per order. For one caption that set-up costs a
hundred times the work itself. Here a text is cut and counted once and remembered, a list of
references becomes one table of postings, and a caption is a few dozen look-ups. The statistics are
those of ``Metric.stats``; everything after them (values, corpus values) is the metric's own.

A row depends on its caption, its references and the frozen corpus facts alone: batch size, threads
and what was remembered never change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from captious.metrics.base import Metric
from captious.metrics.bleu import Bleu
from captious.metrics.cider import Cider, CiderD
from captious.metrics.rouge_l import RougeL
from captious.text import ngrams, tokenizers
from captious.text.document_frequency import DocumentFrequency
from captious.types import Floats

K = TypeVar("K")
V = TypeVar("V")
_STEP = int(ngrams._STEP)
_MASK = (1 << 64) - 1
_TEXTS = 1 << 15
"""Captions remembered per tokeniser, at the utmost."""
_WORDS = 1 << 17
"""Words whose names are remembered per tokeniser."""

_LENGTHS = 256
"""Differences in length whose factor is kept."""

References = tuple[str, ...]


class _Memory(Generic[K, V]):
    """A bounded table; when it is full the oldest eighth goes. Safe under threads."""

    def __init__(self, make: Callable[[K], V], size: int) -> None:
        self._make, self._size = make, max(8, size)
        self._held: dict[K, V] = {}
        self._lock = Lock()

    def __call__(self, key: K) -> V:
        held = self._held.get(key)
        if held is None:
            held = self._make(key)
            with self._lock:
                if len(self._held) >= self._size:
                    for old in list(self._held)[: self._size // 8]:
                        del self._held[old]
                self._held[key] = held
        return held


class _Text(NamedTuple):
    words: list[str]
    grams: tuple[dict[int, int], ...]


class _Names(dict[str, int]):
    """The 64-bit name of every word that was met."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _WORDS:
            self.clear()
        name = self[word] = ngrams.word_hash(word)
        return name


class _Reader:
    """Cuts and counts texts with one tokeniser."""

    def __init__(self, tokenizer: str, remember: int) -> None:
        self._cut: Any = tokenizers.get(tokenizer).cut
        self._names = _Names()
        self.text: _Memory[str, _Text] = _Memory(self.read, min(_TEXTS, 8 * remember))

    def read(self, text: str) -> _Text:
        words = self._cut(text)
        names = self._names
        named = [names[word] for word in words]
        grams: list[dict[int, int]] = []
        hashed = named
        for n in range(1, ngrams.ORDERS + 1):
            if n > 1:
                hashed = [
                    (h * _STEP + w) & _MASK for h, w in zip(hashed, named[n - 1 :], strict=False)
                ]
            counts = dict.fromkeys(hashed, 1)
            if len(counts) != len(hashed):  # some n-gram is there twice, which is rare
                counts = dict.fromkeys(counts, 0)
                for gram in hashed:
                    counts[gram] += 1
            # In the order of their names, in which the metrics add up: the same bits.
            grams.append(dict(sorted(counts.items())))
        return _Text(words, tuple(grams))


class _QuickBleu:
    def __init__(self, metric: Bleu, reader: _Reader, remember: int) -> None:
        self._reader = reader
        self.references: Any = _Memory(self._counted, remember)

    def _counted(self, references: References) -> tuple[list[int], tuple[dict[int, int], ...]]:
        texts = [self._reader.read(text) for text in references]
        most: tuple[dict[int, int], ...] = tuple({} for _ in range(ngrams.ORDERS))
        for text in texts:
            for best, counts in zip(most, text.grams, strict=True):
                for gram, count in counts.items():
                    if count > best.get(gram, 0):
                        best[gram] = count
        return [len(text.words) for text in texts], most

    def row(self, caption: _Text, references: References) -> list[float]:
        lengths, most = self.references(references)
        length = len(caption.words)
        row = [0.0] * 10
        for n, (counts, best) in enumerate(zip(caption.grams, most, strict=True)):
            row[n] = sum(min(count, best.get(gram, 0)) for gram, count in counts.items())
            row[n + 4] = max(length - n, 0)
        row[8] = length
        row[9] = min((abs(size - length), size) for size in lengths)[1]
        return row


class _QuickRouge:
    def __init__(self, metric: RougeL, reader: _Reader, remember: int) -> None:
        self._reader, self._weight = reader, metric.beta**2
        self.references: Any = _Memory(self._placed, remember)

    def _placed(self, references: References) -> list[tuple[int, dict[str, int]]]:
        out = []
        for reference in references:
            words = self._reader.read(reference).words
            places: dict[str, int] = {}
            for i, word in enumerate(words):
                places[word] = places.get(word, 0) | (1 << i)
            out.append((len(words), places))
        return out

    def row(self, caption: _Text, references: References) -> list[float]:
        precision = recall = 0.0
        words = caption.words
        for size, places in self.references(references):
            full = (1 << size) - 1
            row = full
            for word in words:
                place = places.get(word)
                if place is not None:
                    kept = row & place
                    row = ((row + kept) | (row - kept)) & full
            common = size - row.bit_count()
            precision = max(precision, common / max(len(words), 1))
            recall = max(recall, common / max(size, 1))
        if not (precision > 0 and recall > 0):
            return [0.0]
        weight = self._weight
        return [(1 + weight) * precision * recall / (recall + weight * precision)]


class _Postings(NamedTuple):
    """References as one table per order: n-gram -> which reference holds it with what weight."""

    holders: tuple[dict[int, list[tuple[int, float]]], ...]
    norms: list[list[float]]
    lengths: list[int]


class _QuickCider:
    def __init__(
        self, metric: Cider, reader: _Reader, remember: int, frequencies: DocumentFrequency
    ) -> None:
        self._reader, self._clipped = reader, metric.clipped
        self._metric = metric
        far = np.arange(_LENGTHS, dtype=np.int64) + 1
        # The factor by the difference in length, as the metric itself computes it.
        self._factors = metric._length_factor(far, np.ones(_LENGTHS, np.int64)).tolist()
        self._unseen = float(np.log(float(frequencies.documents)))
        self._idf = [
            dict(
                zip(
                    names.tolist(),
                    (self._unseen - np.log(np.maximum(counts, 1.0))).tolist(),
                    strict=True,
                )
            )
            for names, counts in zip(frequencies.grams, frequencies.counts, strict=True)
        ]
        self.references: Any = _Memory(self._posted, remember)

    def _posted(self, references: References) -> _Postings:
        holders: tuple[dict[int, list[tuple[int, float]]], ...] = tuple(
            {} for _ in range(ngrams.ORDERS)
        )
        norms: list[list[float]] = [[] for _ in range(ngrams.ORDERS)]
        lengths = []
        for at, reference in enumerate(references):
            text = self._reader.read(reference)
            lengths.append(len(text.words))
            for idf, counts, held, norm in zip(self._idf, text.grams, holders, norms, strict=True):
                weights = [count * idf.get(gram, self._unseen) for gram, count in counts.items()]
                for gram, weight in zip(counts, weights, strict=True):
                    held.setdefault(gram, []).append((at, weight))
                norm.append(_norm(weights))
        return _Postings(holders, norms, lengths)

    def row(self, caption: _Text, references: References) -> list[float]:
        posted = self.references(references)
        size, unseen, clipped = len(references), self._unseen, self._clipped
        # The toolkit compares bigram counts: nothing and one word have the same "length".
        mine = max(len(caption.words) - 1, 0)
        factors = [self._factor(abs(mine - max(n - 1, 0))) for n in posted.lengths]
        whole = 0.0
        for idf, counts, held, norms in zip(
            self._idf, caption.grams, posted.holders, posted.norms, strict=True
        ):
            if counts.keys().isdisjoint(held):
                continue  # as most 3- and 4-grams are
            weight_of, holders_of = idf.get, held.get
            weights = [count * weight_of(gram, unseen) for gram, count in counts.items()]
            norm = _norm(weights)
            if not norm:
                continue
            dots = [0.0] * size
            for gram, weight in zip(counts, weights, strict=True):
                holders = holders_of(gram)
                if holders is not None:
                    for at, other in holders:
                        dots[at] += (other if clipped and other < weight else weight) * other
            total = 0.0
            for dot, other, factor in zip(dots, norms, factors, strict=True):
                if dot:
                    total += dot / (norm * other) * factor
            whole += total * (10.0 / size)
        return [whole / ngrams.ORDERS]

    def _factor(self, difference: int) -> float:
        if difference < _LENGTHS:
            return self._factors[difference]
        far = np.array([difference + 1])
        return float(self._metric._length_factor(far, np.ones(1, np.int64))[0])


def _norm(weights: list[float]) -> float:
    total = 0.0
    for weight in weights:
        total += weight * weight
    return math.sqrt(total)


class Quick:
    """Statistics of the classic metrics for captions that come a few at a time."""

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self._readers: dict[str, _Reader] = {}
        self._made: dict[Metric, tuple[_Reader, Any]] = {}

    def add(self, metric: Metric, context: Any) -> bool:
        """Take a metric over if it can be computed here; tell whether it can."""
        kind = type(metric)
        if kind not in (Bleu, RougeL, Cider, CiderD) or getattr(metric, "stem", False):
            return False
        tokenizer = str(metric.parameters()["tokenizer"])
        reader = self._readers.get(tokenizer) or _Reader(tokenizer, self._remember)
        if isinstance(metric, Bleu):
            made: Any = _QuickBleu(metric, reader, self._remember)
        elif isinstance(metric, RougeL):
            made = _QuickRouge(metric, reader, self._remember)
        elif isinstance(metric, Cider) and isinstance(context, DocumentFrequency):
            made = _QuickCider(metric, reader, self._remember, context)
        else:
            return False
        self._readers[tokenizer] = reader
        self._made[metric] = reader, made
        return True

    def learn(self, references: References) -> None:
        """Cut and count references that are known beforehand."""
        for _, made in self._made.values():
            made.references(references)

    def rows(
        self, metric: Metric, captions: Sequence[str], references: Sequence[References]
    ) -> Floats:
        """Return the statistics of every caption; NaN where there is no reference."""
        reader, made = self._made[metric]
        read, row = reader.text, made.row
        width = 10 if isinstance(metric, Bleu) else 1
        lacking = [math.nan] * width
        return np.array(
            [
                row(read(caption), listed) if listed else lacking
                for caption, listed in zip(captions, references, strict=True)
            ],
            np.float64,
        ).reshape(len(captions), width)
