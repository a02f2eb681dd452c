"""The text normaliser behind METEOR's ``-norm`` option for English.

It runs after the PTB tokeniser of the COCO pipeline and changes its words once more: hyphenated
words come apart (``black-and-white`` is three words for METEOR), abbreviations lose their inner
dots (``u.s.`` becomes ``us``), quotes are unified.

Replacements work from left to right and never look at a character twice, so ``a-b-c`` becomes
``a b-c``. That is how the reference scores were made, and it is kept.

>>> normalize("a black-and-white photo of a man's face")
['a', 'black', 'and', 'white', 'photo', 'of', 'a', 'man', "'s", 'face']
"""

from __future__ import annotations

import re
from typing import Final

_ALPHA: Final = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_ALNUM: Final = "0-9" + _ALPHA
_SPACE: Final = " \t\n\x0b\f\r"

# Applied in this order; each pair is (pattern, replacement).
_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"([^{_ALNUM}{_SPACE}.'`,\-\u2018\u2019])", r" \1 "),  # symbols stand alone
        (r"(\.{2,})", r" \1 "),  # so do runs of dots
        (r"([^0-9]),([^0-9])", r"\1 , \2"),  # a comma stays only between digits
        (r"([0-9]),([^0-9])", r"\1 , \2"),
        (r"([^0-9]),([0-9])", r"\1 , \2"),
        (r"[`\u2018\u2019]", "'"),
        (r"[\u201c\u201d]|''", ' " '),
        (r"\u2013", "-"),
        (r"--", "-"),
        (rf"([{_ALNUM}.])-([{_ALNUM}])", r"\1 \2"),
        (rf"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),  # a lone apostrophe, a quote, a plural's
        (rf"([^{_ALNUM}])'([{_ALPHA}])", r"\1 ' \2"),
        (rf"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (rf"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),  # man's -> man 's
        (r"([0-9])'(s)", r"\1 '\2"),
    )
)
_WORD: Final = re.compile(r"[^ \t\n\r\f]+")
_LETTER: Final = re.compile(f"[{_ALPHA}]")
_WIDE_SPACE: Final = re.compile("[\u2000-\u200a\u202f\u205f\u3000\u00a0]")
_PLAIN: Final = re.compile(r"[a-z0-9]+(?: [a-z0-9]+)*")
_EDGES: Final = "".join(map(chr, range(33)))
_CONTROL: Final = re.compile(r"[\x00-\x20]")


def is_plain(text: str) -> bool:
    """Tell whether normalising would leave the space-separated words as they are."""
    return _PLAIN.fullmatch(text) is not None


def looks_around(word: str) -> bool:
    """Tell whether what becomes of a word may depend on more than the spaces around it.

    A dot at its end looks at the word behind it; control characters vanish at the ends of a text.

    >>> looks_around("t-shirt"), looks_around("mr.")
    (False, True)
    """
    return word.endswith(".") or _CONTROL.search(word) is not None


def normalize(
    text: str,
    prefixes: frozenset[str] = frozenset(),
    numeric_prefixes: frozenset[str] = frozenset(),
) -> list[str]:
    """Return METEOR's words of a text.

    Args:
        text: a sentence, usually already tokenised.
        prefixes: abbreviations that keep their final dot (``Mr``), from METEOR's tables.
        numeric_prefixes: those that keep it before digits only (``No``).
    """
    if is_plain(text):
        return text.split(" ")
    text = f" {text} "
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    words = _WORD.findall(text)
    following = [*words[1:], ""]
    words = [
        _final_dot(word, after, prefixes, numeric_prefixes)
        for word, after in zip(words, following, strict=False)
    ]
    text = _WIDE_SPACE.sub(" ", " ".join(words)).strip(_EDGES)
    return _WORD.findall(text.lower())


def _final_dot(
    word: str, after: str, prefixes: frozenset[str], numeric_prefixes: frozenset[str]
) -> str:
    """Decide what becomes of the dot at the end of a word."""
    if len(word) < 2 or word[-1] != "." or word[-2] == ".":
        return word
    body = word[:-1]
    if "." in body and _LETTER.search(body):
        return word.replace(".", "")
    if body in prefixes or "a" <= after[:1] <= "z":
        return word
    if body in numeric_prefixes and "0" <= after[:1] <= "9":
        return word
    return body + " ."
