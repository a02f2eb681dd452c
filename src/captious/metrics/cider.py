"""CIDEr-D (the COCO toolkit's "CIDEr"), the plain CIDEr of the paper, and CIDEr-R.

Vedantam et al. 2015. Captions become vectors of n-gram counts (n = 1..4), weighted by
idf = ln N - ln max(1, df), where df is the number of images whose references hold the n-gram.
CIDEr is the cosine with each reference, averaged over references and orders, times 10. CIDEr-D
clips the caption's counts at the reference's and multiplies by a Gaussian of the difference in
length (sigma = 6), so that long captions and repetitions do not pay.

CIDEr-R (Oliveira dos Santos et al. 2021) replaces the Gaussian by two penalties per reference:
exp(-((l_c - l_r) / l_r)^2) ^ 0.2 for the lengths, and the geometric mean over the caption's words
of 1 / (1 + |count in the caption - count in the reference|), to the power 0.8, for repetitions (the
first use of a word that the reference lacks is free). Formulas as in the authors' code
(gabrielsantosrv/coco-caption). ``profile`` of CIDEr-R:

    clean (default)  words are those of the tokeniser; an empty caption gets 0
    release          as the authors' code: for the second penalty words are cut once more at
                     hyphens and apostrophes; an empty caption cannot be scored

Published numbers of CIDEr-R and CIDEr-D (accuracy in percent; files of results in that repository)
beside ours:

    pairs                                       CIDEr-R, CIDEr-D      ours
    PASCAL-50S, human and human, correct (HC)   64.0, 63.9            64.5, 65.5
    PASCAL-50S, human, right and wrong (HI)     94.0, 94.6            98.9, 98.7
    PASCAL-50S, human and machine (HM)          88.3, 88.2            90.6, 90.3
    PASCAL-50S, machine and machine (MM)        63.6, 62.4            67.0, 65.3
    COCO, own and another's caption (HCI)       97.6, 97.3            -
    COCO, beginning of it and another's (HII)   82.7, 80.1            -
    #PraCegoVer, in Portuguese (HCI)            93.9, 92.5            -
    #PraCegoVer, in Portuguese (HII)            83.0, 58.6            -

On PASCAL-50S both sides read five references. The authors draw them at random and take the votes of
these five as the label; ours are the five of the usual protocol with the label of 48 votes, so the
numbers are not expected to be equal. Both have CIDEr-R one to two points ahead on MM; elsewhere the
two metrics lie within a point. The other rows are **not verified here**, because the captions that
were drawn are not kept: HCI sets a caption by a person against one of another photograph, HII only
its first quarter to half.

Worked example: with two images whose references share no word, a caption equal to its only
reference has cosine 1 for every order that it is long enough for: four words give 10, two words
give 5 (no 3- and 4-grams).

The value of a caption depends on the set that df was counted on: it is part of the signature.
With one image only every idf is 0; that is an error here, not a 0: use ``df='coco-val'``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, UsageError
from captious.metrics._words import marks
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.text import document_frequency, gram_kernels, ngrams, tokenizers, tokens
from captious.text.document_frequency import DocumentFrequency
from captious.text.gram_kernels import Grams
from captious.text.machine_code import side_by_side
from captious.types import CaptionSet, Floats, Sample, WorkKey


@dataclass(frozen=True)
class Cider(Metric):
    """CIDEr: tf-idf cosine of 1..4-grams with each reference, mean, times 10.

    Args:
        df: where document frequencies come from: ``corpus`` (the references of this run),
            ``coco-val`` (built in), or a file made by ``captious df build``.
        by: in corpus mode, what one document is: ``image`` or ``row``.
        stem: whether words are stemmed (Porter), as the paper does and the released code does not.
        tokenizer: ``ptb`` as the toolkit, or another of ``captious tokenize --list``.
    """

    df: str = "corpus"
    by: str = "image"
    stem: bool = False
    tokenizer: str = "ptb"

    name: ClassVar[str] = "cider"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("cider", 0.0, 10.0, "tf-idf cosine of 1..4-grams, unclipped"),
    )
    clipped: ClassVar[bool] = False
    data: ClassVar[tuple[str, ...]] = (
        "document frequencies: counted on the references of the run (`corpus`), or those of a "
        "file of yours.",
        "document frequencies `coco-val`: counts of the n-grams of COCO val2014's references "
        "(40,504 images; captions CC-BY 4.0), part of captious.",
        "trap: values with different frequencies do not compare.",
    )

    def __post_init__(self) -> None:
        if self.by not in ("image", "row"):
            raise UsageError(f"{self.name}: by must be 'image' or 'row', not {self.by!r}")

    def prepare(self, samples: CaptionSet) -> DocumentFrequency:
        """Count document frequencies over the references, or open the named table."""
        if self.df != "corpus":
            return document_frequency.load(self.df, self.tokenizer, self.stem)
        return document_frequency.count(samples, self.tokenizer, self.stem, self.by)

    def merge(self, a: DocumentFrequency, b: DocumentFrequency) -> DocumentFrequency:
        """Join the counts of two shards; an image in both counts once."""
        return document_frequency.merge(a, b, self.by) if self.df == "corpus" else a

    def seal(self, context: DocumentFrequency) -> DocumentFrequency:
        """Keep the counts alone: no other shard holds these images."""
        return context.sealed()

    def freeze(self, context: DocumentFrequency) -> DocumentFrequency:
        """Leave out n-grams of one document: those that are unknown weigh the same."""
        return context.frequent() if self.df == "corpus" else context

    def stats(self, samples: CaptionSet, context: DocumentFrequency) -> Stats:
        """Return the score of each caption."""
        self._check(context)
        return Stats(self._orders(samples, context).mean(axis=1, keepdims=True))

    def _check(self, context: DocumentFrequency) -> None:
        if context.documents < 2:
            raise InputError(
                f"{self.name} with df='corpus' needs references of at least two images (with one, "
                f"every weight is 0). For a single image use {self.name}(df='coco-val')."
            )

    def _orders(self, samples: CaptionSet, context: DocumentFrequency) -> Floats:
        """Return (n, 4): ten times the mean similarity over references, per order."""
        row = samples.reference_rows
        lengths = tokens.table(samples.pool, self.tokenizer).lengths
        factor = self._length_factor(lengths[samples.caption[row]], lengths[samples.reference])
        factor = factor * self._repetition_factor(samples)
        grams = ngrams.compiled(samples.pool, self.tokenizer, self.stem)
        if grams is None:
            sums = self._sums(samples, context, factor)
        else:
            sums = self._compiled_sums(samples, context, factor, grams)
        return sums * (10.0 / np.maximum(samples.reference_counts, 1))[:, None]

    def _compiled_sums(
        self,
        samples: CaptionSet,
        context: DocumentFrequency,
        factor: Floats,
        grams: tuple[Grams, ...],
    ) -> Floats:
        idf = context.idf_by_frequency
        factor = np.ascontiguousarray(np.broadcast_to(factor, len(samples.reference)), np.float64)

        def of_order(n: int) -> Floats:
            # The context stands beside its product, so that its id is not given to another.
            frequencies = samples.pool.derived(
                WorkKey[Any]("gram frequencies", (self.tokenizer, self.stem, n, id(context))),
                lambda: (context, context.gram_frequencies(samples.pool, n)),
            )[1]
            return gram_kernels.similarity(
                grams[n - 1],
                frequencies,
                idf,
                samples.caption,
                samples.reference,
                samples.offsets,
                factor,
                self.clipped,
            )

        orders = range(1, ngrams.ORDERS + 1)
        return np.stack(side_by_side(of_order, orders, len(samples.pool)), axis=1)

    def _sums(self, samples: CaptionSet, context: DocumentFrequency, factor: Floats) -> Floats:
        """Return (n, 4): the sum over references of cosine times length factor, per order."""
        table = ngrams.table(samples.pool, self.tokenizer, self.stem)
        row = samples.reference_rows
        out = np.zeros((len(samples), ngrams.ORDERS))
        for n in range(1, ngrams.ORDERS + 1):
            counts = table.counts[n - 1]
            idf = samples.pool.derived(
                WorkKey[Any]("idf", (self.tokenizer, self.stem, n, id(context))),
                lambda n=n: (context, context.idf(samples.pool, n)),  # type: ignore[misc]
            )[1]
            captions = _weighted(counts[samples.caption], idf)
            references = _weighted(counts[samples.reference], idf)
            norms = _norms(captions)[row] * _norms(references)
            pairs = captions[row]
            if self.clipped:
                pairs = pairs.minimum(references)
            dot = _row_sums(pairs.multiply(references))
            similarity = np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)
            out[:, n - 1] = np.bincount(row, similarity * factor, minlength=len(out))
        return out

    def _length_factor(
        self, caption: npt.NDArray[np.int64], reference: npt.NDArray[np.int64]
    ) -> Floats:
        return np.ones(len(caption))

    def _repetition_factor(self, samples: CaptionSet) -> Floats | float:
        return 1.0

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the frequencies and the tokeniser's version."""
        df = context.label if isinstance(context, DocumentFrequency) else self.df
        if self.df != "corpus" and isinstance(context, DocumentFrequency):
            df = f"{df}({context.documents},{context.fingerprint})"
        return {"df": df, "tokenizer": tokenizers.get(self.tokenizer).signature, "n": "4"}

    def explain(self, sample: Sample, context: DocumentFrequency) -> Explanation:
        """List the n-grams that the caption shares with its references, by weight."""
        self._check(context)
        samples = CaptionSet.of([sample])
        orders = self._orders(samples, context)[0]
        table = ngrams.table(samples.pool, self.tokenizer, self.stem)
        words = tokens.table(samples.pool, self.tokenizer).tokens(int(samples.caption[0]))
        shared: list[dict[str, Any]] = []
        for n in range(1, ngrams.ORDERS + 1):
            idf = context.idf(samples.pool, n)
            counts = table.counts[n - 1]
            in_refs = {int(c) for r in samples.reference for c in counts[int(r)].indices}
            column = {int(g): i for i, g in enumerate(table.grams[n - 1].tolist())}
            names = ngrams.named(words, n, self.stem)
            for name, text in names.items():
                at = column[name]
                shared.append(
                    {"ngram": text, "idf": float(idf[at]), "in_references": at in in_refs}
                )
        score = float(orders.mean())
        best = sorted((s for s in shared if s["in_references"]), key=lambda s: -s["idf"])
        lost = sorted((s for s in shared if not s["in_references"]), key=lambda s: -s["idf"])
        lines = [
            f"{self.name} {score:.4f} = mean of "
            + ", ".join(f"{v:.4f} ({n}-grams)" for n, v in enumerate(orders, 1))
        ]
        for title, part in (("shared, most telling first", best), ("not in any reference", lost)):
            listed = ", ".join(f"{s['ngram']} ({s['idf']:.2f})" for s in part[:8])
            lines.append(f"{title}: {listed or '-'}")
        drawn = marks.against(
            "words of the caption",
            words,
            [tokens.table(samples.pool, self.tokenizer).tokens(int(r)) for r in samples.reference],
            {s["ngram"]: s["idf"] for s in shared if " " not in s["ngram"]},
            "the number is how telling (rare) the word is",
        )
        data = {"score": score, "orders": orders.tolist(), "ngrams": shared}
        return Explanation("\n".join(lines), data, (drawn,))


