"""Every metric as a ``torchmetrics.Metric``: ``from captious.compat.torchmetrics import CiderD``.

Classes have the names of the metrics' classes (``Bleu``, ``RougeL``, ``CiderD``, ``Meteor``,
``Spice``, ...) and take their parameters. The state is the sum of the metric's statistics, which
processes add up; a metric whose corpus facts are counted on the run itself (CIDEr-D with
``df='corpus'``) keeps the texts as bytes instead, which processes join. Either way ``compute``
gives the number that one process would get from all captions.

    metric = RougeL()
    metric.update(["a dog runs"], [["a dog is running"]])
    metric.compute()
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import torch
import torchmetrics

from captious import registry
from captious.engine.run import leaves
from captious.engine.scorer import Scorer
from captious.errors import CaptiousError, InputError
from captious.metrics.base import Metric

_Base: Any = torchmetrics.Metric


class CaptionMetric(_Base):  # type: ignore[misc]
    """A metric of captions; ``CaptionMetric("cider_d(df='coco-val')")``.

    Args:
        metric: a name, a spec or a metric object; None for that of the class.
        parameters: those of the metric and of ``torchmetrics.Metric``.

    ``update(preds, target, images=None)`` takes a list of texts and a list of texts or of lists of
    texts; ``compute()`` gives a number, or a dictionary of numbers for a metric with several
    columns. Wrong input is a ``ValueError`` that names the index, and leaves the state as it was.
    """

    is_differentiable = False
    full_state_update = False
    captious_name: str | None = None

    def __init__(self, metric: str | Metric | None = None, **parameters: Any) -> None:
        name = metric if metric is not None else self.captious_name
        if name is None:
            raise ValueError("name a metric, e.g. CaptionMetric('cider_d')")
        made = registry.create(name) if isinstance(name, str) else name
        mine = {k: v for k, v in parameters.items() if k in made.parameters()}
        super().__init__(**{k: v for k, v in parameters.items() if k not in mine})
        if mine:
            made = type(made)(**(made.parameters() | mine))
        self.metric = made
        self.names = tuple(column.name for column in made.columns)
        self._scorer = Scorer(made, None, "corpus")
        self.keeps_texts = any(
            type(m).prepare is not Metric.prepare and getattr(m, "df", "corpus") == "corpus"
            for m in leaves([made])
        )
        if self.keeps_texts:
            self.add_state("texts", default=[], dist_reduce_fx="cat")
        else:
            # How many statistics a metric has is known when it has scored; 64 hold any of ours.
            self.add_state("totals", torch.zeros(_WIDTH, dtype=torch.float64), dist_reduce_fx="sum")
            self.add_state("scored", torch.zeros(1, dtype=torch.float64), dist_reduce_fx="sum")
            self.add_state("width", torch.zeros(1, dtype=torch.int64), dist_reduce_fx="max")

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better."""
        return self.metric.columns[0].higher_is_better

    @property
    def plot_lower_bound(self) -> float | None:
        """Smallest value, if there is one."""
        low = self.metric.columns[0].low
        return None if np.isinf(low) else low

    @property
    def plot_upper_bound(self) -> float | None:
        """Largest value, if there is one."""
        high = self.metric.columns[0].high
        return None if np.isinf(high) else high

    def update(self, preds: Any, target: Any = None, images: Any = None) -> None:
        """Add captions (``preds``) with their references (``target``)."""
        captions = [preds] if isinstance(preds, str) else list(preds)
        if isinstance(preds, str) and target is not None:
            target = [target]
        try:
            if self.keeps_texts:
                self._keep(captions, target, images)
            else:
                self._add(captions, target, images)
        except InputError as err:
            raise ValueError(str(err)) from err

    def compute(self) -> Any:
        """Return the corpus value over all captions and all processes."""
        if self.keeps_texts:
            texts = self.texts
            parts = texts if isinstance(texts, list) else [texts]
            held = b"".join(part.cpu().numpy().tobytes() for part in parts).decode()
            rows = [json.loads(line) for line in held.splitlines()]
            if not rows:
                return self._shaped(np.full(len(self.names), np.nan))
            scores = self._scorer(
                [row[0] for row in rows],
                [row[1] for row in rows],
                images=[row[2] for row in rows] if any(row[2] for row in rows) else None,
            )
            return self._shaped(np.array([scores.corpus[name] for name in self.names]))
        width = int(self.width.max())
        if not width or not float(self.scored.sum()):
            return self._shaped(np.full(len(self.names), np.nan))
        totals = self.totals[:width].cpu().numpy()
        return self._shaped(self.metric.corpus(totals, self.scored[0].cpu().numpy()))

    def _add(self, captions: list[Any], references: Any, images: Any) -> None:
        scores = self._scorer(captions, references, images=images)
        rows = scores._stats[0].rows
        rows = rows[~np.isnan(rows).any(axis=1)]
        width = rows.shape[1]
        if width > _WIDTH:
            raise CaptiousError(f"{self.metric.name} has {width} statistics, more than {_WIDTH}")
        self.totals[:width] += torch.from_numpy(rows.sum(axis=0)).to(self.totals.device)
        self.scored += float(len(rows))
        self.width.fill_(width)

    def _keep(self, captions: list[Any], references: Any, images: Any) -> None:
        problems = [
            f"captions[{i}] is {type(text).__name__}, not text"
            for i, text in enumerate(captions)
            if not isinstance(text, str)
        ]
        target = [] if references is None else list(references)
        if len(target) != len(captions):
            problems.append(f"{len(captions)} captions, but {len(target)} lists of references")
        listed = []
        for i, texts in enumerate(target):
            mine = [texts] if isinstance(texts, str) else list(texts)
            if not mine or not all(isinstance(text, str) for text in mine):
                problems.append(f"references[{i}] are not texts: {texts!r}")
            listed.append(mine)
        if problems:
            raise InputError(problems)
        names = [None] * len(captions) if images is None else [str(i) for i in images]
        rows = zip(captions, listed, names, strict=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        content = np.frombuffer(lines.encode(), np.uint8).copy()
        self.texts.append(torch.from_numpy(content).to(self.device))

    def _shaped(self, values: Any) -> Any:
        tensors = [torch.tensor(float(v), dtype=torch.float64, device=self.device) for v in values]
        return tensors[0] if len(tensors) == 1 else dict(zip(self.names, tensors, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the scorer to be made again where the metric arrives."""
        return {k: v for k, v in super().__getstate__().items() if k != "_scorer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the scorer again."""
        super().__setstate__(state)
        self._scorer = Scorer(self.metric, None, "corpus")


_WIDTH = 64


@cache
def _classes() -> dict[str, str]:
    """Map the names of the metrics' classes to the metrics' names."""
    return {registry.load(name).__name__: name for name in registry.names()}


@cache
def _made(name: str) -> Any:
    metric = registry.load(_classes()[name])
    doc = f"{(metric.__doc__ or '').strip()}\n\nSee :class:`CaptionMetric`."
    space = {"captious_name": _classes()[name], "__doc__": doc, "__module__": __name__}
    return type(name, (CaptionMetric,), space)


def __getattr__(name: str) -> Any:
    """Make the class of a metric when it is asked for."""
    if not name.startswith("_") and name in _classes():
        return _made(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the classes."""
    return ["CaptionMetric", *sorted(_classes())]
