"""How good a ViLBERT in training is, on photographs it does not learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from captious.models.image_text import WordPieces
from captious.models.vilbert import Vilbert
from captious.models.vilbert_heads import MATCH, Heads
from captious.training.machine_captions import machine_captions
from captious.training.vilbert_batches import VilbertData
from captious.training.vilbert_objectives import token_f
from captious.types import Floats

Pieces = tuple[int, ...]
Row = tuple[int, list[Pieces], list[Pieces]]  # a photograph, captions to be judged, references
_AT_ONCE = 64


class DevJudge:
    """A network's scores on dev photographs.

    ``random`` and ``near``: how often matching prefers the own caption to one of another, or of a
    similar, photograph. ``graded``: tau-c of the mean F (last block, against the photograph's other
    captions) with four grades: own caption, one of a similar photograph, of a less similar one, of
    any. ``preferred``: how often F is higher for the own caption than for the similar one's;
    ``blind`` is the same with a blank photograph. ``select`` is what the best step is chosen by.
    """

    def __init__(
        self, data: VilbertData, specials: Sequence[int], images: int = 200, seed: int = 0
    ) -> None:
        self.data, self.specials = data, torch.tensor(list(specials))
        draw = np.random.default_rng(seed)
        many = len(data.captions)
        self.rows: list[Row] = []
        for image in range(min(images, many)):
            other, near, far = (
                (image + 1 + int(k)) % many for k in draw.integers(many - 1, size=3)
            )
            if data.near is not None:
                last = data.near.shape[1]
                near = int(data.near[image, int(draw.integers(min(5, last)))])
                far = int(data.near[image, int(draw.integers(last // 2, last))])
            order = draw.permutation(len(data.captions[image]))
            own = [data.captions[image][k] for k in order]
            wrong = [self._one(draw, which) for which in (near, far, other)]
            self.rows.append((image, [own[0], *wrong], own[1:]))

    def _one(self, draw: np.random.Generator, image: int) -> Pieces:
        captions = self.data.captions[image]
        return captions[int(draw.integers(len(captions)))]

    def __call__(self, model: Vilbert, heads: Heads) -> dict[str, float]:
        """All scores."""
        from scipy.stats import kendalltau

        pairs = [(image, text) for image, texts, _ in self.rows for text in texts]
        value = match_scores(model, heads, self.data, pairs).reshape(-1, 4)
        judged = {
            "random": float((value[:, 0] > value[:, 3]).float().mean()),
            "near": float((value[:, 0] > value[:, 1]).float().mean()),
        }
        f = self.scores(model, self.data)
        judged["graded"] = float(
            kendalltau(f.flatten(), np.tile([4, 3, 2, 1], len(f)), variant="c").statistic
        )
        judged["preferred"] = float((f[:, 0] > f[:, 1]).mean())
        f = self.scores(model, blinded(self.data))
        judged["blind"] = float((f[:, 0] > f[:, 1]).mean())
        return {**judged, "select": sum(judged.values()) - judged["blind"]}

    def scores(self, model: Vilbert, data: VilbertData) -> Floats:
        """Mean F of the four captions of each photograph."""
        states = text_states(model, data, pairs_of(self.rows))
        return np.stack([f.mean(1) for f in f_of(self.rows, states, self.specials)])


class MachineJudge:
    """How well F tells which of two captions in the manner of templates suits a photograph better.

    Each photograph has four such captions, of its own words and of those of three similar ones. F
    against two of the photograph's captions should prefer whichever of two a text encoder finds
    nearer to the *other* captions: what the two do not mention can be told by looking only.

    Args:
        captions: of the photographs.
        near: similar photographs of each, nearest first ``[images, 20]``.
        pieces: what cuts words.
        vectors: makes unit vectors of sentences, ``[images, captions, k]``.
        images: how many photographs.
        longest: pieces of a caption.
        seed: which captions.
    """

    def __init__(
        self,
        captions: Sequence[Sequence[str]],
        near: Tensor,
        pieces: WordPieces,
        vectors: Callable[[list[list[str]]], Tensor],
        images: int = 300,
        longest: int = 40,
        seed: int = 3,
    ) -> None:
        draw = np.random.default_rng(seed)
        machine = machine_captions(captions, 3, seed)
        self.texts: list[list[str]] = []
        for image, others in enumerate(near[:images].tolist()):
            which = [
                image,
                *(others[int(draw.integers(a, b))] for a, b in ((0, 5), (5, 10), (10, 20))),
            ]
            drawn = [machine[w][int(draw.integers(len(machine[w])))] for w in which]
            self.texts.append([*drawn, *captions[image]])
        read = [[text.ids for text in pieces.tokenize(texts, longest)] for texts in self.texts]
        self.rows = [(image, texts[:4], texts[4:]) for image, texts in enumerate(read)]
        self.specials = torch.tensor(list(pieces.masking()[1]))
        seen = vectors(self.texts).float()
        self.oracle = torch.einsum("nck,nrk->ncr", seen[:, :4], seen[:, 4:]).numpy()

    def scores(self, model: Vilbert, data: VilbertData) -> float:
        """Share of pairs that F puts in the oracle's order."""
        return self.agreement(text_states(model, data, pairs_of(self.rows)))

    def agreement(self, states: Sequence[Tensor]) -> float:
        """The same of text states, given as :func:`pairs_of` has the texts."""
        f = np.stack(list(f_of(self.rows, states, self.specials)))
        references = range(f.shape[2])
        right = []
        for two in combinations(references, 2):
            mine = f[:, :, list(two)].mean(2)
            wanted = self.oracle[:, :, [r for r in references if r not in two]].mean(2)
            for a, b in combinations(range(4), 2):
                right.append((mine[:, a] > mine[:, b]) == (wanted[:, a] > wanted[:, b]))
        return float(np.mean(right))


