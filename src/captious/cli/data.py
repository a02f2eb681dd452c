"""``captious data``: which judgement sets are here, and how to get the others."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from captious.cli import _options


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "data",
        description="List the collections of human judgements that captious reads. With names, "
        "print their data cards; --check reads and joins them.",
    )
    parser.add_argument("names", nargs="*", metavar="SET", help="print these cards")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder of the judgement sets (default: $CAPTIOUS_DATA)",
    )
    parser.add_argument(
        "--check", action="store_true", help="read what is here and check that it fits together"
    )
    parser.add_argument("--format", "-f", choices=["text", "json"], default="text")
    _options.output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the list, or cards."""
    from captious.errors import InputError
    from captious.judgements import sets
    from captious.judgements.judgement_set import JudgementSet

    root = None
    if args.data or os.environ.get("CAPTIOUS_DATA"):
        root = sets.data_root(args.data)
    listed: list[dict[str, Any]] = []
    wrong = 0
    for name in args.names or sets.names():
        card = sets.card(name)
        entry: dict[str, Any] = asdict(card)
        entry["missing"] = list(card.files) if root is None else sets.missing(name, root)
        entry["missing optional"] = (
            list(card.optional) if root is None else sets.missing(name, root, optional=True)
        )
        if args.check and root is not None and not entry["missing"]:
            try:
                found = sets.load(name, root)
                entry["read"] = (
                    found.counts | {"remarks": list(found.remarks)}
                    if isinstance(found, JudgementSet)
                    else {"systems": len(found.systems)}
                )
            except InputError as err:
                entry["problems"] = err.problems
                wrong += 1
        listed.append(entry)
    if args.format == "json":
        _options.write(args, json.dumps(listed, indent=1) + "\n")
    else:
        _options.write(args, _text(listed, bool(args.names), root))
    return 1 if wrong else 0


def _text(listed: list[dict[str, Any]], full: bool, root: Path | None) -> str:
    lines = []
    if root is None:
        lines.append("no data folder is named (--data FOLDER or CAPTIOUS_DATA)\n")
    for entry in listed:
        state = "here" if not entry["missing"] else "missing"
        lines.append(f"{entry['name']:<24} {state:<8} {entry['title']}")
        if full:
            lines += [f"  counts:  {entry['counts']}", f"  licence: {entry['licence']}"]
            lines += [f"  trap:    {t}" for t in entry["traps"]]
            lines += [f"  files:   {f.replace('|', ' or ')}" for f in entry["files"]]
        for f in entry["missing"]:
            lines.append(f"  missing: {f.replace('|', ' or ')}")
        if not entry["missing"]:
            lines += [f"  without: {f}" for f in entry["missing optional"]]
        if entry["missing"] or full:
            lines.append(f"  get:     {entry['get']}")
        lines += [f"  read:    {k} {v}" for k, v in entry.get("read", {}).items()]
        lines += [f"  PROBLEM: {p}" for p in entry.get("problems", [])]
    return "\n".join(lines) + "\n"
