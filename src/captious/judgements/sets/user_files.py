"""A user's own judgements: ratings, choices between two captions, or rankings.

One file (JSON list, JSON lines, CSV, TSV or parquet), one record per line. Columns:

* always: ``references`` (a list, or ``ref_1``, ``ref_2`` ...; may be absent), ``image``, ``group``;
* ratings: ``caption`` and ``rating`` (a number, or a list with one number per judge);
* pairs: ``caption_a``, ``caption_b`` and either ``preferred`` (``a``, ``b`` or ``tie``) or the
  counts ``votes_a`` and ``votes_b``;
* rankings: ``caption``, ``rank`` (1 is best) and ``item``: captions of one item are compared.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.io import files
from captious.judgements.judgement_set import Card, Checks, JudgementSet, Pairs, Ratings, same_text
from captious.reading import cause, read_parquet, reading
from captious.types import CaptionSet

_NUMBERED = re.compile(r"ref(?:erence)?s?_?\d+", re.IGNORECASE)
Record = tuple[str, dict[str, Any]]


def load(path: Path) -> JudgementSet:
    """Read a file of ratings, pairs or rankings; its columns tell which.

    Raises:
        InputError: columns are missing or rows are wrong; all of them are listed.
    """
    with reading(path, "judgements"):
        return _load(path)


def _load(path: Path) -> JudgementSet:
    checks = Checks(path.name)
    records = read_records(path, checks)
    checks.stop_if_bad()
    columns = {str(k) for _, row in records for k in row}
    card = Card(
        path.name,
        f"judgements in {path.name}",
        "the user's own",
        (str(path),),
        (),
        f"{len(records):,} records",
        (),
        "",
    )
    if {"caption_a", "caption_b"} <= columns and columns & {"preferred", "votes_a"}:
        return _pairs(card, records, checks)
    if {"caption", "rank", "item"} <= columns:
        return _rankings(card, records, checks)
    if {"caption", "rating"} <= columns:
        return _ratings(card, records, checks)
    raise InputError(
        f"{path}: the columns ({', '.join(sorted(columns))}) are neither of ratings (caption, "
        "rating), of pairs (caption_a, caption_b, preferred or votes_a and votes_b) nor of "
        "rankings (caption, item, rank)"
    )


def read_records(path: Path, checks: Checks) -> list[Record]:
    """Return the records of a JSON, JSON lines, CSV, TSV or parquet file, each with its place."""
    kind = files.suffix(path)
    if kind == "parquet":
        rows: list[Any] = read_parquet(path).to_pylist()
    elif kind in ("csv", "tsv"):
        text = io.StringIO(files.read_text(path), newline="")
        rows = list(csv.DictReader(text, delimiter="\t" if kind == "tsv" else ","))
    elif kind in ("jsonl", "ndjson"):
        rows = []
        for number, line in enumerate(files.read_text(path).splitlines(), 1):
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as err:
                checks.bad("lines that are not JSON", f"line {number}: {cause(err)}")
    elif kind == "json":
        rows = files.read_json(path)
    else:
        raise InputError(f"{path}: records are read from .json, .jsonl, .csv, .tsv or .parquet")
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise InputError(f"{path}: expected a list of records")
    return [(f"record {n}", row) for n, row in enumerate(rows, 1)]


def _references(row: dict[str, Any], place: str, checks: Checks) -> list[str]:
    references = row.get("references", row.get("refs"))
    if references is None:
        references = [row[k] for k in row if _NUMBERED.fullmatch(str(k)) and row[k]]
    if isinstance(references, str):
        references = _literal(references) if references.lstrip().startswith("[") else [references]
    if not isinstance(references, list | tuple) or not all(isinstance(x, str) for x in references):
        checks.bad("references that are not a list of texts", place)
        return []
    return [x for x in references if x.strip()]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _text(row: dict[str, Any], column: str, place: str, checks: Checks) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        checks.bad(f"records whose {column} is not text", place)
        return ""
    return value


def _value(value: Any, what: str, place: str, checks: Checks) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number):
        checks.bad(f"{what} that are not numbers", f"{place}: {value!r}"[:200])
    return number


def _frame(
    records: list[Record], captions: list[str], places: list[int], checks: Checks
) -> tuple[CaptionSet, np.ndarray, np.ndarray]:
    """Build the samples; ``places[i]`` is the record that caption ``i`` stands in."""
    references = [_references(row, place, checks) for place, row in records]
    checks.stop_if_bad()
    images = [None if row.get("image") in (None, "") else str(row["image"]) for _, row in records]
    samples = CaptionSet.build(
        captions,
        [references[p] for p in places],
        ids=[f"{p + 1}.{n}" for n, p in enumerate(places)],
        images=[images[p] for p in places],
    )
    units = np.empty(len(captions), object)
    units[:] = [images[p] or str(records[p][1].get("item", f"record {p + 1}")) for p in places]
    groups = np.empty(len(records), object)
    groups[:] = [str(row.get("group") or "all") for _, row in records]
    return samples, units, groups


def _ratings(card: Card, records: list[Record], checks: Checks) -> JudgementSet:
    rows, values, judges = [], [], []
    seen: dict[tuple[str, str], str] = {}
    for number, (place, row) in enumerate(records):
        rating = row.get("rating")
        if isinstance(rating, str) and rating.lstrip().startswith("["):
            rating = _literal(rating)
        several = rating if isinstance(rating, list) else [rating]
        for judge, value in enumerate(several):
            rows.append(number)
            judges.append(judge)
            values.append(_value(value, "ratings", place, checks))
        key = (str(row.get("image")), str(row.get("caption")))
        if row.get("image") and key in seen:
            checks.bad("captions that are rated twice", f"{place} and {seen[key]}")
        seen[key] = place
    captions = [_text(row, "caption", place, checks) for place, row in records]
    samples, units, groups = _frame(records, captions, list(range(len(records))), checks)
    ratings = np.array(values)
    own = np.array(
        [
            same_text(c) in {same_text(r) for r in refs}
            for c, refs in zip(samples.captions(), samples.references(), strict=True)
        ]
    )
    return JudgementSet(
        card,
        samples,
        Ratings(np.array(rows), ratings, np.array(judges), ratings.min(), ratings.max()),
        units,
        groups,
        own,
        counts={
            "rows": len(records),
            "ratings": len(rows),
            "caption is its own reference": int(own.sum()),
        },
        remarks=checks.remarks(),
    )


def _pairs(card: Card, records: list[Record], checks: Checks) -> JudgementSet:
    captions, votes = [], []
    seen: dict[tuple[str, ...], str] = {}
    for place, row in records:
        pair = sorted(str(row.get(f"caption_{x}")) for x in "ab")
        key = (str(row.get("image") or row.get("item") or ""), *pair)
        if key in seen:  # several judges may have a line each, so this forbids nothing
            checks.note("pairs that appear twice", f"{place} and {seen[key]}")
        seen[key] = place
        captions += [_text(row, f"caption_{x}", place, checks) for x in "ab"]
        if row.get("preferred") is not None:
            chosen = {"a": (1.0, 0.0), "b": (0.0, 1.0), "tie": (0.5, 0.5)}.get(
                str(row["preferred"]).strip().lower()
            )
            if chosen is None:
                checks.bad("preferred is not a, b or tie", f"{place}: {row['preferred']!r}")
            votes.append(chosen or (0.0, 0.0))
        else:
            votes.append(
                (
                    _value(row.get("votes_a"), "votes", place, checks),
                    _value(row.get("votes_b"), "votes", place, checks),
                )
            )
            if min(votes[-1]) < 0:
                checks.bad("votes below 0", place)
    places = [n for n in range(len(records)) for _ in (0, 1)]
    samples, units, groups = _frame(records, captions, places, checks)
    at = np.arange(len(records))
    return JudgementSet(
        card,
        samples,
        Pairs(2 * at, 2 * at + 1, np.array(votes)),
        units,
        groups,
        counts={"pairs": len(records)},
        remarks=checks.remarks(),
    )


def _rankings(card: Card, records: list[Record], checks: Checks) -> JudgementSet:
    captions = [_text(row, "caption", place, checks) for place, row in records]
    ranks = [_value(row.get("rank"), "ranks", place, checks) for place, row in records]
    items: dict[str, list[int]] = {}
    seen: dict[tuple[str, str], str] = {}
    for number, (place, row) in enumerate(records):
        items.setdefault(str(row.get("item")), []).append(number)
        key = (str(row.get("item")), str(row.get("caption")))
        if key in seen:
            checks.bad("captions that are ranked twice", f"{place} and {seen[key]}")
        seen[key] = place
    for item, members in items.items():
        if len(members) < 2:
            checks.bad("items with a single caption", item)
    samples, units, groups = _frame(records, captions, list(range(len(records))), checks)
    chosen = [pair for members in items.values() for pair in combinations(members, 2)]
    first, second = (np.array(x) for x in zip(*chosen, strict=True))
    rank = np.array(ranks)
    votes = np.column_stack([rank[first] < rank[second], rank[second] < rank[first]]).astype(float)
    return JudgementSet(
        card,
        samples,
        Pairs(first, second, votes),
        units,
        groups[first],
        counts={"items": len(items), "captions": len(records), "pairs": len(chosen)},
        remarks=checks.remarks(),
    )
