"""What does each word add? The score of a caption beside its scores without one word each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from captious.metrics._words import marks
from captious.metrics.base import Metric
from captious.types import CaptionSet, Explanation, Sample


def explain(metric: Metric, sample: Sample, context: Any) -> Explanation:
    """Leave out one word after the other and say how the first column moves."""
    words = sample.caption.split()
    texts = [" ".join(words[:k] + words[k + 1 :]) for k in range(len(words))]
    rows = CaptionSet.build(
        [sample.caption, *texts],
        [sample.references] * (len(words) + 1),
        images=[sample.image] * (len(words) + 1),
    )
    rows = replace(rows, evidence=sample.evidence)
    values = metric.stats(rows, context).rows[:, 0]
    moved = [
        {"word": word, "without": float(value), "change": float(values[0] - value)}
        for word, value in zip(words, values[1:], strict=True)
    ]
    lines = [f"{metric.name} {values[0]:.4f}; what each word adds:"]
    lines += [f"  {move['change']:+.4f}  {move['word']}" for move in moved]
    drawn = marks.adding("what each word adds", words, (values[0] - values[1:]).tolist())
    data = {"score": float(values[0]), "words": moved}
    return Explanation("\n".join(lines), data, (drawn,))
