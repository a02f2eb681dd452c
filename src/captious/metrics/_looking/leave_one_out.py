"""What does each word add? The score of a caption beside its scores without one word each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from captious.metrics._words import marks
from captious.metrics.base import Metric
from captious.types import CaptionSet, Explanation, Sample

_SHOWN = 8
"""Words that are told: those that move the score most."""


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
    moved: list[dict[str, Any]] = [
        {"word": word, "without": float(value), "change": float(values[0] - value)}
        for word, value in zip(words, values[1:], strict=True)
    ]
    lines = [f"{metric.name} {values[0]:.4f}; how the score moves with each word:"]
    order = sorted(moved, key=lambda move: -abs(move["change"]))[:_SHOWN]
    for title, sign in (("raised", 1), ("lowered", -1)):
        told = [
            f"{m['word'].strip('.,;:!?')} {m['change']:+.4f}"
            for m in order
            if m["change"] * sign > 0
        ]
        if told:
            lines.append(f"  {title} by {', '.join(told)}")
    if len(moved) > _SHOWN:
        lines.append(f"  {len(moved) - _SHOWN} other words move it less")
    drawn = marks.adding("what each word adds", words, (values[0] - values[1:]).tolist())
    data = {"score": float(values[0]), "words": moved}
    return Explanation("\n".join(lines), data, (drawn,))
