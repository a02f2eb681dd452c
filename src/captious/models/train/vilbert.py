"""Train a compact ViLBERT on a CPU: masked words, masked regions, image-text matching.

A batch holds ``images`` photographs, each once with a caption of its own and once with a wrong one.
A share of the wrong captions belongs to a similar photograph (hard negatives: the nearest ones by a
teacher's sentence vectors), the others to any other photograph. Words and regions are masked in
right and wrong pairs alike, so that masks tell nothing, but only right pairs have to be filled in.

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
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.errors import InputError, UsageError
from captious.models.train.scan import Whitening
from captious.models.vilbert import Output, Vilbert
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_heads import MATCH, Heads

COMPACT = VilbertConfig(
    hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
    v_hidden_size=256, v_num_hidden_layers=3, v_num_attention_heads=4, v_intermediate_size=512,
    v_target_size=128, bi_hidden_size=256, bi_num_attention_heads=4, v_biattention_id=(0, 1, 2),
    t_biattention_id=(3, 4, 5),
)  # fmt: skip
"""The text stream has the shape of MiniLM-L6; blocks come before its last three layers."""


@dataclass(frozen=True)
class VilbertOptions:
    """What a run is made of; saved beside the checkpoint and shown on the model card."""

    steps: int = 6000
    images: int = 32
    learning_rate: float = 3e-4
    text_rate: float = 5e-5
    warmup: int = 300
    clip: float = 1.0
    weight_decay: float = 0.01
    masked: float = 0.15
    hard: float = 0.5
    words: float = 1.0
    regions: float = 1.0
    matching: float = 2.0
    whitened: int = 512
    frozen_layers: int = 3
    longest: int = 24
    validate: int = 500
    seed: int = 1


@dataclass
class VilbertData:
    """Photographs with captions, ready to train on; region 0 is the whole photograph.

    Attributes:
        features: whitened region features ``[images, regions, dim]`` (half precision is fine).
        boxes: ``[images, regions, 5]``.
        captions: piece numbers with marks, per image and caption.
        near: similar photographs per photograph ``[images, k]``, nearest first, or None.
    """

    features: Tensor
    boxes: Tensor
    captions: list[list[tuple[int, ...]]]
    near: Tensor | None = None

    def __post_init__(self) -> None:
        if not len(self.features) == len(self.boxes) == len(self.captions):
            raise InputError(
                f"{len(self.features)} images have regions, {len(self.boxes)} boxes and "
                f"{len(self.captions)} captions"
            )
        if len(self.captions) < 2 or not all(self.captions):
            raise InputError("training needs two images at least, and captions of every image")


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
        """Right pairs first, then as many wrong ones, masked alike."""
        o, data = self.options, self.data
        many = min(o.images, len(data.captions))
        images = self.draw.choice(len(data.captions), many, replace=False)
        texts = [self._caption(int(i)) for i in images]
        texts += [self._caption(self._other(int(i))) for i in images]
        ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
        real = ids != 0
        words = real & ~np.isin(ids, self.pieces.specials)
        words &= self.draw.random(ids.shape) < o.masked
        kind = self.draw.random(ids.shape)
        seen = np.where(words & (kind < 0.8), self.pieces.mask, ids)
        anything = self.draw.integers(0, self.pieces.size, ids.shape)
        seen = np.where(words & (kind >= 0.9), anything, seen)
        twice = torch.from_numpy(np.concatenate([images, images]))
        features = data.features[twice].float()
        hidden = torch.from_numpy(self.draw.random(features.shape[:2]) < o.masked)
        hidden[:, 0] = False  # the whole photograph is no region to guess
        words[many:] = False  # from here on: the words that have to be told
        right = torch.arange(2 * many) < many
        return {
            "ids": torch.from_numpy(seen),
            "mask": torch.from_numpy(real),
            "wanted": torch.from_numpy(np.where(words, ids, -100)),
            "features": features.masked_fill(hidden[..., None], 0.0),
            "boxes": data.boxes[twice],
            "hidden": hidden,
            "targets": features[..., : self.config.v_target_size],
            "match": torch.where(right, MATCH, 1 - MATCH),
        }

    def _caption(self, image: int) -> tuple[int, ...]:
        some = self.data.captions[image]
        text = some[int(self.draw.integers(len(some)))]
        longest = self.options.longest
        return text if len(text) <= longest else (*text[: longest - 1], text[-1])

    def _other(self, image: int) -> int:
        near = self.data.near
        if near is not None and self.draw.random() < self.options.hard:
            return int(near[image, int(self.draw.integers(near.shape[1]))])
        other = int(self.draw.integers(len(self.data.captions) - 1))
        return other + (other >= image)

    # -- steps -----------------------------------------------------------------------------------

    def losses(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The three losses of a batch."""
        out: Output = self.model(batch["ids"], batch["mask"], batch["features"], batch["boxes"])
        many = len(batch["ids"]) // 2
        masked = batch["wanted"] != -100
        words = self.heads.predictions(out.last_text[masked])
        hidden = batch["hidden"].clone()
        hidden[many:] = False
        regions = self.heads.imagePredictions(out.last_image[hidden])
        zero = out.last_text.new_zeros(())
        wanted, told = batch["wanted"][masked], batch["targets"][hidden]
        return {
            "words": F.cross_entropy(words, wanted) if len(wanted) else zero,
            "regions": F.smooth_l1_loss(regions, told) if len(told) else zero,
            "matching": F.cross_entropy(self.heads.match(out), batch["match"]),
        }

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
        while self.step < o.steps and (stop_after is None or done < stop_after):
            self.model.train()
            self.heads.train()
            for group in self.optimizer.param_groups:
                group["lr"] = group["base"] * self._pace()
            losses = self.losses(self.batch())
            total = (
                o.words * losses["words"] + o.regions * losses["regions"]
                + o.matching * losses["matching"]
            )  # fmt: skip
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


def _write(value: Any, target: Path) -> None:
    scratch = target.with_name(target.name + ".part")
    torch.save(value, scratch)
    scratch.replace(target)
