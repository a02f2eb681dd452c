"""A ViLBERT learns to look.

Masked words and regions, matching and the score itself make words easier to compare, but what the
photograph at hand adds to the score is next to nothing: captioned photographs teach it too little.
A grounding model (SCAN), made for nothing else, knows more, and of *any* set of regions and any
caption. So the text states of the last block are taught directly: they are to be what they were
before, moved along one fixed direction by how well the teacher finds the caption and the word to
fit, one way or the other. Words that fit come closer to each other, and F rises; those that do not
fit go away from them. Given a blank photograph, nothing moves. *Before* means by the text encoder
that the run starts from, at the depth of the last block; in a run that goes on with another, by
that one's network with a blank photograph.

One number per word teaches attention slowly, so half of the heads of every block also learn the
teacher's dot product of each word with each region.

The teacher knows its train photographs too well. Half of the photographs shown are therefore
mixtures of two, and all lack some regions; the teacher is asked about the very regions shown.
Matching goes on beside, on the photographs that are not mixed; its values are to follow the
teacher's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.errors import InputError, UsageError
from captious.models.vilbert import CoAttention, Vilbert, key_mask
from captious.models.vilbert_heads import MATCH
from captious.progress import track
from captious.training.vilbert import VilbertTrainer
from captious.training.vilbert_batches import Batches, VilbertOptions, padded
from captious.training.vilbert_objectives import grading_loss

LOOK = VilbertOptions(
    steps=1000, align_steps=300, learning_rate=5e-4, text_rate=1e-4, warmup=40, left_out=1 / 3,
    matching=0.2, dropout=0.0, average=0.985, moved=0.3, validate=100,
)  # fmt: skip
"""Slower text, no dropout but that of features, averaged weights."""

_SHARP = 10.0  # a dot product of 1 in the softmax of the attention
_MIDDLE, _UNIT = 0.75, 1.5  # deviations above random captions
_LEAST, _MOST = -1.6, 2.0  # shifts


def shift(fit: Tensor) -> Tensor:
    """How far words are moved: 1.5 for a photograph's own, -0.5 for random ones, about."""
    return ((fit - _MIDDLE) / _UNIT).clamp(_LEAST, _MOST)


def looking_loss(
    states: Tensor, mask: Tensor, still: Tensor, direction: Tensor, far: Tensor, moved: float
) -> Tensor:
    """How far states are from where they should be, in units of the shift, squared.

    Single words, and how far captions are moved on the whole.

    Args:
        states: text states ``[b, n, d]`` in front of photographs.
        mask: which positions are real.
        still: unit states of the same texts given a blank photograph, before this stage.
        direction: a unit vector.
        far: how far each word is to be moved ``[b, n]``.
        moved: length of a shift of 1.
    """
    wanted = F.normalize(still + moved * far[..., None] * direction, dim=-1)
    wrong = (F.normalize(states, dim=-1) - wanted) / moved
    words = (wrong.square().sum(-1) * mask).sum() / mask.sum()
    captions = ((wrong @ direction) * mask).sum(-1) / mask.sum(-1)
    return words + captions.square().mean()


