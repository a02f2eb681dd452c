"""Figures and examples of the TIGEr paper, for any metric: 4, 5, 7, 8 and Table 3."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from captious.errors import InputError
from captious.judgements import protocols
from captious.judgements.judgement_set import JudgementSet
from captious.meta import agreement, disagreements
from captious.meta.tables import short
from captious.papers import tiger_analyses
from captious.papers.analyses import Analysis, left_out, ratings_of, usable, wanted
from captious.papers.bench import Bench, lacking_files
from captious.papers.paper_tables import KINDS, reported
from captious.types import CaptionSet

SETS = {"Flickr8k-Expert": "flickr8k-expert/tau-c-pooled", "COMPOSITE": "composite/tau-c"}
OWN = ("tiger", "rrs", "wds")  # what the paper draws
SIZES = (1, 5, 10, 20, 30, 40, 50)
SWEPT = {
    "bleu_1": "bleu",
    "bleu_4": "bleu",
    "rouge_l": "rouge_l",
    "meteor": "meteor",
    "cider_d(by='row')": "cider_d(by='row')",
    "spice": "spice",
    "wmd": "wmd",
    "vifidel": "vifidel",
    "tiger": "tiger",
}


def _rated(bench: Bench, remarks: list[str]) -> dict[str, tuple[JudgementSet, CaptionSet]]:
    """Return the rated sets of the paper that are here, with the captions of their protocol."""
    rated = {}
    for title, name in SETS.items():
        protocol = protocols.get(name)
        try:
            judged = protocols.selected(bench.judged(protocol.set), protocol)
        except InputError as err:
            remarks.append(f"{title}: not computed: {lacking_files(err, protocol.set)}")
            continue
        rated[title] = (judged, protocols.chosen_samples(judged, protocol))
    if not rated:
        raise InputError(remarks)
    return rated


def score_groups(bench: Bench, only: tuple[str, ...] | None = None) -> Analysis:
    """TIGEr, Figure 4: mean score of the captions that people gave each rating."""
    remarks = ["every rating is an observation; the figure has no printed numbers"]
    specs, why = wanted(bench, only)
    cells = [["set", "metric", *(f"rated {v}" for v in range(1, 6)), "rises throughout"]]
    panels = {}
    for title, (judged, samples) in _rated(bench, remarks).items():
        table = agreement.rating_matrix(ratings_of(judged), len(samples))
        levels = np.unique(table[~np.isnan(table)])
        lines = {}
        for name, scores in bench.columns(specs, samples, why).items():
            by_rating = tiger_analyses.means_by_rating(scores, table)
            means = [by_rating[v][0] for v in levels]
            rises = all(a < b for a, b in pairwise(means))
            shown = {f"{v:g}": f"{m:.4f}" for v, m in zip(levels, means, strict=True)}
            row = [shown.get(str(v), "") for v in range(1, 6)]
            cells.append([title, name, *row, "yes" if rises else "no"])
            if name in OWN:
                lines[name] = means
        if lines:
            panels[title] = (tuple(map(float, levels)), lines)
    return Analysis(
        "TIGEr, Figure 4: mean score by human rating",
        cells,
        [*remarks, "drawn: TIGEr and its two parts, as in the paper", *left_out(why)],
        axes=("human rating", "mean score"),
        panels=panels,
    )


def error_groups(bench: Bench, only: tuple[str, ...] | None = None) -> Analysis:
    """TIGEr, Appendix A.1, Figure 8: captions sorted by score into groups as large as people's."""
    remarks = ["human group: mean of the ratings, rounded half up; equal scores keep file order"]
    specs, why = wanted(bench, only)
    gaps = list(range(-4, 5))
    cells = [["set", "metric", *(f"{g:+d}" if g else "0" for g in gaps), "mean distance"]]
    panels = {}
    for title, (judged, samples) in _rated(bench, remarks).items():
        table = agreement.rating_matrix(ratings_of(judged), len(samples))
        lines = {}
        for name, scores in bench.columns(specs, samples, why).items():
            if np.isnan(scores).any():
                why[name] = "some captions have no score"
                continue
            errors = tiger_analyses.rating_errors(scores, table)
            total = sum(errors.values())
            mean = sum(abs(g) * n for g, n in errors.items()) / total
            shares = [errors.get(g, 0) / total for g in gaps]
            cells.append([title, name, *(f"{s:.3f}" for s in shares), f"{mean:.3f}"])
            if name in OWN:
                lines[name] = shares
        if lines:
            panels[title] = (tuple(map(float, gaps)), lines)
    return Analysis(
        "TIGEr, Figure 8 (Appendix A.1): group of the metric minus human group",
        cells,
        [*remarks, "drawn: TIGEr and its two parts", *left_out(why)],
        axes=("metric's group minus people's", "share of captions"),
        panels=panels,
    )


