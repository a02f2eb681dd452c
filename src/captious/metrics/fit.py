"""fit: how well does the caption fit the photograph, by two vectors?

One vector stands for the photograph, one for the caption, and the score is their cosine: the form
of CLIPScore (Hessel et al. 2021), with a small model of our own that was trained contrastively on
frozen features. No references are read. Every vector is made once, so that many captions of few
photographs, or few captions against many photographs, cost next to nothing more.

    fit = mean over members of cosine(image vector, text vector)

Worked example: two members with the cosines 0.5 and 0.3 give 0.4. Values compare captions; they
have no fixed meaning: unrelated pairs lie around 0, captions of the photograph around 0.4 to 0.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious import assets
from captious.evidence.region_source import extraction_assets, region_store
from captious.evidence.regions import RegionStore, require
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.types import CaptionSet, Sample

if TYPE_CHECKING:
    from captious.models.fit import FitModel

_IMAGES_AT_ONCE = 256


@dataclass(frozen=True)
class Fit(Metric):
    """Cosine of one image vector and one text vector, no references.

    Args:
        model: asset name, or folder of a model made by ``captious train fit``.
        regions: region features; default: those named in the settings, else extracted from the
            photographs and kept in the cache.
    """

    model: str = "fit-coco"
    regions: str | None = None

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
        """The model, its text encoder, and the backbones where regions must be extracted."""
        own = (self.model, "encoder-minilm") if self.model in assets.known() else ()
        return own + extraction_assets(self.regions)

    def prepare(self, samples: CaptionSet) -> None:
        """Find every image without region features before any work is done."""
        images = [image for image in samples.images if image is not None]
        store = self._store()
        add = getattr(store, "add", None)
        if add is not None:
            add(images)
        else:
            require(store, images)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the cosine of each row; every photograph and every caption is looked at once."""
        from captious.models.fit import check_dimensions

        model, store = self._model(), self._store()
        check_dimensions(model, store)
        captions = samples.captions()
        rows = np.full((len(samples), 1), np.nan)
        reasons: dict[int, str] = {}
        by_image: dict[str, list[int]] = {}
        for row, image in enumerate(samples.images):
            if image is None:
                reasons[row] = "the sample names no image"
            elif image not in store:
                reasons[row] = f"no region features of image {image!r}"
            elif not captions[row].strip():
                reasons[row] = "the caption is empty"
            else:
                by_image.setdefault(image, []).append(row)
        images = list(by_image)
        for begin in range(0, len(images), _IMAGES_AT_ONCE):
            some = images[begin : begin + _IMAGES_AT_ONCE]
            mine = [row for image in some for row in by_image[image]]
            texts = list(dict.fromkeys(captions[row] for row in mine))
            place = {text: number for number, text in enumerate(texts)}
            words = model.texts(texts)[[place[captions[row]] for row in mine]]
            counts = [len(by_image[image]) for image in some]
            seen = model.images([store[image] for image in some])
            shown = seen[np.repeat(np.arange(len(some)), counts)]
            rows[mine, 0] = (words * shown).sum(1).double().numpy()
        return Stats(rows, reasons)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model, weights, features."""
        model = self._model()
        return {
            "weights": model.identity,
            "encoder": model.encoder_name,
            "features": self._store().source,
        }

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Leave out one word after the other and say how the score moves."""
        words = sample.caption.split()
        texts = [" ".join(words[:k] + words[k + 1 :]) for k in range(len(words))]
        rows = CaptionSet.build(
            [sample.caption, *texts],
            [[] for _ in range(len(words) + 1)],
            images=[sample.image] * (len(words) + 1),
        )
        values = self.stats(rows, context).rows[:, 0]
        moved = [
            {"word": word, "without": float(value), "change": float(values[0] - value)}
            for word, value in zip(words, values[1:], strict=True)
        ]
        lines = [f"fit {values[0]:.4f}; what each word adds:"]
        lines += [f"  {one['change']:+.4f}  {one['word']}" for one in moved]
        return Explanation("\n".join(lines), {"score": float(values[0]), "words": moved})

    def _model(self) -> FitModel:
        from captious.models.fit import load

        return load(self.model)

    def _store(self) -> RegionStore:
        return region_store(self.regions)
