"""ViLBERTScore: BERTScore whose token vectors have seen the image.

Lee et al. 2020. Caption and references are each read by ViLBERT together with the regions of the
image; the text states behind one co-attention block are compared as in BERTScore:

    P = mean over caption tokens of the best cosine among the reference's tokens
    R = mean over reference tokens of the best cosine among the caption's tokens
    F = 2 P R / (P + R)

and P, R, F are each averaged over the references (F is not made of the mean P and R). With cosines
a-a 1, a-the .5, dog-dog 1 and all else 0, "a dog" against "the dog" has P = R = F = .75.

Equations 1 and 2 of the paper print the two texts swapped; this is the standard orientation, which
the released program has too. Which positions count is the ``profile``:

* ``clean`` (default): the tokens of the text, nothing else; padding takes no part. F is 0 where P
  or R is not positive: a harmonic mean of numbers of different sign can leave every range.
* ``release``: as the released program: the task token that multi-task models insert behind [CLS]
  counts as a word, texts are cut to 37 tokens without keeping [SEP], and a best cosine below zero
  is zero as long as a text is padded; F by its formula, whatever the signs. The program fails on
  models without task token, and so does this.

The default model is a compact ViLBERT that we trained (``vilbert-coco``). The original weights
are ``vilbert-pretrained`` (ViLBERTScore) and ``vilbert-multitask`` (ViLBERTScore*); they need
ResNeXt-152 features (2048 numbers). Any other ViLBERT, and LXMERT, VisualBERT and ViLT of
transformers, are loaded with ``model=PATH`` or a hub name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious.assets import known
from captious.errors import CaptiousError, InputError, MissingAsset, UsageError
from captious.metrics._looking.by_image import group_by_image, regions_of
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.models.features import model_features, model_kind
from captious.types import CaptionSet, Evidence, Floats, Ints, Regions, Sample

if TYPE_CHECKING:
    from captious.models.image_text import ImageTextEncoder, Text
    from captious.models.text_encoder import Encoded

_PAIRS_AT_ONCE = 512


@dataclass(frozen=True)
class Vilbertscore(Metric):
    """ViLBERTScore precision, recall and F.

    Args:
        model: asset name (``vilbert-coco``, which comes with captious;
            ``vilbert-pretrained``, ``vilbert-multitask``), path or hub name.
        config: configuration of an original checkpoint that is not of full size.
        layer: co-attention block 1, 2, ... whose text states are compared; None = the last.
        profile: ``clean`` or ``release``.
        length: pieces of a text, marks included, that are read; the rest is cut.
        blind: every image is replaced by a blank one: what the words alone are worth.
        dtype: ``float32``, ``bfloat16`` or ``float16``, on every device.
    """

    model: str = "vilbert-coco"
    config: str | None = None
    layer: int | None = None
    profile: str = "clean"
    length: int = 37
    blind: bool = False
    dtype: str = "float32"

    name: ClassVar[str] = "vilbertscore"
    renamed: ClassVar[dict[str, str]] = {"weights": "model"}
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES, Need.IMAGE_REGIONS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("vilbertscore_p", -1.0, 1.0, "precision: how far references support the caption"),
        Column("vilbertscore_r", -1.0, 1.0, "recall: how far it covers the references"),
        Column("vilbertscore_f", -1.0, 1.0, "F1: harmonic mean of the two"),
    )
    modules: ClassVar[dict[str, str]] = {
        "torch": "neural",
        "safetensors": "neural",
        "tokenizers": "neural",
    }
    batch: ClassVar[int] = 8192  # rows that share references meet in one batch
    identity: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if self.profile not in ("clean", "release"):
            raise UsageError(f"vilbertscore: profile is 'clean' or 'release', not {self.profile!r}")
        if self.length < 3:
            raise UsageError("vilbertscore: length must leave room for a word between the marks")

    @property
    def assets(self) -> tuple[str, ...]:
        """The weights."""
        return (self.model,) if self.model in known() else ()

    @property
    def region_kind(self) -> str:
        """The features that the model was trained on; blank images and pixels need none."""
        if self.blind:
            return "blank"
        if model_kind(self.model) == "vilt":
            return "pixels"
        return model_features(self.model)

    def missing(self) -> list[CaptiousError]:
        """Name absent packages, and weights that are not there."""
        errors = Metric.missing(self)
        if any(find_spec(module) is None for module in self.modules):
            return errors
        from captious.models import image_text

        try:
            place = image_text.locate(self.model)
            image_text.locate_text_stream(place)
        except MissingAsset as err:
            return list({str(error): error for error in (*errors, err)}.values())
        return errors

    def prepare(self, samples: CaptionSet) -> None:
        """Find everything that is wrong with model and images before any work is done."""
        encoder = self.encoder()
        self.chosen_layer(encoder)
        images = list(dict.fromkeys(image for image in samples.images if image is not None))
        if self.blind:
            return
        if encoder.feature_size is None:
            _check_photographs(images)
            return
        store = self.store(samples.evidence)
        self._check_store(encoder, store)
        _check_regions(encoder, store, [image for image in images if image in store])

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return P, R, F of each caption."""
        encoder = self.encoder()
        layer = self.chosen_layer(encoder)
        rows = np.full((len(samples), 3), np.nan)
        reasons = self.reasons(samples, encoder)
        cut = np.zeros(len(samples), bool)
        order = [row for row in np.lexsort((np.arange(len(samples)), _ranks(samples.images)))
                 if int(row) not in reasons]  # fmt: skip
        for block in _blocks(samples, order):
            rows[block], cut[block] = self._block(samples.take(block), encoder, layer)
        many = int(np.count_nonzero(cut))
        notes = {f"captions or references cut to {self.length} tokens": many} if many else {}
        return Stats(rows, reasons, notes)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Token matching with the image and without it, and where each word looks."""
        from captious.metrics._looking.vilbertscore_explain import explain

        encoder = self.encoder()
        why = self.reasons(CaptionSet.of([sample]), encoder)
        if why:
            raise InputError(why[0])
        return explain(self, encoder, sample)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model, weights, layer, features, precision."""
        encoder = self.encoder()
        parts = {
            "model": encoder.kind,
            "weights": f"{encoder.name}({encoder.identity})",
            "config": encoder.shape,
            "layer": f"{self.chosen_layer(encoder)}/{encoder.layers}",
            "dtype": encoder.dtype,
        }
        return parts

    def evidence_parts(self, evidence: Evidence) -> dict[str, str]:
        """The features that were read."""
        if self.region_kind in ("blank", "pixels"):
            return {"regions": self.region_kind}
        store = evidence.regions_like(self.region_kind)
        return {"regions": "none" if store is None else store.source}

    # -- parts that the explanation uses too ---------------------------------------------------

    def encoder(self) -> ImageTextEncoder:
        """The model, checked against the parameters."""
        from captious.models import image_text

        encoder = image_text.load(self.model, self.config, self.dtype)
        if self.length > encoder.positions:
            raise UsageError(
                f"vilbertscore: length={self.length} is more than the {encoder.positions} "
                f"positions of {encoder.name!r}: give length={encoder.positions} or less"
            )
        if self.profile == "release" and not encoder.task:
            raise UsageError(
                f"vilbertscore: profile='release' is defined for models with task tokens; "
                f"{encoder.name!r} has none and the released program fails on it: use "
                "profile='clean'"
            )
        return encoder

    def chosen_layer(self, encoder: ImageTextEncoder) -> int:
        """The layer, or which ones there are."""
        layer = encoder.layers if self.layer is None else self.layer
        if not 1 <= layer <= encoder.layers:
            raise UsageError(
                f"vilbertscore: {encoder.name!r} has layers 1 to {encoder.layers}, not {layer}"
            )
        return layer

    def picture(self, image: str | None, encoder: ImageTextEncoder, evidence: Evidence) -> Any:
        """An image as the model takes it."""
        if self.blind or image is None:
            return encoder.blank()
        if encoder.feature_size is None:
            return encoder.see(image, None)
        return encoder.see(image, self.store(evidence)[image])

    def tokenize(self, texts: Sequence[str], encoder: ImageTextEncoder) -> list[Text]:
        """Piece numbers, cut as the profile says."""
        return encoder.pieces.tokenize(texts, self.length, keep_end=self.profile == "clean")

    def vectors(
        self,
        texts: Sequence[Text],
        which: Sequence[int],
        images: Sequence[Any],
        encoder: ImageTextEncoder,
        layer: int,
    ) -> Encoded:
        """Unit vectors of the scored positions, text after text.

        In the release profile a vector of zeros stands behind each text that the released program
        would have padded: it can be the best match, at cosine 0, but has no weight of its own.
        """
        import torch

        from captious.models.text_encoder import Encoded

        states = encoder.states(texts, which, images, layer)
        first = 2 if encoder.task else 1
        release = self.profile == "release"
        parts = []
        for text, text_states in zip(texts, states, strict=True):
            scored = text_states[first - release : first + text.words]
            if release:
                padded = text.words < self.length - 2
                filler = torch.zeros_like(scored[:1]) if padded else scored[:1]
                scored = torch.cat([scored, filler])
            parts.append(scored)
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(vectors) for vectors in parts], out=offsets[1:])
        return Encoded(
            torch.cat(parts),
            np.zeros(int(offsets[-1]), np.int32),
            offsets,
            np.array([text.cut for text in texts], bool),
            prefix=0,
            suffix=int(release),
        )

    # -- inside ----------------------------------------------------------------------------------

    def reasons(
        self, samples: CaptionSet, encoder: ImageTextEncoder, references: bool = True
    ) -> dict[int, str]:
        """Rows that cannot be scored, and why."""
        if not self.blind and encoder.feature_size is not None:
            self._check_store(encoder, self.store(samples.evidence))
            return group_by_image(samples, self.region_kind, self.name, references).reasons
        reasons = {}
        for row, image in enumerate(samples.images):
            if references and samples.reference_counts[row] == 0:
                reasons[row] = "no references"
            elif image is None and not self.blind:
                reasons[row] = "the sample has no image"
        return reasons

    def _block(
        self, samples: CaptionSet, encoder: ImageTextEncoder, layer: int
    ) -> tuple[Floats, Any]:
        """P, R, F of some rows, and whether a text of the row was cut."""
        from captious.metrics._matching.token_blocks import Block
        from captious.metrics.bertscore import score_pairs

        names: dict[Any, int] = {}
        owner = [names.setdefault(None if self.blind else i, len(names)) for i in samples.images]
        counts = samples.reference_counts
        left = samples.caption.astype(np.int64)
        right = samples.reference.astype(np.int64)
        image = np.array(owner)
        keys = np.concatenate(
            [np.column_stack([left, image]), np.column_stack([right, np.repeat(image, counts)])]
        )
        pairs, place = np.unique(keys, axis=0, return_inverse=True)
        place = place.reshape(-1)
        texts = self.tokenize(samples.pool.strings(pairs[:, 0]), encoder)
        pictures = [self.picture(name, encoder, samples.evidence) for name in names]
        encoded = self.vectors(texts, pairs[:, 1].tolist(), pictures, encoder, layer)
        captions = np.repeat(place[: len(samples)], counts)
        references = place[len(samples) :]
        words = np.array([text.words for text in texts])
        full = (words[captions] > 0) & (words[references] > 0)  # nothing matches an empty text
        values = np.zeros((len(captions), 3))
        block = Block(np.arange(len(samples)), place[: len(samples)], [], encoded)
        if full.any():
            values[full] = score_pairs(
                block,
                captions[full],
                references[full],
                np.ones(1),
                encoder.device,
                self.profile == "release",
            )
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        rows = np.add.reduceat(values, starts, axis=0) / counts[:, None]
        cut = encoded.cut[place[: len(samples)]]
        cut = cut | np.logical_or.reduceat(encoded.cut[references], starts)
        return rows, cut

    def store(self, evidence: Evidence) -> Regions:
        """The region features of this run."""
        return regions_of(evidence, self.region_kind, self.name)

    def _check_store(self, encoder: ImageTextEncoder, store: Regions) -> None:
        if store.dim != encoder.feature_size:
            wants = f" ({encoder.features})" if encoder.features else ""
            raise InputError(
                f"{encoder.name!r} needs region features of length {encoder.feature_size}{wants}; "
                f"these are of length {store.dim} ({store.source}): make them with "
                f"`captious regions PHOTOS -o REGIONS --for {self.name}`"
            )


