"""Write LICENCES.md: the licences of dependencies, tables, weights and photographs.

    python release/licences.py

Run it in an environment that has ``captious[all]``; packages that are not there are named as such.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from captious import assets

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("meteor", "spice", "vectors", "neural", "vision", "regions", "report", "serve")


def name_of(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def direct() -> dict[str, str]:
    """Return dependency -> the extra that asks for it ("core" for the rest)."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {name_of(r): "core" for r in project["dependencies"]}
    for extra in EXTRAS:
        for requirement in project["optional-dependencies"].get(extra, ()):
            wanted.setdefault(name_of(requirement), extra)
    return wanted


def closure(names: dict[str, str]) -> dict[str, str]:
    """Add what the dependencies themselves need."""
    out = dict(names)
    queue = list(names)
    while queue:
        name = queue.pop()
        try:
            needs = distribution(name).requires or ()
        except PackageNotFoundError:
            continue
        for requirement in needs:
            marker = requirement.partition(";")[2]
            if "extra" in marker or "sys_platform == 'win32'" in marker.replace('"', "'"):
                continue
            if name_of(requirement) not in out:
                out[name_of(requirement)] = out[name]
                queue.append(name_of(requirement))
    return out


def licence(name: str) -> str | None:
    """Return what a package's metadata say, None if it is not installed."""
    try:
        facts = distribution(name).metadata
    except PackageNotFoundError:
        return None
    classes = [c.split(" :: ")[-1] for c in facts.get_all("Classifier") or () if "License" in c]
    text = (facts.get("License-Expression") or "").strip()
    text = text or ", ".join(c for c in classes if c != "OSI Approved")
    text = text or (facts.get("License") or "").strip().split("\n")[0]
    text = re.sub(r"\s+", " ", text)[:60]
    return "none stated" if text in ("", "UNKNOWN") else text


def page() -> str:
    lines = [
        "# Licences",
        "",
        "<!-- made by release/licences.py -->",
        "",
        "captious itself is under Apache-2.0. What it stands on keeps its own licence.",
        "For packages this is what their metadata say.",
        "",
        "## Packages",
        "",
        "| package | licence | comes with |",
        "|---|---|---|",
    ]
    for name, extra in sorted(closure(direct()).items()):
        told = licence(name)
        if told is not None:
            lines.append(f"| {name} | {told} | {extra} |")
    lines += ["", "## Tables and weights", "", "| name | what it is | licence |", "|---|---|---|"]
    for asset in assets.known().values():
        shipped = " (shipped with captious)" if asset.builtin else ""
        lines.append(f"| {asset.name} | {asset.purpose}{shipped} | {asset.licence} |")
    lines += [
        "",
        "## Photographs of the demo",
        "",
        "`src/captious/demo/LICENCES.md` names the author and the licence of each.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "LICENCES.md").write_text(page())
    print("wrote LICENCES.md")
