"""What the compact ViLBERT is trained on: options, data, and how batches are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captious.errors import InputError
from captious.training.scan import relevance
from captious.training.vilbert_teacher import LookingTeacher


@dataclass(frozen=True)
class VilbertOptions:
    """What a run is made of; saved beside the checkpoint and shown on the model card."""

    steps: int = 1600
    align_steps: int = 300
    images: int = 32
    learning_rate: float = 5e-4
    text_rate: float = 5e-5
    warmup: int = 100
    clip: float = 1.0
    weight_decay: float = 0.01
    masked: float = 0.15
    left_out: float = 0.6
    blank: float = 0.1
    words: float = 0.3
    regions: float = 0.3
    matching: float = 1.0
    grading: float = 0.5
    alignment: float = 0.5
    agreement: float = 2.0
    preference: float = 1.0
    contribution: float = 0.5
    looking: float = 1.0
    seeing: float = 0.5
    moved: float = 0.25
    mixed: float = 0.5
    dropout: float = 0.1
    feature_dropout: float = 0.1
    average: float = 0.0
    whitened: int = 512
    frozen_layers: int = 4
    longest: int = 22
    validate: int = 200
    bfloat16: bool = False
    seed: int = 1


@dataclass
class VilbertData:
    """Photographs with captions, ready to train on; region 0 is the whole photograph.

    Attributes:
        features: whitened region features ``[images, regions, dim]`` (half precision is fine).
        boxes: ``[images, regions, 5]``.
        captions: piece numbers with marks, per image and caption.
        near: similar photographs per photograph ``[images, k]``, nearest first, or None.
        teacher: sentence vectors ``[images, captions, k]`` of unit length, or None.
        blank: what the features of a blank photograph are, or None for zeros.
        mirrored: features and boxes of the mirrored photographs, or None.
        looking: a teacher that looks at the photographs, or None.
    """

    features: Tensor
    boxes: Tensor
    captions: list[list[tuple[int, ...]]]
    near: Tensor | None = None
    teacher: Tensor | None = None
    blank: Tensor | None = None
    mirrored: tuple[Tensor, Tensor] | None = None
    looking: LookingTeacher | None = None

    def __post_init__(self) -> None:
        if not len(self.features) == len(self.boxes) == len(self.captions):
            raise InputError(
                f"{len(self.features)} images have regions, {len(self.boxes)} boxes and "
                f"{len(self.captions)} captions"
            )
        if len(self.captions) < 2 or min(map(len, self.captions)) < 2:
            raise InputError("training needs at least two images, and two captions of every image")


@dataclass(frozen=True)
class Vocabulary:
    """The pieces that masking must know."""

    size: int
    mask: int
    specials: tuple[int, ...]


class Batches:
    """Draws photographs with four captions each; the same seed draws the same batches.

    Args:
        data: what is drawn from.
        pieces: the vocabulary, for masking.
        options: sizes and shares.
        targets: how many numbers of a masked region have to be told.
    """

    def __init__(
        self, data: VilbertData, pieces: Vocabulary, options: VilbertOptions, targets: int
    ) -> None:
        self.data, self.pieces, self.options, self.targets = data, pieces, options, targets
        self.draw = np.random.default_rng(options.seed)

    def __call__(self) -> dict[str, Tensor]:
        """Photographs, and references, own, similar and other captions, each in their order."""
        o, data = self.options, self.data
        many = min(o.images, len(data.captions))
        images = self.draw.choice(len(data.captions), many, replace=False)
        picks = [self.draw.permutation(len(data.captions[i]))[:2] for i in images]
        others = [self._similar(int(i)) for i in images], [self._other(int(i)) for i in images]
        chosen = [
            (images, np.array([first for first, _ in picks])),
            (images, np.array([second for _, second in picks])),
            *((np.array(rows), self._any_caption(rows)) for rows in others),
        ]
        pairs = [pair for rows, ks in chosen for pair in zip(rows, ks, strict=True)]
        ids = padded([self._cut(data.captions[i][k]) for i, k in pairs])
        words = (ids != 0) & ~np.isin(ids, self.pieces.specials)
        guess = words & (self.draw.random(ids.shape) < o.masked)
        guess[many:] = False
        kind = self.draw.random(ids.shape)
        seen = np.where(guess & (kind < 0.8), self.pieces.mask, ids)
        anything = self.draw.integers(0, self.pieces.size, ids.shape)
        seen = np.where(guess & (kind >= 0.9), anything, seen)
        flip = self.draw.random(many) < (0.5 if data.mirrored is not None else 0.0)
        features, boxes = self._seen(images, flip)
        blank = torch.from_numpy(self.draw.random(many) < o.blank)
        hidden = torch.from_numpy(self.draw.random(features.shape[:2]) < o.masked)
        hidden[:, 0] = False  # the whole photograph is no region to guess
        hidden[blank] = False
        shown = features.masked_fill(hidden[..., None], 0.0)
        shown[blank] = 0.0 if data.blank is None else data.blank
        boxes[blank] = boxes[blank][:, :1]
        return {
            "ids": torch.from_numpy(seen),
            "words": torch.from_numpy(words & ~guess),
            "wanted": torch.from_numpy(np.where(guess, ids, -100)),
            "features": shown,
            "boxes": boxes,
            "blank": blank,
            "hidden": hidden,
            "targets": features[..., : self.targets],
            "relevance": self._relevance(chosen),
        }

    def _seen(self, images: Any, flip: Any) -> tuple[Tensor, Tensor]:
        """Features and boxes of some photographs, as they are or mirrored, of the regions kept."""
        data, rows = self.data, torch.from_numpy(images)
        keep = self._regions_kept(data.features.shape[1])
        blocks = [block[rows][:, keep] for block in (data.features, data.boxes)]
        if data.mirrored is not None:
            turned = torch.from_numpy(flip)
            for own, other in zip(blocks, data.mirrored, strict=True):
                own[turned] = other[rows[turned]][:, keep]
        return blocks[0].float(), blocks[1]

    def _cut(self, text: tuple[int, ...]) -> tuple[int, ...]:
        longest = self.options.longest
        return text if len(text) <= longest else (*text[: longest - 1], text[-1])

    def _any_caption(self, images: list[int]) -> Any:
        return np.array([self.draw.integers(len(self.data.captions[i])) for i in images])

    def _similar(self, image: int) -> int:
        near = self.data.near
        if near is None:
            return self._other(image)
        return int(near[image, int(self.draw.integers(near.shape[1]))])

    def _other(self, image: int) -> int:
        other = int(self.draw.integers(len(self.data.captions) - 1))
        return other + (other >= image)

    def _regions_kept(self, count: int) -> Tensor:
        keep = max(2, round(count * (1 - self.options.left_out)))
        return torch.from_numpy(np.sort(np.r_[0, 1 + self.draw.permutation(count - 1)[: keep - 1]]))

    def _relevance(self, chosen: list[tuple[Any, Any]]) -> Tensor:
        """How relevant the three captions are for the photograph ``[images, 3]``."""
        images = torch.from_numpy(chosen[0][0])
        if self.data.teacher is None:
            return torch.tensor([1.0, 0.0, 0.0]).expand(len(images), 3)
        mine = self.data.teacher[images].float()
        own, picks = torch.arange(len(images)), torch.from_numpy(chosen[1][1])
        columns = [relevance(self.data.teacher, images, picks)[own, own]]
        for rows, ks in chosen[2:]:
            vectors = self.data.teacher[torch.from_numpy(rows), torch.from_numpy(ks)].float()
            columns.append(torch.einsum("ikd,id->i", mine, vectors) / mine.shape[1])
        return torch.stack(columns, 1)

    def pairs(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Photographs with one caption each: piece numbers, features, boxes."""
        data = self.data
        rows = self.draw.choice(len(data.captions), min(count, len(data.captions)), False)
        picks = self._any_caption(rows.tolist())
        texts = [self._cut(data.captions[i][k]) for i, k in zip(rows, picks, strict=True)]
        images, keep = torch.from_numpy(rows), self._regions_kept(data.features.shape[1])
        ids = torch.from_numpy(padded(texts))
        return ids, data.features[images][:, keep].float(), data.boxes[images][:, keep]


def padded(texts: list[tuple[int, ...]]) -> Any:
    """Piece numbers in one block, filled up with zeros."""
    ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    return ids
