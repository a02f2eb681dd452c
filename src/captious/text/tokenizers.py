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


# A word as scikit-learn's text vectorisers see it (VIFIDEL): two or more letters or digits.
_WORD = re.compile(r"\b\w\w+\b")

_TABLE = {
    t.name: t
    for t in (
        Tokenizer("ptb", ptb.SIGNATURE, ptb.tokenize),
        Tokenizer("plain", "plain-1", lambda text: text.lower().split()),
        Tokenizer("none", "none", str.split),
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
