"""Write a ScoreTable, and read one back.

parquet, json and jsonl hold everything: captions, references, scores, statistics, signatures and
the job. csv, markdown, latex and text are for people and other programs.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.errors import InputError, UsageError, did_you_mean
from captious.io import files, pages
from captious.reading import parse_json, read_json, read_parquet, read_text, reading
from captious.types import CaptionSet, Floats, Labels, Place

if TYPE_CHECKING:
    import pyarrow as pa

    from captious.engine.table import ScoreTable
    from captious.engine.tally import StreamSummary

FORMATS = ("text", "markdown", "latex", "csv", "json", "jsonl", "parquet")
STORED = "captious-scores/1"
_SUFFIX = {"txt": "text", "md": "markdown", "tex": "latex"} | {f: f for f in FORMATS[3:]}
_OWN = ("id", "system", "image", "caption", "references")
_PART = 10_000  # captions that are written at a time


def check_output(path: Path, format: str | None = None) -> str:
    """Return the format of an output file, refusing what could not be written.

    Raises:
        UsageError: the format cannot be told from the file name, or the place cannot be written to.
    """
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder; name a file in it")
    kind = format or _SUFFIX.get(files.suffix(path), "")
    if kind not in FORMATS:
        raise UsageError(
            f"{path}: cannot tell the format from the file name. Use one of "
            f"{', '.join('.' + s for s in _SUFFIX)}, or name the format."
        )
    parent = path.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise UsageError(f"{path}: {parent} is a file, so nothing can be written below it")
    if not os.access(parent, os.W_OK):
        raise UsageError(f"{path}: the folder {parent} cannot be written to")
    return kind


def known(path: Path) -> bool:
    """Tell whether the ending of a file names a format."""
    return files.suffix(path) in _SUFFIX


def save(table: ScoreTable, path: Path, format: str | None = None) -> None:
    """Write a table; the ending of the path tells the format unless it is named."""
    kind = check_output(path, format)
    if kind == "parquet":
        import pyarrow.parquet as pq

        with files.replacing(path, "wb") as file:
            pq.write_table(to_arrow(table, whole=True), file)
        return
    with files.replacing(path) as file:
        file.writelines(_parts(table, kind, None))
    if kind == "csv":
        with files.replacing(corpus_file(path)) as file:
            file.write(corpus_csv(table))


def corpus_file(path: Path) -> Path:
    """Return where the corpus values of a CSV are written: ``scores.corpus.csv``."""
    return path.with_name(f"{path.name.removesuffix('.csv')}.corpus.csv")


def render(table: ScoreTable, format: str, rows: int | None = 10) -> str:
    """Return the table as text.

    Args:
        table: what to write.
        format: one of ``FORMATS`` except parquet.
        rows: captions shown by text, markdown and latex (None = all, but none in latex); the rest
            always hold all.
    """
    return "".join(_parts(table, format, rows))


def _parts(table: ScoreTable, format: str, rows: int | None) -> Iterator[str]:
    """Yield the text of a table, a few captions at a time where it may be long."""
    if format == "json":
        yield from _json(table)
    elif format == "jsonl":
        head = facts(table, table.samples.evidence.labels) | {"statistics": _statistics(table)}
        yield json.dumps(head, ensure_ascii=False) + "\n"
        for row in _rows(table):
            yield json.dumps(row, ensure_ascii=False) + "\n"
    elif format == "csv":
        yield from _csv(table)
    elif format == "html":
        yield pages.html_table(table)
    elif format in ("text", "markdown", "latex"):
        yield pages.text(table, format, rows)
    else:
        raise UsageError(f"no format {format!r}.{did_you_mean(format, FORMATS)} Formats: {FORMATS}")


def _json(table: ScoreTable) -> Iterator[str]:
    """Yield what ``json.dumps(to_json(table), indent=1)`` makes, without all of it in memory."""
    head = json.dumps(facts(table, table.samples.evidence.labels), indent=1, ensure_ascii=False)
    yield head.removesuffix("\n}") + ',\n "captions": '
    yield from _listed(_rows(table), 1)
    yield ',\n "statistics": [\n  '
    for number, block in enumerate(table.blocks):
        yield ",\n  " if number else ""
        yield from _listed(([_n(v) for v in row] for row in block.tolist()), 2)
    yield "\n ]\n}\n"


def _listed(entries: Iterable[Any], depth: int) -> Iterator[str]:
    """Yield a JSON list, indented as at that depth."""
    start = "\n" + " " * (depth + 1)
    empty = True
    for entry in entries:
        text = json.dumps(entry, indent=1, ensure_ascii=False).replace("\n", start)
        yield ("[" if empty else ",") + start + text
        empty = False
    yield "[]" if empty else "\n" + " " * depth + "]"


def _rows(table: ScoreTable) -> Iterator[dict[str, Any]]:
    """Yield one entry per caption; their texts are Python strings for a short time only."""
    for start in range(0, len(table), _PART):
        rows = range(start, min(len(table), start + _PART))
        held = {name: column[start : rows.stop] for name, column in table.values.items()}
        yield from json_rows(table.samples.take(rows), held)


def _statistics(table: ScoreTable) -> list[list[list[float | None]]]:
    return [[[_n(value) for value in row] for row in block.tolist()] for block in table.blocks]


def to_json(table: ScoreTable) -> dict[str, Any]:
    """Return the whole table as plain data (NaN becomes null)."""
    out = facts(table, table.samples.evidence.labels)
    return out | {"captions": list(_rows(table)), "statistics": _statistics(table)}


def json_rows(
    samples: CaptionSet, values: dict[str, Floats], blocks: Sequence[Floats] = ()
) -> Iterator[dict[str, Any]]:
    """Yield one entry per caption; its statistics are in it if they are given."""
    columns = {name: column.tolist() for name, column in values.items()}
    statistics = [block.tolist() for block in blocks]
    captions, references = samples.captions(), samples.references()
    named = any(samples.systems)
    for row, (name, system, image) in enumerate(
        zip(samples.ids, samples.systems, samples.images, strict=True)
    ):
        entry: dict[str, Any] = {"id": name}
        if named:
            entry["system"] = system
        if image is not None:
            entry["image"] = image
        entry["caption"] = captions[row]
        if references[row]:
            entry["references"] = references[row]
        entry |= {c: _n(v[row]) for c, v in columns.items()}
        if statistics:
            entry["statistics"] = [[_n(v) for v in block[row]] for block in statistics]
        yield entry


def facts(table: ScoreTable | StreamSummary, labels: Labels | None) -> dict[str, Any]:
    """Return everything but the rows."""
    systems = {
        s: {c: {"value": _n(v), "low": _n(v.low), "high": _n(v.high)} for c, v in values.items()}
        for s, values in table.corpora.items()
    }
    out: dict[str, Any] = {"format": STORED}
    if len(systems) == 1:
        out["corpus"] = next(iter(systems.values()))
    out["systems"] = systems
    out["signatures"] = table.signatures
    out["unscored"] = [u._asdict() for u in table.unscored]
    out["notes"] = table.notes
    out["metrics"] = [
        {"metric": form, "columns": [c.name for c in step.columns], "names": list(step.names)}
        for form, step in zip(table.metric_forms, table.steps, strict=True)
    ]
    out["seed"] = table.seed
    out["job"] = table.job
    histograms = getattr(table, "histograms", {})
    if histograms:
        out["histograms"] = {
            name: {"edges": h.edges.tolist(), "counts": h.counts.tolist()}
            for name, h in histograms.items()
        }
    if labels is not None:
        out["objects"] = {"source": labels.source, "by_image": dict(labels.by_image)}
        if labels.places:  # for pictures: rounded to what can be seen
            out["objects"]["places"] = {
                image: [[p.label, round(p.score, 3), [round(v, 1) for v in p.box]] for p in places]
                for image, places in labels.places.items()
            }
    return out


def to_arrow(table: ScoreTable, whole: bool = False) -> pa.Table:
    """Return the caption scores; all else stands as JSON in the metadata under ``captious``.

    Args:
        table: what to write.
        whole: with references and statistics, so that it can be read back.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {
        "id": pa.array(table.ids.tolist(), pa.string()),
        "system": pa.array(table.systems.tolist(), pa.string()),
        "image": pa.array(table.samples.images.tolist(), pa.string()),
        "caption": pa.array(table.captions, pa.large_string()),
    }
    if whole:
        columns["references"] = pa.array(table.samples.references(), pa.list_(pa.large_string()))
    columns |= {name: pa.array(values) for name, values in table.values.items()}
    if whole:
        for number, block in enumerate(table.blocks):
            flat = pa.array(np.ascontiguousarray(block).ravel())
            columns[f"statistics {number}"] = pa.FixedSizeListArray.from_arrays(
                flat, block.shape[1]
            )
    return pa.table(columns).replace_schema_metadata(
        {"captious": json.dumps(facts(table, table.samples.evidence.labels))}
    )