@dataclass(frozen=True)
class CiderD(Cider):
    """CIDEr-D: CIDEr with clipped counts and a length penalty; the COCO toolkit's "CIDEr".

    Args, besides df, by, stem and tokenizer, which are those of CIDEr:
        sigma: width of the Gaussian over the difference in length.
    """

    sigma: float = 6.0

    name: ClassVar[str] = "cider_d"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("cider_d", 0.0, 10.0, "tf-idf cosine of 1..4-grams, clipped, length penalty"),
    )
    clipped: ClassVar[bool] = True

    def _length_factor(
        self, caption: npt.NDArray[np.int64], reference: npt.NDArray[np.int64]
    ) -> Floats:
        # The toolkit compares bigram counts: nothing and one word have the same "length".
        delta = np.maximum(caption - 1, 0) - np.maximum(reference - 1, 0)
        return np.exp(-(delta.astype(np.float64) ** 2) / (2 * self.sigma**2))


@dataclass(frozen=True)
class CiderR(Cider):
    """CIDEr-R: CIDEr-D for references of very different length; repetition costs.

    Args, besides df, by, stem and tokenizer, which are those of CIDEr:
        repetition: exponent of the penalty for repetition.
        length: exponent of the penalty for the difference in length.
        profile: ``clean`` or ``release``.
    """

    repetition: float = 0.8
    length: float = 0.2
    profile: str = "clean"

    name: ClassVar[str] = "cider_r"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("cider_r", 0.0, 10.0, "tf-idf cosine, clipped, penalties of length and repetition"),
    )
    clipped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.profile not in ("clean", "release"):
            raise UsageError(f"{self.name}: profile is clean or release, not {self.profile!r}")

    def stats(self, samples: CaptionSet, context: DocumentFrequency) -> Stats:
        """Return the score of each caption; the authors' code has none of an empty one."""
        found = super().stats(samples, context)
        if self.profile == "clean":
            return found
        words = _word_counts(samples, self.tokenizer)
        empty = [row for row, n in enumerate(samples.caption.tolist()) if not words[n]]
        found.rows[empty] = np.nan
        return replace(found, reasons=dict.fromkeys(empty, "the caption has no word"))

    def _length_factor(
        self, caption: npt.NDArray[np.int64], reference: npt.NDArray[np.int64]
    ) -> Floats:
        # The authors' lengths are bigram counts plus one.
        mine, theirs = np.maximum(caption, 1), np.maximum(reference, 1)
        delta = (mine - theirs).astype(np.float64)
        return np.exp(-(delta**2) / theirs.astype(np.float64) ** 2) ** self.length

    def _repetition_factor(self, samples: CaptionSet) -> Floats | float:
        """Geometric mean over the caption's words of 1 / (1 + surplus or lack of the word)."""
        if self.profile == "release":
            return self._repetition_of_the_release(samples)
        table = ngrams.table(samples.pool, self.tokenizer, self.stem)
        row = samples.reference_rows
        mine = table.counts[0][samples.caption[row]].astype(np.float64)
        theirs = table.counts[0][samples.reference].astype(np.float64)
        inside = mine.sign()
        surplus = abs(theirs.multiply(inside) - mine)  # a word that no reference has counts whole
        absent = inside - inside.multiply(theirs.sign())
        surplus = surplus - absent  # its first use is free
        surplus.data = np.log1p(np.maximum(surplus.data, 0.0))
        words = np.maximum(np.asarray(inside.sum(axis=1)).ravel(), 1.0)
        logs = np.asarray(surplus.sum(axis=1)).ravel() / words
        return np.exp(-logs) ** self.repetition

    def _repetition_of_the_release(self, samples: CaptionSet) -> Floats:
        words = _word_counts(samples, self.tokenizer)
        factors = np.ones(len(samples.reference))
        captions = samples.caption[samples.reference_rows]
        for at, (caption, reference) in enumerate(
            zip(captions.tolist(), samples.reference.tolist(), strict=True)
        ):
            mine, theirs = words[caption], words[reference]
            surplus = [abs(count - (theirs[word] or 1)) for word, count in mine.items()]
            factors[at] = np.exp(-np.log1p(surplus).mean()) if surplus else 1.0
        return factors**self.repetition


def _word_counts(samples: CaptionSet, tokenizer: str) -> list[Counter[str]]:
    """How often every text of the pool has each run of letters and digits."""
    return samples.pool.derived(
        WorkKey[list[Counter[str]]]("words of letters", (tokenizer,)),
        lambda: [
            Counter(re.findall(r"\w+", text))
            for text in tokens.table(samples.pool, tokenizer).texts()
        ],
    )


def _weighted(counts: Any, idf: Floats) -> Any:
    out = counts.astype(np.float64)
    out.data *= idf[out.indices] if len(idf) else 0.0
    return out


def _norms(matrix: Any) -> Floats:
    return np.sqrt(_row_sums(matrix.multiply(matrix)))


def _row_sums(matrix: Any) -> Floats:
    """Sum each row from left to right, as compiled code does: the same bits on both roads."""
    rows = matrix.tocsr()
    rows.sort_indices()
    return np.asarray(rows @ np.ones(rows.shape[1])).ravel()
