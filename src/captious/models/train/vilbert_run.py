"""From files to a trained ViLBERT folder: reading, similar photographs, dev scores, model card."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captious.evidence.region_formats import open_regions
from captious.evidence.regions import RegionStore, require
from captious.models.image_text import WordPieces, as_regions
from captious.models.train.curve import draw_curve
from captious.models.train.scan import Whitening, nearest
from captious.models.train.scan_run import Sources, read_captions, sentence_vectors
from captious.models.train.vilbert import VilbertTrainer, folded
from captious.models.train.vilbert_batches import VilbertData, VilbertOptions, Vocabulary
from captious.models.train.vilbert_looking import LookingTrainer
from captious.models.train.vilbert_objectives import token_f
from captious.models.train.vilbert_teacher import LookingTeacher
from captious.models.vilbert import Vilbert
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_heads import MATCH, Heads
from captious.models.vilbert_load import save_vilbert, text_encoder_state
from captious.progress import track
from captious.types import Floats

Pieces = tuple[int, ...]
_NEAR = 20
_AT_ONCE = 64


def train(
    sources: Sources,
    config: VilbertConfig,
    options: VilbertOptions,
    target: Path,
    text: str | None = "minilm",
    report: Callable[[dict[str, Any]], None] | None = None,
    start: Path | None = None,
    looking: Path | None = None,
    unseen: Container[str] = (),
) -> Path:
    """Train (or go on with) a model and write its folder: weights, configuration, card, curve.

    ``start`` is the folder of an earlier run whose weights this one begins with, or a file of its;
    ``looking`` the folder of a grounding model (SCAN), which makes this the second stage;
    ``unseen`` words that no region can show.
    """
    torch.set_num_threads(1)  # small products: more threads are slower
    if start is not None:  # words and regions are aligned already
        options = replace(options, align_steps=0)
    captions, splits = read_captions(sources)
    store = open_regions(sources.regions)
    require(store, [name for part in splits.values() for name in part])
    pieces = WordPieces(None, config.vocab_size)
    raw = {part: gather(store, names) for part, names in splits.items()}
    stores = [store]
    if sources.flipped is not None:
        stores.append(open_regions(sources.flipped))
        require(stores[1], splits["train"])
    whitening = Whitening(raw["train"][0], options.whitened)
    data = {}
    nothing = whitening(torch.zeros(1, 1, store.dim))[0].float()
    for part, names in splits.items():
        texts = [captions[name] for name in names]
        ids = [[one.ids for one in pieces.tokenize(some, options.longest)] for some in texts]
        teacher = sentence_vectors(sources.teacher, texts)
        near = None if teacher is None else nearest(teacher, min(_NEAR, len(texts) - 1))
        features, boxes = raw.pop(part)
        data[part] = VilbertData(whitening(features), boxes, ids, near, teacher, nothing)
    if sources.flipped is not None:
        features, boxes = gather(stores[1], splits["train"])
        data["train"].mirrored = whitening(features), boxes
    if looking is not None:
        texts = [captions[name] for name in splits["train"]]
        spelled = [
            [pieces.spell(one) for one in pieces.tokenize(some, options.longest)] for some in texts
        ]
        data["train"].looking = LookingTeacher(
            looking, stores, splits["train"], texts, spelled, unseen
        )
    words = Vocabulary(config.vocab_size, *pieces.masking())
    state = text_encoder_state(text) if text is not None else None
    kind = VilbertTrainer if looking is None else LookingTrainer
    trainer = kind(config, data["train"], words, options, target / "run", state)
    if start is not None:
        trainer.start_from(start if start.is_file() else start / "run")
    trainer.resume()
    judge = DevJudge(data["dev"], words.specials)
    best = torch.load(trainer.run(judge, report), weights_only=True)
    trainer.heads.load_state_dict(best["heads"])  # first: it shares the word table
    trainer.model.load_state_dict(best["model"])
    trainer.model.eval()
    trainer.heads.eval()
    quality = {
        **DevJudge(data["dev"], words.specials, len(splits["dev"]))(trainer.model, trainer.heads),
        **recalls(trainer.model, trainer.heads, data["dev"], 100),
    }
    facts = {
        "training": asdict(options),
        "teacher": sources.teacher,
        "images": len(splits["train"]),
        "dev": quality,
    }
    whole = folded(trainer.model, whitening, store.source)
    save_vilbert(whole, target, facts, text_from=text, heads=trainer.heads)
    draw_curve(trainer.history, target / "curve.png",
               ("words", "regions", "matching", "alignment", "agreement", "preference",
                "contribution", "looking"),
               ("random", "near", "graded", "preferred", "blind"))  # fmt: skip
    (target / "README.md").write_text(model_card(target.name, facts, text), encoding="utf-8")
    return target


def gather(store: RegionStore, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Features (half precision) and boxes of all images, the whole image as region 0.

    Images with fewer regions than the largest repeat their whole-image row.
    """
    seen = [
        as_regions(name, store[name], store.dim, boxes=True, whole=True)
        for name in track(names, "reading regions", unit="images")
    ]
    most = max(map(len, seen))
    features = np.empty((len(seen), most, store.dim), np.float16)
    boxes = np.empty((len(seen), most, 5), np.float32)
    for row, one in enumerate(seen):
        for block, values in ((features, one.features), (boxes, one.boxes)):
            block[row, : len(one)] = values
            block[row, len(one) :] = values[0]
    return torch.from_numpy(features), torch.from_numpy(boxes)


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
        self.rows: list[tuple[int, list[Pieces], list[Pieces]]] = []
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
        some = self.data.captions[image]
        return some[int(draw.integers(len(some)))]

    def __call__(self, model: Vilbert, heads: Heads) -> dict[str, float]:
        """All scores."""
        from scipy.stats import kendalltau

        pairs = [(image, text) for image, texts, _ in self.rows for text in texts]
        value = match_scores(model, heads, self.data, pairs).reshape(-1, 4)
        out = {
            "random": float((value[:, 0] > value[:, 3]).float().mean()),
            "near": float((value[:, 0] > value[:, 1]).float().mean()),
        }
        f = self.scores(model, self.data)
        out["graded"] = float(
            kendalltau(f.flatten(), np.tile([4, 3, 2, 1], len(f)), variant="c").statistic
        )
        out["preferred"] = float((f[:, 0] > f[:, 1]).mean())
        f = self.scores(model, blinded(self.data))
        out["blind"] = float((f[:, 0] > f[:, 1]).mean())
        return {**out, "select": sum(out.values()) - out["blind"]}

    def scores(self, model: Vilbert, data: VilbertData) -> Floats:
        """Mean F of the four captions of each photograph."""
        pairs = [(image, text) for image, some, refs in self.rows for text in (*some, *refs)]
        found = iter(zip(pairs, text_states(model, data, pairs), strict=True))
        value = []
        for _, some, refs in self.rows:
            texts, states = zip(*(next(found) for _ in range(len(some) + len(refs))), strict=True)
            block = torch.nn.utils.rnn.pad_sequence(list(states), batch_first=True)
            ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(t) for _, t in texts], True)
            said = (ids != 0) & ~torch.isin(ids, self.specials)
            a = torch.arange(len(some)).repeat_interleave(len(refs))
            b = len(some) + torch.arange(len(refs)).repeat(len(some))
            f = token_f(block[b], said[b], block[a], said[a])
            value.append(f.reshape(len(some), -1).mean(1).tolist())
        return np.array(value)


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
    out = [torch.empty(0)] * len(pairs)
    for some, ids, images in _batches(pairs):
        mask = ids != 0
        start = model.image_alone(data.features[images].float(), data.boxes[images], None)
        text = model.text_alone(ids, mask, None)
        *_, (states, _) = model.together(text, mask, start, None, last=model.config.blocks)
        for at, row in zip(some, states, strict=True):
            out[at] = row[: len(pairs[at][1])].clone()
    return out


