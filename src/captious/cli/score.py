"""``captious score``: captions in, scores out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options, _terminal
from captious.engine.job import score
from captious.errors import UsageError
from captious.io import tables
from captious.report import page
from captious.statistics.bootstrap import RESAMPLES


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "score",
        description="Score one or more caption files. Example: "
        "captious score captions.json --refs references.json -m METEOR CIDEr-D SPICE",
    )
    _options.data(parser)
    add_scoring(parser)
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="also write the scores here: .parquet, .json, .jsonl (all of these can be read back), "
        ".csv, .md, .tex or .txt; a run that was killed goes on where it stopped",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="also write a report (.html): tables, gallery and explanations in one page",
    )
    parser.add_argument(
        "--format",
        "-f",
        choices=[f for f in tables.FORMATS if f != "parquet"],
        default=None,
        help="format on stdout (default: text)",
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        help="captions to show: a number or 'all' (default: 10; none in LaTeX)",
    )
    _options.running(parser)
    parser.set_defaults(run=run)


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose metrics."""
    _options.metrics(parser)
    parser.add_argument("--no-intervals", action="store_true", help="no bootstrap intervals")


def run(args: argparse.Namespace) -> int:
    """Score and write."""
    rows = _rows(args.rows, args.format)
    if args.output is not None:
        tables.check_output(args.output, args.format)
    if args.report is not None:
        page.check(args.report, page.Options())
    resamples = 0 if args.no_intervals else RESAMPLES
    job = _options.job(args, args.metrics, resamples=resamples, keep=args.output is not None)
    with _options.active(args):
        table = score(job, say=_options.say(args))
    if args.output is not None:
        table.save(args.output, args.format)
        if not args.quiet:
            _options.remark(f"wrote {args.output}")
    _terminal.show(table, args.format or "text", rows)
    if args.report is not None:
        with _options.active(args):
            remarks = page.write(table, args.report)
        if not args.quiet:
            for remark in [*remarks, f"wrote {args.report}"]:
                _options.remark(remark)
    return 0


def _rows(text: str | None, format: str | None) -> int | None:
    """Return how many captions to show; None = as many as the format shows by itself."""
    if text is None:
        return None if format == "latex" else 10
    if text == "all":
        return sys.maxsize
    if not text.isdigit():
        raise UsageError(f"--rows takes a number or 'all', not {text!r}")
    return int(text)
