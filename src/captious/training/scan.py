"""Train SCAN on a CPU: all pairs of a batch at once, resumable, chosen on a graded proxy.

A batch holds ``images`` photographs (groups of similar ones, so that it contains hard negatives)
and two captions of each. The losses:

* the hinge loss of SCAN, summed over all negatives or the hardest only;
* with a *teacher* (sentence vectors of the captions): one minus the correlation between the
  teacher's relevance of caption ``j`` for photograph ``i`` (mean cosine with the photograph's own
  captions) and what the model says of the same pair: the image-caption score, and the two parts of
  TIGEr (weight distribution similarity, agreement of the region order) with the other caption as
  the reference.
  The hinge alone treats every wrong caption alike; judgements are graded, and so are these terms.

Word embeddings can start from word vectors: ``embedding = base @ projection + own``, where ``own``
is left out at random, so that words never seen in training still land where their base says.
Region features are whitened first. Both steps are folded into plain SCAN weights at the end.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from captious.errors import InputError, UsageError
from captious.models.scan import (
    Scan,
    ScanConfig,
    TextSide,
    aggregate,
    attend_regions,
    attend_words,
    contrastive_loss,
    pad,
    word_mask,
)
from captious.training.checkpoints import mean_losses, write_history, write_state
from captious.training.whitened import Whitening


@dataclass(frozen=True)
class TrainOptions:
    """What a run is made of; saved beside the checkpoint and shown on the model card."""

    steps: int = 4000
    images: int = 48
    group: int = 4
    learning_rate: float = 1e-3
    warmup: int = 100
    clip: float = 2.0
    margin: float = 0.2
    hardest: bool = False
    hinge: float = 1.0
    graded: float = 1.0
    whitened: int = 1024
    feature_dropout: float = 0.1
    region_dropout: float = 0.33
    own_dropout: float = 0.3
    word_dropout: float = 0.05
    own_words: int = 3500
    longest: int = 18
    average: float = 0.998
    validate: int = 250
    seed: int = 1


@dataclass
class PairData:
    """Photographs with their captions, ready to train on.

    Attributes:
        features: region features ``[images, regions, dim]`` (half precision is fine), whitened
            where the trainer is given the whitening.
        captions: word ids per image and caption.
        flipped: features of the mirrored photographs, or None.
        teacher: sentence vectors ``[images, captions, k]`` of unit length, or None.
    """

    features: Tensor
    captions: list[list[list[int]]]
    flipped: Tensor | None = None
    teacher: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.features) != len(self.captions):
            raise InputError(
                f"{len(self.features)} images have regions, but {len(self.captions)} have captions"
            )
        if min(len(captions_of_one) for captions_of_one in self.captions) < 2:
            raise InputError("training needs at least two captions of every image")


class WordTable(nn.Module):
    """Word embeddings: a projection of fixed base vectors plus what a word learns of its own.

    Only the first ``own`` words (the vocabulary is in order of frequency) learn something of their
    own where there is a base.
    """

    def __init__(self, base: Tensor | None, size: int, dim: int, own: int) -> None:
        super().__init__()
        self.size = size
        self.own = nn.Embedding(size if base is None else min(own, size), dim)
        nn.init.uniform_(self.own.weight, -0.1, 0.1)
        self.register_buffer("base", base)
        if base is not None:
            self.own.weight.data[4:] = 0
            self.project = nn.Linear(base.shape[1], dim, bias=False)
            nn.init.normal_(self.project.weight, std=0.3 / math.sqrt(base.shape[1]))

    def table(self) -> Tensor:
        """The whole table, as it is shipped."""
        if self.base is None:
            return self.own.weight
        table = self.project(self.base).clone()
        table[: self.own.num_embeddings] += self.own.weight
        return table

    def forward(self, ids: Tensor, drop: float) -> Tensor:
        """Embeddings of a batch; ``drop`` is the chance that a word's own part is left out."""
        if self.base is None:
            return self.own(ids)
        known = ids < self.own.num_embeddings
        if drop > 0 and self.training:
            known &= (torch.rand(ids.shape) >= drop) | (ids < 4)
        own = self.own(ids.masked_fill(~known, 0)) * known[..., None]
        return self.project(self.get_buffer("base")[ids]) + own


