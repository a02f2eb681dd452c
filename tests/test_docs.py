"""The docs are true: pages match the registry, examples run, verbs and links exist."""

from __future__ import annotations

import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from captious.cli import verbs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def test_metric_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


def test_named_verbs_exist():
    for path in PAGES:
        for block in blocks(path, "sh"):
            for verb in re.findall(r"^captious (\w+)", block, re.MULTILINE):
                assert verb in verbs(), f"{path.name}: captious {verb}"


def test_the_quickstart_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [code] = blocks(ROOT / "docs" / "quickstart.md", "python")
    space: dict = {}
    exec(compile(code, "quickstart", "exec"), space)
    assert (tmp_path / "scores.parquet").exists()
    assert space["corpus"]["cider_d"] > 0


def test_the_metric_of_the_guide_works(tmp_path):
    [code] = blocks(ROOT / "docs" / "adding-a-metric.md", "python")
    (tmp_path / "my_metrics.py").write_text(code)
    spec = importlib.util.spec_from_file_location("my_metrics", tmp_path / "my_metrics.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_metrics"] = module
    spec.loader.exec_module(module)
    import captious

    table = captious.score(["a dog", "a"], [["a dog runs"], ["a"]], metrics=[module.Brevity()])
    assert table["brevity"].tolist() == pytest.approx([2 / 3, 1.0])
    assert table.corpus["brevity"].low <= table.corpus["brevity"]


@pytest.mark.parametrize(
    "name",
    [
        "captious",
        "captious.api",
        "captious.spec",
        "captious.types",
        "captious.progress",
        "captious.text.ptb",
    ],
)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
