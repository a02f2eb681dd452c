"""The HTTP side of the service: addresses, errors, counts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from captious._version import __version__
from captious.errors import CaptiousError, InputError, UsageError
from captious.serve.guard import App, Guard, Message, Receive, Rules, Scope, Send
from captious.serve.limits import Busy, Stopped, TooLarge
from captious.serve.meters import KIND
from captious.serve.schemas import (
    CorpusAnswer,
    CorpusRequest,
    ExplainAnswer,
    ExplainRequest,
    Health,
    MetricFacts,
    Problem,
    ScoreAnswer,
    ScoreRequest,
)
from captious.serve.service import Service

log = logging.getLogger("captious")

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Busy, 429),
    (Stopped, 503),
    (TooLarge, 413),
    (UsageError, 400),
    (CaptiousError, 422),
    (MemoryError, 413),
)
_SAID = {
    400: "a name or parameter that captious does not know",
    401: "the token is missing or wrong",
    403: "a page of another site sent this",
    413: "the request is larger than this service allows",
    421: "the service was addressed by another name",
    422: "the input is wrong; every problem is named",
    429: "too much is waiting: try again after the seconds in `Retry-After`",
    500: "an error of the service; see its log",
    503: "the service is being stopped, or took too long",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": said} for status, said in _SAID.items()
}


def problem(status: int, error: str, problems: list[str] | None = None) -> JSONResponse:
    """Return a refusal."""
    headers = {"retry-after": "1"} if status in (429, 503) else None
    return JSONResponse({"error": error, "problems": problems or []}, status, headers)


def create_app(
    service: Service,
    rules: Rules | None = None,
    routers: tuple[APIRouter, ...] = (),
    closing: Callable[[], None] | None = None,
) -> Guard:
    """Return the service as an ASGI application.

    Args:
        service: what answers.
        rules: who may ask.
        routers: further addresses.
        closing: called when the service stops.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if closing is not None:
            await asyncio.to_thread(closing)
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="captious",
        version=__version__,
        summary="Judges image captions.",
        description="Errors are `{error, problems}`. Photographs are base64 of the file's bytes.",
        docs_url=None,  # its scripts come from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=REFUSALS,
    )
    app.include_router(_scoring(service))
    for router in routers:
        app.include_router(router)
    _errors(app)
    return Guard(_Measured(app, service), rules or Rules())


def _scoring(service: Service) -> APIRouter:
    router = APIRouter(tags=["scoring"])

    @router.post("/score", response_model=None, responses={200: {"model": ScoreAnswer}})
    async def score(request: ScoreRequest) -> Response:
        """Score captions by any metrics."""
        scored = await service.score(request)
        return Response(scored.model_dump_json(), media_type="application/json")

    @router.post("/corpus")
    async def corpus(request: CorpusRequest) -> CorpusAnswer:
        """Corpus values of captions that took several requests, from the sums of each."""
        return await service.corpus(request)

    @router.post("/explain")
    async def explain(request: ExplainRequest) -> ExplainAnswer:
        """Say why a caption gets its score."""
        return await service.explain(request)

    @router.get("/metrics-list")
    def metrics_list() -> list[MetricFacts]:
        """List the metrics: what each needs and gives, and what it lacks on this machine."""
        return service.metrics()

    @router.get("/health")
    async def health() -> Health:
        """Tell whether the service takes requests; no token is needed."""
        return Health(
            status="stopping" if service.stopping else "ok",
            version=__version__,
            waiting=service.waiting,
            seconds=round(time.monotonic() - service.started, 3),
        )

    @router.get("/metrics", response_class=Response, responses={200: {"content": {KIND: {}}}})
    async def metrics() -> Response:
        """Counters and latencies, in the format that Prometheus reads."""
        return Response(service.meters.text(), media_type=KIND)

    return router


def _errors(app: FastAPI) -> None:
    """Turn every error into a refusal that names the cause and holds no stack trace."""

    async def refused(_: Request, err: Exception) -> Response:
        status = next(status for kind, status in _STATUS if isinstance(err, kind))
        if isinstance(err, MemoryError):
            return problem(status, "not enough memory; send less at once")
        return problem(status, str(err), err.problems if isinstance(err, InputError) else None)

    async def invalid(_: Request, err: Exception) -> Response:
        listed = err.errors() if isinstance(err, RequestValidationError) else []
        told = [f"{_place(entry['loc'])}: {entry['msg']}" for entry in listed[:20]]
        return problem(422, "\n".join(told) or "the request cannot be read", told)

    async def http(request: Request, err: Exception) -> Response:
        if not isinstance(err, HTTPException):
            return problem(500, "an error of the service; see its log")
        answer = problem(err.status_code, str(err.detail))
        answer.headers.update(err.headers or {})
        if err.status_code == 405:  # the router names the methods of one route only
            fitting = [r for r in app.routes if r.matches(request.scope)[0] is not Match.NONE]
            methods = {m for route in fitting for m in getattr(route, "methods", None) or ()}
            answer.headers["allow"] = ", ".join(sorted(methods))
        return answer

    async def unexpected(request: Request, err: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=err)
        return problem(500, "an error of the service; see its log")

    app.add_exception_handler(CaptiousError, refused)
    app.add_exception_handler(MemoryError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _place(location: tuple[Any, ...]) -> str:
    """Write where an error is: ``captions[3]``."""
    parts = [part for part in location if part != "body"]
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.lstrip(".") or "the request"


class _Measured:
    """ASGI middleware that counts requests and their time by the pattern of their address."""

    def __init__(self, app: App, service: Service) -> None:
        self._app, self._meters = app, service.meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), "500"
        self._meters.under_way.inc()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            path = getattr(scope.get("route"), "path", "other")  # bounded, whatever is asked for
            self._meters.under_way.dec()
            self._meters.requests.labels(path, status).inc()
            self._meters.seconds.labels(path).observe(time.perf_counter() - begin)
