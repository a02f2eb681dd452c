"""A teacher that looks: how well a grounding model finds captions to fit photographs.

A text encoder can tell how relevant a caption is for the *captions* of a photograph; what the
photograph itself says, it cannot. SCAN can. Its similarities are higher for some photographs than
for others, whatever the caption: here they are brought to the deviation of a photograph's
similarities with random captions, so that values of different photographs can be compared. The same
is done with its single words: the best dot product of a content word with a region, beside those of
the words of random captions.

A model of one vector per photograph and per caption (:mod:`captious.models.fit`) knows whole
captions better than SCAN does, and nothing about single words. With it, a caption's value is the
mean of both.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from captious.evidence.regions import RegionStore
from captious.models import scan
from captious.models.fit import FitModel
from captious.progress import track
from captious.training.scan_run import encode, gather

Name = tuple[int, int]  # of a caption: photograph and number
_RANDOM = 60
_AT_ONCE = 50


class Found(NamedTuple):
    """What a grounding model finds of a caption in a set of regions.

    Attributes:
        fits: how well each piece fits, in deviations above random ones ``[pieces]``.
        dots: of each piece's word with each region ``[pieces, regions]``; nan where a word is none
            that a region can show.
    """

    fits: Tensor
    dots: Tensor


class LookingTeacher:
    """How well captions and their words fit sets of regions, of one photograph or of several.

    Args:
        weights: folder of the grounding model.
        stores: regions of the photographs and, where there are such, of the mirrored ones.
        names: the photographs.
        captions: of each photograph.
        spelled: their word pieces as written (``##`` continues a word), without marks.
        unseen: words that no region can show.
        whole: a model that has one vector for a caption, or None.
        seed: which captions every set of regions is compared with.

    Attributes:
        regions: per store, the model's vectors of all photographs' regions ``[images, regions, k]``
            in half precision.
    """

    def __init__(
        self,
        weights: Path,
        stores: Sequence[RegionStore],
        names: Sequence[str],
        captions: Sequence[Sequence[str]],
        spelled: Sequence[Sequence[Sequence[str]]],
        unseen: Container[str] = (),
        whole: FitModel | None = None,
        seed: int = 0,
    ) -> None:
        self.model, self.vocabulary = scan.load(weights)
        self.model.eval()
        self.captions, self.spelled, self.unseen = captions, spelled, unseen
        self._names = self.vocabulary.words()
        draw = np.random.default_rng(seed)
        drawn = draw.choice(len(captions), min(_RANDOM, len(captions)), replace=False)
        usual = [(i, int(draw.integers(len(captions[i])))) for i in drawn.tolist()]
        with torch.inference_mode():
            self.usual = self._words(usual)
            seen = [places[places >= 0].unique() for places in map(self.places, usual)]
            vectors = [own[at] for own, at in zip(self.usual[0], seen, strict=True)]
            self.usual_words = torch.cat(vectors)
            self.regions = [
                torch.cat(
                    [
                        self.model.image(gather(store, names[at : at + _AT_ONCE]).float()).half()
                        for at in track(range(0, len(names), _AT_ONCE), "looking", unit="batches")
                    ]
                ).clone()
                for store in stores
            ]
        self.overall = None
        if whole is not None:
            self.overall = WholeCaptions(whole, stores, names, captions, usual)

    def _ids(self, text: Name) -> list[int]:
        return encode(self.vocabulary, self.captions[text[0]][text[1]])

    def _words(self, texts: Sequence[Name]) -> tuple[Tensor, Tensor]:
        ids, lengths = scan.pad([self._ids(text) for text in texts])
        return self.model.text(ids, lengths), lengths

    def places(self, text: Name) -> Tensor:
        """Which of the model's words each piece belongs to; -1: none that a region can show."""
        mine = [self._names[at] for at in self._ids(text)]
        places: list[int] = []
        after = 0
        for written in _whole(self.spelled[text[0]][text[1]]):
            word = "".join(piece.removeprefix("##") for piece in written)
            place = next((at for at in range(after, len(mine)) if mine[at] == word), None)
            if place is not None:
                after = place + 1
            places += [-1 if place is None or word in self.unseen else place] * len(written)
        return torch.tensor(places, dtype=torch.long)

    def __call__(
        self, which: Tensor, at: Tensor, texts: Sequence[Sequence[Name]], store: int = 0
    ) -> list[Found]:
        """How well each piece of each text fits its set of regions, and where it is.

        Args:
            which: photographs that the regions are of ``[sets, regions]``.
            at: which of the photograph's regions each is ``[sets, regions]``.
            texts: of each set, named by photograph and number; as many for every set.
            store: number of the store.

        Returns:
            Set after set, text after text. How well a piece fits is the mean of the caption's and
            the word's deviation above random ones (own captions have about 3); for pieces that
            name nothing the caption's mean.
        """
        fitted = []
        regions = self.regions[store][which, at].float()
        with torch.inference_mode():
            overall = None if self.overall is None else self.overall(which, at, texts, store)
            usual = self.model.similarity(regions, *self.usual)
            single = (self.usual_words @ regions.mT).amax(2)
            words, lengths = self._words([text for own_texts in texts for text in own_texts])
            many = len(texts[0])
            for row, own_texts in enumerate(texts):
                mine = slice(row * many, (row + 1) * many)
                count = lengths[mine]
                own = words[mine, : int(count.max())]
                whole = self.model.similarity(regions[row : row + 1], own, count)[0]
                whole = (whole - usual[row].mean()) / usual[row].std()
                if overall is not None:
                    whole = (whole + overall[row]) / 2
                dots = own @ regions[row].T
                best = (dots.amax(2) - single[row].mean()) / single[row].std()
                for text, caption, word, where in zip(own_texts, whole, best, dots, strict=True):
                    places = self.places(text)
                    named = places >= 0
                    fits = torch.where(named, word[places], 0.0)
                    mean = fits.sum() / named.sum() if named.any() else caption
                    fits = (caption + torch.where(named, fits, mean)) / 2
                    fitted.append(
                        Found(fits, torch.where(named[:, None], where[places], torch.nan))
                    )
        return fitted


class WholeCaptions:
    """How well whole captions fit sets of regions, by a model of one vector for each.

    Args:
        model: the model.
        stores: regions of the photographs and, where there are such, of the mirrored ones.
        names: the photographs.
        captions: of each photograph.
        usual: the captions that every set of regions is compared with.
    """

    def __init__(
        self,
        model: FitModel,
        stores: Sequence[RegionStore],
        names: Sequence[str],
        captions: Sequence[Sequence[str]],
        usual: Sequence[Name],
    ) -> None:
        self.model, self.captions = model, captions
        self._vectors: dict[Name, Tensor] = {}
        with torch.inference_mode():
            self.usual = self.texts(usual)
            self.seen = [
                torch.cat(
                    [
                        self._places(gather(store, names[at : at + _AT_ONCE]).float())
                        for at in track(range(0, len(names), _AT_ONCE), "looking", unit="batches")
                    ]
                ).clone()
                for store in stores
            ]

    def _places(self, features: Tensor) -> Tensor:
        """What each member sees at each place ``[images, regions, members, inner]``."""
        sides = [net.image for net in self.model.members]
        return torch.stack([side.seen(features) for side in sides], 2).half()

    def texts(self, texts: Sequence[Name]) -> Tensor:
        """Vectors of captions; each is computed once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            vectors = self.model.texts([self.captions[image][k] for image, k in new])
            self._vectors.update(zip(new, vectors.half(), strict=True))
        return torch.stack([self._vectors[text] for text in texts]).float()

    def __call__(
        self, which: Tensor, at: Tensor, texts: Sequence[Sequence[Name]], store: int
    ) -> Tensor:
        """Deviations above random captions ``[sets, texts]``.

        The whole of a mixture is the mean of what the whole photographs are, by their shares.
        """
        seen, whole = self.seen[store][which, at].float(), self.seen[store][which, 0].float()
        pooled = torch.cat([whole.mean(1), seen.amax(1), seen.mean(1)], -1)
        members = self.model.members
        vectors = [net.image.head(pooled[:, number]) for number, net in enumerate(members)]
        image = torch.cat(vectors, 1) / len(members) ** 0.5
        own = self.texts([text for row in texts for text in row]).reshape(
            len(texts), -1, image.shape[1]
        )
        usual = image @ self.usual.T
        fits = torch.einsum("sd,sqd->sq", image, own)
        return (fits - usual.mean(1, keepdim=True)) / usual.std(1, keepdim=True)


def _whole(pieces: Sequence[str]) -> list[list[str]]:
    """Pieces of a word together."""
    words: list[list[str]] = []
    for piece in pieces:
        if piece.startswith("##") and words:
            words[-1].append(piece)
        else:
            words.append([piece])
    return words
