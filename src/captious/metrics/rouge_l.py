"""ROUGE-L as the COCO caption toolkit computes it.

Lin 2004. L is the longest common subsequence of words; precision L/|caption| and recall
L/|reference|; the *largest precision and the largest recall over the references are taken
separately*, then F with beta = 1.2. The corpus value is the mean.

Worked example: "a dog runs" against "a big dog": L = 2 (a ... dog), P = R = 2/3, F = 0.6667.

Known deviation: an empty caption against an empty reference scores 0 here (the toolkit splits
both into one empty word and gives 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from captious.metrics._words import marks
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.text import lcs, tokenizers, tokens
from captious.types import CaptionSet, Sample


@dataclass(frozen=True)
class RougeL(Metric):
    """ROUGE-L: longest common subsequence, F with more weight on recall (COCO toolkit).

    Args:
        beta: weight of recall.
        tokenizer: ``ptb`` as the toolkit, or another of ``captious tokenize --list``.
    """

    beta: float = 1.2
    tokenizer: str = "ptb"

    name: ClassVar[str] = "rouge_l"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("rouge_l", 0.0, 1.0, "longest common subsequence with a reference"),
    )
    identity: ClassVar[float | None] = 1.0

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the score of each caption."""
        table = tokens.table(samples.pool, self.tokenizer)
        captions = samples.caption[samples.reference_rows]
        common = lcs.lengths(table, captions, samples.reference)
        starts = samples.offsets[:-1]
        precision = np.maximum.reduceat(_share(common, table.lengths[captions]), starts)
        recall = np.maximum.reduceat(_share(common, table.lengths[samples.reference]), starts)
        weight = self.beta**2
        below = recall + weight * precision
        value = np.where(
            (precision > 0) & (recall > 0),
            (1 + weight) * precision * recall / np.where(below > 0, below, 1.0),
            0.0,
        )
        return Stats(value[:, None])

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the tokeniser's version."""
        return {"tokenizer": tokenizers.get(self.tokenizer).signature}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show the longest common subsequence with each reference."""
        samples = CaptionSet.of([sample])
        table = tokens.table(samples.pool, self.tokenizer)
        caption = table.tokens(int(samples.caption[0]))
        rows = []
        for r in samples.reference:
            reference = table.tokens(int(r))
            rows.append({"reference": reference, "common": lcs.subsequence(caption, reference)})
        score = float(self.stats(samples, context).rows[0, 0])
        lines = [f"rouge_l {score:.4f}"]
        lines += [
            f"in order with '{' '.join(f['reference'])}': {' '.join(f['common']) or '-'}"
            for f in rows
        ]
        drawn = marks.against("words of the caption", caption, [f["reference"] for f in rows])
        return Explanation("\n".join(lines), {"score": score, "references": rows}, (drawn,))


def _share(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return part / np.maximum(whole, 1)
