"""Train the language model of captions: one pass loop, resumable, validated on held-out text."""

from __future__ import annotations

import json
import math
import os
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError, MissingExtra
from captious.models import lm
from captious.reading import read_parquet, read_text
from captious.text import tokenizers, treebank


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result besides the text."""

    epochs: int = 3
    tokens: int = 4096  # per batch
    rate: float = 4e-3
    clip: float = 1.0
    dropout: float = 0.1
    least: int = 5  # rarer words are unknown
    embedding: int = 256
    hidden: int = 320
    seed: int = 0
    tokenizer: str = "ptb"


DEFAULT = Recipe()


def coco_captions(split: str) -> list[str]:
    """Return the COCO captions that the pycocoevalcap wheel carries (``train`` or ``val``)."""
    try:
        import pycocoevalcap
    except ImportError:
        raise MissingExtra("pycocoevalcap", "meteor", "reading the COCO captions") from None
    jar = Path(pycocoevalcap.__path__[0]) / "spice" / "spice-1.0.jar"
    if not jar.exists():
        raise InputError(f"{jar}: not in this version of pycocoevalcap; give captions in a file")
    with zipfile.ZipFile(jar) as file:
        name = f"coco/annotations/captions_{split}2014.json"
        return [a["caption"] for a in json.loads(file.read(name))["annotations"]]


def broad_captions(data: Path) -> list[str]:
    """Return captions of several collections, none of a photograph that a tested set judges.

    COCO train2014; Flickr30k and Flickr8k, training photographs without those that Flickr8k-Expert
    and Flickr8k-CF judge (Flickr30k names the same photograph by its number alone); captions and
    references of the photographs of nocaps-FOIL that belong to half A (foils are left out).
    """
    from captious.training.domains import first_half

    def lines(name: str) -> list[str]:
        return read_text(data / "flickr8k" / name).splitlines()

    judged = {
        line.split("\t")[0].partition("_")[0]
        for name in ("ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
        for line in lines(name)
    }
    trained = {line.partition("_")[0] for line in lines("Flickr_8k.trainImages.txt")} - judged
    texts = coco_captions("train")
    for line in lines("Flickr8k.token.txt"):
        name, _, caption = line.partition("\t")
        if name.partition("_")[0] in trained:
            texts.append(caption)
    for row in read_parquet(data / "flickr30k/captions.parquet").to_pylist():
        if row["split"] == "train" and Path(row["image"]).stem not in judged:
            texts += row["captions"]
    for row in read_parquet(data / "nocaps_foil/nocaps_val_foil.parquet").to_pylist():
        if first_half([row["image"]])[0]:
            texts += [row["caption"], *row["references"]]
    return texts


def vocabulary(sentences: Iterable[Sequence[str]], least: int) -> list[str]:
    """Return the words that occur often enough, the most frequent first, after the marks."""
    counts = Counter(w for s in sentences for w in s)
    frequent = sorted((w for w, n in counts.items() if n >= least), key=lambda w: (-counts[w], w))
    return [*lm.SPECIAL, *frequent]


def counted(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> list[int]:
    """Return how often each word of the vocabulary stands in the text; the end once a sentence."""
    number = {w: i for i, w in enumerate(words)}
    counts = [0] * len(words)
    for sentence in sentences:
        for word in sentence:
            counts[number.get(word, lm.UNKNOWN)] += 1
        counts[lm.END] += 1
    return counts


def train(
    texts: Sequence[str],
    held_out: Sequence[str],
    folder: Path,
    recipe: Recipe = DEFAULT,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train on ``texts``, keep the best epoch by perplexity on ``held_out``.

    A killed run goes on from ``folder/checkpoint.pt``.
    """
    import torch

    if len(texts) < 100 or len(held_out) < 10:
        raise InputError("a language model needs at least 100 captions, and 10 held out")
    tokenize = tokenizers.get(recipe.tokenizer)

    def cut(text: str) -> list[list[str]]:
        return [tokenize(sentence) for sentence in treebank.sentences(text)]

    sentences = [words for text in texts for words in cut(text)]
    words = vocabulary(sentences, recipe.least)
    cutoffs = tuple(c for c in (1000, 4000) if c < len(words) - 1) or (max(1, len(words) // 2),)
    sizes = lm.Sizes(len(words), recipe.embedding, recipe.hidden, cutoffs)
    counts = counted(sentences, words)
    number = {w: i for i, w in enumerate(words)}

    def coded(sentence: Sequence[str]) -> list[int]:
        return [lm.START, *(number.get(w, lm.UNKNOWN) for w in sentence[:60]), lm.END]

    coded_sentences = [coded(s) for s in sentences if s]
    dev = [coded(words) for text in held_out for words in cut(text)]
    torch.manual_seed(recipe.seed)
    layers = lm.network(sizes)
    optimiser = torch.optim.Adam(layers.parameters(), recipe.rate)
    folder.mkdir(parents=True, exist_ok=True)
    stored = folder / "checkpoint.pt"
    epoch, best, history = 0, math.inf, []
    if stored.exists():
        state = torch.load(stored, weights_only=True)
        layers.load_state_dict(state["layers"])
        optimiser.load_state_dict(state["optimiser"])
        epoch, best, history = state["epoch"], state["best"], json.loads(state["history"])
        torch.set_rng_state(state["draws"])  # or dropout would differ from an unbroken run's
        say(f"continuing after epoch {epoch}")
    drop = torch.nn.Dropout(recipe.dropout)
    total = recipe.epochs * (sum(map(len, coded_sentences)) // recipe.tokens + 1)
    step = int(state["step"]) if epoch else 0
    while epoch < recipe.epochs:
        layers.train()
        start, seen, loss_sum = time.monotonic(), 0, 0.0
        for rows in batches(coded_sentences, recipe.tokens, recipe.seed + epoch):
            batch = torch.tensor([coded_sentences[i] for i in rows])
            rate = recipe.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))
            for group in optimiser.param_groups:
                group["lr"] = max(rate, 1e-5)
            state_, _ = layers["rnn"](drop(layers["embed"](batch[:, :-1])))
            flat = drop(state_).reshape(-1, state_.shape[-1])
            loss = layers["out"](flat, batch[:, 1:].reshape(-1)).loss
            if not torch.isfinite(loss):
                raise InputError(f"the loss is no longer finite (step {step}); lower --rate")
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(layers.parameters(), recipe.clip)
            optimiser.step()
            step += 1
            count = batch[:, 1:].numel()
            seen, loss_sum = seen + count, loss_sum + float(loss.detach()) * count
            if step % 200 == 0:
                speed = seen / (time.monotonic() - start)
                say(
                    f"epoch {epoch + 1} step {step}/{total} loss {loss_sum / seen:.4f} "
                    f"perplexity {math.exp(loss_sum / seen):.2f} {speed:,.0f} tokens/s"
                )
        epoch += 1
        layers.eval()
        perplexity = _perplexity(lm.LanguageModel(layers, words, "", recipe.tokenizer), dev)
        history.append(
            {"epoch": epoch, "train": math.exp(loss_sum / max(seen, 1)), "dev": perplexity}
        )
        say(f"epoch {epoch}: held-out perplexity {perplexity:.3f}")
        if perplexity < best:
            best = perplexity
            lm.save(folder, layers, words, sizes, recipe.tokenizer, half=True, counts=counts)
        part = stored.with_suffix(".tmp")
        torch.save(
            {
                "layers": layers.state_dict(),
                "optimiser": optimiser.state_dict(),
                "epoch": epoch,
                "best": best,
                "history": json.dumps(history),
                "step": step,
                "draws": torch.get_rng_state(),
            },
            part,
        )
        os.replace(part, stored)
    result = {
        "recipe": asdict(recipe),
        "captions": len(texts),
        "words": len(words),
        "history": history,
    }
    (folder / "training.json").write_text(json.dumps(result, indent=1) + "\n")
    stored.unlink()
    return result


def batches(data: Sequence[Sequence[int]], tokens: int, seed: int) -> list[list[int]]:
    """Return shuffled batches of sentences of one length, about ``tokens`` tokens each."""
    rng = np.random.default_rng(seed)
    by_length: dict[int, list[int]] = {}
    for i in rng.permutation(len(data)).tolist():
        by_length.setdefault(len(data[i]), []).append(i)
    batched = []
    for size, rows in by_length.items():
        room = max(1, tokens // size)
        batched += [rows[k : k + room] for k in range(0, len(rows), room)]
    return [batched[i] for i in rng.permutation(len(batched))]


def _perplexity(model: lm.LanguageModel, coded: list[list[int]]) -> float:
    log_probabilities = model._run(coded)
    return math.exp(
        -sum(r.sum() for r in log_probabilities) / sum(len(r) for r in log_probabilities)
    )
