"""``captious score``: captions in, scores out."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious import assets, registry, settings
from captious.cli import _options
from captious.engine.plan import DEFAULT, steps_for
from captious.engine.run import run as run_metrics
from captious.engine.table import ScoreTable
from captious.errors import UsageError
from captious.io import tables
from captious.statistics import bootstrap


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "score",
        help="score captions against references and images",
        description="Score one or more caption files. Example: "
        "captious score caps.json --refs refs.json --metrics bleu,meteor,cider_d",
    )
    _options.data(parser)
    add_scoring(parser)
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="write here; the ending tells the format; a killed run resumes",
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
        default="10",
        metavar="N",
        help="captions shown by text formats: a number or 'all' (default: 10)",
    )
    _options.running(parser)
    parser.set_defaults(run=run)


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose metrics."""
    parser.add_argument(
        "--metrics",
        "-m",
        default=",".join(DEFAULT),
        metavar="LIST",
        help="metrics with commas between, e.g. \"bleu,cider_d(df='coco-val')\"; "
        "`captious metrics` lists them (default: %(default)s)",
    )
    parser.add_argument("--no-intervals", action="store_true", help="no bootstrap intervals")


def run(args: argparse.Namespace) -> int:
    """Score and write."""
    rows = None if args.rows == "all" else _number(args.rows)
    with _options.active(args):
        table = compute(args, parts=_parts(args.output))
    if args.output is not None:
        tables.save(table, args.output, args.format)
        shutil.rmtree(_parts(args.output) or Path(), ignore_errors=True)
        if not args.quiet:
            _options.remark(f"wrote {args.output}")
    else:
        sys.stdout.write(tables.render(table, args.format or "text", rows))
    return 0


def compute(args: argparse.Namespace, parts: Path | None = None) -> ScoreTable:
    """Load, score, and note how it was done so that ``captious verify`` can do it again."""
    steps_for(args.metrics)  # wrong names are reported before a large file is read
    samples = _options.read(args)
    resamples = 0 if args.no_intervals else bootstrap.RESAMPLES
    table = run_metrics(samples, args.metrics, resamples=resamples, parts=parts)
    done = {
        "captions": [_file(p) for p in args.captions],
        "refs": [_file(p) for p in args.refs or ()],
        "objects": [_file(p) for p in args.objects or ()],
        "images": None if args.images is None else str(args.images),
        "regions": None if args.regions is None else str(args.regions),
        "names": args.names,
        "metrics": [registry.text_form(s.metric) for s in table.steps],
        "columns": list(table.values),
        "resamples": resamples,
        "seed": settings.get().seed,
    }
    return replace(table, run=done)


def _file(path: Path) -> dict[str, str]:
    return {"path": str(path), "sha256": assets.digest(path)}


def _parts(output: Path | None) -> Path | None:
    return None if output is None else output.with_name(f".{output.name}.parts")


def _number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"--rows takes a number or 'all', not {text!r}")
    return int(text)