def pairs_of(rows: Sequence[Row]) -> list[tuple[int, Pieces]]:
    """All texts of all photographs, captions before references."""
    return [(image, text) for image, captions, refs in rows for text in (*captions, *refs)]


def f_of(rows: Sequence[Row], states: Sequence[Tensor], specials: Tensor) -> Iterator[Floats]:
    """F of each photograph's captions with each of its references ``[captions, references]``."""
    remaining = iter(states)
    for _, captions, refs in rows:
        texts = [torch.tensor(text) for text in (*captions, *refs)]
        block = torch.nn.utils.rnn.pad_sequence([next(remaining) for _ in texts], batch_first=True)
        ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
        said = (ids != 0) & ~torch.isin(ids, specials)
        a = torch.arange(len(captions)).repeat_interleave(len(refs))
        b = len(captions) + torch.arange(len(refs)).repeat(len(captions))
        f = token_f(block[b], said[b], block[a], said[a])
        yield f.reshape(len(captions), -1).double().numpy()


def blinded(data: VilbertData) -> VilbertData:
    """The same captions with blank photographs."""
    nothing = torch.zeros(data.features.shape[-1]) if data.blank is None else data.blank
    count = len(data.features)
    features = nothing.reshape(1, 1, -1).expand(count, 1, -1)
    return replace(data, features=features, boxes=data.boxes[:, :1])


def text_states(
    model: Vilbert, data: VilbertData, pairs: Sequence[tuple[int, Pieces]]
) -> list[Tensor]:
    """Text states of the last block for each pair of image and caption."""
    states_of_pairs = [torch.empty(0)] * len(pairs)
    for numbers, ids, images in _batches(pairs):
        mask = ids != 0
        start = model.image_alone(data.features[images].float(), data.boxes[images], None)
        text = model.text_alone(ids, mask, None)
        *_, (states, _) = model.together(text, mask, start, None, last=model.config.blocks)
        for at, row in zip(numbers, states, strict=True):
            states_of_pairs[at] = row[: len(pairs[at][1])].clone()
    return states_of_pairs


def _batches(
    pairs: Sequence[tuple[int, Pieces]],
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Pairs of like length together: their numbers, piece numbers, images."""
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][1]))
    with torch.inference_mode():
        for begin in range(0, len(order), _AT_ONCE):
            numbers = order[begin : begin + _AT_ONCE]
            ids = torch.zeros(len(numbers), len(pairs[numbers[-1]][1]), dtype=torch.long)
            for row, at in enumerate(numbers):
                ids[row, : len(pairs[at][1])] = torch.tensor(pairs[at][1])
            yield numbers, ids, torch.tensor([pairs[at][0] for at in numbers])


def match_scores(
    model: Vilbert, heads: Heads, data: VilbertData, pairs: Sequence[tuple[int, Pieces]]
) -> Tensor:
    """How much each pair of image and caption belongs together (a difference of logits)."""
    scores = torch.empty(len(pairs))
    for numbers, ids, images in _batches(pairs):
        seen = model(ids, ids != 0, data.features[images].float(), data.boxes[images])
        logits = heads.match(seen)
        scores[numbers] = logits[:, MATCH] - logits[:, 1 - MATCH]
    return scores


def recalls(model: Vilbert, heads: Heads, data: VilbertData, images: int) -> dict[str, float]:
    """R@1, 5, 10 in both directions among the first images, one caption each."""
    many = min(images, len(data.captions))
    pairs = [(i, data.captions[j][0]) for i in range(many) for j in range(many)]
    scores = match_scores(model, heads, data, pairs).reshape(many, many)
    own = scores.diagonal()
    recall = {}
    for name, rank in (("captions", (scores > own[:, None]).sum(1)),
                       ("images", (scores > own[None]).sum(0))):  # fmt: skip
        for depth in (1, 5, 10):
            recall[f"{name}_r{depth}_of_{many}"] = round(
                100 * float((rank < depth).float().mean()), 2
            )
    return recall
