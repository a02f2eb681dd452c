"""``captious reproduce``: a table of a paper beside our own numbers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from captious import registry, settings
from captious.cli import _options
from captious.cli.meta import add_places
from captious.errors import UsageError


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "reproduce",
        description="Recompute a table or figure of one of the five papers. Examples: captious "
        "reproduce tiger (lists its tables and figures and what each needs); captious reproduce "
        "tiger table1; captious reproduce tiger all; captious reproduce all -o docs/results.md.",
    )
    parser.add_argument(
        "paper",
        nargs="?",
        metavar="PAPER",
        help="tiger, composite, bert_tbr, vilbertscore, vifidel, beyond, or all; without a TABLE "
        "its tables and figures are listed",
    )
    parser.add_argument("table", nargs="?", metavar="TABLE", help="e.g. table1, figure5, or all")
    add_places(parser)
    parser.add_argument(
        "--only", action="store_true", help="the paper's rows only, no other metrics of captious"
    )
    parser.add_argument(
        "--profile",
        choices=["paper", "release", "clean"],
        help="profile of BERT-TBR's own rows (default: paper)",
    )
    parser.add_argument(
        "--metrics",
        "-m",
        nargs="+",
        default=[],
        metavar="METRIC",
        help="metrics of a figure that takes any (default: all that can run)",
    )
    parser.add_argument(
        "--vectors",
        nargs="+",
        default=[],
        metavar="FILE",
        help="further word vectors, for `reproduce vifidel vectors`",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=300,
        metavar="N",
        help="replaced words of each kind, for `reproduce tiger figure7` (default: 300)",
    )
    parser.add_argument(
        "--wordnet",
        action="store_true",
        help="add WordNet synonyms (of METEOR's tables) to the words of that figure",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=1000,
        metavar="N",
        help="bootstrap draws and permutations of `all` (default: 1000)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that score in parallel for `all` (default: one per core)",
    )
    parser.add_argument(
        "--skip",
        nargs="+",
        default=[],
        metavar="METRIC[@SET]",
        help="leave a metric out, everywhere or on one judgement set (its row stays, empty), "
        "e.g. vilbertscore@flickr8k-cf",
    )
    parser.add_argument("--format", "-f", choices=["text", "markdown"], default=None)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw a figure")
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="write here; for `all`, pictures go into pictures/ beside it",
    )
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List, or compute and write."""
    import os

    from captious.judgements import labels, sets
    from captious.papers import catalogue, reproduce

    if args.paper is None or (args.table is None and args.paper != "all"):
        papers = list(catalogue.PAPERS) if args.paper is None else [args.paper]
        for paper in papers:
            catalogue.of_paper(paper)  # a wrong name is told before a missing folder
        known = args.data or os.environ.get("CAPTIOUS_DATA")
        root = sets.data_root(args.data) if known else None
        sys.stdout.write(catalogue.listing(papers, root))
        if root is None:
            _options.remark("no data folder was given (--data FOLDER): all files count as missing")
        return 0
    format = args.format or ("markdown" if args.output else "text")
    if args.paper != "all":
        chosen = (
            [i for i in catalogue.of_paper(args.paper) if i.runs]
            if args.table == "all"
            else [catalogue.find(args.paper, args.table)]
        )
    with _options.active(args):
        bench = reproduce.Bench(
            sets.data_root(args.data),
            labels.parse(args.objects),
            extras=not args.only,
            resamples=args.trials if args.paper == "all" else 0,
            store=not args.no_store,
            skip=_skipped(args.skip),
            regions=args.regions,
            profile=args.profile or "",
            metrics=tuple(args.metrics),
            pairs=args.pairs,
            wordnet=args.wordnet,
            vectors=tuple(args.vectors),
        )
        if args.paper == "all":
            from captious.papers import results_page

            path = args.output or Path("docs/results.md")
            results_page.write(
                bench,
                path,
                args.trials,
                None if args.quiet else _options.remark,
                settings.get().threads if args.jobs is None else args.jobs,
                _command(args),
            )
            return 0
        parts = []
        drawn = False
        for item in chosen:
            if item.table is not None:
                filled = reproduce.fill(item.table, bench)
                parts.append(reproduce.render(filled, format))
            elif item.analysis is not None:
                analysis = item.analysis(bench)
                parts.append(analysis.render(format))
                if args.picture and analysis.drawable:
                    analysis.draw(args.picture)
                    drawn = True
        if args.picture and not drawn:
            raise UsageError(f"{args.paper} {args.table} has nothing to draw")
    _options.write(args, "\n".join(parts))
    return 0


def _command(args: argparse.Namespace) -> str:
    """Return the command as the page names it: what decides its numbers, no folders of ours."""
    said = ["captious reproduce all"]
    said += [f"--objects {' '.join(args.objects)}"] if args.objects else []
    said += ["--regions STORE"] if args.regions else []
    said += [f"--profile {args.profile}"] if args.profile else []
    said += [f"--skip {' '.join(args.skip)}"] if args.skip else []
    return " ".join([*said, "--data FOLDER -o docs/results.md"])


def _skipped(texts: list[str]) -> tuple[str, ...]:
    """Check what --skip names: a wrong name would leave nothing out and say nothing."""
    from captious.judgements import sets

    for text in texts:
        metric, _, name = text.partition("@")
        registry.load(metric)
        if name:
            sets.card(name)
    return tuple(texts)
