"""Does it help to read an unknown compound as the two words it is made of? Asked without people.

    python benchmarks/compounds.py --data DATA --regions REGIONS

DATA holds ``flickr8k/``; REGIONS is a store of its photographs made by ``captious regions``. Words
that the shipped SCAN knows and that are made of two others (*snowboard*) are hidden, one at a time,
in captions of the 1,000 dev photographs, none of which anybody judged; the own photograph is looked
for among every fourth of the others. The caption is then
read in three ways: with the word as it is, as an unknown one (the original's rule), and as its two
parts (``Vocabulary.parts``). Which way finds the caption's own photograph sooner?
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from captious import assets
from captious.evidence.region_formats import open_regions
from captious.models import scan
from captious.text import treebank
from captious.training.scan_run import Sources, gather, pad, read_captions


def parts_of(words: scan.Vocabulary) -> dict[str, list[str]]:
    """Return the known words that would be read as two if they were not known."""
    found = {}
    others = dict(words.ids)
    for word in words.ids:
        if word.isalpha() and len(word) > 4:
            del others[word]
            read = scan.Vocabulary(others, words.frequent).parts(word)
            others[word] = words.ids[word]
            if read != [word]:
                found[word] = read
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--regions", type=Path, required=True)
    args = parser.parse_args()
    folder = args.data / "flickr8k"
    captions, splits = read_captions(
        Sources(
            captions=folder / "Flickr8k.token.txt",
            regions=args.regions,
            train=folder / "Flickr_8k.trainImages.txt",
            dev=folder / "Flickr_8k.devImages.txt",
            teacher=None,
        )
    )
    model, words = scan.load(assets.resolve("scan-coco"))
    model.eval()
    split = parts_of(words)
    names, store = splits["dev"], open_regions(args.regions)
    with torch.inference_mode():
        regions = model.image(gather(store, names).float())
    rows: list[tuple[int, list[str], int]] = []
    for image, name in enumerate(names):
        for text in captions[name]:
            tokens = treebank.split(text.lower())
            rows += [(image, tokens, at) for at, word in enumerate(tokens) if word in split]
    kinds = sorted({tokens[at] for _, tokens, at in rows})
    print(f"{len(rows):,} captions with {len(kinds):,} such words: {', '.join(kinds[:12])} ...")
    ways = {"known": [], "unknown": [], "parts": []}
    with torch.inference_mode():
        for image, tokens, at in rows:
            for way, middle in zip(ways, ([tokens[at]], ["<unk>"], split[tokens[at]]), strict=True):
                ids = words.encode([*tokens[:at], *middle, *tokens[at + 1 :]])
                block, lengths = pad([ids])
                scores = model.similarity(
                    regions[[image, *range(0, len(names), 4)]], model.text(block, lengths), lengths
                )[:, 0]
                ways[way].append(int((scores > scores[0]).sum()) + 1)
    ranks = {way: np.array(found, float) for way, found in ways.items()}
    for way, found in ranks.items():
        recalls = " ".join(f"R@{k} {100 * (found <= k).mean():.1f}" for k in (1, 5, 10))
        print(f"{way:8} mean 1/rank {(1 / found).mean():.4f}  {recalls}")
    gain = 1 / ranks["parts"] - 1 / ranks["unknown"]
    rng = np.random.default_rng(0)
    photographs = np.array([image for image, _, _ in rows])
    units, place = np.unique(photographs, return_inverse=True)
    sums = np.bincount(place, gain)
    flips = rng.choice((-1.0, 1.0), (10_000, len(units))) @ sums
    p = (1 + (np.abs(flips) >= abs(sums.sum())).sum()) / 10_001
    print(f"parts - unknown: {gain.mean():+.4f} of 1/rank, p {p:.4f} (signs flipped by photograph)")


if __name__ == "__main__":
    main()
