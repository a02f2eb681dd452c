"""``captious metrics``: what there is and what each needs."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from dataclasses import fields
from typing import Any

from captious import registry
from captious.cli import _options
from captious.metrics.base import Metric
from captious.names import MEANING


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser("metrics", description="List the metrics and what each needs.")
    parser.add_argument("name", nargs="?", help="show everything about this metric")
    parser.add_argument("--format", "-f", choices=["text", "json"], default="text")
    _options.output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List or describe."""
    if args.name:
        members = registry.group(args.name.lower())
        if members is not None:
            _options.write(args, f"{MEANING[args.name.lower()]}\n{', '.join(members)}\n")
            return 0
        _options.write(args, describe(registry.create(args.name)))
        return 0
    made = [registry.load(n)() for n in registry.names()]
    if args.format == "json":
        rows = [
            {
                "name": m.name,
                "columns": [c.name for c in m.columns],
                "needs": sorted(n.value for n in m.needs),
                "parameters": m.parameters(),
                "ready": not m.missing(),
                "summary": summary(m),
            }
            for m in made
        ]
        _options.write(args, json.dumps(rows, indent=1) + "\n")
        return 0
    wide = max(len(m.name) for m in made)
    lines = []
    cells = [["metric", "what it is", "needs"]]
    for m in made:
        ready = " " if not m.missing() else "!"
        needs = ", ".join(sorted(n.given_as for n in m.needs)) or "nothing but the caption"
        gives = ", ".join(c.name for c in m.columns)
        lines.append(f"{ready} {m.name:{wide}}  {summary(m)}")
        lines.append(f"  {'':{wide}}  needs {needs}; gives {gives}")
        cells.append([f"{ready} {m.name}", f"{summary(m)} Gives {gives}.", needs])
    rest = ["Groups, for -m:", *(f"  {name:8}{what}" for name, what in MEANING.items())]
    rest += [
        "",
        "Names of other tools work too: METEOR, ROUGE_L, Bleu_4, CIDEr-D, SPICE, in any case.",
        "! = something is not installed: see `captious doctor`. "
        "`captious metrics NAME` shows details.",
    ]
    told = "\n".join(rest)
    _options.write(args, "\n".join([*lines, "", told]) + "\n", [cells, told])
    return 0


def summary(metric: Metric) -> str:
    """Return the first sentence of a metric's docstring."""
    return (type(metric).__doc__ or "").strip().split("\n")[0].replace("``", "`")


def describe(metric: Metric) -> str:
    """Return all that is known of a metric."""
    module = sys.modules[type(metric).__module__]
    lines = [
        metric.name,
        "=" * len(metric.name),
        "",
        (module.__doc__ or "").strip(),
        "",
        "Columns:",
    ]
    for c in metric.columns:
        better = "higher is better" if c.higher_is_better else "lower is better"
        lines.append(f"  {c.name}: {c.meaning} ({c.low:g} to {c.high:g}, {better})")
    lines += ["", "Parameters:"]
    lines += [f"  {f.name} = {getattr(metric, f.name)!r}" for f in fields(metric)] or ["  none"]
    lines += ["", inspect.cleandoc(type(metric).__doc__ or "")]
    card = metric.data_card()
    if card:
        lines += ["", "Reads beside captions:", *(f"  - {line.replace('`', '')}" for line in card)]
    missing = metric.missing()
    if missing:
        lines += ["", "Missing here:", *(f"  - {m}" for m in missing)]
    return "\n".join(lines) + "\n"
