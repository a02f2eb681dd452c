"""Do composites punish rich captions? Our own long descriptions, the demo, and Flickr30k.

    python benchmarks/rich_captions.py [--flickr30k captions.parquet]

A caption's rank is its place, from 0 to 1, among all captions that are scored together: those of
the demo (good, vague and wrong), descriptions and plain captions; for Flickr30k those of all
photographs. A rich caption may lose at most a tenth of its rank to a plain caption of the same
photograph. Plain captions of the demo are one reference each, judged against the other four. For
Flickr30k the longest of the five captions of a photograph is compared with the shortest, against
the other three; there are no photographs, so only ``captious_ref(image=False)`` is asked. They are
of the test split, which the language model never read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from captious import demo, load
from captious.engine.run import run
from captious.reading import read_parquet
from captious.types import CaptionSet, Floats

RICH = Path(__file__).parent.parent / "tests/rich_captions.json"
METRICS = ("captious_ref", "captious_ref(image=False)", "captious_free")


def ranks(scores: Floats) -> Floats:
    """Return the place of every score among all, from 0 to 1."""
    return np.argsort(np.argsort(scores, kind="stable")) / (len(scores) - 1)


def demo_set() -> tuple[CaptionSet, np.ndarray]:
    """Return captions of the demo, long descriptions and one plain reference per photograph."""
    given = load(demo.captions_file(), demo.references_file(), images=demo.folder() / "photos")
    references: dict[str, list[str]] = {}
    paths: dict[str, str] = {}
    for sample in given:
        name = Path(str(sample.image)).name
        references[name], paths[name] = list(sample.references), str(sample.image)
    rows = [(s.caption, Path(str(s.image)).name, s.system) for s in given]
    rows += [(r["caption"], r["image"], "rich") for r in json.loads(RICH.read_text())]
    rows += [(texts[0], name, "plain") for name, texts in references.items()]
    samples = CaptionSet.build(
        [caption for caption, _, _ in rows],
        [references[name][1:] for _, name, _ in rows],
        images=[paths[name] for _, name, _ in rows],
    )
    return samples, np.array([kind for *_, kind in rows])


def lost(rank: Floats, kinds: np.ndarray, images: np.ndarray, rich: str) -> Floats:
    """Return what every rich caption loses to the plain caption of its photograph."""
    plain = {i: r for i, r in zip(images[kinds == "plain"], rank[kinds == "plain"], strict=True)}
    mine = kinds == rich
    return np.array([plain[i] - r for i, r in zip(images[mine], rank[mine], strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flickr30k", type=Path)
    args = parser.parse_args()
    samples, kinds = demo_set()
    table = run(samples, METRICS, resamples=0)
    print(
        "| metric | good | vague | wrong | rich | plain | rich that lose over .1 | good that do |"
    )
    print("|---" * 8 + "|")
    for name, scores in table.values.items():
        means = [
            f"{scores[kinds == k].mean():.3f}" for k in ("good", "vague", "wrong", "rich", "plain")
        ]
        rank = ranks(scores)
        over = [
            f"{(lost(rank, kinds, samples.images, k) > 0.1).sum()} of {(kinds == k).sum()}"
            for k in ("rich", "good")
        ]
        print(f"| {name} | {' | '.join(means)} | {' | '.join(over)} |", flush=True)
    if args.flickr30k is None:
        return
    rows = [r for r in read_parquet(args.flickr30k).to_pylist() if r["split"] == "test_2016"]
    captions, references = [], []
    for row in rows:
        ordered = sorted(row["captions"], key=len)
        captions += [ordered[-1], ordered[0]]
        references += [ordered[1:-1]] * 2
    [scores] = run(
        CaptionSet.build(captions, references), [METRICS[1]], resamples=0
    ).values.values()
    rank = ranks(scores)
    gap = rank[1::2] - rank[::2]
    print(f"\nFlickr30k, {len(rows)} photographs: the longest caption has the mean rank "
          f"{rank[::2].mean():.3f}, the shortest {rank[1::2].mean():.3f}; {(gap > 0.1).mean():.1%} "
          "of the longest lose over .1")  # fmt: skip


if __name__ == "__main__":
    main()
