"""``captious report``: see which system is better, where, and why."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.engine.table import ScoreTable, join
from captious.errors import InputError, UsageError
from captious.io.tables import is_stored
from captious.report import page


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "report",
        description="Write a stored table (captious score ... -o scores.parquet) as one HTML file "
        "that opens offline in any browser: systems and metrics with intervals and tests, "
        "distributions, a gallery of photographs and captions, and why each got its score.",
    )
    parser.add_argument(
        "scores",
        nargs="+",
        type=Path,
        metavar="SCORES",
        help="stored table (.parquet, .json, .jsonl); several tables of the same metrics are "
        "several systems",
    )
    parser.add_argument("--names", nargs="+", metavar="NAME", help="a name for each table")
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE",
        help="where to write (default: report.html)",
    )  # fmt: skip
    parser.add_argument(
        "--bundle", type=Path, metavar="FOLDER",
        help="write a folder that holds every caption instead of one file",
    )  # fmt: skip
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="folder of the photographs, "
                        "if they are not where they were when scored")  # fmt: skip
    parser.add_argument(
        "--most", type=int, default=page.MOST, metavar="N",
        help="captions inside one file (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--explain-seconds", type=float, default=60.0, metavar="S",
        help="time that explanations may take, 0 for none (default: 60)",
    )  # fmt: skip
    parser.add_argument(
        "--columns", type=Path, metavar="FILE",
        help="columns of your own by 'id' (and 'system'): numbers such as a rating by people are "
        "axes of the scatter, words such as a category are buckets",
    )  # fmt: skip
    parser.add_argument("--title", default="", help="title of the report")
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read the tables and write the page."""
    if args.bundle is not None and args.output is not None:
        raise UsageError("give --output FILE or --bundle FOLDER, not both")
    path = args.bundle or args.output or Path("report.html")
    options = page.Options(
        title=args.title,
        most=args.most,
        seconds=args.explain_seconds,
        images=args.images,
        bundle=args.bundle is not None,
        columns=args.columns,
    )
    page.check(path, options)
    for scores in args.scores:
        if not scores.exists():
            raise InputError(f"{scores}: there is no such file")
        if not is_stored(scores):
            raise InputError(
                f"{scores}: this is not a stored table; make one with "
                "captious score CAPTIONS --refs REFS -o scores.parquet"
            )
    with _options.active(args):
        names = args.names or [scores.name.split(".")[0] for scores in args.scores]
        table = join([ScoreTable.load(scores) for scores in args.scores], names)
        remarks = page.write(table, path, options)
    if not args.quiet:
        remarks.append(f"wrote {path / 'index.html' if options.bundle else path}")
        for remark in remarks:
            _options.remark(remark)
    return 0
