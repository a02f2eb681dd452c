"""Who may ask, how much, and what the answer says to browsers: one layer around the service."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "captious"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OPEN = ("/health",)
"""Answered without a token, so that a load balancer can ask."""

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Rules:
    """Who may ask and how much.

    Attributes:
        hosts: names under which the service may be called (a page of somebody else that resolves
            to this machine sends its own name); empty for any.
        token: what callers must show; empty for none.
        body: bytes of a request.
        upload: bytes of a request to one of ``uploads``.
        uploads: paths that take files.
    """

    hosts: tuple[str, ...] = LOOPBACK
    token: str = ""
    body: int = 32_000_000
    upload: int = 1_000_000_000
    uploads: tuple[str, ...] = ("/runs",)


class Guard:
    """ASGI middleware: hosts, origins, token, size of bodies, headers of every answer."""

    def __init__(self, app: App, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        sender = _Sender(send, scope["path"])
        refused = self._refusal(scope, headers)
        if refused is not None:
            await sender.problem(*refused)
            return
        if self._rules.token and _query_token(scope) and scope["method"] == "GET":
            await sender.cookie(scope["path"], self._rules.token)
            return
        counted = _Counted(receive, self._most(scope))
        try:
            await self._app(scope, counted, sender)
        except _TooMuch:
            if sender.started:
                raise
            await sender.problem(413, f"a request may have {self._most(scope):,} bytes")

    def _most(self, scope: Scope) -> int:
        rules = self._rules
        return rules.upload if scope["path"] in rules.uploads else rules.body

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        if self._rules.hosts and name not in self._rules.hosts:
            return 421, f"this service is not called {name!r}"
        origin = headers.get("origin")
        if origin and scope["method"] not in ("GET", "HEAD") and urlsplit(origin).netloc != host:
            return 403, "requests from pages of other sites are refused"
        if self._rules.token and scope["path"] not in _OPEN:
            shown = (
                headers.get("authorization", "").removeprefix("Bearer ").strip()
                or _cookie(headers.get("cookie", ""))
                or _query_token(scope)
            )
            if not hmac.compare_digest(shown.encode(), self._rules.token.encode()):
                return 401, "a token is needed: send the header 'Authorization: Bearer TOKEN'"
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._most(scope):
            return 413, f"a request may have {self._most(scope):,} bytes"
        return None


class _TooMuch(Exception):
    pass


class _Counted:
    """Receives a body and stops where it is longer than allowed, whatever its header said."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left = receive, most

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _TooMuch
        return message


class _Sender:
    """Sends an answer with the headers that all of them have."""

    def __init__(self, send: Send, path: str) -> None:
        self._send, self.started = send, False
        self._path = path

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            held = {name for name, _ in message["headers"]}
            extra = [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in held
            ]
            if b"cache-control" not in held:
                extra.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message["headers"], *extra]}
        await self._send(message)

    async def problem(self, status: int, text: str) -> None:
        body = json.dumps({"error": text, "problems": []}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def cookie(self, path: str, token: str) -> None:
        """Keep the token of the address in a cookie, so that it leaves the address bar."""
        kept = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"location", path.encode()), (b"set-cookie", kept.encode())]
        await self({"type": "http.response.start", "status": 303, "headers": headers})
        await self._send({"type": "http.response.body", "body": b""})


def _query_token(scope: Scope) -> str:
    parts = scope["query_string"].decode("latin-1").split("&")
    return next((p[6:] for p in parts if p.startswith("token=")), "")


def _cookie(text: str) -> str:
    prefix = COOKIE + "="
    parts = (part.strip() for part in text.split(";"))
    return next((part[len(prefix) :] for part in parts if part.startswith(prefix)), "")
