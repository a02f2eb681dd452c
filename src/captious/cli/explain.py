"""``captious explain``: why did this caption get its score?"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from captious import registry
from captious.cli import _options
from captious.engine.explain import explain
from captious.engine.job import ScoringJob
from captious.errors import InputError, UsageError
from captious.io import files
from captious.metrics.base import Metric
from captious.types import CaptionSet


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "explain",
        help="say why one caption got its score",
        description="Explain one caption: a row of a caption file (--id), or a text. Examples: "
        "captious explain caps.json --refs refs.json --id 42 -m meteor; "
        "captious explain -c 'a dog runs' -R 'a dog is running' -m meteor -o why.png",
    )
    parser.add_argument("captions", nargs="*", type=Path, metavar="CAPTIONS", help="caption file")
    parser.add_argument("--id", help="the caption of the file to explain")
    parser.add_argument("--system", help="its system, where the file holds several")
    parser.add_argument(
        "--caption",
        "-c",
        action="append",
        metavar="TEXT",
        help="explain this text instead; several texts of one image are shown side by side",
    )
    parser.add_argument(
        "--reference",
        "-R",
        action="append",
        default=[],
        metavar="TEXT",
        help="a reference of --caption; may be repeated",
    )
    parser.add_argument("--image", metavar="FILE", help="the picture of --caption")
    parser.add_argument("--refs", "-r", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--images", type=Path, metavar="FOLDER")
    parser.add_argument("--objects", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--regions", type=Path, metavar="STORE")
    parser.add_argument("--names", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--metric", "-m", default="bleu", help="which metric (default: bleu)")
    parser.add_argument("--format", "-f", choices=["text", "json"], default="text")
    parser.add_argument(
        "--output", "-o", "--svg", dest="output", type=Path, metavar="FILE",
        help="write the picture here (.svg or .png)",
    )  # fmt: skip
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain one caption."""
    if args.output is not None and args.output.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"{args.output}: pictures are written as .svg or .png")
    metric = registry.create(args.metric)
    with _options.active(args):
        job = _job(args, metric)
        job.check()
        samples = job.read(_options.say(args))
        found = [explain(samples, metric, row) for row in _rows(args, samples)]
    if args.output is not None:
        from captious.report.pictures import draw
        from captious.report.pictures.side_by_side import joined

        drawn = [picture for one in found if (picture := draw(one)) is not None]
        if len(drawn) < len(found):
            raise UsageError(f"{metric.name} explains this caption in words only, not as a picture")
        if args.output.suffix.lower() == ".png":
            from captious.report.raster import save_png

            save_png(joined(drawn), args.output)
        else:
            with files.replacing(args.output) as file:
                file.write(joined(drawn))
        _options.remark(f"wrote {args.output}")
    if args.format == "json":
        told = found[0].data if len(found) == 1 else [one.data for one in found]
        sys.stdout.write(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    elif len(found) == 1:
        sys.stdout.write(found[0].text + "\n")
    else:
        parts = zip(args.caption, found, strict=True)
        sys.stdout.write("\n\n".join(f"{text}\n{one.text}" for text, one in parts) + "\n")
    return 0


def _job(args: argparse.Namespace, metric: Metric) -> ScoringJob:
    """Return the job that holds the captions to explain."""
    if args.caption is None:
        if not args.captions or args.id is None:
            raise UsageError("name a caption file and --id, or give --caption TEXT")
        return _options.job(args, (metric,))
    if args.captions:
        raise UsageError("give a caption file with --id, or --caption TEXT, not both")
    count = len(args.caption)
    return _options.job(
        args,
        (metric,),
        captions=list(args.caption),
        references=[args.reference] * count,
        images=None if args.image is None else [args.image] * count,
    )


def _rows(args: argparse.Namespace, samples: CaptionSet) -> list[int]:
    """Return the rows to explain."""
    if args.caption is not None:
        return list(range(len(samples)))
    named = zip(samples.ids, samples.systems, strict=True)
    for row, (name, system) in enumerate(named):
        if name == args.id and args.system in (None, system):
            return [row]
    raise InputError(
        f"{args.captions[0]}: no caption has the id {args.id!r}"
        + (f" and the system {args.system!r}" if args.system else "")
    )
