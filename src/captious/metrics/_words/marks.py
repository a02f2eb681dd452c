"""Words confirmed, extra and missing; what each word adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from captious.text.stoplists import stop_words
from captious.types import WordMark, WordMarks


def against(
    title: str,
    caption: Sequence[str],
    references: Sequence[Sequence[str]],
    weights: Mapping[str, float] | None = None,
    meaning: str = "",
) -> WordMarks:
    """Mark the caption's words by whether a reference has them, and list what is missing.

    A content word is missing where at least half of the references have it (two or more of them,
    if there are so many) and the caption does not.

    Example:
        >>> found = against("x", ["a", "cat"], [["a", "dog"], ["one", "dog"]])
        >>> [(m.word, m.state) for m in found.words]
        [('a', 'confirmed'), ('cat', 'extra'), ('dog', 'missing')]
    """
    held = Counter(word for reference in references for word in dict.fromkeys(reference))
    total = len(references)
    known = weights or {}
    marks = []
    for word in caption:
        count = held[word]
        note = f"in {count} of {total} references" if count else "in no reference"
        marks.append(WordMark(word, "confirmed" if count else "extra", known.get(word), note))
    small = stop_words("nltk")
    least = max(min(2, total), total / 2)
    said = set(caption)
    for word, count in held.most_common():
        if count >= least and word not in said and word not in small and word.isalnum():
            note = f"in {count} of {total} references, not in the caption"
            marks.append(WordMark(word, "missing", known.get(word), note))
    return WordMarks(title, tuple(marks), meaning)


def adding(title: str, words: Sequence[str], changes: Sequence[float]) -> WordMarks:
    """Mark words by what the score loses without each."""
    marks = (
        WordMark(word, "raises" if change >= 0 else "lowers", change, "what the word adds")
        for word, change in zip(words, changes, strict=True)
    )
    return WordMarks(title, tuple(marks), "the number is what the word adds to the score")
