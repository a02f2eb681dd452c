"""Retrieval by `fit` or SCAN: every caption looks for its photograph among many, and back.

    python benchmarks/retrieval.py fit-coco --regions REGIONS --captions CAPTIONS.txt \
        --images LIST [LIST ...] --count 1000 5000 [--each 1]

CAPTIONS.txt has IMAGE#N TAB CAPTION; the lists name photographs, one per line (behind the last tab
of a line), the first ``--count`` of all lists are used. SCAN compares every pair of photograph and
caption, 125 million among 5,000 photographs with five captions each: ``--each 1`` takes one caption
per photograph. Printed are R@1, 5, 10 in percent of captions found by their photograph, and of
photographs found by a caption, and the processor time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from captious import assets
from captious.evidence.region_formats import open_regions
from captious.models import fit, scan
from captious.training import fit as fit_training
from captious.training import scan_run


def fit_recalls(model, store, names, texts):
    owner = torch.tensor([row for row, own in enumerate(texts) for _ in own])
    images = torch.cat(
        [model.images([store[n] for n in names[at : at + 500]]) for at in range(0, len(names), 500)]
    )
    return fit_training.recalls(images, model.texts([text for own in texts for text in own]), owner)


def scan_recalls(model, store, names, texts):
    network, words = model
    return scan_run.recalls(network, scan_run.gather(store, names), texts, words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="fit-coco, scan-coco, or a folder of `captious train`")
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, nargs="+", required=True)
    parser.add_argument("--count", type=int, nargs="+", default=[1000])
    parser.add_argument("--each", type=int, default=5, help="captions per photograph (default: 5)")
    args = parser.parse_args()
    store = open_regions(args.regions)
    listed = [line.rpartition("\t")[2].strip()
              for path in args.images for line in path.read_text("utf-8").splitlines()]  # fmt: skip
    listed = [name for name in dict.fromkeys(listed) if name in store]
    captions = scan_run.read_lines(args.captions)
    folder = assets.resolve(args.model) if args.model in assets.known() else Path(args.model)
    if (folder / "vocab.json").exists():
        find, model = scan_recalls, scan.load(folder)
    else:
        find, model = fit_recalls, fit.load(args.model)
    for count in args.count:
        names = listed[:count]
        if len(names) < count:
            parser.error(f"only {len(names)} of {count} photographs have region features")
        texts = [captions[name][: args.each] for name in names]
        busy = time.process_time()
        found = find(model, store, names, texts)
        print(
            f"{args.model}: {count} photographs, {sum(map(len, texts))} captions: "
            + " ".join(f"{key} {value}" for key, value in found.items())
            + f"; {time.process_time() - busy:.0f} s of processor",
            flush=True,
        )


if __name__ == "__main__":
    main()
