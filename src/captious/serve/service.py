"""The service without its HTTP side: requests in, scores and explanations out."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from captious import registry
from captious.engine.plan import DEFAULT
from captious.engine.scorer import Scores
from captious.errors import CaptiousError, InputError, MissingAsset, MissingExtra, UsageError
from captious.evidence.images import decode_image
from captious.io.labels import label, times
from captious.report import explained
from captious.report.contents import main_column
from captious.serve.batching import Batchers, Call
from captious.serve.limits import Limits, Stopped, check_metrics
from captious.serve.meters import Meters
from captious.serve.schemas import (
    CorpusAnswer,
    CorpusRequest,
    ExplainAnswer,
    ExplainRequest,
    MetricColumn,
    MetricFacts,
    NotScored,
    ScoreAnswer,
    ScoreRequest,
    Sums,
    Told,
)


@dataclass
class Service:
    """What all requests share.

    Attributes:
        limits: what a request may cost.
        only: metrics that may be asked for, as they were written; None for all.
    """

    limits: Limits = field(default_factory=Limits)
    only: frozenset[str] | None = None
    started: float = field(default_factory=time.monotonic)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.meters = Meters(lambda: self.waiting)
        self.batchers = Batchers(self.limits, self.meters.batch)

    @property
    def waiting(self) -> int:
        """Captions that wait to be scored."""
        return self.batchers.waiting

    def prepare(self, metrics: Sequence[str], df: str = "coco-val") -> None:
        """Make metrics ready, so that the first request need not wait."""
        self.batchers.prepare(tuple(metrics), df)

    def close(self) -> None:
        """Finish what waits, take nothing more."""
        self.stopping = True
        self.batchers.close()

    # -- requests ----------------------------------------------------------------------------

    async def score(self, request: ScoreRequest) -> ScoreAnswer:
        """Score the captions of a request."""
        count = len(request.captions)
        problems = [
            f"{count} captions, but {len(rows)} {what}"
            for what, rows in (
                ("lists of references", request.references),
                ("images", request.images),
                ("lists of objects", request.objects),
                ("ids", request.ids),
            )
            if rows is not None and len(rows) != count
        ]
        if problems:
            raise InputError(problems)
        images: list[bytes | None] = [None] * count
        if request.images is not None:
            images = await asyncio.to_thread(self._pictures, request.images)
        call = Call(
            request.captions,
            request.references or [[]] * count,
            images,
            request.objects or [None] * count,
        )
        metrics = self._metrics(request.metrics)
        if request.sums:  # one of several requests that are counted together
            batcher = await asyncio.to_thread(self.batchers.prepare, metrics, request.df)
            if counting := batcher.scorer.counts_calls:
                raise InputError(
                    f"{', '.join(counting)}: corpus facts would be counted in each request by "
                    "itself; send all captions in one request"
                )
        scores = await self._scored(metrics, request.df, call)
        made = answer(scores, request.ids, request.signatures)
        if request.sums:
            made.sums = [Sums.model_construct(totals=t, count=n) for t, n in scores.sums]
        return made

    async def corpus(self, request: CorpusRequest) -> CorpusAnswer:
        """Return corpus values of sums that were added over several requests."""
        metrics = self._metrics(request.metrics)
        batcher = await asyncio.to_thread(self.batchers.prepare, metrics, request.df)
        sums = [(s.totals, s.count) for s in request.sums]
        values = await asyncio.to_thread(batcher.scorer.corpus_of, sums)
        return CorpusAnswer(corpus={column: number(value) for column, value in values.items()})

    async def explain(self, request: ExplainRequest) -> ExplainAnswer:
        """Explain one caption."""
        metrics = self._metrics(request.metrics)
        image = None
        if request.image is not None:
            (image,) = await asyncio.to_thread(self._pictures, [request.image])
        return await asyncio.to_thread(self._explained, request, metrics, image)

    def metrics(self) -> list[MetricFacts]:
        """Return what can be asked for."""
        return [facts for name in registry.names() if (facts := _facts(name)) is not None]

    # -- how ---------------------------------------------------------------------------------

    def _metrics(self, asked: list[str] | None) -> tuple[str, ...]:
        if asked is None:
            return DEFAULT if self.only is None else tuple(sorted(self.only))
        check_metrics(tuple(asked), self.limits.metrics, self.only)
        return tuple(asked)

    async def _scored(self, metrics: tuple[str, ...], df: str, call: Call) -> Scores:
        # While the service is being stopped, whatever still comes here had begun before.
        if self.batchers.ready(metrics, df) is None:
            await asyncio.to_thread(self.batchers.prepare, metrics, df)
        future = asyncio.wrap_future(self.batchers.submit(metrics, df, call))
        try:
            return await asyncio.wait_for(future, self.limits.seconds)
        except TimeoutError:
            raise Stopped(
                f"not scored within {self.limits.seconds:g} s; send fewer captions at once"
            ) from None

    def _pictures(self, texts: Sequence[str | None]) -> list[bytes | None]:
        """Return photographs as bytes, each seen to be one."""
        out: list[bytes | None] = []
        problems: list[str] = []
        for i, text in enumerate(texts):
            if text is None:
                out.append(None)
                continue
            try:
                content = base64.b64decode(text, validate=True)
                decode_image(content, f"images[{i}]", self.limits.pixels)
                out.append(content)
            except (binascii.Error, ValueError):
                problems.append(f"images[{i}] is not base64 of a photograph")
            except InputError as err:
                problems += err.problems
        if problems:
            raise InputError(problems)
        return out

    def _explained(
        self, request: ExplainRequest, metrics: tuple[str, ...], image: bytes | None
    ) -> ExplainAnswer:
        scorer = self.batchers.prepare(metrics, "coco-val").scorer
        scores = scorer(
            [request.caption],
            [request.references],
            images=None if image is None else [image],
            objects=None if request.objects is None else [request.objects],
        )
        told = scorer.explain(
            request.caption, request.references, image=image, objects=request.objects
        )
        explanations = []
        for form, explanation in told.items():
            title = explained.title_of(form.partition("(")[0])
            if isinstance(explanation, CaptiousError):
                explanations.append(Told(metric=title, text=str(explanation), parts=[]))
            else:
                explanations.append(Told(**explained.plain(title, explanation)))
        plain = answer(scores, None, signatures=False)
        return ExplainAnswer(
            explanations=explanations,
            scores={column: values[0] for column, values in plain.per_caption.items()},
            unscored=plain.unscored,
        )


def answer(scores: Scores, ids: list[str] | None, signatures: bool) -> ScoreAnswer:
    """Return scores as plain data; ids are the caller's, or positions."""
    names = ids or [str(i) for i in range(len(scores))]
    place = {name: at for at, name in enumerate(scores.ids)}
    return ScoreAnswer.model_construct(
        ids=names,
        per_caption={
            column: [number(v) for v in values.tolist()]
            for column, values in scores.per_caption.items()
        },
        corpus={column: number(value) for column, value in scores.corpus.items()},
        unscored=[
            NotScored(id=names[place[u.id]], column=u.column, reason=u.reason)
            for u in scores.unscored
        ],
        signatures=scores.signatures if signatures else {},
    )


def number(value: float) -> float | None:
    """Return a number that JSON can hold: None for NaN and the infinite."""
    return float(value) if math.isfinite(value) else None


def _facts(name: str) -> MetricFacts | None:
    """Return what is known of a metric; None where its plug-in does not load."""
    try:
        kind = registry.load(name)
        metric = kind()
        missing = [str(err) for err in metric.missing()]
    except (UsageError, MissingExtra, MissingAsset):
        return None
    main = main_column([column.name for column in metric.columns])
    return MetricFacts(
        name=name,
        summary=(kind.__doc__ or "").strip().partition("\n")[0].replace("``", "`"),
        needs=sorted(need.value for need in metric.needs),
        columns=[
            MetricColumn(
                name=column.name,
                label=label(column.name),
                main=column.name == main,
                times=times(column),
                meaning=column.meaning,
                low=number(column.low),
                high=number(column.high),
                higher_is_better=column.higher_is_better,
            )
            for column in metric.columns
        ],
        parameters={k: _plain(v) for k, v in metric.parameters().items()},
        missing=missing,
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)
