"""``captious audit``: captions that probably do not fit their photograph."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.curate.auditing import audit
from captious.engine.job import ScoringJob
from captious.io import grids
from captious.io.files import replacing
from captious.report import audit_page


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "audit",
        help="captions that probably do not fit their photograph",
        description="List the captions of a collection, the most doubtful first, and mark copies "
        "and captions that fit any photograph. Example: "
        "captious audit photos/ captions.csv -o all.csv",
    )
    parser.add_argument("images", type=Path, help="folder of the photographs")
    parser.add_argument("captions", type=Path, help="captions: CSV, JSON, JSONL, parquet")
    parser.add_argument(
        "--by", default="fit", metavar="METRIC", help="reference-free score (default: fit)"
    )
    parser.add_argument(
        "--others", type=int, default=8, help="other photographs to compare with (default: 8)"
    )
    parser.add_argument("--rows", type=int, default=20, help="captions shown (default: 20)")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="all captions as CSV")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="a page with the photographs, .html"
    )
    _options.workers(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit, print the top of the list, write all of it."""
    if args.report is not None:
        audit_page.check(args.report)
    with _options.active(args):
        samples = ScoringJob([args.captions], images=args.images).read(_options.say(args))
        result = audit(
            samples,
            args.by,
            others=args.others,
            seed=_options.seed(args),
            executor=_options.executor(args),
        )
    captions = samples.captions()
    cells = [["id", "caption", args.by, "remarks"]]
    for row in result.order[: args.rows].tolist():
        text = captions[row] if len(captions[row]) <= 60 else captions[row][:59] + "…"
        cells.append(
            [str(samples.ids[row]), text, f"{result.fit[row]:.4f}", "; ".join(result.remarks(row))]
        )
    sys.stdout.write(grids.grid(cells, "text") + "\n")
    generic, copies = int((result.nearer >= 0.5).sum()), int((result.copies > 0).sum())
    sys.stdout.write(
        f"\n{len(samples):,} captions; {generic:,} fit half of the other photographs as well as "
        f"their own; {copies:,} are also under another photograph\n"
    )
    if args.output is not None:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["id", "image", "caption", args.by, "nearer_share", "copies", "remarks"])
        for row in result.order.tolist():
            writer.writerow([samples.ids[row], samples.images[row], captions[row],
                             result.fit[row], result.nearer[row], result.copies[row],
                             "; ".join(result.remarks(row))])  # fmt: skip
        with replacing(args.output) as file:
            file.write(out.getvalue())
        if not args.quiet:
            _options.remark(f"wrote {args.output}")
    if args.report is not None:
        audit_page.write(
            result, args.report, metric=args.by, others=args.others, seed=_options.seed(args)
        )
        if not args.quiet:
            _options.remark(f"wrote {args.report}")
    return 0
