"""``captious train eyes``: photographs and captions in, a folder with a last stage out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options, _train_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    parser.add_argument("--photographs", type=Path, required=True, metavar="PHOTOS",
                        help="folder, tar or zip of the train and dev photographs")  # fmt: skip
    _train_options.add_captions(parser)
    parser.add_argument("--backbone", default="efficientnet-lite2", metavar="NAME",
                        help="where training begins: efficientnet-lite0, -lite2 (default), or what "
                        "an earlier run made of them (lite0-captions, lite2-captions)")  # fmt: skip
    parser.add_argument("--blocks", type=int, metavar="COUNT",
                        help="how many of the last blocks learn (default: those at stride 32, "
                        "4 of lite0 and 5 of lite2)")  # fmt: skip
    parser.add_argument("--steps", type=int, default=1000, help="training steps")
    parser.add_argument("--batch", type=int, default=256, help="photographs per batch")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate of the heads")
    parser.add_argument("--tail-rate", type=float, default=2e-4,
                        help="learning rate of the last stage")  # fmt: skip
    parser.add_argument("--frozen", type=int, default=100,
                        help="first steps, in which only the heads learn")  # fmt: skip
    parser.add_argument("--others", type=int, default=1024,
                        help="captions of other photographs beside the batch")  # fmt: skip
    parser.add_argument("--validate", type=int, default=100, metavar="STEPS",
                        help="steps between validations")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train, then write the folder."""
    from captious.training.eyes import EyesOptions
    from captious.training.eyes_run import train
    from captious.training.scan_run import Sources

    options = EyesOptions(
        steps=args.steps,
        images=args.batch,
        learning_rate=args.rate,
        tail_rate=args.tail_rate,
        frozen=args.frozen,
        captions=args.others,
        validate=args.validate,
        seed=args.seed or 1,
        blocks=args.blocks,
    )
    sources = Sources(
        captions=args.captions, regions=args.photographs, train=args.train, dev=args.dev
    )

    def report(entry: dict[str, Any]) -> None:
        if not args.quiet:
            _options.remark(_train_options.line(entry))

    folder = train(args.photographs, sources, args.backbone, options, args.output, report)
    _options.remark(f"wrote {folder}")
    return 0
