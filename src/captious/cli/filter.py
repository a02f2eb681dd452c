"""``captious filter``: keep the rows that fulfil a condition on scores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.curate.filtering import filter_rows


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "filter",
        help="keep the rows that fulfil a condition on scores",
        description="Keep rows of parquet, JSONL, CSV or TSV files. Example: "
        'captious filter in/ -o out/ --keep "fit > 0.3 and lm > 0.01". Scores that are no column '
        "of the file are computed, and only for rows that the clauses before have left.",
    )
    parser.add_argument("input", type=_options.place, help="file, folder or glob")
    parser.add_argument("--output", "-o", type=Path, required=True, help="file, or folder")
    parser.add_argument(
        "--keep",
        required=True,
        metavar="CONDITION",
        help="names of columns or scores, numbers, < <= > >= == !=, + - * /, and, or, not, "
        "'is missing'; names that are no plain words stand in `back quotes`",
    )
    _options.columns(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Filter and say what each clause cost."""
    with _options.active(args):
        kept = filter_rows(
            args.input, args.output, args.keep, columns=_options.columns_of(args), df=args.df
        )
    if not args.quiet:
        for clause, rows in kept.lost.items():
            _options.remark(f"{clause}: {rows:,} rows lost")
        _options.remark(f"kept {kept.kept:,} of {kept.read:,} rows; wrote {args.output}")
    return 0
