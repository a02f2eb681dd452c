"""Tables of docs/results-composites.md: composites beside their inputs, on half B of every domain.

    python benchmarks/composite_tables.py --data DATA --regions F8K --pascal-regions P50S \
        --coco-regions COCO --store FOLDER [--fleur ../shared/data/fleur] [--tables best six probe]

Features come from the folder that ``captious.training.flagship`` and ``composite_recipe`` filled;
shipped models are read as they are. Intervals: bootstrap over photographs. p: permutation test by
photograph between the composite and the single input that is best on these very rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from captious.judgements import outside_scores, protocols
from captious.judgements.judgement_set import JudgementSet
from captious.learned import model_file
from captious.learned.composite import GUARDS
from captious.meta import gaming
from captious.meta.evaluate import Evaluation, evaluate
from captious.meta.scoring import Scores
from captious.perturb.attacks import ATTACKS, Gamed
from captious.training.composite_recipe import PAPER, SIX, TARGET, Tables, eval_inputs, under_attack
from captious.training.domains import PLAIN, Places, attacked, domain, part_of
from captious.training.feature_store import FeatureStore
from captious.training.flagship import POOLS, Workshop
from captious.types import CaptionSet, Floats


class Given:
    """A scorer of columns that are known already."""

    def __init__(self, columns: dict[str, Floats]) -> None:
        self.columns = columns

    def __call__(self, samples: CaptionSet) -> dict[str, Scores]:
        """Return the columns of the set."""
        return {name: Scores(name, values) for name, values in self.columns.items()}


def half_b(judged: JudgementSet, protocol: str, columns: dict[str, Floats], first: np.ndarray,
           resamples: int = 1000) -> Evaluation:  # fmt: skip
    """Evaluate columns on the photographs of half B."""
    keep = np.flatnonzero(~first)
    return evaluate(
        part_of(judged, ~first),
        protocols.get(protocol, judged.name),
        Given({name: values[keep] for name, values in columns.items()}),
        resamples=resamples,
    )


def against(run: Evaluation, name: str, singles: Sequence[str]) -> tuple[str, float, float]:
    """Return the best single input, how far the composite is above it, and p."""
    best = max(singles, key=lambda s: run.result(s).value)
    [test] = run.tests([name, best], trials=2000)
    return best, test.difference if test.a == name else -test.difference, test.p


def shown(run: Evaluation, name: str) -> str:
    """Return a value with its interval, accuracies in percent."""
    result = run.result(name)
    scale, digits = (100, 1) if run.protocol.measure == "accuracy" else (1, 3)
    value, low, high = (f"{scale * v:.{digits}f}" for v in (result.value, result.low, result.high))
    return f"{value} ({low}..{high})"


def table_best(where: Places, store: FeatureStore) -> None:
    """Print the flagship composites and all candidates for their inputs, domain by domain."""
    for name, pool in POOLS.items():
        model = model_file.load(TARGET / name)
        used = [i.text for i in model.inputs if i.text not in GUARDS]
        shop = Workshop(where, store, name, tuple(used))
        singles = list(dict.fromkeys([*pool, *used]))
        print(f"\n### {name}\n")
        print(
            "| domain, half B | " + " | ".join(singles) + f" | **{name}** | against the best | p |"
        )
        print("|---" * (len(singles) + 4) + "|")
        for what in shop.domains:
            found = domain(where, what)
            columns = {text: shop.raw(what, [text])[:, 0] for text in singles}
            columns[name] = model.logits(shop.raw(what, [i.text for i in model.inputs]))
            run = half_b(found.judged, found.protocol, columns, found.first)
            best, gap, p = against(run, name, singles)
            scale = 100 if run.protocol.measure == "accuracy" else 1
            cells = [f"{scale * run.result(s).value:.{1 if scale > 1 else 3}f}" for s in singles]
            said = f"{scale * gap:+.{1 if scale > 1 else 3}f} over {best}"
            print(f"| {what} | {' | '.join(cells)} | {shown(run, name)} | {said} | {p:.4f} |",
                  flush=True)  # fmt: skip


def table_fleur(where: Places, store: FeatureStore, folder: Path) -> None:
    """Print the flagship composites beside FLEUR's released scores, half B."""
    print("\n| set, half B | FLEUR | composite | value | difference | p |")
    print("|---" * 6 + "|")
    for what, file, column in (
        ("expert", "flickr8k_expert.parquet", "fleur.smoothed"),
        ("pascal", "pascal50s.parquet", "fleur"),
    ):
        found = domain(where, what)
        outside = outside_scores.load(f"fleur={folder / file}").match(found.samples)
        for name in POOLS:
            model = model_file.load(TARGET / name)
            texts = [i.text for i in model.inputs]
            shop = Workshop(where, store, name, tuple(t for t in texts if t not in GUARDS))
            columns = {"fleur": outside[column], name: model.logits(shop.raw(what, texts))}
            run = half_b(found.judged, found.protocol, columns, found.first)
            _, gap, p = against(run, name, ["fleur"])
            print(f"| {what} | {shown(run, 'fleur')} | {name} | {shown(run, name)} | {gap:+.4f} "
                  f"| {p:.4f} |", flush=True)  # fmt: skip