# -- reading back ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """The parts of a stored table, as plain data."""

    samples: CaptionSet
    values: dict[str, Floats]
    statistics: list[Floats]
    metrics: list[dict[str, Any]]
    corpora: dict[str, dict[str, tuple[float, float, float]]]
    signatures: dict[str, str]
    unscored: list[tuple[str, str, str, str]]
    notes: dict[str, int]
    job: dict[str, Any]
    seed: int


def is_stored(path: Path) -> bool:
    """Tell whether a file is a stored table, without reading all of it."""
    kind = files.suffix(path)
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            # Of the file, not of its schema: a stream knows its description last.
            return b"captious" in (pq.read_metadata(path).metadata or {})
        if kind in ("json", "jsonl"):
            with open(path, "rb") as file:
                return STORED.encode() in file.read(4096)
    except (OSError, ValueError):
        return False
    return False


def read(path: Path) -> Stored:
    """Read a table that :func:`save` wrote as parquet, JSON or JSON lines.

    Raises:
        InputError: the file is no stored table.
    """
    kind = files.suffix(path)
    with reading(path, "a table of captious score", "store it again as .parquet or .json"):
        if kind == "parquet":
            return _of_arrow(path)
        if kind == "jsonl":
            first, *rest = read_text(path).strip().split("\n")
            whole = _object(parse_json(first, path), path, "the first line")
            whole["captions"] = [parse_json(line, path) for line in rest]
        elif kind == "json":
            whole = read_json(path)
        else:
            raise InputError(
                f"{path}: tables can be read back from .parquet, .json and .jsonl, not from this"
            )
        return _of_json(whole, path)


