"""fit: how well does the caption fit the photograph, by two vectors?

One vector stands for the photograph, one for the caption, and the score is their cosine: the form
of CLIPScore (Hessel et al. 2021), with a small model of our own that was trained contrastively, on
features of two backbones whose last stage learned from captions (``captious train eyes``). No
references are read. Every vector is made once, so that many captions of few photographs, or few
captions against many photographs, cost almost nothing extra.

    fit = mean over members of cosine(image vector, text vector)

Worked example: two members with the cosines 0.5 and 0.3 give 0.4. Values compare captions; they
have no fixed meaning: unrelated pairs lie around 0, captions of the photograph around 0.4 to 0.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious import assets
from captious.metrics._looking import leave_one_out
from captious.metrics._looking.by_image import group_by_image
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.models.features import model_features
from captious.types import CaptionSet, Sample

if TYPE_CHECKING:
    from captious.models.fit import FitModel

_IMAGES_AT_ONCE = 256


@dataclass(frozen=True)
class Fit(Metric):
    """Cosine of one image vector and one text vector, no references.

    Args:
        model: asset name, or folder of a model made by ``captious train fit``.
    """

    model: str = "fit-coco"

    name: ClassVar[str] = "fit"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_REGIONS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("fit", -1.0, 1.0, "cosine of the photograph's and the caption's vector"),
    )
    modules: ClassVar[dict[str, str]] = {
        "torch": "neural",
        "safetensors": "neural",
        "transformers": "neural",
    }
    empty: ClassVar[float] = float("nan")

    @property
    def assets(self) -> tuple[str, ...]:
        """The model and its text encoder."""
        return (self.model, "encoder-minilm") if self.model in assets.known() else ()

    @property
    def region_kind(self) -> str:
        """The features that the model was trained on."""
        return model_features(self.model)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the cosine of each row; every photograph and every caption is looked at once."""
        from captious.models.fit import check_dimensions

        groups = group_by_image(samples, self.region_kind, self.name, references=False)
        model, store = self._model(), groups.store
        check_dimensions(model, store)
        captions = samples.captions()
        rows = np.full((len(samples), 1), np.nan)
        empty = [row for row in groups.scored if not captions[row].strip()]
        reasons = groups.reasons | dict.fromkeys(empty, "the caption is empty")
        by_image = {
            image: kept
            for image, mine in groups.rows.items()
            if (kept := [row for row in mine if row not in reasons])
        }
        images = list(by_image)
        for begin in range(0, len(images), _IMAGES_AT_ONCE):
            chunk = images[begin : begin + _IMAGES_AT_ONCE]
            mine = [row for image in chunk for row in by_image[image]]
            texts = list(dict.fromkeys(captions[row] for row in mine))
            place = {text: number for number, text in enumerate(texts)}
            words = model.texts(texts)[[place[captions[row]] for row in mine]]
            counts = [len(by_image[image]) for image in chunk]
            seen = model.images([store[image] for image in chunk])
            shown = seen[np.repeat(np.arange(len(chunk)), counts)]
            rows[mine, 0] = (words * shown).sum(1).double().numpy()
        cut = model.cut([captions[row] for row in groups.scored])
        notes = {f"captions cut to {model.encoder.limit} tokens": cut} if cut else {}
        return Stats(rows, reasons, notes)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Weights and text encoder."""
        model = self._model()
        return {"weights": model.identity, "encoder": model.encoder_name}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Leave out one word after the other and say how the score moves."""
        return leave_one_out.explain(self, sample, context)

    def _model(self) -> FitModel:
        from captious.models.fit import load

        return load(self.model)
