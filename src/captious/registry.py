"""Names to metrics. Built-ins and plug-ins enter by the same door, the entry-point group
``captious.metrics``; nothing is imported before it is asked for.
"""  # noqa: D205

from __future__ import annotations

import logging
import typing
from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from captious import spec as specs
from captious.errors import UsageError, did_you_mean
from captious.metrics.base import Metric
from captious.spec import MetricSpec

GROUP = "captious.metrics"
log = logging.getLogger("captious")


@lru_cache(maxsize=1)
def _entries() -> dict[str, EntryPoint]:
    found = {e.name: e for e in entry_points(group=GROUP)}
    if not found:
        raise UsageError(
            "no metric is registered: captious runs from a folder that is not installed. "
            "Run `pip install -e .` there."
        )
    return found


def names() -> list[str]:
    """Return all registered metric names, sorted."""
    return sorted(_entries())


@lru_cache(maxsize=256)
def load(name: str) -> type[Metric]:
    """Return the class of a metric.

    Raises:
        UsageError: there is no such metric, or its plug-in does not hold one.
    """
    entries = _entries()
    if name not in entries:
        raise UsageError(
            f"no metric is called {name!r}.{did_you_mean(name, {*entries, *_columns()})} "
            "`captious metrics` lists them all."
        )
    try:
        found = entries[name].load()
    except Exception as err:  # a plug-in is foreign code: whatever it raises, say whose it is
        raise UsageError(
            f"the metric {name!r} ({entries[name].value}) cannot be loaded: "
            f"{type(err).__name__}: {err}"
        ) from err
    if not (isinstance(found, type) and issubclass(found, Metric)):
        raise UsageError(f"the plug-in {entries[name].value!r} is not a captious Metric")
    return found


@lru_cache(maxsize=1)
def _columns() -> dict[str, str]:
    """Map the columns of all registered metrics to the metric's name."""
    out: dict[str, str] = {}
    for name in names():
        try:
            columns = getattr(load(name), "columns", ())
        except UsageError:
            continue  # it says so itself when it is asked for
        if isinstance(columns, tuple):
            for column in columns:
                out.setdefault(column.name, name)
    return out


def create(text: str | MetricSpec) -> Metric:
    """Make the metric that a spec describes; a column's name stands for its metric."""
    spec = specs.parse(text) if isinstance(text, str) else text
    name = spec.name
    if name not in _entries() and name in _columns():
        name = _columns()[name]
    cls = load(name)
    return cls(**_checked(cls, spec))


def create_many(texts: str | Iterable[str]) -> list[tuple[Metric, tuple[str, ...]]]:
    """Make several metrics, each with the columns that were asked for.

    All wrong names and parameters are reported together. Asking for a single column
    (``bleu_4``) gives that column only; asking for a metric gives all of its columns.
    """
    wanted: dict[Metric, list[str]] = {}
    problems = []
    for spec in specs.parse_many(texts):
        try:
            metric = create(spec)
        except UsageError as err:
            problems.append(str(err))
            continue
        columns = [c.name for c in metric.columns]
        chosen = columns if spec.name == metric.name else [spec.name]
        before = wanted.setdefault(metric, [])
        before.extend(c for c in chosen if c not in before)
    if problems:
        raise UsageError("\n".join(problems))
    return [
        (m, tuple(c.name for c in m.columns if c.name in chosen)) for m, chosen in wanted.items()
    ]


def _checked(cls: type[Metric], spec: MetricSpec) -> dict[str, typing.Any]:
    hints = typing.get_type_hints(cls)
    allowed = {f.name: hints[f.name] for f in fields(cls)}
    out = {}
    for written, value in spec.parameters:
        key = cls.renamed.get(written, written)
        if key != written:
            log.info("%s: the parameter %s is called %s now", cls.name, written, key)
        if key not in allowed:
            has = ", ".join(allowed) or "none"
            raise UsageError(
                f"{spec.name} has no parameter {key!r}.{did_you_mean(key, allowed)} It has: {has}."
            )
        kinds = typing.get_args(allowed[key]) or (allowed[key],)
        if float in kinds and type(value) is int:
            value = float(value)
        if isinstance(value, str) and str not in kinds:  # a bare word, as a shell passes it
            value = {"true": True, "false": False, "none": None}.get(value.lower(), value)
        if type(value) not in kinds:
            raise UsageError(
                f"{spec.name}: the parameter {key!r} takes "
                f"{' or '.join(getattr(k, '__name__', str(k)) for k in kinds)}, not {value!r}."
            )
        out[key] = value
    return out


def text_form(metric: Metric) -> str:
    """Return the spec that makes this metric again (defaults are left out)."""
    defaults = {f.name: f.default for f in fields(metric)}
    changed = [(k, v) for k, v in metric.parameters().items() if v != defaults[k]]
    return str(MetricSpec(metric.name, tuple(changed)))
