"""Names to metrics. Built-ins and plug-ins enter by the same door, the entry-point group
``captious.metrics``; nothing is imported before it is asked for.
"""  # noqa: D205

from __future__ import annotations

import logging
import typing
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from captious import names as known_names
from captious import spec as specs
from captious.errors import CaptiousError, UsageError, did_you_mean, missing_lines
from captious.metrics.base import Metric, Need
from captious.spec import MetricSpec

GROUP = "captious.metrics"
log = logging.getLogger("captious")


@lru_cache(maxsize=1)
def _entries() -> dict[str, EntryPoint]:
    entries = {e.name: e for e in entry_points(group=GROUP)}
    if not entries:
        raise UsageError(
            "no metric is registered: captious runs from a folder that is not installed. "
            "Run `pip install -e .` there."
        )
    return entries


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
        known = {*entries, *_columns(), *known_names.MEANING}
        raise UsageError(
            f"no metric is called {name!r}.{did_you_mean(name, known)} "
            "`captious metrics` lists them all."
        )
    try:
        loaded = entries[name].load()
    except Exception as err:  # a plug-in is foreign code: whatever it raises, say whose it is
        raise UsageError(
            f"the metric {name!r} ({entries[name].value}) cannot be loaded: "
            f"{type(err).__name__}: {err}"
        ) from err
    if not (isinstance(loaded, type) and issubclass(loaded, Metric)):
        raise UsageError(f"the plug-in {entries[name].value!r} is not a captious Metric")
    return loaded


@lru_cache(maxsize=1)
def _columns() -> dict[str, str]:
    """Map the columns of all registered metrics to the metric's name."""
    out: dict[str, str] = {}
    for name in names():
        columns = getattr(_loaded(name), "columns", ())
        if isinstance(columns, tuple):
            for column in columns:
                out.setdefault(column.name, name)
    return out


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    """Map names of metrics and columns, in plain letters and digits, to how we write them."""
    out: dict[str, str] = {}
    for name in [*names(), *_columns()]:
        out.setdefault(known_names.letters(name), name)
    return out


def canonical(name: str, remark: bool = True) -> str:
    """Return how captious writes a name; a name of other tools gets a remark on the variant.

    Our own spelling always wins: ``cider`` is the original CIDEr, ``CIDEr`` is what pycocoevalcap
    prints under that name, CIDEr-D. Nobody typed the names in a model file: no ``remark`` there.
    """
    if name in _entries() or name in _columns():
        if name == "cider" and remark:
            _say_once(f"cider is {known_names.VARIANT['cider']}")
        return name
    ours = known_names.other_name(name) or _spellings().get(known_names.letters(name))
    if ours is None:
        return name
    metric = _columns().get(ours, ours)
    if metric in known_names.VARIANT and remark:
        _say_once(f"{name} is {ours} here: {known_names.VARIANT[metric]}")
    return ours


@lru_cache(maxsize=64)
def _say_once(text: str) -> None:
    log.info("%s", text)


def create(text: str | MetricSpec, remark: bool = True) -> Metric:
    """Make the metric that a spec describes; a column's name stands for its metric."""
    spec = specs.parse(text) if isinstance(text, str) else text
    name = canonical(spec.name, remark)
    if name not in _entries() and name in _columns():
        name = _columns()[name]
    cls = load(name)
    return cls(**_checked(cls, spec))


def group(name: str) -> dict[str, tuple[str, ...]] | None:
    """Return the metrics of a group and the columns to show of each, or None if it is no group."""
    if name in known_names.GROUPS:
        return {m: c for m, c in known_names.GROUPS[name].items() if m in _entries()}
    if name not in ("all", "free"):
        return None
    made = {n: cls() for n in names() if (cls := _loaded(n)) is not None}
    return {n: () for n, m in made.items() if name == "all" or Need.REFERENCES not in m.needs}


def _loaded(name: str) -> type[Metric] | None:
    """Return the class, or None for a broken plug-in: it says so when it is asked for by name."""
    try:
        return load(name)
    except UsageError:
        return None


def create_many(
    texts: str | Iterable[str], lacks: Callable[[Metric], str] | None = None
) -> list[tuple[Metric, tuple[str, ...]]]:
    """Make several metrics, each with the columns that were asked for.

    All wrong names and parameters are reported together. Asking for a single column
    (``bleu_4``) gives that column only; asking for a metric gives all of its columns; asking for
    a group (``coco``, ``papers``, ``free``, ``fast``, ``all``) gives what can run of it.

    Args:
        texts: metrics and groups.
        lacks: says which input a member of a group lacks ("" if none); such a member is left out.
    """
    wanted: dict[Metric, list[str]] = {}
    problems = []
    for spec in specs.parse_many(texts):
        members = group(spec.name.lower()) if not spec.parameters else None
        if members is not None:
            for member, named in _runnable(spec.name.lower(), members, lacks).items():
                metric = load(member)()
                before = wanted.setdefault(metric, [])
                chosen = named or tuple(c.name for c in metric.columns)
                before.extend(c for c in chosen if c not in before)
            continue
        try:
            metric = create(spec)
        except UsageError as err:
            problems.append(str(err))
            continue
        columns = [c.name for c in metric.columns]
        ours = canonical(spec.name)
        chosen_columns = columns if ours == metric.name else [ours]
        before = wanted.setdefault(metric, [])
        before.extend(c for c in chosen_columns if c not in before)
    if problems:
        raise UsageError("\n".join(problems))
    return [
        (m, tuple(c.name for c in m.columns if c.name in chosen)) for m, chosen in wanted.items()
    ]


def _runnable(
    name: str, members: dict[str, tuple[str, ...]], lacks: Callable[[Metric], str] | None
) -> dict[str, tuple[str, ...]]:
    """Return what can run of a group, and remark on the rest.

    Raises:
        CaptiousError: nothing of it can run.
    """
    missing: list[CaptiousError] = []
    without: dict[str, list[str]] = {}
    out = {}
    for member, columns in members.items():
        metric = load(member)()
        problems = metric.missing()
        missing += problems
        need = lacks(metric) if lacks is not None and not problems else ""
        if need:
            without.setdefault(need, []).append(member)
        elif not problems:
            out[member] = columns
    said = missing_lines(missing)
    said += [
        f"{', '.join(lacking)} {'needs' if len(lacking) == 1 else 'need'} {need}"
        for need, lacking in without.items()
    ]
    if not out:
        raise CaptiousError(f"no metric of {name} can run:\n" + "\n".join(f"  - {s}" for s in said))
    for line in said:
        _say_once(f"left out of {name}: {line}")
    return out


def _checked(cls: type[Metric], spec: MetricSpec) -> dict[str, typing.Any]:
    hints = typing.get_type_hints(cls)
    allowed = {f.name: hints[f.name] for f in fields(cls)}
    out = {}
    for written, value in spec.parameters:
        key = cls.renamed.get(written, written)
        if key != written:
            log.info("%s: the parameter %s is now called %s", cls.name, written, key)
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
