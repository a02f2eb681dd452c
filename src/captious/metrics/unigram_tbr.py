"""Unigram-TBR: BERT-TBR without a model (the release's "simple" script).

The union of all references' words, without stop words, is the combined reference; the score is
the share of its words that the caption has.

Worked example: references "a dog runs" and "the dog on grass", caption "a dog on sand": combined
{dog, runs, grass} after removal of a, the, on; the caption has one of three: 0.3333.

The released rules split at white space and are case-sensitive ("Two" and "The" are then not stop
words); ``tokenizer='ptb'`` lower-cases and drops punctuation first, as the COCO toolkit does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.text import tokens
from captious.text.stoplists import stop_words
from captious.text.stopwords_tbr import TBR
from captious.types import CaptionSet, Sample, TextPool, WordMark, WordMarks, WorkKey

_WordSets = list[frozenset[str]]


@dataclass(frozen=True)
class UnigramTbr(Metric):
    """Share of the references' joint vocabulary that the caption has.

    Args:
        tokenizer: ``whitespace`` as the release, or another of ``captious tokenize --list``.
        stop_words: ``tbr`` (the release's list), ``nltk``, ``sklearn``, ``none``, or a file.
    """

    tokenizer: str = "whitespace"
    stop_words: str = "tbr"

    name: ClassVar[str] = "unigram_tbr"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("unigram_tbr", 0.0, 1.0, "share of the references' content words in the caption"),
    )
    identity: ClassVar[float | None] = 1.0

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the score of each caption."""
        words = self._words(samples.pool)
        rows = np.full((len(samples), 1), np.nan)
        reasons = {}
        bounds = samples.offsets.tolist()
        reference = samples.reference.tolist()
        unions: dict[tuple[int, ...], frozenset[str]] = {}
        for i, caption in enumerate(samples.caption.tolist()):
            refs = tuple(reference[bounds[i] : bounds[i + 1]])
            if not refs:
                reasons[i] = "no reference"
                continue
            if refs not in unions:
                unions = {refs: frozenset().union(*(words[r] for r in refs))}
            combined = unions[refs]
            rows[i, 0] = len(combined & words[caption]) / len(combined) if combined else 0.0
        return Stats(rows, reasons)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """List the words found and missed."""
        samples = CaptionSet.of([sample])
        words = self._words(samples.pool)
        combined = frozenset().union(*(words[int(r)] for r in samples.reference))
        caption = words[int(samples.caption[0])]
        matched, missed = sorted(combined & caption), sorted(combined - caption)
        score = len(matched) / len(combined) if combined else 0.0
        return Explanation(
            f"unigram_tbr {score:.4f}\n  found: {' '.join(matched) or '-'}\n"
            f"  missed: {' '.join(missed) or '-'}",
            {"score": score, "found": matched, "missed": missed},
            (
                WordMarks(
                    "words of the combined reference",
                    tuple(WordMark(w, "confirmed") for w in matched)
                    + tuple(WordMark(w, "missing") for w in missed),
                ),
            ),
        )

    def _words(self, pool: TextPool) -> _WordSets:
        """Return the content words of every string of the run."""
        key = WorkKey[_WordSets]("unigram_tbr", (self.tokenizer, self.stop_words))
        return pool.derived(key, lambda: self._build(pool))

    def _build(self, pool: TextPool) -> _WordSets:
        stop = TBR if self.stop_words == "tbr" else stop_words(self.stop_words)
        if self.tokenizer == "whitespace":
            return [frozenset(t.split()) - stop for part in pool.chunks() for t in part]
        table = tokens.table(pool, self.tokenizer)
        return [frozenset(table.tokens(i)) - stop for i in range(len(pool))]
