"""Which labels should VIFIDEL read? Words and ImageNet classes from region features, united.

    python benchmarks/vifidel_labels.py --regions REGIONS --captions CAPTIONS.txt --images LIST
    python benchmarks/vifidel_labels.py --regions REGIONS --ratings sits_val.parquet \
        --annotations captions_val2014.json --half A

The first command needs no judgement: each photograph of LIST gets four captions of falling
relevance (its own, one of the five nearest photographs by MiniLM, one of the twentieth to sixtieth,
one of the rest), and tau-c with these four grades is printed; the references are its other four
captions. The second is tau-b with people's ratings in one half of CxC (half A is for choices). The
object detector is not among the sources here: it reads pixels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from cxc_halves import read
from scipy.stats import kendalltau

from captious.evidence import imagenet_detector, word_detector
from captious.evidence.region_formats import open_regions
from captious.metrics.vifidel import Vifidel
from captious.training import scan_run
from captious.types import CaptionSet

MIXES = [(0.2, None), (0.15, None), (0.1, None), (0.2, 0.3), (0.2, 0.5), (0.2, 0.7), (None, 0.5)]


def graded(captions, names, seed=0):
    """Captions, references, image and grade of every row."""
    texts = [captions[name][:5] for name in names]
    means = scan_run.sentence_vectors("minilm", texts).float().mean(1)
    unit = torch.nn.functional.normalize(means, dim=-1)
    order = (unit @ unit.T).fill_diagonal_(9.0).argsort(1, descending=True)
    draw = np.random.default_rng(seed)
    rows = []
    for image, name in enumerate(names):
        own = int(draw.integers(len(texts[image])))
        references = [text for k, text in enumerate(texts[image]) if k != own]
        rows.append((texts[image][own], references, name, 3))
        for grade, (low, high) in ((2, (1, 6)), (1, (20, 60)), (0, (300, len(names)))):
            other = int(
                order[image, int(draw.integers(min(low, len(names) - 1), min(high, len(names))))]
            )
            text = texts[other][int(draw.integers(len(texts[other])))]
            rows.append((text, references, name, grade))
    return [list(column) for column in zip(*rows, strict=True)]


def labels_of(store, names):
    """Probability of every word of both detectors, by image."""
    words, classes = word_detector.load(), imagenet_detector.load()
    seen = {}
    for name in names:
        regions = store[name]
        seen[name] = (
            {d.label: d.score for d in words.words(regions, 0.05, least=1)},
            {d.label: d.score for d in classes.words(regions, 0.05)},
        )
    return seen


def pick(seen, word, imagenet):
    found = []
    if word is not None:
        best = next(iter(seen[0]))
        found += [label for label, p in seen[0].items() if p >= word or label == best]
    if imagenet is not None:
        found += [label for label, p in seen[1].items() if p >= imagenet]
    return tuple(dict.fromkeys(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--ratings", type=Path)
    parser.add_argument("--annotations", type=Path)
    parser.add_argument("--half", choices=("A", "B"), default="A")
    args = parser.parse_args()
    store = open_regions(args.regions)
    if args.ratings is not None:
        rated, people, absent = read(args.ratings, args.annotations, args.regions, args.half)
        texts, images = rated.captions(), rated.images.tolist()
        references = [list(sample.references) for sample in rated]
        what, kind = f"CxC half {args.half}, {absent} rows without regions", "b"
    else:
        lines = args.images.read_text("utf-8").splitlines()
        listed = [line.rpartition("\t")[2].strip() for line in lines]
        names = [name for name in listed if name in store][: args.count]
        texts, references, images, people = graded(scan_run.read_lines(args.captions), names)
        what, kind = f"{len(names)} photographs, four grades", "c"
    seen = labels_of(store, dict.fromkeys(images))
    print(f"{what}; {len(texts)} rows; tau-{kind} without / with references")
    for word, imagenet in MIXES:
        labels = {name: pick(mine, word, imagenet) for name, mine in seen.items()}
        samples = CaptionSet.build(texts, references, objects=[labels[name] for name in images])
        taus = []
        for metric in (Vifidel(references=0, no_objects="zero"), Vifidel(no_objects="zero")):
            scores = metric.stats(samples, None).rows[:, 0]
            taus.append(kendalltau(scores, people, variant=kind).statistic)
        many = np.mean([len(some) for some in labels.values()])
        print(
            f"words {word or '-'}, imagenet {imagenet or '-'}: {taus[0]:.4f} / {taus[1]:.4f}; "
            f"{many:.1f} labels",
            flush=True,
        )


if __name__ == "__main__":
    main()
