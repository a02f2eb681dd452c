"""Train the word detector: captions say which nouns a photograph has, nobody says where.

The nouns are the most frequent ones of the train captions: a word counts as a noun where our
parser's tagger mostly says so, and plurals count as their singular. A photograph has a noun if one
of its captions names it. The loss is the log loss of the noisy or over the regions
(:mod:`captious.evidence.word_detector`), so that single regions learn to speak for single nouns.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from captious.errors import InputError
from captious.evidence.region_formats import open_regions
from captious.evidence.regions import require
from captious.evidence.word_detector import FORMAT
from captious.models.fit import packed
from captious.text import treebank
from captious.text._scene_lemmas import Lemmas
from captious.text.scene_parser import SceneParser
from captious.text.synsets import WordTables
from captious.training.scan_run import Sources, gather, read_captions
from captious.training.whitened import Whitening, whitened, whitening_of

_TAGGED = 30_000  # captions that the tagger reads to tell nouns from other words
_MOSTLY = 0.6  # share of noun tags that makes a word a noun


@dataclass(frozen=True)
class WordOptions:
    """What a run is made of; shown on the model card."""

    words: int = 1000
    steps: int = 2000
    images: int = 128
    inner: int = 768
    learning_rate: float = 1e-3
    decay: float = 0.02
    warmup: int = 100
    whitened: int = 1024
    region_dropout: float = 0.33
    dropout: float = 0.2
    validate: int = 500
    bfloat16: bool = False
    seed: int = 1


class Nouns:
    """Which words of captions are nouns, and their singular.

    Args:
        captions: a sample of them is tagged.
        count: how many nouns, the most frequent ones of all ``captions``.
    """

    def __init__(self, captions: Sequence[str], count: int) -> None:
        self._split = [treebank.split(text.lower()) for text in captions]
        base = self._bases()
        counts = Counter(base[w] for words in self._split for w in words if w in base)
        self.words = [word for word, _ in counts.most_common(count)]
        number = {word: place for place, word in enumerate(self.words)}
        self._number = {form: number[noun] for form, noun in base.items() if noun in number}

    def _bases(self) -> dict[str, str]:
        """Singular of every form that the tagger mostly calls a noun."""
        draw = np.random.default_rng(0)
        tagged = draw.permutation(len(self._split))[:_TAGGED]
        parses = SceneParser("default").parse(" ".join(self._split[k]) for k in tagged)
        lemmas = Lemmas(WordTables.open())
        tags: dict[str, Counter[str]] = {}
        for parse in parses.values():
            for word, tag in zip(parse.words, parse.tags, strict=True):
                tags.setdefault(word, Counter())[tag] += 1
        base = {}
        for word, seen in tags.items():
            nouns = {tag: n for tag, n in seen.items() if tag in ("NN", "NNS")}
            if word.isalpha() and sum(nouns.values()) > _MOSTLY * seen.total():
                base[word] = lemmas[word, max(nouns, key=nouns.__getitem__)]
        return base

    def mentioned(self, captions: Sequence[str]) -> list[int]:
        """Numbers of the nouns that these captions name."""
        forms = {word for text in captions for word in treebank.split(text.lower())}
        return sorted({self._number[form] for form in forms if form in self._number})


class WordLearner(nn.Module):
    """The network in the form it is trained in: whitened features in, logits out."""

    def __init__(self, width: int, inner: int, words: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, words)
        self.drop = nn.Dropout(dropout)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits ``[images, regions, words]``."""
        return self.second(self.drop(functional.relu(self.first(features))))


def log_loss(logits: Tensor, there: Tensor) -> Tensor:
    """Log loss of the noisy or over regions; ``there [images, words]`` is 0 or 1."""
    doubt = functional.softplus(logits).sum(1).clamp(min=1e-6)  # minus log of "not there"
    return torch.where(there > 0, -torch.log(-torch.expm1(-doubt)), doubt).sum(1).mean()


