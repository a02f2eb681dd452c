"""PAC-S and RefPAC-S (Sarto et al., CVPR 2023), PAC-S++ (IJCV 2025): CLIPScore with other weights.

    pac_s     = 2 x max(cosine(photograph, "A photo depicts " + caption), 0)
    ref_pac_s = harmonic mean of pac_s and max(cosine(caption, best reference), 0)

The authors trained CLIP further on captions and photographs that were made for the purpose. Their
weights are a state dict that you fetch from their page (aimagelab/pacscore) and name with
``weights``; captious never ships them. ``model`` is the CLIP of the same architecture, which gives
tokeniser and image settings: ``openai/clip-vit-base-patch32`` for ``clip_ViT-B-32.pth`` and for
``PAC++_clip_ViT-B-32.pth``, ``openai/clip-vit-large-patch14`` for ``PAC++_clip_ViT-L-14.pth``,
``laion/CLIP-ViT-L-14-laion2B-s32B-b82K`` for ``openClip_ViT-L-14.pth``.

PAC-S++ adds low-rank matrices (LoRA) to every layer. The authors' code marks the two layers behind
each attention as merged before it reads the file, and so never adds their matrices; those of the
attention and of the first convolution are added. Ours does the same, which gives the same vectors.

``profile`` is ``clean`` (default: a negative cosine with the references counts as 0, an empty
caption cannot be scored, pictures are turned upright by their EXIF mark) or ``release`` (as the
authors' code: it stays negative, an empty caption is the bare prefix, the mark is ignored).

Worked example: cosines 0.3 with the photograph and 0.8 with the best reference give 0.6 and
2 x 0.6 x 0.8 / (0.6 + 0.8) = 0.686.

The arithmetic, LoRA included, equals that of the authors' code on small random models, to 1e-5.
**Not verified here**: the published numbers, because the weights are not on the machine this was
built on. With ViT-B/32 the paper reports, as Kendall's tau-c on Flickr8k-Expert, 54.3 for PAC-S and
55.9 for RefPAC-S; tau-b on Flickr8k-CF 36.0 and 37.6; accuracy on PASCAL-50S 82.4 and 84.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from captious.errors import CaptiousError, MissingAsset
from captious.metrics.base import Column, Need
from captious.metrics.clipscore import ClipScore, harmonic, nearest
from captious.types import Floats

if TYPE_CHECKING:
    from captious.metrics._looking.pair_vectors import PairVectors


@dataclass(frozen=True)
class PacS(ClipScore):
    """PAC-S: CLIPScore with the weights of PAC-S or PAC-S++, no references.

    Args:
        model: folder or hub name of the CLIP whose architecture the weights have.
        prefix: what is put in front of every text.
        weights: the authors' state dict, a path; LoRA matrices are added as their code does.
        dtype: number type of the network, ``float32``, ``bfloat16`` or ``float16``.
        profile: ``clean`` or ``release``.
    """

    profile: str = "clean"

    name: ClassVar[str] = "pac_s"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("pac_s", 0.0, 2.0, "2 x cosine of photograph and caption, 0 if negative"),
    )
    factor: ClassVar[float] = 2.0
    data: ClassVar[tuple[str, ...]] = (
        "weights: none are shipped; `clip_ViT-B-32.pth` and others from the page of "
        "aimagelab/pacscore. Licence: as their authors state there.",
        "tokeniser and image settings: those of the model that `model` names. Licence: that of "
        "its card. From: the model hub, or a folder of yours.",
        "trap: they were trained on captions and photographs of COCO; judgements of COCO's "
        "photographs are not foreign to them.",
    )
    profiles: ClassVar[tuple[str, ...]] = ("clean", "release")

    def missing(self) -> list[CaptiousError]:
        """Return what is not on this machine; without the authors' weights it is not PAC-S."""
        if not self.weights:
            return [MissingAsset(
                f"{self.name} reads the authors' weights, which captious may not ship: fetch "
                "clip_ViT-B-32.pth or PAC++_clip_ViT-B-32.pth from the page of aimagelab/pacscore "
                f"and ask for {self.name}(weights='FILE')"
            )]  # fmt: skip
        return super().missing()


@dataclass(frozen=True)
class RefPacS(PacS):
    """RefPAC-S: harmonic mean of PAC-S and the cosine with the best reference.

    Args:
        model: folder or hub name of the CLIP whose architecture the weights have.
        prefix: what is put in front of every text.
        weights: the authors' state dict, a path; LoRA matrices are added as their code does.
        dtype: number type of the network, ``float32``, ``bfloat16`` or ``float16``.
        profile: ``clean`` or ``release``.
    """

    name: ClassVar[str] = "ref_pac_s"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_PIXELS, Need.REFERENCES})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("ref_pac_s", 0.0, 4 / 3, "harmonic mean of pac_s and best reference"),
    )
    with_references: ClassVar[bool] = True

    def _values(self, pairs: PairVectors) -> Floats:
        return harmonic(super()._values(pairs), nearest(pairs, self.profile))
