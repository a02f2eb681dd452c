"""The second stage: a trained ViLBERT learns to look.

After the first stage words can be compared well, but what the photograph at hand adds to the score
is next to nothing: a few thousand captioned photographs teach it too little. A grounding model
(SCAN), made for nothing else, knows more, and of *any* set of regions and any caption. So the text
states of the last block are taught directly: they are to be what they were in front of a blank
photograph before this stage, moved along one fixed direction by how well the teacher finds the
caption and the word to fit, one way or the other. Words that fit come closer to each other, and F
rises; those that do not fit go away from them. Nothing moves in front of a blank photograph.

The teacher knows its train photographs too well. Half of the photographs shown are therefore
mixtures of two, and all lack some regions; the teacher is asked about the very regions shown.
Matching goes on beside, on the photographs that are not mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.errors import InputError, UsageError
from captious.models.train.vilbert import VilbertTrainer
from captious.models.train.vilbert_batches import Batches, VilbertOptions, padded
from captious.models.vilbert import Vilbert
from captious.models.vilbert_heads import MATCH

LOOK = VilbertOptions(
    steps=1000, align_steps=0, learning_rate=5e-4, text_rate=1e-4, warmup=40, left_out=1 / 3,
    matching=0.2, dropout=0.0, average=0.985, validate=100,
)  # fmt: skip
"""Slower text, no dropout but that of features, averaged weights."""

_MIDDLE, _UNIT, _MOST = 1.5, 1.5, 1.6  # deviations above random captions; the largest shift


def shift(fit: Tensor) -> Tensor:
    """How far words are moved: 1 for a photograph's own, -1 for random ones, about."""
    return ((fit - _MIDDLE) / _UNIT).clamp(-_MOST, _MOST)


def looking_loss(
    states: Tensor, mask: Tensor, still: Tensor, direction: Tensor, far: Tensor, moved: float
) -> Tensor:
    """How far states are from where they should be, in units of the shift, squared.

    Args:
        states: text states ``[b, n, d]`` in front of photographs.
        mask: which positions are real.
        still: unit states of the same texts in front of a blank photograph, before this stage.
        direction: a unit vector.
        far: how far each word is to be moved ``[b, n]``.
        moved: length of a shift of 1.
    """
    wanted = F.normalize(still + moved * far[..., None] * direction, dim=-1)
    error = (F.normalize(states, dim=-1) - wanted).square().sum(-1) / moved**2
    return (error * mask).sum() / mask.sum()


