"""``captious rerank``: pick the best of several captions per image."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.curate.reranking import rerank
from captious.io.files import replacing


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "rerank",
        help="pick the best of several captions per image",
        description="Candidates are the captions of several files (one per system), or several "
        "rows of one image in one file. Examples: captious rerank a.json b.json c.json --by "
        "cider_d --consensus -o best.json; captious rerank a.json b.json --images photos --by fit",
    )
    _options.data(parser)
    parser.add_argument("--by", required=True, metavar="METRIC", help="the score that decides")
    parser.add_argument(
        "--consensus",
        action="store_true",
        help="take the caption that agrees most with the other candidates (minimum Bayes risk)",
    )
    parser.add_argument("--df", default="coco-val", help="document frequencies (default: coco-val)")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write JSON here")
    _options.workers(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rank and write a file of captions that `captious score` reads."""
    with _options.active(args):
        chosen = rerank(
            _options.read(args),
            args.by,
            consensus=args.consensus,
            df=args.df,
            executor=_options.executor(args),
        )
    rows = [
        {
            "image_id": choice.image,
            "caption": choice.caption,
            "chosen_from": choice.system,
            "score": None if choice.score != choice.score else choice.score,
        }
        for choice in chosen
    ]
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    if args.output is None:
        sys.stdout.write(text)
    else:
        with replacing(args.output) as file:
            file.write(text)
    if not args.quiet:
        counts: dict[str, int] = {}
        for choice in chosen:
            counts[choice.system] = counts.get(choice.system, 0) + 1
        for system, count in sorted(counts.items(), key=lambda item: -item[1]):
            _options.remark(f"{count:,} from {system or 'the file'}")
    return 0
