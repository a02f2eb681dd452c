"""Tokenisers by name, each with the signature that results carry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from captious.errors import UsageError, did_you_mean
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


def names() -> list[str]:
    """Return the names of all tokenisers."""
    return list(_TABLE)


def get(name: str) -> Tokenizer:
    """Return a tokeniser by name."""
    if name not in _TABLE:
        raise UsageError(
            f"no tokenizer is called {name!r}.{did_you_mean(name, _TABLE)} "
            f"There are: {', '.join(_TABLE)}."
        )
    return _TABLE[name]
