"""Every table and figure of the five papers: what computes it, and what it needs to run.

``captious reproduce PAPER`` prints this list. Nothing in it is marked as missing by hand: files are
looked for, metrics are asked what they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from captious import registry
from captious.errors import UsageError, did_you_mean
from captious.judgements import protocols, sets
from captious.judgements.labels import GOLD
from captious.papers import (
    bert_tbr_figures,
    beyond,
    counts,
    tiger_figures,
    vifidel_figures,
    vilbert_figures,
)
from captious.papers.analyses import Analysis
from captious.papers.bench import Bench
from captious.papers.paper_tables import PROFILE, TABLES, PaperTable
from captious.papers.reproduce import missing_here

PAPERS = {
    "tiger": "TIGEr (Jiang et al. 2019)",
    "composite": "Learned composites (Sharif et al. 2018)",
    "bert_tbr": "BERT-TBR (Yi et al. 2020)",
    "vilbertscore": "ViLBERTScore (Lee et al. 2020)",
    "vifidel": "VIFIDEL (Madhyastha et al. 2019)",
    "beyond": "Beyond the papers: robustness",
}
Demand = tuple[str, str, str]


@dataclass(frozen=True)
class Item:
    """One table, figure or list of a paper.

    Attributes:
        paper: which paper.
        name: e.g. ``figure5``.
        title: what it shows.
        key: its numbers in ``reported.json``; empty if it prints none.
        table: a plain table of metrics.
        analysis: computes anything else.
        command: another verb of captious that does it.
        reason: why there is nothing to compute.
        sets: judgement sets; what is there of them is computed.
        files: other data files that it cannot do without.
        more: data files that add to it.
        demands: metrics, protocols and label sources that it takes scores of.
        splits: whether other processes may compute its metrics one by one (``only=``).
        captions_shown: whether it prints captions of a data set, which no page of ours may hold.
    """

    paper: str
    name: str
    title: str
    key: str = ""
    table: PaperTable | None = None
    analysis: Callable[..., Analysis] | None = None
    command: str = ""
    reason: str = ""
    sets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    demands: Callable[[Bench], list[Demand]] | None = None
    splits: bool = False
    captions_shown: bool = False

    @property
    def runs(self) -> bool:
        """Whether ``captious reproduce`` computes it."""
        return self.table is not None or self.analysis is not None


def _of(table: PaperTable) -> Item:
    used = dict.fromkeys(protocols.get(c.protocol).set for c in table.columns)
    return Item(table.paper, table.name, table.title, table.key, table=table, sets=tuple(used))


def _drawing(paper: str, *figures: int) -> list[Item]:
    why = "a drawing of the method: it holds no measurement"
    return [Item(paper, f"figure{n}", "the method as a drawing", reason=why) for n in figures]


_SIDE_BY_SIDE = (
    "captious explain -c CAPTION -c CAPTION -R REFERENCE --image FILE -m tiger -o OUT.svg"
)
_KARPATHY = "coco/karpathy_test_systems.parquet"
_RATED = ("flickr8k-expert", "composite")
ITEMS: tuple[Item, ...] = (
    *(_of(t) for t in TABLES),
    Item("tiger", "figure1", "two captions of one photograph, region by region",
         command=_SIDE_BY_SIDE),
    *_drawing("tiger", 2, 3),
    Item("tiger", "figure4", "mean score by human rating", analysis=tiger_figures.score_groups,
         sets=_RATED),
    Item("tiger", "figure5", "accuracy by number of references, strict",
         analysis=tiger_figures.reference_sweep, sets=("pascal50s",),
         demands=tiger_figures.sweep_demands),
    Item("tiger", "figure6", "grounding of two captions of one photograph", command=_SIDE_BY_SIDE),
    Item("tiger", "figure7", "sensitivity to one replaced word",
         "text_sensitivity_property_accuracy", analysis=tiger_figures.sensitivity,
         sets=("pascal50s",), splits=True),
    Item("tiger", "figure8", "metric's group minus people's (Appendix A.1)",
         analysis=tiger_figures.error_groups, sets=_RATED),
    Item("tiger", "table3", "examples by kind of disagreement (Appendix A.2)",
         analysis=tiger_figures.examples, sets=_RATED, captions_shown=True),
    Item("tiger", "counts", "sizes of the data", "dataset_counts", analysis=counts.tiger,
         sets=("flickr8k-expert", "pascal50s", "composite")),
    Item("tiger", "readme", "scores of the four captions in the release's README",
         "release_readme", command="captious score CAPTIONS --refs REFS --regions FEATURES "
         "-m \"tiger(model='model_best.pth',vocabulary='coco_precomp_vocab.json')\"",
         reason="the release's checkpoint and region features are needed; their links are dead"),
    *_drawing("composite", 1, 2, 3),
    Item("composite", "counts", "sizes of the data", "counts", analysis=counts.composite,
         sets=("flickr8k-expert",)),
    Item("bert_tbr", "table1", "Pearson r of systems with people, COCO 2015",
         "table1_coco2015_pearson", analysis=bert_tbr_figures.coco_2015, sets=("coco2015",),
         more=("coco2015/captions",)),
    Item("bert_tbr", "table2", "ablation", "table2_ablation_pearson",
         analysis=bert_tbr_figures.ablation, sets=("coco2015", "flickr8k-expert"),
         more=("coco2015/captions",),
         demands=bert_tbr_figures.ablation_demands),
    Item("bert_tbr", "table5", "captioners on COCO Karpathy-test", "table5_captioners",
         analysis=bert_tbr_figures.captioners, files=(_KARPATHY,), splits=True),
    Item("bert_tbr", "settings", "thresholds, rows, incomplete captions", "settings",
         analysis=bert_tbr_figures.settings, sets=("flickr8k-expert",), files=(_KARPATHY,)),
    *_drawing("bert_tbr", 1, 2, 3),
    *_drawing("vilbertscore", 1, 2),
    Item("vilbertscore", "figure3", "agreement by layer", analysis=vilbert_figures.layers,
         sets=_RATED, demands=vilbert_figures.demands),
    Item("vifidel", "table4", "two examples", "table4_examples",
         analysis=vifidel_figures.examples, files=("coco/val2014_captions.parquet",)),
    Item("vifidel", "figure1", "two inadequate references",
         reason="two photographs with a reference each, as a warning: nothing is measured"),
    Item("vifidel", "figure2", "the metric as a drawing",
         reason="a drawing: its costs are not normalised and it prints exp(2.201) for exp(-2.201)"),
    Item("vifidel", "figure3", "importance of words by references", "figure3_rho",
         analysis=vifidel_figures.importance),
    Item("vifidel", "figure4", "accuracy on MM by number of references",
         analysis=vifidel_figures.reference_curve, sets=("pascal50s",),
         demands=vifidel_figures.curve_demands),
    Item("vifidel", "figure5", "one caption, more and more objects", "figure5_objects",
         analysis=vifidel_figures.more_objects, files=("coco/val2014_captions.parquet",)),
    Item("vifidel", "vectors", "word2vec, GloVe and fastText (section 4.5)",
         analysis=vifidel_figures.word_vectors, sets=("pascal50s",)),
    Item("beyond", "robustness", "one thing in a correct caption is spoilt",
         analysis=beyond.robustness_suite, files=("flickr8k/Flickr_8k.testImages.txt",),
         splits=True),
    Item("beyond", "saturation", "strong captioners beside people",
         analysis=beyond.saturation, files=(_KARPATHY,), splits=True),
)  # fmt: skip


def of_paper(paper: str) -> list[Item]:
    """Return the items of a paper, tables first.

    Raises:
        UsageError: there is no such paper.
    """
    if paper not in PAPERS:
        raise UsageError(
            f"no paper is called {paper!r}.{did_you_mean(paper, PAPERS)} There are: "
            f"{', '.join(PAPERS)}"
        )
    return sorted((i for i in ITEMS if i.paper == paper), key=_order)


def _order(item: Item) -> tuple[int, int, str]:
    kinds = ("table", "figure")
    kind = next((k for k, word in enumerate(kinds) if item.name.startswith(word)), len(kinds))
    digits = "".join(c for c in item.name if c.isdigit())
    return kind, int(digits or 0), item.name


def find(paper: str, name: str) -> Item:
    """Return one item.

    Raises:
        UsageError: there is none of this name, or nothing computes it.
    """
    items = of_paper(paper)
    for item in items:
        if item.name == name:
            if not item.runs:
                raise UsageError(f"{paper} {name}: {status(item, None)}")
            return item
    names = [i.name for i in items]
    raise UsageError(
        f"{PAPERS[paper]} has no {name!r}.{did_you_mean(name, names)} It has: {', '.join(names)}"
    )


def absent(item: Item, root: Path | None) -> list[str]:
    """Return the data files that an item lacks."""
    wanted = [f for name in item.sets for f in sets.card(name).files]
    wanted += item.files
    return [
        f.replace("|", " or ")
        for f in dict.fromkeys(wanted)
        if root is None or not any((root / part).exists() for part in f.split("|"))
    ]


def status(item: Item, root: Path | None) -> str:
    """Return ``runs here``, ``runs with FILE``, another command, or why nothing is computed."""
    if not item.runs:
        if item.command:
            return f"`{item.command}`" + f" ({item.reason})" * bool(item.reason)
        return f"nothing to compute: {item.reason}"
    lacking = absent(item, root)
    added = [f for f in item.more if root is None or not (root / f).exists()]
    whole = [name for name in item.sets if root is None or sets.missing(name, root)]
    needs_all = bool(item.files and lacking) or (item.sets and len(whole) == len(item.sets))
    if lacking and needs_all:
        return f"runs with {', '.join(lacking)}"
    said = "runs here"
    if lacking or added:
        said += f"; more of it with {', '.join((*lacking, *added))}"
    return said + "".join(f"; {s}" for s in _substitutes(item))


def _substitutes(item: Item) -> list[str]:
    """Say which models or labels of the paper are not here, and how many rows that concerns."""
    if item.table is None:
        return []
    missing: dict[str, int] = {}
    for row in item.table.rows:
        if isinstance(row.choices, str) or not row.choices:
            continue
        own = row.choices[0]
        spec = own.spec.replace(PROFILE, item.table.profile)
        lacking = []
        if missing_here(spec):
            told = registry.create(spec).parameters()
            lacking = [str(told[k]) for k in ("vectors", "model") if k in told]
            lacking = lacking or [spec.partition("(")[0]]
        if own.objects not in ("", GOLD):
            lacking += [f"--objects {n}=FILE" for n in own.objects.split("+") if n != GOLD]
        for what in lacking:
            missing[what] = missing.get(what, 0) + 1
    return [
        f"{what} would fill {n} row{'s' * (n > 1)} (a substitute or a dash stands there)"
        for what, n in missing.items()
    ]


def listing(papers: Iterable[str], root: Path | None) -> str:
    """Return the list of everything, with what it needs."""
    lines = []
    for paper in papers:
        lines.append(PAPERS[paper])
        for item in of_paper(paper):
            lines.append(f"  captious reproduce {paper} {item.name}: {item.title}")
            lines.append(f"    {status(item, root)}")
    return "\n".join(lines) + "\n"
