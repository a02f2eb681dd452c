"""A prepared scorer: made once, called often (rewards, adapters, a service).

Making it resolves names, weights and corpus facts, and cuts and counts references that are known
beforehand. A call then costs little more than its captions::

    scorer = captious.scorer(["bleu", "cider_d"], references={"7": ["a dog runs", "one dog"]})
    scorer({"7": "a dog"}).per_caption["cider_d"]

A scorer can be called from several threads, travels to other processes as its arguments, and gives
a caption the same number whatever else is in the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from captious import registry
from captious.calling import (
    Answer,
    Columns,
    Unscored,
    captions_of,
    per_caption,
    references_of,
    texts_of,
)
from captious.engine import evidence
from captious.engine.executors import Local
from captious.engine.explain import explain
from captious.engine.plan import Asked, Step, asked, check, steps_for
from captious.engine.quick import Quick
from captious.engine.run import combined, compute, leaves, reference_label
from captious.engine.table import CorpusValue, ScoreTable
from captious.errors import CaptiousError, InputError, missing_lines
from captious.evidence.images import handed_over
from captious.io.references import References, columns_of
from captious.metrics.base import Metric
from captious.text import gram_kernels
from captious.types import CaptionSet, Explanation, Floats, Stats

REMEMBERED = 5_000
"""Lists of references that stay counted (some 55 KB each), unless the caller says otherwise."""

_BATCH = 48
"""Captions from which on compiled code, where it is at hand, is faster than one at a time; what
comes out is the same to the last bit."""

_models = Lock()  # networks and parsers are shared by all scorers of a process


@dataclass(frozen=True, repr=False)
class Scores(Answer):
    """What a call of a scorer returns; ``table()`` makes a :class:`captious.ScoreTable` of it."""

    per_caption: dict[str, Floats]
    _steps: list[Step] = field(compare=False)
    _stats: list[Stats] = field(compare=False)
    _contexts: list[Any] = field(compare=False)
    _samples: Callable[[], CaptionSet] = field(compare=False)

    @cached_property
    def sums(self) -> list[tuple[list[float], int]]:
        """Per metric, the sum of its statistics and of how many captions: what parts add up to."""
        out = []
        for stats in self._stats:
            scored = stats.rows[~np.isnan(stats.rows).any(axis=1)]
            out.append((scored.sum(axis=0).tolist(), len(scored)))
        return out

    @cached_property
    def corpus(self) -> dict[str, CorpusValue]:
        """Corpus value of every column, over the captions of this call that have one."""
        out: dict[str, CorpusValue] = {}
        for step, stats in zip(self._steps, self._stats, strict=True):
            values = step.metric.aggregate(stats.rows)
            out |= {
                n: CorpusValue(values[at]) for n, at in zip(step.names, step.index, strict=True)
            }
        return out

    @cached_property
    def signatures(self) -> dict[str, str]:
        """Column -> what has to stand beside its numbers."""
        samples = self._samples()
        label = reference_label(samples)
        return {
            name: step.metric.signature(label, context, samples.evidence)
            for step, context in zip(self._steps, self._contexts, strict=True)
            for name in step.names
        }

    def part(self, start: int, stop: int) -> Scores:
        """Return the scores of captions ``start`` to ``stop - 1``; ids must be distinct."""
        rows = slice(start, stop)
        ids = set(self.ids[rows])
        stats = [
            Stats(
                whole.rows[rows],
                {r - start: why for r, why in whole.reasons.items() if start <= r < stop},
            )
            for whole in self._stats
        ]
        return Scores(
            self.ids[rows],
            {column: values[rows] for column, values in self.per_caption.items()},
            [u for u in self.unscored if u.id in ids],
            self._steps,
            stats,
            self._contexts,
            lambda: self._samples().take(range(start, stop)),
        )

    def table(self, resamples: int = 0) -> ScoreTable:
        """Return a score table of the same numbers, which can be saved and compared."""
        notes = {
            f"{step.metric.name}: {note}": count
            for step, stats in zip(self._steps, self._stats, strict=True)
            for note, count in stats.notes.items()
        }
        blocks = [stats.rows for stats in self._stats]
        return ScoreTable.assemble(
            self._samples(), self._steps, blocks, self.signatures, self.unscored, notes, resamples
        )


class Scorer:
    """Metrics that are ready to be called; :func:`scorer` says how."""

    def __init__(
        self,
        metrics: Asked | Iterable[Asked] | None = None,
        references: Any = None,
        df: str = "coco-val",
        remember: int = REMEMBERED,
    ) -> None:
        self._given = (asked("fast" if metrics is None else metrics), references, df, remember)
        self.steps = [with_frequencies(step, df) for step in steps_for(self._given[0])]
        self.columns: tuple[str, ...] = tuple(name for step in self.steps for name in step.names)
        missing = [err for step in self.steps for err in step.metric.missing()]
        if missing:
            raise CaptiousError(
                "the scorer cannot be made, because something is not installed:\n"
                + "\n".join(f"  - {line}" for line in missing_lines(missing))
            )
        self._by_id: dict[str, tuple[str, ...]] | None = None
        self._by_row: list[tuple[str, ...]] | None = None
        if references is not None:
            self._read(references)
        self._frozen = self._facts()
        self._quick = Quick(remember)
        self._slow: list[Step] = []
        for step in self.steps:
            if step.metric.inputs or not self._quick.add(
                step.metric, self._frozen.get(step.metric)
            ):
                self._slow.append(step)
        for listed in self._known()[:remember]:
            self._quick.learn(listed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def __repr__(self) -> str:
        forms = [registry.text_form(step.metric) for step in self.steps]
        known = len(self._known())
        return f"captious.scorer({forms}{f', references of {known:,} images' if known else ''})"

    def __call__(
        self,
        captions: Any,
        references: Any = None,
        *,
        images: Any = None,
        objects: Any = None,
        regions: Any = None,
        ids: Sequence[Any] | None = None,
    ) -> Scores:
        """Score captions.

        Args:
            captions: texts, ``{id: caption}``, one text, or rows that hold references, images and
                labels, too: a data frame, an Arrow table, a dataset, records.
            references: one list of texts (or one text) per caption, or ``{id: texts}``; those that
                the scorer was made with if None.
            images: one per caption, or ``{id: image}``: paths, PIL images, arrays, encoded bytes.
            objects: one list of labels per caption, or ``{id: labels}``.
            regions: a store of region features, or its path.
            ids: of the captions, by which references are looked up.

        Raises:
            InputError: naming every caption and reference that is no text.
        """
        rows = None if isinstance(captions, str | dict) else columns_of(captions)
        given = Columns(captions, references, images, objects, ids)
        captions, references, images, objects, ids = given.filled(rows)
        texts, names = captions_of(captions, ids)
        listed = self._references(references, texts, names, isinstance(captions, str))
        build = _Once(lambda: _samples(texts, listed, names, images, objects, regions))
        stats: dict[Metric, tuple[Stats, Any]] = {}
        lacking = {i: "it has no reference" for i, r in enumerate(listed) if not r}
        quick = [step for step in self.steps if step not in self._slow]
        if quick and len(lacking) == len(texts):
            check(quick, build())
        if quick and len(texts) >= _BATCH and gram_kernels.kernels(len(texts)) is not None:
            metrics = [step.metric for step in quick]
            stats |= compute(build(), metrics, Local(), frozen=self._frozen)
            quick = []
        for step in quick:
            metric = step.metric
            values = self._quick.rows(metric, texts, listed)
            stats[metric] = Stats(values, lacking), self._frozen.get(metric)
        if self._slow:
            stats |= self._by_engine(build)
        return self._assembled(stats, names, build)

    def explain(
        self,
        caption: str,
        references: Sequence[str] = (),
        *,
        image: Any = None,
        objects: Sequence[str] | None = None,
    ) -> dict[str, Explanation | CaptiousError]:
        """Say metric by metric why a caption gets its score; an error where a metric cannot."""
        listed = [texts_of(references, "references", [])]
        labels = None if objects is None else [list(objects)]
        samples = _samples([caption], listed, ["0"], [image], labels, None)
        told: dict[str, Explanation | CaptiousError] = {}
        for step in self.steps:
            form = registry.text_form(step.metric)
            try:
                with _models:
                    told[form] = explain(samples, step.metric, 0)
            except CaptiousError as err:
                told[form] = err
        return told

    def corpus_of(self, sums: Sequence[tuple[Sequence[float], int]]) -> dict[str, float]:
        """Return the corpus values of sums that were added over several calls.

        Args:
            sums: per metric, as :attr:`Scores.sums` gives them.
        """
        if len(sums) != len(self.steps):
            raise InputError(f"{len(self.steps)} metrics, but {len(sums)} sums")
        out: dict[str, float] = {}
        for step, (totals, count) in zip(self.steps, sums, strict=True):
            values = np.full(len(step.metric.columns), np.nan)
            if count:
                try:
                    with np.errstate(all="ignore"):
                        values = step.metric.corpus(np.array(totals), np.array(float(count)))
                except (IndexError, ValueError):
                    values = np.zeros(0)
            if values.shape != (len(step.metric.columns),):
                raise InputError(f"{len(totals)} totals are not the sums of {step.metric.name}")
            out |= {n: float(values[at]) for n, at in zip(step.names, step.index, strict=True)}
        return out

    @property
    def steady(self) -> bool:
        """Whether no number depends on what else is in the call: all corpus facts are known."""
        return not self.counts_calls

    @property
    def counts_calls(self) -> list[str]:
        """Metrics that count corpus facts on the captions of each call."""
        asked = leaves(step.metric for step in self.steps)
        return [metric.name for metric in asked if metric not in self._frozen]

    # -- preparing ---------------------------------------------------------------------------

    def _read(self, references: Any) -> None:
        problems: list[str] = []
        read = References(references, problems)
        if read.by_row is not None:
            self._by_row = [texts_of(r, f"references[{i}]", problems)
                            for i, r in enumerate(read.by_row)]  # fmt: skip
        else:
            self._by_id = {
                name: texts_of(r, f"references[{name!r}]", problems)
                for name, r in read.by_id.items()
            }
        if problems:
            raise InputError(problems)

    def _known(self) -> list[tuple[str, ...]]:
        if self._by_row is not None:
            return self._by_row
        return [] if self._by_id is None else list(self._by_id.values())

    def _facts(self) -> dict[Metric, Any]:
        """Prepare corpus facts that do not depend on the captions of a call."""
        known = self._known()
        ids = None if self._by_id is None else list(self._by_id)
        sample = CaptionSet.build([""] * len(known), known, ids=ids) if known else None
        out: dict[Metric, Any] = {}
        for metric in leaves(step.metric for step in self.steps):
            if type(metric).prepare is Metric.prepare:
                out[metric] = None
            elif not metric.counts_run:
                out[metric] = metric.prepare(CaptionSet.build([""], [[""]]))
            elif sample is not None and hasattr(metric, "df") and not metric.reads_captions:
                out[metric] = metric.seal(metric.prepare(sample))
        return out

    # -- calling -----------------------------------------------------------------------------

    def _references(
        self, given: Any, texts: list[str], names: list[str], single: bool
    ) -> list[tuple[str, ...]]:
        problems: list[str] = []
        if given is None:
            if self._by_id is not None:
                out = [self._by_id.get(name, ()) for name in names]
                problems = [
                    f"captions[{i}]: there are no references for the id {name!r}"
                    for i, name in enumerate(names)
                    if name not in self._by_id
                ]
            elif self._by_row is not None:
                out = self._by_row
                if len(out) != len(texts):
                    problems = [f"{len(texts)} captions, but references of {len(out)} images"]
            else:
                out = [()] * len(texts)
        else:
            return references_of(given, names, single)
        if problems:
            raise InputError(problems)
        return out

    def _by_engine(self, build: _Once) -> dict[Metric, tuple[Stats, Any]]:
        wanted = [step.metric for step in self._slow]
        with _models:
            samples = build()
            check(self._slow, samples)
            samples = evidence.complete(samples, wanted)
            build.become(samples)
            check(self._slow, samples, completed=True)
            done = compute(samples, leaves(wanted), Local(), frozen=self._frozen)
            return {metric: combined(metric, samples, done) for metric in wanted}

    def _assembled(
        self,
        stats: Mapping[Metric, tuple[Stats, Any]],
        names: list[str],
        build: Callable[[], CaptionSet],
    ) -> Scores:
        values: dict[str, Floats] = {}
        unscored: list[Unscored] = []
        for step in self.steps:
            metric_stats, _ = stats[step.metric]
            scores = step.metric.scores(metric_stats.rows)
            for name, column, at in zip(step.names, step.columns, step.index, strict=True):
                values[name] = scores[:, at].copy()
                for row in np.flatnonzero(np.isnan(values[name])).tolist():
                    reason = metric_stats.reasons.get(row, column.undefined)
                    unscored.append(Unscored(names[row], "", name, reason))
        found_of = [stats[step.metric] for step in self.steps]
        return Scores(
            names,
            values,
            unscored,
            self.steps,
            [metric_stats for metric_stats, _ in found_of],
            [context for _, context in found_of],
            build,
        )


def scorer(
    metrics: Asked | Iterable[Asked] | None = None,
    references: Any = None,
    df: str = "coco-val",
    *,
    remember: int = REMEMBERED,
) -> Scorer:
    """Prepare metrics once, to call them often.

    Args:
        metrics: names, specs, metric objects or functions; BLEU, ROUGE-L and CIDEr-D if none.
        references: those that are known beforehand: ``{id: texts}``, one list of texts per
            caption, or a path. They are cut and counted now.
        df: document frequencies for metrics that would count them on each call (``df='corpus'``):
            ``coco-val``, a file of ``captious df build``, or ``corpus``: counted on the references
            above, and on those of each call if there are none above.
        remember: how many lists of references stay counted.

    Returns:
        A function of captions: ``scorer(captions, references=..., images=...)`` gives
        ``.per_caption``, ``.corpus``, ``.signatures``, ``.table()``.

    Example:
        >>> judge = scorer("bleu", references=[["a dog runs"]])
        >>> judge(["a dog"])["bleu_1"].round(4).tolist()
        [0.6065]
    """
    return Scorer(metrics, references, df, remember)


class _Once:
    """Makes a value when it is first asked for."""

    def __init__(self, make: Callable[[], CaptionSet]) -> None:
        self._make, self._made, self._lock = make, [], Lock()  # type: ignore[var-annotated]

    def __call__(self) -> CaptionSet:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    def become(self, samples: CaptionSet) -> None:
        """Take the samples with what was found in their images, which signatures name."""
        with self._lock:
            self._made[:] = [samples]


def with_frequencies(step: Step, df: str) -> Step:
    """Return the step with these document frequencies, where it would count them on each call."""
    metric = step.metric
    if metric.parameters().get("df") != "corpus" or df == "corpus":
        return step
    return replace(step, metric=replace(metric, df=df))  # type: ignore[call-arg]


def _samples(
    texts: list[str],
    references: list[tuple[str, ...]],
    names: list[str],
    images: Any,
    objects: Any,
    regions: Any,
) -> CaptionSet:
    photographs: dict[str, bytes] = {}
    pictures: list[str | None] = []
    for i, image in enumerate(per_caption(images, names, "images")):
        name, content = (None, None) if image is None else handed_over(image, f"images[{i}]")
        if name is not None and content is not None:
            photographs[name] = content
        pictures.append(name)
    labels = per_caption(objects, names, "objects")
    samples = CaptionSet.build(
        texts,
        references,
        ids=names,
        images=pictures,
        objects=labels if any(o is not None for o in labels) else None,
    )
    if photographs:
        samples = replace(samples, evidence=replace(samples.evidence, photographs=photographs))
    return evidence.given(samples, (), regions)
