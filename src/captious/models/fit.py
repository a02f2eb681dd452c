"""One vector for a photograph, one for a caption: their cosine says how well the two fit.

Image side: every region goes through one layer, the regions are pooled (the whole photograph, the
mean, the maximum over all), and a small network with a straight path beside it makes the vector.
Text side: the mean of a frozen text encoder's unit vectors, and word pieces with vectors of their
own that see their neighbours (their mean, and the mean and maximum of what they see), through a
network of the same kind. Several *members* trained from different seeds stand side by side; the
score is the mean of their cosines.

Weights are stored as bytes with one scale per row: a quarter of single precision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from captious import assets, settings
from captious.errors import InputError, UsageError
from captious.evidence.extract import is_ours
from captious.evidence.regions import RegionSet
from captious.models import text_encoder
from captious.models.checkpoints import fit_sizes, load_safetensors
from captious.models.text_encoder import Encoded, TextEncoder
from captious.reading import json_object, read_json, reading
from captious.types import Regions

DEFAULT = "fit-coco"
PAD, UNKNOWN = 0, 1
_TEXTS_AT_ONCE = 512
_IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class FitConfig:
    """Sizes of a model.

    Attributes:
        img_dim: length of a region's features.
        regions: regions per photograph; each place has a learned offset.
        inner: width inside.
        dim: length of the vectors.
        pieces: word pieces with a vector of their own, padding and the unknown one included.
        piece_dim: length of these.
        encoder_dim: length of the text encoder's vectors.
        members: models side by side.
    """

    img_dim: int = 2560
    regions: int = 36
    inner: int = 512
    dim: int = 512
    pieces: int = 2
    piece_dim: int = 256
    encoder_dim: int = 384
    members: int = 1

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FitConfig:
        """Read the fields that are ours."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in options.items() if key in known})


class Head(nn.Module):
    """Pooled values to a unit vector: a network of one hidden layer, a straight path beside it."""

    def __init__(self, width: int, inner: int, dim: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, inner)
        self.out = nn.Linear(inner, dim)
        self.skip = nn.Linear(width, dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, pooled: Tensor) -> Tensor:
        """Return unit vectors ``[n, dim]``."""
        pooled = self.drop(pooled)
        made = self.out(functional.gelu(self.mix(pooled))) + self.skip(pooled)
        return functional.normalize(made.float(), dim=-1)


class ImageSide(nn.Module):
    """Region features ``[n, regions, img_dim]`` to unit vectors."""

    def __init__(self, config: FitConfig) -> None:
        super().__init__()
        self.first = nn.Linear(config.img_dim, config.inner)
        self.place = nn.Parameter(torch.zeros(config.regions, config.inner))
        self.head = Head(3 * config.inner, config.inner, config.dim)

    def forward(self, features: Tensor, places: Tensor | None = None) -> Tensor:
        """``places`` says which of the regions these are, the whole photograph first."""
        seen = self.seen(features, places)
        return self.head(torch.cat([seen[:, 0], seen.amax(1), seen.mean(1)], 1))

    def seen(self, features: Tensor, places: Tensor | None = None) -> Tensor:
        """What the first layer makes of every region ``[n, regions, inner]``."""
        place = self.place if places is None else self.place[places]
        return functional.relu(self.first(features) + place.to(features.dtype))


class TextSide(nn.Module):
    """Piece numbers (0 = padding) and the encoder's mean vectors to unit vectors."""

    def __init__(self, config: FitConfig) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(config.encoder_dim))
        self.register_buffer("unit", torch.ones(1))
        self.embed = nn.Embedding(config.pieces, config.piece_dim, padding_idx=PAD)
        self.conv = nn.Conv1d(config.piece_dim, config.piece_dim, 3, padding=1)
        self.head = Head(config.encoder_dim + 3 * config.piece_dim, config.inner, config.dim)

    def forward(self, pieces: Tensor, encoded: Tensor) -> Tensor:
        """Return unit vectors of captions."""
        real = (pieces != PAD)[..., None]
        count = real.sum(1).clamp(min=1)
        own = self.embed(pieces)
        near = self.conv(own.transpose(1, 2)).transpose(1, 2)
        met = functional.relu(own + near) * real
        general = (encoded - self.get_buffer("shift")) / self.get_buffer("unit")
        sums = (own * real).sum(1) / count.sqrt()
        return self.head(torch.cat([general, sums, met.amax(1), met.sum(1) / count], 1))