def _batches(
    pairs: Sequence[tuple[int, Pieces]],
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Pairs of like length together: their numbers, piece numbers, images."""
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][1]))
    with torch.inference_mode():
        for begin in range(0, len(order), _AT_ONCE):
            some = order[begin : begin + _AT_ONCE]
            ids = torch.zeros(len(some), len(pairs[some[-1]][1]), dtype=torch.long)
            for row, at in enumerate(some):
                ids[row, : len(pairs[at][1])] = torch.tensor(pairs[at][1])
            yield some, ids, torch.tensor([pairs[at][0] for at in some])


def match_scores(
    model: Vilbert, heads: Heads, data: VilbertData, pairs: Sequence[tuple[int, Pieces]]
) -> Tensor:
    """How much each pair of image and caption belongs together (a difference of logits)."""
    out = torch.empty(len(pairs))
    for some, ids, images in _batches(pairs):
        seen = model(ids, ids != 0, data.features[images].float(), data.boxes[images])
        logits = heads.match(seen)
        out[some] = logits[:, MATCH] - logits[:, 1 - MATCH]
    return out


def recalls(model: Vilbert, heads: Heads, data: VilbertData, images: int) -> dict[str, float]:
    """R@1, 5, 10 in both directions among the first images, one caption each."""
    many = min(images, len(data.captions))
    pairs = [(i, data.captions[j][0]) for i in range(many) for j in range(many)]
    scores = match_scores(model, heads, data, pairs).reshape(many, many)
    own = scores.diagonal()
    out = {}
    for name, rank in (("captions", (scores > own[:, None]).sum(1)),
                       ("images", (scores > own[None]).sum(0))):  # fmt: skip
        for depth in (1, 5, 10):
            out[f"{name}_r{depth}_of_{many}"] = round(100 * float((rank < depth).float().mean()), 2)
    return out


def model_card(name: str, facts: Mapping[str, Any], text: str | None) -> str:
    """A short card from the facts of the run."""
    lines = [f"# {name}", "", "ViLBERT, trained with `captious train vilbert`.", ""]
    lines += [f"- text stream started from: {text}"] if text is not None else []
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    return "\n".join([*lines, ""])
