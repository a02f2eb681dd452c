"""``captious demo``: judge the bundled photographs and captions with everything that runs here."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious import demo, registry
from captious.cli import _options, _terminal
from captious.engine.evidence import detector_lacks
from captious.engine.explain import explain
from captious.engine.job import ScoringJob, score
from captious.engine.table import ScoreTable
from captious.errors import CaptiousError, MissingExtra, UsageError, missing_lines
from captious.io import grids, tables
from captious.metrics.base import Metric, Need
from captious.report import page
from captious.report.contents import main_columns
from captious.statistics.bootstrap import RESAMPLES
from captious.types import CaptionSet

_EIGHT = (
    "bleu_4", "meteor", "cider_d", "spice", "bertscore_f", "tiger", "vifidel", "captious_ref",
)  # fmt: skip
"""What is shown unless others are named: words, meaning, regions, objects, all together."""

_SECONDS = 120.0
_OWN_FILES = """With your own files:
  captious score captions.json --refs references.json --images photos/ \\
      -m bleu,meteor,cider_d,spice -o scores.parquet --report report.html

The report of this demonstration:"""

_TELLING = ("meteor", "spice", "cider_d", "rouge_l", "bleu")
"""Whose explanation is shown: the first of these that runs."""

_SHOWN = "dogs"
"""Id of the caption that is explained."""


@dataclass(frozen=True)
class Choice:
    """What can run on this machine, and why the rest cannot."""

    metrics: list[Metric]
    skipped: list[CaptiousError]


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "demo",
        description="Score the captions of three imaginary systems (good, vague, wrong) on "
        "bundled photographs with every metric that can run here, and show how one caption got "
        "its score. Object labels are detected in the photographs.",
    )
    parser.add_argument(
        "--output", "-o", type=Path, default=Path("demo-out"), metavar="DIR",
        help="folder for the report and the scores (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--metrics", "-m", nargs="+", default=None, metavar="METRIC",
        help="only these metrics (default: the eight most informative; 'all' for all that can run)",
    )  # fmt: skip
    parser.add_argument(
        "--files", type=Path, metavar="FOLDER",
        help="score nothing; copy captions, references and photographs there, to try things out",
    )  # fmt: skip
    parser.add_argument("--no-intervals", action="store_true", help="no bootstrap intervals")
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Choose, look at the photographs, score, print, write."""
    if args.files is not None:
        demo.copy_files(args.files)
        if not args.quiet:
            _options.remark(
                f"wrote good.json, vague.json, wrong.json, refs.json and photos/ to {args.files}"
            )
        return 0
    with _options.active(args):
        choice = choose(args.metrics)
        for line in missing_lines(choice.skipped):
            _options.remark(f"left out: {line}")
        if not choice.metrics:
            raise CaptiousError("nothing can be scored; see above for what is missing")
        job = ScoringJob(
            demo.captions_file(),
            demo.references_file(),
            demo.folder() / "photos",
            metrics=tuple(choice.metrics),
            resamples=0 if args.no_intervals else RESAMPLES,
            seed=_options.seed(args),
        )
        table = score(job)
        told = _explained(choice.metrics, table.samples)
        args.output.mkdir(parents=True, exist_ok=True)
        tables.save(table, args.output / "scores.json")
        reported = _report(table, args.output / "report.html")
    shown = main_columns(table) if args.metrics is None else set(table.values)
    _terminal.show_parts(_corpus(table, shown))
    sys.stdout.write(f"\n{told}\n{_OWN_FILES}\n{reported}\n")
    return 0


def _report(table: ScoreTable, path: Path) -> str:
    """Write the report; return its path, or why there is none."""
    options = page.Options(title="captious demo", seconds=_SECONDS)
    try:
        page.write(table, path, options)
    except MissingExtra as err:
        return " ".join(str(err).split())
    return str(path.resolve())


def choose(wanted: Sequence[str] | None = None) -> Choice:
    """Sort the wanted metrics (None = the usual eight) into those that can run and not."""
    asked = _EIGHT if wanted is None else wanted
    names = [n for word in asked for n in (registry.names() if word == "all" else [word])]
    runs: list[Metric] = []
    skipped: list[CaptiousError] = []
    made = [metric for metric, _ in registry.create_many(names)]
    blind = detector_lacks() if any(Need.IMAGE_OBJECTS in m.needs for m in made) else []
    for metric in made:
        lacking: list[CaptiousError] = metric.missing()
        if Need.IMAGE_OBJECTS in metric.needs:
            lacking += blind
        if lacking:
            skipped += lacking
        else:
            runs.append(metric)
    return Choice(runs, skipped)


def _corpus(table: ScoreTable, shown: set[str]) -> list[grids.Part]:
    """Return the corpus values, metrics by systems, and what could not be scored."""
    systems = list(table.corpora)
    cells = [["metric", *systems]]
    for name in table.values:
        if name not in shown:
            continue
        values = [table.corpora[s][name] for s in systems]
        # Three digits: three systems with intervals fit 80 columns.
        cells.append([name, *(grids.with_interval(v, "text", 3) for v in values)])
    head = f"{len(demo.photographs())} photographs, {len(table)} captions; corpus values"
    if not all(math.isnan(v.low) for values in table.corpora.values() for v in values.values()):
        head += " with 95 % bootstrap intervals"
    unscored = Counter((u.column, u.reason) for u in table.unscored if u.column in shown)
    said = [
        f"{column}: {grids.many(n, 'caption')} not scored: {why}"
        for (column, why), n in unscored.items()
    ]
    return [cells, "\n".join([head, *said])]


def _explained(metrics: list[Metric], samples: CaptionSet) -> str:
    """Say how one caption got its score, by the first metric that can."""
    row = samples.ids.tolist().index(_SHOWN)
    sample = samples[row]
    for metric in sorted(metrics, key=_telling):
        try:
            said = explain(samples, metric, row)
        except UsageError:  # the contract's answer of a metric without explanation
            continue
        head = f'Why {metric.name} gives this to "{sample.caption}" ({sample.system}):'
        return f"{head}\n{said.text.rstrip()}\n"
    return ""


def _telling(metric: Metric) -> int:
    return _TELLING.index(metric.name) if metric.name in _TELLING else len(_TELLING)
