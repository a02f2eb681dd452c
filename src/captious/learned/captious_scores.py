"""``captious_ref`` and ``captious_free``: a few metrics that see different things, in one score.

Every input is mapped to normal scores by its quantiles in a frozen distribution of captions of
several domains, so that a score means the same for one caption as for a million:

    score = sigmoid(sum over inputs of weight x normal score + guards - middle),  weights >= 0

No weight is negative: where an input rises, the score cannot fall. The guards, ``stumbles`` (words
out of context) and ``distinct`` (repetition), are 0 for ordinary captions and low for gamed ones.
Trained on what people said of captions in several domains (half of the photographs of each), and
chosen by leaving whole domains out: what counts is the domain where it falls furthest behind its
best input.

``captious_ref`` reads references and image; where there is no image, ``image=False`` takes a model
that was trained without it: nothing is filled in for a missing input. ``captious_free`` reads image
and caption only.

Worked example: two inputs with the weight 1 each, one deviation above and half a deviation below
the middle, and a caption that no guard objects to: the log odds are 1 - 0.5 = 0.5, the score 0.62.

Which inputs, what each encoder saw, and all numbers: docs/results-composites.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captious.learned.composite import _column, _Composite
from captious.learned.features import needs_of
from captious.metrics.base import Column, Need


@dataclass(frozen=True)
class CaptiousRef(_Composite):
    """captious_ref: several metrics in one, with references; trained on human judgements.

    Args:
        image: whether the image is read; without it a model trained for that is taken.
    """

    image: bool = True

    name: ClassVar[str] = "captious_ref"
    without_image: ClassVar[str] = "captious_ref(image=False)"
    columns: ClassVar[tuple[Column, ...]] = _column(
        "captious_ref", "how good people would find the caption, from references and image"
    )
    modules: ClassVar[dict[str, str]] = {
        "torch": "neural",
        "transformers": "neural",
        "numba": "meteor",
        "spacy": "spice",
        "ot": "vectors",
    }

    def _file(self) -> str:
        return "captious_ref" if self.image else "captious_ref_text"

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """References, and the image unless ``image=False``."""
        return needs_of(self._known())


@dataclass(frozen=True)
class CaptiousFree(_Composite):
    """captious_free: several metrics in one, without references; trained on human judgements."""

    name: ClassVar[str] = "captious_free"
    columns: ClassVar[tuple[Column, ...]] = _column(
        "captious_free", "how good people would find the caption, from the image alone"
    )
    modules: ClassVar[dict[str, str]] = {"torch": "neural", "safetensors": "neural"}

    def _file(self) -> str:
        return "captious_free"

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """The image, and whatever else its inputs need."""
        return needs_of(self._known())
