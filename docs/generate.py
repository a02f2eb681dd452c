"""Write docs/metrics/*.md and the table of docs/metrics.md from the registry.

    python docs/generate.py [--check]

``--check`` writes nothing and exits with 1 if a page is out of date (a test runs it).
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from captious import registry
from captious.metrics.base import Metric, Need

HERE = Path(__file__).resolve().parent


def page(metric: Metric) -> str:
    module = (sys.modules[type(metric).__module__].__doc__ or "").strip()
    lines = [
        f"# {metric.name}",
        "",
        "<!-- made by docs/generate.py; edit the docstring -->",
        "",
        module,
        "",
    ]
    needs = ", ".join(sorted(n.value for n in metric.needs)) or "nothing but the caption"
    lines += [f"Needs: {needs}.", ""]
    extras = sorted(set(metric.modules.values()))
    if extras:
        lines += [f"Install: `pip install 'captious[{','.join(extras)}]'`", ""]
    lines += ["| column | meaning | range | better |", "|---|---|---|---|"]
    lines += [
        f"| `{c.name}` | {c.meaning} | {c.low:g} .. {c.high:g} | "
        f"{'higher' if c.higher_is_better else 'lower'} |"
        for c in metric.columns
    ]
    doc = (type(metric).__doc__ or "").strip().split("\n")
    if fields(metric):
        lines += ["", "| parameter | default |", "|---|---|"]
        lines += [f"| `{f.name}` | `{f.default!r}` |" for f in fields(metric)]
    lines += ["", "```text", *(d.removeprefix("    ") for d in doc), "```", ""]
    lines += [
        "```sh",
        f"captious score captions.json --refs references.json --metrics {metric.name}",
        "```",
        "",
    ]
    return "\n".join(lines)


def index(metrics: list[Metric]) -> str:
    marks = {
        Need.REFERENCES: "references",
        Need.IMAGE_PIXELS: "image",
        Need.IMAGE_REGIONS: "image",
        Need.IMAGE_OBJECTS: "object labels or image",
    }
    lines = [
        "# Metrics",
        "",
        "<!-- made by docs/generate.py -->",
        "",
        "| metric | what it is | needs | extra |",
        "|---|---|---|---|",
    ]
    for m in metrics:
        first = (type(m).__doc__ or "").strip().split("\n")[0]
        needs = ", ".join(sorted({marks[n] for n in m.needs})) or "caption only"
        extra = ", ".join(sorted(set(m.modules.values()))) or "-"
        lines.append(f"| [{m.name}](metrics/{m.name}.md) | {first} | {needs} | {extra} |")
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    metrics = [registry.load(n)() for n in registry.names()]
    out = {HERE / "metrics" / f"{m.name}.md": page(m) for m in metrics}
    out[HERE / "metrics.md"] = index(metrics)
    return out


def main() -> int:
    made = pages()
    stale = [p for p, text in made.items() if not p.exists() or p.read_text() != text]
    extra = [p for p in (HERE / "metrics").glob("*.md") if p not in made]
    if "--check" in sys.argv:
        for path in stale + extra:
            print(f"out of date: {path.relative_to(HERE)}; run `make docs`")
        return 1 if stale or extra else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
    for path in extra:
        path.unlink()
    print(f"{len(stale)} pages written, {len(extra)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
