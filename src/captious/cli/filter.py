"""``captious filter``: keep the rows that meet a condition on scores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.curate.filtering import Kept, filter_rows
from captious.curate.two_stage import TwoStage
from captious.io.grids import many


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "filter",
        help="keep the rows that meet a condition on scores",
        description="Keep rows of parquet, JSONL, CSV or TSV files. Example: "
        'captious filter in/ -o out/ --keep "fit > 0.3 and lm > 0.01". Scores that are not columns '
        "of the file are computed, and only for the rows that passed the earlier clauses.",
    )
    parser.add_argument("input", type=_options.place, help="file, folder or glob")
    parser.add_argument("--output", "-o", type=Path, required=True, help="file, or folder")
    parser.add_argument(
        "--keep",
        required=True,
        metavar="CONDITION",
        help="names of columns or scores, numbers, < <= > >= == !=, + - * /, and, or, not, "
        "'is missing'; write names that are not plain words in `backquotes`",
    )
    stages = parser.add_argument_group(
        "two stages",
        "A cheap score decides the clear cases, the condition decides the band in between. The "
        "band is chosen on the first rows, so shuffle a sorted file first.",
    )
    stages.add_argument("--first", metavar="SCORE", help="the cheap score: a column or a score")
    stages.add_argument(
        "--agree", type=float, default=0.99, metavar="SHARE",
        help="share of rows to decide as the condition alone would (default: 0.99)",
    )  # fmt: skip
    stages.add_argument(
        "--trial", type=int, default=2_000, metavar="ROWS",
        help="choose the band on this many first rows (default: 2,000)",
    )  # fmt: skip
    _options.columns(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Filter and say what each clause cost."""
    stages = TwoStage(args.first, args.agree, args.trial) if args.first else None
    with _options.active(args):
        kept = filter_rows(
            args.input,
            args.output,
            args.keep,
            columns=_options.columns_of(args),
            df=args.df,
            two_stage=stages,
        )
    if not args.quiet:
        if stages is not None:
            _options.remark(_told(kept, stages))
        for clause, rows in kept.lost.items():
            _options.remark(f"{clause}: removed {rows:,} row{'s' * (rows != 1)}")
        tell_unscored(kept)
        _options.remark(f"kept {kept.kept:,} of {kept.read:,} rows; wrote {args.output}")
    return 0


def tell_unscored(kept: Kept) -> None:
    """Say which rows have no score, and why; no condition on it holds for them."""
    for reason, rows in kept.unscored.items():
        _options.remark(f"{many(rows, 'row')} not scored: {reason}")


def _told(kept: Kept, stages: TwoStage) -> str:
    """Say what the cheap score decided."""
    band = kept.band
    if band is None:
        return f"fewer than {stages.trial:,} rows: the condition decided all of them"
    low, high = sorted((band.sign * band.low, band.sign * band.high))
    return (
        f"{stages.first} decided {kept.sure:,} of {kept.read:,} rows, the condition those from "
        f"{low:.4g} to {high:.4g} and the first {band.rows:,}, on which the two agree in "
        f"{100 * band.agreement:.1f} %"
    )
