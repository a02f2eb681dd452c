"""Models that read a text together with an image: what they have in common.

Such a model answers one question: the states of a text's pieces, given an image. The image is
either a set of region features or the photograph itself. :func:`load` opens a ViLBERT (see
:mod:`captious.models.vilbert_encoder`) or a model of transformers
(:mod:`captious.models.image_text_encoders`) behind the same interface.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from captious import assets, settings
from captious.errors import InputError, MissingAsset, UsageError
from captious.evidence.regions import RegionSet

POSITIONS_AT_ONCE = {"cpu": 1536}  # padded text and image positions of a batch
_GPU_POSITIONS = 32768
PICTURES_AT_ONCE = 8
_WHOLE = np.array([[0, 0, 1, 1, 1]], np.float32)


@dataclass(frozen=True)
class Text:
    """Piece numbers of a text with the marks; ``words`` of them are scored."""

    ids: tuple[int, ...]
    words: int
    cut: bool


@dataclass(frozen=True, eq=False)
class Regions:
    """Features ``[n, d]`` and boxes ``[n, 5]``: corners as fractions of the image, area."""

    features: NDArray[np.float32]
    boxes: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.features)


class ImageTextEncoder(ABC):
    """The interface.

    Attributes:
        kind: the architecture, in a word.
        name: file or hub name of the weights.
        identity: short hash of the weights.
        shape: short hash of the configuration.
        layers: states can be asked for at layers 1 ... ``layers``.
        feature_size: length of a region feature; None = the model reads the photograph.
        features: what features it was trained on, "" if not told.
        needs_boxes: whether the regions' boxes are used.
        task: whether a task token stands behind [CLS].
        positions: how many pieces, marks included, a text may have.
        pieces: its tokeniser.
        device: where it computes.
        dtype: in what precision.
    """

    kind: str
    name: str
    identity: str
    shape: str
    layers: int
    feature_size: int | None
    features: str = ""
    needs_boxes: bool
    task: bool = False
    positions: int
    pieces: WordPieces
    device: str
    dtype: str

    @abstractmethod
    def see(self, image: str, regions: RegionSet | None) -> Any:
        """An image as the model takes it."""

    @abstractmethod
    def blank(self) -> Any:
        """An image that shows nothing."""

    @abstractmethod
    def states(
        self, texts: Sequence[Text], which: Sequence[int], images: Sequence[Any], layer: int
    ) -> list[Tensor]:
        """Unit vectors of all positions of each text in front of ``images[which[i]]``."""

    @abstractmethod
    def look(self, text: Text, image: Any, layer: int) -> Tensor | None:
        """Attention of each position over the regions, or None where there are none."""


class WordPieces:
    """The WordPiece tokeniser of a model's folder, else the one of bert-base-uncased.

    The installed package of MiniLM carries that vocabulary.
    """

    def __init__(self, folder: Path | None, model_size: int) -> None:
        from tokenizers import BertWordPieceTokenizer, Tokenizer

        if folder is None or not _has_tokenizer(folder):
            folder = assets.resolve("encoder-minilm", wanted_by="the tokeniser of ViLBERT")
        if (folder / "tokenizer.json").is_file():
            self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        else:
            self._tokenizer = BertWordPieceTokenizer(
                str(folder / "vocab.txt"), lowercase=_lowercase(folder)
            )
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        size = self._tokenizer.get_vocab_size()
        if size > model_size:
            raise InputError(
                f"the tokeniser knows {size} tokens and the model has vectors for {model_size}: "
                "put the vocab.txt of this model beside its weights (model=FOLDER)"
            )
        self.marks = tuple(self._tokenizer.encode("").ids)

    def tokenize(self, texts: Sequence[str], length: int, keep_end: bool = True) -> list[Text]:
        """Piece numbers, at most ``length`` of them.

        A longer text loses its last words; ``keep_end`` false takes the mark at the end before
        them, as the released program does.
        """
        tokenized = []
        for encoding in self._tokenizer.encode_batch([t.strip() for t in texts]):
            ids = encoding.ids
            words, cut = len(ids) - 2, len(ids) > length
            if cut:
                words = length - 2
                ids = [*ids[: length - 1], ids[-1]] if keep_end else ids[:length]
            tokenized.append(Text(tuple(ids), words, cut))
        return tokenized

    def masking(self) -> tuple[int, tuple[int, ...]]:
        """Numbers of the mask, and of all pieces that are no words."""
        named = [self._tokenizer.token_to_id(t) for t in ("[MASK]", "[PAD]", "[UNK]")]
        return named[0], (*self.marks, *named)

    def spell(self, text: Text) -> list[str]:
        """The scored pieces as written."""
        written = [self._tokenizer.id_to_token(i) for i in text.ids[1 : 1 + text.words]]
        return [piece if piece is not None else "?" for piece in written]


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt"))


def _lowercase(folder: Path) -> bool:
    file = folder / "tokenizer_config.json"
    if not file.is_file():
        return True
    return bool(json.loads(file.read_text("utf-8")).get("do_lower_case", True))


# -- images ------------------------------------------------------------------------------------


def region_problems(
    image: str, regions: RegionSet, size: int, boxes: bool, source: str = ""
) -> Iterator[str]:
    """What is wrong with the regions of one image, before anything is computed."""
    if regions.features.ndim != 2 or not len(regions):
        yield f"image {image!r} has no regions"
        return
    if regions.dim != size:
        yield (
            f"image {image!r} has region features of length {regions.dim}"
            f"{f' ({source})' if source else ''}, the model needs {size}"
        )
    if not boxes:
        return
    if regions.boxes is None or np.isnan(regions.boxes).any():
        yield f"image {image!r} has regions without boxes, which the model needs"
    elif not regions.width or not regions.height:
        yield f"image {image!r} has boxes but no width and height to scale them by"
    elif regions.boxes.shape != (len(regions), 4):
        yield f"image {image!r} has {len(regions)} regions and {len(regions.boxes)} boxes"
    else:
        flat = (regions.boxes[:, 2:] <= regions.boxes[:, :2]).any(axis=1)
        if flat.any():
            number = int(np.flatnonzero(flat)[0])
            yield (
                f"image {image!r}: box {number} {regions.boxes[number].tolist()} covers nothing "
                "(expected x1 y1 x2 y2 in pixels)"
            )


def as_regions(image: str, regions: RegionSet, size: int, boxes: bool, whole: bool) -> Regions:
    """Regions as a model takes them; ``whole`` puts their mean in front, as the whole image."""
    problems = list(region_problems(image, regions, size, boxes))
    if problems:
        raise InputError(problems)
    features = np.array(regions.features, np.float32)
    place = regions.spatial() if boxes else None
    if place is None:
        place = np.repeat(_WHOLE, len(features), axis=0)
    if whole:
        features = np.concatenate([features.mean(axis=0, keepdims=True), features])
        place = np.concatenate([_WHOLE, place])
    return Regions(features, place)


def blank_regions(size: int) -> Regions:
    """One region, the whole image, of which nothing is known."""
    return Regions(np.zeros((1, size), np.float32), _WHOLE.copy())


def pad_regions(pictures: Sequence[Regions], device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Features, boxes and which regions are real, filled up to the largest image."""
    most = max(map(len, pictures))
    features = np.zeros((len(pictures), most, pictures[0].features.shape[1]), np.float32)
    boxes = np.zeros((len(pictures), most, 5), np.float32)
    real = np.zeros((len(pictures), most), bool)
    for row, regions in enumerate(pictures):
        features[row, : len(regions)] = regions.features
        boxes[row, : len(regions)] = regions.boxes
        real[row, : len(regions)] = True
    return tuple(torch.from_numpy(x).to(device) for x in (features, boxes, real))  # type: ignore[return-value]