class FitNetwork(nn.Module):
    """One member: both sides."""

    def __init__(self, config: FitConfig) -> None:
        super().__init__()
        self.image, self.text = ImageSide(config), TextSide(config)


class FitModel:
    """Members with their piece table and text encoder, ready to score."""

    def __init__(
        self,
        config: FitConfig,
        members: Sequence[FitNetwork],
        pieces: Sequence[str],
        facts: Mapping[str, Any],
        name: str = "fit",
        identity: str = "",
    ) -> None:
        self.config, self.members, self.pieces = config, list(members), list(pieces)
        self.name, self.identity = name, identity
        self.facts = dict(facts)
        self.features = str(facts.get("features", ""))
        self.encoder_name = str(facts.get("encoder", "minilm"))
        self._table: np.ndarray | None = None

    @property
    def encoder(self) -> TextEncoder:
        """The frozen text encoder, opened on first use."""
        encoder = text_encoder.load(self.encoder_name)
        if encoder.width != self.config.encoder_dim:
            raise InputError(
                f"fit: the encoder {self.encoder_name!r} gives vectors of length {encoder.width}, "
                f"the model {self.name!r} needs {self.config.encoder_dim}"
            )
        return encoder

    def images(self, regions: Sequence[RegionSet]) -> Tensor:
        """Vectors of photographs ``[n, members * dim]``; dot products are mean cosines."""
        for image in regions:
            if image.features.shape != (self.config.regions, self.config.img_dim):
                raise InputError(
                    f"fit: the model {self.name!r} needs {self.config.regions} regions of length "
                    f"{self.config.img_dim} ({self.features}), not {image.features.shape[0]} of "
                    f"{image.features.shape[1]}: run `captious regions PHOTOS -o REGIONS`"
                )
        parts = []
        with torch.inference_mode():
            for begin in range(0, len(regions), _IMAGES_AT_ONCE):
                batch = regions[begin : begin + _IMAGES_AT_ONCE]
                block = torch.from_numpy(np.stack([np.asarray(image.features) for image in batch]))
                parts.append(self._joined([net.image(block.float()) for net in self.members]))
        return torch.cat(parts) if parts else torch.zeros(0, len(self.members) * self.config.dim)

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Vectors of captions ``[n, members * dim]``; a caption's company changes nothing."""
        parts = []
        encoder = self.encoder
        with torch.inference_mode():
            for begin in range(0, len(texts), _TEXTS_AT_ONCE):
                encoded = encoder.encode(
                    list(texts[begin : begin + _TEXTS_AT_ONCE]), encoder.layers
                )
                numbers, mean = self._numbers(encoded), means(encoded)
                parts.append(self._joined([net.text(numbers, mean) for net in self.members]))
        return torch.cat(parts) if parts else torch.zeros(0, len(self.members) * self.config.dim)

    def cut(self, texts: Sequence[str]) -> int:
        """Number of texts that are longer than the encoder reads; the rest of them is not seen."""
        limit = self.encoder.limit
        long = [text for text in texts if len(text) > limit]  # a piece has a letter at least
        return int(self.encoder.tokenize(long)[1].sum()) if long else 0

    def unknown(self, texts: Sequence[str]) -> list[int]:
        """Number of pieces without a vector of their own, per text (the encoder knows all)."""
        pieces, _ = self.encoder.tokenize(texts)
        table = self._place()
        return [int((table[np.array(ids)] == UNKNOWN).sum()) for ids in pieces]

    def _joined(self, vectors: list[Tensor]) -> Tensor:
        return torch.cat(vectors, 1) / len(vectors) ** 0.5

    def _place(self) -> np.ndarray:
        """Number of every piece of the encoder's vocabulary in our own table."""
        if self._table is None:
            own = {piece: number for number, piece in enumerate(self.pieces)}
            vocabulary = self.encoder.vocabulary
            self._table = np.array([own.get(piece, UNKNOWN) for piece in vocabulary], np.int64)
        return self._table

    def _numbers(self, encoded: Encoded) -> Tensor:
        rows = np.split(self._place()[encoded.pieces], encoded.offsets[1:-1])
        return nn.utils.rnn.pad_sequence([torch.from_numpy(row) for row in rows], True, PAD)


def means(encoded: Encoded) -> Tensor:
    """Mean of the unit vectors of every sentence, marks included."""
    lengths = torch.from_numpy(encoded.lengths)
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    total = torch.zeros(len(lengths), encoded.vectors.shape[1])
    total.index_add_(0, owner, encoded.vectors)
    return total / lengths[:, None]


