"""diversity: how different are the captions that one system gives one image?

A set is all captions of one system for one image.

    div_1, div_2 = different words (word pairs) of the set / words of the set (Aneja et al. 2019)
    mbleu_4      = BLEU-4 of a caption against the other captions of its set; lower is more diverse
    self_cider   = -log_m(r), r = largest over sum of the roots of the eigenvalues of the matrix of
                   CIDEr between the m captions (Wang and Chan 2019); 0 = all equal, 1 = nothing in
                   common
    vocabulary   = different words that the system uses, in all captions
    novel        = captions that are not in the file ``seen`` (the training captions); without a
                   file, captions that equal no reference of this run

Worked example: *a dog*, *a cat* have 4 words, 3 different: div_1 = 0.75; 2 pairs, 2 different:
div_2 = 2/4 = 0.5 (both are divided by the number of words, as is usual).

div and self_cider belong to sets: every caption carries the value of its set, and the corpus value
is the mean over sets. mbleu_4 of a corpus is BLEU-4 of all captions, each against its set.
vocabulary of a caption is its share in that of the system: a word that n captions use counts 1/n. A
set of one caption has no mbleu_4 and no self_cider.

Paper and released code differ in self_cider, and ``profile`` decides:

    release (default)  CIDEr-D, as in qingzwang/DiversityMetrics. It is not symmetric: of two
                       captions, the first in alphabetical order is compared with the second (the
                       authors take the order of the file)
    paper              CIDEr: the plain cosine, which is a kernel as the paper asks for, and
                       symmetric

Known deviations from the authors' code, in both: captions are tokenised (theirs are split at
spaces); document frequencies are those of COCO val2014 (theirs of train2014).

Published numbers: COS-CVAE (Mahajan and Roth, NeurIPS 2020; README of visinf/cos-cvae) has div_1
0.39, div_2 0.57, mbleu_4 0.53 and 96.3 % unique captions on COCO, after consensus re-ranking.
**Not verified here**: its captions are not on the machine this was built on. Values depend on how
many captions a set holds, so only the same sets compare.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from captious import assets
from captious.errors import InputError, UsageError
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.metrics.bleu import Bleu
from captious.metrics.cider import Cider, CiderD
from captious.reading import read_text
from captious.text import tokenizers
from captious.types import CaptionSet, Floats, Sample, WordMark, WordMarks

_ALONE = "the image has one caption only"
_SHOWN = 40
Key = tuple[str, str]


@dataclass(eq=False)
class CaptionGroups:
    """The captions of every (system, image), sorted; the corpus facts of the metric."""

    groups: Mapping[Key, tuple[str, ...]]
    references: frozenset[str] = frozenset()
    values: dict[Key, tuple[float, float, float]] = field(default_factory=dict)
    words: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of all captions."""
        sets = sorted((*key, *texts) for key, texts in self.groups.items())
        whole = json.dumps([sets, sorted(self.references)])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Diversity(Metric):
    """Diversity of the captions of an image: Div-1/2, mBLEU-4, Self-CIDEr, vocabulary, novelty.

    Args:
        df: document frequencies of CIDEr-D: ``coco-val`` (built in) or a file.
        seen: text file of training captions, one per line; empty: the references of the run.
        tokenizer: ``ptb`` as the toolkit, or another of ``captious tokenize --list``.
        profile: ``release`` or ``paper``: Self-CIDEr by CIDEr-D or by CIDEr.
    """

    df: str = "coco-val"
    seen: str = ""
    tokenizer: str = "ptb"
    profile: str = "release"

    name: ClassVar[str] = "diversity"
    needs: ClassVar[frozenset[Need]] = frozenset()
    columns: ClassVar[tuple[Column, ...]] = (
        Column("div_1", 0.0, 1.0, "different words over words, per set"),
        Column("div_2", 0.0, 1.0, "different word pairs over words, per set"),
        Column("mbleu_4", 0.0, 1.0, "BLEU-4 against the other captions of the set", False, _ALONE),
        Column("self_cider", 0.0, 1.0, "spread of CIDEr within the set", undefined=_ALONE),
        Column("vocabulary", 0.0, float("inf"), "different words of the system"),
        Column("novel", 0.0, 1.0, "share of captions that are not in the list of known captions"),
    )
    empty: ClassVar[float] = float("nan")
    reads_captions: ClassVar[bool] = True
    data: ClassVar[tuple[str, ...]] = (
        "document frequencies `coco-val`: counts of the n-grams of COCO val2014's references "
        "(40,504 images; captions CC-BY 4.0), part of captious.",
        "captions that were seen in training: a file of yours (`seen`).",
        "trap: values depend on how many captions a set holds; compare sets of one size.",
    )

    def __post_init__(self) -> None:
        if self.df == "corpus":
            raise UsageError("diversity reads no references: df is 'coco-val' or a file")
        if self.seen and not Path(self.seen).is_file():
            raise InputError(f"diversity: there is no file {self.seen!r}")
        if self.profile not in ("release", "paper"):
            raise UsageError(f"diversity: profile is release or paper, not {self.profile!r}")

    def prepare(self, samples: CaptionSet) -> CaptionGroups:
        """Collect the captions of every system and image."""
        groups: dict[Key, list[str]] = {}
        for key, text in zip(_keys(samples), samples.captions(), strict=True):
            groups.setdefault(key, []).append(text)
        numbers = np.unique(samples.reference)
        known = frozenset(map(self._plain, samples.pool.strings(numbers)))
        return CaptionGroups({key: tuple(sorted(texts)) for key, texts in groups.items()}, known)

    def merge(self, a: CaptionGroups, b: CaptionGroups) -> CaptionGroups:
        """Join the sets of two shards."""
        keys = {**a.groups, **b.groups}
        joined = {k: sorted((*a.groups.get(k, ()), *b.groups.get(k, ()))) for k in keys}
        sets = {key: tuple(texts) for key, texts in joined.items()}
        return CaptionGroups(sets, a.references | b.references)

    def stats(self, samples: CaptionSet, context: CaptionGroups) -> Stats:
        """Return weights, weighted set values, BLEU's counts, the vocabulary's share, novelty."""
        keys, texts = _keys(samples), samples.captions()
        self._learn(keys, context)
        rows = np.zeros((len(samples), 19))
        reasons: dict[int, str] = {}
        pairs: list[tuple[int, str, tuple[str, ...]]] = []
        known = self._known() if self.seen else context.references
        for row, (key, text) in enumerate(zip(keys, texts, strict=True)):
            group = context.groups.get(key)
            if group is None:
                rows[row] = np.nan
                reasons[row] = "the caption's image was not among the captions prepared"
                continue
            others = list(group)
            if text in others:
                others.remove(text)
            share = 1.0 / len(group)
            div_1, div_2, spread = context.values[key]
            rows[row, :3] = share, share * div_1, share * div_2
            if others:
                rows[row, 3:5] = share, share * spread
                pairs.append((row, text, tuple(others)))
            counts = context.words[key[0]]
            words = set(_words(text, self.tokenizer))
            rows[row, 16] = sum(1.0 / max(counts[word], 1) for word in sorted(words))
            rows[row, 17:] = 1.0, self._plain(text) not in known
        if pairs:
            against = CaptionSet.build([p[1] for p in pairs], [p[2] for p in pairs])
            rows[[p[0] for p in pairs], 6:16] = Bleu(self.tokenizer).stats(against, None).rows
            rows[[p[0] for p in pairs], 5] = 1.0
        return Stats(rows, reasons)

    def scores(self, rows: Floats) -> Floats:
        """Return the values of captions: those of their sets, and their own BLEU."""
        with np.errstate(invalid="ignore", divide="ignore"):
            div = rows[..., 1:3] / rows[..., :1]
            spread = rows[..., 4] / rows[..., 3]
            bleu = np.where(rows[..., 5] > 0, Bleu().scores(rows[..., 6:16])[..., 3], np.nan)
            novel = rows[..., 18] / rows[..., 17]
        parts = [div[..., 0], div[..., 1], bleu, spread, rows[..., 16], novel]
        return np.stack(parts, axis=-1)

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Return means over sets; BLEU and the vocabulary come from sums."""
        return self.scores(totals)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the tokeniser, the frequencies and the training captions."""
        frozen = self._cider()
        parts = {
            "df": frozen.signature_parts(frozen.prepare(CaptionSet.build([])))["df"],
            "tokenizer": tokenizers.get(self.tokenizer).signature,
        }
        if self.seen:
            path = Path(self.seen)
            parts["seen"] = f"{path.name}({len(self._known())},{assets.digest(path)[:8]})"
        return parts

    def explain(self, sample: Sample, context: CaptionGroups) -> Explanation:
        """List the set of the caption and what is said twice in it."""
        (key,) = _keys(CaptionSet.of([sample]))
        group = context.groups.get(key, ())
        self._learn([key], context)
        words = Counter(word for text in group for word in _words(text, self.tokenizer))
        common = words.most_common(_SHOWN)
        often = [f"{word} {count} times" for word, count in common[:8] if count > 1]
        values = context.values.get(key)
        told = "unknown" if values is None else f"Div-1 {values[0]:.4f}, Div-2 {values[1]:.4f}"
        if values is not None and len(group) > 1:
            told += f", Self-CIDEr {values[2]:.4f}"
        marks = tuple(
            WordMark(word, "lowers" if count > 1 else "raises", count, f"{count} times in the set")
            for word, count in common
        )
        drawn = WordMarks("words of the set: said once, said again", marks)
        return Explanation(
            f"{len(group)} caption{'s' * (len(group) != 1)}: {told}. Most frequent: "
            f"{', '.join(often) or 'no word twice'}.",
            {"captions": list(group), "words": dict(words)},
            (drawn,),
        )

    def _cider(self) -> Cider:
        """Return what compares two captions of a set."""
        kind = CiderD if self.profile == "release" else Cider
        return kind(df=self.df, tokenizer=self.tokenizer)

    def _known(self) -> frozenset[str]:
        return _seen(self.seen, self.tokenizer, assets.digest(Path(self.seen)))

    def _plain(self, text: str) -> str:
        return " ".join(_words(text, self.tokenizer))

    def _learn(self, keys: Iterable[Key], context: CaptionGroups) -> None:
        """Compute the values of sets that are asked for the first time."""
        for system in {key[0] for key in context.groups} - set(context.words):
            context.words[system] = Counter(
                word
                for key, group in context.groups.items()
                if key[0] == system
                for text in group
                for word in set(_words(text, self.tokenizer))
            )
        new = [k for k in dict.fromkeys(keys) if k in context.groups and k not in context.values]
        spreads = self._spreads([context.groups[key] for key in new])
        for key, spread in zip(new, spreads, strict=True):
            cut = [_words(text, self.tokenizer) for text in context.groups[key]]
            total = max(sum(map(len, cut)), 1)
            ones = {word for words in cut for word in words}
            twos = {pair for words in cut for pair in zip(words, words[1:], strict=False)}
            context.values[key] = len(ones) / total, len(twos) / total, spread

    def _spreads(self, groups: list[tuple[str, ...]]) -> list[float]:
        """Self-CIDEr of sets; all pairs of all sets are scored together."""
        place = [
            (number, i, j)
            for number, group in enumerate(groups)
            for i in range(len(group))
            for j in range(i, len(group))
        ]
        if not place:
            return []
        metric = self._cider()
        samples = CaptionSet.build(
            [groups[n][i] for n, i, _ in place], [[groups[n][j]] for n, _, j in place]
        )
        values = metric.stats(samples, metric.prepare(samples)).rows[:, 0]
        matrices = [np.zeros((len(group), len(group))) for group in groups]
        for (number, i, j), value in zip(place, values.tolist(), strict=True):
            matrices[number][i, j] = matrices[number][j, i] = value
        return [self_cider(matrix) for matrix in matrices]


def self_cider(matrix: Floats) -> float:
    """Return -log_m of the share of the largest root among the roots of the singular values.

    Example:
        >>> round(self_cider(np.eye(3)), 4), round(self_cider(np.ones((3, 3))), 4)
        (1.0, 0.0)
    """
    if len(matrix) < 2:
        return 0.0
    roots = np.sqrt(np.linalg.svd(matrix, compute_uv=False))
    total = roots.sum()
    if total == 0:  # captions without words have nothing in common, and nothing else either
        return 0.0
    return float(np.clip(np.log(total / roots.max()) / np.log(len(matrix)), 0.0, 1.0))


def _keys(samples: CaptionSet) -> list[Key]:
    return [(str(s), str(i)) for s, i in zip(samples.systems, samples.image_keys, strict=True)]


@lru_cache(maxsize=200_000)
def _words(text: str, tokenizer: str) -> tuple[str, ...]:
    return tuple(tokenizers.get(tokenizer)(text))


@lru_cache(maxsize=2)
def _seen(path: str, tokenizer: str, _content: str) -> frozenset[str]:
    lines = read_text(path).splitlines()
    return frozenset(" ".join(_words(line, tokenizer)) for line in lines if line.strip())
