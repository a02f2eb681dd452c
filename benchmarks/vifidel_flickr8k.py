"""VIFIDEL and WMD on Flickr8k-Expert: Stuart's tau-c with the three ratings of each caption.

    captious detect ../shared/data/flickr8k/images -o flickr8k_objects.parquet   # once
    python benchmarks/vifidel_flickr8k.py --objects flickr8k_objects.parquet

5,664 captions (those that are references of their image are left out), three ratings each as
separate observations. The set has no object labels of its own: the detector gives them; captions
whose image has none are left out for VIFIDEL; their number is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import kendalltau

from captious.evidence.objects import ObjectStore
from captious.metrics.vifidel import Vifidel
from captious.metrics.wmd import Wmd
from captious.text.vectors import DEFAULT, open_vectors
from captious.types import CaptionSet

SHARED = Path(__file__).parents[1] / ".." / "shared"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=Path, required=True)
    parser.add_argument("--threshold", type=float, default=0.3, help="least confidence")
    parser.add_argument("--vectors", default=DEFAULT, help="name or path of word vectors")
    options = parser.parse_args()
    store = ObjectStore.read(options.objects, threshold=options.threshold)
    table = pq.read_table(
        SHARED / "golden/classic/flickr8k_expert.parquet",
        columns=["image", "cand", "refs", "expert", "in_refs"],
    )
    rows = [r for r in table.to_pylist() if not r["in_refs"]]
    samples = CaptionSet.build(
        [r["cand"] for r in rows],
        [r["refs"] for r in rows],
        objects=[store.labels(r["image"]) for r in rows],
    )
    ratings = np.array([r["expert"] for r in rows])
    print(f"{len(rows)} captions, vectors {open_vectors(options.vectors).signature}")
    metrics = {
        "VIFIDEL, no references": Vifidel(vectors=options.vectors, references=0),
        "VIFIDEL, 5 references": Vifidel(vectors=options.vectors),
        "WMD best of 5": Wmd(vectors=options.vectors),
    }
    for name, metric in metrics.items():
        scores = metric.stats(samples, None).rows[:, 0]
        known = ~np.isnan(scores)
        tau = kendalltau(np.repeat(scores[known], 3), ratings[known].ravel(), variant="c")
        print(f"{name:<24} tau-c {tau.statistic:.3f}   ({(~known).sum()} captions left out)")


if __name__ == "__main__":
    main()