def save(
    config: FitConfig,
    members: Sequence[FitNetwork],
    pieces: Sequence[str],
    path: Path,
    facts: Mapping[str, Any],
) -> None:
    """Write a folder that :func:`load` reads."""
    from safetensors.torch import save_file

    path.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Tensor] = {}
    for number, net in enumerate(members):
        for name, value in net.state_dict().items():
            stored |= packed(f"{number}.{name}", value.detach().float())
    save_file(stored, path / "model.safetensors")
    shape = asdict(config) | {"members": len(members)}
    text = json.dumps({"format": "captious-fit", "fit": shape, **facts}, indent=1)
    (path / "config.json").write_text(text + "\n", encoding="utf-8")
    listed = json.dumps(list(pieces), ensure_ascii=False, indent=0)
    (path / "pieces.json").write_text(listed + "\n", encoding="utf-8")


def packed(name: str, value: Tensor) -> dict[str, Tensor]:
    """Matrices as bytes with a scale per row; what is small stays in half precision."""
    if value.dim() < 2:
        return {name: value.half().contiguous()}
    rows = value.reshape(len(value), -1)
    scale = (rows.abs().amax(1) / 127).clamp(min=1e-12)
    numbers = (rows / scale[:, None]).round().to(torch.int8).reshape(value.shape)
    return {name: numbers.contiguous(), f"{name}.scale": scale.contiguous()}


def _unpacked(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    out = {}
    for name, value in stored.items():
        if name.endswith(".scale"):
            continue
        whole = value.float()
        scale = stored.get(f"{name}.scale")
        if scale is not None:
            whole = whole * scale.reshape(-1, *[1] * (whole.dim() - 1))
        out[name] = whole
    return out


def _read(path: Path, name: str) -> FitModel:
    facts = json_object(path / "config.json", "a configuration of fit")
    if facts.get("format") != "captious-fit":
        raise InputError(f"{path}: not a model of fit; make one with `captious train fit`")
    config = FitConfig.of(facts["fit"])
    stored = load_safetensors(path / "model.safetensors")
    fit_sizes(path, stored, config.img_dim, config.inner, config.dim, config.pieces,
              config.piece_dim, config.encoder_dim, config.regions)  # fmt: skip
    if not 1 <= config.members <= len(stored):
        raise InputError(f"{path}: {config.members} members, but the weights hold fewer")
    weights = _unpacked(stored)
    members = []
    for number in range(config.members):
        net = FitNetwork(config)
        mark = f"{number}."
        net.load_state_dict(
            {key.removeprefix(mark): v for key, v in weights.items() if key.startswith(mark)}
        )
        members.append(net.eval().requires_grad_(False))
    pieces = read_json(path / "pieces.json")
    if not isinstance(pieces, list) or len(pieces) != config.pieces:
        raise InputError(f"{path}: pieces.json does not list {config.pieces} pieces")
    identity = assets.digest(path / "model.safetensors")[:12]
    return FitModel(config, members, pieces, facts, name, identity)


@lru_cache(maxsize=4)
def _load(name: str, path: str) -> FitModel:
    threads = settings.get().threads
    if threads and torch.get_num_threads() > threads:
        torch.set_num_threads(threads)
    with reading(path, "a model of fit", "copy or train it again"):
        return _read(Path(path), name)


def load(name: str = DEFAULT) -> FitModel:
    """A model by asset name or by the path of its folder."""
    if name in assets.known():
        return _load(name, str(assets.resolve(name, wanted_by="fit")))
    if not Path(name).is_dir():
        raise UsageError(f"no model of fit is called {name!r}, and there is no such folder")
    return _load(Path(name).name, name)


def check_dimensions(model: FitModel, store: Regions) -> None:
    """Features of another kind than the model was trained on would give nonsense."""
    if store.dim != model.config.img_dim:
        raise InputError(
            f"fit: the model {model.name!r} needs region features of length "
            f"{model.config.img_dim} ({model.features}); these are of length {store.dim} "
            f"({store.source})"
        )
    if store.source != model.features and is_ours(store.source) and is_ours(model.features):
        raise InputError(
            f"fit: the model {model.name!r} reads features of the kind {model.features}, and these "
            f"are of the kind {store.source}: give the photographs (--images FOLDER), and the "
            "right ones are extracted"
        )
