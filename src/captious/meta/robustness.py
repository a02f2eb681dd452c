"""Robustness: does a metric notice when one thing in a correct caption is spoilt?

A caption that a person wrote is scored against the other captions of its image, untouched and with
one change of a given kind. A good metric gives the untouched one the higher score. The word lists
are our own and small; a caption that holds none of their words takes no part in that kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from captious.errors import InputError
from captious.meta.scoring import Scorer
from captious.types import CaptionSet, Floats


def _words(text: str) -> list[str]:
    return text.split()


COLOURS = _words("red blue green yellow orange purple pink brown black white gray")
NUMBERS = _words("one two three four five six seven eight nine ten")
# Words of one line are like each other; words of different lines are not.
OBJECTS = (
    _words("dog cat puppy kitten horse cow sheep goat elephant bear bird duck"),
    _words("man woman boy girl child person lady guy baby"),
    _words("car truck bus van train taxi motorcycle bicycle bike boat plane airplane"),
    _words("ball frisbee kite skateboard surfboard snowboard racket bat"),
    _words("table chair bench couch sofa bed desk"),
    _words("pizza sandwich cake apple banana bread burger salad"),
    _words("beach ocean lake river pool mountain field forest street road park"),
    _words("shirt jacket hat dress coat shorts jeans sweater helmet"),
)
ACTIONS = _words(
    "running walking jumping sitting standing lying sleeping eating drinking swimming climbing "
    "riding playing reading cooking dancing throwing catching flying driving"
)
STATES = tuple(
    _words(line)
    for line in (
        "young old",
        "small large big little tiny huge",
        "wet dry",
        "open closed",
        "empty full",
        "tall short long",
        "happy sad",
        "clean dirty",
        "dark bright",
        "sunny cloudy rainy snowy",
    )
)
_FUNCTION = frozenset(
    _words(
        "a an the of in on at to and or with by for from is are was were be being been it its his "
        "her their there this that while as into over under up down out off near next front behind"
    )
)
_WORD = re.compile(r"[A-Za-z]+")

Change = Callable[[list[str], np.random.Generator], list[str] | None]


def _content(words: Sequence[str]) -> list[int]:
    return [i for i, w in enumerate(words) if _WORD.fullmatch(w) and w.lower() not in _FUNCTION]


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
    out = list(words)
    out[a], out[b] = words[b], words[a]
    return out


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
        out = [words[i] for i in rng.permutation(len(words))]
        if out != words:
            return out


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
        out = list(words)
        out[at] = others[int(rng.integers(len(others)))]
        return out

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


@dataclass(frozen=True)
class Probe:
    """Outcome of one kind of change for one metric.

    Attributes:
        metric: column name.
        kind: the change.
        accuracy: share of captions whose untouched form scores higher (ties count half).
        fall: mean loss of score, in standard deviations of the metric's scores.
        n: captions that the change applies to and that were scored.
    """

    metric: str
    kind: str
    accuracy: float
    fall: float
    n: int


def change_all(captions: Sequence[str], seed: int) -> dict[str, list[str | None]]:
    """Return the changed captions of every kind; None where a change does not apply."""
    out: dict[str, list[str | None]] = {}
    for number, (kind, change) in enumerate(KINDS.items()):
        rng = np.random.default_rng([seed, number])
        found: list[str | None] = []
        for caption in captions:
            changed = change(caption.split(), rng)
            found.append(None if changed is None else " ".join(changed))
        out[kind] = found
    return out


def probe(samples: CaptionSet, scorer: Scorer, seed: int = 12345) -> list[Probe]:
    """Spoil every caption in every way that applies and compare the scores.

    Args:
        samples: correct captions with references that do not hold them.
        scorer: the metrics.
        seed: of the choice of words.
    """
    changed = change_all(samples.captions(), seed)
    rows = [(kind, i) for kind, texts in changed.items() for i, t in enumerate(texts) if t]
    if not rows:
        raise InputError("no caption holds a word that the probes can change")
    count = len(samples)
    references = samples.references()
    everything = CaptionSet.build(
        samples.captions() + [str(changed[k][i]) for k, i in rows],
        references + [references[i] for _, i in rows],
        ids=[str(x) for x in samples.ids] + [f"{samples.ids[i]}|{k}" for k, i in rows],
        images=[*samples.images, *(samples.images[i] for _, i in rows)],
        objects=None
        if samples.objects is None
        else [*samples.objects, *(samples.objects[i] for _, i in rows)],
    )
    at = np.array([i for _, i in rows])
    kinds = np.array([k for k, _ in rows])
    out = []
    for name, scores in scorer(everything).items():
        if scores.reason:
            continue
        before, after = scores.values[:count], scores.values[count:]
        spread = float(np.nanstd(before)) or 1.0
        for kind in KINDS:
            gap: Floats = (before[at] - after)[kinds == kind]
            gap = gap[~np.isnan(gap)]
            if len(gap):
                right = (gap > 0).mean() + (gap == 0).mean() / 2
                out.append(Probe(name, kind, float(right), float(gap.mean() / spread), len(gap)))
    return out
