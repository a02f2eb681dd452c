"""``captious train fit``: data in, a folder with weights, pieces, model card and curve out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options, _train_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    _train_options.add_data(parser)
    _train_options.add_run(parser, steps=1500, batch=512, inner=512, validate=250)
    parser.add_argument("--encoder", default="minilm",
                        help="frozen text encoder, which also grades the pairs"
                        )  # fmt: skip
    parser.add_argument("--graded", type=float, default=1.0, help="weight of the graded loss")
    parser.add_argument("--group", type=int, default=4,
                        help="similar photographs that are drawn together; 1 = none"
                        )  # fmt: skip
    parser.add_argument("--size", type=int, default=512, help="length of the vectors")
    parser.add_argument("--join", type=Path, nargs="+", default=[], metavar="FOLDER",
                        help="models of other seeds, to combine with this one")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train, then write the folder."""
    from captious.training.fit import FitOptions
    from captious.training.fit_run import train
    from captious.training.scan_run import Sources

    options = FitOptions(
        steps=args.steps,
        images=args.batch,
        group=args.group,
        learning_rate=args.rate,
        graded=args.graded,
        validate=args.validate,
        bfloat16=args.bfloat16,
        seed=args.seed or 1,
    )
    sources = Sources(
        captions=args.captions,
        regions=args.regions,
        train=args.train,
        dev=args.dev,
        teacher=args.encoder,
    )

    def report(entry: dict[str, Any]) -> None:
        if not args.quiet:
            _options.remark(_train_options.line(entry))

    shape = {"dim": args.size, "inner": args.inner}
    folder = train(sources, shape, options, args.output, report, args.join)
    _options.remark(f"wrote {folder}; use it as fit(model='{folder}')")
    return 0
