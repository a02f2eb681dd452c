"""What long captions cost: SPICE, METEOR and the other metrics of words, from 10 to 500 words.

    python benchmarks/long_captions.py --data ../shared/data [--metrics spice ...] [--rows 20]

A caption of N words is made of COCO captions of different photographs, one after the other, and so
are its five references; half of the sentences of a caption stand in some reference. Printed are
milliseconds of processor time per caption (other jobs do not count), after one caption that loads
models and tables.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from captious import registry, settings
from captious.reading import read_parquet
from captious.types import CaptionSet

LENGTHS = (10, 50, 100, 250, 500)
METRICS = ("meteor", "spice", "scene_match", "noun_support", "cider_d", "rouge_l", "wmd")
REFERENCES = 5


def text(sentences: list[str], words: int) -> str:
    """Return sentences one after the other, cut to a number of words."""
    return " ".join(" . ".join(sentences).split()[:words])


def long_captions(captions: list[str], words: int, rows: int, seed: int) -> CaptionSet:
    """Return captions and references of this many words, half of them about the same."""
    rng = np.random.default_rng(seed)
    count = words // 5 + 1  # more sentences than fit
    made, references = [], []
    for _ in range(rows):
        said = [captions[i].strip(" .") for i in rng.integers(len(captions), size=count)]
        made.append(text(said, words))
        references.append([
            text([s if rng.random() < 0.5 else captions[rng.integers(len(captions))].strip(" .")
                  for s in said], words)
            for _ in range(REFERENCES)
        ])  # fmt: skip
    return CaptionSet.build(made, references)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--metrics", nargs="+", default=METRICS)
    parser.add_argument("--rows", type=int, default=20)
    args = parser.parse_args()
    table = read_parquet(args.data / "coco/val2014_captions.parquet").to_pydict()
    captions = [texts[0] for texts in table["captions"][:5000]]
    print("| metric | " + " | ".join(f"{n} words" for n in LENGTHS) + " |")
    print("|---" * (len(LENGTHS) + 1) + "|")
    for name in args.metrics:
        metric = registry.create(name)
        cells = []
        first = long_captions(captions, 10, 2, seed=0)
        metric.stats(first, metric.prepare(first))
        for words in LENGTHS:
            samples = long_captions(captions, words, args.rows, seed=words)
            with settings.use(threads=1):
                context = metric.prepare(samples)
                began = time.process_time()
                metric.stats(samples, context)
            cells.append(f"{1000 * (time.process_time() - began) / args.rows:.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
