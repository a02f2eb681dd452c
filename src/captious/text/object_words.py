"""Which objects of a closed list does a text mention, and with which words?

A table maps phrases to classes. Phrases are found from left to right, the longest first, so that
*hot dog* is food and *train station* is no train. Plurals are understood. A phrase can also stand
for nothing: it then only keeps its parts from being counted.

Example:
    >>> table = coco()
    >>> [(m.phrase, m.name) for m in table.mentions("Two men eat hot dogs at the train station.")]
    [('men', 'person'), ('hot dogs', 'hot dog')]
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from captious.errors import InputError
from captious.reading import read_text
from captious.text.coco_words import ANIMALS, CLASSES, NOTHING

_WORD = re.compile(r"[a-z0-9]+(?:'(?!s\b)[a-z]+)?")  # "the man's" is the words "the man s"
_IRREGULAR = {
    "man": "men", "woman": "women", "child": "children", "person": "persons", "mouse": "mice",
    "knife": "knives", "calf": "calves", "goose": "geese", "sheep": "sheep", "broccoli": "broccoli",
    "scissors": "scissors", "skis": "skis", "people": "peoples", "foal": "foals", "ox": "oxen",
    "shelf": "shelves", "loaf": "loaves",
}  # fmt: skip
_LONGEST = 4
# Adjectives that describe the colour: "an orange cat" has no fruit in it.
_COLOURS = "white black blue green red yellow brown gray grey purple pink silver gold tan beige"
_BEHIND_FRUIT = """
on in with is are and next that sits sitting cut sliced slices slice half halves at by near inside
of lying laying placed or to for juice being beside under has which peel from into while resting
tree trees
"""
_COLOUR_WORDS, _FRUIT_WORDS = frozenset(_COLOURS.split()), frozenset(_BEHIND_FRUIT.split())


@dataclass(frozen=True)
class Mention:
    """A phrase of a text that names an object.

    Attributes:
        name: the class.
        phrase: the words as they stand, in lower case.
        start: number of the first word.
    """

    name: str
    phrase: str
    start: int


@dataclass(frozen=True, eq=False)
class ObjectWords:
    """A table of phrases.

    Attributes:
        classes: names of the classes.
        phrases: phrase -> class, "" for phrases that stand for nothing.
        source: what the signature says.
    """

    classes: tuple[str, ...]
    phrases: Mapping[str, str]
    source: str

    @classmethod
    def of(
        cls, classes: Mapping[str, Iterable[str]], nothing: Iterable[str], source: str
    ) -> ObjectWords:
        """Make a table from classes with their synonyms; plurals are added."""
        phrases: dict[str, str] = {}
        for name, synonyms in [("", nothing), *classes.items()]:
            for phrase in [name, *synonyms]:
                for form in (phrase, plural(phrase)) if phrase else ():
                    known = phrases.get(form, name)
                    if known != name and phrase not in classes:
                        raise InputError(f"{source}: {form!r} stands for {known!r} and {name!r}")
                    phrases[form] = name
        whole = "\n".join(f"{k}\t{v}" for k, v in sorted(phrases.items()))
        return cls(
            tuple(classes), phrases, f"{source}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"
        )

    def mentions(self, text: str) -> list[Mention]:
        """Return the objects that a text names, in its order."""
        words = [word for word in _WORD.findall(text.lower()) if word != "s"]
        out: list[Mention] = []
        at = 0
        starts = self._starts
        while at < len(words):
            if words[at] not in starts:
                at += 1
                continue
            for length in range(min(_LONGEST, len(words) - at), 0, -1):
                phrase = " ".join(words[at : at + length])
                name = self.phrases.get(phrase)
                if name is not None:
                    if name and not (phrase == "orange" and _colour(words, at)):
                        out.append(Mention(name, phrase, at))
                    at += length
                    break
            else:
                at += 1
        if any(m.name == "toilet" for m in out):  # the seat of a toilet is no chair
            out = [m for m in out if m.phrase not in ("seat", "seats")]
        return out

    def of_label(self, label: str) -> str | None:
        """Return the class that a label means, None if the table has none."""
        return self.phrases.get(label) or None

    @property
    def _starts(self) -> frozenset[str]:
        return _first_words(self)


@lru_cache(maxsize=8)
def _first_words(table: ObjectWords) -> frozenset[str]:
    return frozenset(phrase.split(" ", 1)[0] for phrase in table.phrases)


def _colour(words: list[str], at: int) -> bool:
    """Tell whether *orange* is a colour here: something is described with it."""
    following = words[at + 1] if at + 1 < len(words) else ""
    if following == "and":
        return at + 2 < len(words) and words[at + 2] in _COLOUR_WORDS
    before = words[at - 1] if at else ""
    beside = words[at - 2] if at > 1 else ""
    if before in _COLOUR_WORDS or (before == "and" and beside in _COLOUR_WORDS):
        return True
    return bool(following) and following not in _FRUIT_WORDS


def plural(phrase: str) -> str:
    """Return a phrase with its last word in the plural.

    Example:
        >>> plural("police woman"), plural("couch"), plural("baby"), plural("toy"), plural("knife")
        ('police women', 'couches', 'babies', 'toys', 'knives')
    """
    front, _, last = phrase.rpartition(" ")
    if last in _IRREGULAR:
        last = _IRREGULAR[last]
    elif last.endswith("man") and len(last) > 4:
        last = last[:-2] + "en"
    elif re.search(r"[^aeiou]y$", last):
        last = last[:-1] + "ies"
    elif re.search(r"(s|x|z|ch|sh)$", last):
        last += "es"
    else:
        last += "s"
    return f"{front} {last}".strip()


@lru_cache(maxsize=1)
def coco() -> ObjectWords:
    """Return our table for the 80 classes of COCO."""
    young = {
        animal: [f"{age} {kind}" for age in ("baby", "adult", "mother", "young", "boy", "girl")
                 for kind in (animal, *CLASSES[animal])]
        for animal in ANIMALS
    }  # fmt: skip
    classes = {name: [*words, *young.get(name, ())] for name, words in CLASSES.items()}
    return ObjectWords.of(classes, NOTHING, "coco80")


def read(path: Path) -> ObjectWords:
    """Read a table from a file: one class per line, its synonyms behind it, commas between.

    A line that begins with ``-`` lists phrases that stand for nothing.

    Raises:
        InputError: the file has no class, or a phrase stands for two.
    """
    classes: dict[str, list[str]] = {}
    nothing: list[str] = []
    for line in read_text(path).splitlines():
        words = [" ".join(_WORD.findall(part.lower())) for part in line.lstrip(" -").split(",")]
        words = [word for word in words if word]
        if line.lstrip().startswith("-"):
            nothing += words
        elif words:
            classes.setdefault(words[0], []).extend(words[1:])
    if not classes:
        raise InputError(f"{path}: names no class; write one per line: class, synonym, synonym")
    return ObjectWords.of(classes, nothing, path.name)
