"""Agreement with people: what a thousand bootstrap draws and the whole table cost.

    python benchmarks/meta.py --data FOLDER [--metrics bleu,rouge_l,...] [--cache FOLDER]

1. Kendall's tau on Flickr8k-Expert (16,992 observations, 1,000 images): our image-wise bootstrap
   against scipy's ``kendalltau`` on the repeated rows, in one run. The loop is timed on a few
   resamples and scaled; both give the same numbers (checked).
2. The whole Flickr8k-Expert table, twice, each time in a process of its own and with every score
   computed anew: the first run fills the caches on disk (tables, parses, vectors of texts), the
   second has them. Processor time and time on the clock, start of Python included; the first does
   not depend on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from captious import registry
from captious.judgements import protocols, sets
from captious.meta import agreement
from captious.meta.evaluate import evaluate
from captious.meta.scoring import Scorer
from captious.metrics.base import Need
from captious.papers.analyses import usable
from captious.statistics import bootstrap, significance

LOOP = 20
DRAWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--metrics", help="default: every metric that needs references only")
    parser.add_argument("--cache", type=Path, help="cache folder (default: the usual one)")
    parser.add_argument("--table", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cache is not None:
        os.environ["CAPTIOUS_CACHE"] = str(args.cache)
    os.environ.setdefault("CAPTIOUS_EMBEDDING_CACHE", "4")
    if args.metrics:
        specs = args.metrics.split(",")
    else:
        specs = [s for s in usable()[0] if registry.create(s).needs == {Need.REFERENCES}]
    judged = sets.load_ratings("flickr8k-expert", args.data)
    if args.table:
        scorer = Scorer(specs, store=False)
        found = evaluate(judged, protocols.get("flickr8k-expert/tau-c-pooled"), scorer)
        print(sum(not r.reason for r in found.results))
        return
    bootstrap_speed(judged.without_own())
    print(f"\nFlickr8k-Expert, all text metrics: {', '.join(specs)}")
    command = [sys.executable, __file__, "--data", str(args.data), "--table"]
    for state in ("first run", "warm caches"):
        started, used = time.perf_counter(), _children()
        columns = subprocess.run(
            [*command, "--metrics", ",".join(specs)], check=True, capture_output=True, text=True
        ).stdout.strip()
        spent, busy = time.perf_counter() - started, _children() - used
        print(
            f"{state}: {columns} columns with intervals: {busy:.1f} s of processor time, "
            f"{spent:.1f} s on the clock"
        )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bootstrap_speed(judged) -> None:
    scores = Scorer(["rouge_l"], store=False)(judged.samples)["rouge_l"].values
    rows, y = judged.judged.rows, judged.judged.values
    units, size = agreement.unit_numbers(judged.units)
    data = significance.Observations(scores[rows], y, units[rows], size)
    weights = bootstrap.all_draws(size, DRAWS, 1)
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
