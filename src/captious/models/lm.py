"""A small recurrent language model of captions: word embeddings, one GRU, adaptive softmax.

It tells how fluent a caption is; see ``captious.metrics.lm``. Trained by ``captious train lm``
(``training/lm.py``); stored as safetensors beside a JSON of its vocabulary and sizes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious import assets, settings
from captious.errors import InputError
from captious.models.checkpoints import fit_sizes, load_safetensors
from captious.reading import json_object, reading
from captious.types import Floats

if TYPE_CHECKING:
    import torch

UNKNOWN, START, END = 0, 1, 2
SPECIAL = ("<unk>", "<s>", "</s>")
FORMAT = 1
STUMBLES = 3  # at least that many of the least expected words count,
STUMBLING_PART = 5  # and one of so many: a long caption has more chances to stumble


@dataclass(frozen=True)
class Sizes:
    """What decides the shape of the network; cutoffs part frequent from rare words."""

    words: int
    embedding: int = 256
    hidden: int = 320
    cutoffs: tuple[int, ...] = (1000, 4000)


def network(sizes: Sizes) -> torch.nn.ModuleDict:
    """Return the layers with fresh weights; class numbers are word numbers, frequent first."""
    from torch import nn

    return nn.ModuleDict(
        {
            "embed": nn.Embedding(sizes.words, sizes.embedding),
            "rnn": nn.GRU(sizes.embedding, sizes.hidden, batch_first=True),
            "out": nn.AdaptiveLogSoftmaxWithLoss(
                sizes.hidden, sizes.words, list(sizes.cutoffs), div_value=2.0
            ),
        }
    )


def log_probabilities(layers: Any, batch: torch.Tensor) -> torch.Tensor:
    """Return (sentences, tokens - 1): ln p of each token after the first, given those before it.

    All sentences of a batch have the same length, so that nothing is padded.
    """
    state, _ = layers["rnn"](layers["embed"](batch[:, :-1]))
    flat = layers["out"](state.reshape(-1, state.shape[-1]), batch[:, 1:].reshape(-1)).output
    return flat.reshape(len(batch), -1)


class LanguageModel:
    """A trained model with its vocabulary."""

    def __init__(
        self,
        layers: Any,
        vocabulary: Sequence[str],
        sha: str,
        tokenizer: str,
        counts: Sequence[int] | None = None,
    ) -> None:
        self.layers, self.sha, self.tokenizer = layers, sha, tokenizer
        self.vocabulary = list(vocabulary)
        self.frequency = None if counts is None else log_shares(counts)
        self.number = {w: i for i, w in enumerate(vocabulary)}

    def encode(self, words: Sequence[str]) -> list[int]:
        """Return word numbers between the marks of start and end."""
        return [START, *(self.number.get(w, UNKNOWN) for w in words), END]

    def token_scores(self, words: Sequence[str]) -> Floats:
        """Return ln p of every word and of the end."""
        return self._run([self.encode(words)])[0]

    def fluency(self, captions: Sequence[Sequence[Sequence[str]]]) -> Floats:
        """Return (captions, 3): 1/perplexity, slor and stumbles of captions cut into sentences.

        The first is the geometric mean of the token probabilities p. With d = ln p - ln f, f being
        a token's share of the training text, the second is the mean of d (the syntactic log odds
        ratio), the third how far the mean of the lowest fifth of d (three at least) falls below
        ln 2. These two are NaN where the model was saved without word counts.
        """
        coded = [self.encode(sentence) for sentences in captions for sentence in sentences]
        logs = iter(self._run(coded))
        tokens = iter(coded)
        out = np.full((len(captions), 3), np.nan)
        for row, sentences in enumerate(captions):
            logs_of_all = np.concatenate([next(logs) for _ in sentences])
            codes = np.concatenate([next(tokens)[1:] for _ in sentences])
            out[row, 0] = np.exp(logs_of_all.mean())
            if self.frequency is not None:
                odds = logs_of_all - self.frequency[codes]
                count = max(STUMBLES, math.ceil(len(odds) / STUMBLING_PART))
                lowest = np.sort(odds)[:count].mean()
                out[row, 1:] = odds.mean(), min(0.0, lowest - np.log(2.0))
        return out

    def _run(self, coded: list[list[int]]) -> list[Floats]:
        import torch

        device = settings.torch_device()
        self.layers.to(device)
        out: list[Floats] = [np.zeros(0)] * len(coded)
        order = sorted(range(len(coded)), key=lambda i: len(coded[i]))
        start = 0
        with torch.inference_mode():
            while start < len(order):
                size = len(coded[order[start]])
                room = max(1, 16384 // size)
                stop = start
                while stop < len(order) and stop - start < room and len(coded[order[stop]]) == size:
                    stop += 1
                rows = order[start:stop]
                batch = torch.tensor([coded[i] for i in rows], device=device)
                values = log_probabilities(self.layers, batch).double().cpu().numpy()
                for i, row in zip(rows, values, strict=True):
                    out[i] = row
                start = stop
        return out


def log_shares(counts: Sequence[int]) -> Floats:
    """Return ln of every word's share of the text; a count of nothing counts as a half."""
    counted = np.asarray(counts, np.float64)
    return np.log(np.maximum(counted, 0.5) / counted.sum())