def pad_ids(texts: Sequence[Text], device: str) -> tuple[Tensor, Tensor]:
    """Piece numbers and which are real, filled up to the longest text."""
    longest = max(len(text.ids) for text in texts)
    ids = np.zeros((len(texts), longest), np.int64)
    real = np.zeros((len(texts), longest), bool)
    for row, text in enumerate(texts):
        ids[row, : len(text.ids)] = text.ids
        real[row, : len(text.ids)] = True
    return torch.from_numpy(ids).to(device), torch.from_numpy(real).to(device)


def picture_groups(images: Sequence[Any], which: Sequence[int]) -> Iterator[tuple[list[int], Any]]:
    """Images of like size together, each with the texts that belong to them."""
    owned: dict[int, list[int]] = {}
    for number, image in enumerate(which):
        owned.setdefault(image, []).append(number)
    order = sorted(owned, key=lambda image: len(images[image]))
    for begin in range(0, len(order), PICTURES_AT_ONCE):
        group = order[begin : begin + PICTURES_AT_ONCE]
        yield group, [(place, n) for place, image in enumerate(group) for n in owned[image]]


def length_batches(
    numbers: Sequence[int], lengths: Sequence[int], extra: int, device: str
) -> Iterator[list[int]]:
    """Positions in ``numbers``, like lengths together; ``extra`` positions come with each."""
    budget = POSITIONS_AT_ONCE.get(device.split(":")[0], _GPU_POSITIONS)
    batch: list[int] = []
    for at in sorted(range(len(numbers)), key=lambda at: lengths[numbers[at]]):
        if batch and (len(batch) + 1) * (lengths[numbers[at]] + extra) > budget:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


