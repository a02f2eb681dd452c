"""``captious df``: make document-frequency tables for CIDEr."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.errors import InputError
from captious.io.references import References
from captious.text import document_frequency
from captious.types import CaptionSet


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser("df", description="Build or show document frequencies for CIDEr.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="count n-grams of references and save the table")
    build.add_argument("refs", nargs="+", type=Path, help="reference files")
    build.add_argument("--output", "-o", type=Path, required=True, help="table to write (.npz)")
    build.add_argument("--tokenizer", default="ptb", help="how texts become words (default: ptb)")
    build.add_argument("--stem", action="store_true", help="stem the words, as cider(stem=true)")
    _options.running(build)
    build.set_defaults(run=run_build)
    show = actions.add_parser("show", help="say what a table holds")
    show.add_argument("table", help="a file, or coco-val")
    show.add_argument("--tokenizer", default="ptb", help="the tokeniser it was built with")
    show.add_argument("--stem", action="store_true", help="it was built with --stem")
    show.set_defaults(run=run_show)


def run_build(args: argparse.Namespace) -> int:
    """Count and save."""
    if args.output.suffix != ".npz":
        raise InputError(f"{args.output}: the table is written as .npz; name it FILE.npz")
    problems: list[str] = []
    with _options.active(args):
        refs = References(args.refs, problems)
        if problems:
            raise InputError(problems)
        lists = refs.by_row if refs.by_row is not None else list(refs.by_id.values())
        names = [str(i) for i in range(len(lists))] if refs.by_row is not None else list(refs.by_id)
        rows = [[r] if isinstance(r, str) else list(r) for r in lists]
        samples = CaptionSet.build([""] * len(rows), rows, ids=names)
        table = document_frequency.count(samples, args.tokenizer, args.stem, "image")
        table.save(args.output)
    _options.remark(
        f"wrote {args.output}: {table.documents:,} images; use it as cider_d(df='{args.output}')"
    )
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Say what a table holds."""
    table = document_frequency.load(args.table, args.tokenizer, args.stem)
    sys.stdout.write(
        f"documents: {table.documents}\ntokenizer: {table.tokenizer}\n"
        f"stem: {table.stem}\nfingerprint: {table.fingerprint}\n"
    )
    for n, grams in enumerate(table.grams, 1):
        sys.stdout.write(f"{n}-grams in two or more documents: {len(grams)}\n")
    return 0
