"""``docs/results.md``: every table and figure that can be computed from the data at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from captious import registry
from captious._version import __version__
from captious.errors import CaptiousError
from captious.io import files
from captious.meta import agreement, diagnostics, pictures, protocols, reproduce, sets
from captious.meta.analyses import ANALYSES, Analysis, reference_sweep, usable
from captious.meta.evaluate import Evaluation
from captious.meta.papers import TABLES
from captious.meta.tables import grid, short
from captious.models.encoder_defaults import defaults

Say = Callable[[str], None]
PAPERS = {
    "tiger": "TIGEr (Jiang et al. 2019)",
    "composite": "Learned composites (Sharif et al. 2018)",
    "bert_tbr": "BERT-TBR (Yi et al. 2020)",
    "vilbertscore": "ViLBERTScore (Lee et al. 2020)",
    "vifidel": "VIFIDEL (Madhyastha et al. 2019)",
    "beyond": "Beyond the papers: robustness",
}
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


def write(bench: reproduce.Bench, path: Path, trials: int, say: Say | None = None) -> None:
    """Compute everything and write one markdown page with its pictures."""
    tell = say or (lambda text: None)
    folder = path.parent / "pictures"
    out = [
        "# Agreement with people: results\n",
        "Every number here comes from `captious reproduce all` with captious "
        f"{__version__}; none is copied from a paper except where a cell says so (paper / ours). A "
        "dash is a number that could not be computed, with the reason beside the table. Intervals "
        f"are 95 % bootstrap intervals over images ({trials:,} draws).\n",
        _presence(bench),
    ]
    steps: list[tuple[str, Callable[[], str]]] = [
        ("all metrics on Flickr8k-Expert", lambda: _expert(bench, folder, trials)),
        (
            "Flickr8k-CF",
            lambda: _overview(
                bench,
                ("flickr8k-cf/tau-b", "flickr8k-cf/tau-c", "flickr8k-cf/tau-b-without-own"),
                "Flickr8k-CF: all metrics",
            ),
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
    steps.append(("saturation", lambda: _saturation(bench, folder)))
    for name, step in steps:
        started = time.monotonic()
        out.append(step())
        tell(f"{name}: {time.monotonic() - started:.0f} s")
        with files.replacing(path) as file:  # what is done is kept if a later step is interrupted
            file.write("\n".join(out))


def _presence(bench: reproduce.Bench) -> str:
    rows = [["judgement set", "here", "what is missing"]]
    for name in sets.names():
        lacking = sets.missing(name, bench.root)
        rows.append(
            [name, "no" if lacking else "yes", ", ".join(f.replace("|", " or ") for f in lacking)]
        )
    return "## Judgement sets\n\n" + grid(rows, "markdown") + "\n"


def _specs() -> tuple[list[str], dict[str, str]]:
    fine, why = usable()
    if "cider_d" in fine:
        fine.insert(fine.index("cider_d") + 1, "cider_d(by='row')")
    return fine, why


def _overview(bench: reproduce.Bench, names: tuple[str, ...], title: str) -> str:
    """Return a table of all metrics under several protocols."""
    specs, why = _specs()
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
    out = []
    for spec in specs:
        encoder = registry.create(spec).parameters().get("encoder")
        known = defaults(str(encoder)) if encoder else None
        if known is not None and known.caution:
            out.append(f"- {spec}: its encoder ({encoder}) was {known.caution}")
    return out


def _main_columns(found: Evaluation) -> list[str]:
    """Return one or two columns per metric: pictures of forty rows help nobody."""
    minor = ("bleu_2", "bleu_3", "spice_", "wmd_", "bertscore_p", "bertscore_r", "cider_d(")
    return [r.metric for r in found.results if not r.reason and not r.metric.startswith(minor)]


def _expert(bench: reproduce.Bench, folder: Path, trials: int) -> str:
    text = _overview(bench, EXPERT, "Flickr8k-Expert: all metrics")
    found = bench.together(_specs()[0], EXPERT[0])
    limit = agreement.ceiling(found.judged)
    text += (
        "\nPeople among themselves: " + "; ".join(f"{k} {v:.3f}" for k, v in limit.items()) + ".\n"
    )
    text += _pictures(found, folder, "flickr8k-expert", trials)
    names, matrix = diagnostics.correlations(
        {k: v for k, v in found.scores.items() if k in _main_columns(found)}
    )
    if len(names) > 1:
        pictures.dendrogram(names, diagnostics.linkage(matrix), folder / "metric-tree.svg")
    return (
        text
        + "\n![which metrics say the same](pictures/metric-tree.svg)\n\n### Diagnostics\n\n"
        + diagnostics.render(found, "markdown")
    )


def _pascal(bench: reproduce.Bench, folder: Path, trials: int) -> str:
    text = _overview(bench, PAIRS, "PASCAL-50S: all metrics")
    found = bench.together(_specs()[0], PAIRS[1])
    kinds = ("HC", "HI", "HM", "MM")
    cells = [["metric", *kinds, "all"]]
    for r in sorted((r for r in found.results if not r.reason), key=lambda r: -r.value):
        cells.append([r.metric, *(f"{r.groups[k]:.3f}" for k in kinds), f"{r.value:.3f}"])
    text += f"\n### By kind of pair ({PAIRS[1]})\n\n{grid(cells, 'markdown')}\n"
    votes = agreement.ceiling(bench.judged("pascal50s-votes"))
    text += (
        "\nPeople among themselves (direct votes): "
        + "; ".join(f"{k} {v:.3f}" for k, v in votes.items())
        + ".\n"
    )
    text += _pictures(found, folder, "pascal50s", trials)
    direct = bench.together(_specs()[0], PAIRS[3])
    return (
        text + "\n### Diagnostics on the direct votes\n\n" + diagnostics.render(direct, "markdown")
    )


def _pictures(found: Evaluation, folder: Path, name: str, trials: int) -> str:
    columns = _main_columns(found)
    tests = found.tests(columns, trials=trials)
    pictures.intervals(found, folder / f"{name}-intervals.svg")
    pictures.beats(found, tests, folder / f"{name}-beats.svg")
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
    out = [f"## {title}\n"]
    for table in TABLES:
        if table.paper == paper:
            out.append(reproduce.render(reproduce.fill(table, bench), "markdown"))
    for (owner, name), analyse in ANALYSES.items():
        if owner != paper or (analyse is reference_sweep and paper != "tiger"):
            continue
        try:
            found = analyse(bench)
        except CaptiousError as err:
            out.append(f"### {owner} {name}\n\nnot computed: {short(str(err), 300)}\n")
            continue
        out.append(found.render("markdown"))
        out.append(_drawn(found, folder, f"{owner}-{name}"))
    return "\n".join(out)


def _drawn(found: Analysis, folder: Path, name: str) -> str:
    if not found.lines:
        return ""
    pictures.curves(found.lines, found.at, folder / f"{name}.svg", *found.axes)
    return f"![{found.title}](pictures/{name}.svg)\n"


def _saturation(bench: reproduce.Bench, folder: Path, images: int = 1000) -> str:
    import pyarrow.parquet as pq

    head = "## Saturation on strong captioners\n\n"
    path = bench.root / "coco/karpathy_test_systems.parquet"
    if not path.exists():
        return head + f"not computed: {path.name} is not here\n"
    content = pq.read_table(path).slice(0, images).to_pydict()
    references = content.pop("references")
    names = [str(i) for i in content.pop("image_id")]
    specs, why = usable()
    found = [
        s
        for spec in specs
        for s in diagnostics.saturation(
            content,
            [r[0] for r in references],
            [r[1:] for r in references],
            names,
            bench.scorer(spec),
        )
    ]
    systems = list(content)
    cells = [["metric", *(f"{s}: mean, above human" for s in systems), "human: mean"]]
    for s in found:
        cells.append(
            [
                s.metric,
                *(f"{s.means[x]:.3f}, {100 * s.above_human[x]:.0f} %" for x in systems),
                f"{s.means['human']:.3f}",
            ]
        )
    if found:
        values = np.array([[s.above_human[x] for x in systems] for s in found])
        pictures.heat(
            [s.metric for s in found],
            systems,
            values,
            folder / "saturation.svg",
            "share of images on which the captioner scores above a person",
            0.5,
        )
    said = [
        f"- first {images:,} images of COCO Karpathy-test; all are scored against the four "
        "captions that are left when one person's caption is set aside",
        "- above 50 %: the metric prefers the machine's captions to a person's",
        "- llava15_briefly is cut off by its length limit",
        *(f"- {m}: not computed: {w}" for m, w in why.items()),
    ]
    return (
        head
        + grid(cells, "markdown")
        + "\n\n"
        + "\n".join(said)
        + "\n\n![saturation](pictures/saturation.svg)\n"
    )