def _of_json(whole: Any, path: Path) -> Stored:
    if not isinstance(whole, dict) or whole.get("format") != STORED:
        raise InputError(
            f"{path}: this is not a table that this version of captious stored; score again with "
            "`captious score ... -o FILE`"
        )
    rows = [
        _object(row, path, f"caption {number}")
        for number, row in enumerate(_list(whole.get("captions"), path, "'captions'"), start=1)
    ]
    values = {
        name: np.array([_number(row.get(name)) for row in rows]) for name in whole["signatures"]
    }
    held = whole.get("statistics")
    if held is None:  # written batch by batch: each row has its own
        held = [[row["statistics"][at] for row in rows] for at in range(len(whole["metrics"]))]
    statistics = [
        np.array([[_number(v) for v in row] for row in block], np.float64).reshape(len(rows), -1)
        for block in held
    ]
    samples = CaptionSet.build(
        [_text(row["caption"]) for row in rows],
        [list(map(_text, row.get("references", ()))) for row in rows],
        ids=[row["id"] for row in rows],
        images=[row.get("image") for row in rows],
        systems=[row.get("system", "") for row in rows],
    )
    return _stored(samples, values, statistics, whole, path)


def _of_arrow(path: Path) -> Stored:
    table = read_parquet(path)
    text = (table.schema.metadata or {}).get(b"captious")
    if text is None:
        raise InputError(f"{path}: this parquet file was not written by captious score")
    whole = _object(parse_json(text, path), path, "its description")
    if whole.get("format") != STORED or "references" not in table.column_names:
        raise InputError(f"{path}: stored by another version of captious; score again")
    values = {
        name: table.column(name).to_numpy().astype(np.float64) for name in whole["signatures"]
    }
    statistics = []
    for number in range(len(whole["metrics"])):
        column = table.column(f"statistics {number}").combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False)
        statistics.append(flat.astype(np.float64).reshape(table.num_rows, -1))
    samples = CaptionSet.build(
        list(map(_text, table.column("caption").to_pylist())),
        [list(map(_text, texts)) for texts in table.column("references").to_pylist()],
        ids=table.column("id").to_pylist(),
        images=table.column("image").to_pylist(),
        systems=table.column("system").to_pylist(),
    )
    return _stored(samples, values, statistics, whole, path)


