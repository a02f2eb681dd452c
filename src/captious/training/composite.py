"""Train a composite: is a caption human or machine (classify), how good is it (rate), which of two
is better (rank)?

One small feed-forward network, three objectives. ``classify`` is that of Sharif et al. 2018:
softmax cross-entropy of human against machine; ``rate`` regresses to ratings brought to 0..1;
``rank`` asks that of two rated captions the better one scores higher. Pairs of an untouched and a
gamed caption may be added to any of them.

After every epoch Kendall's tau with validation judgements is measured, and the best epoch wins; but
only among epochs that have learned their task: on images that it has not seen, a classifier must
beat chance clearly and come near the best accuracy of the run, for an untrained network may have a
fine tau by luck of its start.
"""  # noqa: D205

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.errors import InputError, UsageError
from captious.learned.features import Input
from captious.learned.model_file import Model, Scaling
from captious.progress import Progress
from captious.types import Floats, Ints

if TYPE_CHECKING:
    import torch

OBJECTIVES = ("classify", "rate", "rank")
FEWEST = 20


@dataclass(frozen=True)
class Options:
    """How to train.

    Attributes:
        objective: ``classify``, ``rate`` or ``rank``.
        hidden: units of each hidden layer; empty for a weighted sum.
        rate: learning rate of Adam.
        epochs: at most.
        batch: examples per step.
        l2: weight of half the squared weights in the loss.
        patience: epochs without a better tau before it stops; 0 = never.
        accuracy: share of unseen examples (both classes counted alike) that a classifier must get
            right before an epoch may win.
        slack: how far below the best accuracy of the run a winning epoch may lie.
        scale: ``raw``, ``z`` (mean 0, deviation 1) or ``ranks`` (normal scores of the training
            set's quantiles).
        gamed: weight of the pairs of untouched and gamed captions.
        margin: how far apart (in log odds) such a pair should be.
        positive: keep the weights of a weighted sum from turning negative.
        seed: of the start and the order of examples.
    """

    objective: str = "classify"
    hidden: tuple[int, ...] = (72, 72)
    rate: float = 5e-4
    epochs: int = 700
    batch: int = 6650
    l2: float = 1e-4
    patience: int = 60
    accuracy: float = 0.6
    slack: float = 0.02
    scale: str = "raw"
    gamed: float = 0.0
    margin: float = 0.0
    positive: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UsageError(f"objective is one of {', '.join(OBJECTIVES)}, not {self.objective!r}")
        if self.scale not in ("raw", "z", "ranks"):
            raise UsageError(f"scale is raw, z or ranks, not {self.scale!r}")
        if self.positive and self.hidden:
            raise UsageError("only a weighted sum (no hidden layer) can keep its weights positive")


@dataclass(frozen=True, eq=False)
class Data:
    """What to learn from.

    Attributes:
        values: (rows, features) raw features.
        target: label 0/1 (classify) or rating in 0..1 (rate, rank).
        weight: of every row.
        images: of every row; a tenth of the images is kept for the accuracy of a classifier.
        source: collection of every row; only captions of the same one are ranked.
        better: rows of untouched captions, beside
        worse: rows of (values) of their gamed versions.
        extra: (rows, features) features of captions that only ``better`` and ``worse`` name; their
            row numbers go on after those of ``values``.
    """

    values: Floats
    target: Floats
    images: np.ndarray
    weight: Floats | None = None
    source: Ints | None = None
    better: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    worse: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    extra: Floats | None = None


@dataclass(frozen=True, eq=False)
class Judged:
    """Judgements to stop by: one feature row and one rating per observation."""

    values: Floats
    ratings: Floats


@dataclass(frozen=True, eq=False)
class Trained:
    """A model with its training log."""

    model: Model
    history: list[dict[str, float]]
    best: dict[str, float]


def check(data: Data, inputs: Sequence[Input], options: Options) -> None:
    """Refuse what cannot be learned from.

    Raises:
        InputError: everything that is wrong, at once.
    """
    problems = []
    rows = data.values if data.extra is None else np.concatenate([data.values, data.extra])
    if data.values.ndim != 2 or data.values.shape[1] != len(inputs):
        raise InputError(
            f"features have the shape {data.values.shape}; {len(inputs)} inputs are named: "
            + ", ".join(i.text for i in inputs)
        )
    for at, name in enumerate(inputs):
        bad = np.flatnonzero(~np.isfinite(rows[:, at]))
        if len(bad):
            problems.append(
                f"{name.text}: {len(bad):,} of {len(rows):,} values are missing or not finite "
                f"(first: row {int(bad[0]) + 1})"
            )
    if len(data.values) < FEWEST:
        problems.append(f"{len(data.values)} examples are too few; at least {FEWEST} are needed")
    if not np.isfinite(data.target).all():
        problems.append("some targets are not finite")
    elif len(data.values):
        levels = np.unique(data.target)
        if options.objective == "classify" and not set(levels.tolist()) <= {0.0, 1.0}:
            problems.append("labels of a classifier are 0 and 1")
        elif len(levels) < 2:
            problems.append(
                "there is one class only: both human and machine captions are needed"
                if options.objective == "classify"
                else "all ratings are equal: nothing can be learned"
            )
        if options.objective != "classify" and (levels.min() < 0 or levels.max() > 1):
            problems.append("ratings must be brought to 0..1")
    if problems:
        raise InputError(problems)


