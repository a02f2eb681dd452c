"""Photographs as the numbers that an image encoder takes, by its preprocessor_config.json.

Folders that transformers 5 wrote have these settings inside their processor_config.json.

Done here with Pillow alone, so that the values do not depend on which image library is installed:
resize (bicubic unless said otherwise), cut out the middle, scale to fractions, normalise. A crop
begins at ``round((side - crop) / 2)``, as torchvision does and CLIPScore's own code with it;
transformers rounds down, which moves a crop of odd margin by one pixel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.reading import json_object

if TYPE_CHECKING:
    from PIL import Image

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_BICUBIC = 3
_LARGEST_SIDE = 4096
# Steps that some processors can leave out or add, and what is done here.
_USUAL = {
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "rescale_offset": False,
    "include_top": False,
}


@dataclass(frozen=True)
class Pixels:
    """What is done to a photograph.

    Attributes:
        short: length of the shorter side after resizing, or None.
        exact: (width, height) that is resized to whatever the shape, or None.
        crop: (width, height) cut out of the middle, or None.
        resample: Pillow's number of the filter.
        mean: per channel.
        std: per channel.
    """

    short: int | None = 224
    exact: tuple[int, int] | None = None
    crop: tuple[int, int] | None = (224, 224)
    resample: int = _BICUBIC
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD

    @classmethod
    def read(cls, folder: Path, side: int) -> Pixels:
        """Read a model's settings; without a file, those of CLIP for images of ``side`` pixels.

        Raises:
            InputError: a size is no size, or something is asked for that is not done here.
        """
        file, facts = _settings(folder)
        size = facts.get("size", side)
        size = size if isinstance(size, Mapping) else {"shortest_edge": size}
        exact = _wide_high(size, file) if "height" in size else None
        crop = None
        if facts.get("do_center_crop", exact is None):
            crop_size = facts.get("crop_size", side)
            crop_size = (
                crop_size
                if isinstance(crop_size, Mapping)
                else {"height": crop_size, "width": crop_size}
            )
            crop = _wide_high(crop_size, file)
        normal = facts.get("do_normalize", True)
        return cls(
            None if exact else _side(size.get("shortest_edge"), file),
            exact,
            crop,
            int(facts.get("resample", _BICUBIC)),
            _channels(facts.get("image_mean", CLIP_MEAN), file) if normal else (0.0,) * 3,
            _channels(facts.get("image_std", CLIP_STD), file) if normal else (1.0,) * 3,
        )

    @property
    def signature(self) -> str:
        """Size and a short hash of everything: ``224-1a2b3c``."""
        whole = json.dumps([self.short, self.exact, self.crop, self.resample, self.mean, self.std])
        wide, high = self.crop or self.exact or (self.short, self.short)
        shape = str(wide) if wide == high else f"{wide}x{high}"
        return f"{shape}-{hashlib.sha256(whole.encode()).hexdigest()[:6]}"

    def __call__(self, picture: Image.Image) -> npt.NDArray[np.float32]:
        """Return the numbers ``[3, height, width]`` of an RGB picture."""
        if self.exact is not None:
            picture = picture.resize(self.exact, self.resample)
        elif self.short is not None:
            wide, high = picture.size
            least = min(wide, high)
            new = (int(self.short * wide / least), int(self.short * high / least))
            if max(new) > 16 * _LARGEST_SIDE:
                raise InputError(f"a picture of {wide} x {high} pixels is too long to be resized")
            picture = picture.resize(new, self.resample)
        if self.crop is not None:
            wide, high = self.crop
            left, top = round((picture.width - wide) / 2), round((picture.height - high) / 2)
            picture = picture.crop((left, top, left + wide, top + high))
        fractions = np.asarray(picture, np.float32) / np.float32(255)
        normal = (fractions - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(normal.transpose(2, 0, 1), np.float32)


def _settings(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """The file with the settings of pictures, and what it says; transformers 5 nests them."""
    whole = folder / "processor_config.json"
    nested = json_object(whole, "a processor's config") if whole.is_file() else {}
    file, facts = folder / "preprocessor_config.json", nested.get("image_processor")
    if facts is not None:
        file = whole
    elif file.is_file():
        facts = json_object(file, "an image processor's config")
    if facts is None:
        return file, {}
    if not isinstance(facts, Mapping):
        raise InputError(f"{file}: 'image_processor' is not a set of settings")
    for setting, usual in _USUAL.items():
        value = facts.get(setting, usual)
        if value != usual and not (setting == "rescale_factor" and _is_255th(value)):
            raise InputError(
                f"{file}: captious cannot prepare pictures with {setting}={str(value)[:40]}"
            )
    return file, facts


def _is_255th(factor: Any) -> bool:
    return isinstance(factor, float) and abs(factor * 255 - 1) < 1e-6


def _side(value: Any, where: Path) -> int:
    if type(value) is not int or not 0 < value <= _LARGEST_SIDE:
        raise InputError(f"{where}: {str(value)[:40]} is not the side of a picture")
    return value


def _wide_high(size: Mapping[str, Any], where: Path) -> tuple[int, int]:
    return _side(size.get("width"), where), _side(size.get("height"), where)


def _channels(values: Any, where: Path) -> tuple[float, ...]:
    fine = isinstance(values, list | tuple) and len(values) == 3
    if not fine or not all(isinstance(v, int | float) for v in values):
        raise InputError(f"{where}: mean and std are three numbers each")
    return tuple(float(v) for v in values)
