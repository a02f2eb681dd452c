"""Treebank-style word splitting, as SCAN's vocabulary was built with (NLTK's ``word_tokenize``).

Rules of the Penn Treebank: contractions are split (``don't`` -> ``do n't``), punctuation stands
alone, a full stop only at the end of a sentence. NLTK finds sentence ends with a trained model
(Punkt); here a sentence ends at ``. ! ?`` before white space, unless the word before is a single
letter or one of a short list of abbreviations. Captions are one sentence almost always.

>>> split("A man's dog isn't running, is it?")
['A', 'man', "'s", 'dog', 'is', "n't", 'running', ',', 'is', 'it', '?']
>>> split("Mr. Smith waits.")
['Mr.', 'Smith', 'waits', '.']
"""

from __future__ import annotations

import re

_ABBREVIATIONS = {"mr", "mrs", "ms", "dr", "st", "vs", "etc", "e.g", "i.e", "u.s", "jr", "sr", "no"}
_ABBREVIATIONS |= {"p.m", "a.m", "ft", "lbs", "inc", "co", "prof"}
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")

_OPENING = [
    (re.compile(r"([«“‘„]|[`]+)"), r" \1 "),
    (re.compile(r"^\""), "`` "),
    (re.compile(r"([ (\[{<])(\"|'{2})"), r"\1 `` "),
    (re.compile(r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)"), "' "),
]
_PUNCTUATION = [
    (re.compile(r'([^.])(\.)([\])}>"\'»”’ ]*)\s*$'), r"\1 \2 \3 "),
    (re.compile(r"([:,])([^\d])"), r" \1 \2"),
    (re.compile(r"([:,])$"), r" \1 "),
    (re.compile(r"\.{2,}"), r" \g<0> "),
    (re.compile(r"[;@#$%&]"), r" \g<0> "),
    (re.compile(r"[?!]"), r" \g<0> "),
    (re.compile(r"([^'])' "), r"\1 ' "),
    (re.compile(r"[*]"), r" \g<0> "),
    (re.compile(r"[\]\[(){}<>]"), r" \g<0> "),
    (re.compile(r"--"), r" -- "),
]
_CLOSING = [
    (re.compile(r"([»”’])"), r" \1 "),
    (re.compile(r"''"), " '' "),
    (re.compile(r'"'), " '' "),
    (re.compile(r"([^' ])('s|'m|'d|') ", re.IGNORECASE), r"\1 \2 "),
    (re.compile(r"([^' ])('ll|'re|'ve|n't) ", re.IGNORECASE), r"\1 \2 "),
]
_FUSED = re.compile(
    r"\b(?:(can)(not)|(d)('ye)|(gim)(me)|(gon)(na)|(got)(ta)|(lem)(me)|(wan)(na)(?=\s)|(more)('n))\b",
    re.IGNORECASE,
)


def split(text: str) -> list[str]:
    """Words and punctuation of a text, sentence by sentence."""
    words: list[str] = []
    for sentence in sentences(text):
        words += _words(sentence)
    return words


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; abbreviations do not end one."""
    parts, begin = [], 0
    for gap in _SENTENCE_END.finditer(text):
        before = text[begin : gap.start()].rsplit(None, 1)
        last = before[-1] if before else ""
        if last.endswith("."):
            word = last[:-1].lower()
            if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
                continue
        parts.append(text[begin : gap.end()].strip())
        begin = gap.end()
    parts.append(text[begin:].strip())
    return [one for one in parts if one]


def _words(sentence: str) -> list[str]:
    for rule, form in _OPENING:
        sentence = rule.sub(form, sentence)
    for rule, form in _PUNCTUATION:
        sentence = rule.sub(form, sentence)
    sentence = f" {sentence} "
    for rule, form in _CLOSING:
        sentence = rule.sub(form, sentence)
    sentence = _FUSED.sub(lambda m: " ".join(part for part in m.groups() if part), sentence)
    return sentence.split()
