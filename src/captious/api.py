"""The functions that Python users call; each makes a job and runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from captious import registry, settings
from captious.engine import compare as comparing
from captious.engine import explain as explaining
from captious.engine import job as jobs
from captious.engine.executors import Executor
from captious.engine.job import ScoringJob
from captious.engine.plan import Asked, asked
from captious.engine.table import CorpusValue, ScoreTable
from captious.errors import UsageError
from captious.io.references import paths_in
from captious.metrics.base import Metric
from captious.statistics.bootstrap import RESAMPLES, SEED
from captious.types import CaptionSet, Explanation, Floats

__all__ = ["compare", "explain", "load", "metric", "metrics", "score"]


def score(
    captions: Any,
    references: Any = None,
    *,
    images: Any = None,
    objects: Any = None,
    regions: Any = None,
    systems: Sequence[str] | None = None,
    metrics: Asked | Iterable[Asked] | None = None,
    intervals: bool = True,
    seed: int = SEED,
    keep: bool = False,
    executor: Executor | None = None,
    **changes: Any,
) -> ScoreTable:
    """Score captions.

    Args:
        captions: texts, records, ``{id: caption}``, a path or several; see :func:`load`. A
            :class:`ScoringJob` is run as it stands.
        references: one list of texts per caption, ``{id: [texts]}``, or a path.
        images: a folder, one image per caption, or ``{id: image}``.
        objects: labels of what is in each image: a file or several, one list per caption, or
            ``{image: labels}``.
        regions: a store of region features, or its path.
        systems: a name per caption file.
        metrics: names or specs such as ``"cider_d(df='coco-val')"``, or functions of a caption
            and its references; BLEU, ROUGE-L and CIDEr-D if none is named.
        intervals: whether corpus scores get bootstrap intervals.
        seed: of every random draw.
        keep: whether finished chunks are kept in the cache, so that a killed run can go on.
        executor: who does the work, e.g. ``captious.engine.executors.Processes(4)``.
        **changes: fields of :class:`captious.Settings`, e.g. ``device="cuda"``.

    Returns:
        A table: ``table.corpus["cider_d"]``, ``table["cider_d"]``, ``table.save(path)``.
    """
    if isinstance(captions, ScoringJob):
        job = captions
    else:
        job = ScoringJob(
            captions,
            references,
            images,
            objects,
            regions,
            systems if systems is None else tuple(systems),
            asked(metrics),
            RESAMPLES if intervals else 0,
            seed,
            keep,
        )
    with settings.use(**changes):
        return jobs.score(job, executor=executor)


def load(
    captions: Any,
    references: Any = None,
    *,
    images: Any = None,
    objects: Any = None,
    regions: Any = None,
    systems: Sequence[str] | None = None,
) -> CaptionSet:
    """Read captions, references and evidence as :func:`score` does, without scoring."""
    names = None if systems is None else tuple(systems)
    return ScoringJob(captions, references, images, objects, regions, names).read()


def compare(table: ScoreTable, **options: Any) -> comparing.Comparison:
    """Test the systems of a table against each other; see ``engine.compare.compare``."""
    return comparing.compare(table, **options)


def explain(
    metric: str | Metric,
    caption: str,
    references: Sequence[str] = (),
    *,
    image: str | None = None,
    objects: Any = None,
    regions: Any = None,
    corpus: CaptionSet | None = None,
) -> Explanation:
    """Say why one caption gets its score from one metric.

    Args:
        metric: a name or spec.
        caption: the caption.
        references: its references.
        image: its image, for metrics that look; objects and regions are found in it.
        objects: labels of what is in the image, or a file of labels.
        regions: a store of region features, or its path.
        corpus: the set whose statistics (document frequencies) apply; the sample alone if None.
    """
    labels = objects
    if isinstance(objects, Sequence) and not isinstance(objects, str):
        labels = objects if paths_in(objects) else [list(objects)]
    job = ScoringJob(
        [caption],
        [list(references)],
        None if image is None else [image],
        labels,
        regions,
        metrics=(metric,),
    )
    return explaining.explain(job.read(), metric, 0, corpus=corpus)


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
