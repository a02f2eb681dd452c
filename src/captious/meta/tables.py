"""Tables of agreement as text, markdown, CSV or JSON; each names its protocol."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from captious._version import __version__
from captious.errors import UsageError
from captious.io.grids import Cells, Part
from captious.meta import agreement
from captious.meta.evaluate import Evaluation, Test

FORMATS = ("text", "markdown", "csv", "json")
WIDTH = 100
"""Characters in a line of running text; a wider table is not aligned."""
_SHOWN = 110
_LONGEST = 400
"""Letters of a reason that is one sentence."""
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")


def render(
    evaluation: Evaluation,
    tests: Sequence[Test] = (),
    format: str = "text",
    signatures: bool = True,
) -> str:
    """Return an evaluation as text."""
    if format == "json":
        return json.dumps(to_json(evaluation, tests), indent=1, allow_nan=False) + "\n"
    if format == "csv":
        out = io.StringIO()
        rows = _values(evaluation)
        csv.writer(out).writerows([[*row, evaluation.protocol.name] for row in rows])
        return out.getvalue()
    told = parts(evaluation, tests, format, signatures)
    return "\n\n".join(p if isinstance(p, str) else grid(p, format) for p in told) + "\n"


def parts(
    evaluation: Evaluation,
    tests: Sequence[Test] = (),
    format: str = "text",
    signatures: bool = True,
) -> list[Part]:
    """Return the tables of an evaluation and the remarks below them."""
    mark = "- " if format == "markdown" else ""
    said = "\n".join(mark + line for line in remarks(evaluation, tests, signatures))
    return [_values(evaluation), *([_tested(tests)] if tests else []), said]


def _values(evaluation: Evaluation) -> list[list[str]]:
    """Return agreement with people as cells, the best metric first."""
    groups = sorted({g for r in evaluation.results for g in r.groups})
    head = ["metric", evaluation.protocol.measure, "95 % interval", *groups, "n"]
    cells = [head]
    for r in sorted(evaluation.results, key=lambda r: -r.value if not math.isnan(r.value) else 9.0):
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
    return cells


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


def remarks(evaluation: Evaluation, tests: Sequence[Test], signatures: bool) -> list[str]:
    """Return what has to stand beside the numbers."""
    said = [f"protocol {evaluation.protocol.name}: {evaluation.protocol.describe()}"]
    counts = ", ".join(f"{k} {v:,}" for k, v in evaluation.judged.counts.items())
    said.append(f"{evaluation.judged.card.title}: {counts}")
    said += [f"note: {r}" for r in evaluation.judged.remarks]
    if evaluation.resamples:
        said.append(
            f"intervals: {evaluation.resamples:,} bootstrap draws of images, seed {evaluation.seed}"
        )
    if tests:
        said.append(
            "tests: permutation of both metrics' scores image by image (PERM-BOTH); "
            f"p corrected by Holm for {len(tests)} comparisons"
        )
        if evaluation.protocol.measure == "r":
            said.append("Williams' test treats rows as independent; its p is not corrected")
    said += [f"ceiling, {k}: {v:.4f}" for k, v in agreement.ceiling(evaluation.judged).items()]
    for r in evaluation.results:
        if r.reason:
            said.append(f"{r.metric}: not computed: {short(r.reason)}")
        elif r.unscored:
            said.append(f"{r.metric}: {r.unscored:,} of {r.n + r.unscored:,} without a score")
    if signatures:
        said += [f"{r.metric}: {r.signature}" for r in evaluation.results if r.signature]
    return said


def to_json(evaluation: Evaluation, tests: Sequence[Test]) -> dict[str, Any]:
    """Return an evaluation as JSON-able data; NaN is null."""
    whole = {
        "set": evaluation.judged.name,
        "protocol": asdict(evaluation.protocol) | {"in words": evaluation.protocol.describe()},
        "counts": evaluation.judged.counts,
        "remarks": list(evaluation.judged.remarks),
        "ceiling": agreement.ceiling(evaluation.judged),
        "resamples": evaluation.resamples,
        "seed": evaluation.seed,
        "results": [asdict(r) for r in evaluation.results],
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


def grid(cells: Cells, format: str) -> str:
    """Return cells as an aligned or a markdown table; the first row is the head."""
    if format not in FORMATS:
        raise UsageError(f"formats are {', '.join(FORMATS)}, not {format!r}")
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    if format == "markdown" and sum(widths) + 3 * len(widths) > WIDTH:
        # One long cell would make every line of an aligned table as long as itself.
        head, *rows = cells
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
    lines = [[f"{c:<{w}}" for c, w in zip(row, widths, strict=True)] for row in cells]
    lines.insert(1, ["-" * w for w in widths])
    if format == "markdown":
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def paragraph(text: str, first: str = "", rest: str = "") -> str:
    """Return running text in lines of natural length; ``first`` and ``rest`` begin its lines."""
    flat = " ".join(text.split())
    return textwrap.fill(
        flat, WIDTH, initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def bullets(lines: Iterable[str], format: str = "markdown") -> str:
    """Return remarks as a list: in markdown with lines of natural length, else one a line.

    Example:
        >>> print(bullets(["ties count half", "five references"]))
        - ties count half
        - five references
    """
    if format != "markdown":
        return "\n".join(lines)
    return "\n".join(paragraph(line, "- ", "  ") for line in lines)


def short(text: str, width: int = _SHOWN) -> str:
    """Return the whole sentences of a message that fit into the width; at least the first.

    Example:
        >>> short("The encoder is not on this machine. Get it with --download.", 40)
        'The encoder is not on this machine.'
    """
    first, *others = _SENTENCE.split(" ".join(text.split()))
    for sentence in others:
        if len(first) + 1 + len(sentence) > width:
            break
        first += f" {sentence}"
    return cut(first, _LONGEST)


def cut(text: str, width: int) -> str:
    """Cut a text to one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3].rstrip() + "..."
