"""A teacher that looks: what a grounding model says of a photograph and a caption.

A text encoder can tell how relevant a caption is for the *captions* of a photograph; what the
photograph itself says, it cannot. SCAN can. Its similarities are higher for some photographs than
for others, whatever the caption: here they are brought to the deviation of each photograph's
similarities with random captions, so that values of different photographs can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from captious.evidence.regions import RegionStore
from captious.models import scan
from captious.models.train.scan_run import encode, gather
from captious.progress import track

_RANDOM = 100
_AT_ONCE = 50


class LookingTeacher:
    """Similarities of photographs and captions of one split.

    Args:
        weights: folder of the grounding model.
        stores: regions of the photographs and, where there are such, of the mirrored ones.
        names: the photographs.
        captions: of each photograph.
        seed: which captions the photographs' similarities are compared with.
    """

    def __init__(
        self,
        weights: Path,
        stores: Sequence[RegionStore],
        names: Sequence[str],
        captions: Sequence[Sequence[str]],
        seed: int = 0,
    ) -> None:
        self.model, self.words = scan.load(weights)
        self.model.eval()
        self.captions = captions
        draw = np.random.default_rng(seed)
        some = draw.choice(len(captions), min(_RANDOM, len(captions)), replace=False)
        texts = [captions[i][int(draw.integers(len(captions[i])))] for i in some.tolist()]
        parts: list[list[Tensor]] = []
        with torch.inference_mode():
            words, lengths = self._words(texts)
            for store in stores:
                seen, usual = [], []
                for begin in track(range(0, len(names), _AT_ONCE), "looking", unit="batches"):
                    features = gather(store, names[begin : begin + _AT_ONCE])
                    regions = self.model.image(features.float())
                    found = self.model.similarity(regions, words, lengths)
                    seen.append(regions.half())
                    usual.append(torch.stack([found.mean(1), found.std(1)], 1))
                parts.append([torch.cat(seen), torch.cat(usual)])
        self.regions, self.usual = zip(*parts, strict=True)

    def _words(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        ids, lengths = scan.pad([encode(self.words, text) for text in texts])
        return self.model.text(ids, lengths), lengths

    def __call__(
        self, images: Sequence[int], mirrored: Sequence[bool], texts: Sequence[tuple[int, int]]
    ) -> Tensor:
        """Values of each photograph with the caption beside it, named by photograph and number."""
        out = []
        with torch.inference_mode():
            words, lengths = self._words([self.captions[i][k] for i, k in texts])
            for row, (image, flip) in enumerate(zip(images, mirrored, strict=True)):
                own, count = words[row : row + 1, : int(lengths[row])], lengths[row : row + 1]
                regions = self.regions[int(flip)][image : image + 1].float()
                found = self.model.similarity(regions, own, count)[0, 0]
                usual, spread = self.usual[int(flip)][image]
                out.append((found - usual) / spread)
        return torch.stack(out).clone()
