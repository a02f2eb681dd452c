"""The contract of a metric.

A metric is a frozen dataclass: its fields are its parameters, so that its text form
(``cider_d(df='coco-val')``), its signature and its equality come for nothing. It turns samples
into *statistics* (a row of numbers per sample), and statistics into values. Corpus values are a
function of the **sum** of the rows, which gives bootstrap intervals, paired tests and sharding to
every metric alike.

A metric that is a plain mean overrides only :meth:`Metric.stats`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from captious import assets, errors
from captious._version import __version__
from captious.types import (
    CaptionSet,
    Column,
    Evidence,
    Explanation,
    Floats,
    Need,
    Sample,
    Stats,
)

__all__ = ["Column", "Explanation", "Metric", "Need", "Stats"]


@dataclass(frozen=True)
class Metric:
    """Base of all metrics; see the module's docstring.

    Class attributes:
        name: the registered name.
        needs: what each sample must carry.
        columns: the values it gives.
        modules: import name -> the extra that brings it.
        identity: value that a caption equal to its only reference gets, or None if none is fixed.
        empty: value of an empty caption in the first column (NaN = undefined).
        without_image: the spec to ask for where captions have no image, if there is one.
        batch: rows that it takes at once; costly metrics take fewer, so that less is lost if a
            run is killed.
        learned: whether it is a composite that was trained over other metrics.
        reads_captions: whether ``prepare`` reads the captions of the run, not references alone.
        renamed: old name of a parameter -> its name today; old names are still understood.
        data: what its data card says beyond named assets: what is read, and traps.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES})
    columns: ClassVar[tuple[Column, ...]] = ()
    modules: ClassVar[dict[str, str]] = {}
    identity: ClassVar[float | None] = None
    empty: ClassVar[float] = 0.0
    without_image: ClassVar[str] = ""
    batch: ClassVar[int] = 50_000
    learned: ClassVar[bool] = False
    reads_captions: ClassVar[bool] = False
    renamed: ClassVar[dict[str, str]] = {}
    data: ClassVar[tuple[str, ...]] = ()

    # -- what it takes ---------------------------------------------------------------------

    @property
    def assets(self) -> tuple[str, ...]:
        """Names of the outside resources that this parameterisation reads."""
        return ()

    @property
    def region_kind(self) -> str:
        """The kind of region features that this parameterisation reads ("" = none)."""
        return ""

    def data_card(self) -> list[str]:
        """Return what is read beside captions: what it is, its licence, where it comes from."""
        known = assets.known()
        lines = [
            f"`{name}`: {known[name].purpose}. Licence: {known[name].licence}. From: "
            f"{known[name].source or 'part of captious'}."
            for name in self.assets
        ]
        return [*lines, *self.data]

    def missing(self) -> list[errors.CaptiousError]:
        """Return every package and resource that is not here, as errors with their remedy."""
        lacking: list[errors.CaptiousError] = [
            errors.MissingExtra(module, extra, self.name)
            for module, extra in self.modules.items()
            if find_spec(module) is None
        ]
        for name in self.assets:
            try:
                assets.resolve(name, wanted_by=self.name)
            except errors.MissingAsset as err:
                lacking.append(err)
        return lacking

    # -- from samples to statistics --------------------------------------------------------

    def prepare(self, samples: CaptionSet) -> Any:
        """Return corpus facts (document frequencies, idf), or None if there are none."""
        if self.inputs:
            return tuple(metric.prepare(samples) for metric in self.inputs)
        return None

    @property
    def counts_run(self) -> bool:
        """Whether the corpus facts are counted on the run: numbers depend on what else is in it."""
        if type(self).prepare is Metric.prepare:
            return False
        return self.reads_captions or getattr(self, "df", "corpus") == "corpus"

    def merge(self, a: Any, b: Any) -> Any:
        """Join the corpus facts of two shards; commutative and associative."""
        if self.inputs:
            return tuple(m.merge(x, y) for m, x, y in zip(self.inputs, a, b, strict=True))
        return a if b is None else b

    def seal(self, context: Any) -> Any:
        """Drop what only a merge of shards that share images needs; the engine cuts by image."""
        if self.inputs:
            return tuple(m.seal(c) for m, c in zip(self.inputs, context, strict=True))
        return context

    def freeze(self, context: Any) -> Any:
        """Drop what only further merging needs; the result is what every worker gets."""
        if self.inputs:
            return tuple(m.freeze(c) for m, c in zip(self.inputs, context, strict=True))
        return context

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return one row of statistics per sample."""
        if self.inputs:
            parts = [m.stats(samples, c) for m, c in zip(self.inputs, context, strict=True)]
            return self.combine(parts, context, samples.evidence)
        raise TypeError(f"{type(self).__name__} must override stats()")

    def context_digest(self, context: Any) -> str | None:
        """Return a hash of the corpus facts; None where they do not tell (no result is kept)."""
        if context is None:
            return ""
        if self.inputs:
            pairs = zip(self.inputs, context, strict=True)
            parts = [metric.context_digest(part) for metric, part in pairs]
            return None if None in parts else "|".join(map(str, parts))
        return getattr(context, "digest", None)

    # -- a metric made of other metrics --------------------------------------------------------

    @property
    def inputs(self) -> tuple[Metric, ...]:
        """Metrics that this one is computed from; the engine runs each of them once."""
        return ()

    def combine(self, parts: Sequence[Stats], contexts: Sequence[Any], evidence: Evidence) -> Stats:
        """Return the statistics from those of :attr:`inputs`, all of the same samples."""
        raise TypeError(f"{type(self).__name__} names inputs: it must override combine()")

    # -- from statistics to values ---------------------------------------------------------

    def scores(self, rows: Floats) -> Floats:
        """Return (n, columns) values of single captions."""
        return rows

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Return (..., columns) corpus values from summed rows; the default is the mean."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return totals / np.asarray(counts)[..., None]

    def aggregate(self, rows: Floats) -> Floats:
        """Return the corpus values of these rows; rows that could not be scored are left out."""
        scored = rows[~np.isnan(rows).any(axis=1)]
        if not len(scored):
            return np.full(len(self.columns), np.nan)
        return self.corpus(scored.sum(axis=0), np.array(float(len(scored))))

    # -- saying what was done ----------------------------------------------------------------

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Say what matched what in one sample."""
        raise errors.UsageError(f"the metric {self.name!r} has no explanation yet")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of this metric by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def is_default(self, parameter: str) -> bool:
        """Tell whether a parameter has its default value."""
        defaults = {f.name: f.default for f in fields(self)}
        return parameter in defaults and getattr(self, parameter) == defaults[parameter]

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Return what the signature must say beyond name, references and parameters."""
        return {}

    def evidence_parts(self, evidence: Evidence) -> dict[str, str]:
        """Return what the signature must say of the evidence that is read."""
        parts = {}
        if Need.IMAGE_OBJECTS in self.needs:
            parts["objects"] = "none" if evidence.labels is None else evidence.labels.source
        if Need.IMAGE_REGIONS in self.needs:
            # A metric made of others names what its inputs read: they may read several kinds.
            looking = [m for m in self.inputs if Need.IMAGE_REGIONS in m.needs] or [self]
            stores = [evidence.regions_like(metric.region_kind) for metric in looking]
            sources = dict.fromkeys(store.source for store in stores if store is not None)
            parts["features"] = " and ".join(sources) or "none"
        return parts

    def signature(self, refs: str, context: Any, evidence: Evidence | None = None) -> str:
        """Return the text that has to stand beside every number of this metric.

        Args:
            refs: how many references the captions have.
            context: the corpus facts that were used.
            evidence: what is known of the images.
        """
        parts = {"refs": refs} if Need.REFERENCES in self.needs else {}
        parts |= self.evidence_parts(evidence or Evidence())
        # A parameter may ask for evidence (objects=True): then the evidence stands in its place.
        parts |= {k: _plain(v) for k, v in self.parameters().items() if k not in parts}
        parts |= self.signature_parts(context)
        parts["captious"] = __version__
        return "|".join([self.name, *(f"{k}:{v}" for k, v in parts.items())])


# What ends a part, a line, and what begins an escape: two values never read the same.
_ESCAPED = {ord(sign): f"%{ord(sign):02X}" for sign in "%|\n\r\u2028\u2029"}


def _plain(value: Any) -> str:
    """Write a parameter value so that a signature stays one readable line.

    Example:
        >>> _plain(0.1), _plain(0.1 + 1e-9), _plain("a|b"), _plain(True)
        ('0.1', '0.100000001', 'a%7Cb', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value or value != value else repr(value)
    return "none" if value is None else str(value).translate(_ESCAPED)
