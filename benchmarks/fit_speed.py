"""Speed of fit: photographs and captions per second, and pairs once both have their vectors.

    python benchmarks/fit_speed.py --regions REGIONS --captions CAPTIONS.txt [--model fit-coco]

Regions are read from the store (see benchmarks/regions_speed.py for making them). Processor time
stands beside wall time: on a busy machine trust the former.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

from captious.evidence.region_formats import open_regions
from captious.models import fit


def measure(what: str, count: int, work: Callable[[], object]) -> None:
    wall, busy = time.perf_counter(), time.process_time()
    work()
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    print(f"{what}: {count / wall:,.0f}/s, {1000 * busy / count:.3f} ms of processor each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True, help="IMAGE#N TAB CAPTION")
    parser.add_argument("--model", default=fit.DEFAULT)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    model, store = fit.load(args.model), open_regions(args.regions)
    lines = args.captions.read_text(encoding="utf-8").splitlines()[: args.count]
    texts = [line.partition("\t")[2] for line in lines]
    sets = [store[name] for name in list(store.ids())[: args.count]]
    model.texts(texts[:8])
    model.images(sets[:8])
    print(f"{args.model}, {torch.get_num_threads()} threads")
    measure("photographs (regions to vector)", len(sets), lambda: model.images(sets))
    measure("captions (text to vector)", len(texts), lambda: model.texts(texts))
    images, words = model.images(sets), model.texts(texts)
    measure("pairs (both vectors known)", len(sets) * len(texts), lambda: images @ words.T)


if __name__ == "__main__":
    main()
