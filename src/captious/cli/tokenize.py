"""``captious tokenize``: show what a tokeniser makes of text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.io import files
from captious.text import tokenizers


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser("tokenize", description="Tokenise lines of text as the metrics do.")
    parser.add_argument("file", nargs="?", type=Path, help="text file; stdin if none")
    parser.add_argument("--tokenizer", "-t", default="ptb", help="default: ptb")
    parser.add_argument("--list", action="store_true", help="list the tokenisers")
    _options.output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write one line of space-separated tokens per line of input."""
    if args.list:
        lines = [f"{name}\t{tokenizers.get(name).signature}" for name in tokenizers.names()]
        lines += [
            f"{name}\tneeds pip install 'captious[languages]' ({problem})"
            for name, problem in tokenizers.absent().items()
        ]
        _options.write(args, "".join(f"{line}\n" for line in lines))
        return 0
    tokenize = tokenizers.get(args.tokenizer)
    text = files.read_text(args.file) if args.file else sys.stdin.read()
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    _options.write(args, "".join(" ".join(tokenize(line)) + "\n" for line in lines))
    return 0
