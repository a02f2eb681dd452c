"""What open_clip imports of torchvision, on top of Pillow: torchvision is never installed here.

The five steps that prepare a picture do what torchvision documents; everything that only training
uses is a name without content. open_clip itself, its models, weights and tokeniser are real.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image


class InterpolationMode(Enum):
    """How pixels are mixed."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


class Compose:
    """One step after the other."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:
        for step in self.transforms:
            picture = step(picture)
        return picture


class Resize:
    """The shorter side gets the size; the longer one is cut off to a whole number of pixels."""

    def __init__(self, size: int, interpolation: InterpolationMode, **_: Any) -> None:
        self.size, self.how = size, Image.Resampling[interpolation.name]

    def __call__(self, picture: Image.Image) -> Image.Image:
        wide, high = picture.size
        short = min(wide, high)
        return picture.resize(
            (int(self.size * wide / short), int(self.size * high / short)), self.how
        )


class CenterCrop:
    """The middle."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size

    def __call__(self, picture: Image.Image) -> Image.Image:
        high, wide = self.size
        top = round((picture.height - high) / 2.0)
        left = round((picture.width - wide) / 2.0)
        return picture.crop((left, top, left + wide, top + high))


class ToTensor:
    """Channels first, from 0 to 1."""

    def __call__(self, picture: Image.Image) -> torch.Tensor:
        values = torch.from_numpy(np.array(picture, np.uint8))
        return values.permute(2, 0, 1).float().div(255)


class Normalize(torch.nn.Module):
    """Minus the mean, divided by the deviation, per channel."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__()
        self.mean, self.std = (torch.tensor(list(v))[:, None, None] for v in (mean, std))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values - self.mean) / self.std


class _ForTraining:
    """A step that open_clip makes for training, and that nobody here takes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass


def install(monkeypatch: Any) -> None:
    """Put the stand-in where open_clip looks, for one test."""
    from transformers.utils import is_torchvision_available

    is_torchvision_available()  # transformers asks once: it must not take this for the real one
    for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional",
                 "torchvision.ops", "torchvision.ops.misc"):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    transforms = sys.modules["torchvision.transforms"]
    for part in (InterpolationMode, Compose, Resize, CenterCrop, ToTensor, Normalize):
        setattr(transforms, part.__name__, part)
    for name in ("RandomResizedCrop", "ColorJitter", "Grayscale"):
        setattr(transforms, name, type(name, (_ForTraining,), {}))
    transforms.functional = sys.modules["torchvision.transforms.functional"]
    transforms.functional.to_tensor = ToTensor()
    sys.modules["torchvision"].transforms = transforms
    sys.modules["torchvision.ops.misc"].FrozenBatchNorm2d = torch.nn.Module
