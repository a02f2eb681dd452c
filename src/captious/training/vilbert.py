"""Train a compact ViLBERT on a CPU: masked words, masked regions, matching, and the score itself.

A batch holds ``images`` photographs with four captions each: a *reference* and a *caption* of its
own, one of a similar photograph (the nearest ones by a teacher's sentence vectors) and one of any
other. Words are masked in the reference only, which has to be filled in; which of the other three
belongs is the matching, how much each belongs the grading; F of the three against the reference is
the agreement (:mod:`captious.training.vilbert_objectives`). Some regions of a photograph are
masked, the same for all its captions, and some left out. A share of the photographs is blank, so
that the network knows what to do without one.

The text stream may start from a pretrained encoder of the BERT kind with the same width; its word
table and first layers can stay frozen, which is then left out of the saved weights. Region features
are whitened; what a masked region has to be told is its first ``v_target_size`` whitened numbers.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.errors import InputError, UsageError
from captious.models.vilbert import CoAttention, ImageStart, Output, Vilbert
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_heads import MATCH, Heads
from captious.progress import track
from captious.training.scan import correlation_loss
from captious.training.vilbert_batches import (
    Batches,
    VilbertData,
    VilbertOptions,
    Vocabulary,
    padded,
)
from captious.training.vilbert_objectives import (
    alignment_loss,
    calm_start,
    grading_loss,
    preference_loss,
    sharpen,
    token_f,
)
from captious.training.whitened import Whitening

COMPACT = VilbertConfig(
    hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
    v_hidden_size=256, v_num_hidden_layers=2, v_num_attention_heads=4, v_intermediate_size=512,
    v_target_size=128, bi_hidden_size=256, bi_num_attention_heads=4, v_biattention_id=(0, 1, 2),
    t_biattention_id=(4, 5, 6),
)  # fmt: skip
"""The text stream has the shape of MiniLM-L6; blocks come before, between and behind
its last two layers."""


def start_text(model: Vilbert, state: Mapping[str, Tensor]) -> list[str]:
    """Copy the layers of a text encoder of the same width; return the names that were taken."""
    own = model.state_dict()
    taken = [
        name
        for name, value in state.items()
        if name.startswith(("embeddings.", "encoder.layer.")) and name in own
        and own[name].shape == value.shape
    ]  # fmt: skip
    if "embeddings.word_embeddings.weight" not in taken:
        raise UsageError(
            "the text encoder has another vocabulary or width than the text stream: "
            f"{tuple(own['embeddings.word_embeddings.weight'].shape)} is expected"
        )
    model.load_state_dict({**own, **{name: state[name].float() for name in taken}})
    return taken


class VilbertTrainer:
    """One resumable run in a folder: ``checkpoint.pt`` (where it stands) and ``best.pt``.

    Attributes:
        starts_at: which of the two of another run this one begins with.
    """

    starts_at = "checkpoint.pt"

    def __init__(
        self,
        config: VilbertConfig,
        data: VilbertData,
        pieces: Vocabulary,
        options: VilbertOptions,
        folder: Path,
        text: Mapping[str, Tensor] | None = None,
    ) -> None:
        torch.manual_seed(options.seed)
        self.data, self.pieces, self.options, self.folder = data, pieces, options, folder
        self.config = replace(
            config, v_feature_size=data.features.shape[-1],
            hidden_dropout_prob=options.dropout, v_hidden_dropout_prob=options.dropout,
            attention_probs_dropout_prob=options.dropout,
            v_attention_probs_dropout_prob=options.dropout,
        )  # fmt: skip
        if self.config.v_target_size > self.config.v_feature_size:
            raise UsageError("v_target_size is more than the whitened features have")
        self.model, self.heads = Vilbert(self.config), Heads(self.config)
        for module in (*self.model.modules(), *self.heads.modules()):
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, 0, config.initializer_range)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        pretrained = set(start_text(self.model, text)) if text is not None else set()
        if pretrained:
            first_captions = [texts[0] for texts in data.captions[:64]]
            calm_start(self.model, torch.from_numpy(padded(first_captions)))
        self.heads.predictions.decoder.weight = self.model.embeddings.word_embeddings.weight
        self._freeze(bool(pretrained))
        ahead = self.config.t_biattention_id[0]
        self._fixed = bool(pretrained) and options.frozen_layers >= ahead
        self._seen: dict[tuple[int, ...], Tensor] = {}
        self.optimizer = torch.optim.AdamW(self._groups(pretrained))
        self.batches = Batches(data, pieces, options, self.config.v_target_size)
        self.average = {n: p.detach().clone() for n, p in self._learning()}
        self.step = 0
        self.history: list[dict[str, Any]] = []

    def _freeze(self, pretrained: bool) -> None:
        if not pretrained:
            return
        self.model.embeddings.requires_grad_(False)
        for layer in self.model.encoder.layer[: self.options.frozen_layers]:
            layer.requires_grad_(False)

    def _learning(self) -> list[tuple[str, nn.Parameter]]:
        """The network's parameters that learn."""
        return [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]

    def _follow(self) -> None:
        """Move the average of the weights after a step; early steps count less."""
        keep = min(self.options.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self._learning():
                self.average[name].lerp_(value, 1 - keep)

    def averaged(self) -> dict[str, Tensor]:
        """The network's state with the average in the place of the weights that learn."""
        return {**self.model.state_dict(), **self.average}

    def _groups(self, pretrained: set[str]) -> list[dict[str, Any]]:
        """Pretrained text learns more slowly; vectors (biases, norms) do not decay."""
        o = self.options
        named = [*self.model.named_parameters(), *self.heads.named_parameters(prefix="cls")]
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        seen: set[int] = set()
        for name, value in named:
            if not value.requires_grad or id(value) in seen:
                continue
            seen.add(id(value))
            rate = o.text_rate if name in pretrained else o.learning_rate
            decay = o.weight_decay if value.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(value)
        return [
            {"params": params, "lr": rate, "base": rate, "weight_decay": decay}
            for (rate, decay), params in groups.items()
        ]

    def start_from(self, run: Path) -> None:
        """Begin with the (averaged) weights of another run: its folder, or one of its files."""
        file = run if run.is_file() else run / self.starts_at
        if not file.is_file():
            raise InputError(
                f"{file} does not exist: --start needs a folder that `captious train vilbert` wrote"
            )
        state = torch.load(file, weights_only=True)
        self.heads.load_state_dict(state["heads"])  # first: it shares the word table
        self.model.load_state_dict({**state["model"], **state.get("average", {})})
        self.average = {n: p.detach().clone() for n, p in self._learning()}

    # -- steps -----------------------------------------------------------------------------------

    def texts(self, ids: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Captions of like length together: their rows, masks and states ahead of the blocks."""
        lengths = (ids != 0).sum(1)
        grouped = []
        for rows in lengths.argsort().chunk(3):
            group_ids = ids[rows, : int(lengths[rows].max())]
            grouped.append((rows, group_ids != 0, self.alone(group_ids)))
        return grouped

    def alone(self, ids: Tensor) -> Tensor:
        """Text states ahead of the blocks; what is frozen there is computed once per caption."""
        if not self._fixed:
            return self.model.text_alone(ids, ids != 0, None)
        keys = [tuple(row[row != 0].tolist()) for row in ids]
        new = [at for at, key in enumerate(keys) if key not in self._seen]
        if new:
            with torch.no_grad():
                new_ids = ids[new, : max(len(keys[at]) for at in new)]
                for at, states in zip(
                    new, self.model.text_alone(new_ids, new_ids != 0, None), strict=True
                ):
                    self._seen[keys[at]] = states[: len(keys[at])].half()
        mine = [self._seen[key] for key in keys]
        for at in new:
            if self.pieces.mask in keys[at]:  # no caption is masked alike twice
                self._seen.pop(keys[at], None)
        states = nn.utils.rnn.pad_sequence(mine, batch_first=True).float()
        return F.pad(states, (0, 0, 0, ids.shape[1] - states.shape[1]))

    def train(self) -> None:
        """Dropout on, but for what is frozen."""
        self.model.train()
        self.heads.train()
        if self._fixed:
            self.model.embeddings.eval()
            for layer in self.model.encoder.layer[: self.options.frozen_layers]:
                layer.eval()

    def read(
        self, texts: list[tuple[Tensor, Tensor, Tensor]], start: ImageStart, width: int
    ) -> Output:
        """States of all captions with their photographs.

        Captions come in blocks, each in the order of the photographs. Rows are filled up with zeros
        to the width.
        """
        model, many = self.model, len(start.states)
        chunks: list[list[Tensor]] = []
        for rows, mask, alone in texts:
            by_block = list(model.together(alone, mask, start.take(rows % many), None))
            text, image = cast(tuple[Tensor, Tensor], by_block[-1])
            for layer in model.encoder.layer[self.config.t_biattention_id[-1] :]:
                text = layer(text, mask[:, None, None, :])
            for layer in model.encoder.v_layer[self.config.v_biattention_id[-1] :]:
                image = layer(image, None)
            wide = [
                F.pad(states, (0, 0, 0, width - states.shape[1]))
                for states in (text, *(states for states, _ in by_block))
            ]
            chunks.append([image, model.t_pooler(text), model.v_pooler(image), *wide])
        back = torch.cat([rows for rows, _, _ in texts]).argsort()
        image, pooled, seen, text, *blocks = (
            torch.cat(parts)[back] for parts in zip(*chunks, strict=True)
        )
        return Output(blocks, [], text, image, pooled, seen)

    def losses(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The losses of a batch."""
        texts = self.texts(batch["ids"])
        start = self.model.image_alone(batch["features"], batch["boxes"], None)
        output = self.read(texts, start, batch["ids"].shape[1])
        agreement, preference, contribution = (output.last_text.new_zeros(()) for _ in range(3))
        taught, seen = batch["relevance"], ~batch["blank"]
        for states, unseen in zip(output.text, self._blind(batch, texts), strict=True):
            values, without = _three(states, batch["words"]), _three(unseen, batch["words"])
            gain = (values - without)[seen]
            contribution = contribution + preference_loss(gain[:, 0], gain[:, 1:])
            agreement = agreement + correlation_loss(values, taught)
            preference = preference + preference_loss(values[:, 0], values[:, 1:])
        return {
            **self._told(batch, output),
            "alignment": self._aligned(batch["ids"], texts, start),
            "agreement": agreement / len(output.text),
            "preference": preference / len(output.text),
            "contribution": contribution / len(output.text),
        }

    def _told(self, batch: Mapping[str, Tensor], output: Output) -> dict[str, Tensor]:
        """The losses of the heads: masked words, masked regions, matching."""
        many = len(batch["features"])
        guess = batch["wanted"] != -100
        words = self.heads.predictions(output.last_text[guess])
        regions = self.heads.imagePredictions(output.last_image[:many][batch["hidden"]])
        zero = output.last_text.new_zeros(())
        wanted, told = batch["wanted"][guess], batch["targets"][batch["hidden"]]
        right = torch.arange(many, 4 * many) < 2 * many
        there = ~batch["blank"].repeat(3)
        logits = self.heads.match(output)[many:]
        belongs = F.cross_entropy(
            logits, torch.where(right, MATCH, 1 - MATCH), torch.tensor([2.0, 1.0]), reduction="none"
        )
        return {
            "words": F.cross_entropy(words, wanted) if len(wanted) else zero,
            "regions": F.smooth_l1_loss(regions, told) if len(told) else zero,
            "matching": (belongs * there).sum() / there.sum().clamp(min=1),
            "grading": grading_loss(logits, batch["relevance"], ~batch["blank"]),
        }

    def _aligned(
        self, ids: Tensor, texts: list[tuple[Tensor, Tensor, Tensor]], start: ImageStart
    ) -> Tensor:
        """The alignment loss of the references and the photographs."""
        many, width = len(start.states), ids.shape[1]
        back = torch.cat([rows for rows, _, _ in texts]).argsort()[:many]
        alone = torch.cat([F.pad(s, (0, 0, 0, width - s.shape[1])) for _, _, s in texts])[back]
        attention = cast(CoAttention, self.model.encoder.c_layer[0]).biattention
        return alignment_loss(attention.query2(alone), (ids != 0)[:many], start.key)

    def _blind(
        self, batch: Mapping[str, Tensor], texts: list[tuple[Tensor, Tensor, Tensor]]
    ) -> list[Tensor]:
        """Text states of all blocks in front of blank photographs; nothing is learned from them."""
        features, nothing = batch["features"][:, :1], self.data.blank
        blank = torch.zeros_like(features) if nothing is None else nothing.expand_as(features)
        with torch.no_grad():  # with dropout, as with photographs: it lowers every F
            start = self.model.image_alone(blank, batch["boxes"][:, :1], None)
            return self._blocks(texts, start, batch["ids"].shape[1])

    def _blocks(
        self, texts: list[tuple[Tensor, Tensor, Tensor]], start: ImageStart, width: int
    ) -> list[Tensor]:
        """Text states of all blocks, and nothing that they do not need."""
        chunks: list[list[Tensor]] = []
        for rows, mask, alone in texts:
            image = start.take(rows % len(start.states))
            by_block = self.model.together(alone, mask, image, None, last=self.config.blocks)
            chunks.append(
                [F.pad(states, (0, 0, 0, width - states.shape[1])) for states, _ in by_block]
            )
        back = torch.cat([rows for rows, _, _ in texts]).argsort()
        return [torch.cat(block)[back] for block in zip(*chunks, strict=True)]

    def align(self) -> None:
        """Before the first step: the first block's queries and keys learn what belongs together.

        These steps cost little, because nothing behind the attention is computed.
        """
        o = self.options
        attention = cast(CoAttention, self.model.encoder.c_layer[0]).biattention
        modules = (self.model.v_embeddings, attention.query2, attention.key1)
        parameters = [p for module in modules for p in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=2 * o.learning_rate, weight_decay=0.01)
        self.train()
        for step in track(range(o.align_steps), "aligning words and regions", unit="steps"):
            for group in optimizer.param_groups:
                group["lr"] = 2 * o.learning_rate * min(1.0, (step + 1) / 30)
            ids, *seen = self.batches.pairs(3 * o.images)
            with torch.no_grad():
                words = self.alone(ids)
            regions = self.model.v_embeddings(*seen)
            loss = alignment_loss(attention.query2(words), ids != 0, attention.key1(regions))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if o.align_steps:
            sharpen(self.model, words[ids != 0], regions.detach())

    def run(
        self,
        judge: Callable[[Vilbert, Heads], dict[str, float]],
        report: Callable[[dict[str, Any]], None] | None = None,
        stop_after: int | None = None,
    ) -> Path:
        """Train to the end (or ``stop_after`` steps); returns the weights chosen on dev."""
        o = self.options
        self.folder.mkdir(parents=True, exist_ok=True)
        sums: dict[str, float] = {}
        began, since, done = time.monotonic(), 0, 0
        if self.step == 0:
            self.align()
        while self.step < o.steps and (stop_after is None or done < stop_after):
            self.train()
            for group in self.optimizer.param_groups:
                group["lr"] = group["base"] * self._pace()
            batch = self.batches()
            with torch.autocast("cpu", torch.bfloat16, enabled=o.bfloat16):
                losses = {name: value.float() for name, value in self.losses(batch).items()}
            total = torch.stack([getattr(o, name) * value for name, value in losses.items()]).sum()
            if not bool(torch.isfinite(total)):
                raise UsageError(f"the loss is not finite at step {self.step}: lower the rate")
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            parameters = [p for g in self.optimizer.param_groups for p in g["params"]]
            nn.utils.clip_grad_norm_(parameters, o.clip)
            self.optimizer.step()
            self.step, since, done = self.step + 1, since + 1, done + 1
            self._follow()
            for name, value in losses.items():
                sums[name] = sums.get(name, 0.0) + value.item()
            if self.step % o.validate == 0 or self.step == o.steps:
                self.model.eval()
                self.heads.eval()
                now = {name: value.detach().clone() for name, value in self._learning()}
                self.model.load_state_dict(self.averaged())
                entry: dict[str, Any] = {"step": self.step}
                entry |= {name: value / since for name, value in sums.items()}
                entry |= judge(self.model, self.heads)
                entry["seconds"] = round(time.monotonic() - began, 1)
                self.history.append(entry)
                if entry["select"] >= max(past["select"] for past in self.history):
                    _write({"model": self.model.state_dict(), "heads": self.heads.state_dict()},
                           self.folder / "best.pt")  # fmt: skip
                self.model.load_state_dict({**self.model.state_dict(), **now})
                self._save()
                sums, since = {}, 0
                if report is not None:
                    report(entry)
        return self.folder / "best.pt"

    def _pace(self) -> float:
        """Warm up, then fall along a cosine to a twentieth."""
        o = self.options
        if self.step < o.warmup:
            return (self.step + 1) / o.warmup
        share = (self.step - o.warmup) / max(1, o.steps - o.warmup)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share))

    def _save(self) -> None:
        _write(
            {
                "model": self.model.state_dict(),
                "average": self.average,
                "heads": self.heads.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "torch": torch.get_rng_state(),
                "numpy": json.dumps(self.batches.draw.bit_generator.state),
                "history": json.dumps(self.history),
                "options": json.dumps(asdict(self.options), sort_keys=True),
            },
            self.folder / "checkpoint.pt",
        )

    def resume(self) -> bool:
        """Go on where a stopped run stood; false if there is none.

        Raises:
            UsageError: the folder holds a run with other options.
        """
        file = self.folder / "checkpoint.pt"
        if not file.exists():
            return False
        state = torch.load(file, weights_only=True)
        mine = json.dumps(asdict(self.options), sort_keys=True)
        if state["options"] != mine:
            raise UsageError(f"{self.folder} holds a run with other options: {state['options']}")
        self.model.load_state_dict(state["model"])
        self.heads.load_state_dict(state["heads"])
        self.average = state["average"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.history = int(state["step"]), json.loads(state["history"])
        self.batches.draw.bit_generator.state = json.loads(state["numpy"])
        torch.set_rng_state(state["torch"])
        return True


def _three(states: Tensor, words: Tensor) -> Tensor:
    """F of the three captions of each photograph against its reference ``[images, 3]``."""
    (reference, *captions), (counted, *said) = states.chunk(4), words.chunk(4)
    pairs = zip(captions, said, strict=True)
    return torch.stack([token_f(reference, counted, *pair) for pair in pairs], 1)


def folded(model: Vilbert, whitening: Whitening, features: str) -> Vilbert:
    """The same model for features that are not whitened."""
    embedding = model.v_embeddings.image_embeddings
    weight, bias = whitening.folded(embedding.weight.detach(), embedding.bias.detach())
    config = replace(model.config, v_feature_size=weight.shape[1], features=features)
    unwhitened = Vilbert(config)
    state = model.state_dict()
    state["v_embeddings.image_embeddings.weight"] = weight
    state["v_embeddings.image_embeddings.bias"] = bias
    unwhitened.load_state_dict(state)
    return unwhitened.eval()


def _write(value: Any, target: Path) -> None:
    scratch = target.with_name(target.name + ".part")
    torch.save(value, scratch)
    scratch.replace(target)
