"""The analyses of the TIGEr paper on small cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from captious.errors import UsageError
from captious.papers.tiger_analyses import (
    means_by_rating,
    rating_errors,
    swap_accuracy,
    swap_pairs,
)
from captious.perturb import swap_words


def test_mean_per_rating_with_several_judges_and_unscored_rows():
    values = np.array([0.1, 0.5, np.nan])
    found = means_by_rating(values, np.array([[1, 2], [2, 2], [1, 1]]))
    assert found[1.0] == (pytest.approx(0.1), 1)
    assert found[2.0] == (pytest.approx(1.1 / 3), 3)


def test_a_perfect_order_makes_no_rating_errors():
    ratings = [3, 1, 4, 2, 2]
    assert rating_errors(np.array([0.6, 0.1, 0.9, 0.3, 0.2]), ratings) == {0: 5}


def test_rating_errors_keep_the_histogram_of_the_ratings():
    found = rating_errors(np.array([0.9, 0.1, 0.5]), np.array([[1, 1], [3, 4], [2, 2]]))
    assert found == {-3: 1, 0: 1, 3: 1}


def overlap(samples):
    """A scorer: share of the candidate's words that the references contain."""
    out = []
    for one in samples:
        words = one.caption.split()
        known = {word for text in one.references for word in text.split()}
        out.append(sum(word in known for word in words) / len(words))
    return {"overlap": np.array(out)}


def test_swaps_replace_one_word_and_leave_their_caption_out():
    references = {
        "1": ["a red dog runs", "the hound is crimson"],
        "2": ["two men sit", "a couple of men"],
        "3": ["a woman walking home", "a lady strolling"],
    }
    pairs = swap_pairs(references, per_kind=2, seed=1)
    assert len(pairs) == 3
    for pair in pairs:
        assert len(pair.references) == 1
        similar, different = pair.similar.split(), pair.different.split()
        assert len(similar) == len(different)
        assert sum(a != b for a, b in zip(similar, different, strict=True)) == 1
        assert pair.word not in (set(similar) ^ set(different))
    assert swap_pairs(references, per_kind=2, seed=1) == pairs
    with pytest.raises(UsageError):
        swap_pairs(references, per_kind=0)


def test_swap_accuracy_joins_the_properties():
    pairs = swap_pairs({"1": ["a red ball", "a crimson scarlet ball"]}, 5)
    found = swap_accuracy(overlap, pairs)["overlap"]
    kind = pairs[0].kind
    assert found[kind] in (0.0, 100.0)
    assert ("property" in found) == (kind in swap_words.PROPERTIES)


@pytest.mark.parametrize("kind", swap_words.FAMILIES)
def test_no_word_stands_in_two_groups_of_a_family(kind):
    for family in swap_words.groups(kind):
        words = [word for group in family for word in group]
        assert len(words) == len(set(words))


def test_wordnet_adds_synonyms_of_one_group():
    senses = {
        "dog": {1}, "hound": {1}, "pup": {2}, "doggy": {1}, "cat": {3}, "kitty": {3},
        "pet": {1, 3}, "tree": {9}, "mouser": {3},
    }  # fmt: skip

    class Tables:
        def synsets(self, word):
            return frozenset(senses.get(word, ()))

    before = swap_words.groups("object")
    found = swap_words.widened("object", ["doggy", "pet", "tree", "mouser", "dog"], Tables())
    added = {
        (before[f][g][0], word)
        for f, family in enumerate(found)
        for g, group in enumerate(family)
        for word in set(group) - set(before[f][g])
    }
    assert added == {("dog", "doggy"), ("cat", "mouser")}
    captions = {str(n): ["a doggy runs", "x"] for n in range(6)}
    kinds = {p.word for p in swap_pairs(captions, 6, wordnet=Tables()) if p.kind == "object"}
    assert kinds == {"doggy"}
    assert not [p for p in swap_pairs(captions, 6) if p.word == "doggy"]
