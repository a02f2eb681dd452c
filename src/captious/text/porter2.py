"""The English Snowball stemmer (Porter 2) as METEOR 1.5 carries it.

Stemming libraries follow the living Snowball rules: release 3 stems 205 of the 173,752 words in
METEOR's own tables differently from the jar (``added`` gives ``add``, the jar says ``ad``).
Published METEOR numbers rest on the rules of 2010, so these are frozen here.

>>> stem("riding"), stem("added"), stem("skies")
('ride', 'ad', 'sky')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_VOWELS: Final = frozenset("aeiouy")
_DOUBLES: Final = frozenset({"bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"})
_WHOLE: Final = {
    "skis": "ski", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "idly": "idl",
    "gently": "gentl", "ugly": "ugli", "early": "earli", "only": "onli", "singly": "singl",
    **{w: w for w in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}  # fmt: skip
_STOP_AFTER_PLURAL: Final = frozenset(
    {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}
)
_STEP2: Final = {
    "tional": "tion", "enci": "ence", "anci": "ance", "abli": "able", "entli": "ent", "eli": "e",
    "izer": "ize", "ization": "ize", "ational": "ate", "ation": "ate", "ator": "ate",
    "alism": "al", "aliti": "al", "alli": "al", "fulness": "ful", "ousli": "ous",
    "ousness": "ous", "iveness": "ive", "iviti": "ive", "biliti": "ble", "bli": "ble",
    "ogi": "og", "fulli": "ful", "lessli": "less", "li": "",
}  # fmt: skip
_STEP3: Final = {
    "tional": "tion", "ational": "ate", "alize": "al", "icate": "ic", "iciti": "ic", "ical": "ic",
    "ful": "", "ness": "", "ative": "",
}  # fmt: skip
_STEP4: Final = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ism", "ate",
    "iti", "ous", "ive", "ize", "ion",
)  # fmt: skip


def _by_end(suffixes: Iterable[str]) -> dict[str, list[str]]:
    """Group suffixes by their last two letters, longest first: most words then need one look."""
    out: dict[str, list[str]] = {}
    for suffix in sorted(suffixes, key=len, reverse=True):
        out.setdefault(suffix[-2:], []).append(suffix)
    return out


_ENDS1 = _by_end(("eedly", "eed", "ingly", "edly", "ing", "ed"))
_ENDS2, _ENDS3, _ENDS4 = _by_end(_STEP2), _by_end(_STEP3), _by_end(_STEP4)
_ENDS: Final = frozenset({*_ENDS1, *_ENDS2, *_ENDS3, *_ENDS4, "ll"})
_REGION: Final = re.compile(r"[aeiouy][^aeiouy]")
_FIXED_REGION: Final = re.compile(r"gener|commun|arsen")


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if len(word) <= 2:
        return word
    if word in _WHOLE:
        return _WHOLE[word]
    if word[-1] not in "esy'" and word[-2:] not in _ENDS and word[0] != "'":
        return word  # no rule is about this end
    word = _consonant_y(word[1:] if word[0] == "'" else word)
    fixed = _FIXED_REGION.match(word)
    r1 = fixed.end() if fixed else _after(word, 0)
    r2 = _after(word, r1)
    word = _plural(_possessive(word))
    if word not in _STOP_AFTER_PLURAL:
        word = _past(word, r1)
        if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
            word = word[:-1] + "i"
        word = _derived(word, r1, r2)
        word = _final(word, r1, r2)
    return word.replace("Y", "y")


def _consonant_y(word: str) -> str:
    """Write the y of ``yes`` and ``boy`` as Y: it is no vowel there."""
    if "y" not in word:
        return word
    out: list[str] = []
    for i, c in enumerate(word):
        out.append("Y" if c == "y" and (i == 0 or out[-1] in _VOWELS) else c)
    return "".join(out)


def _after(word: str, start: int) -> int:
    """Return the place behind the first consonant that follows a vowel."""
    region = _REGION.search(word, start)
    return region.end() if region else len(word)


def _longest(word: str, endings: dict[str, list[str]]) -> str:
    for suffix in endings.get(word[-2:], ()):
        if word.endswith(suffix):
            return suffix
    return ""


def _has_vowel(part: str) -> bool:
    return not _VOWELS.isdisjoint(part)


def _short_end(word: str) -> bool:
    """Tell whether the word ends in a short syllable (``trap``, ``ow``, but not ``beat``)."""
    if len(word) < 2 or word[-1] in _VOWELS or word[-2] not in _VOWELS:
        return False
    return len(word) == 2 or (word[-1] not in "wxY" and word[-3] not in _VOWELS)


def _possessive(word: str) -> str:
    if "'" not in word:
        return word
    return next((word[: -len(s)] for s in ("'s'", "'s", "'") if word.endswith(s)), word)


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _has_vowel(word[:-2]):
        return word[:-1]
    return word


def _past(word: str, r1: int) -> str:
    suffix = _longest(word, _ENDS1)
    if suffix.startswith("ee"):
        return word[: -len(suffix)] + "ee" if len(word) - len(suffix) >= r1 else word
    if not suffix or not _has_vowel(word[: -len(suffix)]):
        return word
    word = word[: -len(suffix)]
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word[-2:] in _DOUBLES:
        return word[:-1]
    return word + "e" if len(word) == r1 and _short_end(word) else word


def _derived(word: str, r1: int, r2: int) -> str:
    suffix = _longest(word, _ENDS2)
    rest = word[: len(word) - len(suffix)]
    before = {"ogi": "l", "li": "cdeghkmnrt"}.get(suffix)
    if suffix and len(rest) >= r1 and (before is None or rest[-1] in before):
        word = rest + _STEP2[suffix]
    suffix = _longest(word, _ENDS3)
    rest = word[: len(word) - len(suffix)]
    if suffix and len(rest) >= (r2 if suffix == "ative" else r1):
        word = rest + _STEP3[suffix]
    suffix = _longest(word, _ENDS4)
    rest = word[: len(word) - len(suffix)]
    if suffix and len(rest) >= r2 and not (suffix == "ion" and rest[-1:] not in ("s", "t")):
        word = rest
    return word


def _final(word: str, r1: int, r2: int) -> str:
    last = len(word) - 1
    if word.endswith("e") and (last >= r2 or (last >= r1 and not _short_end(word[:-1]))):
        return word[:-1]
    if word.endswith("ll") and last >= r2:
        return word[:-1]
    return word
