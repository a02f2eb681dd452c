"""Tokenisers by name, each with the signature that results carry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

from captious.errors import MissingExtra, UsageError, did_you_mean
from captious.text import ptb


@dataclass(frozen=True)
class Tokenizer:
    """A named way to cut text into words."""

    name: str
    signature: str
    cut: Callable[[str], list[str]]

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of one text."""
        return self.cut(text)


# mteval-v13a, the tokenisation of WMT: symbols stand alone; a dot or comma too, unless between
# digits (the character beside it is used up by the match, so runs of them split as there); a dash
# behind a digit.
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SPLITS = (
    (re.compile(r"[ -&(-+/:-@\[-`{-~]"), r" \g<0> "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])-"), r"\1 - "),
)


def _mteval(text: str) -> list[str]:
    """Lower-cased tokens of mteval-v13a, as sacreBLEU's ``13a`` with ``lowercase`` makes them."""
    text = text.lower().rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, sign in _ENTITIES:
        text = text.replace(entity, sign)
    text = f" {text} "
    for pattern, spaced in _SPLITS:
        text = pattern.sub(spaced, text)
    return text.split()


# A word as scikit-learn's text vectorisers see it (VIFIDEL): two or more letters or digits.
_WORD = re.compile(r"\b\w\w+\b")

_TABLE = {
    t.name: t
    for t in (
        Tokenizer("ptb", ptb.SIGNATURE, ptb.tokenize),
        Tokenizer("plain", "plain-1", lambda text: text.lower().split()),
        Tokenizer("13a", "13a-lc", _mteval),
        Tokenizer("none", "none", str.split),
        # As the toolkit's ROUGE-L cuts what is tokenised already: nothing is one empty word.
        Tokenizer("spaces", "spaces", lambda text: text.split(" ")),
        Tokenizer("words", "words-1", lambda text: _WORD.findall(text.lower())),
    )
}


# Tokenisers of sacreBLEU for other languages: name -> its module, its class, what it imports.
_SACREBLEU = {
    "intl": ("tokenizer_intl", "TokenizerV14International", "regex"),
    "zh": ("tokenizer_zh", "TokenizerZh", ""),
    "char": ("tokenizer_char", "TokenizerChar", ""),
    "ja-mecab": ("tokenizer_ja_mecab", "TokenizerJaMecab", "MeCab"),
    "ko-mecab": ("tokenizer_ko_mecab", "TokenizerKoMecab", "mecab_ko"),
}


@lru_cache(maxsize=8)
def _of_sacrebleu(name: str) -> Tokenizer:
    """Return a tokeniser of sacreBLEU; texts are lower-cased, as captions are."""
    module, kind, _ = _SACREBLEU[name]
    for package in _lacking(name):
        raise MissingExtra(package, "languages", f"the tokenizer {name!r}")
    made = getattr(import_module(f"sacrebleu.tokenizers.{module}"), kind)()
    # Its own signature is the name, for MeCab with version and dictionary, which decide the words.
    signature = f"sacrebleu-{made.signature()}-{version('sacrebleu')}-lc"
    return Tokenizer(name, signature, lambda text: made(text.lower()).split())


def _lacking(name: str) -> list[str]:
    """Return the packages of a tokeniser of sacreBLEU that are not installed."""
    needed = ("sacrebleu", _SACREBLEU[name][2])
    return [package for package in needed if package and find_spec(package) is None]


def names() -> list[str]:
    """Return the names of all tokenisers that can be used here."""
    return [*_TABLE, *(name for name in _SACREBLEU if not _lacking(name))]


def absent() -> dict[str, str]:
    """Return what is missing for each tokeniser that cannot be used here."""
    lacking = {name: _lacking(name) for name in _SACREBLEU}
    return {
        name: f"{' and '.join(packages)} {'is' if len(packages) == 1 else 'are'} not installed"
        for name, packages in lacking.items()
        if packages
    }


def get(name: str) -> Tokenizer:
    """Return a tokeniser by name.

    Raises:
        UsageError: there is no such tokeniser.
        MissingExtra: it is one of sacreBLEU, and a package is not installed.
    """
    if name in _SACREBLEU:
        return _of_sacrebleu(name)
    if name not in _TABLE:
        raise UsageError(
            f"no tokenizer is called {name!r}.{did_you_mean(name, names())} "
            f"There are: {', '.join([*_TABLE, *_SACREBLEU])}."
        )
    return _TABLE[name]
