"""Would ViLBERTScore be better if the photograph moved the words further, or less far?

    python benchmarks/looking_length.py --data ../shared/data --flickr8k REGIONS --cxc REGIONS \
        [--model NAME] [--every 12]

Every word's state in front of the photograph is moved away from its state in front of a blank one:
1 is the model as it is, 0 the blank photograph, 2 twice as far. Prints Kendall's tau-b of P, R and
F with the mean rating on rows of half A (for choices) of Flickr8k-Expert and CxC, every so manieth.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import kendalltau

from captious.engine import evidence
from captious.metrics.vilbertscore import Vilbertscore
from captious.training.domains import Places, domain
from captious.types import CaptionSet

LENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Moved(Vilbertscore):
    """ViLBERTScore whose photograph moves words ``times`` as far."""

    times: float = 1.0

    def vectors(self, texts: Any, which: Any, images: Any, encoder: Any, layer: int) -> Any:
        """States on the line from the blank photograph's through the photograph's."""
        seen = super().vectors(texts, which, images, encoder, layer)
        if self.times == 1:
            return seen
        blank = super().vectors(texts, [0] * len(texts), [encoder.blank()], encoder, layer)
        states = blank.vectors + self.times * (seen.vectors - blank.vectors)
        return replace(seen, vectors=torch.nn.functional.normalize(states, dim=-1))


def rows_of(where: Places, name: str, every: int) -> tuple[CaptionSet, np.ndarray]:
    """Some rows of half A of a set, and their mean ratings."""
    whole = domain(where, name)
    ratings = defaultdict(list)
    for row, value in zip(whole.judged.judged.rows, whole.judged.judged.values, strict=True):
        ratings[int(row)].append(value)
    chosen = [int(row) for row in np.flatnonzero(whole.first) if int(row) in ratings][::every]
    return whole.samples.take(np.array(chosen)), np.array([np.mean(ratings[r]) for r in chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--flickr8k", type=Path, required=True, help="regions of its photographs")
    parser.add_argument("--cxc", type=Path, required=True, help="regions of CxC's photographs")
    parser.add_argument("--model", default="vilbert-coco")
    parser.add_argument("--every", type=int, default=12)
    args = parser.parse_args()
    where = Places(args.data, (args.flickr8k,), (args.flickr8k,), (args.cxc,))
    print("set, rows, times as far: P R F")
    for name, regions, every in (
        ("expert", args.flickr8k, max(1, args.every // 3)), ("cxc", args.cxc, args.every),
    ):  # fmt: skip
        samples, people = rows_of(where, name, every)
        seen = evidence.given(samples, [], regions)
        for times in LENGTHS:
            metric = Moved(model=args.model, times=times)
            scores = metric.scores(metric.stats(seen, metric.prepare(seen)).rows)
            taus = [kendalltau(column, people, nan_policy="omit").statistic for column in scores.T]
            print(name, len(samples), times, *(f"{tau:.3f}" for tau in taus), flush=True)


if __name__ == "__main__":
    main()
