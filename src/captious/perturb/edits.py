"""Edits that make one thing in a correct caption wrong: a word dropped, a colour changed.

Each edit takes the words of a caption and returns the changed words, or None where it does not
apply. The word lists are our own and small; a caption that holds none of their words takes no part
in that kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from captious.perturb.words import ACTIONS, COLOURS, FUNCTION, NUMBERS, OBJECTS, STATES

_WORD = re.compile(r"[A-Za-z]+")

Change = Callable[[list[str], np.random.Generator], list[str] | None]


def _content(words: Sequence[str]) -> list[int]:
    return [i for i, w in enumerate(words) if _WORD.fullmatch(w) and w.lower() not in FUNCTION]


def drop(words: list[str], rng: np.random.Generator) -> list[str] | None:
    """Leave out one content word."""
    places = _content(words)
    if len(places) < 2:
        return None
    gone = int(rng.choice(places))
    return [w for i, w in enumerate(words) if i != gone]


def swap(words: list[str], rng: np.random.Generator) -> list[str] | None:
    """Let two different content words change places."""
    places = _content(words)
    pairs = [
        (a, b) for a in places for b in places if a < b and words[a].lower() != words[b].lower()
    ]
    if not pairs:
        return None
    a, b = pairs[int(rng.integers(len(pairs)))]
    swapped = list(words)
    swapped[a], swapped[b] = words[b], words[a]
    return swapped


def repeat(words: list[str], rng: np.random.Generator) -> list[str] | None:
    """Say one content word twice."""
    places = _content(words)
    if not places:
        return None
    at = int(rng.choice(places))
    return [*words[: at + 1], *words[at:]]


def negate(words: list[str], rng: np.random.Generator) -> list[str] | None:
    """Deny what is said: is/are -> is/are not, with -> without."""
    for at, word in enumerate(words):
        if word.lower() in ("is", "are"):
            return [*words[: at + 1], "not", *words[at + 1 :]]
    for at, word in enumerate(words):
        if word.lower() == "with":
            return [*words[:at], "without", *words[at + 1 :]]
    return None


def shuffle(words: list[str], rng: np.random.Generator) -> list[str] | None:
    """Put all words into a random order."""
    if len({w.lower() for w in words}) < 3:
        return None
    while True:
        shuffled = [words[i] for i in rng.permutation(len(words))]
        if shuffled != words:
            return shuffled


def truncate(words: list[str], rng: np.random.Generator) -> list[str] | None:
    """Break the sentence off after two thirds."""
    keep = 2 * len(words) // 3
    return words[:keep] if 2 <= keep < len(words) else None


def _replace(groups: Sequence[Sequence[str]], same: bool) -> Change:
    """Return a change that replaces one listed word, by one of its own line or of another."""
    line = {word: n for n, group in enumerate(groups) for word in group}

    def change(words: list[str], rng: np.random.Generator) -> list[str] | None:
        places = [i for i, w in enumerate(words) if w.lower() in line]
        if not places:
            return None
        at = int(rng.choice(places))
        old = words[at].lower()
        others = [
            w
            for n, group in enumerate(groups)
            for w in group
            if w != old and (n == line[old]) == same
        ]
        replaced = list(words)
        replaced[at] = others[int(rng.integers(len(others)))]
        return replaced

    return change


KINDS: dict[str, Change] = {
    "drop": drop,
    "swap": swap,
    "repeat": repeat,
    "negate": negate,
    "shuffle": shuffle,
    "truncate": truncate,
    "colour": _replace([COLOURS], same=True),
    "number": _replace([NUMBERS], same=True),
    "state": _replace(STATES, same=True),
    "action": _replace([ACTIONS], same=True),
    "object, similar": _replace(OBJECTS, same=True),
    "object, other": _replace(OBJECTS, same=False),
}


def change_all(captions: Sequence[str], seed: int) -> dict[str, list[str | None]]:
    """Return the changed captions of every kind; None where a change does not apply."""
    by_kind: dict[str, list[str | None]] = {}
    for number, (kind, change) in enumerate(KINDS.items()):
        rng = np.random.default_rng([seed, number])
        changed_captions: list[str | None] = []
        for caption in captions:
            changed = change(caption.split(), rng)
            changed_captions.append(None if changed is None else " ".join(changed))
        by_kind[kind] = changed_captions
    return by_kind
