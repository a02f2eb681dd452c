"""Base forms for scene graphs, from a tag and METEOR's own dictionary.

spaCy's small lemmatiser slips on captions (riding -> rid). Captions use few words, so a rule that
asks the dictionary which of the possible stems is a word does better and costs nothing.
"""

from __future__ import annotations

from typing import Final

from captious.text._scene_words import BE, HAVE, PLURAL_ONLY
from captious.text.synsets import WordTables

# Stems whose shorter reading is also a word, but not the one meant in a caption.
_STEMS: Final = {
    "rid": "ride", "bath": "bathe", "star": "stare", "hid": "hide", "wad": "wade", "past": "paste",
    "par": "pare", "tap": "tape", "din": "dine", "car": "care", "shin": "shine", "pos": "pose",
    "us": "use", "hir": "hire", "mat": "mate", "slic": "slice", "writ": "write", "bit": "bite",
    "clos": "close", "danc": "dance", "plac": "place", "rac": "race", "fac": "face",
    "pil": "pile", "lin": "line", "scrap": "scrape", "strip": "strip", "rop": "rope",
}  # fmt: skip
_NOUN_ENDINGS: Final = (
    ("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"), ("zes", "z"),
    ("ves", "f"), ("ves", "fe"), ("oes", "o"), ("men", "man"),
)  # fmt: skip
_VERB_ENDINGS: Final = (
    ("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"), ("oes", "o"),
)  # fmt: skip


class Lemmas(dict[tuple[str, str], str]):
    """Base forms by (lower-case word, Penn tag), worked out when first asked for."""

    def __init__(self, tables: WordTables) -> None:
        super().__init__()
        self._tables = tables

    def __missing__(self, key: tuple[str, str]) -> str:
        base = self[key] = self._base(*key)
        return base

    def _base(self, word: str, tag: str) -> str:
        if tag in ("NNS", "NNPS"):
            return self._noun(word)
        if tag.startswith("VB"):
            return self._verb(word, tag)
        return word

    def _noun(self, word: str) -> str:
        if word in PLURAL_ONLY:
            return word
        irregular = self._tables.bases(word)
        if irregular:
            return irregular[0]
        for ending, new in _NOUN_ENDINGS:
            if word.endswith(ending):
                base = word[: -len(ending)] + new
                if self._tables.contains(base):
                    return base
        return word[:-1] if word.endswith("s") and not word.endswith("ss") else word

    def _verb(self, word: str, tag: str) -> str:
        if word in BE:
            return "be"
        if word in HAVE:
            return "have"
        if tag in ("VB", "VBP"):
            return word
        irregular = self._tables.bases(word)
        if irregular:
            return irregular[0]
        if tag == "VBZ":
            for ending, new in _VERB_ENDINGS:
                if word.endswith(ending):
                    return word[: -len(ending)] + new
            return word.removesuffix("s")
        for ending in ("ing", "ed"):
            if word.endswith(ending) and len(word) > len(ending) + 1:
                return self._stem(word[: -len(ending)], ending)
        return word

    def _stem(self, stem: str, ending: str) -> str:
        """Choose among play, rid(e) and sit(t): what is left of a verb without -ing or -ed."""
        known = self._tables.contains
        if stem in _STEMS:
            return _STEMS[stem]
        if ending == "ed" and stem.endswith("i") and known(stem[:-1] + "y"):
            return stem[:-1] + "y"
        doubled = len(stem) > 2 and stem[-1] == stem[-2]
        if doubled and known(stem[:-1]) and not (stem[-1] in "lsz" and known(stem)):
            return stem[:-1]
        with_e = stem + "e"
        if not known(stem):
            return with_e if known(with_e) else stem
        # Both exist (lin, line): two consonants or two vowels before the end keep the short form.
        vowels = [c in "aeiou" for c in stem[-3:]]
        short = doubled or vowels[-2:] == [False, False] or vowels == [True, True, False]
        if stem[-1] in "wxy" or short or not known(with_e):
            return stem
        return with_e
