"""The functions that the command line and Python users share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious import registry, settings
from captious.engine import compare as comparing
from captious.engine.run import run
from captious.engine.table import CorpusValue, ScoreTable
from captious.errors import UsageError
from captious.io.load import load
from captious.metrics.base import Metric
from captious.statistics import bootstrap
from captious.types import CaptionSet, Explanation, Floats

__all__ = ["compare", "explain", "load", "metric", "metrics", "score"]


def score(
    captions: Any,
    references: Any = None,
    *,
    images: Any = None,
    objects: Any = None,
    systems: Sequence[str] | None = None,
    metrics: str | Iterable[str | Metric] | None = None,
    intervals: bool = True,
    parts: Path | None = None,
    **changes: Any,
) -> ScoreTable:
    """Score captions.

    Args:
        captions: texts, records, ``{id: caption}``, a path or several; see :func:`load`.
        references: one list of texts per caption, ``{id: [texts]}``, or a path.
        images: a folder, one image per caption, or ``{id: image}``.
        objects: labels of what is in each image.
        systems: a name per caption file.
        metrics: names or specs such as ``"cider_d(df='coco-val')"``; BLEU, ROUGE-L and CIDEr-D
            if none is named.
        intervals: whether corpus scores get bootstrap intervals.
        parts: folder for finished batches, so that a killed run can go on.
        **changes: fields of :class:`captious.Settings`, e.g. ``device="cuda"``, ``seed=1``.

    Returns:
        A table: ``table.corpus["cider_d"]``, ``table["cider_d"]``, ``table.save(path)``.
    """
    with settings.use(**changes):
        samples = load(captions, references, images=images, objects=objects, systems=systems)
        return run(samples, metrics, resamples=bootstrap.RESAMPLES if intervals else 0, parts=parts)


def compare(table: ScoreTable, **options: Any) -> comparing.Comparison:
    """Test the systems of a table against each other; see ``engine.compare.compare``."""
    return comparing.compare(table, **options)


def explain(
    metric: str | Metric,
    caption: str,
    references: Sequence[str] = (),
    *,
    image: str | None = None,
    objects: Sequence[str] | None = None,
    corpus: CaptionSet | None = None,
) -> Explanation:
    """Say why one caption gets its score from one metric.

    Args:
        metric: a name or spec.
        caption: the caption.
        references: its references.
        image: its image, for metrics that look.
        objects: labels of what is in the image.
        corpus: the set whose statistics (document frequencies) apply; the sample alone if None.
    """
    from captious.types import Sample

    judge = registry.create(metric) if isinstance(metric, str) else metric
    sample = Sample(
        "0", caption, tuple(references), image, "", None if objects is None else tuple(objects)
    )
    context = judge.prepare(corpus if corpus is not None else CaptionSet.of([sample]))
    return judge.explain(sample, context)


def metrics() -> list[str]:
    """Return the names of all metrics."""
    return registry.names()


class _Callable:
    """A metric as a plain function: ``(candidates, references) -> (corpus, per caption)``."""

    def __init__(self, judge: Metric) -> None:
        self.metric = judge

    def __call__(
        self, candidates: Any, references: Any = None, **inputs: Any
    ) -> tuple[dict[str, CorpusValue], dict[str, Floats]]:
        table = score(candidates, references, metrics=[self.metric], intervals=False, **inputs)
        return table.corpus, table.values

    def compute_score(self, gts: Mapping[Any, Any], res: Mapping[Any, Any]) -> tuple[Any, Any]:
        """Score the dictionaries of pycocoevalcap; values in the order of ``res``."""
        corpus, values = self(
            {k: v[0] if isinstance(v, list) else v for k, v in res.items()}, dict(gts)
        )
        if len(values) == 1:
            name = next(iter(values))
            return corpus[name], values[name]
        return list(corpus.values()), list(values.values())

    def method(self) -> str:
        """Return the name of the metric."""
        return self.metric.name

    def __repr__(self) -> str:
        return f"captious.metric({registry.text_form(self.metric)!r})"


def metric(text: str, **parameters: Any) -> _Callable:
    """Return a metric that can be called.

    Example:
        >>> bleu = metric("bleu")
        >>> corpus, single = bleu(["a dog", "a cat"], [["a dog"], ["the cat"]])
        >>> f"{corpus['bleu_1']:.2f}"
        '0.75'
    """
    made = registry.create(text)
    if parameters:
        known = made.parameters()
        wrong = [p for p in parameters if p not in known]
        if wrong:
            raise UsageError(f"{made.name} has no parameter {wrong[0]!r}. It has: {list(known)}")
        made = replace(made, **parameters)
    return _Callable(made)
