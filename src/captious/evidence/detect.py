"""Object detectors: what is in a photograph, and where.

Five kinds of detector share one small interface:

* ``ssd-mobilenet-v2-coco``: the offline default, SSD-MobileNetV2 with the 80 COCO classes through
  OpenCV, about 50 ms per photograph on one core;
* ``words-coco``: our word detector, a thousand nouns of captions over grid regions
  (:mod:`captious.evidence.word_detector`);
* ``imagenet``: the ImageNet classes of the backbones behind the region features, as words
  (:mod:`captious.evidence.imagenet_detector`);
* any object detector of transformers by hub name or folder (DETR, RT-DETR, YOLOS, ...), what the
  VIFIDEL paper calls D80;
* an open-vocabulary detector of transformers (OWL-ViT, OWLv2) with a list of labels, such as the
  Open Images classes, which the paper calls D500.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from captious import assets, settings
from captious.errors import InputError, MissingAsset, MissingExtra, UsageError
from captious.evidence.classes import COCO, readable
from captious.reading import read_text

if TYPE_CHECKING:
    from PIL import Image

DEFAULT, WORDS, IMAGENET = "ssd-mobilenet-v2-coco", "words-coco", "imagenet"
THRESHOLD = 0.3
"""What agreed best with people on PASCAL-50S for the default detector."""

WORDS_THRESHOLD = 0.2
"""Least probability of a word; chosen on photographs that nobody judged (see its model card)."""

IMAGENET_THRESHOLD = 0.5
"""Least probability of a word among ImageNet's; chosen on photographs that nobody judged."""

SAME_PLACE = 0.8
"""Overlap (intersection over union) from which two boxes are one object: the surer class stays."""

_OPEN_VOCABULARY = {"owlvit", "owlv2"}
_GRAPH, _LAYOUT = "frozen_inference_graph.pb", "ssd_mobilenet_v2_coco_2018_03_29.pbtxt"


@dataclass(frozen=True)
class Detection:
    """An object that a detector saw; the box is left, top, right, bottom in pixels."""

    label: str
    score: float
    box: tuple[float, float, float, float]


class Detector(Protocol):
    """What finds objects in one upright RGB picture."""

    name: str

    @property
    def signature(self) -> str:
        """Name, checksum of the weights and what else decides the output."""
        ...

    def detect(self, image: Image.Image, threshold: float) -> list[Detection]:
        """Return the objects that are at least this sure, the surest first."""
        ...


def load_detector(name: str = DEFAULT, labels: str | None = None) -> Detector:
    """Load a detector by name.

    Args:
        name: the default's name, ``imagenet``, ``words-coco`` or the folder of a word detector, or
            a name or folder of a transformers detector.
        labels: what an open-vocabulary detector shall look for: a file with one label per line, or
            labels separated by commas.

    Raises:
        MissingExtra, MissingAsset: packages or weights are not here.
        UsageError: labels for a closed detector, or none for an open one.
    """
    if name == DEFAULT:
        if labels:
            raise UsageError(f"{name} has 80 fixed classes; labels are for OWL-ViT and OWLv2")
        return SsdDetector(assets.resolve(DEFAULT, wanted_by="captious detect"))
    if name == IMAGENET:
        from captious.evidence import imagenet_detector

        if labels:
            raise UsageError(f"{name} has fixed classes; labels are for OWL-ViT and OWLv2")
        return imagenet_detector.load()
    if name == WORDS or (Path(name) / "config.json").is_file():
        from captious.evidence import word_detector

        if name == WORDS or word_detector.is_folder(Path(name)):
            if labels:
                raise UsageError(f"{name} has fixed words; labels are for OWL-ViT and OWLv2")
            return word_detector.load(name)
    return _transformers_detector(name, labels)


def default_threshold(name: str) -> float:
    """Return how sure a detector of this name must be where nobody says."""
    return {WORDS: WORDS_THRESHOLD, IMAGENET: IMAGENET_THRESHOLD}.get(name, THRESHOLD)


class SsdDetector:
    """SSD-MobileNetV2 (TensorFlow detection zoo, 2018) through ``cv2.dnn``.

    Args:
        folder: holds the frozen graph and its text description.
    """

    name = DEFAULT

    def __init__(self, folder: Path) -> None:
        try:
            import cv2
        except ImportError as error:
            raise MissingExtra("cv2", "vision", "captious detect") from error
        self.graph = folder / _GRAPH
        layout = folder / _LAYOUT
        if not self.graph.is_file() or not layout.is_file():
            raise MissingAsset(f"{folder}: expected {_GRAPH} and {_LAYOUT} in it")
        self._cv2: Any = cv2
        self._net: Any = cv2.dnn.readNetFromTensorflow(str(self.graph), str(layout))

    @property
    def signature(self) -> str:
        """Name and checksum of the weights."""
        return f"{self.name}({assets.digest(self.graph)[:8]},overlap<{SAME_PLACE:g})"

    def detect(self, image: Image.Image, threshold: float) -> list[Detection]:
        """Return the objects that are at least this sure, the surest first."""
        wide, high = image.size
        blob = self._cv2.dnn.blobFromImage(np.asarray(image), size=(300, 300), swapRB=False)
        self._net.setInput(blob)
        detections = []
        for _, number, score, x0, y0, x1, y1 in self._net.forward()[0, 0].tolist():
            if score >= threshold and int(number) in COCO:
                box = _clip((x0 * wide, y0 * high, x1 * wide, y1 * high), wide, high)
                detections.append(Detection(COCO[int(number)], score, box))
        return without_rivals(sorted(detections, key=lambda d: -d.score))