def _object(value: Any, path: Path, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: {what} is {type(value).__name__}, not a JSON object")
    return value


def _list(value: Any, path: Path, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{path}: {what} is {type(value).__name__}, not a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a caption or reference is {type(value).__name__}, not text")
    return value


def _place(value: Any) -> Place:
    label, score, box = value
    left, top, right, bottom = map(float, box)
    return Place(_text(label), float(score), (left, top, right, bottom))


def _stored(
    samples: CaptionSet, values: dict[str, Floats], statistics: list[Floats], whole: Any, path: Path
) -> Stored:
    for part in ("systems", "signatures", "notes", "objects"):
        if part in whole:
            _object(whole[part], path, f"'{part}'")
    for system, columns in whole["systems"].items():
        for name, value in _object(columns, path, f"the system {system!r}").items():
            _object(value, path, f"the value {name!r}")
    if "objects" in whole:
        labels = {k: tuple(v) for k, v in whole["objects"]["by_image"].items()}
        places = {
            k: tuple(_place(p) for p in v) for k, v in whole["objects"].get("places", {}).items()
        }
        samples = samples.with_labels(labels, whole["objects"]["source"], places)
    corpora = {
        system: {
            name: (_number(v["value"]), _number(v["low"]), _number(v["high"]))
            for name, v in columns.items()
        }
        for system, columns in whole["systems"].items()
    }
    unscored = [(u["id"], u["system"], u["column"], u["reason"]) for u in whole["unscored"]]
    return Stored(
        samples,
        values,
        statistics,
        whole["metrics"],
        corpora,
        whole["signatures"],
        unscored,
        whole["notes"],
        whole["job"],
        int(whole["seed"]),
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


# -- for people and other programs -----------------------------------------------------------------


def _csv(table: ScoreTable) -> Iterator[str]:
    """Yield one row per caption."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["system", "id", "caption", *table.values])
    for start in range(0, len(table), _PART):
        samples = table.samples.take(range(start, min(len(table), start + _PART)))
        columns = [map(_c, v[start : start + _PART].tolist()) for v in table.values.values()]
        writer.writerows(
            zip(samples.systems, samples.ids, samples.captions(), *columns, strict=True)
        )
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def corpus_csv(table: ScoreTable | StreamSummary) -> str:
    """One row per system and column: value, interval, signature."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["system", "metric", "value", "low", "high", "signature"])
    for system, values in table.corpora.items():
        for name, value in values.items():
            numbers = (_c(value), _c(value.low), _c(value.high))
            writer.writerow([system, name, *numbers, table.signatures[name]])
    return out.getvalue()


def _n(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _c(value: float) -> str:
    return "" if math.isnan(value) else repr(float(value))
