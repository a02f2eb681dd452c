"""Agreement with people: what a thousand bootstrap draws and the whole table cost.

    python benchmarks/meta.py --data FOLDER [--metrics bleu,rouge_l,...]

1. Kendall's tau on Flickr8k-Expert (16,992 observations, 1,000 images): our image-wise bootstrap
   against scipy's ``kendalltau`` on the repeated rows, in one run. The loop is timed on a few
   resamples and scaled; both give the same numbers (checked).
2. The whole Flickr8k-Expert table: the first run fills the caches of the metrics, the second has
   them; scores themselves are computed anew both times.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from captious.meta import agreement, protocols, sets, significance
from captious.meta.analyses import usable
from captious.meta.evaluate import evaluate
from captious.meta.scoring import Scorer
from captious.metrics.base import Need

LOOP = 20
DRAWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--metrics", help="default: every metric that needs references only")
    args = parser.parse_args()
    judged = sets.load_ratings("flickr8k-expert", args.data)
    bootstrap(judged.without_own())
    if args.metrics:
        specs = args.metrics.split(",")
    else:
        from captious import registry

        specs = [s for s in usable()[0] if registry.create(s).needs == {Need.REFERENCES}]
    print(f"\nFlickr8k-Expert, all text metrics: {', '.join(specs)}")
    for state in ("first run", "warm caches"):
        started = time.perf_counter()
        found = evaluate(
            judged, protocols.get("flickr8k-expert/tau-c-pooled"), Scorer(specs, store=False)
        )
        spent = time.perf_counter() - started
        print(f"{state}: {len(found.results)} columns with intervals in {spent:.1f} s")


def bootstrap(judged) -> None:
    scores = Scorer(["rouge_l"], store=False)(judged.samples)["rouge_l"].values
    rows, y = judged.judged.rows, judged.judged.values
    units, size = agreement.unit_numbers(judged.units)
    data = significance.Observations(scores[rows], y, units[rows], size)
    weights = significance.draws(size, DRAWS, 1)
    for measure in ("tau-b", "tau-c"):
        started = time.perf_counter()
        ours = significance.resampled(measure, data, weights)
        mine = time.perf_counter() - started
        started = time.perf_counter()
        theirs = []
        for w in weights[:LOOP]:
            drawn = np.repeat(np.arange(len(y)), w[data.units].astype(int))
            theirs.append(kendalltau(data.x[drawn], data.y[drawn], variant=measure[-1]).statistic)
        loop = (time.perf_counter() - started) * DRAWS / LOOP
        gap = float(np.abs(ours[:LOOP] - theirs).max())
        print(
            f"{measure}: {DRAWS} draws in {mine:.2f} s, scipy in a loop {loop:.1f} s: "
            f"{loop / mine:.0f} times faster, largest difference {gap:.1e}"
        )


if __name__ == "__main__":
    main()
