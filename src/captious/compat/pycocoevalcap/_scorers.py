"""The scorers: ``compute_score(gts, res) -> (corpus value, values of images)`` and ``method()``.

Both dictionaries go from image to a list of texts that :class:`PTBTokenizer` has cut; ``res`` has
one text per image. Wrong input is an ``AssertionError``, as it is there, with the image named.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from captious.engine.executors import Local
from captious.engine.run import compute
from captious.errors import CaptiousError
from captious.metrics import bleu, cider, meteor, rouge_l, spice
from captious.metrics.base import Metric
from captious.text import document_frequency, ptb
from captious.types import CaptionSet, Floats

Texts = Mapping[Any, list[str]]


class PTBTokenizer:
    """Cuts captions as the Java tokeniser of the toolkit does, and drops punctuation."""

    def tokenize(self, captions_for_image: Mapping[Any, Any]) -> dict[Any, list[str]]:
        """Return ``{image: [text]}`` from ``{image: [{"caption": text}]}``."""
        out: dict[Any, list[str]] = {}
        for image, captions in captions_for_image.items():
            for at, entry in enumerate(captions):
                text = entry["caption"]
                if not isinstance(text, str):
                    raise AttributeError(
                        f"image {image!r}: caption {at} is {type(text).__name__}, not text"
                    )
                words = [w for w in ptb.raw_tokenize(text) if w not in ptb.PUNCTUATION]
                out.setdefault(image, []).append(" ".join(words))
        return out


def _checked(gts: Texts, res: Texts) -> CaptionSet:
    """Return the rows in the order of ``gts``."""
    if gts.keys() != res.keys():
        odd = list(gts.keys() ^ res.keys())
        raise AssertionError(
            f"gts and res hold different images: {len(odd)} are in one only, such as {odd[0]!r}"
        )
    for image, references in gts.items():
        for name, texts in (("res", res[image]), ("gts", references)):
            if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
                raise AssertionError(f"{name}[{image!r}] is not a list of texts: {texts!r}")
        if len(res[image]) != 1:
            raise AssertionError(f"res[{image!r}] holds {len(res[image])} captions, not one")
        if not references:
            raise AssertionError(f"gts[{image!r}] holds no reference")
    if not gts:
        raise AssertionError("there is no image to score")
    return CaptionSet.build([res[image][0] for image in gts], list(gts.values()))


def _rows(metric: Metric, samples: CaptionSet) -> Floats:
    missing = metric.missing()
    if missing:
        raise CaptiousError("\n".join(map(str, missing)))
    stats, _ = compute(samples, [metric], Local())[metric]
    if stats.reasons:
        row, why = min(stats.reasons.items())
        raise CaptiousError(f"caption {row} ({samples[row].caption[:60]!r}): {why}")
    return stats.rows


class Bleu:
    """BLEU-1 to BLEU-n."""

    def __init__(self, n: int = 4) -> None:
        if n not in (1, 2, 3, 4):
            raise ValueError(f"n is from 1 to 4, not {n!r}")
        self._n = n

    def compute_score(
        self, gts: Texts, res: Texts, verbose: int = 1
    ) -> tuple[list[float], list[list[float]]]:
        """Return n corpus values and n lists of values; print the counts if verbose."""
        metric, n = bleu.Bleu(tokenizer="none"), self._n
        rows = _rows(metric, _checked(gts, res))
        totals = rows.sum(axis=0)
        if verbose > 0:
            counts = [int(t) for t in totals]
            said = {"testlen": counts[8], "reflen": counts[9]}
            print(said | {"guess": counts[4 : 4 + n], "correct": counts[:n]})
            print("ratio:", (counts[8] + 1e-15) / (counts[9] + 1e-9))
        corpus = metric.corpus(totals, np.array(float(len(rows)))).tolist()
        return corpus[:n], metric.scores(rows).T.tolist()[:n]

    def method(self) -> str:
        """Return its name."""
        return "Bleu"


class Rouge:
    """ROUGE-L."""

    def __init__(self) -> None:
        self.beta = 1.2

    def calc_score(self, candidate: list[str], refs: list[str]) -> float:
        """Return the value of one caption."""
        return float(self.compute_score({0: refs}, {0: candidate})[1][0])

    def compute_score(self, gts: Texts, res: Texts) -> tuple[Any, Floats]:
        """Return the mean and the values."""
        scores = _rows(rouge_l.RougeL(self.beta, "spaces"), _checked(gts, res))[:, 0]
        return np.mean(scores), scores

    def method(self) -> str:
        """Return its name."""
        return "Rouge"


class Cider:
    """CIDEr-D, which the toolkit calls CIDEr; document frequencies of ``gts``.

    Args:
        test: not used, as there.
        refs: not used, as there.
        n: longest n-grams, up to 4.
        sigma: of the length penalty.
    """

    def __init__(self, test: Any = None, refs: Any = None, n: int = 4, sigma: float = 6.0) -> None:
        if n not in (1, 2, 3, 4):
            raise ValueError(f"n is from 1 to 4, not {n!r}")
        self._n, self._sigma = n, sigma

    def compute_score(self, gts: Texts, res: Texts) -> tuple[Any, Floats]:
        """Return the mean and the values; with one image every value is 0, as there."""
        samples = _checked(gts, res)
        metric = cider.CiderD(by="row", tokenizer="none", sigma=float(self._sigma))
        if len(samples) == 1:
            warnings.warn(
                "CIDEr of one image is 0 whatever its caption, because document frequencies are "
                "counted on it alone; captious.scorer('cider_d') has those of COCO",
                stacklevel=2,
            )
        frequencies = document_frequency.count(samples, "none", False, "row")
        scores = metric._orders(samples, frequencies)[:, : self._n].mean(axis=1)
        return np.mean(scores), scores

    def method(self) -> str:
        """Return its name."""
        return "CIDEr"


class Meteor:
    """METEOR 1.5 for English."""

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, list[float]]:
        """Return the corpus value (which is not the mean) and the values."""
        metric = meteor.Meteor(tokenizer="none")
        rows = _rows(metric, _checked(gts, res))
        return float(metric.aggregate(rows)[0]), metric.scores(rows)[:, 0].tolist()

    def method(self) -> str:
        """Return its name."""
        return "METEOR"


class Spice:
    """SPICE with another parser: **not the numbers of pycocoevalcap**.

    pycocoevalcap parses with Stanford CoreNLP 3.6, which is not part of captious. The graph rules,
    the matching and the shape of the result are the same; the parses, and so the values, differ:
    docs/results-spice.md says how far. Say so where you print them.
    """

    def __init__(self) -> None:
        warnings.warn(
            "SPICE is computed with the parser of captious, not with Stanford CoreNLP: its values "
            "are close to those of pycocoevalcap, not equal",
            stacklevel=2,
        )

    def compute_score(self, gts: Texts, res: Texts) -> tuple[Any, list[dict[str, Any]]]:
        """Return the mean, and per image (in sorted order) precision, recall and F by category."""
        _checked(gts, res)
        missing = spice.Spice().missing()
        if missing:
            raise CaptiousError("\n".join(map(str, missing)))
        images = sorted(gts)
        texts = [t for image in images for t in (*res[image], *gts[image])]
        graph_of = spice.reader("default", None).graphs(texts)
        scores = []
        for image in images:
            references = tuple(sorted(set(gts[image])))
            counts = spice.counted(graph_of((res[image][0],)), graph_of(references))
            scores.append(
                {
                    name: _category(name, *count)
                    for name, count in zip(_CATEGORIES, counts, strict=True)
                }
            )
        return np.mean(np.array([score["All"]["f"] for score in scores])), scores

    def method(self) -> str:
        """Return its name."""
        return "SPICE"


_CATEGORIES = ("All", "Object", "Relation", "Attribute", "Color", "Cardinality", "Size")


def _category(name: str, matched: int, mine: int, theirs: int) -> dict[str, float]:
    """Return a category as the Java tool reports it; NaN where the references have none of it."""
    if not theirs and name != "All":
        return dict.fromkeys(("pr", "re", "f"), float("nan")) | {
            "fn": 0.0, "numImages": 1.0, "fp": float(mine), "tp": 0.0,
        }  # fmt: skip
    return {
        "pr": matched / mine if mine else 0.0,
        "re": matched / theirs if theirs else 0.0,
        "f": spice._f(matched, mine, theirs),
        "fn": float(theirs - matched),
        "numImages": 1.0,
        "fp": float(mine - matched),
        "tp": float(matched),
    }
