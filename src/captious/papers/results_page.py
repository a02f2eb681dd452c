"""``docs/results.md``: every table and figure that can be computed from the data at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from captious import registry
from captious._version import __version__
from captious.errors import CaptiousError
from captious.io import files
from captious.judgements import protocols, sets
from captious.meta import agreement, diagnostics, pictures
from captious.meta.evaluate import Evaluation
from captious.meta.tables import grid, short
from captious.models.encoder_defaults import defaults
from captious.papers import catalogue, parallel, reproduce
from captious.papers.analyses import wanted
from captious.papers.bert_tbr_figures import caption_specs
from captious.papers.catalogue import PAPERS

Say = Callable[[str], None]
EXPERT = (
    "flickr8k-expert/tau-c-pooled",
    "flickr8k-expert/tau-b-mean",
    "flickr8k-expert/rho-pooled",
    "flickr8k-expert/r-mean",
)
PAIRS = (
    "pascal50s/strict-5refs",
    "pascal50s/half-5refs",
    "pascal50s/correct-5refs",
    "pascal50s-votes/half-5drawn+draws=1",
)


LEARNED = (
    "**Learned metrics have seen part of this.** Half of the photographs of Flickr8k-Expert told "
    "the training of `eval_*` when to stop; `captious_ref` and `captious_free` learned from the "
    "ratings of that half, and from those of Flickr8k-CF for the same photographs. Their rows on "
    "these two sets are too good; those on PASCAL-50S are not touched by it.\n"
)
CROWD = ("flickr8k-cf/tau-b", "flickr8k-cf/tau-c", "flickr8k-cf/tau-b-without-own")


def demands(bench: reproduce.Bench) -> list[parallel.Task]:
    """Return everything that the page takes scores of, for processes that work ahead."""
    specs = _specs(bench)[0]
    asked = [(s, p, "") for p in (*EXPERT, *CROWD, *PAIRS) for s in specs]
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
    bench: reproduce.Bench, path: Path, trials: int, say: Say | None = None, processes: int = 1
) -> None:
    """Compute everything and write one markdown page with its pictures."""
    tell = say or (lambda text: None)
    parallel.ahead(bench, demands(bench), processes, tell)
    folder = path.parent / "pictures"
    sections = [
        "# Agreement with people: results\n",
        "Every number here comes from `captious reproduce all` with captious "
        f"{__version__}; none is copied from a paper except where a cell says so (paper / ours). A "
        "dash is a number that could not be computed, with the reason beside the table. Intervals "
        f"are 95 % bootstrap intervals over images ({trials:,} draws).\n",
        LEARNED,
        _presence(bench),
    ]
    steps: list[tuple[str, Callable[[], str]]] = [
        ("all metrics on Flickr8k-Expert", lambda: _expert(bench, folder, trials)),
        (
            "Flickr8k-CF",
            lambda: _overview(bench, CROWD, "Flickr8k-CF: all metrics"),
        ),
        ("all metrics on PASCAL-50S", lambda: _pascal(bench, folder, trials)),
    ]
    for paper, title in PAPERS.items():
        steps.append(
            (
                title,
                lambda paper=paper, title=title: _paper(  # type: ignore[misc]
                    bench, paper, title, folder
                ),
            )
        )
    for name, step in steps:
        started = time.monotonic()
        sections.append(step())
        tell(f"{name}: {time.monotonic() - started:.0f} s")
        with files.replacing(path) as file:  # what is done is kept if a later step is interrupted
            file.write("\n".join(sections))


def _presence(bench: reproduce.Bench) -> str:
    rows = [["judgement set", "here", "what is missing"]]
    for name in sets.names():
        lacking = sets.missing(name, bench.root)
        rows.append(
            [name, "no" if lacking else "yes", ", ".join(f.replace("|", " or ") for f in lacking)]
        )
    return "## Judgement sets\n\n" + grid(rows, "markdown") + "\n"


def _specs(bench: reproduce.Bench) -> tuple[list[str], dict[str, str]]:
    fine, why = wanted(bench)
    if "cider_d" in fine:
        fine.insert(fine.index("cider_d") + 1, "cider_d(by='row')")
    return fine, why


def _overview(bench: reproduce.Bench, names: tuple[str, ...], title: str) -> str:
    """Return a table of all metrics under several protocols."""
    specs, why = _specs(bench)
    cells = [["metric", *names]]
    signatures: dict[str, str] = {}
    gaps: dict[str, str] = {}
    order: dict[str, float] = {}
    values: dict[str, list[str]] = {}
    for at, name in enumerate(names):
        for spec in specs:
            for r in bench.result(spec, name).results:
                row = values.setdefault(r.metric, ["-"] * len(names))
                if r.reason:
                    why[r.metric] = short(r.reason)
                    continue
                row[at] = f"{r.value:.4f} [{r.low:.4f}, {r.high:.4f}]"
                signatures[r.metric] = r.signature
                if r.unscored:
                    gaps[r.metric] = (
                        f"{r.unscored:,} of {r.n + r.unscored:,} without a score ({name})"
                    )
                order.setdefault(r.metric, -r.value)
    for metric in why:  # what cannot be computed keeps its row, empty
        values.setdefault(metric, ["-"] * len(names))
    cells += [[m, *values[m]] for m in sorted(values, key=lambda m: order.get(m, 9.0))]
    said = [
        f"- {n}: {protocols.get(n).describe()}"
        + (f" (used by {protocols.get(n).used_by})" * bool(protocols.get(n).used_by))
        for n in names
    ]
    said += _cautions(specs)
    said += [f"- {m}: {w}" for m, w in gaps.items()]
    said += [f"- {m}: not computed: {w}" for m, w in why.items()]
    text = "\n".join(f"{m}: {s}" for m, s in sorted(signatures.items()))
    return (
        f"## {title}\n\n{grid(cells, 'markdown')}\n\n"
        + "\n".join(said)
        + f"\n\n<details><summary>signatures</summary>\n\n```\n{text}\n```\n\n</details>\n"
    )


def _cautions(specs: list[str]) -> list[str]:
    """Return what is known of encoders that may have seen such captions in training."""
    lines = []
    for spec in specs:
        encoder = registry.create(spec).parameters().get("encoder")
        known = defaults(str(encoder)) if encoder else None
        if known is not None and known.caution:
            lines.append(f"- {spec}: its encoder ({encoder}) was {known.caution}")
    return lines


def _main_columns(evaluation: Evaluation) -> list[str]:
    """Return one or two columns per metric: pictures of forty rows help nobody."""
    minor = ("bleu_2", "bleu_3", "spice_", "wmd_", "bertscore_p", "bertscore_r", "cider_d(")
    return [r.metric for r in evaluation.results if not r.reason and not r.metric.startswith(minor)]


def _expert(bench: reproduce.Bench, folder: Path, trials: int) -> str:
    text = _overview(bench, EXPERT, "Flickr8k-Expert: all metrics")
    evaluation = bench.together(_specs(bench)[0], EXPERT[0])
    limit = agreement.ceiling(evaluation.judged)
    text += (
        "\nPeople among themselves: " + "; ".join(f"{k} {v:.3f}" for k, v in limit.items()) + ".\n"
    )
    text += _pictures(evaluation, folder, "flickr8k-expert", trials)
    names, matrix = diagnostics.correlations(
        {k: v for k, v in evaluation.scores.items() if k in _main_columns(evaluation)}
    )
    if len(names) > 1:
        pictures.dendrogram(names, diagnostics.linkage(matrix), folder / "metric-tree.svg")
    return (
        text
        + "\n![which metrics say the same](pictures/metric-tree.svg)\n\n### Diagnostics\n\n"
        + diagnostics.render(evaluation, "markdown")
    )


def _pascal(bench: reproduce.Bench, folder: Path, trials: int) -> str:
    text = _overview(bench, PAIRS, "PASCAL-50S: all metrics")
    evaluation = bench.together(_specs(bench)[0], PAIRS[1])
    kinds = ("HC", "HI", "HM", "MM")
    cells = [["metric", *kinds, "all"]]
    for r in sorted((r for r in evaluation.results if not r.reason), key=lambda r: -r.value):
        cells.append([r.metric, *(f"{r.groups[k]:.3f}" for k in kinds), f"{r.value:.3f}"])
    text += f"\n### By kind of pair ({PAIRS[1]})\n\n{grid(cells, 'markdown')}\n"
    votes = agreement.ceiling(bench.judged("pascal50s-votes"))
    text += (
        "\nPeople among themselves (direct votes): "
        + "; ".join(f"{k} {v:.3f}" for k, v in votes.items())
        + ".\n"
    )
    text += _pictures(evaluation, folder, "pascal50s", trials)
    direct = bench.together(_specs(bench)[0], PAIRS[3])
    return (
        text + "\n### Diagnostics on the direct votes\n\n" + diagnostics.render(direct, "markdown")
    )


def _pictures(evaluation: Evaluation, folder: Path, name: str, trials: int) -> str:
    columns = _main_columns(evaluation)
    tests = evaluation.tests(columns, trials=trials)
    pictures.intervals(evaluation, folder / f"{name}-intervals.svg")
    pictures.beats(evaluation, tests, folder / f"{name}-beats.svg")
    close = [t for t in tests if t.corrected >= 0.05]
    return (
        f"\n![agreement with intervals](pictures/{name}-intervals.svg)\n"
        f"\n![who beats whom](pictures/{name}-beats.svg)\n\n"
        f"{len(tests)} pairs of metrics were compared (PERM-BOTH by image, "
        f"{max(trials, 100 * len(tests)):,} permutations, Holm); {len(tests) - len(close)} differ "
        "at p < .05. Not told apart: "
        + (", ".join(f"{t.a} and {t.b}" for t in close) or "none")
        + ".\n"
    )


def _paper(bench: reproduce.Bench, paper: str, title: str, folder: Path) -> str:
    sections = [f"## {title}\n"]
    not_computed = []
    for item in catalogue.of_paper(paper):
        if not item.runs:
            not_computed.append(
                f"- {item.name}, {item.title}: {catalogue.status(item, bench.root)}"
            )
            continue
        try:
            if item.table is not None:
                sections.append(reproduce.render(reproduce.fill(item.table, bench), "markdown"))
                continue
            if item.analysis is None:
                continue
            analysis = item.analysis(bench)
        except CaptiousError as err:
            sections.append(f"### {paper} {item.name}\n\nnot computed: {short(str(err), 300)}\n")
            continue
        sections.append(analysis.render("markdown"))
        if analysis.drawable:
            analysis.draw(folder / f"{paper}-{item.name}.svg")
            sections.append(f"![{analysis.title}](pictures/{paper}-{item.name}.svg)\n")
    if not_computed:
        sections.append("### What is not computed here\n\n" + "\n".join(not_computed) + "\n")
    return "\n".join(sections)
