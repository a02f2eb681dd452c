"""From files to a trained ViLBERT folder: reading, similar photographs, dev scores, model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captious.evidence.region_formats import open_regions
from captious.evidence.regions import RegionStore, require
from captious.models.image_text import WordPieces, as_regions
from captious.models.train.curve import draw_curve
from captious.models.train.scan import Whitening
from captious.models.train.scan_run import Sources, read_captions
from captious.models.train.vilbert import (
    VilbertData,
    VilbertOptions,
    VilbertTrainer,
    Vocabulary,
    folded,
)
from captious.models.vilbert import Vilbert
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_heads import MATCH, Heads
from captious.models.vilbert_load import save_vilbert, text_encoder_state
from captious.progress import track

_NEAR = 20
_AT_ONCE = 64


def train(
    sources: Sources,
    config: VilbertConfig,
    options: VilbertOptions,
    target: Path,
    text: str | None = "minilm",
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train (or go on with) a model and write its folder: weights, configuration, card, curve."""
    torch.set_num_threads(1)  # small products: more threads are slower
    captions, splits = read_captions(sources)
    store = open_regions(sources.regions)
    require(store, [name for part in splits.values() for name in part])
    pieces = WordPieces(None, config.vocab_size)
    raw = {part: gather(store, names) for part, names in splits.items()}
    whitening = Whitening(raw["train"][0], options.whitened)
    data = {}
    for part, names in splits.items():
        texts = [captions[name] for name in names]
        ids = [[one.ids for one in pieces.tokenize(some, options.longest)] for some in texts]
        near = neighbours(sources.teacher, texts) if sources.teacher is not None else None
        data[part] = VilbertData(whitening(raw[part][0]), raw[part][1], ids, near)
    words = Vocabulary(config.vocab_size, *pieces.masking())
    state = text_encoder_state(text) if text is not None else None
    trainer = VilbertTrainer(config, data["train"], words, options, target / "run", state)
    trainer.resume()
    judge = MatchJudge(data["dev"])
    best = torch.load(trainer.run(judge, report), weights_only=True)
    trainer.model.load_state_dict(best["model"])
    trainer.heads.load_state_dict(best["heads"])
    trainer.model.eval()
    trainer.heads.eval()
    quality = {
        **MatchJudge(data["dev"], len(splits["dev"]))(trainer.model, trainer.heads),
        **recalls(trainer.model, trainer.heads, data["dev"], 100),
    }
    facts = {
        "training": asdict(options),
        "teacher": sources.teacher,
        "images": len(splits["train"]),
        "dev": quality,
    }
    whole = folded(trainer.model, whitening, store.source)
    save_vilbert(whole, target, facts, text_from=text)
    draw_curve(trainer.history, target / "curve.png", ("words", "regions", "matching"),
               ("random", "near"))  # fmt: skip
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


def neighbours(teacher: str, captions: Sequence[Sequence[str]]) -> Tensor:
    """The most similar photographs of each, by the mean vector of their captions."""
    from captious.models import text_encoder

    encoder = text_encoder.load(teacher)
    means = []
    for some in track(captions, "comparing captions", unit="images"):
        means.append(encoder.encode(list(some), encoder.layers).vectors.mean(0))
    unit = torch.nn.functional.normalize(torch.stack(means), dim=1)
    count = min(_NEAR, len(unit) - 1)
    out = []
    for begin in range(0, len(unit), 512):
        cosine = unit[begin : begin + 512] @ unit.T
        rows = torch.arange(len(cosine))
        cosine[rows, rows + begin] = -2.0
        out.append(cosine.topk(count, dim=1).indices)
    return torch.cat(out)


class MatchJudge:
    """How often the own caption is preferred to a wrong one: a random, and a similar image's."""

    def __init__(self, data: VilbertData, images: int = 300, seed: int = 0) -> None:
        self.data = data
        draw = np.random.default_rng(seed)
        many = len(data.captions)
        self.rows: list[tuple[int, list[tuple[int, ...]]]] = []
        for image in range(min(images, many)):
            other = (image + 1 + int(draw.integers(many - 1))) % many
            near = other
            if data.near is not None:
                near = int(data.near[image, int(draw.integers(min(5, data.near.shape[1])))])
            self.rows.append((image, [self._one(draw, which) for which in (image, other, near)]))

    def _one(self, draw: np.random.Generator, image: int) -> tuple[int, ...]:
        some = self.data.captions[image]
        return some[int(draw.integers(len(some)))]

    def __call__(self, model: Vilbert, heads: Heads) -> dict[str, float]:
        """Shares of right preferences; ``select`` is their mean."""
        pairs = [(image, text) for image, texts in self.rows for text in texts]
        value = match_scores(model, heads, self.data, pairs).reshape(-1, 3)
        out = {
            "random": float((value[:, 0] > value[:, 1]).float().mean()),
            "near": float((value[:, 0] > value[:, 2]).float().mean()),
        }
        return {**out, "select": (out["random"] + out["near"]) / 2}


def match_scores(
    model: Vilbert, heads: Heads, data: VilbertData, pairs: Sequence[tuple[int, tuple[int, ...]]]
) -> Tensor:
    """How much each pair of image and caption belongs together (a difference of logits)."""
    out = torch.empty(len(pairs))
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][1]))
    with torch.inference_mode():
        for begin in range(0, len(order), _AT_ONCE):
            some = order[begin : begin + _AT_ONCE]
            ids = torch.zeros(len(some), len(pairs[some[-1]][1]), dtype=torch.long)
            for row, at in enumerate(some):
                ids[row, : len(pairs[at][1])] = torch.tensor(pairs[at][1])
            images = torch.tensor([pairs[at][0] for at in some])
            logits = heads.match(
                model(ids, ids != 0, data.features[images].float(), data.boxes[images])
            )
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
