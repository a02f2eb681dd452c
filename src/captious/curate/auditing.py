"""Which captions of a collection probably do not fit their photograph, repeat others, say nothing?

Every caption is scored against its own photograph and against ``others`` photographs of the same
collection, chosen by a seed. Three lists come of it:

* **misfits**: ordered by the score with the own photograph, lowest first;
* **duplicates**: the same words (PTB tokens) under different photographs;
* **generic**: at least as near to half of the other photographs as to its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from captious.engine.executors import Executor
from captious.engine.job import ScoringJob, score
from captious.errors import InputError
from captious.statistics.bootstrap import SEED
from captious.text.ptb import tokenize
from captious.types import CaptionSet, Floats


@dataclass(frozen=True)
class Audited:
    """What is known of every caption.

    Attributes:
        fit: score with its own photograph.
        nearer: share of the other photographs that it is at least as near to.
        copies: how many other photographs have the same caption.
        order: rows, the most doubtful first.
    """

    samples: CaptionSet
    fit: Floats
    nearer: Floats
    copies: np.ndarray[tuple[int], np.dtype[np.int64]]
    order: np.ndarray[tuple[int], np.dtype[np.int64]]

    def remarks(self, row: int) -> list[str]:
        """Say what is wrong with a caption, in words; nothing if nothing is."""
        said = []
        if self.nearer[row] >= 0.5:
            share = round(100 * self.nearer[row])
            said.append(f"fits {share} % of other photographs as well as its own")
        if self.copies[row]:
            said.append(f"the same caption is under {self.copies[row]} other photographs")
        if np.isnan(self.fit[row]):
            said.append("could not be scored")
        return said


def audit(
    samples: CaptionSet,
    metric: str = "fit",
    *,
    others: int = 8,
    seed: int = SEED,
    executor: Executor | None = None,
) -> Audited:
    """Look for captions that do not belong.

    Args:
        samples: captions with their photographs.
        metric: a reference-free score of caption and photograph.
        others: how many other photographs each caption is held against.
        seed: of their choice.
        executor: who does the work.
    """
    images = list(dict.fromkeys(str(i) for i in samples.images if i is not None))
    if len(images) < 2:
        raise InputError("an audit needs captions of at least two photographs; give --images")
    own = _scores(samples, metric, executor)
    place = {image: at for at, image in enumerate(images)}
    at = np.array([place.get(str(i), 0) for i in samples.images])
    rng = np.random.default_rng(seed)
    nearer = np.zeros(len(samples))
    rounds = min(others, len(images) - 1)
    for shift in rng.permutation(np.arange(1, len(images)))[:rounds]:
        elsewhere = np.array([images[i] for i in (at + shift) % len(images)], object)
        with np.errstate(invalid="ignore"):
            nearer += _scores(replace(samples, images=elsewhere), metric, executor) >= own
    known = np.where(np.isnan(own), -np.inf, own)
    order = np.argsort(known, kind="stable")
    return Audited(samples, own, nearer / rounds, _copies(samples), order)


def _scores(samples: CaptionSet, metric: str, executor: Executor | None) -> Floats:
    table = score(ScoringJob(samples, metrics=(metric,), resamples=0), executor=executor)
    return next(iter(table.values.values()))


def _copies(samples: CaptionSet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    words = [" ".join(tokenize(text)) for text in samples.captions()]
    images: dict[str, set[str]] = {}
    for text, image in zip(words, samples.image_keys, strict=True):
        images.setdefault(text, set()).add(str(image))
    return np.array([len(images[text]) - 1 for text in words], np.int64)
