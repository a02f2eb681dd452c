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

import base64
import json
from functools import cache
from typing import Any

import numpy as np
import torch
import torchmetrics

from captious import registry
from captious.calling import per_caption
from captious.compat._checking import paired
from captious.engine.plan import check
from captious.engine.run import leaves
from captious.engine.scorer import Scorer
from captious.errors import CaptiousError, InputError
from captious.evidence.images import handed_over
from captious.metrics.base import Metric, Need
from captious.types import CaptionSet

_Base: Any = torchmetrics.Metric


class CaptionMetric(_Base):  # type: ignore[misc]
    """A metric of captions; ``CaptionMetric("cider_d(df='coco-val')")``.

    Args:
        metric: a name, a spec or a metric object; None for that of the class.
        parameters: those of the metric and of ``torchmetrics.Metric``.

    ``update(preds, target, images=None, objects=None)`` takes a list of texts and a list of texts
    or of lists of texts; ``compute()`` gives a number, or a dictionary of numbers for a metric with
    several columns. Wrong input is a ``ValueError`` that names the index and leaves the state as it
    was.
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
        self.keeps_texts = any(m.counts_run for m in leaves([made]))
        self._forwarding = False
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

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add captions and return their value alone; wrong input leaves the state as it was."""
        kept = {name: _copied(getattr(self, name)) for name in self._defaults}
        count: int = getattr(self, "_update_count", 0)
        self._forwarding = True
        try:
            return super().forward(*args, **kwargs)
        except Exception:
            for name, value in kept.items():
                setattr(self, name, value)
            self._update_count, self._computed = count, None
            self._should_unsync = self._enable_grad = self._to_sync = True
            self._is_synced = False
            raise
        finally:
            self._forwarding = False

    def update(
        self, preds: Any, target: Any = None, images: Any = None, objects: Any = None
    ) -> None:
        """Add captions.

        Args:
            preds: the captions.
            target: the references of each: a text or a list of texts.
            images: one per caption, for metrics that look.
            objects: one list of labels per caption, for ``Chair``, ``Vifidel`` and their like.
        """
        if isinstance(preds, str):
            preds = [preds]
            target = target if target is None else [target]
        needed = Need.REFERENCES in self.metric.needs
        captions, references = paired(preds, target, ("preds", "target"), needed)
        try:
            if self.keeps_texts:
                self._keep(captions, references, images, objects)
            else:
                self._add(captions, references, images, objects)
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
            captions, references, images, objects = map(list, zip(*rows, strict=True))
            try:
                scores = self._scorer(
                    captions,
                    references,
                    images=[_opened(image) for image in images] if any(images) else None,
                    objects=objects if any(o is not None for o in objects) else None,
                )
            except InputError as err:
                if self._forwarding:  # one image has no CIDEr of its own; the whole will have one
                    return self._shaped(np.full(len(self.names), np.nan))
                raise ValueError(str(err)) from err
            return self._shaped(np.array([scores.corpus[name] for name in self.names]))
        width = int(self.width.max())
        if not width or not float(self.scored.sum()):
            return self._shaped(np.full(len(self.names), np.nan))
        totals = self.totals[:width].cpu().numpy()
        return self._shaped(self.metric.corpus(totals, self.scored[0].cpu().numpy()))

    def _add(self, captions: list[str], references: Any, images: Any, objects: Any) -> None:
        scores = self._scorer(captions, references, images=images, objects=objects)
        rows = scores._stats[0].rows
        rows = rows[~np.isnan(rows).any(axis=1)]
        width = rows.shape[1]
        if width > _WIDTH:
            raise CaptiousError(f"{self.metric.name} has {width} statistics, more than {_WIDTH}")
        self.totals[:width] += torch.from_numpy(rows.sum(axis=0)).to(self.totals.device)
        self.scored += float(len(rows))
        self.width.fill_(width)

    def _keep(self, captions: list[str], references: Any, images: Any, objects: Any) -> None:
        places = [str(i) for i in range(len(captions))]
        pictures = [
            _written(picture, f"images[{i}]")
            for i, picture in enumerate(per_caption(images, places, "images"))
        ]
        labels = per_caption(objects, places, "objects")
        if self.metric.needs - {Need.REFERENCES}:  # what is missing is said now, not at the end
            names = [None if p is None else str(p)[:80] for p in pictures]
            known = labels if any(labels) else None
            check(
                self._scorer.steps,
                CaptionSet.build(captions, references, images=names, objects=known),
            )
        rows = zip(captions, references, pictures, labels, strict=True)
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


def _copied(state: Any) -> Any:
    return list(state) if isinstance(state, list) else state.clone()


def _written(picture: Any, where: str) -> Any:
    """Return a picture as JSON holds it: its path, or its content."""
    if picture is None:
        return None
    name, content = handed_over(picture, where)
    return name if content is None else {"png": base64.b64encode(content).decode()}


def _opened(picture: Any) -> Any:
    return base64.b64decode(picture["png"]) if isinstance(picture, dict) else picture


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
