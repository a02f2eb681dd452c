"""``captious train vilbert``: data in, a folder with weights, configuration, card and curve out."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious import assets
from captious.cli import _options, _train_options
from captious.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    _train_options.add_data(parser)
    parser.add_argument("--text", default="minilm",
                        help="encoder that the text stream starts from, or none")  # fmt: skip
    parser.add_argument("--teacher", default="minilm",
                        help="text encoder that finds similar photographs, or none")  # fmt: skip
    parser.add_argument("--start", type=Path, metavar="PATH",
                        help="an earlier run to start from (or a file in its run/)")  # fmt: skip
    parser.add_argument("--look", metavar="MODEL",
                        help="learn to look from a grounding model (scan-coco, "
                        "or a folder)")  # fmt: skip
    parser.add_argument("--whole", metavar="MODEL",
                        help="with --look: a model of fit that judges whole captions "
                        "beside it")  # fmt: skip
    parser.add_argument("--flipped", type=Path, metavar="STORE",
                        help="features of the mirrored train photographs")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE",
                        help="configuration of the network (default: a compact one)")  # fmt: skip
    parser.add_argument("--frozen-layers", type=int, metavar="N",
                        default=4, help="first text layers to keep frozen")  # fmt: skip
    parser.add_argument(
        "--steps", type=int, help="training steps (default: 1600; with --look 1000)"
    )
    parser.add_argument("--batch", type=int, default=32, help="photographs per batch")
    parser.add_argument("--bfloat16", action="store_true", help=_train_options.BFLOAT16)
    parser.add_argument("--rate", type=float, help="learning rate (default: 0.0005)")
    parser.add_argument(
        "--validate",
        type=int,
        metavar="STEPS",
        help="steps between validations (default: 200; with --look 100)",
    )


def run(args: argparse.Namespace) -> int:
    """Train, then write the folder; a stopped run goes on when started again."""
    from captious.metrics.scan import FUNCTION_WORDS
    from captious.models.vilbert_config import read_config
    from captious.training.scan_run import Sources
    from captious.training.vilbert import COMPACT
    from captious.training.vilbert_batches import VilbertOptions
    from captious.training.vilbert_looking import LOOK
    from captious.training.vilbert_run import train

    if args.whole and not args.look:
        raise UsageError("--whole helps to learn to look: give a grounding model with --look")
    if args.look and args.start is None and args.text == "none":
        raise UsageError("--look begins with a text encoder (--text) or with a run (--start)")
    config = read_config(args.config) if args.config is not None else COMPACT
    recipe = LOOK if args.look else VilbertOptions()
    asked = {
        "steps": args.steps,
        "images": args.batch,
        "learning_rate": args.rate,
        "validate": args.validate,
        "frozen_layers": args.frozen_layers,
        "bfloat16": args.bfloat16,
        "seed": args.seed or 1,
    }
    options = replace(recipe, **{k: v for k, v in asked.items() if v is not None})
    sources = Sources(
        captions=args.captions,
        regions=args.regions,
        flipped=args.flipped,
        train=args.train,
        dev=args.dev,
        teacher=None if args.teacher == "none" else args.teacher,
        word_vectors=None,
    )
    looking = None
    if args.look:
        looking = Path(args.look)
        if not looking.is_dir():
            looking = assets.resolve(args.look, wanted_by="train vilbert --look")
    text = None if args.text == "none" else args.text

    def report(entry: dict[str, Any]) -> None:
        if not args.quiet:
            told = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                    for k, v in entry.items())  # fmt: skip
            _options.remark("  ".join(told))

    folder = train(
        sources, config, options, args.output, text, report, args.start, looking,
        FUNCTION_WORDS, args.whole,
    )  # fmt: skip
    _options.remark(f"wrote {folder}; use it as vilbertscore(model='{folder}')")
    return 0
