"""``captious analyse``: the analyses of the TIGEr paper on its data, for any metrics."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from captious.cli import _options
from captious.errors import InputError
from captious.types import CaptionSet, Floats

ANALYSES = {
    "ratings": "mean score per human score (Flickr8k-Expert; TIGEr's Figure 4)",
    "errors": "scores turned into ratings, against people's (Flickr8k-Expert; A.1)",
    "references": "pair accuracy with 1 to 50 references (PASCAL-50S; Figure 5)",
    "swaps": "true against false replacements of a word (PASCAL-50S; Figure 7)",
}


def add_parser(subs: Any) -> None:
    """Register the verb with one sub-command per analysis."""
    parser = subs.add_parser("analyse", help="where do metrics and people part?")
    kinds = parser.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS")
    for name, what in ANALYSES.items():
        one = kinds.add_parser(name, help=what)
        one.add_argument(
            "--data", type=Path, required=True, help="folder with flickr8k/, pascal50s/"
        )
        one.add_argument("--metrics", "-m", nargs="+", default=["tiger"])
        one.add_argument("--regions", type=Path, metavar="STORE", help="region features")
        if name == "references":
            one.add_argument("--counts", type=int, nargs="+", default=[1, 2, 5, 10, 20, 30, 40, 50])
        if name == "swaps":
            one.add_argument("--pairs", type=int, default=100, help="per kind of replacement")
            one.add_argument(
                "--wordnet",
                action="store_true",
                help="add WordNet synonyms (of METEOR's tables) to our lists of words",
            )
        _options.running(one)
        one.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compute and print JSON."""
    from captious.papers import tiger_analyses as analyses

    def score(samples: CaptionSet) -> dict[str, Floats]:
        from captious import registry

        out: dict[str, Floats] = {}
        for metric, chosen in registry.create_many(args.metrics):
            values = metric.scores(metric.stats(samples, metric.prepare(samples)).rows)
            for place, column in enumerate(metric.columns):
                if column.name in chosen:
                    out[column.name] = values[:, place]
        return out

    with _options.active(args):
        if args.analysis in ("ratings", "errors"):
            samples, ratings = _flickr8k(args.data)
            of = analyses.means_by_rating if args.analysis == "ratings" else analyses.rating_errors
            found: Any = {name: of(values, ratings) for name, values in score(samples).items()}
        elif args.analysis == "swaps":
            from captious.text.synsets import WordTables

            tables = WordTables.open() if args.wordnet else None
            pairs = analyses.swap_pairs(_references(args.data), args.pairs, args.seed or 0, tables)
            found = {"pairs": len(pairs), **analyses.swap_accuracy(score, pairs)}
        else:
            captions, references, images, better, kinds = _pairs(args.data)
            found = analyses.reference_sweep(
                score, captions, references, images, better, args.counts, kinds, args.seed or 0
            )
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


def _flickr8k(root: Path) -> tuple[CaptionSet, Any]:
    from captious.judgements.judgement_set import Ratings
    from captious.judgements.sets.flickr8k import load_expert

    given = load_expert(root).without_own()
    ratings = given.judged
    if not isinstance(ratings, Ratings):
        raise InputError("Flickr8k-Expert holds ratings of single captions; these are choices")
    table = np.full((len(given.samples), int(ratings.judges.max()) + 1), np.nan)
    table[ratings.rows, ratings.judges] = ratings.values
    return given.samples, table


def _references(root: Path) -> dict[str, list[str]]:
    text = (root / "pascal50s" / "pascal50s_refs.json").read_text(encoding="utf-8")
    listed: dict[str, list[str]] = json.loads(text)
    folder = root / "pascal50s" / "images"
    return {
        str(folder / Path(name).with_suffix(".jpg").name): some for name, some in listed.items()
    }


def _pairs(root: Path) -> tuple[Any, ...]:
    text = (root / "pascal50s" / "consensus_5refs.json").read_text(encoding="utf-8")
    references = _references(root)
    folder = root / "pascal50s" / "images"
    rows = [(kind, pair) for kind, some in json.loads(text).items() for pair in some]
    images = [str(folder / Path(pair["image"]).name) for _, pair in rows]
    return (
        [tuple(pair["captions"]) for _, pair in rows],
        [references[image] for image in images],
        images,
        [pair["label"] for _, pair in rows],
        [kind for kind, _ in rows],
    )
