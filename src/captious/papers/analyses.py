"""Figures and analyses of the papers, one command each: score groups, sweeps, probes, layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from captious import registry
from captious.errors import InputError, UsageError
from captious.judgements import sets
from captious.judgements.judgement_set import Checks, JudgementSet, Ratings, SystemTable
from captious.judgements.sets import coco2015, flickr8k
from captious.judgements.sets._files import picture
from captious.meta import agreement, diagnostics, robustness
from captious.meta.tables import grid, short
from captious.papers import tiger_analyses
from captious.papers.paper_tables import reported
from captious.papers.reproduce import SKIPPED, Bench
from captious.perturb import edits
from captious.types import CaptionSet, Floats

SWEEP = (0, 1, 5, 10, 20, 30, 40, 50)
SWEPT = ("bleu", "rouge_l", "meteor", "cider_d(by='row')", "spice", "wmd", "vifidel", "tiger")
_LAYERED, _LAYERS = ("bertscore", "vilbertscore"), 12
CAPTIONERS = ("bert_tbr", "cider_d")
_PARTS = {
    "BS(BERT-base)": "BS",
    "Ours (BERT+T)": "T",
    "Ours (BERT+TB)": "TB",
    "Ours (BERT+TBR)": "TBR",
    "Ours (BERT+T+cat+R)": "TcatR",
}
_SWEPT_COLUMNS = (
    "bleu_1",
    "bleu_4",
    "rouge_l",
    "meteor",
    "cider_d(by='row')",
    "spice",
    "wmd",
    "vifidel",
    "tiger",
)


@dataclass(frozen=True)
class Analysis:
    """A figure of a paper as a table, and as curves where it is one.

    Attributes:
        title: what it is.
        cells: the table; its first row is the head.
        remarks: what has to stand beside it.
        lines: name -> values, to be drawn over ``at``.
        at: positions of the values.
        axes: what the axes of the curves mean.
        heat: rows, columns, values and their middle, to be drawn as a heat map.
    """

    title: str
    cells: list[list[str]]
    remarks: list[str]
    lines: dict[str, list[float]] = field(default_factory=dict)
    at: tuple[float, ...] = ()
    axes: tuple[str, str] = ("", "")
    heat: tuple[list[str], list[str], Floats, float] | None = None

    def render(self, format: str = "text") -> str:
        """Return it as text or markdown."""
        mark, head = ("- ", "### ") if format == "markdown" else ("", "")
        said = "\n".join(mark + r for r in self.remarks)
        return f"{head}{self.title}\n\n{grid(self.cells, format)}\n\n{said}\n"


def usable(specs: tuple[str, ...] | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the metrics that can run here, and why the others cannot."""
    fine, why = [], {}
    for spec in specs or tuple(registry.names()):
        try:
            missing = registry.create(spec).missing()
        except UsageError as err:
            why[spec] = short(str(err).partition(". ")[0])
            continue
        if missing:
            why[spec] = short(str(missing[0]))
        else:
            fine.append(spec)
    return fine, why


