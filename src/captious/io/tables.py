"""Write a ScoreTable: every format holds corpus and caption scores and the signatures."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.errors import UsageError, did_you_mean
from captious.io import files

if TYPE_CHECKING:
    import pyarrow as pa

    from captious.engine.table import ScoreTable

FORMATS = ("text", "markdown", "latex", "csv", "json", "jsonl", "parquet")
_SUFFIX = {"txt": "text", "md": "markdown", "tex": "latex"} | {f: f for f in FORMATS[3:]}


def save(table: ScoreTable, path: Path, format: str | None = None) -> None:
    """Write a table; the ending of the path tells the format unless it is named."""
    kind = format or _SUFFIX.get(files.suffix(path), "")
    if kind not in FORMATS:
        raise UsageError(
            f"{path}: the ending does not tell a format; use one of "
            f"{', '.join('.' + s for s in _SUFFIX)} or name the format"
        )
    if kind == "parquet":
        import pyarrow.parquet as pq

        with files.replacing(path, "wb") as file:
            pq.write_table(to_arrow(table), file)
        return
    with files.replacing(path) as file:
        file.write(render(table, kind, rows=None))


def render(table: ScoreTable, format: str, rows: int | None = 10) -> str:
    """Return the table as text.

    Args:
        table: what to write.
        format: one of ``FORMATS`` except parquet.
        rows: captions shown by text, markdown and latex (None = all); the rest always hold all.
    """
    if format == "json":
        return json.dumps(to_json(table), indent=1, ensure_ascii=False) + "\n"
    if format == "jsonl":
        whole = to_json(table)
        captions = whole.pop("captions")
        lines = [whole, *captions]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    if format == "csv":
        return _csv(table)
    if format in ("text", "markdown", "latex"):
        return _pages(table, format, rows)
    raise UsageError(f"no format {format!r}.{did_you_mean(format, FORMATS)} Formats: {FORMATS}")


def to_json(table: ScoreTable) -> dict[str, Any]:
    """Return the whole table as plain data (NaN becomes null)."""
    systems = {
        s: {c: {"value": _n(v), "low": _n(v.low), "high": _n(v.high)} for c, v in values.items()}
        for s, values in table.corpora.items()
    }
    one = len(systems) == 1
    named = any(table.systems)
    columns = {name: values.tolist() for name, values in table.values.items()}
    captions = []
    for row, (name, system) in enumerate(zip(table.ids, table.systems, strict=True)):
        entry: dict[str, Any] = {"id": name}
        if named:
            entry["system"] = system
        entry["caption"] = table.captions[row]
        entry |= {c: _n(v[row]) for c, v in columns.items()}
        captions.append(entry)
    out: dict[str, Any] = {"corpus": next(iter(systems.values()))} if one else {}
    if not one or named:
        out["systems"] = systems
    out["captions"] = captions
    out["signatures"] = table.signatures
    out["unscored"] = [
        {"id": u.id}
        | ({"system": u.system} if named else {})
        | {"column": u.column, "reason": u.reason}
        for u in table.unscored
    ]
    if table.notes:
        out["notes"] = table.notes
    if table.run:
        out["run"] = table.run
    return out


def to_arrow(table: ScoreTable) -> pa.Table:
    """Return the caption scores; all else stands as JSON in the metadata under ``captious``."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "id": pa.array(table.ids.tolist(), pa.string()),
        "system": pa.array(table.systems.tolist(), pa.string()),
        "image": pa.array([str(i) for i in table.images], pa.string()),
        "caption": pa.array(table.captions, pa.large_string()),
    }
    columns |= {name: pa.array(values) for name, values in table.values.items()}
    whole = to_json(table)
    whole.pop("captions")
    return pa.table(columns).replace_schema_metadata({"captious": json.dumps(whole)})


