"""Train ``fit`` on a CPU: frozen features, large batches, a contrastive and a graded loss.

A batch holds photographs in groups of similar ones (their captions are near by the text encoder),
so that it contains hard negatives, and two captions of each. The losses:

* symmetric cross entropy over the batch (every photograph finds its caption, and back);
* one minus the correlation of the cosines with the text encoder's relevance of each caption for
  each photograph (mean cosine with the photograph's own captions): cross entropy treats all wrong
  captions alike, people do not.

Regions are left out at random, as are pieces; the shipped weights are a running average.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from captious.errors import InputError
from captious.models.fit import PAD, UNKNOWN, FitConfig, FitNetwork
from captious.training.checkpoints import mean_losses, write_history, write_state
from captious.training.scan import nearest
from captious.training.whitened import Whitening


@dataclass(frozen=True)
class FitOptions:
    """What a run is made of; saved beside the checkpoint and shown on the model card."""

    steps: int = 1500
    images: int = 512
    group: int = 4
    learning_rate: float = 1e-3
    warmup: int = 100
    clip: float = 2.0
    decay: float = 0.02
    graded: float = 1.0
    whitened: int = 1024
    region_dropout: float = 0.5
    piece_dropout: float = 0.05
    least: int = 5  # rarer pieces have no vector of their own
    longest: int = 48
    average: float = 0.998
    validate: int = 250
    bfloat16: bool = False
    seed: int = 1


@dataclass
class FitData:
    """Photographs with their captions, ready to train on.

    Attributes:
        features: whitened regions ``[images, regions, keep]``.
        pieces: piece numbers of every caption ``[images, captions, longest]``, 0 = padding.
        encoded: mean vectors of the text encoder ``[images, captions, width]``.
    """

    features: Tensor
    pieces: Tensor
    encoded: Tensor

    def __post_init__(self) -> None:
        if not len(self.features) == len(self.pieces) == len(self.encoded):
            raise InputError(
                f"{len(self.features)} images have regions, {len(self.pieces)} captions, "
                f"{len(self.encoded)} vectors of their captions"
            )
        if self.pieces.shape[1] < 2:
            raise InputError("training needs at least two captions of every image")


def piece_table(pieces: Tensor, size: int, least: int) -> Tensor:
    """Own number of each of ``size`` pieces by how often it occurs; rare pieces are unknown."""
    counts = np.bincount(pieces.reshape(-1).numpy(), minlength=size)
    counts[PAD] = 0
    order = np.argsort(-counts, kind="stable")
    kept = order[counts[order] >= least]
    table = np.full(size, UNKNOWN, np.int64)
    table[kept] = np.arange(2, len(kept) + 2)
    table[PAD] = PAD
    return torch.from_numpy(table)


class FitTrainer:
    """One member: data, network, optimiser, schedule, checkpoints."""

    def __init__(
        self,
        config: FitConfig,
        data: FitData,
        options: FitOptions,
        folder: Path,
        whitening: Whitening,
    ) -> None:
        torch.manual_seed(options.seed)
        self.config, self.data, self.options, self.folder = config, data, options, folder
        self.whitening = whitening
        folder.mkdir(parents=True, exist_ok=True)
        inner = replace(config, img_dim=data.features.shape[-1])
        self.net, self.average = FitNetwork(inner), FitNetwork(inner).eval()
        nn.init.normal_(self.net.text.embed.weight, std=0.5)
        self.net.text.embed.weight.data[PAD] = 0
        sample = data.encoded[:4000].reshape(-1, data.encoded.shape[-1]).float()
        self.net.text.get_buffer("shift").copy_(sample.mean(0))
        self.net.text.get_buffer("unit").fill_(float(sample.std()))
        self.scale = nn.Parameter(torch.tensor(math.log(20.0)))
        self.average.load_state_dict(self.net.state_dict())
        weights = [*self.net.parameters(), self.scale]
        groups = [
            {"params": [w for w in weights if w.dim() > 1], "weight_decay": options.decay},
            {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(
            groups, lr=options.learning_rate, betas=(0.9, 0.98), fused=True
        )
        self.teacher = functional.normalize(data.encoded.float(), dim=-1).half()
        self.near: np.ndarray | None = None
        if options.group > 1:
            self.near = nearest(self.teacher, min(60, len(data.pieces) - 1)).int().numpy()
        self.random = np.random.default_rng(options.seed)
        self.step = 0
        self.history: list[dict[str, Any]] = []

    def run(
        self,
        score: Callable[[FitNetwork], dict[str, float]],
        report: Callable[[dict[str, Any]], None] | None = None,
    ) -> FitNetwork:
        """Train to the end and return the member with the whitening folded in."""
        started, losses = time.monotonic(), []
        while self.step < self.options.steps:
            losses.append(self._one_step())
            self.step += 1
            if self.step % self.options.validate == 0 or self.step == self.options.steps:
                entry: dict[str, Any] = {"step": self.step, "seconds": time.monotonic() - started}
                entry |= mean_losses(losses)
                entry |= score(self.export())
                losses = []
                self.history.append(entry)
                self.save()
                if report is not None:
                    report(entry)
        return self.export()

    def export(self) -> FitNetwork:
        """Return the running average as a member for plain features."""
        net = FitNetwork(self.config)
        state = dict(self.average.state_dict())
        state["image.first.weight"], state["image.first.bias"] = self.whitening.folded(
            state["image.first.weight"], state["image.first.bias"]
        )
        net.load_state_dict(state)
        return net.eval()

    def save(self) -> None:
        """Write everything a resumed run needs."""
        write_state(
            {
                "net": self.net.state_dict(),
                "average": self.average.state_dict(),
                "scale": self.scale.detach(),
                "optimiser": self.optimiser.state_dict(),
                "step": self.step,
            },
            self.folder / "last.pt",
        )
        write_history(self.folder, self.options, self.history)

    def resume(self) -> bool:
        """Go on from the last checkpoint of the folder, if there is one."""
        if not (self.folder / "last.pt").exists():
            return False
        state = torch.load(self.folder / "last.pt", weights_only=True)
        self.net.load_state_dict(state["net"])
        self.average.load_state_dict(state["average"])
        self.scale.data.copy_(state["scale"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step = int(state["step"])
        self.random = np.random.default_rng((self.options.seed, self.step))
        self.history = json.loads((self.folder / "history.json").read_text())["history"]
        return True

    def _rows(self) -> Tensor:
        count, total = min(self.options.images, len(self.data.pieces)), len(self.data.pieces)
        if self.near is None or total <= count:
            return torch.from_numpy(self.random.permutation(total)[:count])
        group = self.options.group
        seeds = self.random.choice(total, count // group, replace=False)
        picks = self.random.integers(0, self.near.shape[1], (len(seeds), group - 1))
        others = self.near[seeds[:, None], picks]
        return torch.from_numpy(np.unique(np.concatenate([seeds, others.ravel()])))

    def _one_step(self) -> dict[str, float]:
        options, data = self.options, self.data
        for group in self.optimiser.param_groups:
            group["lr"] = options.learning_rate * self._schedule()
        rows = self._rows()
        two = torch.from_numpy(
            np.stack([self.random.permutation(data.pieces.shape[1])[:2] for _ in rows], 1)
        )
        total = data.features.shape[1]
        kept = max(2, round(total * (1 - options.region_dropout)))
        chosen = np.sort(1 + self.random.permutation(total - 1)[: kept - 1])
        places = torch.from_numpy(np.concatenate([[0], chosen]))  # the whole photograph always
        features = data.features[rows[:, None], places]
        pieces = torch.cat([data.pieces[rows, pick] for pick in two]).long()
        pieces = pieces[:, : int((pieces != PAD).sum(1).max())]
        lost = (torch.rand(pieces.shape) < options.piece_dropout) & (pieces != PAD)
        pieces = pieces.masked_fill(lost, UNKNOWN)
        encoded = torch.cat([data.encoded[rows, pick] for pick in two]).float()
        self.net.train()
        half = torch.bfloat16
        with torch.autocast("cpu", half, enabled=options.bfloat16):
            seen = self.net.image(features.to(half if options.bfloat16 else torch.float32), places)
            said = self.net.text(pieces, encoded)
        contrast, graded = self._losses(seen.float(), said.float(), rows, two)
        loss = contrast + options.graded * graded
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), options.clip)
        self.optimiser.step()
        self.scale.data.clamp_(max=math.log(100))
        share = min(options.average, (self.step + 1) / (self.step + 10))
        with torch.no_grad():
            for mine, new in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mine.lerp_(new, 1 - share)
        return {"contrast": float(contrast.detach()), "graded": float(graded.detach())}

    def _losses(self, seen: Tensor, said: Tensor, rows: Tensor, two: Tensor) -> tuple[Tensor, ...]:
        right = torch.arange(len(rows))
        contrast, graded = [], []
        own = self.teacher[rows].float()
        for text, pick in zip(said.chunk(2), two, strict=True):
            cosines = seen @ text.T
            logits = cosines * self.scale.exp()
            contrast += [functional.cross_entropy(logits, right)]
            contrast += [functional.cross_entropy(logits.T, right)]
            wanted = relevance(own, pick)
            graded.append(uncorrelated(cosines, wanted))
        return torch.stack(contrast).mean(), torch.stack(graded).mean()

    def _schedule(self) -> float:
        if self.step < self.options.warmup:
            return (self.step + 1) / self.options.warmup
        done = (self.step - self.options.warmup) / max(1, self.options.steps - self.options.warmup)
        return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def relevance(own: Tensor, picks: Tensor) -> Tensor:
    """Mean cosine of caption ``j`` with the captions of photograph ``i``, itself left out."""
    count = own.shape[1]
    right = torch.arange(len(own))
    chosen = own[right, picks]
    wanted = own.mean(1) @ chosen.T
    wanted[right, right] = (wanted[right, right] * count - 1) / (count - 1)
    return wanted


def uncorrelated(values: Tensor, wanted: Tensor) -> Tensor:
    """One minus Pearson's correlation: half over the whole, a quarter by rows, one by columns."""

    def pearson(a: Tensor, b: Tensor) -> Tensor:
        a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
        return ((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1) + 1e-6)).mean()

    whole = pearson(values.reshape(1, -1), wanted.reshape(1, -1))
    return 1 - 0.5 * whole - 0.25 * pearson(values, wanted) - 0.25 * pearson(values.T, wanted.T)


def recalls(images: Tensor, texts: Tensor, owner: Tensor) -> dict[str, float]:
    """R@1, 5, 10 in both directions, in percent; ``owner`` names each text's photograph."""
    scores = texts @ images.T
    own = scores[torch.arange(len(texts)), owner]
    image_rank = (scores > own[:, None]).sum(1)
    best = torch.full((len(images),), -math.inf).scatter_reduce(0, owner, own, "amax")
    caption_rank = (scores > best[None]).sum(0)
    out = {}
    for name, rank in (("captions", caption_rank), ("images", image_rank)):
        for depth in (1, 5, 10):
            out[f"{name}_r{depth}"] = round(100 * float((rank < depth).float().mean()), 2)
    out["rsum"] = round(sum(out.values()), 2)
    return out
