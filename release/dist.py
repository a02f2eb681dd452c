"""Build wheel and sdist twice, compare them, and install them into empty environments.

    python release/dist.py [--all]

The core install must score BLEU, ROUGE-L and CIDEr-D of the demo; with ``--all`` the wheel is also
installed as ``captious[all]``, where every metric must be ready but those whose weights captious
may not ship (slow: torch and models). Writes dist/ and exits with 1 if a step fails. Same commit,
same bytes: the time in the archives is that of the commit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 100 << 20
"""Bytes that a wheel may have: what the package index takes without asking."""

CORE = """
from captious import demo, score
table = score(demo.captions_file(), demo.references_file(), metrics="coco")
assert {"bleu_4", "rouge_l", "cider_d"} <= set(table.values), list(table.values)
assert table.corpora["good"]["cider_d"] > table.corpora["wrong"]["cider_d"]
print("core:", ", ".join(table.values))
"""
WEIGHTS = "from captious.assets import weights; wrong = weights.damaged(); assert not wrong, wrong"

ALL = """
from captious import registry
lacking = {name for name in registry.names() if registry.load(name)().missing()}
outside = {"clipscore", "ref_clipscore", "pac_s", "ref_pac_s", "judge"}
assert lacking <= outside, lacking - outside
ready = len(registry.names()) - len(lacking)
print(f"all: {ready} metrics are ready; these need weights or a model of yours:", *sorted(lacking))
"""
"""What pip can bring must be there; ``outside`` need weights or a model that the user names."""


def run(*words: object, **more: object) -> str:
    done = subprocess.run(
        [str(w) for w in words], check=True, text=True, stdout=subprocess.PIPE, **more
    )
    return done.stdout.strip()


def build(python: Path, to: Path) -> dict[str, str]:
    """Build into a folder; return file name -> sha256."""
    time = run("git", "log", "-1", "--format=%ct", cwd=ROOT)
    environment = os.environ | {"SOURCE_DATE_EPOCH": time}
    run(python, "-m", "build", "--outdir", to, ROOT, env=environment)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(to.iterdir())}


def empty(folder: Path) -> Path:
    """Make an empty environment; return its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        builder = empty(work / "builder")
        run(builder, "-m", "pip", "install", "--quiet", "build")
        first, second = build(builder, work / "a"), build(builder, work / "b")
        if first != second:
            print(f"two builds differ: {first} {second}", file=sys.stderr)
            return 1
        out = ROOT / "dist"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "a", out)
        for file, digest in first.items():
            size = (out / file).stat().st_size
            print(f"{digest}  {file}  {size / 1e6:.1f} MB, the same in two builds")
            if size > LIMIT:
                print(f"{file} is larger than {LIMIT >> 20} MiB", file=sys.stderr)
                return 1
        for file in first:
            python = empty(work / f"env-{file}")
            run(python, "-m", "pip", "install", "--quiet", out / file)
            print(f"{file}:", run(python, "-c", CORE, cwd=work))
            run(python, "-c", WEIGHTS, cwd=work)
        if "--all" in sys.argv:
            wheel = next(out.glob("*.whl"))
            python = empty(work / "env-all")
            run(python, "-m", "pip", "install", "--quiet", "torch==2.13.0")
            run(python, "-m", "pip", "install", "--quiet", f"captious[all] @ {wheel.as_uri()}")
            print(run(python, "-c", ALL, cwd=work))
            print(run(python, "-m", "captious", "demo", "-o", work / "demo", cwd=work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