def scaling_for(values: Floats, how: str, points: int = 33) -> Scaling:
    """Fit the scaling of features to a training set."""
    count = values.shape[1]
    if how == "raw":
        return Scaling(np.zeros(count), np.ones(count))
    if how == "z":
        return Scaling(values.mean(axis=0), np.maximum(values.std(axis=0), 1e-9))
    from scipy.stats import norm

    shares = (np.arange(points) + 0.5) / points
    knots = np.quantile(values, shares, axis=0)
    # np.interp wants increasing knots: equal ones (many zeros) are pulled apart by a hair.
    knots += np.arange(points)[:, None] * 1e-9
    return Scaling(np.zeros(count), np.ones(count), knots, norm.ppf(shares))


def fit(
    data: Data,
    inputs: Sequence[Input],
    identities: Sequence[dict[str, str]],
    options: Options,
    judged: Judged | None = None,
    divisors: Sequence[float] | None = None,
    facts: dict[str, Any] | None = None,
    report: Callable[[dict[str, float]], None] | None = None,
) -> Trained:
    """Train one network.

    Args:
        data: examples.
        inputs: what their columns are.
        identities: what decided the values, stored with the model.
        options: how.
        judged: judgements whose tau picks the epoch; without them the last epoch wins.
        divisors: raw features are divided by these first (CIDEr by 10, as usual).
        facts: to be stored with the model.
        report: called with every tenth line of the log.

    Raises:
        InputError: nothing can be learned from the data, or no epoch learned anything.
    """
    import torch

    check(data, inputs, options)
    scaling = scaling_for(data.values, options.scale)
    if divisors is not None:
        scaling = Scaling(scaling.centre, scaling.spread * np.asarray(divisors, np.float64))
    rng = np.random.default_rng(options.seed)
    held = _held_out(data.images, rng) if options.objective == "classify" else None
    learning = np.flatnonzero(~held) if held is not None else np.arange(len(data.values))
    if options.objective == "classify" and held is not None:
        for rows, what in ((learning, "training"), (np.flatnonzero(held), "held-out")):
            if len(np.unique(data.target[rows])) < 2:
                raise InputError(f"the {what} images hold one class only; more images are needed")
    whole = data.values if data.extra is None else np.concatenate([data.values, data.extra])
    x = torch.tensor(scaling(whole), dtype=torch.float32)
    y = torch.tensor(data.target, dtype=torch.float32)
    weight = np.ones(len(y)) if data.weight is None else data.weight
    w = torch.tensor(weight, dtype=torch.float32)
    kind = torch.from_numpy(np.zeros(len(y), np.int64) if data.source is None else data.source)
    layers = _start(len(inputs), options.hidden, rng)
    parameters = [p for pair in layers for p in pair]
    optimiser = torch.optim.Adam(parameters, lr=options.rate)
    history: list[dict[str, float]] = []
    kept: list[list[torch.Tensor]] = []
    waited = 0

    def logits(rows: Any) -> torch.Tensor:
        out = _forward(layers, x[rows])
        return out[:, 1] - out[:, 0]

    with Progress(f"training on {len(learning):,} examples", options.epochs, "epochs") as bar:
        for epoch in range(1, options.epochs + 1):
            total, steps = 0.0, 0
            order = rng.permutation(learning)
            for start in range(0, len(order), options.batch):
                batch = torch.from_numpy(order[start : start + options.batch])
                loss = _loss(options, logits, batch, y, w, kind, rng)
                if len(data.better) and options.gamed:
                    pick = rng.choice(len(data.better), min(len(data.better), options.batch))
                    gap = logits(torch.from_numpy(data.better[pick])) - logits(
                        torch.from_numpy(data.worse[pick])
                    )
                    loss = (
                        loss
                        + options.gamed * torch.nn.functional.softplus(options.margin - gap).mean()
                    )
                loss = loss + options.l2 * sum((p[0] ** 2).sum() / 2 for p in layers)
                if not torch.isfinite(loss):
                    raise InputError(
                        f"the loss is not finite in epoch {epoch}: lower the learning rate "
                        f"(now {options.rate:g}) or look for extreme feature values"
                    )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                if options.positive:
                    _clip(layers[0][0])
                total, steps = total + float(loss.detach()), steps + 1
            entry = {"epoch": float(epoch), "step": float(epoch), "loss": total / steps}
            model = _model(layers, inputs, identities, scaling, data, facts, options)
            entry |= _measure(model, data, held, judged)
            better = [entry[k] > max((h[k] for h in history), default=-np.inf)
                      for k in ("tau", "accuracy") if k in entry]  # fmt: skip
            waited = 0 if any(better) else waited + 1
            history.append(entry)
            kept.append([p.detach().clone() for p in parameters])
            if report is not None and epoch % 10 == 1:
                report(entry)
            bar.advance(note=f"loss {entry['loss']:.4f} tau {entry.get('tau', float('nan')):.4f}")
            if options.patience and waited >= options.patience and judged is not None:
                break
    won = _winner(history, options, held is not None)
    with torch.no_grad():
        for p, value in zip(parameters, kept[won], strict=True):
            p.copy_(value)
    model = _model(layers, inputs, identities, scaling, data, facts, options)
    return Trained(model, history, history[won])