def wanted(bench: Bench, only: tuple[str, ...] | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the metrics of an analysis: all that can run and were not asked to be left out."""
    fine, why = usable(only)
    skipped = [s for s in fine if bench.skipped(s, "")]
    return [s for s in fine if s not in skipped], why | dict.fromkeys(skipped, SKIPPED)


def _left_out(why: dict[str, str]) -> list[str]:
    return [f"{name}: not computed: {reason}" for name, reason in why.items()]


def score_groups(bench: Bench) -> Analysis:
    """TIGEr, Figure 4: mean score of the captions that people gave each rating."""
    judged = bench.judged("flickr8k-expert").without_own()
    table = agreement.rating_matrix(_ratings(judged), len(judged.samples))
    specs, why = wanted(bench)
    levels = np.unique(table)
    cells = [["metric", *(f"rated {v:g}" for v in levels), "rises throughout"]]
    for name, scores in bench.columns(specs, judged.samples, why).items():
        found = tiger_analyses.means_by_rating(scores, table)
        means = [found[v][0] for v in levels]
        rises = all(a < b for a, b in pairwise(means))
        cells.append([name, *(f"{m:.4f}" for m in means), "yes" if rises else "no"])
    return Analysis(
        "TIGEr, Figure 4: mean score by human rating (Flickr8k-Expert)",
        cells,
        ["every rating is an observation; the figure has no printed numbers", *_left_out(why)],
    )


def error_groups(bench: Bench) -> Analysis:
    """TIGEr, Appendix A.1: captions sorted by score into groups as large as the human ones."""
    judged = bench.judged("flickr8k-expert").without_own()
    table = agreement.rating_matrix(_ratings(judged), len(judged.samples))
    specs, why = wanted(bench)
    gaps = list(range(-3, 4))
    cells = [["metric", *(f"{g:+d}" if g else "0" for g in gaps), "mean |gap|"]]
    for name, scores in bench.columns(specs, judged.samples, why).items():
        if np.isnan(scores).any():
            why[name] = "some captions have no score"
            continue
        found = tiger_analyses.rating_errors(scores, table)
        total = sum(found.values())
        mean = sum(abs(g) * n for g, n in found.items()) / total
        cells.append([name, *(f"{found.get(g, 0) / total:.3f}" for g in gaps), f"{mean:.3f}"])
    return Analysis(
        "TIGEr, Appendix A.1: group of the metric minus human group (Flickr8k-Expert)",
        cells,
        [
            "human group: mean of three ratings, rounded half up; equal scores keep file order",
            *_left_out(why),
        ],
    )


def sweep_protocol(references: int) -> str:
    """Return the protocol of one point of the reference sweep."""
    return f"pascal50s/half-{references}{'drawn' if references else 'refs'}"


def reference_sweep(bench: Bench, sizes: tuple[int, ...] = SWEEP) -> Analysis:
    """TIGEr Figure 5, VIFIDEL Figure 4: PASCAL-50S accuracy by number of references."""
    specs, why = usable(SWEPT)
    cells = [["metric", *(f"{k} refs: all / MM" for k in sizes)]]
    lines: dict[str, list[float]] = {}
    for column in _SWEPT_COLUMNS:
        row, curve = [column], []
        for k in sizes:
            name = sweep_protocol(k)
            value = part = float("nan")
            for spec in specs:
                if spec.partition("(")[0] != registry.create(column.partition("(")[0]).name:
                    continue
                result = bench.result(spec, name).result(column)
                if not result.reason:
                    value, part = result.value, result.groups["MM"]
            curve.append(part)
            row.append("-" if np.isnan(value) else f"{value:.3f} / {part:.3f}")
        if not all(np.isnan(curve)):
            lines[column] = curve
            cells.append(row)
    return Analysis(
        "Reference sweep on PASCAL-50S (TIGEr Figure 5, VIFIDEL Figure 4)",
        cells,
        [
            "ties count half; references drawn per image from its 50: mean of 5 draws for 1 and 5 "
            "references, one draw above",
            *_left_out(why),
        ],
        lines,
        tuple(map(float, sizes)),
        ("references", "accuracy on MM"),
    )


def sensitivity(bench: Bench, per_kind: int = 300, only: tuple[str, ...] | None = None) -> Analysis:
    """TIGEr, Figure 7: is a false replacement of one word punished more than a true one?"""
    judged = bench.judged("pascal50s")
    pool = judged.pool if judged.pool is not None else judged.samples
    references = {str(i): r[:6] for i, r in zip(pool.images, pool.references(), strict=True)}
    pairs = tiger_analyses.swap_pairs(references, per_kind)
    sizes = Counter(p.kind for p in pairs)
    kinds = [*sizes, "property"]
    specs, why = wanted(bench, only)
    found: dict[str, dict[str, float]] = {}
    for spec in specs:
        found |= tiger_analyses.swap_accuracy(
            lambda samples, spec=spec: bench.columns([spec], samples, why),  # type: ignore[misc]
            pairs,
        )
    head = ["metric", *kinds]
    cells = [head, ["pairs", *(str(sizes.get(k, "")) for k in kinds)]]
    cells += [[m, *(f"{row.get(k, np.nan):.1f}" for k in kinds)] for m, row in found.items()]
    printed = reported()["tiger"]["text_sensitivity_property_accuracy"]
    paper = ", ".join(f"{k} {v['TIGEr']:.1f}" for k, v in printed.items())
    return Analysis(
        "TIGEr, Figure 7: sensitivity to one replaced word (PASCAL-50S references)",
        cells,
        [
            "percent of pairs whose true replacement scores above the false one, ties wrong",
            f"TIGEr in the paper, on its own sentences: {paper}",
            "our word groups; one of the first six captions of an image is changed, the other five "
            "are its references",
            *_left_out(why),
        ],
    )


def robustness_suite(
    bench: Bench, images: int = 1000, only: tuple[str, ...] | None = None
) -> Analysis:
    """Our robustness suite: one thing in a correct caption is spoilt."""
    samples = held_out_captions(bench.root, images)
    specs, why = wanted(bench, only)
    found = [p for s in specs for p in robustness.probe(samples, bench.scorer(s))]
    kinds = list(edits.KINDS)
    sizes = {p.kind: p.n for p in found}
    cells = [["metric", *kinds], ["captions", *(f"{sizes.get(k, 0):,}" for k in kinds)]]
    for metric in dict.fromkeys(p.metric for p in found):
        mine = {p.kind: p for p in found if p.metric == metric}
        cells.append(
            [
                metric,
                *(
                    f"{100 * mine[k].accuracy:.1f} ({mine[k].fall:+.2f})" if k in mine else "-"
                    for k in kinds
                ),
            ]
        )
    return Analysis(
        "Robustness: one thing in a correct caption is spoilt",
        cells,
        [
            "percent of captions whose untouched form scores higher, ties half (mean fall in "
            "standard deviations of the score)",
            "first caption of each Flickr8k test image against its other four; our own word lists",
            *_left_out(why),
        ],
    )


def saturation(bench: Bench, images: int = 1000, only: tuple[str, ...] | None = None) -> Analysis:
    """Our saturation test: do metrics still see a difference between people and captioners?"""
    import pyarrow.parquet as pq

    path = bench.root / "coco/karpathy_test_systems.parquet"
    if not path.exists():
        raise InputError(f"{path} is not there")
    content = pq.read_table(path).slice(0, images).to_pydict()
    references = content.pop("references")
    names = [str(i) for i in content.pop("image_id")]
    specs, why = wanted(bench, only)
    human, others = [r[0] for r in references], [r[1:] for r in references]
    found = [
        s
        for spec in specs
        for s in diagnostics.saturation(content, human, others, names, bench.scorer(spec))
    ]
    systems = list(content)
    cells = [["metric", *(f"{s}: mean, above human" for s in systems), "human: mean"]]
    for s in found:
        both = (f"{s.means[x]:.3f}, {100 * s.above_human[x]:.0f} %" for x in systems)
        cells.append([s.metric, *both, f"{s.means['human']:.3f}"])
    values = np.array([[s.above_human[x] for x in systems] for s in found])
    return Analysis(
        "Saturation on strong captioners",
        cells,
        [
            f"first {images:,} images of COCO Karpathy-test; all are scored against the four "
            "captions that are left when one person's caption is set aside",
            "above 50 %: the metric prefers the machine's captions to a person's",
            "llava15_briefly is cut off by its length limit",
            *_left_out(why),
        ],
        heat=([s.metric for s in found], systems, values, 0.5) if found else None,
    )


def held_out_captions(root: Path, images: int) -> CaptionSet:
    """Return the first caption of each Flickr8k test image, the other four as references."""
    path = root / "flickr8k/Flickr_8k.testImages.txt"
    if not path.exists():
        raise InputError(f"{path} is not there: the probes take captions of the test images")
    checks = Checks("flickr8k")
    names = path.read_text("utf-8").split()[:images]
    by_image = flickr8k.captions(root / "flickr8k/Flickr8k.token.txt", checks)[1]
    checks.stop_if_bad()
    return CaptionSet.build(
        [by_image[n][0].removesuffix(".").strip() for n in names],
        [by_image[n][1:] for n in names],
        ids=names,
        images=[picture(root / "flickr8k/images", n, checks) for n in names],
    )


def coco_2015(bench: Bench) -> Analysis:
    """BERT-TBR, Table 1: Pearson r of systems with M1 and M2, from published scores."""
    found = sets.load("coco2015", bench.root)
    if not isinstance(found, SystemTable):
        raise InputError("coco2015 is not a table of systems")
    printed = reported()["bert_tbr"]["table1_coco2015_pearson"]
    names = {
        "ROUGE-L": "ROUGE_L",
        "BLEU-1": "Bleu_1",
        "BLEU-4": "Bleu_4",
        "CIDEr": "CIDEr",
        "METEOR": "METEOR",
        "SPICE": "SPICE",
    }
    cells = [["row", "human", "paper (12 teams)", "C5", "leave one out", "C40", "leave one out"]]
    teams = np.array([t not in coco2015.NOT_TEAMS for t in found.systems])
    size = 0
    for label, row in printed.items():
        for human in ("M1", "M2"):
            line = [label, human, f"{row[human]:.3f}"]
            for prefix in ("c5_", "c40_"):
                if label not in names:
                    line += ["-", "-"]
                    continue
                x, y = found.metrics[prefix + names[label]], found.human[human]
                keep = teams & ~np.isnan(x)
                size = int(keep.sum())
                low, high = agreement.leave_one_out(x[keep], y[keep])
                line += [f"{agreement.pearson(x[keep], y[keep]):.3f}", f"{low:.2f} .. {high:.2f}"]
            cells.append(line)
    return Analysis(
        "BERT-TBR, Table 1: COCO 2015, Pearson r of systems with people",
        cells,
        [
            f"ours: published leaderboard scores of {size} teams (Human and Random left out), "
            "hidden test images; the paper scores captions of 12 teams, which it does not name, on "
            "validation images",
            "rows that need the teams' captions stay empty: those captions are not among the data",
            f"M1: {coco2015.HUMAN['M1']}; M2: {coco2015.HUMAN['M2']}",
        ],
    )


def _ablated(label: str) -> str:
    """Return the metric that stands for a row of the ablation, or nothing."""
    part = _PARTS.get(label)
    if part is None:
        return "unigram_tbr" if label == "Ours (Unigram)" else ""
    return "bert_tbr" if part == "TBR" else f"bert_tbr(parts='{part}')"


def ablation_specs() -> list[str]:
    """Return the metrics of the ablation that can run here."""
    rows = reported()["bert_tbr"]["table2_ablation_pearson"]
    return usable(tuple(s for s in map(_ablated, rows) if s))[0]


def ablation(bench: Bench) -> Analysis:
    """BERT-TBR, Table 2: needs the captions of the teams; the ablation runs on Flickr8k instead."""
    printed = reported()["bert_tbr"]["table2_ablation_pearson"]
    cells = [["row", "M1 paper / ours", "M2 paper / ours", "Flickr8k-Expert tau-b-mean, ours"]]
    why: dict[str, str] = {}
    for label, row in printed.items():
        value = "-"
        spec = _ablated(label)
        if spec:
            fine, lacking = usable((spec,))
            why |= lacking
            if fine:
                result = bench.result(spec, "flickr8k-expert/tau-b-mean").result(spec)
                value = f"{result.value:.3f}" if not result.reason else "-"
        cells.append([label, f"{row['M1']:.3f} / -", f"{row['M2']:.3f} / -", value])
    return Analysis(
        "BERT-TBR, Table 2: ablation",
        cells,
        [
            "captions of the COCO-2015 teams are not among the data: M1, M2 cannot be computed",
            "last column: the same parts on Flickr8k-Expert, with MiniLM in place of BERT-base",
            *_left_out(why),
        ],
    )


def captioners(bench: Bench, only: tuple[str, ...] | None = None) -> Analysis:
    """BERT-TBR, Table 5: mean scores of captioners on COCO Karpathy-test."""
    import pyarrow.parquet as pq

    path = bench.root / "coco/karpathy_test_systems.parquet"
    if not path.exists():
        raise InputError(f"{path} is not there")
    content = pq.read_table(path)
    samples = CaptionSet.build(
        content["m2_transformer"].to_pylist(),
        content["references"].to_pylist(),
        ids=[str(i) for i in content["image_id"].to_pylist()],
        images=[str(i) for i in content["image_id"].to_pylist()],
    )
    specs, why = usable(only or CAPTIONERS)
    # The corpus value of both is the mean of the captions' values.
    ours = {k: float(np.nanmean(v)) for k, v in bench.columns(specs, samples, why).items()}
    printed = reported()["bert_tbr"]["table5_captioners"]
    cells = [["captioner", "Ours (BERT) paper / ours", "CIDEr-D paper / ours"]]
    for label, row in printed.items():
        mine = ours if label == "M2-Transformer" else {}
        cells.append(
            [
                label,
                f"{row['Ours (BERT)']:.4f} / {_number(mine.get('bert_tbr'), 4)}",
                f"{row['CIDEr-D']:.3f} / {_number(mine.get('cider_d'), 3)}",
            ]
        )
    return Analysis(
        "BERT-TBR, Table 5: captioners on COCO Karpathy-test",
        cells,
        [
            "only the captions of M2-Transformer are here; MiniLM in place of BERT-base, so the "
            "level of the first column is another one",
            *_left_out(why),
        ],
    )


def layer_specs() -> list[str]:
    """Return the metrics of the curve by layer; layers that an encoder has not fail at once."""
    return [f"{name}(layer={k})" for name in usable(_LAYERED)[0] for k in range(1, _LAYERS + 1)]


def layers(bench: Bench) -> Analysis:
    """ViLBERTScore, Figure 3: agreement by layer; the same curve for BERTScore."""
    cells = [["metric", "layer", "flickr8k-expert/tau-b-mean", "95 % interval"]]
    lines: dict[str, list[float]] = {}
    why: dict[str, str] = {}
    for name in _LAYERED:
        columns = [f"{name}_{x}" for x in "prf"]
        fine, lacking = usable((name,))
        why |= lacking
        for layer in range(1, _LAYERS + 1) if fine else ():
            spec = f"{name}(layer={layer})"
            try:
                found = bench.result(spec, "flickr8k-expert/tau-b-mean")
            except UsageError:
                break
            results = [r for c in columns for r in found.results if r.metric.startswith(c + "(")]
            results = results or [r for r in found.results if r.metric in columns]
            if not results or any(r.reason for r in results):
                break
            for column, r in zip(columns, results, strict=True):
                lines.setdefault(column, []).append(r.value)
                cells.append([column, str(layer), f"{r.value:.4f}", f"[{r.low:.4f}, {r.high:.4f}]"])
    longest = max((len(v) for v in lines.values()), default=0)
    padded = {k: v + [float("nan")] * (longest - len(v)) for k, v in lines.items()}
    return Analysis(
        "ViLBERTScore, Figure 3: agreement by layer (Flickr8k-Expert)",
        cells,
        [
            "the figure has no printed numbers; BERTScore is the text-only companion",
            *_left_out(why),
        ],
        padded,
        tuple(float(i) for i in range(1, longest + 1)),
        ("layer", "tau-b, mean rating"),
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ratings(judged: JudgementSet) -> Ratings:
    if not isinstance(judged.judged, Ratings):
        raise InputError(f"{judged.name} holds no ratings")
    return judged.judged


ANALYSES: dict[tuple[str, str], Callable[..., Analysis]] = {
    ("tiger", "figure4"): score_groups,
    ("tiger", "figure5"): reference_sweep,
    ("tiger", "figure7"): sensitivity,
    ("tiger", "appendix"): error_groups,
    ("beyond", "robustness"): robustness_suite,
    ("beyond", "saturation"): saturation,
    ("bert_tbr", "table1"): coco_2015,
    ("bert_tbr", "table2"): ablation,
    ("bert_tbr", "table5"): captioners,
    ("vilbertscore", "figure3"): layers,
    ("vifidel", "figure4"): reference_sweep,
}
