"""Teach the last blocks of an ImageNet backbone what captions say: better features for everything.

ImageNet's thousand classes are mostly animals and tools. Captions speak of people, what they do and
where they are, and a backbone that was trained on classes throws part of that away in its last
blocks. Here the first ones stay as they are and run once per photograph; only the last blocks and
the layer of 1,280 channels behind them learn (3 to 5 million weights), together with a small head
and the text side of ``fit``:

* cross entropy: every photograph finds its captions among those of the batch and many others, and
  every caption its photograph;
* one minus the correlation with the text encoder's relevance of each caption (as in ``fit``);
* which words do the photograph's captions contain? (one logistic regression per word)

Normalisation is folded into the convolutions, so the exported weights fit the original network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from captious.models.fit import PAD, UNKNOWN, FitConfig, Head, TextSide
from captious.training.fit import relevance, uncorrelated

HALF = torch.bfloat16


@dataclass(frozen=True)
class EyesOptions:
    """What a run is made of; saved beside the checkpoint and shown on the model card."""

    steps: int = 1000
    images: int = 256
    captions: int = 1024  # further captions, which belong to no photograph of the batch
    learning_rate: float = 1e-3
    tail_rate: float = 2e-4
    frozen: int = 100  # steps in which only the heads learn
    warmup: int = 50
    decay: float = 0.02
    graded: float = 2.0
    words: float = 1.0
    average: float = 0.995
    validate: int = 100
    seed: int = 1
    blocks: int | None = None  # how many of the last blocks learn; None = those at stride 32


def split(network: Any, blocks: int | None = None) -> int:
    """Number of the first block that learns; by default the one behind the last stride of two."""
    if blocks is not None:
        return len(network._blocks) - blocks
    return int(np.flatnonzero([_stride(block) == 2 for block in network._blocks])[-1]) + 1


def _stride(block: Any) -> int:
    return int(np.max(block._depthwise_conv.stride))


class Block(nn.Module):
    """An inverted residual block on channels-last maps, normalisation folded in.

    The 1 x 1 convolutions are matrix products in half precision; the depthwise one, whose backward
    pass is slow there, stays in single precision.
    """

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.expand = _folded(block._expand_conv, block._bn0)
        self.depthwise = _folded(block._depthwise_conv, block._bn1)
        self.project = _folded(block._project_conv, block._bn2)
        arguments = block._block_args
        self.stride = _stride(block)
        self.skip = self.stride == 1 and arguments.input_filters == arguments.output_filters

    def forward(self, maps: Tensor) -> Tensor:
        """``[n, rows, columns, channels]`` to the same, with the block's channels."""
        wide = functional.relu6(_product(maps, self.expand)).float()
        weight, bias = self.depthwise
        missing = weight.shape[-1] - self.stride  # with a stride of two the odd one goes behind
        edges = (missing // 2, missing - missing // 2) * 2
        near = functional.conv2d(
            functional.pad(wide.permute(0, 3, 1, 2), edges), weight, bias,
            stride=self.stride, groups=len(weight),
        )  # fmt: skip
        narrow = _product(functional.relu6(near).permute(0, 2, 3, 1), self.project).float()
        return maps + narrow if self.skip else narrow


class Tail(nn.Module):
    """The last blocks of an EfficientNet-Lite, and the layer behind them."""

    def __init__(self, network: Any, blocks: int | None = None) -> None:
        super().__init__()
        self.first = split(network, blocks)
        self.blocks = nn.ModuleList([Block(block) for block in network._blocks[self.first :]])
        self.last = _folded(network._conv_head, network._bn1)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps of the block before, channels last, to ``[n, rows, columns, 1280]``."""
        for block in self.blocks:
            maps = block(maps)
        return functional.relu6(_product(maps, self.last))

    def exported(self, network: Any) -> dict[str, Tensor]:
        """Tensors that take the place of the network's own, under its names."""
        stored: dict[str, Tensor] = {}
        for number, block in enumerate(self.blocks, self.first):
            own = network._blocks[number]
            mark = f"_blocks.{number}."
            for name, norm, pair in (
                ("_expand_conv", "_bn0", block.expand),
                ("_depthwise_conv", "_bn1", block.depthwise),
                ("_project_conv", "_bn2", block.project),
            ):
                stored |= _unfolded(mark + name, mark + norm, pair, getattr(own, norm).eps)
        return stored | _unfolded("_conv_head", "_bn1", self.last, network._bn1.eps)


def _folded(convolution: Any, norm: Any) -> nn.ParameterList:
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    weight = convolution.weight * scale[:, None, None, None]
    bias = norm.bias - norm.running_mean * scale
    return nn.ParameterList([weight.detach().clone(), bias.detach().clone()])


def _unfolded(convolution: str, norm: str, pair: Any, eps: float) -> dict[str, Tensor]:
    weight, bias = (value.detach().float() for value in pair)
    one = torch.ones_like(bias)
    return {
        f"{convolution}.weight": weight,
        f"{norm}.weight": one,
        f"{norm}.bias": bias,
        f"{norm}.running_mean": 0 * one,
        f"{norm}.running_var": one - eps,
    }


def _product(maps: Tensor, pair: Any) -> Tensor:
    weight, bias = pair
    return functional.linear(maps.to(HALF), weight.flatten(1).to(HALF), bias.to(HALF))


class Looking(nn.Module):
    """Cells of a map to one vector: their mean and their strongest answers."""

    def __init__(self, channels: int, inner: int, dim: int, words: int) -> None:
        super().__init__()
        self.cell = nn.Linear(channels, inner)
        self.head = Head(channels + 2 * inner, inner, dim)
        self.words = nn.Linear(channels + 2 * inner, words)

    def forward(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors, and a value per word."""
        cells = maps.flatten(1, 2)
        seen = functional.relu(self.cell(cells))
        pooled = torch.cat([cells.float().mean(1), seen.amax(1), seen.float().mean(1)], 1)
        return self.head(pooled), self.words(pooled).float()


@dataclass
class EyesData:
    """Maps of the stage before and captions of the same photographs.

    Attributes:
        maps: ``[photographs, rows, columns, channels]``, half precision, may be a memory map.
        rows: which of them to train on.
        pieces: own piece numbers of the captions of ``rows`` ``[n, captions, longest]``.
        encoded: the text encoder's mean vectors of these ``[n, captions, width]``.
    """

    maps: np.ndarray
    rows: np.ndarray
    pieces: Tensor
    encoded: Tensor


class EyesTrainer:
    """Tail, heads, optimiser and schedule."""

    def __init__(self, network: Any, data: EyesData, options: EyesOptions, pieces: int) -> None:
        torch.manual_seed(options.seed)
        self.data, self.options = data, options
        self.config = FitConfig(pieces=pieces, encoder_dim=data.encoded.shape[-1])
        self.tail = Tail(network, options.blocks)
        self.named = _words(data.pieces, pieces)
        channels = self.tail.last[0].shape[0]
        self.looking = Looking(channels, 512, self.config.dim, len(self.named))
        self.text = TextSide(self.config)
        nn.init.normal_(self.text.embed.weight, std=0.5)
        self.text.embed.weight.data[PAD] = 0
        sample = data.encoded[:4000].reshape(-1, data.encoded.shape[-1]).float()
        self.text.get_buffer("shift").copy_(sample.mean(0))
        self.text.get_buffer("unit").fill_(float(sample.std()))
        frequency = self._labels(torch.arange(min(4000, len(data.pieces)))).mean(0).clamp(1e-4, 0.9)
        self.looking.words.bias.data.copy_((frequency / (1 - frequency)).log())
        self.looking.words.weight.data.mul_(0.1)
        self.scale = nn.Parameter(torch.tensor(math.log(20.0)))
        heads = [*self.looking.parameters(), *self.text.parameters(), self.scale]
        self.optimiser = torch.optim.AdamW(
            [
                {"params": list(self.tail.parameters()), "rate": options.tail_rate},
                {"params": heads, "rate": options.learning_rate},
            ],
            betas=(0.9, 0.98), weight_decay=options.decay, fused=True,
        )  # fmt: skip
        self.averaged = [value.detach().clone() for value in self._learned()]
        self.teacher = functional.normalize(data.encoded.float(), dim=-1).half()
        self.random = np.random.default_rng(options.seed)
        self.step = 0
        self._order: np.ndarray = np.zeros(0, np.int64)

    def _learned(self) -> list[Tensor]:
        modules = (self.tail, self.looking, self.text)
        return [value for module in modules for value in module.parameters()]

    def swap(self) -> None:
        """Exchange the weights and their running average (for validation and for the end)."""
        for mine, kept in zip(self._learned(), self.averaged, strict=True):
            held = mine.detach().clone()
            mine.data.copy_(kept)
            kept.copy_(held)

    def vectors(self, maps: np.ndarray, pieces: Tensor, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of photographs and of captions, by the running average."""
        self.swap()
        self.looking.eval(), self.text.eval()
        with torch.inference_mode(), torch.autocast("cpu", HALF):
            seen = [
                self.looking(self.tail(torch.from_numpy(np.array(part)).float()))[0]
                for part in np.array_split(maps, max(1, len(maps) // 128))
            ]
            said = [
                self.text(own, mean.float())
                for own, mean in zip(pieces.split(512), encoded.split(512), strict=True)
            ]
        self.swap()
        return torch.cat(seen).float(), torch.cat(said).float()

    def state(self) -> dict[str, Any]:
        """Return everything that a resumed run needs."""
        return {
            "tail": self.tail.state_dict(),
            "looking": self.looking.state_dict(),
            "text": self.text.state_dict(),
            "scale": self.scale.detach(),
            "optimiser": self.optimiser.state_dict(),
            "averaged": self.averaged,
            "step": self.step,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        self.tail.load_state_dict(state["tail"])
        self.looking.load_state_dict(state["looking"])
        self.text.load_state_dict(state["text"])
        self.scale.data.copy_(state["scale"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.averaged = list(state["averaged"])
        self.step = int(state["step"])
        self.random = np.random.default_rng((self.options.seed, self.step))

    def one_step(self) -> dict[str, float]:
        """Learn from one batch."""
        options, data = self.options, self.data
        self._rates()
        if len(self._order) < options.images:
            self._order = self.random.permutation(len(data.rows))
        rows, self._order = self._order[: options.images], self._order[options.images :]
        chosen = torch.from_numpy(np.sort(rows))
        count = data.pieces.shape[1]
        picks = torch.from_numpy(self.random.integers(0, count, (2, len(chosen))))
        picks[1] = (picks[0] + 1 + picks[1] % (count - 1)) % count
        maps = torch.from_numpy(data.maps[data.rows[chosen.numpy()]])
        if self.random.random() < 0.5:
            maps = maps.flip(2)
        extra = torch.from_numpy(self.random.integers(0, len(data.rows), options.captions))
        pieces = torch.cat([data.pieces[chosen, picks[0]], data.pieces[chosen, picks[1]],
                            data.pieces[extra, 0]]).long()  # fmt: skip
        encoded = torch.cat([data.encoded[chosen, picks[0]], data.encoded[chosen, picks[1]],
                             data.encoded[extra, 0]]).float()  # fmt: skip
        pieces = pieces[:, : int((pieces != PAD).sum(1).max())]
        lost = (torch.rand(pieces.shape) < 0.05) & (pieces != PAD)
        frozen = self.step < options.frozen
        with torch.set_grad_enabled(not frozen):
            cells = self.tail(maps.float())
        self.looking.train(), self.text.train()
        with torch.autocast("cpu", HALF):
            seen, words = self.looking(cells)
            said = self.text(pieces.masked_fill(lost, UNKNOWN), encoded)
        loss, parts = self._loss(seen.float(), words, said.float(), chosen, picks)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._learned(), 2.0)
        self.optimiser.step()
        self.scale.data.clamp_(max=math.log(100))
        self.step += 1
        share = min(options.average, self.step / (self.step + 10))
        with torch.no_grad():
            for mine, kept in zip(self._learned(), self.averaged, strict=True):
                kept.lerp_(mine, 1 - share)
        return parts

    def _loss(
        self, seen: Tensor, words: Tensor, said: Tensor, rows: Tensor, picks: Tensor
    ) -> tuple[Tensor, dict[str, float]]:
        number = len(rows)
        right = torch.arange(number)
        others = said[2 * number :]
        own = self.teacher[rows].float()
        contrast, graded = [], []
        for text, pick in zip(said[: 2 * number].chunk(2), picks, strict=True):
            cosines = seen @ text.T
            logits = torch.cat([cosines, seen @ others.T], 1) * self.scale.exp()
            contrast.append(functional.cross_entropy(logits, right))
            contrast.append(functional.cross_entropy(logits[:, :number].T, right))
            graded.append(uncorrelated(cosines, relevance(own, pick)))
        labels = self._labels(rows)
        named = functional.binary_cross_entropy_with_logits(words, labels, reduction="none")
        parts = {
            "contrast": torch.stack(contrast).mean(),
            "graded": torch.stack(graded).mean(),
            "words": named.sum(1).mean() / 10,
        }
        loss = parts["contrast"] + self.options.graded * parts["graded"]
        loss = loss + self.options.words * parts["words"]
        return loss, {name: float(value.detach()) for name, value in parts.items()}

    def _labels(self, rows: Tensor) -> Tensor:
        seen = torch.zeros(len(rows), self.config.pieces)
        seen.scatter_(1, self.data.pieces[rows].flatten(1).long(), 1.0)
        return seen[:, self.named]

    def _rates(self) -> None:
        options = self.options
        done = max(0, self.step - options.warmup) / max(1, options.steps - options.warmup)
        cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        begun = min(1.0, (self.step + 1) / options.warmup)
        late = min(1.0, max(0, self.step - options.frozen) / options.warmup)
        for group, share in zip(self.optimiser.param_groups, (late, begun), strict=True):
            group["lr"] = group["rate"] * share * cosine


def _words(pieces: Tensor, size: int) -> Tensor:
    """Pieces that a photograph may or may not show: several photographs have them, most do not."""
    photographs = np.zeros(size)
    for part in pieces.split(4096):
        rows = part.flatten(1).long()
        seen = torch.zeros(len(rows), size).scatter_(1, rows, 1.0)
        photographs += seen.sum(0).numpy()
    share = photographs / len(pieces)
    kept = (share < 0.3) & (photographs >= max(2, 5e-4 * len(pieces)))
    kept[[PAD, UNKNOWN]] = False
    return torch.from_numpy(np.flatnonzero(kept))
