"""``captious score``: captions in, scores out."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from captious.cli import _options, _terminal
from captious.engine.job import ScoringJob, score
from captious.errors import UsageError
from captious.io import grids, tables
from captious.statistics.bootstrap import RESAMPLES

_LARGE = 200 << 20
"""Bytes of caption files from which on they are not read at once."""

_ROWS = ("json", "jsonl", "csv")
"""Formats that hold all captions."""


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "score",
        description="Score one or more caption files. Example: "
        "captious score captions.json --refs references.json -m METEOR CIDEr-D SPICE",
    )
    _options.data(parser)
    add_scoring(parser)
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="also write the scores here: .parquet, .json, .jsonl (all of these can be read back), "
        ".csv, .md, .tex or .txt; an interrupted run continues where it stopped; a folder gets "
        "one file per input file",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="also write a report (.html): tables, gallery and explanations in one page",
    )
    parser.add_argument(
        "--format",
        "-f",
        choices=[f for f in tables.FORMATS if f != "parquet"],
        default=None,
        help="format on stdout (default: text)",
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        help="captions to show: a number or 'all' (default: 10; none in LaTeX)",
    )
    parser.add_argument(
        "--by",
        type=Path,
        metavar="FILE",
        help="also print a table per group of images: nocaps' annotations (images with a domain), "
        'JSON {"image": "group"}, or a CSV with the columns image and group',
    )
    parser.add_argument(
        "--stream",
        action="store_true",
        help="read, score and write batch by batch, whatever the size; this is the default for "
        f"folders, globs, tar files, URLs and files of more than {_LARGE >> 20} MB together",
    )
    _options.workers(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose metrics."""
    _options.metrics(parser)
    parser.add_argument("--no-intervals", action="store_true", help="no bootstrap intervals")


def run(args: argparse.Namespace) -> int:
    """Score and write."""
    groups = _groups(args)
    rows = _rows(args.rows, args.format)
    streaming = args.stream or _long(args.captions)
    if args.output is not None and not streaming:
        tables.check_output(args.output, _format(args.output, args.format))
    if args.report is not None:
        from captious.report import page  # not before it is needed: a small score is quick

        page.check(args.report, page.Options())
    resamples = 0 if args.no_intervals else RESAMPLES
    job = _options.job(args, args.metrics, resamples=resamples, keep=args.output is not None)
    if streaming:
        return _streamed(args, job)
    with _options.active(args):
        table = score(job, executor=_options.executor(args), say=_options.say(args))
    if args.output is not None:
        table.save(args.output, _format(args.output, args.format))
        if not args.quiet:
            _options.remark(f"wrote {args.output}")
    _terminal.show(table, args.format or "text", rows)
    if groups:
        from captious.engine import domains

        told = domains.cells(table, domains.by_domain(table, groups))
        sys.stdout.write("\n" + grids.joined(told, args.format or "text"))
    if args.report is not None:
        with _options.active(args):
            from captious.report import page

            remarks = page.write(table, args.report)
        if not args.quiet:
            for remark in [*remarks, f"wrote {args.report}"]:
                _options.remark(remark)
    return 0


def _format(path: Path, format: str | None) -> str | None:
    """Return the format to name for a file: none where its ending does."""
    return None if tables.known(path) else format


def _long(places: Sequence[Any]) -> bool:
    """Tell whether the input is too long, or not of a kind, to be read at once."""
    size = 0
    for place in places:
        if not isinstance(place, Path) or place.suffix == ".tar":
            return True
        if not place.is_file():
            return place.is_dir() or "*" in str(place)
        size += place.stat().st_size
    return size > _LARGE


def _streamed(args: argparse.Namespace, job: ScoringJob) -> int:
    """Score batch by batch; on stdout is the summary, or every row if a format asks for rows."""
    from captious.engine.cache import default_cache
    from captious.engine.shards import score_shards
    from captious.engine.stream import stream
    from captious.io import sinks
    from captious.io.grids import joined
    from captious.io.pages import paper_table
    from captious.io.summaries import summary_parts

    if args.report is not None:
        raise UsageError("a report needs all captions in memory: make one from a part of them")
    if args.rows is not None:
        raise UsageError(
            "--rows shows captions of a run in memory; here, write all of them: -o scores.parquet"
        )
    if args.output is not None and tables.known(args.output) and args.format in _ROWS:
        raise UsageError(
            f"captions of a stream are written once: leave out --format {args.format}, or --output"
        )
    with _options.active(args):
        if args.output is not None and (args.output.is_dir() or not args.output.suffix):
            summary = score_shards(job, args.output, executor=_options.executor(args))
        else:
            cache = default_cache() if args.output is not None else None
            with _place(args) as place:
                sink = None if place is None else sinks.sink_for(place, _format(place, args.format))
                summary = stream(job, sink, executor=_options.executor(args), cache=cache)
                if args.output is None and place is not None:
                    with open(place, encoding="utf-8") as rows:
                        shutil.copyfileobj(rows, sys.stdout)
                    return 0
    if args.output is not None and not args.quiet:
        _options.remark(f"wrote {args.output}")
    if args.format == "markdown":
        sys.stdout.write(joined(summary_parts(summary, "markdown"), "markdown"))
    elif args.format == "latex":
        sys.stdout.write(paper_table(summary) + "\n")
    else:
        _terminal.show_parts(summary_parts(summary))
    return 0


@contextmanager
def _place(args: argparse.Namespace) -> Iterator[Path | None]:
    """Yield where rows are written: the output file, or one that goes to stdout at the end."""
    if args.output is not None or args.format not in _ROWS:
        yield args.output
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / f"rows.{args.format}"


def _rows(text: str | None, format: str | None) -> int | None:
    """Return how many captions to show; None = as many as the format shows by itself."""
    if text is None:
        return None if format == "latex" else 10
    if text == "all":
        return sys.maxsize
    if not text.isdigit():
        raise UsageError(f"--rows takes a number or 'all', not {text!r}")
    return int(text)


def _groups(args: argparse.Namespace) -> dict[str, str]:
    """Return the group of every image, if tables by group were asked for."""
    if args.by is None:
        return {}
    if args.stream or _long(args.captions) or args.format not in (None, "text", "markdown"):
        raise UsageError("--by prints tables as text or markdown, of captions that fit in memory")
    from captious.engine import domains

    return domains.read(args.by)