def _csv(table: ScoreTable) -> str:
    """One row per caption; the corpus values are rows of other levels at the top."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = list(table.values)
    writer.writerow(["level", "system", "id", "caption", *names])
    for system, values in table.corpora.items():
        writer.writerow(["corpus", system, "", "", *(_c(values[n]) for n in names)])
        writer.writerow(["corpus_low", system, "", "", *(_c(values[n].low) for n in names)])
        writer.writerow(["corpus_high", system, "", "", *(_c(values[n].high) for n in names)])
    writer.writerow(["signature", "", "", "", *(table.signatures[n] for n in names)])
    columns = [table.values[n].tolist() for n in names]
    for row, (name, system) in enumerate(zip(table.ids, table.systems, strict=True)):
        writer.writerow(
            ["caption", system, name, table.captions[row], *(_c(c[row]) for c in columns)]
        )
    return out.getvalue()


def _pages(table: ScoreTable, format: str, rows: int | None) -> str:
    """Corpus table, caption table, signatures, and what could not be scored."""
    names = list(table.values)
    corpus = [["metric", *([s or "score" for s in table.corpora])]]
    for n in names:
        corpus.append([n, *(with_interval(v[n], format) for v in table.corpora.values())])
    shown = len(table) if rows is None else min(rows, len(table))
    several = len(table.corpora) > 1
    captions = [["id", *(["system"] if several else []), "caption", *names]]
    for r in range(shown):
        captions.append(
            [
                str(table.ids[r]),
                *([str(table.systems[r])] if several else []),
                _short(table.captions[r], 48),
                *(_f(table.values[n][r]) for n in names),
            ]
        )
    left = len(table) - shown
    said = [f"{len(table):,} captions; 95 % intervals from a bootstrap over images"]
    if left > 0:
        said.append(f"{left:,} more captions are not shown; --rows all or --format json has them")
    for s in dict.fromkeys(table.signatures.values()):
        of = [n for n, t in table.signatures.items() if t == s]
        said.append(f"{', '.join(of)}: {s}")
    said += [f"note: {note} ({count:,})" for note, count in table.notes.items()]
    reasons: dict[tuple[str, str], int] = {}
    for u in table.unscored:
        reasons[u.column, u.reason] = reasons.get((u.column, u.reason), 0) + 1
    said += [f"{c}: {n:,} captions not scored: {why}" for (c, why), n in reasons.items()]
    comment = {"text": "", "markdown": "- ", "latex": "% "}[format]
    tail = "\n".join(comment + line.replace("\n", " ") for line in said)
    return f"{grid(corpus, format)}\n\n{grid(captions, format)}\n\n{tail}\n"


def grid(cells: list[list[str]], format: str) -> str:
    """Return a table of cells, the first row being its header, as text, markdown or latex."""
    return {"text": _grid_text, "markdown": _grid_markdown, "latex": _grid_latex}[format](cells)


def _grid_text(cells: list[list[str]]) -> str:
    widths = [max(len(r[i]) for r in cells) for i in range(len(cells[0]))]
    words = {i for i, name in enumerate(cells[0]) if name in ("metric", "id", "system", "caption")}
    lines = [
        "  ".join(
            c.ljust(w) if i in words else c.rjust(w)
            for i, (c, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in cells
    ]
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)


def _grid_markdown(cells: list[list[str]]) -> str:
    rows = [[c.replace("|", "\\|").replace("\n", " ") for c in r] for r in cells]
    lines = ["| " + " | ".join(r) + " |" for r in rows]
    lines.insert(1, "|" + "---|" * len(cells[0]))
    return "\n".join(lines)


_TEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "\n": " "}
)


def _grid_latex(cells: list[list[str]]) -> str:
    lines = [r"\begin{tabular}{l" + "r" * (len(cells[0]) - 1) + "}", r"\toprule"]
    for i, row in enumerate(cells):
        done = [c if c.startswith("$") and c.endswith("$") else c.translate(_TEX) for c in row]
        lines.append(" & ".join(done) + r" \\")
        if i == 0:
            lines.append(r"\midrule")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def with_interval(value: Any, format: str) -> str:
    """Write a corpus value with the bounds of its interval, where it has one."""
    if math.isnan(value.low):
        return _f(value)
    if format == "latex":
        return f"${_f(value)}\\;[{_f(value.low)}, {_f(value.high)}]$"
    return f"{_f(value)} [{_f(value.low)}, {_f(value.high)}]"


def _short(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _f(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _n(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _c(value: float) -> str:
    return "" if math.isnan(value) else repr(float(value))
