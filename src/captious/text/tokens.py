"""Tokens of all distinct strings of a run, as integers, made once and shared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.progress import Progress
from captious.text import ptb_batch, tokenizers
from captious.types import TextPool, WorkKey


@dataclass(frozen=True)
class TokenTable:
    """Token ids of every string of a pool: string ``i`` is ``ids[offsets[i]:offsets[i+1]]``."""

    vocabulary: list[str]
    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens per string."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> npt.NDArray[np.int32]:
        """String number of every token."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), self.lengths)

    def tokens(self, index: int) -> list[str]:
        """Return the tokens of one string."""
        words = self.vocabulary
        return [words[t] for t in self.ids[self.offsets[index] : self.offsets[index + 1]]]

    def texts(self) -> list[str]:
        """Return every string with one space between tokens, as the COCO tools pass them on."""
        words = [self.vocabulary[t] for t in self.ids.tolist()]
        bounds = self.offsets.tolist()
        return [" ".join(words[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]


def table(pool: TextPool, tokenizer: str = "ptb") -> TokenTable:
    """Return the tokens of a pool, tokenising on first use."""
    return pool.derived(
        WorkKey[TokenTable]("tokens", (tokenizer,)), lambda: _build(pool, tokenizer)
    )


class _Ids(dict[str, int]):
    """Gives each new word the next number."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def _build(pool: TextPool, tokenizer: str) -> TokenTable:
    tokenize: Any = tokenizers.get(tokenizer)
    if tokenizer in ("ptb", "none"):
        at_once = ptb_batch.cut(pool.array, spaced=tokenizer == "none")
        if at_once is not None:
            return TokenTable(*at_once)
    ids = _Ids()
    number = ids.__getitem__
    parts: list[npt.NDArray[np.int32]] = []
    lengths: list[int] = []
    with Progress("tokenising", len(pool), "texts") as bar:
        for chunk in pool.chunks(16384):
            flat: list[int] = []
            for text in chunk:
                words = tokenize(text)
                lengths.append(len(words))
                flat.extend(map(number, words))
            parts.append(np.array(flat, dtype=np.int32))
            bar.advance(len(chunk))
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    return TokenTable(list(ids), joined, offsets)


def is_word(token: str) -> bool:
    """Tell words and word pieces from punctuation and from the marks of a model.

    Example:
        >>> [is_word(token) for token in ("dog", "##by", ".", "<end>", "[SEP]")]
        [True, True, False, False, False]
    """
    marked = token[:1] in "<[" and token[-1:] in ">]"
    return not marked and any(map(str.isalnum, token))
