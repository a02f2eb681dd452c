"""What the backbones themselves call the things in a photograph: the classes of ImageNet.

The backbones that give region features were trained to name one of 1,000 classes, and their last
layer is linear over the mean of the feature map. It can therefore read every grid region as it
reads a photograph, from the features of ``captious regions`` and without another pass:

    p(class | region) = softmax((logits of lite0 + logits of lite2) / 2)
    p(word | region)  = sum over the word's classes
    p(word)           = max over regions

Worked example: a region of a poodle with .4 *toy poodle* and .3 *miniature poodle* is .7 *dog*.

Classes become words of captions by :data:`captious.evidence.imagenet_words.IMAGENET_WORDS`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from captious import assets
from captious.errors import InputError, MissingExtra
from captious.evidence.detect import IMAGENET, IMAGENET_THRESHOLD, Detection
from captious.evidence.extract import IMAGENET_BACKBONES, Extractor, extractor
from captious.evidence.imagenet_words import IMAGENET_WORDS
from captious.evidence.regions import RegionSet
from captious.reading import reading
from captious.types import Floats

if TYPE_CHECKING:
    from PIL import Image


class ImageNetDetector:
    """Finds words for the ImageNet classes of grid regions.

    Args:
        heads: weights ``[1000, channels]`` and bias of each backbone's last layer.
        digest: short checksum of the weights.
    """

    name = IMAGENET

    def __init__(self, heads: list[tuple[Floats, Floats]], digest: str = "") -> None:
        self._heads, self._digest = heads, digest
        self.words_known = tuple(sorted(set(IMAGENET_WORDS.values())))
        place = {word: number for number, word in enumerate(self.words_known)}
        self._joins = np.zeros((1000, len(place)), np.float32)
        for number, word in IMAGENET_WORDS.items():
            self._joins[number, place[word]] = 1.0
        self._extract: Extractor | None = None

    @property
    def signature(self) -> str:
        """Name and checksum of the weights."""
        return f"{self.name}({self._digest})"

    def probabilities(self, features: Floats) -> Floats:
        """``[regions, words]`` from region features ``[regions, channels of all backbones]``.

        Raises:
            InputError: these are features of other backbones.
        """
        wide = sum(weights.shape[1] for weights, _ in self._heads)
        if features.shape[1] != wide:
            raise InputError(
                f"{self.name}: region features of length {wide} are expected "
                f"({'+'.join(IMAGENET_BACKBONES)}), not {features.shape[1]}: make them with "
                "`captious regions`"
            )
        logits = np.zeros((len(features), 1000), np.float32)
        first = 0
        for weights, bias in self._heads:
            last = first + weights.shape[1]
            logits += np.asarray(features[:, first:last], np.float32) @ weights.T + bias
            first = last
        logits /= len(self._heads)
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True) @ self._joins)

    def words(self, regions: RegionSet, threshold: float = IMAGENET_THRESHOLD) -> list[Detection]:
        """Return the words that are at least this likely in some region, the likeliest first."""
        likely = self.probabilities(np.asarray(regions.features, np.float64))
        whole = (0.0, 0.0, float(regions.width or 1), float(regions.height or 1))
        detections: list[Detection] = []
        best = likely.max(axis=0)
        for number in np.argsort(-best, kind="stable"):
            if best[number] < threshold:
                break
            box = whole
            if regions.boxes is not None:
                left, top, right, bottom = regions.boxes[int(likely[:, number].argmax())].tolist()
                box = (left, top, right, bottom)
            detections.append(Detection(self.words_known[number], float(best[number]), box))
        return detections

    def detect(self, image: Image.Image, threshold: float = IMAGENET_THRESHOLD) -> list[Detection]:
        """Extract the regions of a picture and return its words."""
        if self._extract is None:
            self._extract = extractor(IMAGENET_BACKBONES)
        return self.words(self._extract(image), threshold)


@lru_cache(maxsize=1)
def load() -> ImageNetDetector:
    """The detector of the default backbones.

    Raises:
        MissingExtra, MissingAsset: packages or weights are not here.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("torch", "regions", f"the detector {IMAGENET!r}") from error
    heads, digests = [], []
    for name in IMAGENET_BACKBONES:
        path = assets.resolve(name, wanted_by="captious detect")
        with reading(path, "weights of a backbone"):
            stored: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            weights, bias = stored["_fc.weight"].numpy(), stored["_fc.bias"].numpy()
        if weights.shape[0] != 1000 or bias.shape != (1000,):
            raise InputError(f"{path}: its last layer does not have 1,000 classes")
        heads.append((weights, bias))
        digests.append(assets.digest(path)[:4])
    return ImageNetDetector(heads, "".join(digests))