# -- opening -----------------------------------------------------------------------------------


def locate(weights: str) -> Path:
    """Where named weights lie.

    Raises:
        MissingAsset: they are not on this machine.
    """
    if weights in assets.known():
        return assets.resolve(weights, wanted_by="vilbertscore")
    path = Path(weights).expanduser()
    if path.exists():
        return path
    if path.is_absolute() or weights.count("/") != 1 or path.suffix in (".bin", ".safetensors"):
        raise MissingAsset(f"vilbertscore: there are no weights at {weights}")
    from captious.models import text_encoder

    try:
        return text_encoder.locate(weights)
    except MissingAsset as err:
        raise MissingAsset(
            f"vilbertscore: {weights!r} is neither a path nor a model in the local store of the "
            "hub. Let captious fetch it with --download, or give model=FOLDER with its "
            "config.json and model.safetensors"
        ) from err


def locate_text_stream(place: Path) -> Path | None:
    """Where the text encoder lies that weights of ours left a part to; None if they are whole.

    Raises:
        MissingAsset: it is not on this machine.
    """
    name = _facts(place).get("text_from")
    if name is None:
        return None
    from captious.models import text_encoder

    return text_encoder.locate(str(name))


def model_type(path: Path) -> str:
    """``lxmert``, ``visual_bert`` or ``vilt`` for a folder of transformers, else ``vilbert``."""
    return str(_facts(path).get("model_type", "vilbert"))


def _facts(path: Path) -> dict[str, Any]:
    """The configuration of a folder; empty for a single file."""
    file = path / "config.json"
    if not path.is_dir() or not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text("utf-8"))
    except ValueError as err:
        raise InputError(f"{file}: not a configuration ({err})") from err
    if not isinstance(config, dict):
        raise InputError(f"{file}: not a configuration (a {type(config).__name__})")
    return config


def load(weights: str, config: str | None = None, dtype: str = "float32") -> ImageTextEncoder:
    """An encoder by asset name, path or hub name."""
    from captious.models import text_encoder

    if dtype not in text_encoder.DTYPES:
        raise UsageError(f"dtype is one of {', '.join(text_encoder.DTYPES)}, not {dtype!r}")
    return _load(weights, str(locate(weights)), config, settings.torch_device(), dtype)


@lru_cache(maxsize=2)
def _load(
    weights: str, place: str, config: str | None, device: str, dtype: str
) -> ImageTextEncoder:
    path = Path(place)
    kind = model_type(path)
    name = path.name if Path(weights).expanduser().exists() else weights
    if kind == "vilbert":
        from captious.models.vilbert_encoder import VilbertEncoder

        return VilbertEncoder(path, config, name, device, dtype)
    from captious.models.image_text_encoders import ENCODERS

    if kind not in ENCODERS:
        known = ", ".join(["vilbert", *ENCODERS])
        raise InputError(f"{path}: a model of type {kind!r}; vilbertscore knows {known}")
    if config is not None:
        raise InputError(f"config= is for ViLBERT checkpoints; {path} has its own config.json")
    return ENCODERS[kind](path, name, device, dtype)
