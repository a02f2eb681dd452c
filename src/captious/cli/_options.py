"""Options that several verbs share, and the loading that goes with them."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from captious import settings
from captious.engine import executors
from captious.engine.executors import Executor
from captious.engine.job import ScoringJob
from captious.errors import UsageError
from captious.io import files
from captious.io.grids import Part
from captious.names import COCO, MEANING
from captious.reading import is_address
from captious.statistics.bootstrap import SEED
from captious.types import CaptionSet


class Files(argparse.Action):
    """Collects files, named by position or after an option such as ``--res``."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Add the files to those that were named before."""
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest, None) or ()), *values])


class Metrics(argparse.Action):
    """Collects metrics or columns; a caption file or a table that follows them stays a file."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Sort words into metrics and files."""
        paths = [word for word in values if "(" not in word and _FILE.search(word)]
        for name in ("captions", "scores"):  # what the positional arguments of the verb are called
            if paths and hasattr(namespace, name):
                held = getattr(namespace, name) or ()
                setattr(namespace, name, [*held, *map(Path, paths)])
                values = [word for word in values if word not in paths]
        setattr(namespace, self.dest, values)


_FILE = re.compile(r"\.(jsonl?|ndjson|csv|tsv|parquet|txt)(\.gz)?$", re.IGNORECASE)


def metrics(parser: argparse.ArgumentParser, default: str = COCO, help: str = "") -> None:
    """Add the option that chooses metrics."""
    parser.add_argument(
        "--metrics", "-m", "--metric", nargs="+", action=Metrics, metavar="METRIC",
        default=[default],
        help=help or "metrics or groups, separated by commas or spaces, e.g. METEOR CIDEr-D "
        "\"cider_d(df='coco-val')\"; groups: " + ", ".join(MEANING) + "; `captious metrics` lists "
        f"them (default: {default})",
    )  # fmt: skip


def output(parser: argparse.ArgumentParser) -> None:
    """Add ``--output`` to a verb that prints."""
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="also write what is printed to this file"
    )


def write(args: argparse.Namespace, text: str, parts: Sequence[Part] = ()) -> None:
    """Print a result, and write it to ``--output`` if one is named.

    Args:
        args: the options.
        text: the result as plain text.
        parts: its tables, which are drawn where stdout is a terminal.
    """
    if parts and sys.stdout.isatty():
        from captious.cli import _terminal

        _terminal.draw(parts)
    else:
        sys.stdout.write(text)
    if args.output is not None:
        with files.replacing(args.output) as file:
            file.write(text)
        if not getattr(args, "quiet", False):
            remark(f"wrote {args.output}")


