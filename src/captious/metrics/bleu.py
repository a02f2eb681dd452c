"""BLEU-1 to BLEU-4 as the COCO caption toolkit computes them.

Papineni et al. 2002. Clipped n-gram precision, geometric mean, brevity penalty against the
*closest* reference length (the shorter one on a tie). The toolkit adds 1e-15 to every count of
matches and 1e-9 to every count of guesses instead of smoothing: a caption without a common 4-gram
gets about 1e-4, never exactly 0, and an exact match of three words gets BLEU-4 = 0.0316.

Worked example: "the cat" against "the cat sat": both words match (precision 1), the caption is
shorter than the reference by one word, so BLEU-1 = exp(1 - 3/2) = 0.6065.

The corpus value sums matches, guesses and lengths first; it is not the mean of the captions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.metrics._words import marks
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.text import gram_kernels, ngrams, tokenizers, tokens
from captious.text.machine_code import side_by_side
from captious.types import CaptionSet, Floats, Sample

_TINY, _SMALL = 1e-15, 1e-9


@dataclass(frozen=True)
class Bleu(Metric):
    """BLEU-1..4: n-gram precision with a brevity penalty (COCO toolkit).

    Args:
        tokenizer: ``ptb`` as the toolkit, or another of ``captious tokenize --list``.
    """

    tokenizer: str = "ptb"

    name: ClassVar[str] = "bleu"
    columns: ClassVar[tuple[Column, ...]] = tuple(
        Column(f"bleu_{n}", 0.0, 1.0, f"clipped precision of {orders}, brevity penalty")
        for n, orders in enumerate(("words", *(f"1- to {n}-grams" for n in (2, 3, 4))), 1)
    )
    identity: ClassVar[float | None] = 1.0

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return matches 1..4, guesses 1..4, length, closest reference length."""
        table = tokens.table(samples.pool, self.tokenizer)
        rows = np.zeros((len(samples), 10))
        length = table.lengths[samples.caption]
        rows[:, :4] = self._matches(samples)
        for n in range(1, 5):
            rows[:, n + 3] = np.maximum(length - n + 1, 0)
        lengths = table.lengths[samples.reference]
        distance = np.abs(lengths - length[samples.reference_rows])
        wide = int(lengths.max(initial=0)) + 1
        closest = np.minimum.reduceat(distance * wide + lengths, samples.offsets[:-1]) % wide
        rows[:, 8], rows[:, 9] = length, closest
        return Stats(rows)

    def _matches(self, samples: CaptionSet) -> Floats:
        """Return (n, 4): n-grams of each caption that a reference holds, clipped."""
        grams = ngrams.compiled(samples.pool, self.tokenizer)
        if grams is not None:
            parts = samples.caption, samples.reference, samples.offsets
            matched = side_by_side(
                lambda g: gram_kernels.clipped(g, *parts), grams, len(samples.pool)
            )
            return np.stack(matched, axis=1)
        table = ngrams.table(samples.pool, self.tokenizer)
        most = int(samples.reference_counts.max(initial=0))
        rank = np.arange(most)
        at = np.minimum(samples.offsets[:-1, None] + rank, max(len(samples.reference) - 1, 0))
        refs = np.where(
            rank < samples.reference_counts[:, None],
            samples.reference[at] if len(samples.reference) else table.none,
            table.none,
        )
        out = np.zeros((len(samples), 4))
        for n, counts in enumerate(table.counts):
            best = counts[refs[:, 0]]
            for j in range(1, most):
                best = best.maximum(counts[refs[:, j]])
            clipped = counts[samples.caption].minimum(best)
            out[:, n] = np.asarray(clipped.sum(axis=1)).ravel()
        return out

    def scores(self, rows: Floats) -> Floats:
        """Return BLEU-1..4 of single captions."""
        return _formula(rows)

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Return BLEU-1..4 of the summed statistics."""
        return _formula(totals)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the tokeniser's version."""
        return {"tokenizer": tokenizers.get(self.tokenizer).signature, "len": "closest"}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Say which n-grams matched and how long the closest reference is."""
        samples = CaptionSet.of([sample])
        stats = self.stats(samples, context).rows[0]
        words = tokens.table(samples.pool, self.tokenizer)
        caption = words.tokens(int(samples.caption[0]))
        references = [words.tokens(int(r)) for r in samples.reference]
        matched = {}
        for n in range(1, 5):
            grams = [tuple(caption[i : i + n]) for i in range(len(caption) - n + 1)]
            held = {tuple(r[i : i + n]) for r in references for i in range(len(r) - n + 1)}
            matched[str(n)] = {
                "matched": sorted({" ".join(g) for g in grams if g in held}),
                "unmatched": sorted({" ".join(g) for g in grams if g not in held}),
            }
        score = dict(zip((c.name for c in self.columns), self.scores(stats[None])[0], strict=True))
        lines = [
            ", ".join(f"{name} {value:.4f}" for name, value in score.items()),
            f"{len(caption)} words; the closest reference has {int(stats[9])}.",
        ]
        lines += [
            f"{n}-grams: {int(stats[n - 1])} of {int(stats[n + 3])} are in a reference"
            + (f"; not: {', '.join(matched[str(n)]['unmatched'])}" if n == 1 else "")
            for n in range(1, 5)
        ]
        drawn = marks.against("words of the caption", caption, references)
        return Explanation("\n".join(lines), {"scores": score, "ngrams": matched}, (drawn,))


def _formula(rows: Floats) -> Floats:
    right, guess = rows[..., :4], rows[..., 4:8]
    with np.errstate(invalid="ignore"):
        product = np.cumprod((right + _TINY) / (guess + _SMALL), axis=-1)
        value = product ** (1.0 / np.arange(1, 5))
        ratio = (rows[..., 8:9] + _TINY) / (rows[..., 9:10] + _SMALL)
        # An empty caption has ratio ~1e-15: exp(1 - 1/ratio) underflows to the 0 that is meant.
        penalty = np.exp(np.maximum(1.0 - 1.0 / ratio, -700.0))
    return np.where(ratio < 1.0, value * np.where(rows[..., 8:9] > 0, penalty, 0.0), value)
