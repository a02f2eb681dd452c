"""noun_support on nocaps-FOIL: does it prefer the true caption, and does it name the wrong word?

    python benchmarks/noun_support.py --data ../shared/data

Per domain: the share of pairs whose true caption scores higher (a tie is wrong), and among these
the share in which the least supported noun of the foil is the word that was put in. Then captions
per second once the sentences are parsed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from captious import registry
from captious.judgements import sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--metric", default="noun_support")
    args = parser.parse_args()
    judged = sets.load_ratings("nocaps-foil", args.data)
    words = pq.read_table(args.data / "nocaps_foil/nocaps_val_foil.parquet", columns=["by"])
    metric = registry.create(args.metric)
    metric.stats(judged.samples, None)  # parses
    judged.samples.pool.forget()
    began, cpu = time.perf_counter(), time.process_time()
    scores = metric.scores(metric.stats(judged.samples, None).rows)[:, 0]
    took, busy = time.perf_counter() - began, time.process_time() - cpu
    right, wrong = scores[0::2], scores[1::2]
    hits = right > wrong
    named = np.zeros(len(hits), bool)
    for at in np.flatnonzero(hits).tolist():
        least = metric.explain(judged.samples[2 * at + 1], None).data["least"]
        by = words["by"][at].as_py().lower().split()
        named[at] = any(least == word or word.startswith(least) for word in by)
    print("| domain | pairs | prefers the true caption | names the wrong word |\n|---|---|---|---|")
    domains = [*sorted(set(judged.groups.tolist())), "all"]
    for domain in domains:
        part = np.ones(len(hits), bool) if domain == "all" else judged.groups == domain
        share, found = hits[part].mean(), named[part & hits].mean()
        print(f"| {domain} | {part.sum()} | {share:.1%} | {found:.1%} |")
    count = len(judged.samples)
    print(f"\n{count / took:,.0f} captions/s after parsing ({count / busy:,.0f} per second of CPU)")


if __name__ == "__main__":
    main()
