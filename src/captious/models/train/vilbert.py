"""Train a compact ViLBERT on a CPU: masked words, masked regions, matching, and the score itself.

A batch holds ``images`` photographs with four captions each: a *reference* and a *caption* of its
own, one of a similar photograph (the nearest ones by a teacher's sentence vectors) and one of any
other. Words are masked in the reference only, which has to be filled in; which of the other three
belongs is the matching; F of the three against the reference is the agreement
(:mod:`captious.models.train.vilbert_objectives`). Some regions of a photograph are masked, the same
for all its captions, and some left out. A share of the photographs is blank, so that the network
knows what to do without one.

The text stream may start from a pretrained encoder of the BERT kind with the same width; its word
table and first layers can stay frozen, which is then left out of the saved weights. Region features
are whitened; what a masked region has to be told is its first ``v_target_size`` whitened numbers.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.errors import InputError, UsageError
from captious.models.train.scan import Whitening, correlation_loss, relevance
from captious.models.train.vilbert_objectives import (
    alignment_loss,
    calm_start,
    preference_loss,
    sharpen,
    token_f,
)
from captious.models.vilbert import CoAttention, Output, Vilbert
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_heads import MATCH, Heads
from captious.progress import track

COMPACT = VilbertConfig(
    hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
    v_hidden_size=256, v_num_hidden_layers=2, v_num_attention_heads=4, v_intermediate_size=512,
    v_target_size=128, bi_hidden_size=256, bi_num_attention_heads=4, v_biattention_id=(0, 1),
    t_biattention_id=(4, 5),
)  # fmt: skip
"""The text stream has the shape of MiniLM-L6; blocks come before its last two layers."""


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
    alignment: float = 0.5
    agreement: float = 2.0
    preference: float = 1.0
    whitened: int = 512
    frozen_layers: int = 4
    longest: int = 22
    validate: int = 200
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
    """

    features: Tensor
    boxes: Tensor
    captions: list[list[tuple[int, ...]]]
    near: Tensor | None = None
    teacher: Tensor | None = None
    blank: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.features) == len(self.boxes) == len(self.captions):
            raise InputError(
                f"{len(self.features)} images have regions, {len(self.boxes)} boxes and "
                f"{len(self.captions)} captions"
            )
        if len(self.captions) < 2 or min(map(len, self.captions)) < 2:
            raise InputError("training needs two images at least, and two captions of every image")


@dataclass(frozen=True)
class Vocabulary:
    """The pieces that masking must know."""

    size: int
    mask: int
    specials: tuple[int, ...]


def start_text(model: Vilbert, state: Mapping[str, Tensor]) -> list[str]:
    """Copy the layers of a text encoder of the same width; return the names that were taken."""
    own = model.state_dict()
    taken = [
        name
        for name, value in state.items()
        if name.startswith(("embeddings.", "encoder.layer.")) and name in own
        and own[name].shape == value.shape
    ]  # fmt: skip
    if "embeddings.word_embeddings.weight" not in taken:
        raise UsageError(
            "the text encoder has another vocabulary or width than the text stream: "
            f"{tuple(own['embeddings.word_embeddings.weight'].shape)} is wanted"
        )
    model.load_state_dict({**own, **{name: state[name].float() for name in taken}})
    return taken