class Learner(nn.Module):
    """The network in the form it is trained in."""

    def __init__(
        self, config: ScanConfig, inner: int, base: Tensor | None, own: int = 3500
    ) -> None:
        super().__init__()
        from dataclasses import replace

        self.scan = Scan(replace(config, img_dim=inner, vocab_size=4))
        self.words = WordTable(base, config.vocab_size, config.word_dim, own)
        self.final = config

    def export(self, whitening: Whitening) -> Scan:
        """Plain SCAN with whitening and word base folded in."""
        model = Scan(self.final)
        state = dict(self.scan.state_dict())
        weight, bias = whitening.folded(state["image.fc.weight"], state["image.fc.bias"])
        state["image.fc.weight"], state["image.fc.bias"] = weight, bias
        state["text.embed.weight"] = self.words.table().detach()
        model.load_state_dict(state)
        return model.eval()


def relevance(teacher: Tensor, images: Tensor, picks: Tensor) -> Tensor:
    """Teacher's relevance ``[images, captions]`` of the picked captions, own caption left out."""
    mine = teacher[images].float()
    candidate = mine[torch.arange(len(images)), picks]
    cosines = torch.einsum("ikd,jd->ijk", mine, candidate)
    total = cosines.sum(-1)
    count = torch.full_like(total, mine.shape[1])
    own = torch.arange(len(images))
    total[own, own] -= cosines[own, own, picks]
    count[own, own] -= 1
    return total / count


def correlation_loss(values: Tensor, target: Tensor) -> Tensor:
    """One minus Pearson's correlation, over the whole matrix and within its rows, half each."""

    def pearson(a: Tensor, b: Tensor) -> Tensor:
        a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
        return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1) + 1e-6)

    whole = pearson(values.reshape(1, -1), target.reshape(1, -1))
    return 1 - 0.5 * whole.mean() - 0.5 * pearson(values, target).mean()


def soft_tiger(reference: Tensor, candidate: Tensor, tau: float = 1.5) -> tuple[Tensor, Tensor]:
    """Differentiable parts of TIGEr: region-order agreement and WDS.

    ``reference [i, n]``, ``candidate [i, c, n]``; the order agreement is Pearson's correlation.
    """
    ref = reference[:, None]
    a, b = ref - ref.mean(-1, keepdim=True), candidate - candidate.mean(-1, keepdim=True)
    order = (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1) + 1e-6)
    log_p, log_q = ref.log_softmax(-1), candidate.log_softmax(-1)
    divergence = (log_p.exp() * (log_p - log_q)).sum(-1)
    distance = divergence + (ref.norm(dim=-1) + 1e-6).log() - (candidate.norm(dim=-1) + 1e-6).log()
    return order, torch.sigmoid(-tau * distance)


class Batches:
    """Draws groups of similar photographs; the same seed draws the same batches."""

    def __init__(self, data: PairData, options: TrainOptions, neighbours: Tensor | None) -> None:
        self.data, self.options, self.neighbours = data, options, neighbours
        self.random = np.random.default_rng(options.seed)

    def __call__(self) -> tuple[Tensor, Tensor]:
        """Image rows ``[b]`` and the two captions of each ``[2, b]``."""
        count, group = self.options.images, self.options.group
        if self.neighbours is None or group < 2:
            rows = self.random.choice(len(self.data.captions), count, replace=False)
        else:
            chosen: dict[int, None] = {}
            while len(chosen) < count:
                seed = int(self.random.integers(len(self.data.captions)))
                near = self.random.choice(self.neighbours.shape[1], group - 1, replace=False)
                for row in (seed, *self.neighbours[seed, near].tolist()):
                    chosen.setdefault(row)
            rows = np.fromiter(chosen, np.int64)[:count]
        picks = np.stack(
            [self.random.permutation(len(self.data.captions[row]))[:2] for row in rows], axis=1
        )
        return torch.from_numpy(rows), torch.from_numpy(picks)


def nearest(teacher: Tensor, count: int = 60) -> Tensor:
    """Rows of the most similar other photographs, by the mean of their captions' vectors."""
    mean = nn.functional.normalize(teacher.float().mean(1), dim=-1)
    out = []
    for begin in range(0, len(mean), 1000):
        scores = mean[begin : begin + 1000] @ mean.T
        scores[torch.arange(len(scores)), begin + torch.arange(len(scores))] = -2
        out.append(scores.topk(min(count, len(mean) - 1), dim=1).indices)
    return torch.cat(out)


