"""SPICE against the Java tool, cross-validated over captioners and captions.

Four folds: captioner by half of the images (even or odd ids). For each, the parser is chosen on the
captions that share neither captioner nor image with it, and the choice is measured on the fold. No
golden score or parse is used to train any parser, so a fold is new to all of its candidates. Prints
each fold, the mean and the worst, and how our tuples compare with 1,200 golden parses: precision
and recall of relations and attributes, in the two halves of the file.

    python benchmarks/spice_folds.py [--candidates default sm FOLDER] [--shared ../shared]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from spice_agreement import Triple, agreement, coco, golden_parses, our_tuples

from captious.metrics.spice import Spice

Data = dict[str, np.ndarray]
MEASURES = ("pearson", "spearman", "mae", "bias")


def compared(data: Data, part: np.ndarray) -> dict[str, float]:
    """Compare a part of the captions, with the difference of the means."""
    numbers = agreement(data["ours"][part], data["java"][part])
    return numbers | {"bias": numbers["mean_ours"] - numbers["mean_java"]}


def goodness(numbers: dict[str, float]) -> float:
    """What a candidate is chosen by: the two correlations, less error and bias."""
    return numbers["pearson"] + numbers["spearman"] - 2 * numbers["mae"] - 2 * abs(numbers["bias"])


def folds(candidates: dict[str, Data]) -> dict[str, tuple[str, dict[str, float]]]:
    """Return, for every fold, the candidate chosen elsewhere and how it does on the fold."""
    first = next(iter(candidates.values()))
    out = {}
    for system in sorted(set(first["system"])):
        for half, name in ((0, "even"), (1, "odd")):
            mine = first["system"] == system
            here = first["image"] % 2 == half
            elsewhere = ~mine & ~here
            best = max(candidates, key=lambda c: goodness(compared(candidates[c], elsewhere)))
            out[f"{system}, {name}"] = best, compared(candidates[best], mine & here)
    return out


def summary(found: dict[str, tuple[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the mean and the worst of the folds."""
    values = {k: [numbers[k] for _, numbers in found.values()] for k in MEASURES}
    return {
        "mean of the folds": {k: float(np.mean(v)) for k, v in values.items()},
        "worst of the folds": {
            "pearson": min(values["pearson"]),
            "spearman": min(values["spearman"]),
            "mae": max(values["mae"]),
            "bias": max(values["bias"], key=abs),
        },
    }


def told(ours: list[set[Triple]], gold: list[set[Triple]], attributes: bool) -> str:
    """Say precision and recall of the attributes, or of the relations."""
    mine, theirs = (
        [{t for t in one if (t[1] == "is") == attributes} for one in side] for side in (ours, gold)
    )
    hit = sum(len(a & b) for a, b in zip(mine, theirs, strict=True))
    return f"P {hit / sum(map(len, mine)):.3f} R {hit / sum(map(len, theirs)):.3f}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--candidates", nargs="+", default=["default", "sm"])
    options.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    chosen = options.parse_args()
    metrics = {name: Spice(model=name) for name in chosen.candidates}
    candidates = {name: coco(metric, chosen.shared) for name, metric in metrics.items()}
    for name, data in candidates.items():
        alone = summary(folds({name: data}))["mean of the folds"]
        print(f"{name:10s} in all folds  ", "  ".join(f"{k} {alone[k]:+.4f}" for k in MEASURES))
    found = folds(candidates)
    for fold, (name, numbers) in found.items():
        print(f"{fold:20s} {name:8s}", "  ".join(f"{k} {numbers[k]:+.4f}" for k in MEASURES))
    for title, numbers in summary(found).items():
        print(f"{title:29s}", "  ".join(f"{k} {numbers[k]:+.4f}" for k in MEASURES))
    golden = golden_parses(chosen.shared)
    gold = [g for _, g in golden]
    for name, metric in metrics.items():
        ours = our_tuples(metric, [t for t, _ in golden])
        for half in (0, 1):
            mine, theirs = ours[half::2], gold[half::2]
            print(
                f"{name:10s} parses, half {half}: relations {told(mine, theirs, False)}, "
                f"attributes {told(mine, theirs, True)}"
            )


if __name__ == "__main__":
    main()