def table_probe(where: Places, store: FeatureStore) -> None:
    """Attack the flagship composites: captions of half B."""
    print("\n| metric | captions | " + " | ".join(ATTACKS) + " | all | one variant |")
    print("|---" * (len(ATTACKS) + 4) + "|")
    for name in POOLS:
        model = model_file.load(TARGET / name)
        texts = [i.text for i in model.inputs]
        shop = Workshop(where, store, name, tuple(t for t in texts if t not in GUARDS))
        for plain in PLAIN:
            found = attacked(where, plain)
            mine = ~found.first[found.gamed.source]
            part = Gamed(found.gamed.samples, found.gamed.source[mine], found.gamed.attack[mine])
            after = model.logits(shop.raw(f"{plain} gamed", texts))[mine]
            rows = gaming.judge(name, model.logits(shop.raw(plain, texts)), after, part)
            print_attacked(name, f"{int((~found.first).sum())} of {plain.split()[0]}", rows)


def print_attacked(name: str, captions: str, rows: Sequence[gaming.Fooled]) -> None:
    """Print one line of the table of attacks."""
    cells = [f"{100 * row.held:.1f}" for row in rows] + [f"{100 * rows[-1].held_one:.1f}"]
    print(f"| {name} | {captions} | {' | '.join(cells)} |", flush=True)


def table_six(data: Path, store: FeatureStore, images: int) -> None:
    """Print the six of the paper, with and without a guard, beside their features."""
    tables = Tables(data, store, images)
    expert = domain(Places(data, (), (), ()), "expert")
    names = [*SIX, *(f"{n}_guard" for n in SIX)]
    models = {n: model_file.load(TARGET / n) for n in names}
    columns = {t: tables.table("expert", [t]).values[:, 0] for t in PAPER}
    columns |= {n: tables.scores("expert", m) for n, m in models.items()}
    run = half_b(expert.judged, expert.protocol, columns, expert.first)
    print("\n| metric | Flickr8k-Expert tau-c, half B | against its best feature | p | PASCAL-50S, "
          "ties half | attacks won |\n" + "|---" * 6 + "|")  # fmt: skip
    for text in PAPER:
        print(f"| {text} | {shown(run, text)} | | | | |")
    for name, model in models.items():
        best, gap, p = against(run, name, eval_inputs(SIX[name.removesuffix("_guard")], False))
        pascal = model.facts["quality"]["pascal50s, 5 references, ties half"]["mean"]
        held = under_attack(tables, model, "probe")[-1].held
        print(f"| {name} | {shown(run, name)} | {gap:+.3f} over {best} | {p:.4f} | {pascal:.1f} "
              f"| {100 * held:.1f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("data", "store"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("regions", "pascal-regions", "coco-regions"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True)
    parser.add_argument("--fleur", type=Path)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--tables", nargs="+", default=["best", "six", "probe"])
    args = parser.parse_args()
    where = Places(
        args.data, *(tuple(p) for p in (args.regions, args.pascal_regions, args.coco_regions))
    )
    store = FeatureStore(args.store)
    if "best" in args.tables:
        table_best(where, store)
    if args.fleur is not None:
        table_fleur(where, store, args.fleur)
    if "probe" in args.tables:
        table_probe(where, store)
    if "six" in args.tables:
        table_six(args.data, store, args.images)


if __name__ == "__main__":
    main()