class LookingBatches(Batches):
    """Sets of regions with four captions each: own, similar, similar or the other's, any."""

    def __call__(self) -> dict[str, Tensor]:
        """Captions in blocks, each in the order of the sets of regions."""
        o, data, teacher = self.options, self.data, self.data.looking
        if teacher is None:
            raise UsageError("learning to look needs a grounding model")
        count = data.features.shape[1] - 1
        if teacher.regions[0].shape[1] != count:
            raise InputError(
                f"the grounding model has {teacher.regions[0].shape[1]} regions of a photograph, "
                f"the others are {count}"
            )
        many = min(o.images, len(data.captions))
        images = self.draw.choice(len(data.captions), many, replace=False)
        mixed = self.draw.random(many) < o.mixed
        others = np.array([
            self._similar(int(i)) if self.draw.random() < 0.5 else self._other(int(i))
            for i in images
        ])  # fmt: skip
        which, at = self._mixture(images, np.where(mixed, others, images), count)
        turned = data.mirrored is not None and self.draw.random() < 0.5
        features, boxes = data.mirrored if turned and data.mirrored else (data.features, data.boxes)
        parts = features[which, 1 + at].float()
        shown = torch.cat([parts.mean(1, True), parts], 1)  # the mean is the whole photograph
        shown = F.dropout(shown, o.feature_dropout)
        places = torch.cat([boxes[torch.from_numpy(images), :1], boxes[which, 1 + at]], 1)
        blank = torch.from_numpy(self.draw.random(many) < o.blank)
        shown[blank] = 0.0 if data.blank is None else data.blank
        places[blank] = places[blank][:, :1]
        blocks = self._captions(images, others, mixed)
        regions = teacher.regions[int(turned)][which, at].float()
        found = teacher(regions, list(zip(*blocks, strict=True)))
        texts = [self._cut(data.captions[i][k]) for block in blocks for i, k in block]
        return {
            "ids": torch.from_numpy(padded(texts)),
            "features": shown,
            "boxes": places,
            "far": _shifts(texts, found, blank),
            "whole": torch.from_numpy(~mixed) & ~blank,
        }

    def _captions(self, images: Any, others: Any, mixed: Any) -> list[list[tuple[int, int]]]:
        """Four blocks of captions, named by photograph and number."""
        near = [self._similar(int(i)) for i in images]
        third = [
            int(other) if both else self._similar(int(i))
            for i, other, both in zip(images, others, mixed, strict=True)
        ]
        any_other = [self._other(int(i)) for i in images]
        return [
            list(zip(some, self._any_caption(some).tolist(), strict=True))
            for some in (images.tolist(), near, third, any_other)
        ]

    def _mixture(self, images: Any, others: Any, count: int) -> tuple[Tensor, Tensor]:
        """Which photograph each region is of, and which of its regions it is ``[images, kept]``."""
        kept = max(2, round(count * (1 - self.options.left_out)))
        mine = self.draw.integers(kept // 4, kept - kept // 4 + 1, len(images))[:, None]
        first = np.arange(kept)[None] < mine
        which = np.where(first, images[:, None], others[:, None])
        at = np.stack([self.draw.permutation(count)[:kept] for _ in images])
        return torch.from_numpy(which), torch.from_numpy(at)


def _shifts(texts: list[tuple[int, ...]], fits: list[Tensor], blank: Tensor) -> Tensor:
    """How far each piece of each text is to be moved; marks as the text is, blank not at all.

    Texts come in blocks, fits set after set.
    """
    sets = len(blank)
    out = torch.zeros(len(texts), max(map(len, texts)))
    for row, text in enumerate(texts):
        block, of = divmod(row, sets)
        if not blank[of]:
            mine = fits[of * (len(texts) // sets) + block][: len(text) - 2]
            out[row, : len(text)] = shift(F.pad(mine, (1, 1), value=float(mine.mean())))
    return out


class LookingTrainer(VilbertTrainer):
    """The run of this stage; it has to begin with the best weights of another."""

    starts_at = "best.pt"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches: Batches = LookingBatches(
            self.data, self.pieces, self.options, self.config.v_target_size
        )
        draw = torch.Generator().manual_seed(0)
        self.direction = F.normalize(torch.randn(self.config.hidden_size, generator=draw), dim=0)
        self.before: Vilbert | None = None
        self._still: dict[tuple[int, ...], Tensor] = {}

    def start_from(self, run: Path) -> None:
        """Begin with the weights of another run, and remember them."""
        super().start_from(run)
        self.before = Vilbert(self.config).eval().requires_grad_(False)
        self.before.load_state_dict(self.model.state_dict())

    def still(self, ids: Tensor) -> Tensor:
        """Unit states of texts in front of a blank photograph, by the weights of the beginning."""
        if self.before is None:
            raise UsageError("learning to look goes on from another run: name it with --start")
        keys = [tuple(row[row != 0].tolist()) for row in ids]
        new = [at for at, key in enumerate(keys) if key not in self._still]
        if new:
            some = ids[new, : max(len(keys[at]) for at in new)]
            with torch.no_grad():
                seen = self.data.features.new_zeros(1, 1, self.data.features.shape[-1]).float()
                if self.data.blank is not None:
                    seen = self.data.blank.reshape(1, 1, -1).float()
                image = self.before.image_alone(seen, self.data.boxes[:1, :1], None)
                image = image.take(torch.zeros(len(some), dtype=torch.long))
                mask = some != 0
                text = self.before.text_alone(some, mask, None)
                *_, (found, _) = self.before.together(
                    text, mask, image, None, last=self.config.blocks
                )
            for at, states in zip(new, F.normalize(found, dim=-1), strict=True):
                self._still[keys[at]] = states[: len(keys[at])].half()
        mine = [self._still[key].float() for key in keys]
        states = nn.utils.rnn.pad_sequence(mine, batch_first=True)
        return F.pad(states, (0, 0, 0, ids.shape[1] - states.shape[1]))

    def losses(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Where the words should be, and which captions belong."""
        ids, many = batch["ids"], len(batch["features"])
        texts = self.texts(ids)
        start = self.model.image_alone(batch["features"], batch["boxes"], None)
        out = self.read(texts, start, ids.shape[1])
        words = looking_loss(
            out.text[-1], ids != 0, self.still(ids), self.direction, batch["far"],
            self.options.moved,
        )  # fmt: skip
        right = torch.arange(4 * many) < many
        belongs = F.cross_entropy(
            self.heads.match(out), torch.where(right, MATCH, 1 - MATCH),
            torch.tensor([3.0, 1.0] if MATCH == 0 else [1.0, 3.0]), reduction="none",
        )  # fmt: skip
        there = batch["whole"].repeat(4)
        matching = (belongs * there).sum() / there.sum().clamp(min=1)
        return {"looking": words, "matching": matching}
