"""The report as one file that opens from disk, or as a folder with everything in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.engine.evidence import photographs_of
from captious.engine.table import ScoreTable
from captious.errors import MissingExtra, UsageError
from captious.io import files
from captious.report import contents as told
from captious.report import explained, extras, photographs

if TYPE_CHECKING:
    import jinja2

MOST = 500
"""Captions inside one file."""

BUDGET = 5_000_000
_PHOTOGRAPHS, _EXPLANATIONS = 2_600_000, 1_400_000


@dataclass(frozen=True)
class Options:
    """How a report is written.

    Attributes:
        title: of the page.
        most: captions inside one file.
        seconds: bound on the time that explanations may take.
        images: folder of the photographs, if they are not where they were.
        bundle: write a folder that holds every caption.
        columns: file with columns of the user's own, by id.
    """

    title: str = ""
    most: int = MOST
    seconds: float = 60.0
    images: Path | None = None
    bundle: bool = False
    columns: Path | None = None


def check(path: Path, options: Options) -> None:
    """Refuse before any work what could not be written.

    Raises:
        UsageError: the ending is not .html, or a number makes no sense.
        MissingExtra: Jinja2 is not installed.
    """
    if not options.bundle and path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"{path}: a report is written as .html; --bundle FOLDER writes it as a folder"
        )
    if path.is_dir() and not options.bundle:
        raise UsageError(f"{path}: this is a folder; name a file in it, or use --bundle")
    if options.most < 1:
        raise UsageError("the number of captions in a report must be at least 1")
    if find_spec("jinja2") is None:
        raise MissingExtra("jinja2", "report", "a report")


def write(table: ScoreTable, path: Path, options: Options | None = None) -> list[str]:
    """Write the report of a table and return remarks on what was left out."""
    options = options or Options()
    check(path, options)
    more = extras.Extras() if options.columns is None else extras.read(options.columns, table)
    most = len(table) if options.bundle else options.most
    shown = told.choose(table, most)
    rows = told.rows_of(shown).tolist()
    pictures = _photographs(table, rows, options)
    share = 50 if options.bundle else 1
    small = photographs.gather(pictures, share * _PHOTOGRAPHS)
    # What the photographs do not need is the explanations'.
    letters = share * (_EXPLANATIONS + _PHOTOGRAPHS) - min(len(small.text), share * _PHOTOGRAPHS)
    why = explained.explain_table(table, rows, options.seconds, letters)
    data = told.contents(table, shown, more)
    data["title"] = options.title or "captious report"
    data["explained"] = {str(row): parts for row, parts in why.rows.items()}
    data["left_out"] = [*why.left_out, *more.left_out]
    data["photographs"] = {"kind": small.kind, "problems": small.problems[:20]}
    for item, listed in zip(data["items"], shown.rows, strict=True):
        item["rows"] = listed
        if item["image"] in small.places:
            item["photo"] = [*small.places[item["image"]], *small.sizes[item["image"]]]
    if options.bundle:
        _write_folder(path, data, small.text)
    else:
        with files.replacing(path) as file:
            file.write(page(data, small.text))
    remarks = [*why.left_out, *more.left_out]
    if shown.how:
        remarks.append(
            f"{len(shown.rows):,} of {shown.total:,} samples are inside: {shown.how}; "
            "--bundle FOLDER writes all"
        )
    return remarks


def page(data: Mapping[str, Any], photos: str, outside: bool = False) -> str:
    """Return the page; with ``outside``, data and photographs are files beside it."""
    web = resources("captious.report") / "web"
    return _template().render(
        title=data["title"],
        description=_description(data),
        css=(web / "report.css").read_text("utf-8"),
        js="".join((web / name).read_text("utf-8") for name in ("parts.js", "report.js")),
        data="" if outside else safe(data),
        photos="" if outside else photos,
        outside=outside,
        remote=False,
    )


def remote(title: str) -> str:
    """Return the page of a run in the explorer, which asks the service for its samples."""
    return _template().render(title=title, description="", outside=True, remote=True)


def _template() -> jinja2.Template:
    import jinja2

    made = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = (resources("captious.report") / "web" / "report.html.j2").read_text("utf-8")
    return made.from_string(text)


def safe(data: Mapping[str, Any]) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _description(data: Mapping[str, Any]) -> str:
    counts = {
        "system": len(data["systems"]),
        "caption": data["captions"],
        "metric": len(data["metrics"]),
    }
    return ", ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for what, n in counts.items())


def _write_folder(folder: Path, data: Mapping[str, Any], photos: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with files.replacing(folder / "data.js") as file:
        # A script, not JSON: browsers refuse to fetch files beside a page opened from disk.
        file.write("window.CAPTIOUS_DATA=" + safe(data) + ";\n")
    with files.replacing(folder / "photographs.js") as file:
        file.write("window.CAPTIOUS_PHOTOS=" + json.dumps(photos) + ";\n")
    with files.replacing(folder / "index.html") as file:
        file.write(page(data, "", outside=True))


def _photographs(table: ScoreTable, rows: list[int], options: Options) -> dict[str, Path | bytes]:
    """Return the photographs of the rows, looked for in ``options.images`` too."""
    samples = table.samples.take(rows)
    photographs = photographs_of(samples)
    if options.images is not None:
        for image in dict.fromkeys(samples.images.tolist()):
            if image is None or image in photographs:
                continue
            near = options.images / Path(image).name
            if near.is_file():
                photographs[image] = near
    return photographs
