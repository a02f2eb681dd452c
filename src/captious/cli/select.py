"""``captious select``: keep the best share of the rows by a score."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.cli.filter import tell_unscored
from captious.curate.filtering import select_rows


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "select",
        help="keep the best share of the rows by a score",
        description="Keep the rows with the highest values of one score, an exact number of them. "
        "Example: captious select in/ -o out/ --top 0.3 --by fit",
    )
    parser.add_argument("input", type=_options.place, help="file, folder or glob")
    parser.add_argument("--output", "-o", type=Path, help="file, or folder")
    parser.add_argument(
        "--top",
        type=float,
        required=True,
        metavar="SHARE",
        help="share of the rows to keep, 0 to 1; or how many rows",
    )
    parser.add_argument("--by", required=True, metavar="SCORE", help="column or score to sort by")
    parser.add_argument(
        "--uids", type=Path, metavar="FILE", help="also write the uids in DataComp's format (.npy)"
    )
    parser.add_argument("--uid-column", default="uid", help="column of the uids (default: uid)")
    _options.columns(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Select and say how many."""
    with _options.active(args):
        kept = select_rows(
            args.input,
            args.output,
            args.top,
            args.by,
            uids=args.uids,
            uid_column=args.uid_column,
            columns=_options.columns_of(args),
            df=args.df,
        )
    if not args.quiet:
        tell_unscored(kept)
        places = " and ".join(str(p) for p in (args.output, args.uids) if p is not None)
        _options.remark(f"kept {kept.kept:,} of {kept.read:,} rows; wrote {places}")
    return 0
