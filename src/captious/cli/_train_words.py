"""``captious train words``: captions and regions in, a folder with a word detector out."""

from __future__ import annotations

import argparse
from typing import Any

from captious.cli import _options, _train_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    _train_options.add_data(parser)
    _train_options.add_run(parser, steps=2000, batch=128, inner=768, validate=500)
    parser.add_argument("--words", type=int, default=1000, metavar="N",
                        help="number of nouns to detect, the most frequent first")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train, then write the folder."""
    from captious.training.scan_run import Sources
    from captious.training.words import WordOptions, train

    options = WordOptions(
        words=args.words,
        steps=args.steps,
        images=args.batch,
        inner=args.inner,
        learning_rate=args.rate,
        validate=args.validate,
        bfloat16=args.bfloat16,
        seed=args.seed or 1,
    )
    sources = Sources(
        captions=args.captions, regions=args.regions, train=args.train, dev=args.dev, teacher=None
    )

    def report(entry: dict[str, Any]) -> None:
        if not args.quiet:
            _options.remark("  ".join(f"{k} {v:.4g}" for k, v in entry.items()))

    folder = train(sources, options, args.output, report)
    _options.remark(f"wrote {folder}; use it as captious detect --detector {folder}")
    return 0
