"""How close is our SPICE to the Java tool's, and to people?

Prints, for a tuning half (even image ids; every other line of parses.tsv), the held-out half and
both together: Pearson, Spearman, mean absolute error, share of equal scores, corpus means; the same
for every captioner and half (a rule that helps one fold and hurts another was fitted to single
captions); the difference between the two systems; F1 of relation and attribute tuples; what
disagreements come from; and tau-c on Flickr8k-Expert. Rules were written and parsers chosen on the
tuning half.

    python benchmarks/spice_agreement.py [--parser default] [--shared ../shared] [--show 10]
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import kendalltau, pearsonr, spearmanr

from captious.metrics.spice import Spice, reader
from captious.text import tokenizers
from captious.types import CaptionSet

Triple = tuple[str, str, str]


def coco(spice: Spice, shared: Path) -> dict[str, np.ndarray]:
    """Score the 1,000 captions; return ours, Java's, the image ids and the systems."""
    rows = pq.read_table(shared / "golden/spice/coco_systems.parquet").to_pydict()
    samples = CaptionSet.build(
        rows["candidate"], rows["references"], images=[str(i) for i in rows["image_id"]]
    )
    return {
        "ours": spice.stats(samples, None).rows[:, 0],
        "java": np.array(rows["spice"]),
        "image": np.array(rows["image_id"]),
        "system": np.array(rows["system"]),
    }


def agreement(ours: np.ndarray, java: np.ndarray) -> dict[str, float]:
    """Compare two score vectors."""
    return {
        "pearson": float(pearsonr(ours, java)[0]),
        "spearman": float(spearmanr(ours, java)[0]),
        "mae": float(np.abs(ours - java).mean()),
        "equal": float((np.abs(ours - java) < 1e-6).mean()),
        "mean_ours": float(ours.mean()),
        "mean_java": float(java.mean()),
    }


