"""Addresses of the runs: upload, watch, cancel, look at, compare; and the pages for browsers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from importlib.resources import files as resources
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from captious.errors import InputError
from captious.evidence.images import SUFFIXES, open_image
from captious.io.tables import is_stored
from captious.reading import json_object
from captious.report import page
from captious.serve.jobs import Jobs
from captious.serve.limits import TooLarge, check_metrics
from captious.serve.schemas import Problem
from captious.serve.service import Service
from captious.serve.store import DONE, Run, Store
from captious.serve.views import MODES, SORTS, Asked, View, Views

_ENDINGS = frozenset({".json", ".jsonl", ".csv", ".tsv", ".parquet", ".txt", ".xml", ".gz"})
_RUN = re.compile(r"[0-9a-f]{16}")
_STATIC = {
    "report.js": "text/javascript",
    "parts.js": "text/javascript",
    "explorer.js": "text/javascript",
    "report.css": "text/css",
    "explorer.css": "text/css",
}


class RunFacts(BaseModel):
    """A run, as callers see it."""

    id: str
    title: str
    kind: Literal["score", "compare", "table"]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    created: float
    finished: float | None
    metrics: list[str]
    captions: int | None
    systems: list[str]
    what: str
    done: int
    total: int | None
    error: str


class Gallery(BaseModel):
    """Some samples of a run."""

    total: int = Field(description="samples that fit")
    items: list[dict[str, Any]]


class Chosen(BaseModel):
    """Runs that are to be laid side by side."""

    model_config = ConfigDict(extra="forbid")
    runs: list[str] = Field(min_length=2, max_length=20)
    title: str = Field("", max_length=200)


class Explorer:
    """The runs of a service and who works on them."""

    def __init__(self, service: Service, store: Store) -> None:
        self.service, self.store = service, store
        self.jobs, self.views = Jobs(store, service.limits), Views()

    def close(self) -> None:
        """Stop working; what was begun goes on at the next start."""
        self.jobs.close()

    def run(self, name: str) -> Run:
        """Return a run, or answer 404."""
        if not _RUN.fullmatch(name):
            raise HTTPException(404, "there is no such run")
        try:
            return self.store.get(name)
        except InputError as err:
            raise HTTPException(404, str(err)) from None

    def view(self, name: str) -> View:
        """Return a finished run, opened."""
        run = self.run(name)
        if run.state != DONE:
            raise HTTPException(409, f"this run is {run.state}; it can be opened when it is done")
        within = None if run.job.get("trusted") else self.store.folder
        path = self.store.path(name) / "scores.parquet"
        return self.views.get(name, lambda: View(path, within))

    def open_table(self, path: Path) -> Run:
        """Add a table that the operator named, unless it is there."""
        for run in self.store.all():
            if run.kind == "table" and run.job.get("path") == str(path.absolute()):
                return run
        if not is_stored(path):
            raise InputError(
                f"{path}: this is not a stored table; make one with "
                "captious score CAPTIONS --refs REFS -o scores.parquet"
            )
        name, _ = self.store.new()
        job = {"path": str(path.absolute()), "trusted": True}
        return self.jobs.add(name, path.name.split(".")[0], "table", job)

    async def upload(
        self, title: str, metrics: list[str], uploads: dict[str, list[UploadFile]]
    ) -> Run:
        """Keep what was uploaded and let it wait.

        Names of uploaded files are text: the files are stored under names of our own.
        """
        self.jobs.check()
        check_metrics(tuple(metrics), self.service.limits.metrics, self.service.only)
        if sum(map(len, uploads.values())) > self.service.limits.files:
            raise TooLarge(f"a run may have {self.service.limits.files:,} files")
        name, folder = self.store.new()
        try:
            job: dict[str, Any] = {"metrics": metrics}
            for what, listed in uploads.items():
                job[what] = await self._kept(folder, what, listed)
            names = [_stem(entry["name"]) for entry in job["captions"]]
            job["systems"] = [n if names.count(n) == 1 else f"{n} {i + 1}"
                              for i, n in enumerate(names)]  # fmt: skip
            return self.jobs.add(name, title or ", ".join(names)[:100], "score", job)
        except BaseException:
            self.store.remove(name)
            raise

    async def _kept(
        self, folder: Path, what: str, listed: list[UploadFile]
    ) -> list[dict[str, str]]:
        allowed = SUFFIXES if what == "photos" else _ENDINGS
        out, problems = [], []
        for number, upload in enumerate(listed):
            given = Path((upload.filename or "").replace("\\", "/")).name[:200] or what
            ending = "".join(Path(given.lower()).suffixes[-2:] if given.lower().endswith(".gz")
                             else [Path(given.lower()).suffix])  # fmt: skip
            if not all(part in allowed for part in re.findall(r"\.\w+", ending)) or not ending:
                known = " ".join(sorted(allowed))
                problems.append(f"{given}: {what} must end in one of {known}")
                continue
            file = folder / f"{what}-{number}{ending}"
            with file.open("wb") as out_file:
                while part := await upload.read(1 << 20):
                    await asyncio.to_thread(out_file.write, part)
            if what == "photos":
                try:
                    await asyncio.to_thread(open_image, file, self.service.limits.pixels)
                except InputError as err:
                    problems.append(str(err).replace(str(file), given))
            out.append({"file": file.name, "name": given})
        if problems:
            raise InputError(problems)
        return out

    def compare(self, chosen: Chosen) -> Run:
        """Lay finished runs side by side, as a run of its own."""
        self.jobs.check()
        runs = [self.run(name) for name in chosen.runs]
        problems = [f"{run.title}: this run is {run.state}" for run in runs if run.state != DONE]
        if len(set(chosen.runs)) < len(runs):
            problems.append("a run is named twice")
        if problems:
            raise InputError(problems)
        titles = [run.title for run in runs]
        names = [t if titles.count(t) == 1 else f"{t} {i + 1}" for i, t in enumerate(titles)]
        name, _ = self.store.new()
        shared = [m for m in runs[0].metrics if all(m in run.metrics for run in runs)]
        job = {
            "metrics": shared or runs[0].metrics,
            "tables": [str(self.store.path(run.id) / "scores.parquet") for run in runs],
            "names": names,
            "trusted": any(run.job.get("trusted") for run in runs),
        }
        return self.jobs.add(name, chosen.title or " and ".join(names)[:100], "compare", job)

    async def events(self, name: str) -> AsyncIterator[str]:
        """Tell how far a run is until it is over."""
        last = ""
        while True:
            run = await asyncio.to_thread(self.run, name)
            now = json.dumps(run.plain())
            if now != last:
                last = now
                yield f"data: {now}\n\n"
            if run.state not in ("waiting", "running") or self.service.stopping:
                return
            await asyncio.sleep(0.2)


def routes(explorer: Explorer, pages: bool) -> tuple[APIRouter, ...]:
    """Return the addresses of the runs, and of the pages if they are asked for."""
    return (_runs(explorer), _gallery(explorer), *([_pages(explorer)] if pages else []))


_MISSING: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "there is no such run"},
    409: {"model": Problem, "description": "the run is not done"},
}


def _runs(explorer: Explorer) -> APIRouter:
    router = APIRouter(tags=["runs"])

    @router.get("/runs")
    def runs() -> list[RunFacts]:
        """List the runs, the newest first."""
        return [RunFacts(**run.plain()) for run in explorer.store.all()]

    @router.post("/runs", status_code=201)
    async def upload(
        captions: Annotated[list[UploadFile], File(description="a file per system")],
        metrics: Annotated[str, Form(description="with commas between", max_length=4000)],
        references: Annotated[list[UploadFile], File()] = [],  # noqa: B006
        objects: Annotated[list[UploadFile], File()] = [],  # noqa: B006
        photos: Annotated[list[UploadFile], File()] = [],  # noqa: B006
        title: Annotated[str, Form(max_length=200)] = "",
    ) -> RunFacts:
        """Upload captions, references and photographs, and let them be scored."""
        from captious import spec as specs

        asked = [str(spec) for spec in specs.parse_many(metrics)]
        listed = {"captions": captions, "references": references, "objects": objects,
                  "photos": photos}  # fmt: skip
        given = {what: [u for u in uploads if u.filename] for what, uploads in listed.items()}
        if not given["captions"]:
            raise InputError("no caption file was uploaded")
        return RunFacts(**(await explorer.upload(title, asked, given)).plain())

    @router.post("/runs/compare", status_code=201, responses=_MISSING)
    def compare(chosen: Chosen) -> RunFacts:
        """Lay finished runs side by side, in the metrics they share, as a run of its own."""
        return RunFacts(**explorer.compare(chosen).plain())

    @router.get("/runs/{run}", responses=_MISSING)
    def one(run: str) -> RunFacts:
        """Tell the state of a run."""
        return RunFacts(**explorer.run(run).plain())

    @router.delete("/runs/{run}", responses=_MISSING)
    def delete(run: str) -> RunFacts:
        """Cancel a run and delete its files."""
        held = explorer.run(run)
        explorer.jobs.cancel(run)
        explorer.views.drop(run)
        explorer.store.remove(run)
        return RunFacts(**held.plain())

    @router.post("/runs/{run}/cancel", responses=_MISSING)
    def cancel(run: str) -> RunFacts:
        """Stop a run; finished parts are kept for the next try."""
        explorer.run(run)
        explorer.jobs.cancel(run)
        return RunFacts(**explorer.run(run).plain())

    @router.post("/runs/{run}/again", responses=_MISSING)
    def again(run: str) -> RunFacts:
        """Try a run that was cancelled or failed once more."""
        explorer.run(run)
        explorer.jobs.again(run)
        return RunFacts(**explorer.run(run).plain())

    @router.get(
        "/runs/{run}/events",
        response_class=StreamingResponse,
        responses=_MISSING | {200: {"content": {"text/event-stream": {}}}},
    )
    def events(run: str) -> StreamingResponse:
        """Tell how far a run is, as server-sent events, until it is over."""
        explorer.run(run)
        return StreamingResponse(explorer.events(run), media_type="text/event-stream")

    return router


def _gallery(explorer: Explorer) -> APIRouter:
    router = APIRouter(tags=["views"], responses=_MISSING)

    @router.get("/runs/{run}/items")
    def items(
        run: str,
        mode: Literal[MODES] = "all",  # type: ignore[valid-type]
        sort: Literal[SORTS] = "file",  # type: ignore[valid-type]
        find: Annotated[str, Query(max_length=200)] = "",
        metric: Annotated[str, Query(max_length=200)] = "",
        base: Annotated[str, Query(max_length=500)] = "",
        vs: Annotated[str, Query(max_length=500)] = "",
        x: Annotated[str, Query(max_length=200)] = "",
        y: Annotated[str, Query(max_length=200)] = "",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        count: Annotated[int, Query(ge=1, le=100)] = 12,
    ) -> Gallery:
        """Return a page of the gallery."""
        asked = Asked(mode, sort, find, metric, base, vs, x, y)
        total, listed = explorer.view(run).page(asked, offset, count)
        return Gallery.model_construct(total=total, items=listed)

    @router.get("/runs/{run}/item")
    def item(run: str, id: Annotated[str, Query(max_length=500)]) -> dict[str, Any]:
        """Return one sample of the gallery."""
        try:
            return explorer.view(run).sample(id)
        except InputError as err:
            raise HTTPException(404, str(err)) from None

    @router.get("/runs/{run}/explain")
    def explain(run: str, row: Annotated[int, Query(ge=0)]) -> list[dict[str, Any]]:
        """Explain a caption of a run by every metric of the run."""
        return explorer.view(run).explain(row)

    @router.get(
        "/runs/{run}/photo/{row}",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}},
    )
    def photo(run: str, row: int, width: Annotated[int, Query(ge=16, le=2000)] = 480) -> Response:
        """Return the photograph of a caption, small."""
        try:
            content = explorer.view(run).picture(row, width)
        except InputError as err:
            raise HTTPException(404, str(err)) from None
        kept = {"cache-control": "private, max-age=3600"}
        return Response(content, media_type="image/jpeg", headers=kept)

    @router.get(
        "/runs/{run}/scores.parquet",
        response_class=FileResponse,
        responses={200: {"content": {"application/octet-stream": {}}}},
    )
    def scores(run: str) -> FileResponse:
        """Return the stored table, which `captious report` and `compare` read."""
        explorer.view(run)
        return FileResponse(
            explorer.store.path(run) / "scores.parquet",
            media_type="application/octet-stream",
            filename="scores.parquet",
        )

    return router


def _pages(explorer: Explorer) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    def home() -> HTMLResponse:
        """Show the runs, and the forms for a new run and a single caption."""
        web = resources("captious.serve") / "web"
        return HTMLResponse((web / "explorer.html").read_text("utf-8"))

    @router.get("/run/{run}/")
    def shown(run: str) -> HTMLResponse:
        """Show a run as the report does."""
        explorer.view(run)
        return HTMLResponse(page.remote(explorer.run(run).title))

    @router.get("/run/{run}/data.js")
    def data(run: str) -> Response:
        """Return what the page of a run shows of all captions."""
        explorer.view(run)
        held = json_object(explorer.store.path(run) / "contents.json", "the page of a run")
        held |= {"title": explorer.run(run).title, "remote": f"/runs/{run}"}
        text = "window.CAPTIOUS_DATA=" + page.safe(held) + ";\n"
        return Response(text, media_type="text/javascript")

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        """Return a script or a style of the pages."""
        if name not in _STATIC:
            raise HTTPException(404, "there is no such file")
        home = "captious.serve" if name.startswith("explorer") else "captious.report"
        text = (resources(home) / "web" / name).read_text("utf-8")
        return Response(text, media_type=_STATIC[name])

    return router


def _stem(name: str) -> str:
    return name.split(".")[0] or name
