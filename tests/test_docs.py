"""The docs are true: pages match the registry, examples run, verbs and links exist."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from captious import assets, registry
from captious.assets import weights
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


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "README.md",
        *(ROOT / "docs" / f"{name}.md" for name in ("index", "quickstart", "report", "service")),
        *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    ],
    ids=lambda p: p.stem,
)
def test_pages_run_and_print_what_they_show(path):
    command = [sys.executable, ROOT / "docs" / "run.py", "--check", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_runner_prepares_skips_and_serves(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- setup: echo 41 > number -->\n\n```sh\nexpr $(cat number) + 1\n```\n\n"
        "```text\n42\n```\n\n<!-- not run: it would fail -->\n```sh\nfalse\n```\n\n"
        "```console\n$ captious serve --api-only\n```\n\n```python\n"
        "import json, urllib.request\n"
        'with urllib.request.urlopen("http://127.0.0.1:8765/health") as answer:\n'
        '    print(json.load(answer)["status"])\n```\n\n```text\nok\n```\n'
    )
    command = [sys.executable, ROOT / "docs" / "run.py", "--check", page]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page.write_text(page.read_text().replace("<!-- not run: it would fail -->\n", ""))
    assert subprocess.run(command, capture_output=True).returncode == 1


def test_the_runner_sees_wrong_output(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    command = [sys.executable, ROOT / "docs" / "run.py", "--check", page]
    assert subprocess.run(command, capture_output=True).returncode == 1
    assert subprocess.run([*command[:2], page], capture_output=True).returncode == 0
    assert "```text\n2\n```" in page.read_text()


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "captious.score" in (tmp_path / "api" / "index.html").read_text()
    assert (tmp_path / "tutorials" / "paper-table" / "index.html").exists()


def test_every_page_can_be_reached_from_the_menu_of_the_site():
    listed = set(re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    pages -= {page for page in pages if page.endswith(".template.md")}
    # The pages of metrics are listed by metrics.md.
    assert {page for page in pages if not page.startswith("metrics/")} <= listed


def test_every_metric_has_a_worked_example():
    runnable = [name for name in registry.names() if not registry.load(name)().missing()]
    assert len(runnable) > 20
    for name in runnable:
        assert (ROOT / "docs" / "metrics" / "examples" / f"{name}.txt").exists(), (
            f"run `python docs/examples.py {name}`"
        )


def test_licences_name_every_dependency_and_asset():
    text = (ROOT / "LICENCES.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        assert f"| {re.split('[<>=]', requirement)[0]} |" in text, "run `make licences`"
    for name in assets.known():
        assert f"| {name} |" in text, "run `make licences`"


def test_weights_are_the_listed_ones():
    assert not weights.damaged(), "run `python -m captious.assets.weights` after training"


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
        "captious.types.captions",
        "captious.progress",
        "captious.text.ptb",
    ],
)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


# -- like with like ----------------------------------------------------------------------------


def _printed_tau_b() -> dict[str, str]:
    """Kendall's tau of papers that report tau-b on Flickr8k-Expert, as docs write them."""
    from captious.papers.paper_tables import reported

    out = {}
    for paper, table in (("bert_tbr", "table3_kendall"), ("vilbertscore", "table1_kendall")):
        for row, values in reported()[paper][table].items():
            if "ours" in row.lower() or "vilbertscore" in row.lower():
                out[f"{values['flickr8k']:.3f}".lstrip("0")] = f"{paper}: {row}"
    return out


def _statements(text: str) -> list[str]:
    """Cut a page into what is read together: a line of a table's own, a table with its lead."""
    parts = re.split(r"\n(?=#)|\n\n(?!\|)", text)
    out = []
    for part in parts:
        lines = part.splitlines()
        rows = [x for x in lines if x.startswith("|")]
        paper = [x for x in rows if "paper" in x.lower()]
        # A row that names its own measure is a statement of its own.
        single = [x for x in paper if "tau-" in x]
        out += single
        out.append("\n".join(x for x in lines if x not in single))
    return out


def mixed(text: str) -> list[str]:
    """Return statements that put a tau-b of a paper beside a tau-c of ours, without saying so."""
    known = _printed_tau_b()
    about = re.compile("vilbert|tbr", re.IGNORECASE)
    if not about.search(text):  # other papers print numbers that look the same
        return []
    title = text.lstrip().splitlines()[0]
    wrong = []
    for part in _statements(text):
        quoted = [n for n in known if re.search(rf"(?<![\d]){re.escape(n)}(?!\d)", part)]
        if not about.search(part) and not about.search(title):
            continue
        if quoted and "paper" in part.lower() and "tau-c" in part and "tau-b" not in part:
            wrong.append(f"{', '.join(known[n] for n in quoted)}: {part[:200]}")
    return wrong


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_no_table_mixes_protocols(path):
    assert not mixed(path.read_text())


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("| ViLBERTScore | tau-c .555 on Flickr8k-Expert (paper .514, multi-task .542) |", True),
        ("| ViLBERTScore | tau-b .612 on Flickr8k-Expert (paper .514), tau-c .555 |", False),
        (
            "# ViLBERT\n\ntau-c, ratings\n\n| | F |\n|---|---|\n| ours | .555 |\n| paper | .514 |",
            True,
        ),
        (
            "# ViLBERT\n\ntau-b, mean\n\n| | F |\n|---|---|\n| ours | .612 |\n| paper | .514 |",
            False,
        ),
        ("# ViLBERTScore\n\ntau-c only\n\n| | F |\n|---|---|\n| ours | .5549 |", False),
    ],
)
def test_mixed_protocols_are_seen(text, bad):
    assert bool(mixed(text)) == bad


def test_readme_compares_like_with_like():
    """A tau-c of ours never stands beside a tau-b of a paper: the measure named is the column's."""
    from captious.judgements import protocols
    from captious.papers.paper_tables import TABLES

    path = ROOT / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    generate = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = generate
    spec.loader.exec_module(generate)
    for title, row, key, measure in generate._HEADLINES:
        [table] = [t for t in TABLES if t.title.startswith(f"{title}:")]
        [column] = [c for c in table.columns if c.key == key]
        assert row in {r.label for r in table.rows}, (title, row)
        protocol = protocols.get(column.protocol)
        assert protocol.measure in measure.split(", "), (title, measure, protocol.measure)
        assert protocol.set.partition("-")[0] in measure.lower().replace("-", ""), (title, measure)
        if column.group:
            assert column.group in measure.split(",")[0].split(), (title, measure)
