"""The word tables of METEOR 1.5: function words, WordNet synsets, irregular forms.

METEOR and SPICE judge two words alike when they share a WordNet synset. Both use the dictionary
that travels inside the METEOR jar, so that dictionary, and not a newer WordNet, decides the
published numbers. A jar is a zip file: the tables are read from it directly, without Java.

Synset numbers are plain WordNet offsets without a part of speech. A noun and a verb can therefore
share a number by accident; this is kept, because the reference scores contain it.

>>> tables = WordTables.open()  # doctest: +SKIP
>>> tables.all_synsets("dogs") >= tables.synsets("dog")  # doctest: +SKIP
True
"""

from __future__ import annotations

import hashlib
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from captious import assets
from captious.errors import InputError, MissingAsset

JAR: Final = "meteor-1.5.jar"
FUNCTION_WORDS: Final = "function/english.words"
SYNSETS: Final = "synonym/english.synsets"
EXCEPTIONS: Final = "synonym/english.exceptions"
PREFIXES: Final = "nonbreaking/english.prefixes"

# Inflections that are undone, in this order: nouns, verbs, adjectives. The first result that the
# dictionary knows wins.
_DETACH: Final = (
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
    ("men", "man"), ("ies", "y"),
    ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"),
    ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip
_LAST: Final = frozenset(suffix[-1] for suffix, _ in _DETACH)
_NONE: Final[frozenset[int]] = frozenset()


class WordTables:
    """Function words, synsets and irregular forms, read once and then looked up in memory.

    Entries of several words are spelled with underscores (``fire_engine``); callers replace spaces.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        """Parse the raw table files, keyed by their name inside the METEOR jar."""
        digest = hashlib.sha256()
        for name in (FUNCTION_WORDS, SYNSETS, EXCEPTIONS, PREFIXES):
            digest.update(files[name])
        self.fingerprint: str = digest.hexdigest()[:12]
        self.function_words: frozenset[str] = frozenset(files[FUNCTION_WORDS].decode().split())
        lines = files[SYNSETS].decode().split("\n")
        if len(lines) % 2 == 0:
            raise InputError(f"{SYNSETS}: words and synset numbers must alternate line by line")
        # Numbers stay text until a word is asked for: a run touches a few thousand of 147,306.
        self._numbers: dict[str, str] = dict(zip(lines[0::2], lines[1::2], strict=False))
        self._numbers.pop("", None)
        self._bases: dict[str, list[str]] = {}
        rows = files[EXCEPTIONS].decode().split("\n")
        for base, forms in zip(rows[0::2], rows[1::2], strict=False):
            for form in forms.split():
                self._bases.setdefault(form, []).append(base)
        self.prefixes: frozenset[str]
        self.numeric_prefixes: frozenset[str]
        self.prefixes, self.numeric_prefixes = _read_prefixes(files[PREFIXES].decode())

    @classmethod
    def open(cls, path: Path | str | None = None) -> WordTables:
        """Read the tables of an installed pycocoevalcap, or of the jar or folder at ``path``.

        A folder may hold the jar or the unpacked ``function/`` and ``synonym/`` folders.
        """
        return _open(str(locate(path)))

    def contains(self, word: str) -> bool:
        """Tell whether the dictionary has an entry spelled exactly so."""
        return word in self._numbers

    def synsets(self, word: str) -> frozenset[int]:
        """Return the synsets of the entry spelled exactly so; empty if there is none."""
        numbers = self._numbers.get(word)
        return frozenset(map(int, numbers.split())) if numbers else _NONE

    def all_synsets(self, word: str) -> frozenset[int]:
        """Return the synsets of a word and of its base forms."""
        bases = self._bases.get(word)
        if bases is None:
            bases = [self.morph(word)]
        return self.synsets(word).union(*map(self.synsets, bases))

    def all_synset_numbers(self, word: str) -> list[str]:
        """Return the numbers of :meth:`all_synsets` as they are written, some of them twice."""
        bases = self._bases.get(word)
        if bases is None:
            bases = [self.morph(word)]
        return " ".join([self._numbers.get(entry, "") for entry in (word, *bases)]).split()

    def bases(self, form: str) -> tuple[str, ...]:
        """Return the base forms of an irregular form (``left`` -> ``leave``), often none."""
        return tuple(self._bases.get(form, ()))

    def morph(self, word: str) -> str:
        """Undo a regular inflection; the empty string if no known word results."""
        if len(word) <= 2 or word.endswith("ss"):
            return word
        if word[-1] not in _LAST:
            return ""
        for suffix, replacement in _DETACH:
            if word.endswith(suffix):
                base = word[: len(word) - len(suffix)] + replacement
                if base in self._numbers:
                    return base
        return ""


def locate(path: Path | str | None = None) -> Path:
    """Find the jar, or the folder of unpacked tables, that :meth:`WordTables.open` would read."""
    path = assets.resolve("meteor-tables", path, wanted_by="the METEOR word tables")
    if path.is_file() or (path / SYNSETS).is_file():
        return path
    if (path / JAR).is_file():
        return path / JAR
    raise MissingAsset(f"{path} is neither {JAR} nor a folder with it or with {SYNSETS}.")


@lru_cache(maxsize=4)
def _open(path: str) -> WordTables:
    names = (FUNCTION_WORDS, SYNSETS, EXCEPTIONS, PREFIXES)
    if Path(path).is_dir():
        return WordTables({name: (Path(path) / name).read_bytes() for name in names})
    try:
        with zipfile.ZipFile(path) as jar:
            return WordTables({name: jar.read(name) for name in names})
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{path} is not the METEOR 1.5 jar: {error}") from error


def _read_prefixes(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the abbreviations that always keep their dot, and those that do so before digits."""
    always: set[str] = set()
    numeric: set[str] = set()
    for line in text.splitlines():
        word, *mark = line.split() or ["#"]
        if not word.startswith("#"):
            (numeric if mark[:1] == ["#NUMERIC_ONLY#"] else always).add(word)
    return frozenset(always), frozenset(numeric)
