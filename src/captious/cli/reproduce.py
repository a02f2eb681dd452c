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
from captious.io import files


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "reproduce",
        help="tables of the papers, printed beside recomputed",
        description="Recompute a table or figure of one of the five papers. Examples: captious "
        "reproduce tiger table1; captious reproduce all -o docs/results.md. Without names, the "
        "tables and figures are listed.",
    )
    parser.add_argument(
        "paper",
        nargs="?",
        metavar="PAPER",
        help="tiger, composite, bert_tbr, vilbertscore, vifidel, or all",
    )
    parser.add_argument("table", nargs="?", metavar="TABLE", help="e.g. table1, figure5")
    add_places(parser)
    parser.add_argument(
        "--only", action="store_true", help="the paper's rows only, no other metrics of captious"
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
        help="processes that score side by side for `all` (default: one per core)",
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
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the curves of a figure")
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
    """Compute and write."""
    from captious.judgements import sets
    from captious.papers import reproduce
    from captious.papers.analyses import ANALYSES
    from captious.papers.paper_tables import TABLES

    known = sorted({(t.paper, t.name) for t in TABLES} | set(ANALYSES))
    if args.paper is None:
        sys.stdout.write("".join(f"captious reproduce {p} {t}\n" for p, t in known))
        sys.stdout.write("captious reproduce all\n")
        return 0
    format = args.format or ("markdown" if args.output else "text")
    with _options.active(args):
        bench = reproduce.Bench(
            sets.data_root(args.data),
            args.objects,
            extras=not args.only,
            resamples=args.trials if args.paper == "all" else 0,
            store=not args.no_store,
            skip=_skipped(args.skip),
            regions=args.regions,
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
            )
            return 0
        wanted = [(p, t) for p, t in known if p == args.paper and args.table in (None, t)]
        if not wanted:
            reproduce.find(args.paper, args.table or "")  # raises, with what there is
        parts = []
        for paper, name in wanted:
            if (paper, name) in ANALYSES:
                found = ANALYSES[paper, name](bench)
                parts.append(found.render(format))
                if args.picture and found.lines:
                    from captious.meta import pictures

                    pictures.curves(found.lines, found.at, args.picture, *found.axes)
            else:
                filled = reproduce.fill(reproduce.find(paper, name), bench)
                parts.append(reproduce.render(filled, format))
        if args.picture and not args.picture.exists():
            raise UsageError(f"{args.paper} {args.table or ''} has no curves to draw")
    text = "\n".join(parts)
    if args.output is None:
        sys.stdout.write(text)
    else:
        with files.replacing(args.output) as file:
            file.write(text)
    return 0


def _skipped(texts: list[str]) -> tuple[str, ...]:
    """Check what --skip names: a wrong name would leave nothing out and say nothing."""
    from captious.judgements import sets

    for text in texts:
        metric, _, name = text.partition("@")
        registry.load(metric)
        if name:
            sets.card(name)
    return tuple(texts)
