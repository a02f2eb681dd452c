"""An audit as one HTML page that opens from disk: doubtful captions beside their photographs."""

from __future__ import annotations

from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from captious._version import __version__
from captious.curate.auditing import Audited
from captious.engine.evidence import photographs_of
from captious.errors import MissingExtra, UsageError
from captious.io import files
from captious.report import photographs

MOST = 60
"""Captions of each list that the page shows."""
_BUDGET = 4_000_000


def check(path: Path) -> None:
    """Refuse before any work what could not be written.

    Raises:
        UsageError: the ending is not .html.
        MissingExtra: Jinja2 is not installed.
    """
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise UsageError(f"{path}: the report of an audit is a file that ends in .html")
    if find_spec("jinja2") is None:
        raise MissingExtra("jinja2", "report", "a report")


def write(found: Audited, path: Path, *, metric: str, others: int, seed: int) -> None:
    """Write the page of an audit.

    Args:
        found: what was found.
        path: where to.
        metric: the score that was used.
        others: how many other photographs each caption was held against.
        seed: of their choice.
    """
    check(path)
    with files.replacing(path) as file:
        file.write(page(found, metric=metric, others=others, seed=seed))


def page(found: Audited, *, metric: str, others: int, seed: int) -> str:
    """Return the page; the arguments are those of :func:`write`."""
    import jinja2

    lists = _lists(found)
    shown = list(dict.fromkeys(row for _, _, rows in lists for row in rows))
    samples = found.samples.take(np.array(shown, np.int64))
    small = photographs.gather(photographs_of(samples), _BUDGET)
    captions = dict(zip(shown, samples.captions(), strict=True))

    def told(row: int) -> dict[str, Any]:
        image = found.samples.images[row]
        photo = ""
        if image in small.places:
            start, length = small.places[image]
            photo = f"data:{small.kind};base64,{small.text[start : start + length]}"
        return {
            "id": str(found.samples.ids[row]),
            "caption": captions[row],
            "score": "-" if np.isnan(found.fit[row]) else f"{found.fit[row]:.4f}",
            "remarks": "; ".join(found.remarks(row)),
            "photo": photo,
        }

    web = resources("captious.report") / "web"
    made = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = made.from_string((web / "audit.html.j2").read_text("utf-8"))
    return template.render(
        title="Captions to look at",
        css=(web / "report.css").read_text("utf-8"),
        captions=f"{len(found.samples):,}",
        images=f"{len(set(map(str, found.samples.image_keys))):,}",
        metric=metric,
        others=others,
        generic=f"{int((found.nearer >= 0.5).sum()):,}",
        copies=f"{int((found.copies > 0).sum()):,}",
        parts=[
            {"title": title, "about": about, "rows": list(map(told, rows))}
            for title, about, rows in lists
        ],
        problems=small.problems[:20],
        version=__version__,
        seed=seed,
    )


def _lists(found: Audited) -> list[tuple[str, str, list[int]]]:
    """Return title, explanation and rows of every list, the most doubtful first."""
    order = found.order.tolist()
    generic = sorted((r for r in order if found.nearer[r] >= 0.5), key=lambda r: -found.nearer[r])
    copies = sorted((r for r in order if found.copies[r]), key=lambda r: -found.copies[r])
    count = len(order)

    def head(rows: list[int]) -> str:
        return "" if len(rows) <= MOST else f" The first {MOST} of {len(rows):,} are shown."

    return [
        (
            "Probably not of this photograph",
            f"All {count:,} captions by their score with their own photograph, lowest first."
            + head(order),
            order[:MOST],
        ),
        (
            "Fit any photograph",
            "At least as near to half of the other photographs as to their own." + head(generic),
            generic[:MOST],
        ),
        (
            "The same words elsewhere",
            "Their words stand under other photographs, too." + head(copies),
            copies[:MOST],
        ),
    ]
