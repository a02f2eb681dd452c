"""Scores of judged captions: by registered metrics, or by a function of the user's.

What cannot be scored stays in the result with its reason. Scores of registered metrics are kept in
the cache folder, under a key of everything that they can depend on: captions, references, the
metric's parameters, the code of captious, the files of its assets. Their statistics are kept
likewise, so that a metric made of others (a composite) finds those of its inputs.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

import captious
from captious import assets, registry, settings
from captious._version import __version__
from captious.engine.plan import steps_for
from captious.engine.run import Parts, fingerprint, run
from captious.errors import CaptiousError, InputError, UsageError
from captious.io import files
from captious.metrics.base import Metric
from captious.types import CaptionSet, Floats, Stats

_KEPT = 2000  # files of a kind
_CODE = ("metrics", "text", "models", "evidence", "learned", "engine")


@dataclass(frozen=True)
class Scores:
    """One column of scores, turned so that higher is better.

    Attributes:
        name: the column.
        values: one per caption; NaN where it could not be scored.
        signature: how they were made.
        reason: why there are none at all, if so.
        unscored: reason -> number of captions.
        notes: remark -> number of captions.
    """

    name: str
    values: Floats
    signature: str = ""
    reason: str = ""
    unscored: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)


class Scorer:
    """Scores caption sets with a fixed list of metrics.

    Args:
        metrics: names or specs; ``all`` (or None) takes every registered metric; a path with a
            function (``my.py:score``) takes that function.
        store: whether scores are kept in the cache folder.
    """

    def __init__(self, metrics: str | Iterable[str] | None = None, store: bool = True) -> None:
        texts = ["all"] if metrics is None else [metrics] if isinstance(metrics, str) else metrics
        self.functions: list[tuple[str, Callable[..., Any]]] = []
        self.steps: list[tuple[Metric, str, tuple[str, ...], tuple[str, ...]]] = []
        plain: list[str] = []
        for text in texts:
            if ".py:" in text:
                self.functions.append((text.rpartition(":")[2], user_function(text)))
            elif text == "all":
                plain += registry.names()
            else:
                plain.append(text)
        for step in steps_for(plain) if plain else []:
            form = registry.text_form(step.metric)
            columns = tuple(c.name for c in step.columns)
            # Other parameters are always shown: cider_d and cider_d(by='row') differ.
            names = tuple(c + form[len(step.metric.name) :] for c in columns)
            self.steps.append((step.metric, form, columns, names))
        self.store = store
        self._memo: dict[tuple[str, str], list[Scores]] = {}
        self._parts: _KeptParts | None = None  # of the captions at hand

    def __call__(self, samples: CaptionSet) -> dict[str, Scores]:
        """Return the columns, in the order of the metrics."""
        data = fingerprint(samples)
        out: list[Scores] = []
        for metric, form, columns, names in self.steps:
            if (data, form) not in self._memo:
                self._memo[data, form] = self._metric(metric, form, samples, data)
            found = {s.name: s for s in self._memo[data, form]}
            out += [replace(found[c], name=n) for c, n in zip(columns, names, strict=True)]
        out += [_call(name, function, samples) for name, function in self.functions]
        return {s.name: s for s in out}

    def _metric(self, metric: Metric, form: str, samples: CaptionSet, data: str) -> list[Scores]:
        """Return all columns of one metric, under their own names."""
        path = _path(metric, form, data) if self.store else None
        if path is not None and path.exists():
            kept = _read(path)
            # A process that began before the code was changed may have written fewer columns.
            if [one.name for one in kept] == [column.name for column in metric.columns]:
                return kept
        try:
            if self._parts is None or self._parts.data != data:
                self._parts = _KeptParts(data, self.store)
            table = run(samples, [metric], resamples=0, parts=self._parts)
        except CaptiousError as err:
            why = " ".join(str(err).split()).removeprefix(
                "nothing was scored, because something is missing: - "
            )
            empty = np.full(len(samples), np.nan)
            return [Scores(c.name, empty, reason=why) for c in metric.columns]
        found = []
        for column, values in table.values.items():
            sign = 1.0 if table.columns[column].higher_is_better else -1.0
            why_not = Counter(u.reason for u in table.unscored if u.column == column)
            found.append(
                Scores(
                    column,
                    sign * values,
                    table.signatures[column],
                    unscored=dict(why_not),
                    notes=table.notes,
                )
            )
        if path is not None:
            _write(path, found)
            for folder in (path.parent, path.parent / "parts"):
                _prune(folder)
        return found


# -- kept scores ------------------------------------------------ ---


def _code(metric: Metric) -> str:
    """Return a digest of the code that the scores of a metric depend on: all that it imports."""
    root = Path(captious.__file__).parent
    paths = set(_imported(type(metric).__module__))
    if root / "registry.py" in paths:  # it may run any other metric
        paths |= {
            p
            for folder in _CODE
            for p in (root / folder).rglob("*.py")
            if "train" not in p.relative_to(root).parts  # how weights were made changes no score
        }
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(paths | set(_imported("captious.engine.run"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=64)
def _imported(module: str) -> tuple[Path, ...]:
    """Return the files of captious that a module imports, wherever, and those that these import."""
    root = Path(captious.__file__).parent
    seen: set[Path] = set()
    todo = [module]
    while todo:
        parts = todo.pop().split(".")
        place = root.joinpath(*parts[1:])
        found = [p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()]
        if parts[0] != "captious" or len(parts) < 2 or not found or found[0] in seen:
            continue
        seen.add(found[0])
        for node in ast.walk(ast.parse(found[0].read_bytes())):
            if isinstance(node, ast.Import):
                todo += [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                todo += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
    return tuple(seen)


def _state(path: Path) -> list[tuple[str, int, int]]:
    """Return name, size and time of a file, or of all files of a folder."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    stats = [(p, p.stat()) for p in files]
    return [(str(p), s.st_size, s.st_mtime_ns) for p, s in stats]