def average_precision(scores: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Average precision of each column; NaN where nothing is there.

    Example:
        >>> average_precision(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]])).round(3)
        array([0.833])
    """
    order = np.argsort(-scores, axis=0, kind="stable")
    hits = np.take_along_axis(there, order, 0).astype(float)
    precision = hits.cumsum(0) / np.arange(1, len(hits) + 1)[:, None]
    with np.errstate(invalid="ignore"):
        return np.asarray((precision * hits).sum(0) / hits.sum(0))


def train(
    sources: Sources,
    options: WordOptions,
    target: Path,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train a word detector and write its folder."""
    torch.set_num_threads(1)
    captions, splits = read_captions(sources)
    store = open_regions(sources.regions)
    require(store, [name for part in splits.values() for name in part])
    nouns = Nouns([text for name in splits["train"] for text in captions[name]], options.words)
    if not nouns.words:
        raise InputError(f"{sources.captions}: no nouns in the captions")
    run = target / "run"
    whitening = whitening_of(store, splits["train"], options.whitened, run)
    features = whitened(store, splits["train"], whitening, run / "regions.npy")
    lists = {
        part: [nouns.mentioned(captions[name]) for name in names] for part, names in splits.items()
    }
    dev = gather(store, splits["dev"])
    dev_there = _table(lists["dev"], len(nouns.words)).numpy() > 0
    learner = _Run(features, lists["train"], len(nouns.words), options)
    result: dict[str, Any] = {}
    for step in range(1, options.steps + 1):
        loss = learner.one_step(step)
        if step % options.validate == 0 or step == options.steps:
            precision = average_precision(learner.scores(dev, whitening), dev_there)
            result = {"step": step, "loss": loss, "mean_ap": float(np.nanmean(precision))}
            if report is not None:
                report(result)
    facts = {
        "features": store.source,
        "training": asdict(options),
        "images": len(splits["train"]),
        "dev": result | {"images": len(splits["dev"])},
        "average_precision": {
            word: None if math.isnan(value) else round(float(value), 3)
            for word, value in zip(nouns.words, precision, strict=True)
        },
    }
    save(learner.net, whitening, nouns.words, target, facts)
    return target


class _Run:
    """Network, optimiser and batches."""

    def __init__(
        self, features: Tensor, lists: list[list[int]], words: int, options: WordOptions
    ) -> None:
        torch.manual_seed(options.seed)
        self.features, self.lists, self.options, self.words = features, lists, options, words
        self.net = WordLearner(features.shape[-1], options.inner, words, options.dropout)
        counts = np.bincount(np.concatenate([*map(np.array, lists)]).astype(int), minlength=words)
        regions = features.shape[1]
        prior = torch.from_numpy((counts + 1) / (len(lists) + 2) / regions).float()
        self.net.second.bias.data.copy_(prior.log())
        nn.init.normal_(self.net.second.weight, std=0.02)
        self.optimiser = torch.optim.AdamW(
            self.net.parameters(), lr=options.learning_rate, weight_decay=options.decay, fused=True
        )
        self.random = np.random.default_rng(options.seed)
        self.order: list[int] = []

    def one_step(self, step: int) -> float:
        options = self.options
        done = min(1.0, step / max(1, options.steps))
        rate = min(1.0, step / max(1, options.warmup)) * 0.5 * (1 + math.cos(math.pi * done))
        for group in self.optimiser.param_groups:
            group["lr"] = options.learning_rate * max(rate, 0.01)
        if len(self.order) < options.images:
            self.order = self.random.permutation(len(self.lists)).tolist()
        rows, self.order = self.order[: options.images], self.order[options.images :]
        total = self.features.shape[1]
        kept = max(1, round(total * (1 - options.region_dropout)))
        places = np.sort(np.append(self.random.permutation(total - 1)[: kept - 1] + 1, 0))
        features = self.features[torch.tensor(rows)[:, None], torch.from_numpy(places)].float()
        there = _table([self.lists[row] for row in rows], self.words)
        self.net.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
            logits = self.net(features)
        loss = log_loss(logits.float() + math.log(total / kept), there)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.optimiser.step()
        return float(loss.detach())

    def scores(self, features: Tensor, whitening: Whitening) -> np.ndarray:
        """Doubt of every word and photograph, which orders as the probability does."""
        self.net.eval()
        with torch.inference_mode():
            parts = [
                functional.softplus(self.net(whitening(batch.float()))).sum(1)
                for batch in features.split(64)
            ]
        return torch.cat(parts).numpy()


def _table(lists: Sequence[Sequence[int]], words: int) -> Tensor:
    table = torch.zeros(len(lists), words)
    for row, nouns in enumerate(lists):
        table[row, list(nouns)] = 1
    return table


def save(
    net: WordLearner,
    whitening: Whitening,
    words: Sequence[str],
    target: Path,
    facts: Mapping[str, Any],
) -> None:
    """Write a folder that :func:`captious.evidence.word_detector.load` reads."""
    from safetensors.torch import save_file

    target.mkdir(parents=True, exist_ok=True)
    weight, bias = whitening.folded(net.first.weight.detach(), net.first.bias.detach())
    stored: dict[str, Tensor] = {}
    for name, value in (
        ("first.weight", weight),
        ("first.bias", bias),
        ("second.weight", net.second.weight.detach()),
        ("second.bias", net.second.bias.detach()),
    ):
        stored |= packed(name, value.float())
    save_file(stored, target / "model.safetensors")
    text = json.dumps({"format": FORMAT, "words": list(words), **facts}, indent=1)
    (target / "config.json").write_text(text + "\n", encoding="utf-8")
    lines = [f"# {target.name}", "", "Word detector, trained with `captious train words`.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items() if key != "average_precision"]
    (target / "README.md").write_text("\n".join([*lines, ""]), encoding="utf-8")
