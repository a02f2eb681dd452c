"""Grounding models: whatever gives a vector per image region and a vector per word.

TIGEr asks three things of such a model: region vectors of an image, word vectors of captions, and
how strongly each region attends to each word. SCAN is the model of the paper;
any transformers model of the CLIP kind, applied to region crops, is the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from captious import assets, settings
from captious.errors import InputError, UsageError
from captious.evidence.regions import RegionSet
from captious.models import scan
from captious.text import treebank
from captious.types import Regions

DEFAULT = "scan-coco"
_TEXTS_AT_ONCE = 512


class GroundingModel(Protocol):
    """What TIGEr needs of a model."""

    name: str
    identity: str
    img_dim: int
    features: str
    smooth: float
    reading: str  # how text becomes words

    def regions(self, regions: RegionSet) -> Tensor:
        """Region vectors ``[n, d]``."""
        ...

    def tokens(self, text: str) -> list[str]:
        """The words that have a vector, in order."""
        ...

    def unknown(self, text: str) -> int:
        """Number of words of a text that the model does not know."""
        ...

    def cut(self, text: str) -> bool:
        """Whether a text is longer than the model reads."""
        ...

    def words(self, texts: Sequence[str]) -> list[Tensor]:
        """Word vectors ``[m, d]`` of each text."""
        ...

    def similarity(self, regions: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """The model's own image-caption score of one image (``[n, d]``) with each caption."""
        ...


