"""Start the service and stop it in good order."""

from __future__ import annotations

import secrets
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from captious.errors import UsageError
from captious.reading import read_text
from captious.serve.guard import LOOPBACK

GRACE = 30
"""Seconds that requests under way have when the service is stopped."""


class Server(uvicorn.Server):
    """uvicorn, which tells the application at once that it is being stopped."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Tell those who wait for news, so that their connections end."""
        self._stopping()
        # uvicorn would raise the signal once more when it is done; to stop is no failure here.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address."""
    return host in LOOPBACK or host.startswith("127.")


def token_for(host: str, file: Path | None, given: str) -> str:
    """Return the token that callers must show: none on loopback unless one is given.

    Args:
        host: where the service listens.
        file: whose content is the token.
        given: the token itself (environment variable ``CAPTIOUS_TOKEN``).
    """
    if file is not None:
        token = read_text(file, limit=10_000).strip()
    elif given:
        token = given
    else:
        return "" if is_loopback(host) else secrets.token_urlsafe(24)
    if len(token) < 16 or not token.isascii() or not token.isprintable() or ";" in token:
        raise UsageError("a token has at least 16 letters and digits")
    return token


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes any that is free.

    Raises:
        UsageError: the address is in use or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio switches off Nagle's delay (40 ms per answer).
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as err:
        made.close()
        raise UsageError(f"cannot listen on {host}:{port}: {err.strerror or err}") from None
    made.listen(2048)
    return made


def run(app: Any, sock: socket.socket, stopping: Callable[[], None], quiet: bool) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are finished."""
    config = uvicorn.Config(
        app,
        log_level="error" if quiet else "warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=30,
        server_header=False,
        limit_concurrency=1000,
        h11_max_incomplete_event_size=64_000,
    )
    server = Server(config, stopping)
    server.run(sockets=[sock])
    if not server.started:
        sys.exit(1)
