"""The features of a composite: score columns of other metrics, computed by the engine.

An input is written as the engine's users write it: ``meteor``, ``cider(df='coco-val')``,
``bertscore_r`` (a column stands for its metric). Statistics are kept in the engine's cache, so that
training again takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from captious import registry, spec
from captious.engine.cache import default_cache
from captious.engine.run import run
from captious.errors import InputError, UsageError
from captious.metrics.base import Metric, Need
from captious.types import CaptionSet, Evidence, Floats

_NOT_OURS = ("refs", "captious", "objects")


@dataclass(frozen=True)
class Input:
    """One score column that a composite reads.

    Attributes:
        text: as written, e.g. ``cider(df='coco-val')``.
        metric: who computes it.
        index: which of the metric's columns.
    """

    text: str
    metric: Metric
    index: int

    @property
    def column(self) -> str:
        """The name of the column."""
        return self.metric.columns[self.index].name

    @property
    def higher_is_better(self) -> bool:
        """Whether a high value speaks for the caption."""
        return self.metric.columns[self.index].higher_is_better


def parse_inputs(texts: str | Iterable[str], remark: bool = True) -> tuple[Input, ...]:
    """Read input columns; all wrong ones are reported together; ``remark`` on names: see registry.

    Raises:
        UsageError: unknown names or parameters, a metric of several columns of other names, or a
            column that is given twice.
    """
    inputs: list[Input] = []
    problems: list[str] = []
    for metric_spec in spec.parse_many(texts):
        try:
            metric = registry.create(metric_spec, remark)
        except UsageError as err:
            problems.append(str(err))
            continue
        names = [c.name for c in metric.columns]
        if metric.learned:
            problems.append(f"{metric_spec}: a composite cannot be an input of a composite")
        elif metric_spec.name in names:
            inputs.append(Input(str(metric_spec), metric, names.index(metric_spec.name)))
        elif len(names) == 1:
            inputs.append(Input(str(metric_spec), metric, 0))
        else:
            problems.append(f"{metric_spec}: which of its columns? Write one of {', '.join(names)}")
    texts_found = [i.text for i in inputs]
    problems += [f"the input {t} is given twice" for t in dict.fromkeys(texts_found)
                 if texts_found.count(t) > 1]  # fmt: skip
    if problems:
        raise UsageError("\n".join(problems))
    return tuple(inputs)


def metrics_of(inputs: Sequence[Input]) -> tuple[Metric, ...]:
    """Return the metrics behind the inputs, each once, in order of appearance."""
    return tuple(dict.fromkeys(i.metric for i in inputs))


def needs_of(metrics: Sequence[Metric]) -> frozenset[Need]:
    """Return everything that the metrics need together."""
    return frozenset().union(*(m.needs for m in metrics))


def identity(metric: Metric, context: Any, evidence: Evidence) -> dict[str, str]:
    """Return what decides this metric's values: its signature but for the data's own facts."""
    return signature_facts(metric.signature("-", context, evidence))


def signature_facts(signature: str) -> dict[str, str]:
    """Return the parts of a signature that do not depend on the captions."""
    parts = dict(part.partition(":")[::2] for part in signature.split("|")[1:])
    return {k: v for k, v in parts.items() if k not in _NOT_OURS}


@dataclass(frozen=True)
class Table:
    """Feature values of a caption set.

    Attributes:
        values: (rows, inputs); NaN where an input could not score a caption.
        identities: per input, what decides its values.
        reasons: (row, input) -> why there is no value.
    """

    values: Floats
    identities: tuple[dict[str, str], ...]
    reasons: dict[tuple[int, int], str]

    def require(self, inputs: Sequence[Input], what: str) -> None:
        """Complain about every input that lacks values.

        Raises:
            InputError: a value is missing or not finite; nothing is filled in silently.
        """
        problems = []
        for at, one in enumerate(inputs):
            bad = np.flatnonzero(~np.isfinite(self.values[:, at]))
            if len(bad):
                why = self.reasons.get((int(bad[0]), at), "the value is not finite")
                problems.append(
                    f"{what}: {one.text} is missing for {len(bad):,} of {len(self.values):,} "
                    f"captions (first: row {int(bad[0]) + 1}, {why}); leave these captions out, or "
                    f"train without this input"
                )
        if problems:
            raise InputError(problems)


def table(samples: CaptionSet, inputs: Sequence[Input], store: bool = True) -> Table:
    """Compute the features of all captions, or take them from the statistics cache."""
    metrics = metrics_of(inputs)
    scored = run(samples, metrics, resamples=0, cache=default_cache() if store else None)
    values: dict[Metric, Floats] = {}
    facts: dict[Metric, dict[str, str]] = {}
    why: dict[Metric, dict[int, str]] = {}
    for step, rows in zip(scored.steps, scored.blocks, strict=True):
        metric, name = step.metric, step.names[0]
        values[metric] = metric.scores(rows)
        facts[metric] = signature_facts(scored.signatures[name])
        why[metric] = {
            row: reason
            for row, reason in _rows_of(scored.unscored, samples, name).items()
            if np.isnan(rows[row]).any()
        }
    return Table(
        np.column_stack([values[i.metric][:, i.index] for i in inputs]),
        tuple(facts[i.metric] for i in inputs),
        {(row, at): text for at, i in enumerate(inputs) for row, text in why[i.metric].items()},
    )


def _rows_of(unscored: Iterable[Any], samples: CaptionSet, column: str) -> dict[int, str]:
    told = {(u.id, u.system): u.reason for u in unscored if u.column == column}
    if not told:
        return {}
    keys = zip(samples.ids.tolist(), samples.systems.tolist(), strict=True)
    return {
        row: told[str(name), str(system)]
        for row, (name, system) in enumerate(keys)
        if (str(name), str(system)) in told
    }