class ScanGrounding:
    """SCAN with its vocabulary."""

    def __init__(self, path: Path, vocabulary: Path | None, name: str, device: str = "cpu") -> None:
        self.model, self.vocabulary = scan.load(path, vocabulary)
        self.model.to(device)
        self.name, self.device = name, device
        weights = path / "model.safetensors" if path.is_dir() else path
        self.identity = assets.digest(weights)[:12]
        self.img_dim = self.model.config.img_dim
        self.smooth = self.model.config.lambda_softmax
        self.features = scan.features_of(path) if path.is_dir() else ""
        self.reading = "treebank+compounds" if self.vocabulary.frequent else "treebank"
        self._parts = lru_cache(maxsize=1 << 16)(self.vocabulary.parts)
        self.model.requires_grad_(False)

    def regions(self, regions: RegionSet) -> Tensor:
        """Region vectors of one image."""
        import numpy as np

        with torch.inference_mode():
            features = torch.from_numpy(np.array(regions.features, np.float32))
            return self.model.image(features.to(self.device)).cpu()

    def tokens(self, text: str) -> list[str]:
        """Words with the start and end marks, which take part in the attention."""
        split = (part for word in treebank.split(text.lower()) for part in self._parts(word))
        return ["<start>", *split, "<end>"]

    def unknown(self, text: str) -> int:
        """Words outside the vocabulary."""
        return sum(word not in self.vocabulary for word in self.tokens(text))

    def cut(self, text: str) -> bool:
        """A recurrent network reads to the end."""
        return False

    def words(self, texts: Sequence[str]) -> list[Tensor]:
        """Word vectors of each text; a text's vectors do not depend on its neighbours."""
        ids = [self.vocabulary.encode(self.tokens(text)[1:-1]) for text in texts]
        word_vectors: list[Tensor] = [torch.empty(0)] * len(ids)
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        with torch.inference_mode():
            for begin in range(0, len(order), _TEXTS_AT_ONCE):
                rows = order[begin : begin + _TEXTS_AT_ONCE]
                padded, lengths = scan.pad([ids[row] for row in rows])
                vectors = self.model.text(padded.to(self.device), lengths).cpu()
                for row, padded_row, length in zip(rows, vectors, lengths.tolist(), strict=True):
                    word_vectors[row] = padded_row[:length].clone()
        return word_vectors

    def similarity(self, regions: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """SCAN's score, in the direction the model was trained in."""
        with torch.inference_mode():
            regions, words = regions.to(self.device), words.to(self.device)
            return self.model.similarity(regions[None], words, lengths.to(self.device))[0].cpu()


class ClipGrounding:
    """A CLIP-type model: region features are its image vectors of the crops.

    Such features come from ``captious regions PHOTOS -o REGIONS --clip PATH``. Word vectors are the
    text tower's states, each put through the text projection.
    """

    def __init__(self, path: Path, name: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokeniser = AutoTokenizer.from_pretrained(path, local_files_only=True)
        self.model: Any = AutoModel.from_pretrained(path, local_files_only=True).eval()
        if not hasattr(self.model, "text_projection"):
            raise InputError(f"{path}: not a model of the CLIP kind (no text projection)")
        self.name, self.smooth = name, 9.0
        weights = path / "model.safetensors"
        self.identity = assets.digest(weights)[:12] if weights.exists() else "unknown"
        self.img_dim = int(self.model.config.projection_dim)
        self.features, self.reading = f"clip:{path.name}", "own"

    def regions(self, regions: RegionSet) -> Tensor:
        """The stored crop vectors at unit length."""
        import numpy as np

        return scan.unit(torch.from_numpy(np.array(regions.features, np.float32)))

    def tokens(self, text: str) -> list[str]:
        """Word pieces with the tokeniser's marks."""
        ids = self.tokeniser(text, truncation=True)["input_ids"]
        return list(self.tokeniser.convert_ids_to_tokens(ids))

    def unknown(self, text: str) -> int:
        """Word pieces cover every text."""
        return 0

    def cut(self, text: str) -> bool:
        """Whether a text has more pieces than the text tower has places."""
        limit = int(self.tokeniser.model_max_length)
        if len(text) <= limit - 2:  # a piece has a letter at least, and there are two marks
            return False
        return len(self.tokeniser(text, truncation=False, verbose=False)["input_ids"]) > limit

    def words(self, texts: Sequence[str]) -> list[Tensor]:
        """Projected states of every piece."""
        word_vectors = []
        with torch.inference_mode():
            for text in texts:
                batch = self.tokeniser(text, truncation=True, return_tensors="pt")
                states = self.model.text_model(**batch).last_hidden_state[0]
                word_vectors.append(scan.unit(self.model.text_projection(states)))
        return word_vectors

    def similarity(self, regions: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Cosine of the whole photograph (region 0) with the caption's last state."""
        last = words[torch.arange(len(words)), lengths - 1]
        return last @ regions[0]


def grounding_vectors(
    model: GroundingModel,
    regions: Tensor,
    words: Tensor,
    lengths: Tensor,
    clipped: bool,
    smooth: float | None = None,
) -> Tensor:
    """``[captions, n]``: grounding of each caption.

    ``clipped`` rectifies at zero (the paper); ``smooth`` is lambda, None = the model's own.
    """
    with torch.inference_mode():
        weights, dots = attention(model, regions, words, lengths, clipped, smooth)
        attended = weights @ words
        length = regions.norm(dim=-1)[None] * attended.norm(dim=-1)
        return (weights * dots).sum(-1) / length.clamp(min=scan.EPS)


def attention(
    model: GroundingModel,
    regions: Tensor,
    words: Tensor,
    lengths: Tensor,
    clipped: bool,
    smooth: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of regions over words, and their dot products: ``[captions, regions, words]``."""
    dots = torch.einsum("nd,cld->cnl", regions, words)
    mask = scan.word_mask(lengths, words.shape[1])
    scores = dots.clamp(min=0) if clipped else dots
    sharp = model.smooth if smooth is None else smooth
    return scan.word_attention(scores, mask, sharp, "clipped_l2norm"), dots


def stack(words: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Word vectors of several captions in one padded block."""
    lengths = torch.tensor([len(vectors) for vectors in words])
    block = words[0].new_zeros(len(words), int(lengths.max()), words[0].shape[1])
    for row, vectors in enumerate(words):
        block[row, : len(vectors)] = vectors
    return block, lengths


@lru_cache(maxsize=4)
def _load(name: str, path: str, vocabulary: str | None, device: str) -> GroundingModel:
    if name.startswith("clip:"):
        return ClipGrounding(Path(path), name)
    return ScanGrounding(Path(path), Path(vocabulary) if vocabulary else None, name, device)


def load(name: str = DEFAULT, vocabulary: str | None = None) -> GroundingModel:
    """A model by asset name, by path (our folder or an original checkpoint), or ``clip:PATH``."""
    device = settings.torch_device()
    if name.startswith("clip:"):
        return _load(name, name.removeprefix("clip:"), None, device)
    if name in assets.known():
        return _load(name, str(assets.resolve(name, wanted_by="tiger")), vocabulary, device)
    if not Path(name).exists():
        raise UsageError(f"no grounding model is called {name!r}, and there is no such path")
    return _load(Path(name).name, name, vocabulary, device)


def check_dimensions(model: GroundingModel, store: Regions) -> None:
    """Features of another kind than the model was trained on would give nonsense."""
    if store.dim != model.img_dim:
        wants = f" ({model.features})" if model.features else ""
        raise InputError(
            f"the grounding model {model.name!r} needs region features of length "
            f"{model.img_dim}{wants}; these are of length {store.dim} ({store.source})"
        )
