"""A service on this machine that answers as a vision-language model would, from a hash."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def completion(tokens: list[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    """A chat completion with these tokens and probabilities."""
    content = [
        {
            "token": token,
            "logprob": math.log(options.get(token, 1.0)),
            "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in options.items()],
        }
        for token, options in tokens
    ]
    text = "".join(token for token, _ in tokens).strip()
    return {
        "choices": [{"message": {"content": text}, "logprobs": {"content": content}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": len(tokens)},
    }


def rated(question: str) -> dict[str, Any]:
    """A rating, or a letter, that depends on the question alone."""
    digit = int(hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest(), 16) % 9
    if "A or B" in question:
        return completion([("A", {"A": 0.5 + digit / 20, "B": 0.5 - digit / 20})])
    options = {str(digit): 0.75, str(digit + 1): 0.25}
    return completion([(" 0", {" 0": 1.0}), (".", {".": 1.0}), (str(digit), options)])


class Stub(ThreadingHTTPServer):
    """Counts questions; ``script`` holds replies (status, body) that are given first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.questions: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[tuple[int, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.questions.append(asked)
        self.server.headers.append(dict(self.headers))
        text = asked["messages"][0]["content"][1]["text"]
        status, body = self.server.script.pop(0) if self.server.script else (200, rated(text))
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


@lru_cache(maxsize=1)
def _stub() -> Stub:
    return Stub()


def running() -> str:
    """The address of one stub per test run."""
    return _stub().address