def _check_regions(encoder: ImageTextEncoder, store: Regions, images: Sequence[str]) -> None:
    """Every image whose regions the model cannot take, at once."""
    from captious.models.image_text import region_problems

    size = encoder.feature_size or 0
    problems = [
        problem
        for image in images
        for problem in region_problems(image, store[image], size, encoder.needs_boxes)
    ]
    if problems:
        raise InputError(problems)


def _check_photographs(images: Sequence[str]) -> None:
    from pathlib import Path

    absent = [f"{image}: no such photograph" for image in images if not Path(image).is_file()]
    if absent:
        raise InputError(absent)


def _ranks(images: Any) -> Ints:
    """A number per image, so that rows of an image can be put together."""
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(image, len(seen)) for image in images], np.int64)


def _blocks(samples: CaptionSet, order: Sequence[int]) -> Iterator[Ints]:
    """Rows with a bounded number of distinct texts per image in all."""
    seen: set[tuple[Any, int]] = set()
    start = 0
    for at, row in enumerate(order):
        image = samples.images[row]
        seen.add((image, int(samples.caption[row])))
        references = samples.reference[samples.offsets[row] : samples.offsets[row + 1]]
        seen.update((image, int(r)) for r in references)
        if len(seen) >= _PAIRS_AT_ONCE or at == len(order) - 1:
            yield np.array(order[start : at + 1], np.int64)
            start = at + 1
            seen.clear()
