"""TIGEr and people: Flickr8k-Expert (tau-c, rho) and PASCAL-50S (pair accuracy), every column.

    python benchmarks/tiger_human.py --data DATA --regions FLICKR8K_REGIONS \
        --pascal-regions PASCAL_REGIONS [--metrics tiger bleu rouge_l meteor cider_d spice]

DATA holds ``flickr8k/`` and ``pascal50s/`` as distributed. Flickr8k-Expert: 5,664 rows (those whose
caption was written for the rated photograph are dropped), three ratings as separate observations.
PASCAL-50S: 4,000 pairs, 5 references, a tie is wrong. The values of the paper stand beside ours.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from captious import registry
from captious.engine import evidence
from captious.types import CaptionSet

PAPER = {
    "tiger": ((0.493, 0.606), 80.70),
    "rrs": ((0.418, 0.521), None),
    "wds": ((0.464, 0.572), None),
    "bleu_1": ((0.323, 0.404), 74.08),
    "bleu_4": ((0.138, 0.387), 72.88),
    "rouge_l": ((0.323, 0.404), 74.05),
    "meteor": ((0.418, 0.519), 77.98),
    "cider_d": ((0.439, 0.542), 76.75),
    "spice": ((0.449, 0.596), 69.55),
}


def flickr8k(folder: Path) -> tuple[CaptionSet, np.ndarray]:
    captions: dict[str, list[str]] = {}
    by_id: dict[str, str] = {}
    for line in (folder / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        name, text = line.split("\t")
        captions.setdefault(name.split("#")[0], []).append(text)
        by_id[name] = text
    rows = []
    for line in (folder / "ExpertAnnotations.txt").read_text().splitlines():
        image, caption, *ratings = line.split("\t")
        if caption.split("#")[0] != image:
            rows.append((image, by_id[caption], [int(one) for one in ratings]))
    samples = CaptionSet.build(
        [row[1] for row in rows],
        [captions[row[0]] for row in rows],
        images=[row[0] for row in rows],
    )
    return samples, np.array([row[2] for row in rows])


def pascal(folder: Path) -> tuple[CaptionSet, np.ndarray, list[str]]:
    data = json.loads((folder / "consensus_5refs.json").read_text(encoding="utf-8"))
    captions, references, images, better, kinds = [], [], [], [], []
    for kind, pairs in data.items():
        for pair in pairs:
            captions += pair["captions"]
            references += [pair["references"]] * 2
            images += [Path(pair["image"]).name] * 2
            better.append(pair["label"])
            kinds.append(kind)
    return CaptionSet.build(captions, references, images=images), np.array(better), kinds


def columns(names: list[str], samples: CaptionSet, regions: Path) -> Iterator[tuple[str, Any]]:
    for name in names:
        metric = registry.create(name)
        if metric.missing():
            sys.stderr.write(f"{name}: {metric.missing()[0]}\n")
            continue
        began = time.perf_counter()
        seen = evidence.given(samples, regions=regions)
        scores = metric.scores(metric.stats(seen, metric.prepare(seen)).rows)
        sys.stderr.write(f"{name}: {time.perf_counter() - began:.1f} s\n")
        for place, column in enumerate(metric.columns):
            label = column.name + (name[name.index("(") :] if "(" in name else "")
            yield label, scores[:, place]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--pascal-regions", type=Path)
    parser.add_argument(
        "--metrics", nargs="+",
        default=["tiger", "tiger(clip=True)", "tiger(profile='paper')", "bleu", "rouge_l", "meteor",
                 "cider_d", "spice"],
    )  # fmt: skip
    args = parser.parse_args()
    samples, ratings = flickr8k(args.data / "flickr8k")
    print(f"Flickr8k-Expert: {len(samples)} rows, {ratings.size} observations\n")
    print("| column | tau-c | rho | paper tau | paper rho |\n|---|---|---|---|---|")
    people = ratings.reshape(-1)
    for name, values in columns(args.metrics, samples, args.regions):
        scores = np.repeat(values, ratings.shape[1])
        tau = kendalltau(scores, people, variant="c").statistic
        rho = spearmanr(scores, people).statistic
        paper = PAPER.get(name, ((None, None), None))[0]
        shown = " | ".join("" if one is None else f"{one:.3f}" for one in paper)
        print(f"| {name} | {tau:.4f} | {rho:.4f} | {shown} |", flush=True)
    if args.pascal_regions is None:
        return
    samples, better, kinds = pascal(args.data / "pascal50s")
    print(f"\nPASCAL-50S: {len(better)} pairs, 5 references, strict\n")
    names = ("HC", "HI", "HM", "MM")
    print("| column | HC | HI | HM | MM | mean | paper |\n|---|---|---|---|---|---|---|")
    for name, values in columns(args.metrics, samples, args.pascal_regions):
        pairs = values.reshape(-1, 2)
        won = pairs[np.arange(len(better)), better] > pairs[np.arange(len(better)), 1 - better]
        each = [100 * won[np.array(kinds) == kind].mean() for kind in names]
        paper = PAPER.get(name, ((None, None), None))[1]
        shown = " | ".join(f"{one:.1f}" for one in each)
        print(f"| {name} | {shown} | {np.mean(each):.2f} | {paper or ''} |", flush=True)


if __name__ == "__main__":
    main()
