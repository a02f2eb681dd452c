"""Where do metrics agree with people, and with each other? Analyses beyond the papers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.io.grids import Part
from captious.judgements.judgement_set import Pairs, Ratings
from captious.meta import agreement
from captious.meta.evaluate import Evaluation, mean_rating
from captious.meta.scoring import Scorer
from captious.meta.tables import grid
from captious.perturb.words import ACTIONS, COLOURS, NUMBERS, OBJECTS
from captious.types import CaptionSet, Floats

Split = dict[str, npt.NDArray[np.bool_]]


def by_length(evaluation: Evaluation) -> Split:
    """Split ratings by the caption's number of words (thirds), pairs by which caption is longer."""
    words = np.array([len(c.split()) for c in evaluation.judged.samples.captions()])
    if isinstance(evaluation.judged.judged, Pairs):
        pairs = evaluation.judged.judged
        gap = (words[pairs.first] - words[pairs.second]) * pairs.preference
        return {
            "preferred is longer": gap > 0,
            "equal length": gap == 0,
            "preferred is shorter": gap < 0,
        }
    low, high = (int(q) for q in np.quantile(words, [1 / 3, 2 / 3]))  # lengths are whole numbers
    return {
        f"up to {low} words": words <= low,
        f"{low + 1} to {high} words": (words > low) & (words <= high),
        f"over {high} words": words > high,
    }


def by_judges(evaluation: Evaluation) -> Split:
    """Split by how far people agree: range of the ratings, or margin of the votes."""
    if isinstance(evaluation.judged.judged, Pairs):
        votes = evaluation.judged.judged.votes
        total = votes.sum(axis=1)
        if not (total > 1).any():
            return {}
        margin = np.abs(votes[:, 0] - votes[:, 1]) / np.maximum(total, 1)
        return {
            "margin under 1/3": margin < 1 / 3,
            "margin 1/3 to 2/3": (margin >= 1 / 3) & (margin < 2 / 3),
            "margin over 2/3": margin >= 2 / 3,
        }
    table = agreement.rating_matrix(evaluation.judged.judged, len(evaluation.judged.samples))
    if table.shape[1] < 2:
        return {}
    spread = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    return {"judges agree": spread == 0, "one apart": spread == 1, "further apart": spread > 1}


def by_error(evaluation: Evaluation) -> Split:
    """Split ratings by what a caption says that no reference says, by our word lists.

    A caption is in the first part that fits: it names things, and the references name things, but
    none of the same kind (a dog for a puppy is no error); likewise actions, numbers, colours. The
    last part holds captions in which the lists see nothing wrong.
    """
    if isinstance(evaluation.judged.judged, Pairs):
        return {}
    kinds = {
        "other objects": {w: str(n) for n, line in enumerate(OBJECTS) for w in line},
        "other actions": {w: w for w in ACTIONS},
        "other numbers": {w: w for w in NUMBERS},
        "other colours": {w: w for w in COLOURS},
    }
    samples = evaluation.judged.samples
    out = {name: np.zeros(len(samples), bool) for name in (*kinds, "none of these")}
    for row, (mine, theirs) in enumerate(
        zip(samples.captions(), samples.references(), strict=True)
    ):
        said, known = _words(mine), _words(" ".join(theirs))
        for name, words in kinds.items():
            here = {words[w] for w in said if w in words}
            there = {words[w] for w in known if w in words}
            if here and there and not here & there:
                out[name][row] = True
                break
        else:
            out["none of these"][row] = True
    return {name: inside for name, inside in out.items() if inside.any()}


def _words(text: str) -> set[str]:
    """Return the words of a text, plurals in -s also without it."""
    words = {w.strip(".,;:!?\"'()") for w in text.lower().split()}
    return words | {w[:-1] for w in words if w.endswith("s")}


def within(evaluation: Evaluation, split: Split) -> dict[str, dict[str, float]]:
    """Return metric -> part -> the protocol's measure inside that part of the set."""
    out: dict[str, dict[str, float]] = {}
    judged = evaluation.judged.judged
    for name, scores in evaluation.scores.items():
        out[name] = {}
        for part, inside in split.items():
            if isinstance(judged, Ratings):
                if evaluation.protocol.pooling == "each":
                    rows, y = judged.rows, judged.values
                else:
                    rows, y = mean_rating(judged)
                keep = inside[rows] & ~np.isnan(scores[rows])
                measure = agreement.MEASURES[evaluation.protocol.measure]
                out[name][part] = measure(scores[rows[keep]], y[keep])
            else:
                known = inside & ~np.isnan(scores)
                out[name][part] = float(scores[known].mean()) if known.any() else float("nan")
    return out


