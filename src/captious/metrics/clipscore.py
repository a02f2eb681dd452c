"""CLIPScore and RefCLIPScore (Hessel et al., EMNLP 2021): does the caption fit the photograph?

    clipscore     = 2.5 x max(cosine(photograph, "A photo depicts " + caption), 0)
    ref_clipscore = harmonic mean of clipscore and max(cosine(caption, best reference), 0)

Worked example: cosines 0.3 with the photograph and 0.8 with the best reference give 0.75 and
2 x 0.75 x 0.8 / (0.75 + 0.8) = 0.774.

``model`` is a folder or hub name of any CLIP-type model of transformers (CLIP, SigLIP, LongCLIP),
or ``open_clip:ARCHITECTURE/TAG``. Texts beyond the model's length (77 tokens for CLIP, prefix
included) are cut, counted and reported. Values of different models do not compare.

The arithmetic equals that of the authors' code (jmhessel/clipscore) on small random models, to
1e-5. **Not verified here**: the published numbers, because OpenAI's weights are not on the machine
this was built on. With ViT-B/32 the paper reports, as Kendall's tau-c on Flickr8k-Expert, 51.2 for
CLIPScore and 53.0 for RefCLIPScore; tau-b on Flickr8k-CF 34.4 and 36.4; accuracy on PASCAL-50S 80.7
and 83.1. They were computed in half precision on a GPU.

Where paper and released code differ, ``profile`` decides:

    paper (default)  a negative cosine with the references counts as 0; an empty caption cannot be
                     scored; pictures are turned upright by their EXIF mark
    release          a negative cosine stays negative; an empty caption is the bare prefix; the EXIF
                     mark is ignored

The ``CLIPScore`` of torchmetrics (1.9) is another number: one for the whole set,
max(100 x mean cosine, 0), so that a negative cosine lowers the mean instead of counting 0; without
the prefix; by ViT-L/14 unless another is named; a text that is cut loses the closing mark at which
its vector is read. The signature names the weights by their sha256, revision of the hub, what else
decides vectors (``settings``: layers, activations, vocabulary), how pictures are prepared, the
number type, and where texts are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious.errors import CaptiousError, UsageError
from captious.metrics._looking import leave_one_out
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.types import CaptionSet, Floats, Sample

if TYPE_CHECKING:
    from captious.metrics._looking.pair_vectors import PairVectors
    from captious.models.dual_encoder import DualEncoder

OPENAI = "openai/clip-vit-base-patch32"
PREFIX = "A photo depicts"


@dataclass(frozen=True)
class ClipScore(Metric):
    """CLIPScore: 2.5 times the cosine of photograph and caption, no references.

    Args:
        model: folder or hub name of an image-text model, or ``open_clip:ARCHITECTURE/TAG``.
        prefix: what is put in front of every text.
        weights: state dict in OpenAI's form that takes the place of the model's own weights.
        dtype: number type of the network, ``float32``, ``bfloat16`` or ``float16``.
        profile: ``paper`` or ``release``.
    """

    model: str = OPENAI
    prefix: str = PREFIX
    weights: str = ""
    dtype: str = "float32"
    profile: str = "paper"

    name: ClassVar[str] = "clipscore"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_PIXELS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("clipscore", 0.0, 2.5, "2.5 x cosine of photograph and caption, 0 if negative"),
    )
    modules: ClassVar[dict[str, str]] = {
        "torch": "neural",
        "transformers": "neural",
        "PIL": "vision",
    }
    empty: ClassVar[float] = float("nan")
    batch: ClassVar[int] = 4096
    factor: ClassVar[float] = 2.5
    with_references: ClassVar[bool] = False
    data: ClassVar[tuple[str, ...]] = (
        "weights: none are shipped; any CLIP-type model that you name. Licence: that of its card. "
        "From: the model hub, or a folder of yours.",
        "trap: OpenAI's models were trained on 400 million pairs of the web that were not "
        "published; photographs that people judged may be among them.",
    )
    profiles: ClassVar[tuple[str, ...]] = ("paper", "release")

    def __post_init__(self) -> None:
        if self.profile not in self.profiles:
            raise UsageError(
                f"{self.name}: profile is {' or '.join(self.profiles)}, not {self.profile!r}"
            )
        if self.dtype not in ("float32", "bfloat16", "float16"):
            raise UsageError(
                f"{self.name}: dtype is float32, bfloat16 or float16, not {self.dtype!r}"
            )

    def missing(self) -> list[CaptiousError]:
        """Return the packages and the weights that are not on this machine."""
        lacking = super().missing()
        if not lacking:
            try:
                self._locate()
            except CaptiousError as error:
                lacking.append(error)
        return lacking

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return one value per row; every photograph and every text is encoded once."""
        pairs = self._pairs(samples)
        rows = np.full((len(samples), 1), np.nan)
        rows[pairs.rows, 0] = self._values(pairs)
        return Stats(rows, pairs.reasons, pairs.notes)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Weights, network, pieces, pictures and length by content; the rest are parameters."""
        model = self._model()
        return {
            "sha256": model.weights_sha,
            "revision": model.revision,
            "settings": model.settings_sha,
            "preprocessing": model.pixels,
            "cut": str(model.limit),
        }

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Leave out one word after the other and say how the score moves."""
        return leave_one_out.explain(self, sample, context)

    def _values(self, pairs: PairVectors) -> Floats:
        return self.factor * np.maximum(pairs.image, 0.0)

    def _pairs(self, samples: CaptionSet) -> PairVectors:
        from captious.metrics._looking.pair_vectors import PairVectors

        return PairVectors.of(
            samples, self._model(), self.prefix, self.with_references, self.profile == "release"
        )

    def _locate(self) -> None:
        from captious.models import dual_encoder

        dual_encoder.locate(self.model, self.weights)

    def _model(self) -> DualEncoder:
        from captious.models import dual_encoder

        return dual_encoder.load(self.model, self.weights, self.dtype)


@dataclass(frozen=True)
class RefClipScore(ClipScore):
    """RefCLIPScore: harmonic mean of CLIPScore and the cosine with the best reference.

    Args:
        model: folder or hub name of an image-text model, or ``open_clip:ARCHITECTURE/TAG``.
        prefix: what is put in front of every text.
        weights: state dict in OpenAI's form that takes the place of the model's own weights.
        dtype: number type of the network, ``float32``, ``bfloat16`` or ``float16``.
        profile: ``paper`` or ``release``.
    """

    name: ClassVar[str] = "ref_clipscore"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_PIXELS, Need.REFERENCES})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("ref_clipscore", 0.0, 10 / 7, "harmonic mean of clipscore and best reference"),
    )
    with_references: ClassVar[bool] = True
    without_image: ClassVar[str] = "bertscore"

    def _values(self, pairs: PairVectors) -> Floats:
        return harmonic(super()._values(pairs), nearest(pairs, self.profile))


def nearest(pairs: PairVectors, profile: str) -> Floats:
    """Return the cosines with the best references; the released programs leave them negative."""
    return pairs.reference if profile == "release" else np.maximum(pairs.reference, 0.0)


def harmonic(first: Floats, second: Floats) -> Floats:
    """Return the harmonic means, 0 where the values add up to 0.

    Example:
        >>> harmonic(np.array([0.75, 0.0]), np.array([0.8, 0.0])).round(3).tolist()
        [0.774, 0.0]
    """
    total = first + second
    return np.where(total != 0, 2 * first * second / np.where(total != 0, total, 1.0), 0.0)
