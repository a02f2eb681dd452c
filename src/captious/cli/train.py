"""``captious train TARGET``: train one of the models that captious uses."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from captious.cli import _options

# target -> (module with `add_arguments(parser)` and `run(args) -> int`, what it trains). A trainer
# is imported only when its target is asked for by name, so that the command line stays light.
TARGETS: dict[str, tuple[str, str]] = {
    "eyes": ("captious.cli._train_eyes", "the last stage of the backbone that fit looks with"),
    "fit": ("captious.cli._train_fit", "the two-vector model behind the metric fit"),
    "scan": ("captious.cli._train_scan", "SCAN, the grounding model of TIGEr"),
    "words": ("captious.cli._train_words", "the word detector behind captious detect"),
    "vilbert": ("captious.cli._train_vilbert", "a compact ViLBERT for vilbertscore"),
    "composite": ("captious.cli._train_composite", "a composite: one score from several metrics"),
    "lm": ("captious.cli._train_lm", "the language model of captions behind the metric lm"),
}


def add_parser(subs: Any) -> None:
    """Register the verb with one sub-command per target."""
    parser = subs.add_parser("train", description="Train one of the models that captious uses.")
    targets = parser.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, (module, what) in TARGETS.items():
        trainer = targets.add_parser(name, help=what)
        import_module(module).add_arguments(trainer)
        _options.running(trainer)
        trainer.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Hand over to the target's trainer."""
    with _options.active(args):
        return int(import_module(TARGETS[args.target][0]).run(args))
