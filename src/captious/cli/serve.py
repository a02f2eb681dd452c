"""``captious serve``: scores over HTTP, and runs to look at in a browser."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.errors import MissingExtra, UsageError


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "serve",
        help="answer over HTTP: scores, explanations, stored runs",
        description="Score captions in a browser, look at stored runs, and answer requests over "
        "HTTP (POST /score, /explain; the description of all is at /openapi.json). The service "
        "listens on this machine only unless --host says otherwise; then callers need a token.",
    )
    parser.add_argument(
        "scores", nargs="*", type=Path, action=_options.Files, metavar="SCORES",
        help="stored tables (captious score ... -o scores.parquet) to look at",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER",
        help="where runs are kept (default: captious in the user's data folder)",
    )  # fmt: skip
    parser.add_argument("--api-only", action="store_true", help="no pages for browsers")
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=8765, help="port, 0 for any (default: %(default)s)"
    )
    parser.add_argument(
        "--metrics", "-m", nargs="+", action=_options.Metrics, metavar="METRIC",
        help="make these ready at the start (commas or spaces between them); their parameters may "
        "name files",
    )  # fmt: skip
    parser.add_argument("--only", action="store_true", help="offer only the metrics of --metrics")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE",
        help="file with the token that callers must send; the variable CAPTIOUS_TOKEN also works",
    )  # fmt: skip
    parser.add_argument(
        "--name", nargs="+", default=[], metavar="HOST",
        help="further names under which the service may be called",
    )  # fmt: skip
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    for module in ("fastapi", "uvicorn", "prometheus_client", "multipart"):
        if find_spec(module) is None:
            raise MissingExtra(module, "serve", "captious serve")
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port takes a number from 0 to 65535, not {args.port}")
    if args.only and args.metrics is None:
        raise UsageError("--only needs --metrics LIST")
    from captious import spec as specs
    from captious.serve import running
    from captious.serve.app import create_app
    from captious.serve.explorer import Explorer, routes
    from captious.serve.guard import LOOPBACK, Rules
    from captious.serve.service import Service
    from captious.serve.store import Store

    token = running.token_for(args.host, args.token_file, os.environ.get("CAPTIOUS_TOKEN", ""))
    metrics = [str(s) for s in specs.parse_many(args.metrics)] if args.metrics else []
    everywhere = args.host in ("0.0.0.0", "::", "")
    hosts = () if everywhere and not args.name else (*LOOPBACK, args.host, *args.name)
    with _options.active(args):
        service = Service(only=frozenset(metrics) if args.only else None)
        limits = service.limits
        if metrics:
            service.prepare(metrics)
        store = Store(args.data or _data_folder())
        explorer = Explorer(service, store)
        for path in args.scores:
            explorer.open_table(path)
        rules = Rules(hosts=hosts, token=token, body=limits.body, upload=limits.upload)
        app = create_app(service, rules, routes(explorer, not args.api_only), explorer.close)
        sock = running.listening(args.host, args.port)
        address = f"http://{args.host}:{sock.getsockname()[1]}"
        if not args.quiet:
            _options.remark(f"listening on {address} (Ctrl-C stops)")
            if token and args.token_file is None and "CAPTIOUS_TOKEN" not in os.environ:
                _options.remark(f"callers need the token {token}")
                if not args.api_only:
                    _options.remark(f"open {address}/?token={token}")

        def stopping() -> None:
            service.stopping = True

        running.run(app, sock, stopping, args.quiet)
    return 0


def _data_folder() -> Path:
    named = os.environ.get("XDG_DATA_HOME")
    return (Path(named) if named else Path.home() / ".local" / "share") / "captious"
