"""Run the commands of a page and write their output below them.

    python docs/run.py README.md docs/tutorials/*.md         write real output into the pages
    python docs/run.py --check PAGE...                       say where a page is out of date

The blocks of a page run in order in one empty folder. A ``text`` block right after an ``sh`` or
``python`` block is the output of that block; a line ``...`` in it stands for any lines that are
left out. A ``python`` block whose first line is ``# file: NAME`` is written to that file instead.

A page says what readers need not see in comments of HTML:

    <!-- setup: COMMANDS -->       shell commands, e.g. to make the files that the page names
    <!-- not run: REASON -->       the block below is not run

A ``console`` block starts a server, ``$ captious serve ...``, and waits until it listens; the
blocks below it talk to that server, on a free port instead of the usual one.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
"""The code of this tree is what its pages are about."""

BLOCK = re.compile(
    r"(?P<unrun><!-- not run: [^>]*-->\n+)?"
    r"```(?P<language>sh|python|console)\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?"
    r"|<!-- setup:(?P<setup>.*?)-->",
    re.DOTALL,
)
PORT = "8765"
"""The usual port of ``captious serve``, as pages show it."""


def run(language: str, code: str, folder: Path) -> str:
    """Run one block; return what it printed on stdout."""
    named = re.match(r"# file: (\S+)\n", code)
    if named:
        (folder / named[1]).write_text(code.partition("\n")[2])
        return ""
    if language == "sh":
        here = f'captious() {{ "{sys.executable}" -m captious "$@"; }}\n'
        here += f'python() {{ "{sys.executable}" "$@"; }}\n'
        code = f"set -e\n{here}{code}"
        command = ["bash", "-c", code]
    else:
        command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"this block failed:\n{code}\n{done.stdout}{done.stderr}")
    return done.stdout.replace(str(folder), ".")


def _environment() -> dict[str, str]:
    places = [str(SOURCE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {
        "COLUMNS": "80",
        "MPLBACKEND": "agg",
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }


class Server:
    """The server that a page has started last."""

    def __init__(self) -> None:
        self.port = PORT
        self._process: subprocess.Popen[str] | None = None

    def start(self, code: str, folder: Path) -> None:
        """Start the servers of a ``console`` block, one after the other; the last one stays."""
        for line in re.findall(r"^\$ captious (serve.*)$", code, re.MULTILINE):
            self.stop()
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = str(free.getsockname()[1])
            words = [*shlex.split(line, comments=True), "--port", self.port]
            words += ["--data", str(folder / "runs")]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "captious", *words],
                cwd=folder, env=_environment(), text=True, stderr=subprocess.PIPE,
            )  # fmt: skip
            said: list[str] = []
            for told in self._process.stderr or ():
                said.append(told)
                if "listening on" in told:
                    break
            else:
                raise SystemExit(f"captious {line} did not start:\n{''.join(said)}")

    def stop(self) -> None:
        """End it; by SIGTERM, because jobs in the background may ignore Ctrl-C's signal."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=60)
            self._process = None


def same(shown: str, real: str) -> bool:
    """Tell whether output is as shown; a line ``...`` stands for any lines."""
    parts = [re.escape(part.strip("\n")) for part in re.split(r"^\.\.\.$", shown, flags=re.M)]
    return re.fullmatch(r"\s*" + r".*?".join(parts) + r"\s*", real, re.DOTALL) is not None


def shortened(shown: str, real: str) -> str:
    """Keep as many lines at the start as were shown before a ``...`` line."""
    before, dots, _ = shown.partition("\n...\n")
    if not dots:
        return real
    return "\n".join(real.splitlines()[: len(before.splitlines())]) + "\n...\n"


def page(path: Path, check: bool) -> list[str]:
    """Run a page; return what is out of date, or write the real output."""
    stale: list[str] = []

    def again(block: re.Match[str]) -> str:
        if block["setup"] is not None:
            run("sh", block["setup"], folder)
        if block["setup"] is not None or block["unrun"]:
            return block[0]
        if block["language"] == "console":
            server.start(block["code"], folder)
            return block[0]
        real = run(block["language"], block["code"].replace(PORT, server.port), folder)
        shown = block["output"]
        if shown is None or same(shown, real):
            return block[0]
        stale.append(f"{path.name}: the output of {block['code'].strip()[:70]!r} is now\n{real}")
        fresh = f"```text\n{shortened(shown, real)}```\n"
        return f"```{block['language']}\n{block['code']}```\n\n{fresh}"

    server = Server()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            text = BLOCK.sub(again, path.read_text())
        finally:
            server.stop()
    if not check:
        path.write_text(text)
    return stale


if __name__ == "__main__":
    problems = [
        problem
        for name in sys.argv[1:]
        if name != "--check"
        for problem in page(Path(name), "--check" in sys.argv)
    ]
    print("\n".join(problems) or "all pages are true")
    sys.exit(1 if problems and "--check" in sys.argv else 0)