def examples(bench: Bench, only: tuple[str, ...] | None = None) -> Analysis:
    """TIGEr, Appendix A.2 and Table 3: captions by kind of disagreement with people."""
    remarks = [
        "two captions of each kind, the widest gaps first, each of another photograph; "
        "`captious meta METRIC --disagreements` does the same for any metric and set"
    ]
    specs, why = wanted(bench, only or bench.metrics or ("tiger",))
    cells = [
        ["set", "metric", "kind", "people", "metric's group", "value", "caption", "photograph"]
    ]
    for title in _rated(bench, remarks):
        for spec in specs:
            evaluation = bench.result(spec, SETS[title])
            if evaluation.results[0].reason:
                why[spec] = short(evaluation.results[0].reason)
                continue
            metric = evaluation.results[0].metric
            cells += [
                [title, e.metric, e.kind, e.human, e.group, f"{e.value:.3f}", e.caption, e.image]
                for e in disagreements.examples(evaluation, metric, 2)
            ]
    return Analysis(
        "TIGEr, Table 3 (Appendix A.2): examples by kind of disagreement",
        cells,
        [*remarks, *left_out(why)],
    )


def sweep_protocol(references: int, ties: str) -> str:
    """Return the protocol of one point of the reference sweep."""
    return f"pascal50s/{ties}-{references}{'drawn' if references else 'refs'}"


def sweep_demands(bench: Bench) -> list[tuple[str, str, str]]:
    """Return what Figure 5 takes scores of."""
    specs = usable(tuple(dict.fromkeys(SWEPT.values())))[0]
    return [(s, sweep_protocol(k, "strict"), "") for s in specs for k in SIZES]


def reference_sweep(bench: Bench, sizes: tuple[int, ...] = SIZES) -> Analysis:
    """TIGEr, Figure 5: PASCAL-50S accuracy by number of references, a tie is wrong."""
    specs, why = usable(tuple(dict.fromkeys(SWEPT.values())))
    groups = ("all", *KINDS)
    cells = [["metric", "pairs", *(f"{k} ref{'s' * (k > 1)}" for k in sizes)]]
    curves: dict[str, dict[str, list[float]]] = {g: {} for g in groups}
    for column, spec in SWEPT.items():
        points = []
        for k in sizes if spec in specs else ():
            result = bench.result(spec, sweep_protocol(k, "strict")).result(column)
            if result.reason:
                why[column] = short(result.reason)
                break
            values = [result.value, *(result.groups[g] for g in KINDS)]
            points.append(values)
        if len(points) == len(sizes):
            for g, curve in zip(groups, zip(*points, strict=True), strict=True):
                cells.append([column, g, *(f"{v:.3f}" for v in curve)])
                curves[g][column] = list(curve)
    at = tuple(map(float, sizes))
    return Analysis(
        "TIGEr, Figure 5: PASCAL-50S accuracy by number of references",
        cells,
        [
            "a tie is wrong, as in the paper; where scores tie often the rule decides (SPICE on "
            "MM, see Table 2)",
            "references drawn per image from its 50: mean of 5 draws for 1 and 5 references, one "
            "draw above",
            *left_out(why),
        ],
        axes=("references", "accuracy, strict"),
        panels={g: (at, lines) for g, lines in curves.items() if lines},
    )


def sensitivity(bench: Bench, only: tuple[str, ...] | None = None) -> Analysis:
    """TIGEr, Figure 7: is a false replacement of one word punished more than a true one?"""
    from captious.text.synsets import WordTables

    judged = bench.judged("pascal50s")
    pool = judged.pool if judged.pool is not None else judged.samples
    references = {str(i): r[:6] for i, r in zip(pool.images, pool.references(), strict=True)}
    tables = WordTables.open() if bench.wordnet else None
    pairs = tiger_analyses.swap_pairs(references, bench.pairs, wordnet=tables)
    sizes = Counter(p.kind for p in pairs)
    kinds = [*sizes, "property"]
    specs, why = wanted(bench, only)
    accuracy: dict[str, dict[str, float]] = {}
    for spec in specs:
        accuracy |= tiger_analyses.swap_accuracy(
            lambda samples, spec=spec: bench.columns([spec], samples, why),  # type: ignore[misc]
            pairs,
        )
    head = ["metric", *kinds]
    cells = [head, ["pairs", *(str(sizes.get(k, "")) for k in kinds)]]
    cells += [[m, *(f"{row.get(k, np.nan):.1f}" for k in kinds)] for m, row in accuracy.items()]
    printed = reported()["tiger"]["text_sensitivity_property_accuracy"]
    paper = ", ".join(f"{k} {v['TIGEr']:.1f}" for k, v in printed.items())
    values = np.array([[row.get(k, np.nan) / 100 for k in kinds] for row in accuracy.values()])
    return Analysis(
        "TIGEr, Figure 7: sensitivity to one replaced word (PASCAL-50S references)",
        cells,
        [
            "percent of pairs whose true replacement scores above the false one, ties wrong",
            f"TIGEr in the paper, on its own sentences: {paper}",
            "our word groups"
            + (" with WordNet synonyms that the captions use" * bench.wordnet)
            + "; one of the first six captions of an image is changed, the other five are its "
            "references",
            *left_out(why),
        ],
        heat=(list(accuracy), kinds, values, 0.5) if accuracy else None,
    )
