"""Scores as an operator on Arrow tables, for pipelines that others run.

    scorer = captious.batch.Scorer(["bleu", "cider_d"], columns={"caption": "text"})
    table = scorer(table)

The output is the input with one float column per score, ``captious_signature`` and
``captious_error``. Number, order and content of the rows stay. No row raises: what cannot be scored
is NaN with its reason. A scorer travels as its arguments; models are loaded on the first call in
each process. Adapters for Ray Data, Daft, Spark, Data-Juicer and NeMo Curator are in
``captious.compat``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from captious import settings
from captious.engine import evidence
from captious.engine.executors import Local
from captious.engine.plan import Asked, Step, asked, steps_for
from captious.engine.run import combined, compute, leaves
from captious.engine.scorer import with_frequencies
from captious.errors import CaptiousError, UsageError, did_you_mean
from captious.io.batch_formats import checked
from captious.io.batches import Batch, batch_of
from captious.io.sources import NAMES, Source, cell_list
from captious.metrics.base import Metric
from captious.reading import is_address, streamed
from captious.types import CaptionSet, Floats, Need

SIGNATURE, ERROR = "captious_signature", "captious_error"
_PICTURES = ("jpg", "jpeg", "png", "webp")  # how webdataset names a sample's picture
_PICTURE_BYTES = 1 << 26
_LOOKING = {Need.IMAGE_PIXELS, Need.IMAGE_OBJECTS, Need.IMAGE_REGIONS}


class Scorer:
    """Metrics as a function from an Arrow table to an Arrow table.

    Args:
        metrics: names or specs; BLEU, ROUGE-L and CIDEr-D if none.
        columns: which column holds ``caption``, ``references``, ``image``, ``objects``, ``id``;
            those that are not named are found by their usual names.
        df: document frequencies for metrics that would count them on each batch.
        device: where networks run: ``auto``, ``cpu``, ``cuda``, ``mps``.

    Example:
        >>> rows = pa.table({"caption": ["a dog runs"], "references": [["a dog is running"]]})
        >>> out = Scorer("rouge_l")(rows)
        >>> f"{out['rouge_l'][0].as_py():.3f}", out[ERROR][0].as_py()
        ('0.557', None)
    """

    def __init__(
        self,
        metrics: Asked | Iterable[Asked] | None = None,
        columns: Mapping[str, str] | None = None,
        df: str = "coco-val",
        device: str | None = None,
    ) -> None:
        wrong = [what for what in columns or {} if what not in NAMES]
        if wrong:
            raise UsageError(
                f"columns: no part of a sample is called {wrong[0]!r}."
                f"{did_you_mean(wrong[0], NAMES)} There are: {', '.join(NAMES)}."
            )
        self._given = (asked(metrics), dict(columns or {}), df, device)
        self.steps: list[Step] = [with_frequencies(s, df) for s in steps_for(self._given[0])]
        whole = [m.name for m in leaves(s.metric for s in self.steps) if m.reads_captions]
        if whole:
            raise UsageError(
                f"{whole[0]} compares captions of the whole run, and a batch holds some of them "
                "only: use captious score"
            )
        missing = [str(err) for step in self.steps for err in step.metric.missing()]
        if missing:
            raise CaptiousError(
                "the scorer cannot be built, because something is missing:\n"
                + "\n".join(f"  - {text}" for text in dict.fromkeys(missing))
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the score columns."""
        return tuple(name for step in self.steps for name in step.names)

    @property
    def fields(self) -> list[pa.Field]:
        """The fields that a call adds."""
        scores = [pa.field(name, pa.float64()) for name in self.names]
        return [*scores, pa.field(SIGNATURE, pa.string()), pa.field(ERROR, pa.string())]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the table with its scores."""
        changes: dict[str, Any] = {"device": self._given[3]} if self._given[3] else {}
        with settings.use(progress=False, **changes):
            values, errors = self._scored(self._batch(table))
        columns = [pa.array(values[name]) for name in self.names]
        columns.append(pa.array([self._signature] * table.num_rows, pa.string()))
        columns.append(pa.array(errors, pa.string()))
        out = table
        for field, column in zip(self.fields, columns, strict=True):
            if field.name in out.column_names:
                out = out.drop_columns(field.name)
            out = out.append_column(field, column)
        return out

    # -- from a table to samples -----------------------------------------------------------------

    def lacking(self, columns: Iterable[str]) -> str | None:
        """Say what the metrics need that no column of such a table can hold; None if nothing."""
        held = {what for what in NAMES if self._column(what, list(columns)) is not None}
        if "caption" not in held:
            return "captions"
        for need in sorted(frozenset().union(*(s.metric.needs for s in self.steps)), key=str):
            fine = {"references"} if need is Need.REFERENCES else {"image"}
            if need is Need.IMAGE_OBJECTS:
                fine = {"image", "objects"}
            if not fine & held:
                return need.given_as
        return None

    def _column(self, what: str, columns: Sequence[str]) -> str | None:
        """Return the column that holds a part of a sample: the named one, or one of that name."""
        usual = (*NAMES[what], *_PICTURES) if what == "image" else NAMES[what]
        return self._given[1].get(what) or next((n for n in usual if n in columns), None)

    def _batch(self, table: pa.Table) -> Batch:
        source = Source("table", "row", caption=[None] * table.num_rows)
        for what in NAMES:
            name = self._column(what, table.column_names)
            if name is None:
                continue
            if name not in table.column_names:
                raise UsageError(
                    f"the table has no column {name!r} ({what}); it has: "
                    f"{', '.join(table.column_names)}"
                )
            setattr(source, what, _values(table.column(name)))
        if source.references is not None:
            source.references = [cell_list(listed) for listed in source.references]
        broken: dict[int, str] = {}
        if source.image is not None and any(_LOOKING & step.metric.needs for step in self.steps):
            source.image = [_fetched(v, row, broken) for row, v in enumerate(source.image)]
        return batch_of(checked(source, broken))

    # -- from samples to values ------------------------------------------------------------------

    def _scored(self, batch: Batch) -> tuple[dict[str, Floats], list[str | None]]:
        """Score; a part of the batch that raises is halved until the row is found."""
        try:
            return self._at_once(batch)
        except Exception as err:  # whatever a metric or a damaged picture raises is the row's fault
            if len(batch) == 1:
                return {n: np.array([np.nan]) for n in self.names}, [f"{type(err).__name__}: {err}"]
        middle = len(batch) // 2
        halves = [batch.part(0, middle), batch.part(middle, len(batch))]
        (left, scores), (right, others) = (self._scored(half) for half in halves)
        return {n: np.concatenate([left[n], right[n]]) for n in self.names}, scores + others

    def _at_once(self, batch: Batch) -> tuple[dict[str, Floats], list[str | None]]:
        values = {name: np.full(len(batch), np.nan) for name in self.names}
        errors: list[str | None] = [batch.problems.get(row) for row in range(len(batch))]
        sound = [row for row, error in enumerate(errors) if error is None]
        if not sound:
            return values, errors
        metrics = [step.metric for step in self.steps]
        samples = evidence.complete(batch.sound().compact(), metrics)
        done = compute(samples, leaves(metrics), Local(), frozen=self._frozen)
        why: list[dict[str, list[str]]] = [{} for _ in sound]
        for step in self.steps:
            stats = combined(step.metric, samples, done)[0]
            scores = step.metric.scores(stats.rows)
            for name, column, at in zip(step.names, step.columns, step.index, strict=True):
                values[name][sound] = scores[:, at]
                for row in np.flatnonzero(np.isnan(scores[:, at])).tolist():
                    reason = stats.reasons.get(row, column.undefined)
                    why[row].setdefault(reason, []).append(name)
        for row, listed in zip(sound, why, strict=True):
            said = (f"{', '.join(names)}: {reason}" for reason, names in listed.items())
            errors[row] = "; ".join(said) or None
        return values, errors

    @cached_property
    def _frozen(self) -> dict[Metric, Any]:
        """Corpus facts that do not depend on the batch."""
        out: dict[Metric, Any] = {}
        nothing = CaptionSet.build([""], [[""]])
        for metric in leaves(step.metric for step in self.steps):
            if type(metric).prepare is Metric.prepare:
                out[metric] = None
            elif not metric.counts_run:
                out[metric] = metric.prepare(nothing)
        return out

    @cached_property
    def _signature(self) -> str:
        texts: dict[str, None] = {}
        for step in self.steps:
            context = self._frozen.get(step.metric)
            if step.metric.inputs:
                context = tuple(self._frozen.get(part) for part in step.metric.inputs)
            texts[step.metric.signature("any", context)] = None
        return " ".join(texts)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values; tensors of other tools as arrays."""
    if isinstance(column.type, pa.ExtensionType):
        return [row for part in column.chunks for row in part.to_numpy(zero_copy_only=False)]
    values = column.to_pylist()
    if pa.types.is_list(column.type) and pa.types.is_list(column.type.value_type):
        return [None if v is None else np.asarray(v) for v in values]
    return values


def _fetched(image: Any, row: int, broken: dict[int, str]) -> Any:
    """Return the content of a picture that is named by its address; all else as it is."""
    if not isinstance(image, str):
        return image
    if not is_address(image):
        if image and not os.path.isfile(image):
            broken[row] = f"there is no photograph {image[:200]}"
        return image
    try:
        with streamed(image, packed=False) as file:
            return file.read(_PICTURE_BYTES)
    except Exception as err:  # each store has its own
        broken[row] = f"the image {image[:200]} is not readable ({err})"
        return None