# -- the pieces ------------------------------------------------------------------------------


def _winner(history: Sequence[dict[str, float]], options: Options, classifier: bool) -> int:
    """Return the epoch with the best tau among those that learned their task."""
    able = list(range(len(history)))
    if classifier:
        top = max(h["accuracy"] for h in history)
        if top < options.accuracy:
            raise InputError(
                f"no epoch is good enough: the best accuracy on unseen examples is {top:.3f}, "
                f"below {options.accuracy:g} (--accuracy). The classes are nearly equal in these "
                "features: add captions of other images as negatives"
            )
        least = max(options.accuracy, top - options.slack)
        able = [i for i in able if history[i]["accuracy"] >= least]
    return max(able, key=lambda i: history[i].get("tau", float(i)))


def _held_out(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mark the examples of a tenth of the images."""
    names, place = np.unique(images.astype(str), return_inverse=True)
    if len(names) < 2:
        raise InputError("examples of at least two images are needed")
    chosen = rng.permutation(len(names))[: max(1, len(names) // 10)]
    return np.isin(place, chosen)


def _start(
    width: int, hidden: Sequence[int], rng: np.random.Generator
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Draw the weights: normal, times sqrt(2 / inputs); a weighted sum starts at zero."""
    import torch

    out = []
    for size in (*hidden, 2):
        start = rng.normal(size=(width, size)) * np.sqrt(2.0 / width)
        if not hidden:
            start = np.tile([-0.05, 0.05], (width, 1))
        out.append(
            (
                torch.tensor(start, dtype=torch.float32, requires_grad=True),
                torch.zeros(size, dtype=torch.float32, requires_grad=True),
            )
        )
        width = size
    return out


def _forward(layers: Sequence[tuple[torch.Tensor, torch.Tensor]], x: torch.Tensor) -> torch.Tensor:
    for weight, bias in layers[:-1]:
        x = (x @ weight + bias).relu()
    return x @ layers[-1][0] + layers[-1][1]


def _clip(weight: torch.Tensor) -> None:
    import torch

    with torch.no_grad():
        weight[:, 1].clamp_(min=0.0)
        weight[:, 0].clamp_(max=0.0)


def _loss(
    options: Options,
    logits: Callable[[Any], torch.Tensor],
    rows: torch.Tensor,
    y: torch.Tensor,
    w: torch.Tensor,
    kind: torch.Tensor,
    rng: np.random.Generator,
) -> torch.Tensor:
    """Return the loss of a batch under the objective."""
    from torch.nn import functional

    z = logits(rows)
    if options.objective == "rank":
        import torch

        other = torch.from_numpy(rng.permutation(len(rows)))
        gap = y[rows] - y[rows][other]
        differ = (gap != 0) & (kind[rows] == kind[rows][other])
        each = functional.softplus(-torch.sign(gap) * (z - z[other]))
        weight = gap.abs() * (w[rows] * w[rows][other]).sqrt() * differ
        return (each * weight).sum() / weight.sum().clamp(min=1e-9)
    each = functional.binary_cross_entropy_with_logits(z, y[rows], reduction="none")
    return (each * w[rows]).sum() / w[rows].sum()


def _measure(
    model: Model, data: Data, held: np.ndarray | None, judged: Judged | None
) -> dict[str, float]:
    """Return accuracy on held-out images (both classes alike) and tau with the judgements."""
    out = {}
    if held is not None:
        right = (model.logits(data.values[held]) > 0) == (data.target[held] > 0.5)
        w = np.ones(int(held.sum())) if data.weight is None else data.weight[held]
        sides = [data.target[held] > 0.5, data.target[held] <= 0.5]
        out["accuracy"] = float(np.mean([np.average(right[s], weights=w[s]) for s in sides]))
    if judged is not None:
        from scipy.stats import kendalltau

        tau = kendalltau(model.logits(judged.values), judged.ratings).statistic
        out["tau"] = float(tau) if np.isfinite(tau) else -1.0
    return out


def _model(
    layers: Sequence[tuple[torch.Tensor, torch.Tensor]],
    inputs: Sequence[Input],
    identities: Sequence[dict[str, str]],
    scaling: Scaling,
    data: Data,
    facts: dict[str, Any] | None,
    options: Options,
) -> Model:
    arrays = tuple(
        (w.detach().numpy().astype(np.float64), b.detach().numpy().astype(np.float64))
        for w, b in layers
    )
    said = {
        "name": "composite",
        "objective": options.objective,
        "options": asdict(options),
        **(facts or {}),
    }
    return Model(tuple(inputs), tuple(identities), scaling, arrays, data.values.mean(axis=0), said)