class TransformersDetector:
    """A detector of the transformers library, with its own classes or with given labels."""

    def __init__(self, name: str, model: Any, processor: Any, queries: tuple[str, ...]) -> None:
        self.name = Path(name).name if Path(name).is_dir() else name
        self._model, self._processor, self._queries = model, processor, queries
        self._device = settings.torch_device()
        self._model.to(self._device).eval()

    @property
    def signature(self) -> str:
        """Name, number of classes or queries, checksum of the weights."""
        classes = len(self._queries) or len(self._model.config.id2label)
        return f"{self.name}(classes={classes},{_weights_sha(self._model)})"

    def detect(self, image: Image.Image, threshold: float) -> list[Detection]:
        """Return the objects that are at least this sure, the surest first."""
        import torch

        wide, high = image.size
        sizes = [(high, wide)]
        with torch.inference_mode():
            if self._queries:
                prompts = [[f"a photo of a {q}" for q in self._queries]]
                inputs = self._processor(
                    text=prompts, images=image, truncation=True, return_tensors="pt"
                )
                outputs = self._model(**inputs.to(self._device))
                result = self._processor.post_process_grounded_object_detection(
                    outputs, threshold=threshold, target_sizes=sizes
                )[0]
                names: Any = self._queries
            else:
                inputs = self._processor(images=image, return_tensors="pt")
                outputs = self._model(**inputs.to(self._device))
                result = self._processor.post_process_object_detection(
                    outputs, threshold=threshold, target_sizes=sizes
                )[0]
                names = self._model.config.id2label
        detections = []
        rows = zip(result["scores"], result["labels"], result["boxes"], strict=True)
        for score, number, box in rows:
            label = readable(names[int(number)])
            if label and label != "n/a":  # COCO's unused ids in DETR's head
                detections.append(Detection(label, float(score), _clip(box.tolist(), wide, high)))
        return sorted(detections, key=lambda d: -d.score)


def without_rivals(detections: list[Detection], overlap: float = SAME_PLACE) -> list[Detection]:
    """Drop a detection whose place a surer one of another class holds; the surest come first.

    Detectors suppress doubles within a class only: the same animal may be a bear and a dog.

    Example:
        >>> bear = Detection("bear", 0.87, (0, 0, 10, 10))
        >>> dog = Detection("dog", 0.75, (0, 0, 10, 9))
        >>> [one.label for one in without_rivals([bear, dog])]
        ['bear']
    """
    kept: list[Detection] = []
    for detection in detections:
        if not any(
            k.label != detection.label and _shared(k.box, detection.box) >= overlap for k in kept
        ):
            kept.append(detection)
    return kept


def _shared(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Intersection over union of two boxes."""
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    union = sum(areas) - wide * high
    return wide * high / union if union > 0 else 0.0


def read_labels(text: str) -> tuple[str, ...]:
    """Return labels from a file (one per line; of a CSV the last column) or a comma list."""
    path = Path(text)
    if path.is_file():
        lines = read_text(path).splitlines()
        if path.suffix.lower() == ".csv":
            lines = [line.rsplit(",", 1)[-1] for line in lines]
    else:
        lines = text.split(",")
    labels = tuple(dict.fromkeys(readable(line) for line in lines if line.strip()))
    if not labels:
        raise InputError(f"{text}: this file holds no labels")
    return labels


def _transformers_detector(name: str, labels: str | None) -> Detector:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "neural", f"detector {name}") from error
    here: dict[str, Any] = {"local_files_only": not settings.get().download}
    try:
        config = transformers.AutoConfig.from_pretrained(name, **here)
        is_open = config.model_type in _OPEN_VOCABULARY
        if is_open != bool(labels):
            need = "needs a list of labels" if is_open else "has fixed classes: leave out labels"
            raise UsageError(f"{name} ({config.model_type}) {need}")
        if is_open:
            model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(name, **here)
            processor = transformers.AutoProcessor.from_pretrained(name, **here)
        else:
            model = transformers.AutoModelForObjectDetection.from_pretrained(name, **here)
            processor = transformers.AutoImageProcessor.from_pretrained(name, **here)
    except OSError as error:
        raise MissingAsset(
            f"the detector {name!r} is not on this machine. Give a folder that holds it, or allow "
            f"the download from the hub with --download. ({str(error).splitlines()[0]})"
        ) from error
    return TransformersDetector(name, model, processor, read_labels(labels) if labels else ())


def _weights_sha(model: Any) -> str:
    """A short checksum over all parameters, in the order of their names."""
    import hashlib

    sums = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        sums.update(key.encode())
        sums.update(value.detach().cpu().float().numpy().tobytes())
    return sums.hexdigest()[:8]


def _clip(box: Any, wide: int, high: int) -> tuple[float, float, float, float]:
    left, top, right, bottom = (float(v) for v in box)
    return (
        min(max(left, 0.0), wide),
        min(max(top, 0.0), high),
        min(max(right, 0.0), wide),
        min(max(bottom, 0.0), high),
    )