def data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the input."""
    parser.add_argument(
        "captions",
        nargs="*",
        type=place,
        action=Files,
        metavar="CAPTIONS",
        help="caption file: COCO results, JSON, JSONL, CSV, TSV, parquet, TXT, each also .gz; "
        "several files are several systems; `score` also takes folders, globs, tar files and URLs",
    )
    parser.add_argument(
        "--res", "--captions", "--candidates", "--predictions", "--results", dest="captions",
        nargs="+", type=place, action=Files, help=argparse.SUPPRESS,
    )  # fmt: skip
    references(parser)
    parser.add_argument(
        "--skip-unmatched",
        action="store_true",
        help="leave out captions that have no references or no image file",
    )
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="folder of the photographs")
    parser.add_argument(
        "--objects",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="object labels of the images (VOC, COCO, Open Images, JSON, CSV, parquet); "
        "labels of several files are merged",
    )
    parser.add_argument(
        "--regions",
        type=Path,
        nargs="+",
        metavar="STORE",
        help="region features of the images; several stores hold features of several kinds",
    )
    parser.add_argument("--names", nargs="+", metavar="NAME", help="a name for each caption file")


def place(text: str) -> Any:
    """Return the path that an argument names; an address (``s3://...``) stays as it is."""
    return text if is_address(text) else Path(text)


def references(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the references."""
    parser.add_argument(
        "--refs",
        "-r",
        "--references",
        "--gts",
        dest="refs",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="references: COCO annotations, Karpathy JSON, {id: [texts]}, or parallel text files; "
        "not needed if the caption file holds them",
    )


def running(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how to run."""
    group = parser.add_argument_group("running")
    group.add_argument("--device", help="auto, cpu, cuda, mps (default: auto)")
    group.add_argument("--threads", type=int, help="use at most this many threads")
    group.add_argument("--cache", type=Path, help="folder for converted tables and embeddings")
    group.add_argument("--seed", type=int, help="random seed (default: 12345)")
    group.add_argument(
        "--download", action="store_true", help="download missing weights and tables"
    )
    group.add_argument("--quiet", "-q", action="store_true", help="no progress bars, no notes")


def workers(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say who does the work."""
    group = parser.add_argument_group("scale")
    group.add_argument(
        "--engine",
        choices=("local", "processes", "ray"),
        default="local",
        help="where to run: in this process, in several, or on a Ray cluster (default: local)",
    )
    group.add_argument("--workers", type=int, metavar="N", help="how many workers (default: cores)")
    group.add_argument(
        "--gpus", type=float, default=0.0, metavar="SHARE",
        help="GPUs per worker of Ray, also a fraction: with 0.25, four workers share one",
    )  # fmt: skip


def columns(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where captions stand, for scores that are computed."""
    parser.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="WHAT=NAME",
        help="which column holds the caption, references or image, e.g. caption=text image=path",
    )
    parser.add_argument(
        "--df", default="coco-val", help="document frequencies for CIDEr (default: coco-val)"
    )


def columns_of(args: argparse.Namespace) -> dict[str, str]:
    """Return the columns that were named."""
    wrong = [text for text in args.columns if "=" not in text]
    if wrong:
        raise UsageError(f"--columns takes WHAT=NAME, not {wrong[0]!r}")
    return dict(text.split("=", 1) for text in args.columns)


def executor(args: argparse.Namespace) -> Executor:
    """Return who does the work."""
    return executors.named(args.engine, args.workers, args.gpus)


def active(args: argparse.Namespace) -> AbstractContextManager[settings.Settings]:
    """Return the settings that the options ask for, to be used in a ``with`` block."""
    talk(args.quiet)
    changes: dict[str, Any] = {
        "device": args.device,
        "threads": args.threads,
        "cache_dir": args.cache,
        "download": args.download or None,
        "progress": False if args.quiet else None,
    }
    return settings.use(**{k: v for k, v in changes.items() if v is not None})


def job(args: argparse.Namespace, metrics: Any = None, **changes: Any) -> ScoringJob:
    """Return the job that the data options describe.

    Raises:
        UsageError: no caption file is named.
    """
    if not args.captions and "captions" not in changes:
        swallowed = f" {args.refs[-1]} was taken as a reference file." if args.refs else ""
        raise UsageError(
            f"no caption file was given.{swallowed} Put the captions first: "
            "captious score CAPTIONS --refs REFERENCES"
        )
    fields: dict[str, Any] = {
        "captions": list(args.captions),
        "references": args.refs,
        "images": args.images,
        "objects": args.objects,
        "regions": args.regions,
        "systems": args.names,
        "metrics": metrics,
        "seed": seed(args),
        "skip_unmatched": getattr(args, "skip_unmatched", False),
    }
    return ScoringJob(**fields | changes)


def read(args: argparse.Namespace) -> CaptionSet:
    """Load what the data options name."""
    return job(args).read(say(args))


def seed(args: argparse.Namespace) -> int:
    """Return the seed that was given, or the usual one.

    Raises:
        UsageError: it is negative.
    """
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed must be 0 or a positive whole number, not {args.seed}")
    return SEED if args.seed is None else int(args.seed)


def say(args: argparse.Namespace) -> Callable[[str], None] | None:
    """Return who hears remarks: nobody with ``--quiet``."""
    return None if args.quiet else remark


def talk(quiet: bool) -> None:
    """Show what the library has to say on stderr, or nothing below an error with ``--quiet``."""
    logger = logging.getLogger("captious")
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        logger.addHandler(_Stderr())
    logger.setLevel(logging.ERROR if quiet else logging.INFO)


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one remark."""
        remark(record.getMessage())


def remark(text: str) -> None:
    """Say something that is no data."""
    print(f"captious: {text}", file=sys.stderr)
