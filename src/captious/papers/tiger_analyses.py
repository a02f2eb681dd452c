"""The analyses of the TIGEr paper, for any metric.

* :func:`means_by_rating`: mean score per human score (Figure 4).
* :func:`swap_pairs` and :func:`swap_accuracy`: is a false replacement of one word punished
  more than a true one (Figure 7)?
* :func:`rating_errors`: scores turned into ratings, and how far these are from people's (A.1).

A *scorer* is any function from samples to one array per column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from captious.errors import UsageError
from captious.meta import disagreements
from captious.perturb import swap_words
from captious.text import treebank
from captious.types import CaptionSet, Floats

if TYPE_CHECKING:
    from captious.text.synsets import WordTables

_COMMON = 5  # occurrences of a word that WordNet may add
Scorer = Callable[[CaptionSet], Mapping[str, Floats]]


def means_by_rating(values: Floats, ratings: npt.ArrayLike) -> dict[float, tuple[float, int]]:
    """Mean value and number of observations of each human score; unscored rows are left out.

    Several ratings of a row (``[n, judges]``) are separate observations.

    >>> means_by_rating(np.array([0.2, 0.4, 0.9]), [1, 1, 4])
    {1.0: (0.30000000000000004, 2), 4.0: (0.9, 1)}
    """
    people = np.asarray(ratings, np.float64)
    scores = np.asarray(values, np.float64)
    if people.ndim == 2:
        scores, people = np.repeat(scores, people.shape[1]), people.reshape(-1)
    known = ~np.isnan(scores)
    return {
        float(rating): (
            float(scores[known & (people == rating)].mean()),
            int((known & (people == rating)).sum()),
        )
        for rating in np.unique(people[known])
    }


def rating_errors(values: Floats, ratings: npt.ArrayLike) -> dict[int, int]:
    """Histogram of (rating the score stands for) minus (people's rating).

    Rows are sorted by score and given ratings in the numbers in which people gave them. Several
    ratings of a row count as their rounded mean (halves up). Ties keep the order of the rows.

    >>> rating_errors(np.array([0.1, 0.2, 0.9]), [1, 2, 1])
    {-1: 1, 0: 1, 1: 1}
    """
    known = ~np.isnan(values)
    people = disagreements.people_groups(np.asarray(ratings, np.float64)[known])
    metric = disagreements.metric_groups(np.asarray(values)[known], people)
    errors, count = np.unique(metric - people, return_counts=True)
    return {int(error): int(number) for error, number in zip(errors, count, strict=True)}


@dataclass(frozen=True)
class SwapPair:
    """A reference with one word replaced, truly (``similar``) and falsely (``different``)."""

    image: str
    kind: str
    word: str
    similar: str
    different: str
    references: tuple[str, ...]


def swap_pairs(
    references: Mapping[str, Sequence[str]],
    per_kind: int = 100,
    seed: int = 0,
    wordnet: WordTables | None = None,
) -> list[SwapPair]:
    """Draw pairs of every kind (object, action, counting, colour, state) from reference captions.

    One caption of an image gives at most one pair; it is left out of the pair's references. The
    words come from our lists; ``wordnet`` adds synonyms that the captions use.
    """
    if per_kind < 1:
        raise UsageError(f"per_kind is {per_kind}, but at least one pair is needed")
    draw = np.random.default_rng(seed)
    if wordnet is None:
        families = {kind: swap_words.groups(kind) for kind in swap_words.FAMILIES}
    else:
        used = Counter(
            word
            for captions in references.values()
            for text in captions
            for word in text.lower().split()
        )
        common = [word for word, count in used.items() if count >= _COMMON]
        families = {k: swap_words.widened(k, common, wordnet) for k in swap_words.FAMILIES}
    tables = {kind: _table(groups) for kind, groups in families.items()}
    names = list(references)
    pairs: list[SwapPair] = []
    left = dict.fromkeys(tables, per_kind)
    for number in draw.permutation(len(names)):
        image = names[number]
        captions = list(references[image])
        pair = _swap(image, captions, tables, left, draw)
        if pair is not None:
            left[pair.kind] -= 1
            pairs.append(pair)
        if not any(left.values()):
            break
    return pairs


def swap_accuracy(score: Scorer, pairs: Sequence[SwapPair]) -> dict[str, dict[str, float]]:
    """Share of pairs whose true replacement scores higher, per column and kind.

    ``property`` joins counting, colour and state.
    """
    samples = CaptionSet.build(
        [text for pair in pairs for text in (pair.similar, pair.different)],
        [pair.references for pair in pairs for _ in range(2)],
        images=[pair.image for pair in pairs for _ in range(2)],
    )
    kinds = np.array([pair.kind for pair in pairs])
    accuracies: dict[str, dict[str, float]] = {}
    for column, values in score(samples).items():
        scored_pairs = values.reshape(-1, 2)
        won = scored_pairs[:, 0] > scored_pairs[:, 1]
        sets = {str(kind): kinds == kind for kind in dict.fromkeys(kinds)}
        sets["property"] = np.isin(kinds, swap_words.PROPERTIES)
        accuracies[column] = {
            name: 100 * float(won[chosen].mean()) for name, chosen in sets.items() if chosen.any()
        }
    return accuracies


def _table(families: list[list[list[str]]]) -> dict[str, tuple[list[str], list[str]]]:
    """Word -> (words of its group, words of the other groups of its family)."""
    table: dict[str, tuple[list[str], list[str]]] = {}
    for family in families:
        for group in family:
            others = [word for other in family if other is not group for word in other]
            for word in group:
                similar = [synonym for synonym in group if synonym != word]
                if similar and others and word not in table:
                    table[word] = (similar, others)
    return table


def _swap(
    image: str,
    captions: list[str],
    tables: Mapping[str, Mapping[str, tuple[list[str], list[str]]]],
    left: Mapping[str, int],
    draw: np.random.Generator,
) -> SwapPair | None:
    kinds = sorted((kind for kind in tables if left[kind]), key=lambda kind: -left[kind])
    for kind in kinds:
        for place in draw.permutation(len(captions)):
            words = treebank.split(captions[place].lower())
            spots = [n for n, word in enumerate(words) if word in tables[kind]]
            others = captions[:place] + captions[place + 1 :]
            if not spots or not others:
                continue
            spot = int(draw.choice(spots))
            similar, different = tables[kind][words[spot]]

            def put(word: str, words: list[str] = words, spot: int = spot) -> str:
                return " ".join([*words[:spot], word, *words[spot + 1 :]])

            return SwapPair(
                image,
                kind,
                words[spot],
                put(str(draw.choice(similar))),
                put(str(draw.choice(different))),
                tuple(others),
            )
    return None
