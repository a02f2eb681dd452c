"""ViLBERT as an encoder of texts in front of images.

Each distinct text and each distinct image passes its own layers once; what follows is per pair.
Texts of like length and images of like size share batches, filled up and masked, so that a text's
states depend on nothing but the text and its image.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from captious import assets
from captious.errors import InputError
from captious.evidence.regions import RegionSet
from captious.models import image_text, vilbert_load
from captious.models.image_text import ImageTextEncoder, Regions, Text, WordPieces
from captious.models.vilbert import ImageStart
from captious.models.vilbert_heads import MATCH

TASK = 7
"""The task number the released scorer passes: retrieval on COCO."""


class VilbertEncoder(ImageTextEncoder):
    """See :class:`captious.models.image_text.ImageTextEncoder`."""

    kind = "vilbert"
    needs_boxes = True

    def __init__(
        self, path: Path, config: str | None, name: str, device: str, dtype: str = "float32"
    ) -> None:
        self.path = path
        self.model, self.keys = vilbert_load.load_vilbert(path, config)
        shape = self.model.config
        self.name, self.device = name, device
        self.identity = assets.digest(vilbert_load.weights_file(path))[:8]
        self.shape, self.layers = shape.identity, shape.blocks
        self.feature_size, self.features = shape.v_feature_size, shape.features
        self.positions = shape.max_position_embeddings
        self.task = shape.task_tokens > 0
        if 0 < shape.task_tokens <= TASK:
            raise InputError(
                f"{path}: the task table has {shape.task_tokens} rows, but task {TASK} is needed"
            )
        self.pieces = WordPieces(path if path.is_dir() else path.parent, shape.vocab_size)
        self.dtype = dtype
        self.model.to(device, getattr(torch, self.dtype))

    def see(self, image: str, regions: RegionSet | None) -> Regions:
        """Regions with the whole image in front."""
        if regions is None:
            raise InputError(f"image {image!r} has no regions")
        size = self.model.config.v_feature_size
        return image_text.as_regions(image, regions, size, boxes=True, whole=True)

    def blank(self) -> Regions:
        """The whole image as the only region, without features."""
        return image_text.blank_regions(self.model.config.v_feature_size)

    def states(
        self, texts: Sequence[Text], which: Sequence[int], images: Sequence[Regions], layer: int
    ) -> list[Tensor]:
        """Unit vectors of all positions of each text in front of its image."""
        vectors: list[Tensor] = [torch.empty(0)] * len(texts)
        with torch.inference_mode():
            for numbers, text, mask, start, real in self._batches(texts, which, images):
                blocks = self.model.together(text, mask, start, real, last=layer)
                last, _ = deque(blocks, maxlen=1)[0]
                unit = normalize(last.float(), dim=-1).cpu()
                for row, number in enumerate(numbers):
                    vectors[number] = unit[row, : int(mask[row].sum())].clone()
        return vectors

    def check_match(self) -> None:
        """Say so if the weights have no matching head."""
        vilbert_load.matching_head(self.path)

    def match(
        self, texts: Sequence[Text], which: Sequence[int], images: Sequence[Regions]
    ) -> Tensor:
        """Log odds that each text belongs to its image, by the matching head."""
        head = vilbert_load.matching_head(self.path).to(self.device, getattr(torch, self.dtype))
        log_odds = torch.empty(len(texts))
        with torch.inference_mode():
            for numbers, text, mask, start, real in self._batches(texts, which, images):
                pooled = self.model.pooled(text, mask, start, real)
                logits = head(pooled[0] * pooled[1]).float().cpu()
                log_odds[numbers] = logits[:, MATCH] - logits[:, 1 - MATCH]
        return log_odds

    def _batches(
        self, texts: Sequence[Text], which: Sequence[int], images: Sequence[Regions]
    ) -> Iterator[tuple[list[int], Tensor, Tensor, ImageStart, Tensor]]:
        """Texts of like length with their images: numbers, states, mask, image, real regions."""
        starts = self._texts(texts)
        lengths = [len(state) for state in starts]
        for group, pairs in image_text.picture_groups(images, which):
            features, boxes, real = image_text.pad_regions([images[i] for i in group], self.device)
            start = self.model.image_alone(self._cast(features), self._cast(boxes), real)
            numbers = [n for _, n in pairs]
            extra = features.shape[1]
            for batch in image_text.length_batches(numbers, lengths, extra, self.device):
                owner = torch.tensor([pairs[at][0] for at in batch], device=self.device)
                mine = [starts[numbers[at]] for at in batch]
                text = pad_sequence(mine, batch_first=True)
                count = torch.tensor([len(state) for state in mine], device=self.device)
                mask = torch.arange(text.shape[1], device=self.device) < count[:, None]
                yield [numbers[at] for at in batch], text, mask, start.take(owner), real[owner]

    def look(self, text: Text, image: Regions, layer: int) -> Tensor:
        """Attention of all blocks up to the layer, mean over blocks and heads.

        The states of a layer hold what every block before it has seen.
        """
        with torch.inference_mode():
            features, boxes, _ = image_text.pad_regions([image], self.device)
            start = self.model.image_alone(self._cast(features), self._cast(boxes), None)
            looks: list[Tensor] = []
            words = self._texts([text])[0][None]
            deque(self.model.together(words, None, start, None, layer, looks), maxlen=0)
            return torch.stack([seen[0] for seen in looks]).mean(0).cpu()

    def _texts(self, texts: Sequence[Text]) -> list[Tensor]:
        """Text states ahead of the first block, each distinct text once."""
        distinct = list(dict.fromkeys(text.ids for text in texts))
        unique = [Text(ids, len(ids), False) for ids in distinct]
        lengths = [len(ids) for ids in distinct]
        task = TASK if self.task else None
        states_of: dict[tuple[int, ...], Tensor] = {}
        order = list(range(len(unique)))
        for batch in image_text.length_batches(order, lengths, int(self.task), self.device):
            ids, real = image_text.pad_ids([unique[at] for at in batch], self.device)
            real = self.model.text_mask(real, task)
            states = self.model.text_alone(ids, real, task)
            for row, at in enumerate(batch):
                states_of[distinct[at]] = states[row, : lengths[at] + self.task]
        return [states_of[text.ids] for text in texts]

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(getattr(torch, self.dtype))
