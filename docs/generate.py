"""Write docs/metrics/*.md, docs/metrics.md, docs/papers.md and the table of papers in README.md.

Metric pages come from the registry, with the worked examples that docs/examples.py made and the
numbers of docs/results.md; docs/papers.md is docs/papers.template.md with numbers of the same page.

    python docs/generate.py [--check]

``--check`` writes nothing and exits with 1 if a page is out of date (a test runs it).
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from captious import registry
from captious.metrics.base import Metric, Need

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Reported:
    """A row of a paper's table: "paper / ours (difference)" by column."""

    table: str
    row: str
    column: str
    cells: dict[str, str]


def reported() -> list[Reported]:
    """Return the rows of docs/results.md that stand in a paper and were computed again."""
    rows: list[Reported] = []
    title, head = "", []
    for line in (HERE / "results.md").read_text().splitlines():
        if line.startswith("#"):
            title, head = line.lstrip("# "), []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not head:
                head = cells
            elif "computed by" in head and len(cells) == len(head):
                named = dict(zip(head, cells, strict=True))
                values = {k: v for k, v in named.items() if re.search(r"\d / \d", v)}
                if values and not cells[0].startswith("+"):
                    rows.append(Reported(title, cells[0], named["computed by"], values))
        else:
            head = []
    return rows


def reported_table(rows: list[Reported]) -> list[str]:
    """Return the rows, a table for each table of the papers: *paper / ours* in each cell."""
    lines: list[str] = []
    for title in dict.fromkeys(row.table for row in rows):
        mine = [row for row in rows if row.table == title]
        keys = list(dict.fromkeys(key for row in mine for key in row.cells))
        heads = [_head(key) for key in keys]
        lines += [f"*{title}* (paper / ours)", ""]
        lines += [f"| row | computed by | {' | '.join(heads)} |", "|---|---|" + "---|" * len(keys)]
        for row in mine:
            values = [row.cells.get(key, "").partition(" (")[0] for key in keys]
            lines.append(f"| {row.row} | `{row.column}` | {' | '.join(values)} |")
        lines.append("")
    return lines[:-1]


def _head(key: str) -> str:
    """Write a column of a paper's table in words.

    Example: ``5_HC`` is "HC, 5 refs", ``0`` "no refs", ``flickr8k_tau`` "flickr8k tau".
    """
    counted = re.fullmatch(r"(\d+)(?:_(.+))?", key)
    if not counted:
        return key.replace("_", " ")
    count, group = counted.groups()
    told = {"0": "no refs", "1": "1 ref"}.get(count, f"{count} refs")
    return f"{group}, {told}" if group else told


def papers_page(rows: list[Reported]) -> str:
    """Fill the numbers of each paper's own metrics into the template."""
    own = {
        "TIGEr": ("tiger", "rrs", "wds"),
        "Sharif et al.": ("eval_", "composite"),
        "BERT-TBR": ("bert_tbr", "unigram_tbr"),
        "ViLBERTScore": ("vilbertscore",),
        "VIFIDEL": ("vifidel",),
    }

    def numbers(place: re.Match[str]) -> str:
        paper = place[1]
        mine = [r for r in rows if r.table.startswith(paper) and r.column.startswith(own[paper])]
        return "\n".join(reported_table(mine)) if mine else "No number could be computed again."

    text = (HERE / "papers.template.md").read_text()
    note = "\n\n<!-- made by docs/generate.py from papers.template.md -->\n\n"
    return re.sub(r"\{\{(.+?)\}\}", numbers, text.replace("\n\n", note, 1))


