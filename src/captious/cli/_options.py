"""Options that several verbs share, and the loading that goes with them."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from captious import settings
from captious.engine import evidence
from captious.io.load import load
from captious.types import CaptionSet


def data(parser: argparse.ArgumentParser, several: bool = True) -> None:
    """Add the arguments that name the input."""
    parser.add_argument(
        "captions",
        nargs="+" if several else 1,
        type=Path,
        metavar="CAPTIONS",
        help="caption file: COCO results, JSON, JSONL, CSV, TSV, parquet, TXT, each also .gz; "
        "several files are several systems",
    )
    parser.add_argument(
        "--refs",
        "-r",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="references: COCO annotations, Karpathy JSON, {id: [texts]}, or parallel text files; "
        "not needed if the caption file holds them",
    )
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="folder of the photographs")
    parser.add_argument(
        "--objects",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="object labels of the images (VOC, COCO, Open Images, JSON, CSV, parquet); "
        "several files are united",
    )
    parser.add_argument(
        "--regions", type=Path, metavar="STORE", help="region features of the images"
    )
    parser.add_argument("--names", nargs="+", metavar="NAME", help="a name for each caption file")


def running(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how to run."""
    group = parser.add_argument_group("running")
    group.add_argument("--device", help="auto, cpu, cuda, mps (default: auto)")
    group.add_argument("--threads", type=int, help="upper bound of worker threads")
    group.add_argument("--cache", type=Path, help="folder for converted tables and embeddings")
    group.add_argument("--seed", type=int, help="seed of every random draw (default: 12345)")
    group.add_argument(
        "--download", action="store_true", help="allow fetching missing weights and tables"
    )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress, no remarks")


def active(args: argparse.Namespace) -> AbstractContextManager[settings.Settings]:
    """Return the settings that the options ask for, to be used in a ``with`` block."""
    changes: dict[str, Any] = {
        "device": args.device,
        "threads": args.threads,
        "cache_dir": args.cache,
        "seed": args.seed,
        "download": args.download or None,
        "progress": False if args.quiet else None,
        "regions": getattr(args, "regions", None),
    }
    return settings.use(**{k: v for k, v in changes.items() if v is not None})


def read(args: argparse.Namespace) -> CaptionSet:
    """Load what the data options name."""
    samples = load(
        list(args.captions),
        args.refs,
        images=args.images,
        systems=args.names,
        say=None if args.quiet else remark,
    )
    return evidence.labelled(samples, args.objects) if args.objects else samples


def remark(text: str) -> None:
    """Say something that is no data."""
    print(f"captious: {text}", file=sys.stderr)
