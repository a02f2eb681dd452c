"""``captious train scan``: data in, a folder with weights, vocabulary, model card and curve out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious.cli import _options, _train_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    _train_options.add_data(parser)
    parser.add_argument("--flipped", type=Path, metavar="STORE",
                        help="features of the mirrored train photographs")  # fmt: skip
    parser.add_argument("--teacher", default="minilm",
                        help="text encoder whose similarity grades the pairs, or none")  # fmt: skip
    parser.add_argument("--word-vectors", default="glove-6b-50d", metavar="NAME",
                        help="vectors that word embeddings start from, or none")  # fmt: skip
    parser.add_argument("--words", type=Path, metavar="LIST",
                        help="more words for the vocabulary, one per line")  # fmt: skip
    parser.add_argument("--direction", choices=("i2t", "t2i"), default="i2t",
                        help="what attends to what: regions to words (i2t), or words to regions "
                        "(default: i2t)")  # fmt: skip
    parser.add_argument("--aggregate", choices=("Mean", "LogSumExp", "Max", "Sum"), default="Mean")
    parser.add_argument("--hardest", action="store_true",
                        help="hinge loss on the hardest negatives only")  # fmt: skip
    parser.add_argument("--size", type=int, default=256, help="length of the joint vectors")
    parser.add_argument("--word-size", type=int, default=256, help="length of the word embeddings")
    parser.add_argument("--steps", type=int, default=4000, help="training steps (default: 4000)")
    parser.add_argument("--batch", type=int, default=48, help="photographs per batch")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--validate", type=int, default=250, metavar="STEPS",
                        help="steps between validations (default: 250)")  # fmt: skip
    parser.add_argument("--join", type=Path, nargs="+", default=[], metavar="FOLDER",
                        help="models of other seeds, to combine with this one")  # fmt: skip
    parser.add_argument("--start", type=Path, metavar="FOLDER",
                        help="start from the weights and words of this earlier run")  # fmt: skip
    parser.add_argument("--select", choices=("graded", "rsum"), default="graded",
                        help="which measure on dev chooses the best checkpoint")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train, then write the folder."""
    from captious.metrics.tiger import Tiger
    from captious.training.scan import TrainOptions
    from captious.training.scan_run import Sources, train

    options = TrainOptions(
        steps=args.steps,
        images=args.batch,
        learning_rate=args.rate,
        hardest=args.hardest,
        validate=args.validate,
        graded=0.0 if args.teacher == "none" else 1.0,
        seed=args.seed or 1,
    )
    sources = Sources(
        captions=args.captions,
        regions=args.regions,
        flipped=args.flipped,
        train=args.train,
        dev=args.dev,
        words=args.words,
        teacher=None if args.teacher == "none" else args.teacher,
        word_vectors=None if args.word_vectors == "none" else args.word_vectors,
    )
    shape = {
        "cross_attn": args.direction,
        "agg_func": args.aggregate,
        "embed_size": args.size,
        "word_dim": args.word_size,
    }

    def report(entry: dict[str, Any]) -> None:
        if not args.quiet:
            _options.remark(_train_options.line(entry))

    folder = train(
        sources,
        shape,
        options,
        args.output,
        Tiger().compare,
        args.select,
        report,
        args.join,
        args.start,
    )
    _options.remark(f"wrote {folder}; use it as tiger(model='{folder}')")
    return 0
