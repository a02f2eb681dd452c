"""Every snippet of docs/plug-in.md runs, in a process of its own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "plug-in.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_there_are_snippets():
    assert len(SNIPPETS) == 12


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_runs(number, tmp_path):
    code = SNIPPETS[number]
    needed = re.match(r"# needs: (\w+)", code)
    if needed and importlib.util.find_spec(needed[1]) is None:
        pytest.skip(f"the host {needed[1]} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
