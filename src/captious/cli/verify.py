"""``captious verify``: does a stored result still hold?"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from captious import assets
from captious.cli import _options
from captious.cli.score import compute
from captious.errors import InputError, VerifyError
from captious.io import files, tables


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "verify",
        help="recompute a stored result and say whether it holds",
        description="Read a result that `captious score -o` wrote (json, jsonl or parquet), score "
        "the same files again with the same metrics and compare every number.",
    )
    parser.add_argument("result", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-9, help="default: 1e-9")
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare and report; 0 = everything holds."""
    stored, captions = _read(args.result)
    done = stored.get("run")
    if not done or not done.get("captions"):
        raise InputError(
            f"{args.result}: the result does not say which files it was made from; only results "
            "of `captious score FILE ... -o RESULT` can be verified"
        )
    inputs = {
        k: [_found(f, args.result, k) for f in done[k]] for k in ("captions", "refs", "objects")
    }
    again = argparse.Namespace(
        **inputs | {k: v or None for k, v in inputs.items() if k != "captions"},
        images=done["images"] and Path(done["images"]),
        regions=done.get("regions") and Path(done["regions"]),
        names=done["names"],
        metrics=",".join(done["metrics"]),
        no_intervals=not done["resamples"],
        **{k: getattr(args, k) for k in ("device", "threads", "cache", "download", "quiet")},
        seed=done["seed"],
    )
    with _options.active(again):
        table = compute(again)
    fresh = tables.to_json(table)
    problems = _differences(stored, captions, fresh, args.tolerance)
    if problems:
        raise VerifyError(
            f"{args.result} does not hold: {len(problems)} differences\n"
            + "\n".join(f"  - {p}" for p in problems[:20])
            + (f"\n  ... and {len(problems) - 20} more" if len(problems) > 20 else "")
        )
    sys.stdout.write(
        f"{args.result}: holds ({len(captions)} captions, "
        f"{len(stored['signatures'])} columns, tolerance {args.tolerance:g})\n"
    )
    return 0


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = files.suffix(path)
    if kind == "parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        stored = json.loads((table.schema.metadata or {}).get(b"captious", b"{}"))
        return stored, table.drop_columns(["image"]).to_pylist()
    if kind == "jsonl":
        first, *rest = files.read_text(path).strip().split("\n")
        return json.loads(first), [json.loads(line) for line in rest]
    stored = files.read_json(path)
    if not isinstance(stored, dict) or "signatures" not in stored:
        raise InputError(f"{path}: this is not a result of captious score")
    return stored, stored.get("captions", [])


def _found(entry: dict[str, str], result: Path, what: str) -> Path:
    for place in (
        Path(entry["path"]),
        result.parent / entry["path"],
        result.parent / Path(entry["path"]).name,
    ):
        if place.is_file():
            if assets.digest(place) != entry["sha256"]:
                raise VerifyError(
                    f"{place} ({what}) is not the file the result was made from: "
                    "its sha256 has changed"
                )
            return place
    raise InputError(f"{result}: its {what} file {entry['path']} is not here any more")


def _differences(
    stored: dict[str, Any], captions: list[dict[str, Any]], fresh: dict[str, Any], tolerance: float
) -> list[str]:
    out = []
    for column, text in stored["signatures"].items():
        now = fresh["signatures"].get(column)
        if now != text:
            out.append(f"{column}: the signature was {text}, is now {now}")
    for part in ("corpus", "systems"):
        for name, old in _leaves(stored.get(part, {})):
            new = dict(_leaves(fresh.get(part, {}))).get(name)
            if not _same(old, new, tolerance):
                out.append(f"{part} {name}: was {old}, is now {new}")
    columns = list(stored["signatures"])
    for old, new in zip(captions, fresh["captions"], strict=False):
        out += [
            f"caption {old['id']}, {c}: was {old.get(c)}, is now {new[c]}"
            for c in columns
            if not _same(old.get(c), new[c], tolerance)
        ]
    if len(captions) != len(fresh["captions"]):
        out.append(f"{len(captions)} captions were stored, {len(fresh['captions'])} are scored now")
    return out


def _leaves(tree: Any, name: str = "") -> list[tuple[str, Any]]:
    if not isinstance(tree, dict):
        return [(name, tree)]
    return [leaf for k, v in tree.items() for leaf in _leaves(v, f"{name} {k}".strip())]


def _same(a: Any, b: Any, tolerance: float) -> bool:
    a = None if isinstance(a, float) and math.isnan(a) else a
    if a is None or b is None:
        return a is b
    return abs(a - b) <= tolerance * max(1.0, abs(a))
