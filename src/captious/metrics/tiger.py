"""TIGEr: does the caption look at the same regions of the image as the references do?

Jiang et al., "TIGEr: Text-to-Image Grounding for Image Caption Evaluation" (2019). A grounding
model (SCAN) gives, for every region ``i`` of the image, how well a caption covers it:

    alpha_ij = softmax over words j of lambda * chat_ij    chat: clipped cosines, unit over regions
    s_i      = cosine(v_i, sum_j alpha_ij w_j)

``r`` is the mean of the references' vectors, ``c`` the candidate's. Then

    RRS   = DCG(regions ordered by c, gains r) / DCG(ordered by r)
    WDS   = sigmoid(-tau * (KL(softmax r || softmax c) + ln |r| / |c|))
    TIGEr = (RRS + WDS) / 2

A candidate equal to its only reference gets RRS 1, WDS 1/2, hence TIGEr 0.75. No caption reaches 1.

Paper and released code differ (``profile``): the release lets cosines below zero pass with a slope
of 0.1 and scales the gains of RRS to 0..1 per image (default); the paper clips at zero and takes
the weights themselves as gains, of which we take the positive part: with negative gains DCG over
ideal DCG leaves 0..1 (1.36 and -32 were seen), and the paper says that the score lies inside.

The paper calls "the absolute value of s_i" how far a caption is grounded in region i. We read that
as "its size", not as |s_i|: s_i is a cosine, and one near -1 says that the caption speaks of
something else. So a negative s_i means "not grounded" and ranks behind all others. The length term
of WDS takes a strongly negative vector for a large one; ``clip=True`` takes ``max(0, s)`` first, an
addition of ours.

The paper gives no value of tau ("to be tuned") and none of lambda; 1.5 and 9 are those of the
release. Our grounding model (``scan-coco``) was trained by us, and RRS and WDS themselves were
part of its loss and of the choice of its weights: what it reaches on Flickr8k is no evidence for
the paper's model. The parameter ``smooth`` is the paper's lambda.

The column ``scan_similarity`` needs no references: the grounding model's own image-caption score.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious import assets
from captious.errors import InputError, UsageError
from captious.metrics._looking.by_image import group_by_image, regions_of
from captious.metrics._looking.grounding import (
    region_rank_similarity,
    sigmoid,
    weight_distribution_parts,
)
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.models.features import model_features
from captious.types import CaptionSet, Evidence, Floats, Sample

if TYPE_CHECKING:
    from captious.models.grounding import GroundingModel

IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class Tiger(Metric):
    """TIGEr: whether caption and references look at the same regions of the image.

    Args:
        profile: ``release`` (default) or ``paper``.
        model: a grounding model: asset name, path of a SCAN model, or ``clip:PATH``.
        vocabulary: vocabulary json of an original SCAN checkpoint.
        tau: steepness of WDS.
        smooth: lambda, sharpness of a region's attention to words; None = the model's own (9).
        norm: weight of the length term of WDS; 1 = the paper. The divergence varies a ninetieth as
            much as the length term does with our model, so that WDS is a length alone; 0.1 lets
            both speak (with ``tau=12``; ours, not the paper's).
        clip: whether negative grounding weights count as zero (ours, not the paper's).
    """

    profile: str = "release"
    model: str = "scan-coco"
    vocabulary: str | None = None
    tau: float = 1.5
    clip: bool = False
    smooth: float | None = None
    norm: float = 1.0

    name: ClassVar[str] = "tiger"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES, Need.IMAGE_REGIONS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("tiger", 0.0, 1.0, "mean of rrs and wds"),
        Column("rrs", 0.0, 1.0, "region order: candidate's against the references'"),
        Column("wds", 0.0, 1.0, "region weights: candidate's against the references'"),
        Column("scan_similarity", -np.inf, np.inf, "image-caption score, no references needed"),
    )
    modules: ClassVar[dict[str, str]] = {"torch": "neural", "safetensors": "neural"}
    identity: ClassVar[float | None] = 0.75
    empty: ClassVar[float] = float("nan")

    def __post_init__(self) -> None:
        if self.profile not in ("paper", "release"):
            raise UsageError(f"tiger: profile is 'paper' or 'release', not {self.profile!r}")
        if self.smooth is not None and not self.smooth > 0:
            raise UsageError(f"tiger: smooth (lambda) must be above 0, not {self.smooth:g}")
        if not self.norm >= 0:
            raise UsageError(f"tiger: norm must be 0 or more, not {self.norm:g}")

    @property
    def assets(self) -> tuple[str, ...]:
        """The grounding model."""
        return (self.model,) if self.model in assets.known() else ()

    @property
    def region_kind(self) -> str:
        """The features that the grounding model was trained on."""
        return model_features(self.model)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """One row of the four columns per sample; an image's texts are grounded once."""
        from captious.models.grounding import check_dimensions

        groups = group_by_image(samples, self.region_kind, self.name, references=True)
        model, store, by_image = self._model(), groups.store, groups.rows
        check_dimensions(model, store)
        rows = np.full((len(samples), len(self.columns)), np.nan)
        captions, references = samples.captions(), samples.references()
        images = list(by_image)
        for begin in range(0, len(images), IMAGES_AT_ONCE):
            batch = images[begin : begin + IMAGES_AT_ONCE]
            texts = dict.fromkeys(
                text
                for image in batch
                for row in by_image[image]
                for text in (captions[row], *references[row])
            )
            words = dict(zip(texts, model.words(list(texts)), strict=True))
            for image in batch:
                mine = by_image[image]
                rows[mine] = self._image(
                    model,
                    store[image],
                    [captions[row] for row in mine],
                    [references[row] for row in mine],
                    words,
                )
        unknown = sum(model.unknown(captions[row]) > 0 for row in groups.scored)
        cut = sum(model.cut(captions[row]) for row in groups.scored)
        empty = sum(not captions[row].strip() for row in groups.scored)
        notes = {
            "captions with words unknown to the grounding model": unknown,
            "captions longer than the grounding model reads": cut,
            "empty captions": empty,
        }
        return Stats(rows, groups.reasons, {text: count for text, count in notes.items() if count})

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Which regions candidate and references look at, and through which words."""
        from captious.metrics._looking.tiger_explain import explain

        store = regions_of(sample.evidence, self.region_kind, self.name)
        if sample.image is None or sample.image not in store:
            raise InputError(f"no region features of image {sample.image!r}")
        return explain(self, self._model(), store[sample.image], sample)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model and weights."""
        model = self._model()
        return {
            "model": Path(self.model).name,
            "weights": model.identity,
            "lambda": f"{model.smooth if self.smooth is None else self.smooth:g}",
            "words": model.reading,
        }

    def signature(self, refs: str, context: Any, evidence: Evidence | None = None) -> str:
        """Return the signature; lambda stands in it once, as the value that was used.

        The weight of the length term stands in it where it is not the paper's.

        Models that were trained on the values of this metric know it by this text.
        """
        parts = super().signature(refs, context, evidence).split("|")
        unsaid = ("smooth:", "norm:") if self.is_default("norm") else ("smooth:",)
        return "|".join(part for part in parts if not part.startswith(unsaid))

    def compare(self, reference: Floats, candidate: Floats) -> Floats:
        """TIGEr, RRS, WDS of grounding vectors ``[m, n]``."""
        if self.clip:
            reference, candidate = np.maximum(reference, 0), np.maximum(candidate, 0)
        rrs = region_rank_similarity(reference, candidate, scaled=self.profile == "release")
        divergence, length = weight_distribution_parts(reference, candidate)
        wds = sigmoid(-self.tau * (divergence + self.norm * length))
        return np.column_stack([(rrs + wds) / 2, rrs, wds])

    def _image(
        self,
        model: GroundingModel,
        regions: Any,
        captions: list[str],
        references: list[list[str]],
        words: dict[str, Any],
    ) -> Floats:
        """Columns of all captions of one image."""
        from captious.models.grounding import grounding_vectors, stack

        texts = list(dict.fromkeys([*captions, *(r for refs in references for r in refs)]))
        place = {text: number for number, text in enumerate(texts)}
        block, lengths = stack([words[text] for text in texts])
        vectors = model.regions(regions)
        hard = self.profile == "paper"
        grounded = grounding_vectors(model, vectors, block, lengths, hard, self.smooth)
        ground = grounded.numpy().astype(np.float64)
        similar = model.similarity(vectors, block, lengths).numpy().astype(np.float64)
        candidate = ground[[place[text] for text in captions]]
        reference = np.stack(
            [ground[[place[text] for text in refs]].mean(axis=0) for refs in references]
        )
        own = similar[[place[text] for text in captions]]
        return np.column_stack([self.compare(reference, candidate), own])

    def _model(self) -> GroundingModel:
        from captious.models.grounding import load

        return load(self.model, self.vocabulary)
