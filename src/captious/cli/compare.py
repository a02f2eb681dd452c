"""``captious compare``: which system is better, and is that chance?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from captious import registry
from captious.cli import _options
from captious.cli.score import add_scoring
from captious.engine.compare import Comparison, compare, default_trials
from captious.engine.job import score
from captious.engine.table import ScoreTable, join
from captious.errors import UsageError, did_you_mean
from captious.io.tables import is_stored
from captious.names import COCO
from captious.statistics.bootstrap import RESAMPLES


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "compare",
        description="Score several systems on the same samples, or take stored tables "
        "(`captious score ... -o scores.parquet`), and test every pair: paired "
        "bootstrap and paired approximate randomisation. The first file is the baseline. "
        "Superscripts name the systems that a value significantly beats.",
    )
    _options.data(parser)
    add_scoring(parser)
    parser.add_argument(
        "--format", "-f", choices=["text", "markdown", "latex", "json"], default="text"
    )
    _options.output(parser)
    parser.add_argument(
        "--trials",
        type=int,
        default=None,
        metavar="N",
        help="bootstrap draws and random swaps (default: 100 per comparison, 1,000 to 10,000)",
    )
    parser.add_argument(
        "--level", type=float, default=0.05, help="significance level (default: 0.05)"
    )
    parser.add_argument(
        "--correction",
        choices=["holm", "bh", "none"],
        default="holm",
        help="for the number of comparisons (default: holm)",
    )
    parser.add_argument(
        "--fail-if-worse",
        nargs="+",
        action=_options.Metrics,
        default=[],
        metavar="COLUMN",
        help="exit with 1 if a system is significantly worse than the baseline in one of these "
        "columns (commas or spaces between them): a gate for continuous integration",
    )
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Score, test, write."""
    if args.trials is not None and args.trials < 1:
        raise UsageError("--trials must be at least 1")
    with _options.active(args):
        table = _table(args)
        images = len(set(table.images.tolist()))
        trials = args.trials or default_trials(len(table.corpora), len(table.values), images)
        gate = _gate(args, table, trials)
        result = compare(table, trials=trials, level=args.level, correction=args.correction)
    drawn = result.parts() if args.format == "text" else ()
    _options.write(args, result.render(args.format), drawn)
    worse = _worse(result, gate)
    for line in worse:
        _options.remark(line)
    return 1 if worse else 0


def _gate(args: argparse.Namespace, table: ScoreTable, trials: int) -> list[str]:
    """Return the columns that must not get worse.

    Raises:
        UsageError: the table has no such column.
    """
    given = [name.strip() for name in ",".join(args.fail_if_worse).split(",") if name.strip()]
    named = [name if name in table.values else registry.canonical(name) for name in given]
    for name in named:
        if name not in table.values:
            raise UsageError(
                f"--fail-if-worse: the table has no column {name!r}."
                f"{did_you_mean(name, table.values)} It has: {', '.join(table.values)}."
            )
    systems = len(table.corpora)
    tests = systems * (systems - 1) // 2 * len(table.values) if args.correction != "none" else 1
    # p is at least 1 / (trials + 1), and the correction multiplies it: such a gate never closes.
    if named and tests / (trials + 1) >= args.level:
        raise UsageError(
            f"--fail-if-worse: with {trials:,} trials and {tests:,} comparisons no difference "
            f"can be significant. Use --trials {int(2 * tests / args.level):,}".replace(",", "")
            + " or name fewer metrics"
        )
    return named


def _worse(result: Comparison, columns: list[str]) -> list[str]:
    """Say where a system is significantly worse than the baseline."""
    base = result.systems[0]
    return [
        f"{d.b} is significantly worse than {base} in {d.column}: {d.difference:+.4f} "
        f"(corrected p {d.corrected:.4f})"
        for d in result.differences
        if d.a == base and d.column in columns and d.b in result.beats(d.column, base)
    ]


def _table(args: argparse.Namespace) -> ScoreTable:
    """Return the stored tables that were named, or score the captions."""
    stored = [path for path in args.captions if is_stored(path)]
    if not stored:
        resamples = 0 if args.no_intervals else RESAMPLES
        return score(_options.job(args, args.metrics, resamples=resamples), say=_options.say(args))
    if len(stored) < len(args.captions):
        other = next(path for path in args.captions if path not in stored)
        raise UsageError(
            f"{other} is not a stored table, {stored[0]} is: give stored tables "
            "only, or caption files only"
        )
    given = {
        "--metrics": args.metrics != [COCO],
        "--refs": args.refs,
        "--images": args.images,
        "--objects": args.objects,
        "--regions": args.regions,
    }
    unused = [option for option, value in given.items() if value]
    if unused:
        raise UsageError(
            f"{stored[0]} holds its scores, so nothing is scored again: leave out "
            f"{', '.join(unused)}, or give caption files"
        )
    return join([ScoreTable.load(path) for path in stored], args.names or _stems(stored))


def _stems(paths: list[Path]) -> list[str]:
    return [path.name.split(".")[0] for path in paths]
