"""``captious train words``: captions and regions in, a folder with a word detector out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    parser.add_argument("--regions", type=Path, required=True, metavar="STORE",
                        help="region features of the train and dev photographs")  # fmt: skip
    parser.add_argument("--captions", type=Path, required=True, metavar="FILE",
                        help="Karpathy JSON (with its splits), or IMAGE#N TAB CAPTION")  # fmt: skip
    parser.add_argument("--train", type=Path, metavar="LIST", help="names of the train images")
    parser.add_argument("--dev", type=Path, metavar="LIST", help="names of the dev images")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--words", type=int, default=1000, metavar="N",
                        help="how many nouns, the most frequent ones")  # fmt: skip
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=128, help="photographs per batch")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--inner", type=int, default=768, help="width inside")
    parser.add_argument("--validate", type=int, default=500, metavar="STEPS")
    parser.add_argument("--bfloat16", action="store_true",
                        help="large products in bfloat16: faster if the processor supports it"
                        )  # fmt: skip


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