class Trainer:
    """One run: data, network, optimiser, schedule, checkpoints."""

    def __init__(
        self,
        config: ScanConfig,
        data: PairData,
        options: TrainOptions,
        folder: Path,
        base: Tensor | None = None,
        whitening: Whitening | None = None,
    ) -> None:
        torch.manual_seed(options.seed)
        self.options, self.folder, self.data = options, folder, data
        folder.mkdir(parents=True, exist_ok=True)
        self.whitening = whitening or Whitening.sampled(data.features, options.whitened)
        done = whitening is not None
        self.features = data.features if done else self.whitening.blocks(data.features)
        self.flipped = data.flipped
        if data.flipped is not None and not done:
            self.flipped = self.whitening.blocks(data.flipped)
        self.learner = Learner(config, self.features.shape[-1], base, options.own_words)
        self.average = Learner(config, self.features.shape[-1], base, options.own_words).eval()
        self.average.load_state_dict(self.learner.state_dict())
        self.optimiser = torch.optim.Adam(
            self.learner.parameters(), lr=options.learning_rate, fused=True
        )
        near = nearest(data.teacher) if data.teacher is not None else None
        self.batches = Batches(data, options, near)
        self.step = 0
        self.best = -math.inf
        self.history: list[dict[str, Any]] = []

    def run(
        self,
        score: Callable[[Scan], dict[str, float]],
        report: Callable[[dict[str, Any]], None] | None = None,
        seconds: float | None = None,
    ) -> Path:
        """Train to the end (or out of time); return the folder entry of the best checkpoint.

        ``score`` judges an exported model on the dev split; its entry ``select`` decides.
        """
        started, losses = time.monotonic(), []
        while self.step < self.options.steps:
            losses.append(self._one_step())
            self.step += 1
            out_of_time = seconds is not None and time.monotonic() - started > seconds
            if (
                self.step % self.options.validate == 0
                or self.step == self.options.steps
                or out_of_time
            ):
                model = self.average.export(self.whitening)
                entry: dict[str, Any] = {"step": self.step, "seconds": time.monotonic() - started}
                entry |= mean_losses(losses)
                entry |= score(model)
                losses = []
                self.history.append(entry)
                if entry["select"] > self.best:
                    self.best = entry["select"]
                    write_state(model.state_dict(), self.folder / "best.pt")
                self.save()
                if report is not None:
                    report(entry)
            if out_of_time:
                break
        return self.folder / "best.pt"

    def save(self) -> None:
        """Everything a resumed run needs."""
        write_state(
            {
                "learner": self.learner.state_dict(),
                "average": self.average.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "step": self.step,
                "best": self.best,
                "history": json.dumps(self.history),
                "torch": torch.get_rng_state(),
                "numpy": json.dumps(self.batches.random.bit_generator.state),
            },
            self.folder / "last.pt",
        )
        write_history(self.folder, self.options, self.history)

    def resume(self) -> bool:
        """Go on from the last checkpoint of the folder, if there is one."""
        if not (self.folder / "last.pt").exists():
            return False
        state = torch.load(self.folder / "last.pt", weights_only=True)
        self.learner.load_state_dict(state["learner"])
        self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.best = state["step"], state["best"]
        self.history = json.loads(state["history"])
        # The draws go on where they stood: a resumed run is an unbroken one, to the bit.
        self.batches.random.bit_generator.state = json.loads(state["numpy"])
        torch.set_rng_state(state["torch"])
        return True

    def begin_from(self, checkpoint: Path) -> None:
        """Take the weights of an earlier run; steps, schedule and optimiser begin anew."""
        state = torch.load(checkpoint, weights_only=True)
        self.learner.load_state_dict(state["average"])
        self.average.load_state_dict(state["average"])

    def _one_step(self) -> dict[str, float]:
        self.learner.train()
        rate = self.options.learning_rate * schedule(self.step, self.options)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss, parts = self.losses(*self.batches())
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.learner.parameters(), self.options.clip)
        self.optimiser.step()
        keep = min(self.options.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()), list(self.learner.parameters()), 1 - keep
            )
        return parts

    def losses(self, images: Tensor, picks: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Loss of one batch and its parts."""
        options, config = self.options, self.learner.final
        source = self.features
        if self.flipped is not None and self.batches.random.random() < 0.5:
            source = self.flipped
        features, share = source[images], 1.0
        if options.region_dropout > 0:
            total = features.shape[1]
            keep = max(2, round(total * (1 - options.region_dropout)))
            chosen = np.sort(self.batches.random.permutation(total)[:keep])
            # The attention is normalised over the regions: fewer of them, larger values.
            features, share = features[:, torch.from_numpy(chosen)], math.sqrt(keep / total)
        inputs = nn.functional.dropout(features.float(), options.feature_dropout)
        regions = self.learner.scan.image(inputs)
        ids, lengths = self._captions(images, picks)
        embedded = self.learner.words(ids, options.own_dropout)
        words = cast(TextSide, self.learner.scan.text).contextual(embedded, lengths)
        smooth = config.lambda_softmax * share
        vectors, scores = self._all_pairs(regions, words, lengths, smooth)
        count = len(images)
        blocks = (slice(0, count), slice(count, 2 * count))
        both = [contrastive_loss(scores[:, b], options.margin, options.hardest) for b in blocks]
        hinge = (both[0] + both[1]) / (2 * count)
        parts = {"hinge": hinge.detach().item()}
        loss = options.hinge * hinge
        if self.data.teacher is not None and options.graded > 0:
            own = torch.arange(count)
            terms: dict[str, list[Tensor]] = {"similarity": [], "order": [], "weights": []}
            for number, block in enumerate(blocks):
                target = relevance(self.data.teacher, images, picks[number])
                other = vectors[:, blocks[1 - number]][own, own]
                order, weights = soft_tiger(other, vectors[:, block])
                for name, value in (
                    ("similarity", scores[:, block]),
                    ("order", order),
                    ("weights", weights),
                ):
                    terms[name].append(correlation_loss(value, target))
            for name, values_ in terms.items():
                term = (values_[0] + values_[1]) / 2
                parts[name] = term.detach().item()
                loss = loss + options.graded * count / 16 * term
        return loss, parts

    def _all_pairs(
        self, regions: Tensor, words: Tensor, lengths: Tensor, smooth: float, parts: int = 4
    ) -> tuple[Tensor, Tensor]:
        """Grounding vectors and scores of all pairs, captions of like length together."""
        config = self.learner.final
        order = lengths.argsort()
        vectors, scores = [], []
        for rows in order.chunk(parts):
            width = int(lengths[rows].max())
            batch, mask = words[rows, :width], word_mask(lengths[rows], width)
            vector = attend_words(regions, batch, mask, smooth, config.raw_feature_norm)
            vectors.append(vector)
            if config.cross_attn == "i2t":
                scores.append(aggregate(vector, config.agg_func, config.lambda_lse))
            else:
                value = attend_regions(regions, batch, mask, smooth, config.raw_feature_norm)
                scores.append(aggregate(value, config.agg_func, config.lambda_lse, mask[None]))
        back = order.argsort()
        return torch.cat(vectors, 1)[:, back], torch.cat(scores, 1)[:, back]

    def _captions(self, images: Tensor, picks: Tensor) -> tuple[Tensor, Tensor]:
        sequences = [
            self.data.captions[row][pick]
            for choice in picks.tolist()
            for row, pick in zip(images.tolist(), choice, strict=True)
        ]
        longest = self.options.longest
        ids, lengths = pad([sequence[:longest] for sequence in sequences])
        if self.options.word_dropout > 0:
            hide = (torch.rand(ids.shape) < self.options.word_dropout) & (ids > 3)
            ids = ids.masked_fill(hide, 3)
        return ids, lengths


def schedule(step: int, options: TrainOptions) -> float:
    """Share of the learning rate: a short rise, then half a cosine down to a hundredth."""
    if step < options.warmup:
        return (step + 1) / options.warmup
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def word_base(tables: Sequence[np.ndarray]) -> Tensor:
    """Word vectors of several sources side by side, at unit variance; absent words are zero."""
    parts = []
    for table in tables:
        if table.ndim != 2:
            raise UsageError("a table of word vectors has one row per word")
        value = torch.tensor(np.asarray(table), dtype=torch.float32)
        there = value.abs().sum(1) > 0
        mean, spread = value[there].mean(0), value[there].std()
        parts.append(torch.where(there[:, None], (value - mean) / spread, 0.0))
    return torch.cat(parts, 1)
