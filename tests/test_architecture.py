"""Rules of the house: imports point one way, the surface is exact, the import is light."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import captious

SRC = Path(captious.__file__).parent

# A room may import from itself and from rooms of a lower floor.
FLOORS = [
    {"_version", "errors"},
    {"settings", "reading"},
    {"plain_pickle", "columns"},
    {"progress", "types", "spec", "names", "calling"},
    {"assets", "demo"},
    {"text", "evidence"},
    {"models"},
    {"metrics", "perturb", "statistics"},
    {"registry", "io"},
    {"engine"},
    {"api", "batch"},
    {"learned", "judgements", "curate"},
    {"meta", "report"},
    {"papers", "training", "serve", "compat"},
    {"cli"},
    {"__main__", "__init__"},
]
FLOOR = {room: i for i, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path: Path) -> str:
    first = path.relative_to(SRC).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Return the rooms that a file imports, leaving out what only type checkers read."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] != "captious":
                continue
            if len(parts) > 1:
                found.add(parts[1])
            else:
                found.update(a.name for a in node.names)
        elif isinstance(node, ast.Import):
            found.update(a.name.split(".")[1] for a in node.names if a.name.startswith("captious."))
    return found


def test_every_room_has_a_floor():
    rooms = {room_of(p) for p in SRC.rglob("*.py")}
    assert rooms <= set(FLOOR), rooms - set(FLOOR)


def test_imports_point_one_way():
    wrong = []
    for path in SRC.rglob("*.py"):
        room = room_of(path)
        for other in imports(path):
            if other in FLOOR and other != room and FLOOR[other] >= FLOOR[room]:
                # A table writes itself with io; both know each other by name only.
                wrong.append(f"{path.relative_to(SRC)} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_the_page_about_the_house_is_true():
    """docs/architecture.md names every room, and what it may import from."""
    page = (Path(__file__).parents[1] / "docs/architecture.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| .+? \| (.+) \|$", page, flags=re.M))
    rooms = {room_of(p) for p in SRC.rglob("*.py")} - {"__init__", "__main__", "_version"}
    assert set(rows) == rooms
    assert {room: int(floor) for room, floor in rows.items()} == {r: FLOOR[r] for r in rooms}


def test_surface_is_exact():
    assert sorted(captious.__all__) == [
        "CaptionSet",
        "CaptiousError",
        "Client",
        "Sample",
        "ScoreTable",
        "ScoringJob",
        "Settings",
        "__version__",
        "compare",
        "explain",
        "load",
        "metric",
        "metrics",
        "reward",
        "score",
        "scorer",
    ]
    for name in captious.__all__:
        assert getattr(captious, name) is not None


def test_import_is_light():
    """`import captious` opens no numpy, torch, spaCy; every metric module stays light too."""
    heavy = [
        "torch",
        "spacy",
        "transformers",
        "cv2",
        "ot",
        "numba",
        "PIL",
        "matplotlib",
        "pandas",
        "sklearn",
        "onnxruntime",
        "h5py",
        "lmdb",
    ]
    code = (
        "import sys, json, captious; first = 'numpy' in sys.modules\n"
        "from captious import registry, cli\n"
        "[registry.load(n) for n in registry.names()]; cli.parser()\n"
        f"print(json.dumps([first, [m for m in {heavy} if m in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [False, []]


def test_no_shortcuts_in_src():
    wrong = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assert):
                wrong.append(f"{path.name}:{node.lineno} assert")
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                wrong.append(f"{path.name}:{node.lineno} bare except")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "eval",
                "exec",
                "pickle.load",
                "pickle.loads",
            ):
                wrong.append(f"{path.name}:{node.lineno} {ast.unparse(node.func)}")
    assert not wrong, "\n".join(wrong)
