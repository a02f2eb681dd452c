"""``captious train lm``: the language model behind the metric ``lm``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the trainer's options."""
    parser.add_argument(
        "--captions",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="caption or reference files; the COCO training captions of the "
        "pycocoevalcap wheel if none is given",
    )
    parser.add_argument(
        "--broad",
        type=Path,
        metavar="DATA",
        help="the recipe of the shipped model: captions of COCO, Flickr30k, Flickr8k and nocaps in "
        "this data folder",
    )
    parser.add_argument(
        "--held-out",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="text to validate on (default: 5,000 COCO validation captions, or "
        "every 50th caption of --captions)",
    )
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FOLDER",
                        help="folder for the model")  # fmt: skip
    parser.add_argument("--epochs", type=int, default=3, help="passes over the captions")
    parser.add_argument("--rate", type=float, default=4e-3, help="learning rate")
    parser.add_argument("--hidden", type=int, default=320, help="size of the hidden layer")
    parser.add_argument("--embedding", type=int, default=256, help="size of the word embeddings")


def run(args: argparse.Namespace) -> int:
    """Read the text and train."""
    from captious.training import lm

    if args.captions:
        texts = _texts(args.captions)
        held = _texts(args.held_out) if args.held_out else texts[::50]
        texts = texts if args.held_out else [t for i, t in enumerate(texts) if i % 50]
    else:
        texts = lm.broad_captions(args.broad) if args.broad else lm.coco_captions("train")
        held = _texts(args.held_out) if args.held_out else lm.coco_captions("val")[::40][:5000]
    recipe = lm.Recipe(
        epochs=args.epochs,
        rate=args.rate,
        hidden=args.hidden,
        embedding=args.embedding,
        seed=0 if args.seed is None else args.seed,
    )
    lm.train(
        texts, held, args.output, recipe, say=lambda line: print(line, file=sys.stderr, flush=True)
    )
    return 0


def _texts(paths: list[Path]) -> list[str]:
    from captious.io import sources

    out: list[str] = []
    for path in paths:
        content = sources.read(path)
        for column in (content.caption, content.references):
            for entry in column or ():
                out += (
                    [entry]
                    if isinstance(entry, str)
                    else [t for t in entry or () if isinstance(t, str)]
                )
    return out