_HEADLINES = (
    ("TIGEr, Table 1", "TIGEr", "flickr8k_tau", "Flickr8k-Expert, tau-c"),
    ("TIGEr, Table 2", "TIGEr", "All", "PASCAL-50S, accuracy"),
    ("Sharif et al., Table 2", "EvalMWCS", "AVG", "PASCAL-50S, accuracy"),
    ("BERT-TBR, Table 3", "Ours (BERT)", "flickr8k", "Flickr8k-Expert, tau-b"),
    ("BERT-TBR, Table 4", "Ours (BERT)", "All", "PASCAL-50S, accuracy"),
    ("ViLBERTScore, Table 1", "ViLBERTScore_F", "flickr8k", "Flickr8k-Expert, tau-b"),
    ("ViLBERTScore, Table 2", "ViLBERTScore_F", "All", "PASCAL-50S, accuracy"),
    *(
        ("VIFIDEL, Table 1", f"VIFIDEL gold [{profile}]", count, f"PASCAL-50S MM, accuracy, {told}")
        for profile in ("paper", "measured")
        for count, told in (("0", "no references"), ("5", "5 references"))
    ),
)
"""What README shows: table of a paper, row, column, and how to call the measure."""


def readme(rows: list[Reported]) -> str:
    """Fill the table of the five papers into README.md."""
    lines = ["| paper | metric | measure | paper | ours |", "|---|---|---|---|---|"]
    for table, name, column, measure in _HEADLINES:
        for row in rows:
            if row.table.startswith(table) and row.row == name and column in row.cells:
                paper, _, ours = row.cells[column].partition(" / ")
                ours = ours.partition(" ")[0]
                lines.append(f"| {table} | `{row.column}` | {measure} | {paper} | {ours} |")
                break
    text = (HERE.parent / "README.md").read_text()
    start, end = text.index("-->\n", text.index("<!-- papers:")) + 4, text.index("<!-- /papers -->")
    return text[:start] + "\n" + "\n".join(lines) + "\n\n" + text[end:]


def example(metric: Metric) -> list[str]:
    """Return the worked example that docs/examples.py made, if there is one."""
    told = HERE / "metrics" / "examples" / f"{metric.name}.txt"
    if not told.exists():
        return []
    lines = [
        "## A worked example",
        "",
        "The caption `dogs` of the demo's first system, with its five references and photograph",
        "(`captious demo --files .` writes them):",
        "",
        "```text",
        told.read_text().rstrip(),
        "```",
        "",
    ]
    if told.with_suffix(".svg").exists():
        lines += [f"![{metric.name} explains one caption](examples/{metric.name}.svg)", ""]
    return lines


def page(metric: Metric, rows: list[Reported]) -> str:
    module = (sys.modules[type(metric).__module__].__doc__ or "").strip()
    lines = [
        f"# {metric.name}",
        "",
        "<!-- made by docs/generate.py; edit the docstring -->",
        "",
        module,
        "",
    ]
    needs = ", ".join(sorted(n.given_as for n in metric.needs)) or "nothing but the caption"
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
    doc = inspect.cleandoc(type(metric).__doc__ or "").split("\n")
    if fields(metric):
        lines += ["", "| parameter | default |", "|---|---|"]
        lines += [f"| `{f.name}` | `{f.default!r}` |" for f in fields(metric)]
    lines += ["", "```text", *doc, "```", ""]
    photos = " --images photos/" if metric.needs - {Need.REFERENCES} else ""
    lines += [
        "```sh",
        f"captious score captions.json --refs references.json{photos} --metrics {metric.name}",
        "```",
        "",
    ]
    card = metric.data_card()
    if card:
        lines += ["## What it reads beside captions", "", *(f"* {line}" for line in card), ""]
    lines += example(metric)
    columns = {c.name for c in metric.columns}
    mine = [r for r in rows if re.split(r"[^\w]", r.column)[0] in {metric.name, *columns}]
    if mine:
        lines += ["## Published numbers and ours", "", *reported_table(mine), ""]
        lines += ["From [the results](../results.md), made by `captious reproduce all`.", ""]
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
    rows = reported()
    out = {HERE / "metrics" / f"{m.name}.md": page(m, rows) for m in metrics}
    out[HERE / "papers.md"] = papers_page(rows)
    out[HERE.parent / "README.md"] = readme(rows)
    out[HERE / "metrics.md"] = index(metrics)
    return out


def main() -> int:
    made = pages()
    stale = [p for p, text in made.items() if not p.exists() or p.read_text() != text]
    extra = [p for p in (HERE / "metrics").glob("*.md") if p not in made]
    if "--check" in sys.argv:
        for path in stale + extra:
            print(f"out of date: {path.name}; run `make docs`")
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