def save(
    folder: Path,
    layers: Any,
    vocabulary: Sequence[str],
    sizes: Sizes,
    tokenizer: str,
    half: bool,
    counts: Sequence[int] | None = None,
) -> None:
    """Write ``model.safetensors`` and ``config.json``.

    ``counts`` says how often each word of the vocabulary stands in the training text.
    """
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    kind = torch.float16 if half else torch.float32
    weights = {k: v.detach().to("cpu", kind).contiguous() for k, v in layers.state_dict().items()}
    save_file(weights, str(folder / "model.safetensors"))
    config = {
        "format": FORMAT,
        "embedding": sizes.embedding,
        "hidden": sizes.hidden,
        "cutoffs": sizes.cutoffs,
        "tokenizer": tokenizer,
        "vocabulary": list(vocabulary),
        "counts": None if counts is None else [int(c) for c in counts],
    }
    (folder / "config.json").write_text(json.dumps(config, ensure_ascii=False) + "\n")


def load(path: str | None = None) -> LanguageModel:
    """Open the shipped model, or the one in a folder."""
    return _load(assets.resolve("lm-captions", path, wanted_by="the language model"))


@lru_cache(maxsize=2)
def _load(folder: Path) -> LanguageModel:
    with reading(folder, "a language model of captious", "train it again"):
        return _read(folder)


def _read(folder: Path) -> LanguageModel:
    import torch

    config = json_object(folder / "config.json", "a language model of captious")
    weights = load_safetensors(folder / "model.safetensors")
    if config.get("format") != FORMAT:
        raise InputError(f"{folder}: a language model of another version; train it again")
    words = config["vocabulary"]
    if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
        raise InputError(f"{folder}/config.json: the vocabulary is not a list of words")
    sizes = Sizes(len(words), config["embedding"], config["hidden"], tuple(config["cutoffs"]))
    fit_sizes(folder, weights, sizes.embedding, sizes.hidden)
    layers = network(sizes)
    layers.load_state_dict({k: v.to(torch.float32) for k, v in weights.items()})
    layers.eval()
    files = [assets.digest(folder / name) for name in ("model.safetensors", "config.json")]
    sha = hashlib.sha256("".join(files).encode()).hexdigest()[:8]
    counts = config.get("counts")
    if counts is not None and len(counts) != len(config["vocabulary"]):
        raise InputError(
            f"{folder}/config.json: {len(counts):,} counts for {len(config['vocabulary']):,} words"
        )
    return LanguageModel(layers, config["vocabulary"], sha, config["tokenizer"], counts)