def _path(metric: Metric, form: str, data: str) -> Path | None:
    """Return where scores are kept, or None where an asset is missing."""
    named: list[Any] = []
    for name in metric.assets:
        try:
            named.append((name, _state(assets.resolve(name, wanted_by=metric.name))))
        except CaptiousError:
            return None
    given = [v for v in metric.parameters().values() if isinstance(v, str) and v]
    named += [_state(Path(v)) for v in given if Path(v).exists()]
    key = json.dumps([data, form, _code(metric), named, str(settings.get().regions)])
    name = f"{metric.name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"
    return settings.get().cache_dir / "meta" / name


class _KeptParts(Parts):
    """Statistics of single metrics on one set of captions: in memory, and in the cache folder."""

    def __init__(self, data: str, store: bool) -> None:
        self.data, self.store = data, store
        self._paths: dict[Metric, Path | None] = {}
        self._known: dict[tuple[Metric, int, int], Stats] = {}

    def load(self, metric: Metric, number: int, size: int) -> Stats | None:
        """Return a batch that was kept in either place."""
        known = self._known.get((metric, number, size))
        return known if known is not None else super().load(metric, number, size)

    def save(self, metric: Metric, number: int, size: int, stats: Stats) -> None:
        """Keep a batch."""
        self._known[metric, number, size] = stats
        super().save(metric, number, size, stats)

    def path(self, metric: Metric, number: int, size: int) -> Path | None:
        """Name a batch by everything that it can depend on."""
        if metric not in self._paths:
            self._paths[metric] = (
                _path(metric, registry.text_form(metric), self.data) if self.store else None
            )
        whole = self._paths[metric]
        if whole is None:
            return None
        return whole.parent / "parts" / f"{whole.stem}-{size}-{number}.npz"


def _write(path: Path, found: list[Scores]) -> None:
    said = [[s.name, s.signature, s.unscored, s.notes] for s in found]
    with files.replacing(path, "wb") as file:
        np.savez(
            file,
            values=np.array([s.values for s in found]),
            said=np.frombuffer(json.dumps(said).encode(), np.uint8),
        )


def _prune(folder: Path) -> None:
    """Keep the newest scores only: every change of the code makes older ones useless."""
    kept = sorted(folder.glob("*.npz"), key=lambda p: p.stat().st_mtime)
    for path in kept[:-_KEPT]:
        path.unlink(missing_ok=True)


def _read(path: Path) -> list[Scores]:
    with np.load(path, allow_pickle=False) as file:
        said = json.loads(bytes(file["said"]))
        return [
            Scores(name, values, signature, unscored=unscored, notes=notes)
            for values, (name, signature, unscored, notes) in zip(file["values"], said, strict=True)
        ]


# -- a user's own function -------------------------------------- ---


def user_function(text: str) -> Callable[..., Any]:
    """Return the function that ``path.py:name`` names; the file is run, as the user asks for."""
    where, _, name = text.rpartition(":")
    path = Path(where)
    if not path.is_file():
        raise UsageError(f"there is no file {path} (from {text!r})")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be loaded as Python")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{path} has no function {name!r}")
    return function


def _call(name: str, function: Callable[..., Any], samples: CaptionSet) -> Scores:
    """Call ``f(captions, references, ...)`` once, or ``f(caption, references, ...)`` per row.

    Which of the two is told by the name of the first parameter; ``images`` or ``image``,
    ``objects`` are handed over if the function asks for them by name.
    """
    wanted = list(inspect.signature(function).parameters)
    if not wanted:
        raise UsageError(f"{name}() takes no argument; it must take captions and references")
    columns: dict[str, list[Any]] = {
        "references": samples.references(),
        "images": samples.images.tolist(),
        "objects": (
            samples.objects.tolist() if samples.objects is not None else [None] * len(samples)
        ),
    }
    one = wanted[0] in ("caption", "candidate", "prediction", "sentence", "text")
    columns["image"] = columns["images"]
    for other in ("refs", "reference", "mult_references", "targets"):
        columns[other] = columns["references"]
    unknown = [
        w
        for w in wanted[1:]
        if w not in columns
        and inspect.signature(function).parameters[w].default is inspect.Parameter.empty
    ]
    if unknown:
        raise UsageError(
            f"{name}() wants {unknown[0]!r}; captious can give: references, images, objects"
        )
    given = {w: columns[w] for w in wanted[1:] if w in columns}
    captions = samples.captions()
    if one:
        result = [
            function(c, **{k: v[i] for k, v in given.items()}) for i, c in enumerate(captions)
        ]
    else:
        result = function(captions, **given)
    try:
        values = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}() must return one number per caption") from None
    if values.shape != (len(samples),):
        raise InputError(
            f"{name}() must return one number per caption: {len(samples):,} are wanted, "
            f"its result has the shape {values.shape}"
        )
    gone = int(np.isnan(values).sum())
    return Scores(
        name,
        values,
        f"{name}|user function|captious:{__version__}",
        unscored={"the function gave NaN": gone} if gone else {},
    )
