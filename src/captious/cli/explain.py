"""``captious explain``: why did this caption get its score?"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from captious import registry
from captious.cli import _options
from captious.engine.explain import explain
from captious.engine.job import ScoringJob
from captious.errors import CaptiousError, InputError, UsageError, did_you_mean
from captious.io import files
from captious.metrics.base import Metric
from captious.types import CaptionSet, Explanation

_ENDINGS = (".svg", ".png", ".html")


@dataclass(frozen=True)
class Told:
    """One explanation, with the caption and the metric that it is of."""

    caption: str
    metric: str
    explanation: Explanation


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "explain",
        description="Explain one caption: a row of a caption file (--id), or a text. Examples: "
        "captious explain caps.json --refs refs.json --id 42 -m meteor; "
        "captious explain -c 'a dog runs' -R 'a dog is running' -m meteor,bleu -o why.html",
    )
    parser.add_argument("captions", nargs="*", type=Path, metavar="CAPTIONS", help="caption file")
    parser.add_argument("--id", help="id of the caption to explain")
    parser.add_argument("--system", help="its system, if the file holds several")
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
    parser.add_argument("--image", metavar="FILE", help="the image of --caption")
    _options.references(parser)
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="folder of the photographs")
    parser.add_argument("--objects", type=Path, nargs="+", metavar="FILE",
                        help="object labels of the images")  # fmt: skip
    parser.add_argument("--regions", type=Path, nargs="+", metavar="STORE",
                        help="region features of the images")  # fmt: skip
    parser.add_argument("--names", nargs="+", help=argparse.SUPPRESS)
    _options.metrics(parser, "bleu", "metrics, separated by commas or spaces (default: bleu)")
    parser.add_argument("--format", "-f", choices=["text", "json"], default="text")
    parser.add_argument(
        "--output", "-o", "--svg", dest="output", type=Path, metavar="FILE",
        help="write the picture here (.svg, .png), or a page of words and pictures (.html)",
    )  # fmt: skip
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain one caption, or several of one image, by one metric or several."""
    if args.output is not None and args.output.suffix.lower() not in _ENDINGS:
        raise UsageError(f"{args.output}: explanations are written as {' or '.join(_ENDINGS)}")
    metrics = [metric for metric, _ in registry.create_many(args.metrics)]
    with _options.active(args):
        job = _job(args, metrics)
        job.check()
        samples = job.read(_options.say(args))
        rows = _rows(args, samples)
        explained, refused = [], []
        for metric in metrics:
            try:
                explained += [
                    Told(samples[row].caption, metric.name, explain(samples, metric, row))
                    for row in rows
                ]
            except CaptiousError as error:
                if len(metrics) == 1:
                    raise
                refused.append(error)
        if not explained:
            raise CaptiousError("\n".join(map(str, refused)))
        for reason in refused:
            _options.remark(str(reason))
    if args.output is not None:
        _write(args.output, explained, len(rows))
        if not args.quiet:
            _options.remark(f"wrote {args.output}")
    if args.format == "json":
        told: list[Any] = [entry.explanation.data for entry in explained]
        if len(metrics) > 1:
            told = [
                {"metric": entry.metric, "caption": entry.caption, **entry.explanation.data}
                for entry in explained
            ]
        whole = told[0] if len(told) == 1 else told
        sys.stdout.write(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        return 0
    parts = []
    for entry in explained:
        head = f"{entry.caption}\n" if len(rows) > 1 else ""
        head = f"-- {entry.metric} --\n{head}" if len(metrics) > 1 else head
        parts.append(head + entry.explanation.text.rstrip())
    sys.stdout.write("\n\n".join(parts) + "\n")
    return 0


def _write(path: Path, explained: list[Told], across: int) -> None:
    """Write pictures: captions side by side, metrics one below the other; or a page of all."""
    from captious.report.pictures import draw
    from captious.report.pictures.side_by_side import joined, stacked

    if path.suffix.lower() == ".html":
        from captious.report.why import page

        with files.replacing(path) as file:
            file.write(
                page([(entry.metric, entry.caption, entry.explanation) for entry in explained])
            )
        return
    drawn = [draw(entry.explanation) for entry in explained]
    silent = next((entry for entry, svg in zip(explained, drawn, strict=True) if svg is None), None)
    if silent is not None:
        raise UsageError(
            f"{silent.metric} explains this caption in words only, not as a picture; "
            "an .html page holds words too"
        )
    known = [svg for svg in drawn if svg is not None]
    lines = [joined(known[k : k + across]) for k in range(0, len(known), across)]
    if path.suffix.lower() == ".png":
        from captious.report.raster import save_png

        save_png(stacked(lines), path)
    else:
        with files.replacing(path) as file:
            file.write(stacked(lines))


def _job(args: argparse.Namespace, metrics: list[Metric]) -> ScoringJob:
    """Return the job that holds the captions to explain."""
    if args.caption is None:
        if not args.captions:
            raise UsageError("give a caption file and --id, or --caption TEXT")
        return _options.job(args, tuple(metrics))
    if args.captions:
        raise UsageError("give a caption file with --id, or --caption TEXT, not both")
    count = len(args.caption)
    texts = [*(args.reference or []), *map(str, args.refs or [])]
    files_named = [text for text in map(str, args.refs or []) if Path(text).exists()]
    if files_named:
        raise UsageError(
            f"with --caption, references are texts, and {files_named[0]} is a file; "
            "give the file of captions with --id instead"
        )
    args.refs = None
    return _options.job(
        args,
        tuple(metrics),
        captions=list(args.caption),
        references=[texts] * count,
        images=None if args.image is None else [args.image] * count,
    )


def _rows(args: argparse.Namespace, samples: CaptionSet) -> list[int]:
    """Return the rows to explain."""
    if args.caption is not None:
        return list(range(len(samples)))
    if args.id is None:
        some = _some_ids(samples)
        raise UsageError(f"{args.captions[0]}: which caption? Name it with --id: {some}")
    named = zip(samples.ids, samples.systems, strict=True)
    for row, (name, system) in enumerate(named):
        if name == args.id and args.system in (None, system):
            return [row]
    raise InputError(
        f"{args.captions[0]}: no caption has the id {args.id!r}"
        + (f" and the system {args.system!r}." if args.system else ".")
        + (
            did_you_mean(args.id, islice(dict.fromkeys(map(str, samples.ids)), 20_000))
            or f" Its ids: {_some_ids(samples)}"
        )
    )


def _some_ids(samples: CaptionSet) -> str:
    ids = list(islice(dict.fromkeys(map(str, samples.ids)), 4))
    return ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")
