"""Run the commands of a page and write their output below them.

    python docs/run.py docs/index.md docs/tutorials/*.md     write real output into the pages
    python docs/run.py --check PAGE...                       say where a page is out of date

The blocks of a page run in order in one empty folder. A ``text`` block right after an ``sh`` or
``python`` block is the output of that block; a line ``...`` in it stands for any lines that are
left out. A ``python`` block whose first line is ``# file: NAME`` is written to that file instead.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
"""The code of this tree is what its pages are about."""

BLOCK = re.compile(
    r"```(sh|python)\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL
)


def run(language: str, code: str, folder: Path) -> str:
    """Run one block; return what it printed on stdout."""
    named = re.match(r"# file: (\S+)\n", code)
    if named:
        (folder / named[1]).write_text(code.partition("\n")[2])
        return ""
    if language == "sh":
        code = f'set -e\ncaptious() {{ "{sys.executable}" -m captious "$@"; }}\n{code}'
        command = ["bash", "-c", code]
    else:
        command = [sys.executable, "-c", code]
    places = [str(SOURCE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {
        "COLUMNS": "80",
        "MPLBACKEND": "agg",
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"this block failed:\n{code}\n{done.stdout}{done.stderr}")
    return done.stdout.replace(str(folder), ".")


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
        real = run(block[1], block["code"], folder)
        shown = block["output"]
        if shown is None or same(shown, real):
            return block[0]
        stale.append(f"{path.name}: the output of {block['code'].strip()[:70]!r} is now\n{real}")
        return f"```{block[1]}\n{block['code']}```\n\n```text\n{shortened(shown, real)}```\n"

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = BLOCK.sub(again, path.read_text())
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