def folds(data: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Compare captioner by captioner and half by half, with the mean and the worst of the folds."""
    out = {}
    for system in sorted(set(data["system"])):
        for half, name in ((0, "even"), (1, "odd")):
            part = (data["system"] == system) & (data["image"] % 2 == half)
            out[f"{system}, {name}"] = agreement(data["ours"][part], data["java"][part])
    for one in out.values():
        one["bias"] = one["mean_ours"] - one["mean_java"]
    names = list(next(iter(out.values())))
    worst = {"mae": max, "bias": lambda values: max(values, key=abs)}
    return out | {
        "mean of the folds": {k: float(np.mean([f[k] for f in out.values()])) for k in names},
        "worst of the folds": {k: worst.get(k, min)([f[k] for f in out.values()]) for k in names},
    }


def golden_parses(shared: Path) -> list[tuple[str, set[Triple]]]:
    """Read the relation and attribute tuples of the 1,200 parses."""
    out = []
    for line in (shared / "golden/spice/parses.tsv").read_text(encoding="utf-8").splitlines():
        text, told = line.split("\t")
        listed = [t.strip().split(" , ") for t in re.findall(r"\(([^()]*)\)", told)]
        out.append((text, {(t[0], t[1], t[2]) for t in listed if len(t) == 3}))
    return out


def our_tuples(spice: Spice, texts: list[str]) -> list[set[Triple]]:
    """Return our relation and attribute tuples, attributes written with "is"."""
    tokenize = tokenizers.get("ptb")
    tokenized = [" ".join(tokenize(t)) for t in texts]
    scenes = reader(spice.model, spice.tables).scenes(tokenized)
    return [
        set(scenes[t].relations) | {(o, "is", a) for o, a in scenes[t].attributes}
        for t in tokenized
    ]


def f1(ours: list[set[Triple]], gold: list[set[Triple]]) -> float:
    """Micro-averaged F1."""
    hit = sum(len(a & b) for a, b in zip(ours, gold, strict=True))
    return 2 * hit / (sum(map(len, ours)) + sum(map(len, gold)))


def causes(texts: list[str], ours: list[set[Triple]], gold: list[set[Triple]]) -> Counter[str]:
    """Sort the tuples that only one side has by what they differ in."""
    out: Counter[str] = Counter()
    for text, mine, theirs in zip(texts, ours, gold, strict=True):
        extra, missing = mine - theirs, theirs - mine
        words = set(text.split())
        for s, r, o in extra:
            if any((r, o) == t[1:] or (s, r) == t[:2] for t in missing):
                out["attached to another word"] += 1
            elif any((s, o) == (t[0], t[2]) for t in missing):
                out["same ends, other relation"] += 1
            elif r != "is" and not text.rstrip().endswith(".") and re.search(r"ing\b", text):
                out["ours only: 'noun ...ing', for Java a fragment without relation"] += 1
            else:
                out["ours only: other"] += 1
        for s, r, o in missing:
            if any((r, o) == t[1:] or (s, r) == t[:2] or (s, o) == (t[0], t[2]) for t in extra):
                continue
            if any(w.endswith(("ing", "ed")) and w in words for w in (s, o)):
                out["Java only: a verb form read as noun or adjective"] += 1
            else:
                out["Java only: other"] += 1
    return out


def where_scores_differ(data: dict[str, np.ndarray]) -> Counter[str]:
    """Say how many steps apart the scores are: 2 t / (c + r) with whole numbers."""
    out: Counter[str] = Counter()
    for a, b in zip(data["ours"], data["java"], strict=True):
        x, y = (Fraction(float(v)).limit_denominator(200) for v in (a, b))
        gap = abs(float(x - y))
        out["equal" if gap < 1e-6 else f"differs by up to {np.ceil(gap * 50) / 50:.2f}"] += 1
    return out


def flickr8k(spice: Spice, shared: Path) -> float:
    """Kendall tau-c with the three expert ratings as separate observations."""
    keep = pq.read_table(
        shared / "golden/classic/flickr8k_expert.parquet",
        columns=["cand", "refs", "expert", "in_refs"],
    ).to_pydict()
    rows = [i for i, there in enumerate(keep["in_refs"]) if not there]
    samples = CaptionSet.build([keep["cand"][i] for i in rows], [keep["refs"][i] for i in rows])
    ours = spice.stats(samples, None).rows[:, 0]
    ratings = np.array([keep["expert"][i] for i in rows])
    return float(kendalltau(np.repeat(ours, 3), ratings.ravel(), variant="c")[0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--parser", default="default")
    options.add_argument("--tables", default=None)
    options.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    options.add_argument("--show", type=int, default=0, help="print this many disagreements")
    chosen = options.parse_args()
    spice = Spice(model=chosen.parser, tables=chosen.tables)
    print(spice.signature("5", None))
    data = coco(spice, chosen.shared)
    even = data["image"] % 2 == 0
    for name, part in (("tuning half", even), ("held-out half", ~even), ("all", even | ~even)):
        numbers = agreement(data["ours"][part], data["java"][part])
        print(f"{name:14s}", "  ".join(f"{k} {v:.4f}" for k, v in numbers.items()))
    for name, numbers in folds(data).items():
        told = ("pearson", "spearman", "mae", "bias")
        print(f"{name:20s}", "  ".join(f"{k} {numbers[k]:+.4f}" for k in told))
    for side in ("ours", "java"):
        means = {s: data[side][data["system"] == s].mean() for s in sorted(set(data["system"]))}
        print(side, "by system:", "  ".join(f"{s} {v:.4f}" for s, v in means.items()))
    print("score distance:", dict(sorted(where_scores_differ(data).items())))
    golden = golden_parses(chosen.shared)
    texts, gold = [t for t, _ in golden], [g for _, g in golden]
    ours = our_tuples(spice, texts)
    print(
        f"tuple F1: tuning half {f1(ours[::2], gold[::2]):.4f}, "
        f"held-out half {f1(ours[1::2], gold[1::2]):.4f}, all {f1(ours, gold):.4f}"
    )
    for cause, count in causes(texts, ours, gold).most_common():
        print(f"  {count:5d}  {cause}")
    for text, mine, theirs in list(zip(texts, ours, gold, strict=True))[::2]:
        if chosen.show and mine != theirs:
            chosen.show -= 1
            print(f"{text}\n    ours only {sorted(mine - theirs)}  Java {sorted(theirs - mine)}")
    print(f"Flickr8k-Expert tau-c, pooled: {flickr8k(spice, chosen.shared):.4f}")


if __name__ == "__main__":
    main()
