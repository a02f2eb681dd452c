"""Word Mover's Distance (Kusner et al. 2015) as a caption metric (Kilickaya et al. 2017).

Caption and reference are bags of content words; the distance is the least total distance that the
mass of one bag has to travel in the space of word vectors to become the other: an exact earth
mover's distance with the Euclidean distance between vectors as cost. The score is
``exp(-distance)``.

With several references there are three readings: against the closest reference (``wmd``), against
the farthest (``wmd_worst``), and the mean of the scores (``wmd_mean``).

Worked example: *dog runs* against *dog sleeps* with unit vectors where |runs - sleeps| = 1: *dog*
stays (cost 0), half of the mass travels 1, so the distance is 0.5 and the score exp(-0.5) = 0.607.

Defined behaviour: words without a vector are dropped (and counted in the notes); a side without
any word left is infinitely far (score 0); equal bags have distance 0 (old versions of gensim
returned infinity there). Vectors are scaled to length 1 by default, as is usual for captions;
``unit=False`` gives the distances of the original paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious import assets
from captious.metrics._words.plan import Plan
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.text import bags, tokenizers, transport
from captious.text.vectors import DEFAULT, open_vectors
from captious.types import CaptionSet, Sample


@dataclass(frozen=True)
class Wmd(Metric):
    """Similarity exp(-Word Mover's Distance) to the references.

    Args:
        vectors: name or path of the word vectors.
        stop_words: stop list: ``nltk``, ``sklearn``, ``none`` or a file.
        unit: bring vectors to length 1.
        power: exponent of the distance between two words.
        tokenizer: how captions become words.
    """

    vectors: str = DEFAULT
    stop_words: str = "nltk"
    unit: bool = True
    power: float = 1.0
    tokenizer: str = "ptb"

    name: ClassVar[str] = "wmd"
    renamed: ClassVar[dict[str, str]] = {"stop": "stop_words"}
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("wmd", 0.0, 1.0, "exp(-word mover's distance) to the closest reference"),
        Column("wmd_worst", 0.0, 1.0, "exp(-word mover's distance) to the farthest reference"),
        Column("wmd_mean", 0.0, 1.0, "mean over references of exp(-word mover's distance)"),
    )
    modules: ClassVar[dict[str, str]] = {"ot": "vectors"}
    identity: ClassVar[float | None] = 1.0

    @property
    def assets(self) -> tuple[str, ...]:
        """The word vectors, where they are a named asset."""
        return (self.vectors,) if self.vectors in assets.known() else ()

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return best, worst and mean similarity per row."""
        table = open_vectors(self.vectors)
        words = bags.of_pool(samples.pool, table, self.stop_words, self.tokenizer)
        caption = samples.caption[samples.reference_rows].astype(np.int64)
        pairs = caption * len(samples.pool) + samples.reference
        unique, back = np.unique(pairs, return_inverse=True)
        i, j = np.divmod(unique, len(samples.pool) or 1)
        used, _ = words.words_of(np.unique(np.concatenate([i, j])))
        space = transport.Space(table, used, self.unit)
        distance = transport.distances(words, i, words, j, space.cost(self.power))
        similarity = np.exp(-distance)[back]

        rows = np.full((len(samples), 3), np.nan)
        counts = samples.reference_counts
        referenced = counts > 0
        if referenced.any():
            starts = samples.offsets[:-1][referenced]
            rows[referenced, 0] = np.maximum.reduceat(similarity, starts)
            rows[referenced, 1] = np.minimum.reduceat(similarity, starts)
            rows[referenced, 2] = np.add.reduceat(similarity, starts) / counts[referenced]
        return Stats(
            rows,
            {int(r): "no references" for r in np.flatnonzero(~referenced)},
            _notes(words, samples),
        )

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show the flow of words between the caption and its closest reference."""
        table = open_vectors(self.vectors)
        samples = CaptionSet.of([sample])
        words = bags.of_pool(samples.pool, table, self.stop_words, self.tokenizer)
        caption = np.repeat(samples.caption, len(samples.reference)).astype(np.int64)
        reference = samples.reference.astype(np.int64)
        space = transport.Space(table, words.rows, self.unit)
        cost = space.cost(self.power)
        distance = transport.distances(words, caption, words, reference, cost)
        if not len(distance) or not np.isfinite(distance).any():
            reason = (
                "there is no reference"
                if not len(distance)
                else "the caption or the reference has no known word"
            )
            return Explanation(f"No words to compare: {reason}.", {"flows": []})
        best = int(distance.argmin())
        flow = Plan.between(
            words, int(samples.caption[0]), words, int(reference[best]), cost, table
        )
        closest = sample.references[best]
        text = (
            f"wmd {np.exp(-distance[best]):.4f} = exp(-{distance[best]:.4f}), the distance to the "
            f"closest of {len(distance)} references: {closest}\n{flow.as_text()}"
        )
        data = {
            "reference": closest,
            "distances": [None if np.isinf(d) else float(d) for d in distance],
            **flow.as_data(),
        }
        return Explanation(text, data, (flow.as_part("caption", "closest reference"),))

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the vectors with dimensions and checksum, and the tokeniser's version."""
        return {
            "vectors": open_vectors(self.vectors).signature,
            "tokenizer": tokenizers.get(self.tokenizer).signature,
        }


def _notes(words: bags.Bags, samples: CaptionSet) -> dict[str, int]:
    caption = samples.caption
    lost = int((words.dropped[caption] > 0).sum())
    none = int((words.sizes[caption] == 0).sum())
    blank = np.unique(samples.reference_rows[words.sizes[samples.reference] == 0])
    notes = {
        "captions with a word that has no vector": lost,
        "captions without any content word (score 0)": none,
        "rows with a reference without content words": len(blank),
    }
    return {remark: count for remark, count in notes.items() if count}
