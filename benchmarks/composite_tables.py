"""Tables of docs/results-composites.md: composites beside their features, baselines, attacks.

    python benchmarks/composite_tables.py --data DATA --regions F8K --pascal-regions P50S \
        [--cache CACHE] [--images 3000]

Features come from the cache that ``benchmarks/composites.py`` filled; shipped models are read as
they are. Flickr8k-Expert is the half of the photographs that no composite has seen (half B),
tau-c, every rating an observation; PASCAL-50S has 5 references. Intervals: bootstrap over
photographs. p: permutation test by photograph against the best single feature, Holm-corrected
within the row's features.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from captious import settings
from captious.judgements import protocols
from captious.learned import model_file
from captious.learned.composite import GUARDS
from captious.meta import gaming
from captious.meta.evaluate import Evaluation, evaluate
from captious.meta.scoring import Scores
from captious.perturb import attacks
from captious.training.composite import Options
from captious.training.composite_recipe import (
    BEST,
    IMAGE,
    PAPER,
    SIX,
    TEXT,
    Places,
    Tables,
    classifier,
    eval_inputs,
    expert,
    first_half,
    only,
    pascal,
    place_of,
)
from captious.types import CaptionSet, Floats

Column = Callable[[str], Floats]
PUBLISHED = {  # Sharif et al. 2018: Table 1 (tau, their own 6,993 captions), Table 2 (AVG)
    "meteor": (0.352, 78.8), "cider(df='coco-val')": (0.356, 78.2), "spice": (0.366, 78.7),
    "wmd": (0.336, 79.5), "eval_ms": (0.386, 80.9), "eval_cs": (0.384, 79.9),
    "eval_mcs": (0.386, 80.5), "eval_wcs": (0.379, 79.8), "eval_mws": (0.367, 79.4),
    "eval_mwcs": (0.378, 79.6),
}  # fmt: skip


class Given:
    """A scorer of columns that are known already."""

    def __init__(self, columns: dict[str, Column], what: str, rows: np.ndarray | None) -> None:
        self.columns, self.what, self.rows = columns, what, rows

    def __call__(self, samples: CaptionSet) -> dict[str, Scores]:
        """Return the columns of the set."""
        out = {}
        for name, column in self.columns.items():
            values = column(self.what)
            out[name] = Scores(name, values if self.rows is None else values[self.rows])
        return out


def columns(tables: Tables, names: Sequence[str]) -> dict[str, Column]:
    """Return features by name, shipped models by name, and the two baselines."""
    out: dict[str, Column] = {}
    for name in names:
        folder = place_of(name)
        if folder.is_dir():
            model = model_file.load(folder)
            out[name] = lambda what, m=model: tables.scores(what, m)  # type: ignore[misc]
        else:
            out[name] = lambda what, n=name: tables.table(what, [n]).values[:, 0]  # type: ignore[misc]
    return out


def sum_of(tables: Tables, texts: Sequence[str]) -> Column:
    """The plain sum, each feature divided by its deviation on the training captions."""
    spread = tables.table("coco train", texts).values.std(axis=0)
    return lambda what: (tables.table(what, texts).values / spread).sum(axis=1)


def measured(tables: Tables, found: dict[str, Column]) -> tuple[Evaluation, Evaluation, Evaluation]:
    """Evaluate on half B of Flickr8k-Expert, and on PASCAL-50S with ties half and strict."""
    judged = expert(tables.where.data)
    half = ~first_half(judged.units)
    return (
        evaluate(only(judged, half), protocols.get("flickr8k-expert/tau-c-pooled"),
                 Given(found, "expert", np.flatnonzero(half))),
        evaluate(pascal(tables.where.data), protocols.get("pascal50s/half-5refs"),
                 Given(found, "pascal", None)),
        evaluate(pascal(tables.where.data), protocols.get("pascal50s/strict-5refs"),
                 Given(found, "pascal", None), resamples=0),
    )  # fmt: skip


def line(
    name: str,
    runs: tuple[Evaluation, Evaluation, Evaluation],
    singles: Sequence[str],
    paper: tuple[float, float] | None,
) -> str:
    """Return one row of a table."""
    tau, half, strict = (run.result(name) for run in runs)
    cells = [name.replace("|", "/")]
    cells.append(f"{tau.value:.3f} ({tau.low:.3f}..{tau.high:.3f})")
    cells.append(_against(runs[0], name, singles))
    cells += [f"{100 * half.groups[k]:.1f}" for k in ("HC", "HI", "HM", "MM")]
    cells.append(f"{100 * half.value:.1f} ({100 * half.low:.1f}..{100 * half.high:.1f})")
    cells.append(f"{100 * strict.value:.1f}")
    cells.append(_against(runs[1], name, singles))
    cells += ["", ""] if paper is None else [f"{paper[0]:.3f}", f"{paper[1]:.1f}"]
    return "| " + " | ".join(cells) + " |"


def _against(run: Evaluation, name: str, singles: Sequence[str]) -> str:
    """Say whether a composite beats its best single feature."""
    if not singles:
        return ""
    best = max(singles, key=lambda s: run.result(s).value)
    tests = [t for t in run.tests([name, *singles]) if name in (t.a, t.b) and best in (t.a, t.b)]
    gap = tests[0].difference if tests[0].a == name else -tests[0].difference
    scale = 100 if run.protocol.measure == "accuracy" else 1
    return f"{scale * gap:+.3f} over {best}, p {tests[0].corrected:.3f}"


HEAD = (
    "| metric | tau-c, half B | against its best feature | HC | HI | HM | MM | PASCAL, ties half "
    "| strict | against its best feature | paper: tau | paper: AVG |\n" + "|---" * 12 + "|"
)


def table_six(tables: Tables) -> None:
    names = [*PAPER, *SIX, *(f"{n}_guard" for n in SIX)]
    found = columns(tables, names)
    options = Options(hidden=(), rate=0.05, epochs=60, patience=0, scale="z")
    for letters in SIX.values():
        texts = eval_inputs(letters, False)
        found[f"sum of {letters}"] = sum_of(tables, texts)
        model = classifier(tables, texts, options).model
        found[f"logistic regression {letters}"] = lambda what, m=model: tables.scores(what, m)
    runs = measured(tables, found)
    print(HEAD)
    for name in found:
        letters = SIX.get(name.removesuffix("_guard"), name.rpartition(" ")[2])
        singles = [] if name in PAPER else eval_inputs(letters, False)
        print(line(name, runs, singles, PUBLISHED.get(name)), flush=True)


def table_best(tables: Tables) -> None:
    shipped = [n for n in BEST if place_of(n).is_dir()]
    singles = [t for t in (*TEXT, *IMAGE)]
    runs = measured(tables, columns(tables, [*singles, *shipped]))
    print(HEAD)
    for name in [*singles, *shipped]:
        own = []
        if name in shipped:
            own = [i.text for i in model_file.load(place_of(name)).inputs]
        print(line(name, runs, own, None), flush=True)


def table_probe(tables: Tables) -> None:
    """Attack every feature and composite: COCO captions for text, Flickr8k for what looks."""
    print("| metric | captions | " + " | ".join(attacks.ATTACKS) + " | all | one variant |")
    print("|---" * (len(attacks.ATTACKS) + 4) + "|")
    six = [*SIX, *(f"{n}_guard" for n in SIX)]
    best = [n for n in BEST if place_of(n).is_dir()]
    for plain, names in (("probe", [*PAPER, *GUARDS, *six]), ("plain", [*TEXT, *IMAGE, *best])):
        made = tables.attack("gamed" if plain == "plain" else "probe gamed")
        keep = np.ones(len(tables.samples(plain)), bool)
        if plain == "plain":
            keep = ~first_half(tables.samples(plain).ids)
        mine = keep[made.source]
        part = attacks.Gamed(made.samples, made.source[mine], made.attack[mine])
        label = "COCO" if plain == "probe" else "Flickr8k, half B"
        for name, column in columns(tables, names).items():
            after = column("gamed" if plain == "plain" else "probe gamed")[mine]
            rows = {f.attack: f for f in gaming.judge(name, column(plain), after, part)}
            cells = [f"{100 * rows[a].held:.1f}" for a in (*attacks.ATTACKS, "all")]
            cells.append(f"{100 * rows['all'].held_one:.1f}")
            print(f"| {name} | {rows['all'].captions // 5} {label} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--pascal-regions", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--tables", nargs="+", default=["six", "best", "probe"])
    args = parser.parse_args()
    tables = Tables(Places(args.data, args.regions, args.pascal_regions), args.images)
    with settings.use(**({"cache_dir": args.cache} if args.cache else {})):
        for name in args.tables:
            print(f"\n## {name}\n")
            {"six": table_six, "best": table_best, "probe": table_probe}[name](tables)


if __name__ == "__main__":
    main()
