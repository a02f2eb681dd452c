"""noun_support: is every thing that the caption names supported by what is known of the image?

CHAIR for any vocabulary, in the manner of ALOHa (Petryk et al., NAACL 2024), with our parser in the
place of a language model. Nouns of the caption are matched with nouns of the references (and object
labels, if ``objects`` is on) one to one, so that the sum of similarities is as large as possible:

    similarity(a, b) = 1     the same noun
                       0.95  they share a WordNet synset
                       max(cosine of their word vectors, 0) otherwise
    noun_support_least = the smallest similarity in the matching
    noun_support_mean  = their mean
    noun_support       = 0.9 x least + 0.1 x mean: the least supported noun decides, and of two
                         captions that have it in common the better supported one wins

A noun for which no partner is left has support 0. The explanation names the least supported noun.

Worked example: the references name *dog, ball, grass*, the caption *dog* and *kite*. *dog* meets
*dog* (1), *kite* meets *ball* with cosine 0.4: least 0.4, mean 0.7, noun_support 0.43, and the word
is *kite*.

Defined behaviour: a caption without a noun names nothing and cannot be scored; words without a
vector are like no other word. On nocaps-FOIL (2,500 captions and the same with one wrong noun) see
docs/results-companions.md. ALOHa's own numbers were made with language models of OpenAI and
embeddings of MPNet (30.8 % more hallucinated objects found than by CHAIR on nocaps): they are **not
verified here**. There is no ``profile``: the metric is ours, and neither ALOHa's paper nor its code
computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from captious import assets
from captious.errors import UsageError
from captious.evidence.classes import readable
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.text import tokenizers, tokens
from captious.text._scene_lemmas import Lemmas
from captious.text.scene_parser import ASSETS as PARSERS
from captious.text.scene_parser import LONGEST, SceneParser
from captious.text.synsets import WordTables
from captious.text.vectors import DEFAULT, open_vectors
from captious.types import CaptionSet, Floats, Sample, WordMark, WordMarks

_SYNONYM = 0.95
_MEAN = 0.1


@dataclass(frozen=True)
class NounSupport(Metric):
    """noun_support: how well references or labels support the caption's least supported noun.

    Args:
        vectors: name or path of the word vectors.
        references: whether nouns of the references are support.
        objects: whether object labels of the image are support (given, or detected).
        model: parser, as for spice.
        tables: the METEOR 1.5 jar or its folder, for synsets; None to find the installed one.
        tokenizer: how texts become words.
    """

    vectors: str = DEFAULT
    references: bool = True
    objects: bool = False
    model: str = "default"
    tables: str | None = None
    tokenizer: str = "ptb"

    name: ClassVar[str] = "noun_support"
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "noun_support", 0.0, 1.0, "support of the least supported noun, a tenth of the mean"
        ),
        Column("noun_support_least", 0.0, 1.0, "support of the least supported noun"),
        Column("noun_support_mean", 0.0, 1.0, "mean support of the caption's nouns"),
    )
    modules: ClassVar[dict[str, str]] = {"spacy": "spice"}
    identity: ClassVar[float | None] = 1.0
    empty: ClassVar[float] = float("nan")
    batch: ClassVar[int] = 40_000  # sentences are parsed in parallel within a batch
    data: ClassVar[tuple[str, ...]] = (
        "trap: vectors of words hold opposites and neighbours for alike (*man*, *woman*), so that "
        "such a wrong noun costs little.",
    )

    def __post_init__(self) -> None:
        chosen = {Need.REFERENCES: self.references, Need.IMAGE_OBJECTS: self.objects}
        needs = frozenset(need for need, taken in chosen.items() if taken)
        if not needs:
            raise UsageError("noun_support takes references, objects or both as support")
        object.__setattr__(self, "needs", needs)

    @property
    def assets(self) -> tuple[str, ...]:
        """Vectors, parser and word tables, where they are named assets."""
        named = [self.vectors] if self.vectors in assets.known() else []
        named += [PARSERS[self.model]] if self.model in PARSERS else []
        return (*named, *(("meteor-tables",) if self.tables is None else ()))

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return least and mean support per row; a set of references is read once."""
        texts = tokens.table(samples.pool, self.tokenizer).texts()
        used = np.unique(np.concatenate([samples.caption, samples.reference])).tolist()
        words = _Nouns(self, [texts[number] for number in used])
        space = _Space(self)
        rows = np.full((len(samples), 3), np.nan)
        reasons: dict[int, str] = {}
        supports: dict[tuple[bytes, Any], list[str]] = {}
        labels = samples.objects if self.objects else None
        for row in range(len(samples)):
            start, stop = samples.offsets[row : row + 2]
            mine = samples.reference[start:stop] if self.references else samples.reference[:0]
            seen = labels[row] if labels is not None else None
            key = mine.tobytes(), seen
            if key not in supports:
                said = [noun for number in mine.tolist() for noun in words.of(texts[number])]
                supports[key] = list(dict.fromkeys([*said, *_label_nouns(seen)]))
            nouns = words.of(texts[int(samples.caption[row])])
            if not nouns:
                reasons[row] = "the caption names nothing (it has no noun)"
            elif not supports[key]:
                reasons[row] = "there are no references or labels that could support a noun"
            else:
                values = space.matched(nouns, supports[key])[0]
                least, mean = values.min(), values.mean()
                rows[row] = (1 - _MEAN) * least + _MEAN * mean, least, mean
        return Stats(rows, reasons, self._notes([texts[int(n)] for n in samples.caption]))

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name vectors, parser, word tables and tokeniser."""
        return {
            "vectors": open_vectors(self.vectors).signature,
            "parser": SceneParser(self.model).version,
            "tables": f"meteor-1.5({WordTables.open(self.tables).fingerprint})",
            "tokenizer": tokenizers.get(self.tokenizer).signature,
        }

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Name the least supported noun and what supports the others."""
        tokenize: Any = tokenizers.get(self.tokenizer)
        caption, *references = (
            " ".join(tokenize(text)) for text in (sample.caption, *sample.references)
        )
        words = _Nouns(self, [caption, *references])
        said = [n for text in references for n in words.of(text)] if self.references else []
        seen = _label_nouns(sample.objects) if self.objects else []
        support, nouns = list(dict.fromkeys([*said, *seen])), words.of(caption)
        if not nouns or not support:
            return Explanation("Cannot be scored: no noun, or nothing to support one.", {})
        values, partners = _Space(self).matched(nouns, support)
        least = nouns[int(values.argmin())]
        lines = [f"Least supported: {least} ({values.min():.4f}).", "Support of each noun:"]
        lines += [
            f"  {value:.4f}  {noun} <- {partner or 'nothing'}"
            for noun, value, partner in zip(nouns, values, partners, strict=True)
        ]
        marks = tuple(
            WordMark(n, "extra" if n == least and v < 1 else "confirmed", float(v), p)
            for n, v, p in zip(nouns, values, partners, strict=True)
        )
        data = {
            "least": least,
            "nouns": [
                {"noun": n, "support": float(v), "by": p}
                for n, v, p in zip(nouns, values, partners, strict=True)
            ],
        }
        drawn = WordMarks("nouns", marks, "the number is the support of the noun")
        return Explanation("\n".join(lines), data, (drawn,))

    def _notes(self, captions: Sequence[str]) -> dict[str, int]:
        cut = sum(text.count(" ") >= LONGEST for text in captions)
        return {f"captions cut to {LONGEST} words": cut} if cut else {}