def seeing_loss(query: Tensor, key: Tensor, dots: Tensor, heads: int) -> Tensor:
    """How much of the teacher's dot products the first half of the heads does not see.

    Args:
        query: of words ``[b, n, d]``.
        key: of the whole photograph and its regions ``[b, 1 + r, d]``.
        dots: the teacher's ``[b, n, r]``, nan where it has none.
        heads: of the attention.
    """
    q, k = (states.unflatten(-1, (heads, -1)).transpose(1, 2) for states in (query, key[:, 1:]))
    half = max(1, heads // 2)
    student = q[:, :half] @ k[:, :half].mT / q.shape[-1] ** 0.5 / _SHARP
    there = ~dots.isnan()
    if not there.any():
        return student.new_zeros(())
    error = (student - dots.nan_to_num()[:, None]).square().mean(1)[there]
    return error.mean() / dots[there].var(correction=0).clamp(min=1e-6)


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
                f"the grounding model has {teacher.regions[0].shape[1]} regions per photograph, "
                f"the region features have {count}"
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
        picked = features[which, 1 + at].float()
        shown = torch.cat([picked.mean(1, True), picked], 1)  # the mean is the whole photograph
        shown = F.dropout(shown, o.feature_dropout)
        places = torch.cat([boxes[torch.from_numpy(images), :1], boxes[which, 1 + at]], 1)
        blank = torch.from_numpy(self.draw.random(many) < o.blank)
        shown[blank] = 0.0 if data.blank is None else data.blank
        places[blank] = places[blank][:, :1]
        blocks = self._captions(images, others, mixed)
        lessons = teacher(which, at, list(zip(*blocks, strict=True)), int(turned))
        texts = [self._cut(data.captions[i][k]) for block in blocks for i, k in block]
        return {
            "ids": torch.from_numpy(padded(texts)),
            "features": shown,
            "boxes": places,
            "far": _shifts(texts, [lesson.fits for lesson in lessons], blank),
            "dots": _dots(texts, [lesson.dots for lesson in lessons], blank),
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
            list(zip(photographs, self._any_caption(photographs).tolist(), strict=True))
            for photographs in (images.tolist(), near, third, any_other)
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
    shifts = torch.zeros(len(texts), max(map(len, texts)))
    for row, text in enumerate(texts):
        block, of = divmod(row, sets)
        if not blank[of]:
            mine = fits[of * (len(texts) // sets) + block][: len(text) - 2]
            shifts[row, : len(text)] = shift(F.pad(mine, (1, 1), value=float(mine.mean())))
    return shifts


def _dots(texts: list[tuple[int, ...]], dots: list[Tensor], blank: Tensor) -> Tensor:
    """The teacher's dot products of each piece with each region; nan where it has none."""
    sets = len(blank)
    wide = max(map(len, texts))
    out = torch.full((len(texts), wide, dots[0].shape[1]), torch.nan)
    for row, text in enumerate(texts):
        block, of = divmod(row, sets)
        if not blank[of]:
            out[row, 1 : len(text) - 1] = dots[of * (len(texts) // sets) + block][: len(text) - 2]
    return out


class LookingTrainer(VilbertTrainer):
    """The run of this stage; it begins with a text encoder, or with the best weights of another."""

    starts_at = "best.pt"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches: Batches = LookingBatches(
            self.data, self.pieces, self.options, self.config.v_target_size
        )
        draw = torch.Generator().manual_seed(0)
        self.direction = F.normalize(torch.randn(self.config.hidden_size, generator=draw), dim=0)
        self.encoder = deepcopy(self.model).eval().requires_grad_(False)
        self.before: Vilbert | None = None
        self._still: dict[tuple[int, ...], Tensor] = {}

    def start_from(self, run: Path) -> None:
        """Begin with the weights of another run, and remember them."""
        super().start_from(run)
        self.before = Vilbert(self.config).eval().requires_grad_(False)
        self.before.load_state_dict(self.model.state_dict())

    def still(self, ids: Tensor) -> Tensor:
        """Unit states of texts that nothing has moved, by the weights of the beginning."""
        keys = [tuple(row[row != 0].tolist()) for row in ids]
        new = [at for at, key in enumerate(keys) if key not in self._still]
        if new:
            new_ids = ids[new, : max(len(keys[at]) for at in new)]
            with torch.no_grad():
                if self.before is None:
                    new_states = self._encoded(new_ids)
                else:
                    new_states = self._before_blank(self.before, new_ids)
            for at, states in zip(new, F.normalize(new_states, dim=-1), strict=True):
                self._still[keys[at]] = states[: len(keys[at])].half()
        mine = [self._still[key].float() for key in keys]
        states = nn.utils.rnn.pad_sequence(mine, batch_first=True)
        return F.pad(states, (0, 0, 0, ids.shape[1] - states.shape[1]))

    def _encoded(self, ids: Tensor) -> Tensor:
        """States of the text encoder at the depth of the last block."""
        mask = ids != 0
        states = self.encoder.embeddings(ids, None)
        for layer in self.encoder.encoder.layer[: self.config.t_biattention_id[-1]]:
            states = layer(states, key_mask(mask))
        return states

    def _before_blank(self, before: Vilbert, ids: Tensor) -> Tensor:
        """States of the run that this one goes on with, given a blank photograph."""
        seen = self.data.features.new_zeros(1, 1, self.data.features.shape[-1]).float()
        if self.data.blank is not None:
            seen = self.data.blank.reshape(1, 1, -1).float()
        image = before.image_alone(seen, self.data.boxes[:1, :1], None)
        image = image.take(torch.zeros(len(ids), dtype=torch.long))
        mask = ids != 0
        text = before.text_alone(ids, mask, None)
        *_, (states, _) = before.together(text, mask, image, None, last=self.config.blocks)
        return states

    def align(self) -> None:
        """Before the first step: the first block's queries and keys learn to see as the teacher.

        These steps cost little, because nothing behind the attention is computed. Later blocks
        begin with the same projections.
        """
        o = self.options
        first, *later = (cast(CoAttention, layer) for layer in self.model.encoder.c_layer)
        own = first.biattention
        modules = (self.model.v_embeddings, own.query2, own.key1)
        parameters = [p for module in modules for p in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=2 * o.learning_rate, weight_decay=0.01)
        self.train()
        for step in track(range(o.align_steps), "aligning words and regions", unit="steps"):
            for group in optimizer.param_groups:
                left = 1 - step / o.align_steps
                group["lr"] = 2 * o.learning_rate * min(1.0, (step + 1) / 30, 0.05 + left)
            batch = self.batches()
            with torch.no_grad():
                words = self.alone(batch["ids"])
            regions = own.key1(self.model.v_embeddings(batch["features"], batch["boxes"]))
            loss = seeing_loss(
                own.query2(words), regions.repeat(4, 1, 1), batch["dots"], first.heads
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if o.align_steps:
            for block in later:
                block.biattention.query2.load_state_dict(own.query2.state_dict())
                block.biattention.key1.load_state_dict(own.key1.state_dict())
            self.average = {n: p.detach().clone() for n, p in self._learning()}

    @contextmanager
    def _watched(self) -> Iterator[list[tuple[list[Tensor], list[Tensor]]]]:
        """Of each block, the queries of words and keys of regions that are computed meanwhile."""
        watched: list[tuple[list[Tensor], list[Tensor]]] = []
        hooks = []
        for module in self.model.encoder.c_layer:
            own = cast(CoAttention, module).biattention
            watched.append(([], []))
            for layer, collected in zip((own.query2, own.key1), watched[-1], strict=True):
                hooks.append(
                    layer.register_forward_hook(
                        lambda _, __, now, collected=collected: collected.append(now)
                    )
                )
        try:
            yield watched
        finally:
            for hook in hooks:
                hook.remove()

    def _sees(
        self,
        projected: list[tuple[list[Tensor], list[Tensor]]],
        texts: list[tuple[Tensor, Tensor, Tensor]],
        dots: Tensor,
        many: int,
    ) -> Tensor:
        """The seeing loss of all blocks."""
        block_losses = []
        for queries, keys in projected:
            if len(keys) == 1:  # the first block's: of photographs, not of pairs
                keys = [keys[0][rows % many] for rows, _, _ in texts]
            width = dots.shape[1]
            query = torch.cat(
                [F.pad(chunk, (0, 0, 0, width - chunk.shape[1])) for chunk in queries]
            )
            order = torch.cat([rows for rows, _, _ in texts])
            block_losses.append(
                seeing_loss(query, torch.cat(keys), dots[order], self.config.bi_num_attention_heads)
            )
        return torch.stack(block_losses).mean()

    def losses(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Where the words should be, where they are seen, and which captions belong."""
        ids, many = batch["ids"], len(batch["features"])
        texts = self.texts(ids)
        with self._watched() as projected:
            start = self.model.image_alone(batch["features"], batch["boxes"], None)
            output = self.read(texts, start, ids.shape[1])
        words = looking_loss(
            output.text[-1], ids != 0, self.still(ids), self.direction, batch["far"],
            self.options.moved,
        )  # fmt: skip
        right = torch.arange(4 * many) < many
        logits = self.heads.match(output)
        belongs = F.cross_entropy(
            logits, torch.where(right, MATCH, 1 - MATCH),
            torch.tensor([3.0, 1.0] if MATCH == 0 else [1.0, 3.0]), reduction="none",
        )  # fmt: skip
        there = batch["whole"].repeat(4)
        matching = (belongs * there).sum() / there.sum().clamp(min=1)
        seeing = self._sees(projected, texts, batch["dots"], many)
        real = ids != 0
        fits = ((batch["far"] * real).sum(1) / real.sum(1)).reshape(4, many).T
        grading = grading_loss(logits, fits, batch["whole"])
        return {"looking": words, "seeing": seeing, "matching": matching, "grading": grading}
