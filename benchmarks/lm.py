"""The language model against a Kneser-Ney 5-gram, and against shuffled and stuttering captions.

    python benchmarks/lm.py [--model FOLDER] [--train N] [--test N]

Both models are built on the COCO training captions of the pycocoevalcap wheel (the shipped network
saw all of them, and others) and measured on held-out validation captions, with the same
vocabulary: words that
the network does not know are one class for both.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict

import numpy as np

from captious.models import lm
from captious.text import tokenizers
from captious.training.lm import coco_captions


class KneserNey:
    """Interpolated modified Kneser-Ney (Chen and Goodman 1999), three discounts per order."""

    def __init__(self, sentences: list[list[int]], order: int, words: int) -> None:
        self.order, self.words = order, words
        full: list[dict[tuple[int, ...], int]] = [defaultdict(int) for _ in range(order + 1)]
        for s in sentences:
            padded = [lm.START] * (order - 2) + s
            for i in range(order - 1, len(padded)):
                full[order][tuple(padded[i - order + 1 : i + 1])] += 1
        # Lower orders count the distinct words before an n-gram, not how often it occurs.
        for n in range(order - 1, 0, -1):
            for gram in full[n + 1]:
                full[n][gram[1:]] += 1
        self.counts = full
        self.total: list[dict[tuple[int, ...], int]] = [{} for _ in range(order + 1)]
        self.mass: list[dict[tuple[int, ...], float]] = [{} for _ in range(order + 1)]
        self.discount: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)] * (order + 1)
        for n in range(1, order + 1):
            of = np.bincount(np.minimum(list(full[n].values()), 5), minlength=6)
            y = of[1] / (of[1] + 2 * of[2])
            d = tuple(
                float(max(k - (k + 1) * y * of[k + 1] / max(of[k], 1), 0.0)) for k in (1, 2, 3)
            )
            self.discount[n] = d  # type: ignore[assignment]
            total: dict[tuple[int, ...], int] = defaultdict(int)
            mass: dict[tuple[int, ...], float] = defaultdict(float)
            for gram, count in full[n].items():
                total[gram[:-1]] += count
                mass[gram[:-1]] += d[min(count, 3) - 1]
            self.total[n], self.mass[n] = total, mass

    def probability(self, gram: tuple[int, ...]) -> float:
        """Return p(last word | the words before it)."""
        lower = self.probability(gram[1:]) if len(gram) > 1 else 1.0 / self.words
        n = len(gram)
        total = self.total[n].get(gram[:-1], 0)
        if not total:
            return lower
        count = self.counts[n].get(gram, 0)
        kept = max(count - self.discount[n][min(count, 3) - 1], 0.0) if count else 0.0
        return (kept + self.mass[n][gram[:-1]] * lower) / total

    def perplexity(self, sentences: list[list[int]]) -> float:
        """Return the perplexity over words and ends."""
        logs, n = 0.0, 0
        for s in sentences:
            padded = [lm.START] * (self.order - 2) + s
            for i in range(self.order - 1, len(padded)):
                logs += math.log(self.probability(tuple(padded[i - self.order + 1 : i + 1])))
                n += 1
        return math.exp(-logs / n)


def fluency(model: lm.LanguageModel, sentences: list[list[str]]) -> np.ndarray:
    """Return the measures of captions of one sentence each."""
    return model.fluency([[s] for s in sentences])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default=None)
    parser.add_argument("--train", type=int, default=414_113, help="captions for the 5-gram")
    parser.add_argument("--test", type=int, default=10_000, help="held-out captions")
    args = parser.parse_args()
    model = lm.load(args.model)
    cut = tokenizers.get(model.tokenizer)
    # validation captions number 20, 60, 100, ...: the trainer chose its epoch on 0, 40, 80, ...
    test = [cut(t) for t in coco_captions("val")[20::40]][: args.test]
    test = [t for t in test if len(t) >= 4]
    coded = [model.encode(t) for t in test]
    rows = model._run(coded)
    network = math.exp(-sum(r.sum() for r in rows) / sum(map(len, rows)))
    unknown = np.mean([w not in model.number for t in test for w in t])
    print(
        f"{len(test):,} held-out captions; {len(model.vocabulary):,} words, "
        f"{100 * unknown:.2f} % of the held-out words unknown"
    )
    print(f"perplexity of the network     {network:.2f}", flush=True)
    rng = random.Random(0)
    mixed = []
    for t in test:
        other = t[:]
        while other == t and len(set(t)) > 1:
            rng.shuffle(other)
        mixed.append(other)
    plain = fluency(model, test)[:, 0]
    print(
        f"prefers the caption to its words shuffled          "
        f"{100 * np.mean(plain > fluency(model, mixed)[:, 0]):.2f} %"
    )
    with_article = [(t, [i for i, w in enumerate(t) if w in ("a", "an", "the")]) for t in test]
    with_article = [(t, at) for t, at in with_article if at]
    doubled = []
    for t, at in with_article:
        i = rng.choice(at)
        doubled.append(t[: i + 1] + t[i:])
    right = (fluency(model, [t for t, _ in with_article]) > fluency(model, doubled))[:, 0]
    print(
        f"prefers the caption to one with an article doubled {100 * right.mean():.2f} % "
        f"(of {len(with_article):,} with an article)",
        flush=True,
    )
    train = [model.encode(cut(t)) for t in coco_captions("train")[: args.train]]
    kneser = KneserNey(train, 5, len(model.vocabulary))
    found = kneser.perplexity(coded)
    print(f"perplexity of a Kneser-Ney 5-gram on {len(train):,} captions: {found:.2f}")


if __name__ == "__main__":
    main()
