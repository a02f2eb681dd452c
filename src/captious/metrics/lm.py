"""LM: how fluent is the caption, whatever it says?

A recurrent language model of captions gives every word a probability from the words before it; the
score is 1/perplexity, the geometric mean of these probabilities over the words and the end of the
caption. It is the LM of VIFIDEL+LM (Madhyastha et al. 2019, who leave the architecture open).

Worked example: a caption of one word to which the model gives 0.2, and then 0.05 to the end, scores
sqrt(0.2 * 0.05) = 0.1.

Two more columns leave out how common the words are. With f for a word's share of the training
text, d = ln p - ln f says how much more likely the context makes the word:

    slor     = mean of d over the words and the end      (Pauls and Klein 2012)
    stumbles = min(0, mean of the lowest fifth of d, three at least, - ln 2)

A rare word in its place does no harm, a frequent one out of place does. ``stumbles`` is 0 for a
caption whose least expected words are twice as likely in their context as by themselves, however
plain it is; lists of things, templates and disorder lower it. In the example, with f of 0.1 for the
word and for the end, d is 0.69 and -0.69: slor is 0 and stumbles 0 - ln 2 = -0.69 (two words are
all it has).

The sentences of a caption are read one by one, as the model was trained. The shipped model saw
captions of COCO, Flickr30k, Flickr8k and nocaps: plain sentences of one line, which it prefers to
richer ones. It looks neither at the image nor at references.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.models import lm
from captious.text import tokenizers, tokens, treebank
from captious.types import CaptionSet, Sample

_SHOWN = 6
"""Words that an explanation tells."""


@dataclass(frozen=True)
class Lm(Metric):
    """LM: fluency of the caption alone, 1/perplexity under a language model of captions.

    Args:
        model: folder of a model made by ``captious train lm``; the shipped one if None.
    """

    model: str | None = None

    name: ClassVar[str] = "lm"
    needs: ClassVar[frozenset[Need]] = frozenset()
    columns: ClassVar[tuple[Column, ...]] = (
        Column("lm", 0.0, 1.0, "fluency: geometric mean of the word probabilities"),
        Column(
            "slor",
            -np.inf,
            np.inf,
            "mean log odds of the words in context and by frequency",
            undefined="the language model was saved without word counts",
        ),
        Column(
            "stumbles",
            -np.inf,
            0.0,
            "how far the least expected words fall below ln 2",
            undefined="the language model was saved without word counts",
        ),
    )
    modules: ClassVar[dict[str, str]] = {"torch": "neural", "safetensors": "neural"}
    empty: ClassVar[float] = float("nan")  # the probability of saying nothing: defined, tiny

    @property
    def assets(self) -> tuple[str, ...]:
        """The shipped model, unless another is named."""
        return ("lm-captions",) if self.model is None else ()

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the fluency of each caption; equal captions are read once."""
        model = lm.load(self.model)
        table = tokens.table(samples.pool, model.tokenizer)
        unique, back = np.unique(samples.caption, return_inverse=True)
        cut = [self._sentences(samples.pool[int(i)], table.tokens(int(i))) for i in unique]
        values = model.fluency(cut)
        known = model.number
        strange = np.array([any(w not in known for s in sentences for w in s) for sentences in cut])
        count = int(strange[back].sum())
        notes = (
            {"captions with words that the language model does not know": count} if count else {}
        )
        return Stats(values[back], notes=notes)

    def _sentences(self, text: str, words: list[str]) -> list[list[str]]:
        """Return the words of every sentence; most captions are a single one."""
        parts = treebank.sentences(text)
        if len(parts) < 2:
            return [words]
        tokenize = tokenizers.get(lm.load(self.model).tokenizer)
        return [tokenize(part) for part in parts]

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the weights and the tokeniser."""
        model = lm.load(self.model)
        return {
            "model": f"{self.model or 'lm-captions'}@{model.sha}",
            "tokenizer": tokenizers.get(model.tokenizer).signature,
            "stumbles": f"{lm.STUMBLES}+1/{lm.STUMBLING_PART}",
        }

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Give the probability of every word."""
        model = lm.load(self.model)
        words = tokenizers.get(model.tokenizer)(sample.caption)
        sentences = self._sentences(sample.caption, words)
        probabilities = np.exp(np.concatenate([model.token_scores(s) for s in sentences]))
        score, slor, stumbles = (float(v) for v in model.fluency([sentences])[0])
        codes = [code for s in sentences for code in model.encode(s)[1:]]
        shares = (
            np.full(len(probabilities), np.nan)
            if model.frequency is None
            else np.exp(model.frequency[codes])
        )
        named = [word for s in sentences for word in (*s, "</s>")]
        rows = [
            {"word": w, "probability": float(p), "frequency": float(f), "known": w in model.number}
            for w, p, f in zip(named, probabilities, shares, strict=True)
        ]
        lines = [
            f"lm {score:.4f} (perplexity {1 / score:.1f}), slor {slor:.4f}, stumbles {stumbles:.4f}"
        ]
        lines += _least_expected(rows)
        data = {"score": score, "slor": slor, "stumbles": stumbles, "tokens": rows}
        return Explanation("\n".join(lines), data)


def _least_expected(rows: list[dict[str, Any]]) -> list[str]:
    """Say which words are less likely where they stand than elsewhere."""
    if any(np.isnan(row["frequency"]) for row in rows):  # a model without word counts
        odd = sorted(rows, key=lambda row: row["probability"])[:_SHOWN]
        lines = ["the least likely words:"]
    else:
        odd = [row for row in rows if row["probability"] < row["frequency"]]
        odd = sorted(odd, key=lambda row: row["probability"] / row["frequency"])[:_SHOWN]
        lines = ["words less likely here than elsewhere in captions, and how many times less:"]
    for row in odd:
        word = "(the end)" if row["word"] == "</s>" else row["word"]
        less = row["frequency"] / row["probability"]  # NaN: not known
        told = f"{less:.1f} times" if less > 0 else f"probability {row['probability']:.2g}"
        lines.append(f"  {word:<14} {told}{'' if row['known'] else ', unknown to the model'}")
    unknown = [row["word"] for row in rows if not row["known"] and row not in odd]
    if not odd:
        lines = ["every word is at least as likely here as elsewhere in captions"]
    return lines + ([f"  unknown to the model: {', '.join(unknown)}"] if unknown else [])
