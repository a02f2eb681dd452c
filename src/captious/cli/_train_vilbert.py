"""``captious train vilbert``: data in, a folder with weights, configuration, card and curve out."""

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
    parser.add_argument("--text", default="minilm",
                        help="encoder that the text stream starts from, or none")  # fmt: skip
    parser.add_argument("--teacher", default="minilm",
                        help="text encoder that finds similar photographs, or none")  # fmt: skip
    parser.add_argument("--start", type=Path, metavar="FOLDER",
                        help="folder of an earlier run to begin with")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE",
                        help="configuration of the network (default: a compact one)")  # fmt: skip
    parser.add_argument("--frozen-layers", type=int, default=4, metavar="N",
                        help="first text layers that stay as they were")  # fmt: skip
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=32, help="photographs per batch")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--validate", type=int, default=200, metavar="STEPS")


def run(args: argparse.Namespace) -> int:
    """Train, then write the folder; a stopped run goes on when started again."""
    from captious.models.train.scan_run import Sources
    from captious.models.train.vilbert import COMPACT
    from captious.models.train.vilbert_batches import VilbertOptions
    from captious.models.train.vilbert_run import train
    from captious.models.vilbert_config import read_config

    options = VilbertOptions(
        steps=args.steps,
        images=args.batch,
        learning_rate=args.rate,
        validate=args.validate,
        frozen_layers=args.frozen_layers,
        seed=args.seed or 1,
    )
    sources = Sources(
        captions=args.captions,
        regions=args.regions,
        train=args.train,
        dev=args.dev,
        teacher=None if args.teacher == "none" else args.teacher,
        word_vectors=None,
    )
    config = read_config(args.config) if args.config is not None else COMPACT
    text = None if args.text == "none" else args.text

    def report(entry: dict[str, Any]) -> None:
        if not args.quiet:
            told = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in entry.items())  # fmt: skip
            _options.remark("  ".join(told))

    folder = train(sources, config, options, args.output, text, report, args.start)
    _options.remark(f"wrote {folder}; use it as vilbertscore(weights='{folder}')")
    return 0
