"""``captious data``: which judgement sets are here, and how to get the others."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.io.grids import Part


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
        "--check",
        action="store_true",
        help="read the files and check that they fit together",
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
                judged = sets.load(name, root)
                entry["read"] = (
                    judged.counts | {"remarks": list(judged.remarks)}
                    if isinstance(judged, JudgementSet)
                    else {"systems": len(judged.systems)}
                )
            except InputError as err:
                entry["problems"] = err.problems
                wrong += 1
        listed.append(entry)
    if args.format == "json":
        _options.write(args, json.dumps(listed, indent=1) + "\n")
    else:
        drawn = [] if args.names or args.check else _table(listed, root)
        _options.write(args, _text(listed, bool(args.names), root), drawn)
    return 1 if wrong else 0


_NO_FOLDER = "no data folder was given (--data FOLDER or CAPTIOUS_DATA)"


def _table(listed: list[dict[str, Any]], root: Path | None) -> list[Part]:
    """Return the list as a table, for a terminal."""
    cells = [["set", "state", "what it is"]]
    for entry in listed:
        state = "here" if not entry["missing"] else "missing"
        cells.append([entry["name"], state, entry["title"]])
    more = "`captious data SET` shows what a set holds, its licence and how to get it"
    return [cells, more if root is not None else f"{_NO_FOLDER}\n{more}"]


def _text(listed: list[dict[str, Any]], full: bool, root: Path | None) -> str:
    lines = []
    if root is None:
        lines.append(f"{_NO_FOLDER}\n")
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
