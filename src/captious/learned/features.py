"""The features of a composite: score columns of other metrics, computed by the engine.

An input is written as the engine's users write it: ``meteor``, ``cider(df='coco-val')``,
``bertscore_r`` (a column stands for its metric). Tables of features are kept in the cache folder
under a key of the data and of each metric's own signature, so that training again takes seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious import registry, settings, spec
from captious.engine.run import fingerprint, run
from captious.errors import InputError, UsageError
from captious.io import files
from captious.metrics.base import Metric, Need
from captious.types import CaptionSet, Floats

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


def parse_inputs(texts: str | Iterable[str]) -> tuple[Input, ...]:
    """Read input columns; all wrong ones are reported together.

    Raises:
        UsageError: unknown names or parameters, a metric of several columns of other names, or a
            column that stands twice.
    """
    found: list[Input] = []
    problems: list[str] = []
    for one in spec.parse_many(texts):
        try:
            metric = registry.create(one)
        except UsageError as err:
            problems.append(str(err))
            continue
        names = [c.name for c in metric.columns]
        if type(metric).inputs is not Metric.inputs:
            problems.append(f"{one}: a composite cannot be an input of a composite")
        elif one.name in names:
            found.append(Input(str(one), metric, names.index(one.name)))
        elif len(names) == 1:
            found.append(Input(str(one), metric, 0))
        else:
            problems.append(f"{one}: which of its columns? Write one of {', '.join(names)}")
    texts_found = [i.text for i in found]
    problems += [f"the input {t} stands twice" for t in dict.fromkeys(texts_found)
                 if texts_found.count(t) > 1]  # fmt: skip
    if problems:
        raise UsageError("\n".join(problems))
    return tuple(found)


def metrics_of(inputs: Sequence[Input]) -> tuple[Metric, ...]:
    """Return the metrics behind the inputs, each once, in order of appearance."""
    return tuple(dict.fromkeys(i.metric for i in inputs))


def needs_of(metrics: Sequence[Metric]) -> frozenset[Need]:
    """Return everything that the metrics need together."""
    return frozenset().union(*(m.needs for m in metrics))


def identity(metric: Metric, context: Any) -> dict[str, str]:
    """Return what decides this metric's values: its signature but for the data's own facts."""
    text = metric.signature("-", context)
    parts = dict(part.partition(":")[::2] for part in text.split("|")[1:])
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
    """Compute the features of all captions, or take them from the cache."""
    data = samples.pool.derived(
        ("fingerprint", id(samples)), lambda: (samples, fingerprint(samples))
    )[1]
    by_metric: dict[Metric, tuple[Floats, dict[str, str], dict[int, str]]] = {}
    todo: list[Metric] = []
    for metric in metrics_of(inputs):
        path = _path(metric, data)
        kept = _read(path) if store and path.exists() else None
        # A metric that has learned to read better says so in its signature.
        if kept is not None and kept[1] == identity(metric, _context(metric, samples)):
            by_metric[metric] = kept
        else:
            todo.append(metric)
    if todo:
        scored = run(samples, todo, resamples=0)
        for step, rows in zip(scored.steps, scored.blocks, strict=True):
            metric = step.metric
            name = step.names[0]
            why = {
                row: reason
                for row, reason in _rows_of(scored.unscored, samples, name).items()
                if np.isnan(rows[row]).any()
            }
            facts = identity(metric, _context(metric, samples))
            by_metric[metric] = (metric.scores(rows), facts, why)
            if store:
                _write(_path(metric, data), *by_metric[metric])
    values = np.column_stack([by_metric[i.metric][0][:, i.index] for i in inputs])
    reasons = {
        (row, at): why for at, i in enumerate(inputs) for row, why in by_metric[i.metric][2].items()
    }
    return Table(values, tuple(by_metric[i.metric][1] for i in inputs), reasons)


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


def _context(metric: Metric, samples: CaptionSet) -> Any:
    """Return the corpus facts, for the signature only."""
    return metric.prepare(samples)


def _path(metric: Metric, data: str) -> Path:
    # What the metric reads outside of the data: weights and tables by size and time.
    from captious import assets

    named = []
    for name in metric.assets:
        found = assets.available(name)
        if found is not None:
            parts = (
                sorted(p for p in found.rglob("*") if p.is_file()) if found.is_dir() else [found]
            )
            named.append([name, [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in parts]])
    key = json.dumps([data, registry.text_form(metric), [c.name for c in metric.columns], named])
    name = f"{metric.name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"
    return settings.get().cache_dir / "features" / name


def _write(path: Path, values: Floats, facts: dict[str, str], why: dict[int, str]) -> None:
    said = json.dumps([facts, why]).encode()
    with files.replacing(path, "wb") as file:
        np.savez(file, values=values, said=np.frombuffer(said, np.uint8))


def _read(path: Path) -> tuple[Floats, dict[str, str], dict[int, str]]:
    with np.load(path, allow_pickle=False) as file:
        facts, why = json.loads(bytes(file["said"]))
        return file["values"], facts, {int(k): v for k, v in why.items()}
