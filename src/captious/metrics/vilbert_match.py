"""ViLBERT matching: does the caption belong to the image, by the model's own matching head?

Lu et al. 2019 train ViLBERT to tell captions of an image from others: the pooled states of both
streams are multiplied number by number, and a linear layer gives two logits.

    score = 1 / (1 + exp(other - match))

No references are read: this is to ``vilbertscore`` what ``scan`` is to ``tiger``. Worked example:
logits 2 (match) and 1 (other) give 1 / (1 + e^-1) = 0.731.

Known deviations: none; but the probability is that of the training's mixture of right and wrong
captions, so compare captions by it and do not read it as a chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from captious.errors import UsageError
from captious.metrics._looking import leave_one_out
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.metrics.vilbertscore import Vilbertscore
from captious.types import CaptionSet, Evidence, Sample


@dataclass(frozen=True)
class VilbertMatch(Metric):
    """ViLBERT matching: whether the caption belongs to the image, no references.

    Args:
        model: a ViLBERT with its matching head: asset name or path.
        config: configuration of an original checkpoint that is not of full size.
        length: pieces of a text, marks included, that are read; the rest is cut.
        dtype: ``float32``, ``bfloat16`` or ``float16``, on every device.
    """

    model: str = "vilbert-coco"
    config: str | None = None
    length: int = 37
    dtype: str = "float32"

    name: ClassVar[str] = "vilbert_match"
    renamed: ClassVar[dict[str, str]] = {"weights": "model"}
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_REGIONS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("vilbert_match", 0.0, 1.0, "probability that caption and image belong together"),
    )
    modules: ClassVar[dict[str, str]] = Vilbertscore.modules
    batch: ClassVar[int] = 2048
    empty: ClassVar[float] = float("nan")

    @property
    def _score(self) -> Vilbertscore:
        return Vilbertscore(self.model, self.config, length=self.length, dtype=self.dtype)

    @property
    def assets(self) -> tuple[str, ...]:
        """Those of ViLBERTScore."""
        return self._score.assets

    @property
    def region_kind(self) -> str:
        """Those that the model was trained on."""
        return self._score.region_kind

    def evidence_parts(self, evidence: Evidence) -> dict[str, str]:
        """The features that were read."""
        return self._score.evidence_parts(evidence)

    def missing(self) -> list[Any]:
        """Name absent packages and weights."""
        return self._score.missing()

    def prepare(self, samples: CaptionSet) -> None:
        """Find everything that is wrong with model and images before any work is done."""
        self._encoder()
        self._score.prepare(samples)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the probability of each row."""
        encoder, score = self._encoder(), self._score
        captions = samples.captions()
        reasons = score.reasons(samples, encoder, references=False)
        rows = np.full((len(samples), 1), np.nan)
        known = [row for row in range(len(samples)) if row not in reasons]
        pictures: dict[str, int] = {}
        which = [pictures.setdefault(str(samples.images[row]), len(pictures)) for row in known]
        texts = score.tokenize([captions[row] for row in known], encoder)
        if known:
            seen = [score.picture(name, encoder, samples.evidence) for name in pictures]
            odds = encoder.match(texts, which, seen).double().numpy()
            rows[known, 0] = 1 / (1 + np.exp(-odds))
        cut = sum(text.cut for text in texts)
        notes = {f"captions cut to {self.length} tokens": cut} if cut else {}
        return Stats(rows, reasons, notes)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model, weights, features."""
        parts = self._score.signature_parts(context)
        return {key: value for key, value in parts.items() if key != "layer"}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Leave out one word after the other and say how the score moves."""
        return leave_one_out.explain(self, sample, context)

    def _encoder(self) -> Any:
        encoder = cast(Any, self._score.encoder())
        if not hasattr(encoder, "match"):
            raise UsageError(
                f"vilbert_match: {encoder.name!r} ({encoder.kind}) has no matching head that "
                "captious knows: give the weights of a ViLBERT"
            )
        encoder.check_match()
        return encoder