class VilbertTrainer:
    """One resumable run in a folder: ``checkpoint.pt`` (where it stands) and ``best.pt``."""

    def __init__(
        self,
        config: VilbertConfig,
        data: VilbertData,
        pieces: Vocabulary,
        options: VilbertOptions,
        folder: Path,
        text: Mapping[str, Tensor] | None = None,
    ) -> None:
        torch.manual_seed(options.seed)
        self.data, self.pieces, self.options, self.folder = data, pieces, options, folder
        self.config = replace(config, v_feature_size=data.features.shape[-1])
        if self.config.v_target_size > self.config.v_feature_size:
            raise UsageError("v_target_size is more than the whitened features have")
        self.model, self.heads = Vilbert(self.config), Heads(self.config)
        for module in (*self.model.modules(), *self.heads.modules()):
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, 0, config.initializer_range)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        pretrained = set(start_text(self.model, text)) if text is not None else set()
        if pretrained:
            some = [one[0] for one in data.captions[:64]]
            calm_start(self.model, torch.from_numpy(_padded(some)))
        self.heads.predictions.decoder.weight = self.model.embeddings.word_embeddings.weight
        self._freeze(bool(pretrained))
        self.optimizer = torch.optim.AdamW(self._groups(pretrained))
        self.draw = np.random.default_rng(options.seed)
        self.step = 0
        self.history: list[dict[str, Any]] = []

    def _freeze(self, pretrained: bool) -> None:
        if not pretrained:
            return
        self.model.embeddings.requires_grad_(False)
        for layer in self.model.encoder.layer[: self.options.frozen_layers]:
            layer.requires_grad_(False)

    def _groups(self, pretrained: set[str]) -> list[dict[str, Any]]:
        """Pretrained text learns more slowly; vectors (biases, norms) do not decay."""
        o = self.options
        named = [*self.model.named_parameters(), *self.heads.named_parameters(prefix="cls")]
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        seen: set[int] = set()
        for name, value in named:
            if not value.requires_grad or id(value) in seen:
                continue
            seen.add(id(value))
            rate = o.text_rate if name in pretrained else o.learning_rate
            decay = o.weight_decay if value.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(value)
        return [
            {"params": params, "lr": rate, "base": rate, "weight_decay": decay}
            for (rate, decay), params in groups.items()
        ]

    # -- batches ---------------------------------------------------------------------------------

    def batch(self) -> dict[str, Tensor]:
        """Photographs, and references, own, similar and other captions, each in their order."""
        o, data = self.options, self.data
        many = min(o.images, len(data.captions))
        images = self.draw.choice(len(data.captions), many, replace=False)
        picks = [self.draw.permutation(len(data.captions[i]))[:2] for i in images]
        others = [self._similar(int(i)) for i in images], [self._other(int(i)) for i in images]
        chosen = [
            (images, np.array([first for first, _ in picks])),
            (images, np.array([second for _, second in picks])),
            *((np.array(some), self._any_caption(some)) for some in others),
        ]
        pairs = [pair for rows, ks in chosen for pair in zip(rows, ks, strict=True)]
        ids = _padded([self._cut(data.captions[i][k]) for i, k in pairs])
        words = (ids != 0) & ~np.isin(ids, self.pieces.specials)
        guess = words & (self.draw.random(ids.shape) < o.masked)
        guess[many:] = False
        kind = self.draw.random(ids.shape)
        seen = np.where(guess & (kind < 0.8), self.pieces.mask, ids)
        anything = self.draw.integers(0, self.pieces.size, ids.shape)
        seen = np.where(guess & (kind >= 0.9), anything, seen)
        rows = torch.from_numpy(images)
        keep = self._regions_kept(data.features.shape[1])
        features, boxes = data.features[rows][:, keep].float(), data.boxes[rows][:, keep]
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
            "targets": features[..., : self.config.v_target_size],
            "relevance": self._relevance(chosen),
        }

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

    # -- steps -----------------------------------------------------------------------------------

    def read(self, ids: Tensor, features: Tensor, boxes: Tensor) -> tuple[Output, Tensor]:
        """States of all captions with their photographs, and the alignment loss.

        Captions come in blocks, each in the order of the photographs. Those of like length are read
        together; rows are filled up with zeros afterwards.
        """
        model, many, width = self.model, len(features), ids.shape[1]
        start = model.image_alone(features, boxes, None)
        lengths = (ids != 0).sum(1)
        order = lengths.argsort()
        parts: list[list[Tensor]] = []
        for rows in order.chunk(3):
            some = ids[rows, : int(lengths[rows].max())]
            mask = some != 0
            alone = model.text_alone(some, mask, None)
            found = list(model.together(alone, mask, start.take(rows % many), None))
            text, image = cast(tuple[Tensor, Tensor], found[-1])
            for layer in model.encoder.layer[self.config.t_biattention_id[-1] :]:
                text = layer(text, mask[:, None, None, :])
            for layer in model.encoder.v_layer[self.config.v_biattention_id[-1] :]:
                image = layer(image, None)
            wide = [F.pad(one, (0, 0, 0, width - one.shape[1])) for one in
                    (alone, text, *(states for states, _ in found))]  # fmt: skip
            parts.append([image, model.t_pooler(text), model.v_pooler(image), *wide])
        back = order.argsort()
        image, pooled, seen, alone, text, *blocks = (
            torch.cat(some)[back] for some in zip(*parts, strict=True)
        )
        attention = cast(CoAttention, model.encoder.c_layer[0]).biattention
        aligned = alignment_loss(
            attention.query2(alone[:many]), (ids != 0)[:many], start.key
        )  # fmt: skip
        return Output(blocks, [], text, image, pooled, seen), aligned

    def losses(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The losses of a batch."""
        out, aligned = self.read(batch["ids"], batch["features"], batch["boxes"])
        many = len(batch["features"])
        guess = batch["wanted"] != -100
        words = self.heads.predictions(out.last_text[guess])
        regions = self.heads.imagePredictions(out.last_image[:many][batch["hidden"]])
        zero = out.last_text.new_zeros(())
        wanted, told = batch["wanted"][guess], batch["targets"][batch["hidden"]]
        right = torch.arange(many, 4 * many) < 2 * many
        there = ~batch["blank"].repeat(3)
        logits = self.heads.match(out)[many:]
        belongs = F.cross_entropy(
            logits, torch.where(right, MATCH, 1 - MATCH), torch.tensor([2.0, 1.0]), reduction="none"
        )
        agreement, preference = zero, zero
        counted, *said = batch["words"].chunk(4)
        for states in out.text:
            reference, *captions = states.chunk(4)
            values = torch.stack(
                [token_f(reference, counted, *one) for one in zip(captions, said, strict=True)], 1
            )
            agreement = agreement + correlation_loss(values, batch["relevance"])
            preference = preference + preference_loss(values[:, 0], values[:, 1:])
        return {
            "words": F.cross_entropy(words, wanted) if len(wanted) else zero,
            "regions": F.smooth_l1_loss(regions, told) if len(told) else zero,
            "matching": (belongs * there).sum() / there.sum().clamp(min=1),
            "alignment": aligned,
            "agreement": agreement / len(out.text),
            "preference": preference / len(out.text),
        }

    def align(self) -> None:
        """Before the first step: the first block's queries and keys learn what belongs together.

        These steps cost little, because nothing behind the attention is computed.
        """
        o, data = self.options, self.data
        attention = cast(CoAttention, self.model.encoder.c_layer[0]).biattention
        modules = (self.model.v_embeddings, attention.query2, attention.key1)
        parameters = [p for one in modules for p in one.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=2 * o.learning_rate, weight_decay=0.01)
        self.model.train()
        for step in track(range(o.align_steps), "aligning words and regions", unit="steps"):
            for group in optimizer.param_groups:
                group["lr"] = 2 * o.learning_rate * min(1.0, (step + 1) / 30)
            rows = self.draw.choice(
                len(data.captions), min(3 * o.images, len(data.captions)), False
            )
            picks = self._any_caption(rows.tolist())
            texts = [self._cut(data.captions[i][k]) for i, k in zip(rows, picks, strict=True)]
            ids = torch.from_numpy(_padded(texts))
            images, keep = torch.from_numpy(rows), self._regions_kept(data.features.shape[1])
            with torch.no_grad():
                words = self.model.text_alone(ids, ids != 0, None)
            seen = data.features[images][:, keep].float(), data.boxes[images][:, keep]
            regions = self.model.v_embeddings(*seen)
            loss = alignment_loss(attention.query2(words), ids != 0, attention.key1(regions))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if o.align_steps:
            sharpen(self.model, words[ids != 0], regions.detach())

    def run(
        self,
        judge: Callable[[Vilbert, Heads], dict[str, float]],
        report: Callable[[dict[str, Any]], None] | None = None,
        stop_after: int | None = None,
    ) -> Path:
        """Train to the end (or ``stop_after`` steps); returns the weights chosen on dev."""
        o = self.options
        self.folder.mkdir(parents=True, exist_ok=True)
        sums: dict[str, float] = {}
        began, since, done = time.monotonic(), 0, 0
        if self.step == 0:
            self.align()
        while self.step < o.steps and (stop_after is None or done < stop_after):
            self.model.train()
            self.heads.train()
            for group in self.optimizer.param_groups:
                group["lr"] = group["base"] * self._pace()
            losses = self.losses(self.batch())
            total = torch.stack([getattr(o, name) * value for name, value in losses.items()]).sum()
            if not bool(torch.isfinite(total)):
                raise UsageError(f"the loss is not finite at step {self.step}: lower the rate")
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            parameters = [p for g in self.optimizer.param_groups for p in g["params"]]
            nn.utils.clip_grad_norm_(parameters, o.clip)
            self.optimizer.step()
            self.step, since, done = self.step + 1, since + 1, done + 1
            for name, value in losses.items():
                sums[name] = sums.get(name, 0.0) + value.item()
            if self.step % o.validate == 0 or self.step == o.steps:
                self.model.eval()
                self.heads.eval()
                entry: dict[str, Any] = {"step": self.step}
                entry |= {name: value / since for name, value in sums.items()}
                entry |= judge(self.model, self.heads)
                entry["seconds"] = round(time.monotonic() - began, 1)
                self.history.append(entry)
                self._save(entry)
                sums, since = {}, 0
                if report is not None:
                    report(entry)
        return self.folder / "best.pt"

    def _pace(self) -> float:
        """Warm up, then fall along a cosine to a twentieth."""
        o = self.options
        if self.step < o.warmup:
            return (self.step + 1) / o.warmup
        share = (self.step - o.warmup) / max(1, o.steps - o.warmup)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share))

    def _save(self, entry: Mapping[str, Any]) -> None:
        if entry["select"] >= max(one["select"] for one in self.history):
            _write({"model": self.model.state_dict(), "heads": self.heads.state_dict()},
                   self.folder / "best.pt")  # fmt: skip
        _write(
            {
                "model": self.model.state_dict(),
                "heads": self.heads.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "torch": torch.get_rng_state(),
                "numpy": json.dumps(self.draw.bit_generator.state),
                "history": json.dumps(self.history),
                "options": json.dumps(asdict(self.options), sort_keys=True),
            },
            self.folder / "checkpoint.pt",
        )

    def resume(self) -> bool:
        """Go on where a stopped run stood; false if there is none.

        Raises:
            UsageError: the folder holds a run with other options.
        """
        file = self.folder / "checkpoint.pt"
        if not file.exists():
            return False
        state = torch.load(file, weights_only=True)
        mine = json.dumps(asdict(self.options), sort_keys=True)
        if state["options"] != mine:
            raise UsageError(f"{self.folder} holds a run with other options: {state['options']}")
        self.model.load_state_dict(state["model"])
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.history = int(state["step"]), json.loads(state["history"])
        self.draw.bit_generator.state = json.loads(state["numpy"])
        torch.set_rng_state(state["torch"])
        return True


def folded(model: Vilbert, whitening: Whitening, features: str) -> Vilbert:
    """The same model for features that are not whitened."""
    embedding = model.v_embeddings.image_embeddings
    weight, bias = whitening.folded(embedding.weight.detach(), embedding.bias.detach())
    config = replace(model.config, v_feature_size=weight.shape[1], features=features)
    out = Vilbert(config)
    state = model.state_dict()
    state["v_embeddings.image_embeddings.weight"] = weight
    state["v_embeddings.image_embeddings.bias"] = bias
    out.load_state_dict(state)
    return out.eval()


def _padded(texts: list[tuple[int, ...]]) -> Any:
    ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    return ids


def _write(value: Any, target: Path) -> None:
    scratch = target.with_name(target.name + ".part")
    torch.save(value, scratch)
    scratch.replace(target)
