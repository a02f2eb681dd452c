"""Attacks: captions spoilt as someone would who wants a higher score for nothing.

Five attacks, none of which looks at the references: say it again (``repetition``), name things that
are often there (``objects``), throw the words into disorder (``shuffle``), fill a template with the
caption's own words (``template``), answer with a sentence that fits many pictures (``frequent``).
Every attack makes several variants; the probe takes the one that the metric likes best, as someone
who optimises against the metric would.

A gamed caption says nothing more of the image than the untouched one, and says it worse. So the
untouched one should score higher; each case in which it does not is a success of the attack.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from captious.errors import InputError, UsageError, did_you_mean
from captious.perturb.words import COMMON_OBJECTS, LIGHT
from captious.types import CaptionSet

FREQUENT = (
    "a man is standing in front of a building",
    "a group of people standing next to each other",
    "a man and a woman are looking at something",
    "a person is sitting on a chair near a table",
    "a dog is running through the grass",
    "a man riding on the back of something",
    "a close up of something on a table",
    "a young boy is playing outside",
)
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Material:
    """What an attacker knows of captions in general.

    Attributes:
        objects: nouns that are often true.
        frequent: whole captions that fit many images.
    """

    objects: tuple[str, ...] = COMMON_OBJECTS
    frequent: tuple[str, ...] = FREQUENT

    @classmethod
    def of(cls, captions: Sequence[str], size: int = 8) -> Material:
        """Take the captions that stand most often in a set; ours fill up what is lacking."""
        counted = Counter(" ".join(c.lower().split()).rstrip(" .") for c in captions)
        often = [text for text, count in counted.most_common(size) if count > 1 and text]
        return cls(frequent=tuple(dict.fromkeys([*often, *FREQUENT]))[:size])


Attack = Callable[[list[str], np.random.Generator, Material, int], list[str]]


def _content(words: Sequence[str]) -> list[str]:
    content = [w for w in words if w.lower() not in LIGHT]
    return list(dict.fromkeys(content)) or list(dict.fromkeys(words))


def repetition(words: list[str], rng: np.random.Generator, kit: Material, count: int) -> list[str]:
    """The caption twice; its end three times; its first half twice; its content words again."""
    end = words[-min(3, len(words)) :]
    half = words[: max(1, len(words) // 2)]
    longer = [
        [*words, *words],
        [*words, *end, *end],
        [*half, *words],
        [*words, *_content(words)],
    ]
    return [" ".join(w) for w in longer[:count]]


def objects(words: list[str], rng: np.random.Generator, kit: Material, count: int) -> list[str]:
    """Append two or three frequent things that the caption does not name."""
    held = {w.lower() for w in words}
    free = [o for o in kit.objects if o not in held]
    captions = []
    for number in range(count):
        named = rng.choice(free, min(len(free), 2 + number % 2), replace=False).tolist()
        captions.append(" ".join([*words, "with", "a", " and a ".join(named)]))
    return captions


def shuffle(words: list[str], rng: np.random.Generator, kit: Material, count: int) -> list[str]:
    """The same words in another order."""
    if len(set(words)) < 2:
        return []
    captions: list[str] = []
    for _ in range(20 * count):
        order = [words[i] for i in rng.permutation(len(words))]
        if order != words and " ".join(order) not in captions:
            captions.append(" ".join(order))
        if len(captions) == count:
            break
    return captions


def template(words: list[str], rng: np.random.Generator, kit: Material, count: int) -> list[str]:
    """The caption's content words in a frame that fits all."""
    content = _content(words)
    framed = [
        "there is a " + " and there is a ".join(content),
        "a photo of " + " ".join(content),
        "this picture shows a " + " and a ".join(content),
        "image " + " ".join(content) + " image",
    ]
    return framed[:count]


def frequent(words: list[str], rng: np.random.Generator, kit: Material, count: int) -> list[str]:
    """Another sentence that fits many images."""
    mine = " ".join(words).lower()
    free = [f for f in kit.frequent if f != mine]
    return [str(f) for f in rng.choice(free, min(count, len(free)), replace=False)]


ATTACKS: dict[str, Attack] = {
    "repetition": repetition,
    "objects": objects,
    "shuffle": shuffle,
    "template": template,
    "frequent": frequent,
}


def spoil(
    caption: str, attack: str, rng: np.random.Generator, kit: Material, count: int = 3
) -> list[str]:
    """Return gamed versions of a caption; none if it has no word.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> spoil("A dog runs.", "repetition", rng, Material(), 1)
        ['A dog runs A dog runs']
    """
    if attack not in ATTACKS:
        raise UsageError(f"no attack is called {attack!r}.{did_you_mean(attack, ATTACKS)} "
                         f"There are: {', '.join(ATTACKS)}")  # fmt: skip
    words = _WORD.findall(caption)
    return ATTACKS[attack](words, rng, kit, count) if words else []


@dataclass(frozen=True)
class Gamed:
    """Gamed versions of captions: ``samples`` beside the row and attack that each came from."""

    samples: CaptionSet
    source: np.ndarray
    attack: np.ndarray


def gamed(
    samples: CaptionSet,
    *,
    attacks: Sequence[str] = tuple(ATTACKS),
    variants: int = 3,
    kit: Material | None = None,
    seed: int = 0,
) -> Gamed:
    """Spoil every caption in every way; references and images stay."""
    rng = np.random.default_rng(seed)
    texts = samples.captions()
    kit = kit or Material.of(texts)
    spoilt: list[str] = []
    source: list[int] = []
    kinds: list[str] = []
    for row, text in enumerate(texts):
        for attack in attacks:
            for caption in spoil(text, attack, rng, kit, variants):
                spoilt.append(caption)
                source.append(row)
                kinds.append(attack)
    if not spoilt:
        raise InputError("no caption holds a word that an attack could work on")
    references = samples.references()
    held = samples.objects
    built = CaptionSet.build(
        spoilt,
        [references[row] for row in source],
        ids=[f"{samples.ids[row]}|{kind}|{i}" for i, (row, kind) in
             enumerate(zip(source, kinds, strict=True))],
        images=[samples.images[row] for row in source],
        objects=None if held is None else [held[row] for row in source],
    )  # fmt: skip
    return Gamed(built, np.array(source), np.array(kinds, dtype=object))
