"""A word detector: which of a thousand nouns would people use of this photograph, and where?

Every grid region of a photograph goes through one hidden layer and gets a logit per noun; the
photograph's probability of a noun joins its regions by *noisy or*: it is there unless every region
says no. (Fang et al. 2015, *From captions to visual concepts and back*, trained such detectors on
captions.) The features are those of ``captious regions``, so that a photograph passes the backbones
once for this, for ``scan`` and for ``fit``.

    p(noun) = 1 - product over regions of (1 - sigmoid(logit))

Worked example: three regions with the probabilities .5, .2 and 0 for *dog* give 1 - .5 * .8 = .6.

Weights are bytes with one scale per row; nothing but numpy is needed to run them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious import assets
from captious.errors import InputError, MissingExtra
from captious.evidence.detect import WORDS, WORDS_THRESHOLD, Detection
from captious.evidence.regions import RegionSet
from captious.reading import json_object, reading, regular
from captious.types import Floats

if TYPE_CHECKING:
    from PIL import Image

    from captious.evidence.extract import Extractor

FORMAT = "captious-words"


@dataclass(frozen=True, eq=False)
class WordNetwork:
    """Two layers and the nouns they speak of.

    Attributes:
        words: the nouns, most frequent first.
        first: weights ``[inner, dim]`` and bias of the hidden layer.
        second: weights ``[words, inner]`` and bias of the logits.
    """

    words: tuple[str, ...]
    first: tuple[Floats, Floats]
    second: tuple[Floats, Floats]

    def logits(self, features: Floats) -> Floats:
        """Logits ``[regions, words]`` of region features ``[regions, dim]``."""
        hidden = np.maximum(np.asarray(features, np.float32) @ self.first[0].T + self.first[1], 0)
        return np.asarray(hidden @ self.second[0].T + self.second[1])


def noisy_or(logits: Floats) -> Floats:
    """Probability of each word for the whole photograph ``[words]``.

    Example:
        >>> float(noisy_or(np.array([[0.0], [np.log(0.25)]])).round(3)[0])  # .5 and .2
        0.6
    """
    return np.asarray(-np.expm1(-np.logaddexp(0, logits).sum(0)))


class WordDetector:
    """Finds nouns in photographs, each with the region that speaks for it most.

    Args:
        folder: made by ``captious train words``.
        name: how sources and signatures call it.
    """

    def __init__(self, folder: Path, name: str = WORDS) -> None:
        self.name = name
        facts = json_object(folder / "config.json", "a configuration of a word detector")
        if facts.get("format") != FORMAT:
            raise InputError(f"{folder}: not a word detector; make one with `captious train words`")
        self.facts = facts
        self.features = str(facts.get("features", ""))
        self.network = _network(folder, facts)
        self._digest = assets.digest(folder / "model.safetensors")[:8]
        self._extract: Extractor | None = None

    @property
    def signature(self) -> str:
        """Name and checksum of the weights."""
        return f"{self.name}({self._digest})"

    def words(
        self, regions: RegionSet, threshold: float = WORDS_THRESHOLD, least: int = 0
    ) -> list[Detection]:
        """Return the words that are at least this likely, the likeliest first.

        ``least`` of them are returned even if they are less likely.

        Raises:
            InputError: these are features of another kind.
        """
        wide = self.network.first[0].shape[1]
        if regions.dim != wide:
            raise InputError(
                f"{self.name}: region features of length {wide} are expected ({self.features}), "
                f"not {regions.dim}: make them with `captious regions`"
            )
        logits = self.network.logits(regions.features.astype(np.float64))
        likely = noisy_or(logits)
        whole = (0.0, 0.0, float(regions.width or 1), float(regions.height or 1))
        detections: list[Detection] = []
        for number in np.argsort(-likely, kind="stable"):
            if likely[number] < threshold and len(detections) >= least:
                break
            box = whole
            if regions.boxes is not None:
                left, top, right, bottom = regions.boxes[int(logits[:, number].argmax())].tolist()
                box = (left, top, right, bottom)
            detections.append(Detection(self.network.words[number], float(likely[number]), box))
        return detections

    def detect(self, image: Image.Image, threshold: float = WORDS_THRESHOLD) -> list[Detection]:
        """Extract the regions of a picture and return its words."""
        if self._extract is None:
            from captious.evidence.extract import extractor_of

            self._extract = extractor_of(self.features)
        return self.words(self._extract(image), threshold)


def load(name: str = WORDS) -> WordDetector:
    """A word detector by asset name or by the path of its folder."""
    if name in assets.known():
        return _load(name, str(assets.resolve(name, wanted_by="captious detect")))
    return _load(Path(name).name, name)


def is_folder(folder: Path) -> bool:
    """Return whether a folder with a configuration is a word detector."""
    facts = json_object(folder / "config.json", "a configuration")
    return facts.get("format") == FORMAT


@lru_cache(maxsize=2)
def _load(name: str, path: str) -> WordDetector:
    with reading(path, "a word detector", "copy or train it again"):
        return WordDetector(Path(path), name)


def _network(folder: Path, facts: dict[str, Any]) -> WordNetwork:
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise MissingExtra("safetensors", "regions", "the word detector") from error
    path = folder / "model.safetensors"
    regular(path)
    with reading(path, "a safetensors file"):
        stored = load_file(path)
    words = facts.get("words")
    names = ("first.weight", "first.bias", "second.weight", "second.bias")
    absent = [name for name in names if name not in stored]
    if absent or not isinstance(words, list):
        raise InputError(f"{folder}: {', '.join(absent) or 'its list of words'} is missing")
    first, first_bias, second, second_bias = (_whole(stored, name) for name in names)
    if not (
        len(words) == len(second) == len(second_bias)
        and second.shape[1] == len(first) == len(first_bias)
    ):
        raise InputError(f"{folder}: weights and words do not match")
    return WordNetwork(tuple(map(str, words)), (first, first_bias), (second, second_bias))


def _whole(stored: dict[str, Any], name: str) -> Floats:
    """Undo the packing: bytes times the scale of their row."""
    value = stored[name].astype(np.float32)
    scale = stored.get(f"{name}.scale")
    return value if scale is None else value * scale.astype(np.float32)[:, None]
