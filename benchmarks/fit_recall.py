"""Retrieval of fit: every caption finds its photograph among many, and back.

    python benchmarks/fit_recall.py --regions REGIONS --captions CAPTIONS.txt --images LIST \
        [--model fit-coco] [--count 1000]

CAPTIONS.txt has IMAGE#N TAB CAPTION; LIST names the photographs, the first ``--count`` are used.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from captious.evidence.region_formats import open_regions
from captious.models import fit
from captious.training.fit import recalls
from captious.training.scan_run import read_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--model", default=fit.DEFAULT)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    model, store = fit.load(args.model), open_regions(args.regions)
    names = args.images.read_text(encoding="utf-8").split()[: args.count]
    captions = read_lines(args.captions)
    texts = [text for name in names for text in captions[name]]
    owner = torch.tensor([row for row, name in enumerate(names) for _ in captions[name]])
    found = recalls(model.images([store[name] for name in names]), model.texts(texts), owner)
    print(f"{args.model}: {len(names)} photographs, {len(texts)} captions")
    print(" ".join(f"{key} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
