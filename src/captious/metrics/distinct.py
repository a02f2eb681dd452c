"""Distinct: does the caption say anything twice?

The share of the caption's content words that are new: different content words over content words
(stop words left out). It looks neither at the image nor at references, and does not
say whether a caption is good; it notices captions that repeat themselves, which overlap metrics
hardly do.

Worked example: *a dog runs and a dog barks* has the content words dog, runs, dog, barks: three
different ones of four, 0.75. A caption without content words repeats nothing: 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.text import tokenizers, tokens
from captious.text.stoplists import stop_words
from captious.types import CaptionSet, Sample


@dataclass(frozen=True)
class Distinct(Metric):
    """Distinct: share of the caption's content words that are not said twice.

    Args:
        stop_words: stop list: ``nltk``, ``sklearn``, ``none`` or a file.
        tokenizer: how captions become words.
    """

    stop_words: str = "nltk"
    tokenizer: str = "ptb"

    name: ClassVar[str] = "distinct"
    renamed: ClassVar[dict[str, str]] = {"stop": "stop_words"}
    needs: ClassVar[frozenset[Need]] = frozenset()
    columns: ClassVar[tuple[Column, ...]] = (
        Column("distinct", 0.0, 1.0, "different content words over content words"),
    )
    empty: ClassVar[float] = 1.0

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the share per row; equal captions are read once."""
        table = tokens.table(samples.pool, self.tokenizer)
        stop = stop_words(self.stop_words)
        unique, back = np.unique(samples.caption, return_inverse=True)
        shares = []
        for number in unique:
            words = [w for w in table.tokens(int(number)) if w not in stop]
            shares.append(len(set(words)) / len(words) if words else 1.0)
        return Stats(np.array(shares)[back].reshape(-1, 1))

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the tokeniser's version."""
        return {"tokenizer": tokenizers.get(self.tokenizer).signature}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """List the words that are said more than once."""
        stop = stop_words(self.stop_words)
        words = [w for w in tokenizers.get(self.tokenizer)(sample.caption) if w not in stop]
        twice = {w: words.count(w) for w in dict.fromkeys(words) if words.count(w) > 1}
        score = len(set(words)) / len(words) if words else 1.0
        said = ", ".join(f"{w} {n} times" for w, n in twice.items()) or "nothing is said twice"
        return Explanation(f"distinct {score:.4f}: {said}", {"score": score, "repeated": twice})
