"""``docs/results.md``: every table and figure that can be computed from the data at hand.

One table answers one question; all metrics stand in the tables of the sets, a paper's tables hold
the paper's rows. What decides the numbers of a row (its signature) stands once, at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from captious import registry
from captious._version import __version__
from captious.errors import CaptiousError
from captious.io import files
from captious.judgements import protocols, sets
from captious.meta.tables import bullets, grid, paragraph, short
from captious.models.encoder_defaults import defaults
from captious.papers import catalogue, page_tables, parallel, reproduce
from captious.papers.analyses import Analysis, left_out
from captious.papers.bench import Bench
from captious.papers.bert_tbr_figures import caption_specs
from captious.papers.catalogue import PAPERS
from captious.papers.page_tables import CROWD, CXC, EXPERT, FOILS, PAIRS

Say = Callable[[str], None]
LEARNED = (
    "**Learned metrics have seen part of this.** Half of the photographs of Flickr8k-Expert told "
    "the training of `eval_*` when to stop; `captious_ref` and `captious_free` learned from "
    "judgements of half A of several sets. Their rows on the whole of these sets are too good; "
    "[learned composites](results-composites.md) has the halves that they have not seen. On "
    "Crisscrossed Captions only half B stands here."
)
SEE_ALSO = (
    "More on single metrics: [TIGEr](results-tiger.md), [VIFIDEL and WMD](results-vifidel.md), "
    "[BERT-TBR](results-bert-tbr.md), [ViLBERTScore](results-vilbertscore.md), "
    "[SPICE](results-spice.md), [CLIPScore, CHAIR and other companions](results-companions.md)."
)


def demands(bench: Bench) -> list[parallel.Task]:
    """Return everything that the page takes scores of, for processes that work ahead."""
    specs = page_tables.specs(bench)[0]
    asked = [
        (s, p, "")
        for p in (*EXPERT, *CROWD, *PAIRS, *CXC, *FOILS)
        for s in page_tables.specs_on(bench, p)
    ]
    analysed: list[tuple[tuple[str, str], str]] = []
    for item in catalogue.ITEMS:
        if item.demands is not None:
            asked += item.demands(bench)
        if item.splits:
            mine = caption_specs(bench) if item.name == "table5" else specs
            analysed += [((item.paper, item.name), s) for s in mine]
        if item.table is not None:
            for choice in reproduce.chosen_rows(item.table, bench, {}).values():
                if choice is not None:
                    asked += [
                        (reproduce.asked(choice, c)[0], c.protocol, choice.objects)
                        for c in item.table.columns
                    ]
    here = {n for n in sets.names() if not sets.missing(n, bench.root)}
    asked = [
        (s, p, o)
        for s, p, o in asked
        if protocols.get(p).set in here and not bench.skipped(s, protocols.get(p).set)
    ]
    return parallel.tasks(asked, analysed)


def write(
    bench: Bench,
    path: Path,
    trials: int,
    say: Say | None = None,
    processes: int = 1,
    command: str = "captious reproduce all",
) -> None:
    """Compute everything and write one markdown page with its pictures."""
    tell = say or (lambda text: None)
    bench = replace(bench, extras=False)  # all metrics stand in the tables of the sets
    parallel.ahead(bench, demands(bench), processes, tell)
    folder = path.parent / "pictures"
    head = (
        f"Made by `{command}` with captious {__version__}; not edited by hand. No number is copied "
        "from a paper except where a cell says so (paper / ours). A dash is a number that could "
        "not be computed; its reason stands below the table or in the appendix. Intervals are "
        f"95 % bootstrap intervals over images ({trials:,} draws)."
    )
    page = page_tables.Page(bench, folder, trials)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("one line per metric", page.headlines),
        ("Flickr8k-Expert", page.expert),
        ("Flickr8k-CF", page.crowd),
        ("PASCAL-50S", page.pairs),
        ("Crisscrossed Captions", page.crisscrossed),
        ("nocaps-FOIL", page.foils),
        ("who beats whom", page.compared),
        ("where metrics and people differ", page.diagnosed),
    ]
    steps += [
        (title, lambda paper=paper, title=title: _paper(bench, paper, title, folder))  # type: ignore[misc]
        for paper, title in PAPERS.items()
    ]
    steps += [("appendix", lambda: _appendix(bench, page))]
    intro = "\n\n".join(paragraph(text) for text in (head, LEARNED, SEE_ALSO))
    sections = [f"# Agreement with people: results\n\n{intro}\n"]
    for name, step in steps:
        started = time.monotonic()
        sections.append(step())
        tell(f"{name}: {time.monotonic() - started:.0f} s")
        with files.replacing(path) as file:  # what is done is kept if a later step is interrupted
            file.write("\n".join(filter(None, sections)))


def _paper(bench: Bench, paper: str, title: str, folder: Path) -> str:
    sections = [f"## {title}\n"]
    elsewhere = []
    for item in catalogue.of_paper(paper):
        if not item.runs or item.captions_shown:
            why = catalogue.status(item, bench.root)
            if item.captions_shown:
                why = f"`captious reproduce {paper} {item.name}` (it prints captions of the set)"
            elsewhere.append(f"{item.name}, {item.title}: {why}")
            continue
        try:
            if item.table is not None:
                sections.append(reproduce.render(reproduce.fill(item.table, bench), "markdown"))
                continue
            if item.analysis is None:
                continue
            analysis = item.analysis(bench)
        except CaptiousError as err:
            why = paragraph(f"not computed: {short(str(err), 300)}")
            sections.append(f"### {paper} {item.name}\n\n{why}\n")
            continue
        sections.append(_without_minor(analysis).render("markdown"))
        if analysis.drawable:
            analysis.draw(folder / f"{paper}-{item.name}.svg")
            sections.append(f"![{analysis.title}](pictures/{paper}-{item.name}.svg)\n")
    if elsewhere:
        sections.append(f"### Not on this page\n\n{bullets(elsewhere)}\n")
    return "\n".join(sections)


def _without_minor(analysis: Analysis) -> Analysis:
    """Return an analysis of any metric with the main columns of each, and one list of dashes."""
    head, *rows = analysis.cells
    if "metric" not in head:
        return analysis
    at = head.index("metric")
    kept = [row for row in rows if not page_tables.minor(row[at])]
    remarks = [r for r in analysis.remarks if ": not computed: " not in r]
    return replace(analysis, cells=[head, *kept], remarks=remarks)


# -- appendix ----------------------------------------------------------------------------------


def _appendix(bench: Bench, page: page_tables.Page) -> str:
    """Return sets, protocols, what has no score, and every signature, each once."""
    rows = [["judgement set", "here", "what is missing"]]
    for name in sets.names():
        lacking = sets.missing(name, bench.root)
        rows.append(
            [name, "no" if lacking else "yes", ", ".join(f.replace("|", " or ") for f in lacking)]
        )
    used = [protocols.get(n) for n in (*EXPERT, *CROWD, *PAIRS, *CXC, *FOILS)]
    told = [
        f"`{p.name}`: {p.describe()}" + f" (used by {p.used_by})" * bool(p.used_by) for p in used
    ]
    parts = [
        "## Appendix\n\n### Judgement sets\n\n" + grid(rows, "markdown"),
        "### Protocols of the tables of all metrics\n\n" + bullets(told),
    ]
    cautions = _cautions(page_tables.specs(bench)[0])
    absent = left_out(page.why)
    if absent or page.gaps or cautions:
        parts.append(
            "### Not computed, not scored, seen in training\n\n"
            + bullets([*absent, *(f"{m}: {g}" for m, g in page.gaps.items()), *cautions])
        )
    parts.append(
        "### Signatures\n\n"
        + paragraph(
            "Every metric of this page once. Where tables differ (number of references, document "
            "frequencies), the values stand in braces; `captious meta METRIC --set SET -f json` "
            "prints the signature of one table."
        )
        + "\n\n```text\n"
        + "\n".join(page_tables.signatures(bench))
        + "\n```"
    )
    return "\n\n".join(parts) + "\n"


def _cautions(specs: list[str]) -> list[str]:
    """Return what is known of encoders that may have seen such captions in training."""
    lines = []
    for spec in specs:
        encoder = registry.create(spec).parameters().get("model")
        known = defaults(str(encoder)) if encoder else None
        if known is not None and known.caution:
            lines.append(f"{spec}: its encoder ({encoder}) was {known.caution}")
    return lines