class _Nouns:
    """The different nouns of texts, as base forms in their order."""

    def __init__(self, metric: NounSupport, texts: Sequence[str]) -> None:
        self._parses = SceneParser(metric.model).parse(texts)
        self._lemmas = Lemmas(WordTables.open(metric.tables))
        self._known: dict[str, list[str]] = {}

    def of(self, text: str) -> list[str]:
        if text not in self._known:
            parse = self._parses[text]
            nouns = (
                self._lemmas[word, tag]
                for word, tag in zip(parse.words, parse.tags, strict=True)
                if tag.startswith("NN") and any(letter.isalpha() for letter in word)
            )
            self._known[text] = list(dict.fromkeys(nouns))
        return self._known[text]


@dataclass
class _Space:
    """Similarities of nouns; vectors and synsets of a noun are looked up once."""

    metric: NounSupport
    _unit: dict[str, Floats] = field(default_factory=dict)
    _synsets: dict[str, frozenset[int]] = field(default_factory=dict)

    def matched(self, nouns: Sequence[str], support: Sequence[str]) -> tuple[Floats, list[str]]:
        """Return the similarity of every noun in the best matching, and its partner."""
        self._learn([*nouns, *support])
        mine = np.array([self._unit[noun] for noun in nouns])
        theirs = np.array([self._unit[noun] for noun in support])
        likeness = np.clip(mine @ theirs.T, 0.0, 1.0)
        for at, noun in enumerate(nouns):
            own = self._synsets[noun]
            for k, other in enumerate(support):
                if noun == other:
                    likeness[at, k] = 1.0
                elif not own.isdisjoint(self._synsets[other]):
                    likeness[at, k] = max(likeness[at, k], _SYNONYM)
        rows, columns = linear_sum_assignment(likeness, maximize=True)
        values, partners = np.zeros(len(nouns)), [""] * len(nouns)
        for at, k in zip(rows.tolist(), columns.tolist(), strict=True):
            values[at], partners[at] = likeness[at, k], support[k]
        return values, partners

    def _learn(self, nouns: Sequence[str]) -> None:
        new = [noun for noun in dict.fromkeys(nouns) if noun not in self._unit]
        if not new:
            return
        table, synsets = open_vectors(self.metric.vectors), WordTables.open(self.metric.tables)
        rows = table.rows(new)
        vectors = table.take(np.maximum(rows, 0), unit=True) * (rows >= 0)[:, None]
        for noun, vector in zip(new, vectors, strict=True):
            self._unit[noun] = vector
            self._synsets[noun] = synsets.all_synsets(noun)


def _label_nouns(labels: Sequence[str] | None) -> list[str]:
    """The words of object labels; of a phrase, every word is support."""
    return [word for label in labels or () for word in readable(label).split()]
