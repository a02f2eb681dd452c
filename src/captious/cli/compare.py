"""``captious compare``: which system is better, and is that chance?"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.cli.score import add_scoring, compute
from captious.engine.compare import Comparison, compare
from captious.errors import UsageError
from captious.io import files
from captious.io.tables import grid


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "compare",
        help="paired tests between two and more systems",
        description="Score several systems on the same samples and test every pair: paired "
        "bootstrap and paired approximate randomisation. The first file is the baseline. "
        "Superscripts name the systems that a value significantly beats.",
    )
    _options.data(parser)
    add_scoring(parser)
    parser.add_argument(
        "--format", "-f", choices=["text", "markdown", "latex", "json"], default="text"
    )
    parser.add_argument("--output", "-o", type=Path, metavar="FILE")
    parser.add_argument(
        "--trials", type=int, default=1000, help="bootstrap draws and random swaps (default: 1000)"
    )
    parser.add_argument("--level", type=float, default=0.05, help="significance level")
    parser.add_argument(
        "--correction",
        choices=["holm", "bh", "none"],
        default="holm",
        help="for the number of comparisons (default: holm)",
    )
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Score, test, write."""
    if args.trials < 1:
        raise UsageError("--trials must be at least 1")
    with _options.active(args):
        table = compute(args)
        result = compare(table, trials=args.trials, level=args.level, correction=args.correction)
    text = render(result, args.format)
    if args.output is None:
        sys.stdout.write(text)
    else:
        with files.replacing(args.output) as file:
            file.write(text)
    return 0


def render(result: Comparison, format: str) -> str:
    """Return the comparison as text, markdown, latex or JSON."""
    if format == "json":
        whole = {
            "baseline": result.systems[0],
            "systems": {
                s: {c: {"value": float(v), "low": v.low, "high": v.high} for c, v in values.items()}
                for s, values in result.table.corpora.items()
            },
            "differences": [asdict(d) for d in result.differences],
            "level": result.level,
            "correction": result.correction,
            "trials": result.trials,
            "seed": result.seed,
            "signatures": result.table.signatures,
        }
        return json.dumps(whole, indent=1) + "\n"
    letter = {s: chr(ord("a") + i % 26) for i, s in enumerate(result.systems)}
    cells = [["metric", *(f"{letter[s]} {s}" for s in result.systems)]]
    for column in result.table.values:
        row = [column]
        for system in result.systems:
            beaten = "".join(sorted(letter[s] for s in result.beats(column, system)))
            value = f"{result.table.corpora[system][column]:.4f}"
            if format == "latex":
                row.append(f"${value}^{{{beaten}}}$" if beaten else f"${value}$")
            elif format == "markdown":
                row.append(f"{value}<sup>{beaten}</sup>" if beaten else value)
            else:
                row.append(f"{value}{beaten and '^' + beaten}")
        cells.append(row)
    tests = [["metric", "pair", "difference", "95 % interval", "p boot", "p swap", "p corrected"]]
    for d in result.differences:
        if d.a != result.systems[0]:
            continue
        tests.append(
            [
                d.column,
                f"{d.b} - {d.a}",
                f"{d.difference:+.4f}",
                f"[{d.low:+.4f}, {d.high:+.4f}]",
                f"{d.p_bootstrap:.4f}",
                f"{d.p_randomisation:.4f}",
                f"{d.corrected:.4f}{'*' if d.significant else ''}",
            ]
        )
    mark = {"text": "", "markdown": "- ", "latex": "% "}[format]
    said = [
        f"baseline: {result.systems[0]}; a superscript letter = significantly better than that "
        f"system (p < {result.level:g} after {result.correction} correction for "
        f"{len(result.differences)} comparisons)",
        f"p swap: paired approximate randomisation, p boot: paired bootstrap; {result.trials} "
        f"trials each, by image, seed {result.seed}; p corrected is of p swap",
    ]
    said += [f"{c}: {s}" for c, s in result.table.signatures.items()]
    return (
        "\n\n".join([grid(cells, format), grid(tests, format), "\n".join(mark + s for s in said)])
        + "\n"
    )
