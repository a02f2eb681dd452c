"""Metrics and people's ratings of COCO photographs with captions of other photographs (CxC).

    python benchmarks/cxc_halves.py --ratings sits_val.parquet --captions captions_val2014.json \
        --regions REGIONS --half A [--metrics fit scan tiger]

Tau-b over the rows whose caption was written for another photograph, for every column. The set is
cut by photograph, so that choices never see what is reported: half A is for choices, half B for the
report, and a photograph belongs to A if the first hexadecimal digit of the sha256 of its number is
even. References are the photograph's own captions. Rows without regions are left out and counted.
``--together`` adds the mean of the named columns, each divided by its deviation.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import kendalltau

from captious import registry
from captious.engine import evidence
from captious.evidence.region_formats import open_regions
from captious.judgements.sets.cxc import half
from captious.types import CaptionSet


def read(
    ratings: Path, captions: Path, regions: Path, which: str
) -> tuple[CaptionSet, np.ndarray, int]:
    """Rows of one half as samples, their ratings, and how many rows have no regions."""
    references: dict[int, list[str]] = {}
    for one in json.loads(captions.read_text(encoding="utf-8"))["annotations"]:
        references.setdefault(one["image_id"], []).append(one["caption"].strip())
    store = open_regions(regions)
    rows = [
        row
        for row in pq.read_table(ratings).to_pylist()
        if row["caption_image_id"] != row["image_id"] and half(row["image_id"]) == which
    ]
    known = [row for row in rows if f"{row['image_id']:012d}.jpg" in store]
    samples = CaptionSet.build(
        [row["caption"] for row in known],
        [references[row["image_id"]] for row in known],
        images=[f"{row['image_id']:012d}.jpg" for row in known],
    )
    return samples, np.array([row["score"] for row in known]), len(rows) - len(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--half", choices=("A", "B"), default="A")
    parser.add_argument("--metrics", nargs="+", default=["fit", "scan", "tiger"])
    parser.add_argument("--objects", type=Path, nargs="+", default=[], help="labels for vifidel")
    parser.add_argument("--together", nargs="+", default=[], metavar="COLUMN")
    args = parser.parse_args()
    samples, people, absent = read(args.ratings, args.captions, args.regions, args.half)
    print(f"CxC half {args.half}: {len(samples)} rows, {absent} more without regions\n")
    print("| column | tau-b |\n|---|---|")
    found: dict[str, np.ndarray] = {}
    for name in args.metrics:
        metric = registry.create(name)
        began = time.perf_counter()
        seen = evidence.given(samples, args.objects, args.regions)
        scores = metric.scores(metric.stats(seen, metric.prepare(seen)).rows)
        sys.stderr.write(f"{name}: {time.perf_counter() - began:.1f} s\n")
        for place, column in enumerate(metric.columns):
            found[column.name] = scores[:, place]
            tau = kendalltau(scores[:, place], people, nan_policy="omit").statistic
            print(f"| {column.name} | {tau:.4f} |", flush=True)
    if args.together:
        parts = [found[name] / np.nanstd(found[name]) for name in args.together]
        tau = kendalltau(np.mean(parts, axis=0), people, nan_policy="omit").statistic
        print(f"| {' + '.join(args.together)} | {tau:.4f} |")


if __name__ == "__main__":
    main()
