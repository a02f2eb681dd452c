"""LXMERT, VisualBERT and ViLT of transformers, as encoders of texts in front of images.

* LXMERT reads region features and boxes; layers are its cross-modality layers.
* VisualBERT reads region features in one stream with the text; layers are all of its layers.
* ViLT reads the photograph itself, cut into patches; layers are all of its layers, the last one
  behind its final normalisation.

The model is left behind the wanted layer. The part of ViLT that depends on the image only (patch
embeddings) is computed once per image.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from captious import assets
from captious.errors import InputError
from captious.evidence.images import open_image
from captious.evidence.regions import RegionSet
from captious.models import image_text
from captious.models.image_text import ImageTextEncoder, Text, WordPieces
from captious.models.layer_tap import Tap
from captious.reading import reading

_SPARE = ("pooler.", "position_ids")


class _Encoder(ImageTextEncoder):
    """What the three share; see :class:`captious.models.image_text.ImageTextEncoder`."""

    class_name: ClassVar[str]
    size_key: ClassVar[str] = ""
    needs_boxes = False

    def __init__(self, path: Path, name: str, device: str, dtype: str = "float32") -> None:
        self.path, self.name, self.device, self.dtype = path, name, device, dtype
        self.model = _open(path, self.class_name)
        self.config = self.model.config
        weights = next(
            (path / f for f in ("model.safetensors", "pytorch_model.bin") if (path / f).exists()),
            None,
        )
        self.identity = assets.digest(weights)[:8] if weights is not None else "unknown"
        shape = json.dumps(self.config.to_dict(), sort_keys=True, default=str)
        self.shape = hashlib.sha256(shape.encode()).hexdigest()[:8]
        self.feature_size = int(getattr(self.config, self.size_key)) if self.size_key else None
        self.positions = int(self.config.max_position_embeddings)
        self.pieces = WordPieces(path, int(self.config.vocab_size))
        self.model.to(device, getattr(torch, self.dtype))
        self.blocks = self._blocks()
        self.layers = len(self.blocks)

    def _blocks(self) -> Any:
        return self.model.encoder.layer

    def see(self, image: str, regions: RegionSet | None) -> Any:
        """The regions as they are."""
        if regions is None or self.feature_size is None:
            raise InputError(f"image {image!r} has no regions")
        return image_text.as_regions(
            image, regions, self.feature_size, self.needs_boxes, whole=False
        )

    def blank(self) -> Any:
        """One region without features."""
        return image_text.blank_regions(self.feature_size or 0)

    def states(
        self, texts: Sequence[Text], which: Sequence[int], images: Sequence[Any], layer: int
    ) -> list[Tensor]:
        """Unit vectors of all positions of each text in front of its image."""
        vectors: list[Tensor] = [torch.empty(0)] * len(texts)
        lengths = [len(text.ids) for text in texts]
        with torch.inference_mode():
            for group, pairs in image_text.picture_groups(images, which):
                seen = self._images([images[i] for i in group])
                numbers = [n for _, n in pairs]
                extra = seen[-1].shape[1]
                for batch in image_text.length_batches(numbers, lengths, extra, self.device):
                    owner = torch.tensor([pairs[at][0] for at in batch], device=self.device)
                    mine = [texts[numbers[at]] for at in batch]
                    ids, real = image_text.pad_ids(mine, self.device)
                    states: dict[int, Tensor] = {}
                    with Tap(self.blocks, [layer], states):
                        self.model(**self._inputs(ids, real, [x[owner] for x in seen]))
                    finished = self._finished(states[layer][:, : ids.shape[1]], layer)
                    unit = normalize(finished.float(), dim=-1).cpu()
                    for row, at in enumerate(batch):
                        vectors[numbers[at]] = unit[row, : lengths[numbers[at]]].clone()
        return vectors

    def look(self, text: Text, image: Any, layer: int) -> Tensor | None:
        """Attention of the layer, mean over its heads, as shares of what falls on regions."""
        with torch.inference_mode():
            ids, real = image_text.pad_ids([text], self.device)
            out = self.model(
                **self._inputs(ids, real, self._images([image])), output_attentions=True
            )
        shares = self._attention(out, layer, ids.shape[1])
        if shares is None:
            return None
        shares = shares[0].float().mean(0)
        return (shares / shares.sum(-1, keepdim=True).clamp(min=1e-12)).cpu()

    def _images(self, images: Sequence[Any]) -> list[Tensor]:
        """Tensors with one row per image; the last is the mask."""
        features, boxes, real = image_text.pad_regions(images, self.device)
        kind = getattr(torch, self.dtype)
        return [features.to(kind), boxes.to(kind), real]

    @abstractmethod
    def _inputs(self, ids: Tensor, real: Tensor, image: Sequence[Tensor]) -> dict[str, Tensor]:
        """What the model is called with."""

    def _finished(self, states: Tensor, layer: int) -> Tensor:
        return states

    def _attention(self, out: Any, layer: int, words: int) -> Tensor | None:
        return out.attentions[layer - 1][:, :, :words, words:]


class Lxmert(_Encoder):
    """LXMERT: two streams, then cross-modality layers."""

    kind, class_name = "lxmert", "LxmertModel"
    size_key = "visual_feat_dim"
    needs_boxes = True

    def _blocks(self) -> Any:
        return self.model.encoder.x_layers

    def _inputs(self, ids: Tensor, real: Tensor, image: Sequence[Tensor]) -> dict[str, Tensor]:
        features, boxes, mask = image
        return {
            "input_ids": ids,
            "attention_mask": real.long(),
            "visual_feats": features,
            "visual_pos": boxes[..., :4],
            "visual_attention_mask": mask.long(),
        }

    def _attention(self, out: Any, layer: int, words: int) -> Tensor | None:
        return out.cross_encoder_attentions[layer - 1]


class VisualBert(_Encoder):
    """VisualBERT: regions behind the words in one stream."""

    kind, class_name = "visual_bert", "VisualBertModel"
    size_key = "visual_embedding_dim"

    def __init__(self, path: Path, name: str, device: str, dtype: str = "float32") -> None:
        super().__init__(path, name, device, dtype)
        if self.config.bypass_transformer:
            raise InputError(f"{path}: a VisualBERT whose layers do not see the image")

    def _inputs(self, ids: Tensor, real: Tensor, image: Sequence[Tensor]) -> dict[str, Tensor]:
        features, _, mask = image
        return {
            "input_ids": ids,
            "attention_mask": real.long(),
            "visual_embeds": features,
            "visual_attention_mask": mask.long(),
        }


class Vilt(_Encoder):
    """ViLT: patches of the photograph behind the words in one stream."""

    kind, class_name = "vilt", "ViltModel"

    def __init__(self, path: Path, name: str, device: str, dtype: str = "float32") -> None:
        super().__init__(path, name, device, dtype)
        file = path / "preprocessor_config.json"
        self._pixels = json.loads(file.read_text("utf-8")) if file.is_file() else {}

    def see(self, image: str, regions: RegionSet | None) -> Any:
        """Normalised pixels ``[3, h, w]``; sides are multiples of the patch size."""
        from PIL.Image import Resampling

        picture = open_image(image)
        size = self._pixels.get("size", {})
        short = int(size.get("shortest_edge", 384) if isinstance(size, dict) else size)
        step = int(self._pixels.get("size_divisor", 32))
        scale = short / min(picture.size)
        longest = int(1333 / 800 * short)
        scale = min(scale, longest / max(picture.size))
        wide, high = (max(step, int(side * scale + 0.5) // step * step) for side in picture.size)
        picture = picture.resize((wide, high), Resampling.BICUBIC)
        values = np.asarray(picture, np.float32) / 255
        mean = np.array(self._pixels.get("image_mean", [0.5] * 3), np.float32)
        spread = np.array(self._pixels.get("image_std", [0.5] * 3), np.float32)
        return torch.from_numpy(((values - mean) / spread).transpose(2, 0, 1).copy())

    def blank(self) -> Any:
        """A grey picture."""
        side = int(self.config.image_size)
        return torch.zeros(3, side, side)

    def _images(self, images: Sequence[Any]) -> list[Tensor]:
        """Patch embeddings, which depend on the image only, filled up to the largest image."""
        embedded = []
        for pixels in images:
            pixels = pixels[None].to(self.device, getattr(torch, self.dtype))
            mask = torch.ones_like(pixels[:, 0], dtype=torch.long)
            with _fixed_draws():  # patches are drawn in a random order, which does not matter,
                patches, real, _ = self.model.embeddings.visual_embed(  # or at a limit, which does
                    pixels, mask, max_image_length=self.config.max_image_length
                )
            embedded.append((patches[0], real[0]))
        pad = torch.nn.utils.rnn.pad_sequence
        return [
            pad([patches for patches, _ in embedded], batch_first=True),
            pad([real for _, real in embedded], batch_first=True),
        ]

    def _inputs(self, ids: Tensor, real: Tensor, image: Sequence[Tensor]) -> dict[str, Tensor]:
        patches, mask = image
        return {
            "input_ids": ids,
            "attention_mask": real.long(),
            "image_embeds": patches,
            "pixel_mask": mask.long(),
        }

    def _finished(self, states: Tensor, layer: int) -> Tensor:
        return self.model.layernorm(states) if layer == self.layers else states

    def _attention(self, out: Any, layer: int, words: int) -> Tensor | None:
        return None  # patches come in a drawn order: no place on the picture is known


ENCODERS: dict[str, type[_Encoder]] = {
    encoder.kind: encoder for encoder in (Lxmert, VisualBert, Vilt)
}


@contextmanager
def _fixed_draws() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _open(path: Path, class_name: str) -> Any:
    """The bare model; a parameter that would be made up at random is an error."""
    import transformers
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # what it would say of missing keys is an error below
    try:
        with reading(path, class_name, "download it again"):
            model, info = getattr(transformers, class_name).from_pretrained(
                path, local_files_only=True, output_loading_info=True
            )
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
    missing = sorted(k for k in info["missing_keys"] if not k.startswith(_SPARE))
    if missing:
        shown_keys = ", ".join(missing[:12]) + (", ..." if len(missing) > 12 else "")
        raise InputError(f"{path}: {len(missing)} parameters are missing: {shown_keys}")
    return model.eval().requires_grad_(False)
