"""Tables of agreement as text, markdown, CSV or JSON; each names its protocol."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from captious._version import __version__
from captious.errors import UsageError
from captious.meta import agreement
from captious.meta.evaluate import Evaluation, Test

FORMATS = ("text", "markdown", "csv", "json")
_SHOWN = 110


def render(
    found: Evaluation, tests: Sequence[Test] = (), format: str = "text", signatures: bool = True
) -> str:
    """Return an evaluation as text."""
    if format == "json":
        return json.dumps(to_json(found, tests), indent=1, allow_nan=False) + "\n"
    groups = sorted({g for r in found.results for g in r.groups})
    head = ["metric", found.protocol.measure, "95 % interval", *groups, "n"]
    cells = [head]
    for r in sorted(found.results, key=lambda r: -r.value if not math.isnan(r.value) else 9.0):
        if r.reason:
            cells.append([r.metric, "-", "", *("" for _ in groups), ""])
        else:
            cells.append(
                [
                    r.metric,
                    f"{r.value:.4f}",
                    f"[{r.low:.4f}, {r.high:.4f}]" if r.low == r.low else "",
                    *(f"{r.groups.get(g, float('nan')):.4f}" for g in groups),
                    f"{r.n:,}",
                ]
            )
    if format == "csv":
        out = io.StringIO()
        csv.writer(out).writerows([[*row, found.protocol.name] for row in cells])
        return out.getvalue()
    mark = "- " if format == "markdown" else ""
    parts = [grid(cells, format)]
    if tests:
        parts.append(grid(_tested(tests), format))
    parts.append("\n".join(mark + line for line in remarks(found, tests, signatures)))
    return "\n\n".join(parts) + "\n"


def _tested(tests: Sequence[Test]) -> list[list[str]]:
    """Return the comparisons as cells; Williams' p stands beside where there is one."""
    williams = any(not math.isnan(t.williams_p) for t in tests)
    cells = [["pair", "difference", "p", "p Holm", *(["p Williams"] * williams)]]
    for t in tests:
        row = [
            f"{t.a} - {t.b}",
            f"{t.difference:+.4f}",
            f"{t.p:.4f}",
            f"{t.corrected:.4f}{'*' if t.corrected < 0.05 else ''}",
        ]
        cells.append(row + [f"{t.williams_p:.4f}"] * williams)
    return cells


def remarks(found: Evaluation, tests: Sequence[Test], signatures: bool) -> list[str]:
    """Return what has to stand beside the numbers."""
    said = [f"protocol {found.protocol.name}: {found.protocol.describe()}"]
    counts = ", ".join(f"{k} {v:,}" for k, v in found.judged.counts.items())
    said.append(f"{found.judged.card.title}: {counts}")
    said += [f"note: {r}" for r in found.judged.remarks]
    if found.resamples:
        said.append(f"intervals: {found.resamples:,} bootstrap draws of images, seed {found.seed}")
    if tests:
        said.append(
            "tests: scores of two metrics change places image by image (PERM-BOTH); "
            f"p corrected by Holm for {len(tests)} comparisons"
        )
        if found.protocol.measure == "r":
            said.append("Williams' test takes rows as independent; its p is not corrected")
    said += [f"ceiling, {k}: {v:.4f}" for k, v in agreement.ceiling(found.judged).items()]
    for r in found.results:
        if r.reason:
            said.append(f"{r.metric}: not computed: {short(r.reason)}")
        elif r.unscored:
            said.append(f"{r.metric}: {r.unscored:,} of {r.n + r.unscored:,} without a score")
    if signatures:
        said += [f"{r.metric}: {r.signature}" for r in found.results if r.signature]
    return said


def to_json(found: Evaluation, tests: Sequence[Test]) -> dict[str, Any]:
    """Return an evaluation as JSON-able data; NaN is null."""
    whole = {
        "set": found.judged.name,
        "protocol": asdict(found.protocol) | {"in words": found.protocol.describe()},
        "counts": found.judged.counts,
        "remarks": list(found.judged.remarks),
        "ceiling": agreement.ceiling(found.judged),
        "resamples": found.resamples,
        "seed": found.seed,
        "results": [asdict(r) for r in found.results],
        "tests": [asdict(t) for t in tests],
        "captious": __version__,
    }
    return _clean(whole)


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(v) for v in value]
    return value


def grid(cells: list[list[str]], format: str) -> str:
    """Return cells as an aligned or a markdown table; the first row is the head."""
    if format not in FORMATS:
        raise UsageError(f"formats are {', '.join(FORMATS)}, not {format!r}")
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [[f"{c:<{w}}" for c, w in zip(row, widths, strict=True)] for row in cells]
    if format == "markdown":
        lines.insert(1, ["-" * w for w in widths])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    lines.insert(1, ["-" * w for w in widths])
    return "\n".join("  ".join(line).rstrip() for line in lines)


def short(text: str, width: int = _SHOWN) -> str:
    """Cut a message to one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3].rstrip() + "..."