def cells(
    evaluation: Evaluation, split: Split, keep: Callable[[str], bool] = lambda metric: True
) -> list[list[str]]:
    """Return the parts of a split as a table, the metrics that ``keep`` names as its rows."""
    sizes = ["captions or pairs", *(f"{int(s.sum()):,}" for s in split.values())]
    rows = [
        [m, *(f"{v:.4f}" for v in row.values())]
        for m, row in within(evaluation, split).items()
        if keep(m)
    ]
    return [["metric", *split], sizes, *rows]


def correlations(scores: dict[str, Floats]) -> tuple[list[str], Floats]:
    """Return Spearman's rho between all metrics, on the captions that both can score."""
    names = list(scores)
    out = np.eye(len(names))
    for i, a in enumerate(names):
        for j, b in enumerate(names[:i]):
            both = ~(np.isnan(scores[a]) | np.isnan(scores[b]))
            out[i, j] = out[j, i] = agreement.spearman(scores[a][both], scores[b][both])
    return names, out


def linkage(matrix: Floats) -> Floats:
    """Join metrics by average linkage of the distance 1 - rho."""
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    distance = np.clip(1 - np.nan_to_num(matrix, nan=0.0), 0, 2)
    np.fill_diagonal(distance, 0)
    return np.asarray(hierarchy.linkage(squareform(distance, checks=False), "average"))


def tree(names: list[str], matrix: Floats) -> str:
    """Return the tree of which metrics say the same, as indented text."""
    if len(names) < 2:
        return names[0] if names else ""
    steps = linkage(matrix)
    size = len(names)

    def draw(node: int, depth: int) -> list[str]:
        if node < size:
            return ["  " * depth + names[node]]
        a, b, distance, _ = steps[node - size]
        return [
            "  " * depth + f"rho {1 - distance:.2f}",
            *draw(int(a), depth + 1),
            *draw(int(b), depth + 1),
        ]

    return "\n".join(draw(2 * size - 2, 0))


def render(evaluation: Evaluation, format: str = "text") -> str:
    """Return all diagnostics of an evaluation."""
    told = parts(evaluation, format)
    return "\n\n".join(p if isinstance(p, str) else grid(p, format) for p in told) + "\n"


def parts(evaluation: Evaluation, format: str = "text") -> list[Part]:
    """Return the tables of all diagnostics, and which metrics say the same."""
    out: list[Part] = []
    for title, split in (
        ("by caption length", by_length(evaluation)),
        ("by agreement of the judges", by_judges(evaluation)),
        ("by kind of error", by_error(evaluation)),
    ):
        if not split:
            continue
        table = cells(evaluation, split)
        table[0][0] = f"{evaluation.protocol.measure} {title}"
        out.append(table)
    if isinstance(evaluation.judged.judged, Ratings) and len(evaluation.scores) > 1:
        names, matrix = correlations(evaluation.scores)
        short = [n[:14] for n in names]
        out.append(
            [
                ["Spearman between metrics", *short],
                *([n, *(f"{v:.2f}" for v in row)] for n, row in zip(names, matrix, strict=True)),
            ]
        )
        text = tree(names, matrix)
        out.append(
            "which metrics rank captions alike (average linkage)\n\n"
            + (f"```\n{text}\n```" if format == "markdown" else text)
        )
    return out


@dataclass(frozen=True)
class Saturation:
    """How a metric sees strong captioners beside people.

    Attributes:
        metric: column name.
        means: system -> mean score; ``human`` is a person's caption against the other references.
        above_human: system -> share of images on which it scores above the person (ties half).
    """

    metric: str
    means: dict[str, float]
    above_human: dict[str, float]


def saturation(
    systems: dict[str, list[str]],
    human: list[str],
    references: list[list[str]],
    images: list[str],
    scorer: Scorer,
) -> list[Saturation]:
    """Score systems and one human caption per image against the same other references."""
    everyone = systems | {"human": human}
    count = len(human)
    whole = CaptionSet.build(
        [c for captions in everyone.values() for c in captions],
        references * len(everyone),
        ids=[f"{i}|{s}" for s in everyone for i in images],
        images=images * len(everyone),
        systems=[s for s in everyone for _ in range(count)],
    )
    out = []
    for name, scores in scorer(whole).items():
        if scores.reason or np.isnan(scores.values).all():
            continue
        values = dict(zip(everyone, scores.values.reshape(len(everyone), count), strict=True))
        above = {}
        for system in systems:
            gap = values[system] - values["human"]
            gap = gap[~np.isnan(gap)]
            above[system] = float((gap > 0).mean() + (gap == 0).mean() / 2)
        means = {s: _mean(v) for s, v in values.items()}
        out.append(Saturation(name, means, above))
    return out


def _mean(values: Floats) -> float:
    """Return the mean of the scored ones; NaN where none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
