"""One run in a process of its own: ``python -m captious.serve.worker FOLDER``.

The service writes ``job.json`` into the folder and reads lines of JSON from this process: how far
it is, and in the end what was found or what went wrong. Statistics of finished chunks go to the
cache, so a run that was killed goes on where it was. When the service dies, its end of our standard
input closes, and this process ends too.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious import progress, settings
from captious.engine.cache import default_cache
from captious.engine.executors import Local
from captious.engine.job import ScoringJob
from captious.engine.run import run
from captious.engine.table import ScoreTable, join
from captious.errors import CaptiousError, InputError
from captious.io import files
from captious.io.load import Album
from captious.reading import json_object
from captious.report import contents
from captious.report.page import MOST
from captious.serve.wording import for_the_page

PARTS = 16
"""Parts that a run is cut into at least, so that little is lost when it is killed."""


def main(folder: Path) -> int:
    """Work on the run of a folder and say how it went."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("captious").addHandler(logging.NullHandler())
    os.chdir(tempfile.mkdtemp(prefix="captious-"))  # names in files are never relative to ours
    job: dict[str, Any] = {}
    try:
        job = json_object(folder / "job.json", "a job")
        with settings.use(cache_dir=Path(job["cache"]), progress=False), progress.heard(_tell):
            table, left_out = _table(folder, job)
            _tell("writing", 0, None)
            table.save(folder / "scores.parquet")
            write_contents(table, folder, str(job.get("title", "")), left_out)
    except CaptiousError as err:
        _say(error=for_the_page(_by_their_names(str(err), folder, job)))
        return 1
    except MemoryError:
        _say(error="not enough memory for this run; give fewer captions at once")
        return 1
    metrics = list(dict.fromkeys(step.metric.name for step in table.steps))
    _say(captions=len(table), systems=list(table.corpora), metrics=metrics)
    return 0


def write_contents(
    table: ScoreTable, folder: Path, title: str, left_out: Sequence[str] = ()
) -> None:
    """Write what the pages of a run show of all captions together."""
    shown = contents.choose(table, MOST)
    data = contents.contents(table, shown)
    for item, rows in zip(data["items"], shown.rows, strict=True):
        item["rows"] = rows
    data |= {"title": title or "captious", "explained": {}, "left_out": [*left_out]}
    data["photographs"] = {"kind": "", "problems": []}
    with files.replacing(folder / "contents.json") as file:
        json.dump(data, file, ensure_ascii=False, separators=(",", ":"))


def _table(folder: Path, job: dict[str, Any]) -> tuple[ScoreTable, list[str]]:
    """Return the table of a run, and what is not in it, in words."""
    if job["kind"] == "table":
        return ScoreTable.load(job["path"]), []
    if job["kind"] == "compare":
        tables = [ScoreTable.load(path) for path in job["tables"]]
        tables, left_out = _shared(tables, job["names"])
        return join(_distinct(tables, job["names"]), job["names"]), left_out
    files = {what: [folder / entry["file"] for entry in job[what]] for what in
             ("captions", "references", "objects")}  # fmt: skip
    asked = ScoringJob(
        files["captions"],
        files["references"] or None,
        Album({entry["name"]: folder / entry["file"] for entry in job["photos"]}),
        files["objects"] or None,
        systems=tuple(job["systems"]) if len(files["captions"]) > 1 else None,
        metrics=tuple(job["metrics"]),
    )
    _tell("reading", 0, None)
    asked.check()
    samples = asked.read()
    if len(samples) > job["rows"]:
        raise InputError(f"{len(samples):,} captions; a run may have {job['rows']:,}")
    table = run(
        samples,
        asked.metrics,
        seed=asked.seed,
        executor=Local(PARTS // 4),  # one process, chunks as if there were several
        cache=default_cache(),
    )
    return replace(table, job=asked.to_json()), []


def _by_their_names(text: str, folder: Path, job: dict[str, Any]) -> str:
    """Return an error with the names that the user knows for the files that we stored."""
    for what in ("captions", "references", "objects", "photos"):
        for entry in job.get(what, ()):
            text = text.replace(str(folder / entry["file"]), entry["name"])
    return text


def _shared(tables: list[ScoreTable], names: list[str]) -> tuple[list[ScoreTable], list[str]]:
    """Return the tables with the metrics that all of them hold, and which others were left out.

    Tables that share no metric come back as they are: to join them is an error that names theirs.
    """
    forms = [f for f in tables[0].metric_forms if all(f in t.metric_forms for t in tables)]
    if not forms:
        return tables, []
    out, left_out = [], []
    for table, name in zip(tables, names, strict=True):
        kept = [table.metric_forms.index(form) for form in forms]
        steps = [table.steps[k] for k in kept]
        columns = {column for step in steps for column in step.names}
        out.append(
            replace(
                table,
                steps=steps,
                blocks=[table.blocks[k] for k in kept],
                columns={k: v for k, v in table.columns.items() if k in columns},
                values={k: v for k, v in table.values.items() if k in columns},
                signatures={k: v for k, v in table.signatures.items() if k in columns},
                unscored=[u for u in table.unscored if u.column in columns],
            )
        )
        others = [form for form in table.metric_forms if form not in forms]
        if others:
            left_out.append(f"only {name} has {', '.join(others)}: not compared")
    return out, left_out


def _distinct(tables: list[ScoreTable], names: list[str]) -> list[ScoreTable]:
    """Return the tables with system names that tell which run they come from."""
    if len({s for t in tables for s in t.corpora}) == sum(len(t.corpora) for t in tables):
        return tables
    out = []
    for table, name in zip(tables, names, strict=True):
        label = {s: f"{name}: {s}" if s else name for s in table.corpora}
        samples = table.samples
        systems = samples.systems.copy()
        systems[:] = [label[s] for s in samples.systems]
        out.append(
            replace(
                table,
                samples=replace(samples, systems=systems),
                corpora={label[s]: v for s, v in table.corpora.items()},
                unscored=[u._replace(system=label[u.system]) for u in table.unscored],
            )
        )
    return out


def _tell(what: str, done: int, total: int | None) -> None:
    _say(what=what, done=done, total=total)


def _say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock would be held when this process ends
        pass
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
