"""Learned composites: one score from the scores of several metrics.

Sharif et al. 2018 train a small feed-forward network to tell human from machine captions by their
METEOR, CIDEr, WMD and SPICE scores; the probability of "human" is the score. Names say which
features are read: ``eval_ms`` is METEOR and SPICE, ``eval_mwcs`` all four. CIDEr takes the document
frequencies of COCO val2014 and is divided by 10, WMD is exp(-distance): a score does not depend on
the other captions of the run.

    f = (METEOR, WMD, CIDEr/10, SPICE)
    score = softmax(W3 relu(W2 relu(W1 f + b1) + b2) + b3)[human]

Worked example: outputs of 0.2 for machine and 1.2 for human differ by 1, so the score is
1 / (1 + e^-1) = 0.731.

``eval_ms`` and its five siblings are the paper's models: its features, two hidden layers of 72 ReLU
units. Nothing makes such a network monotone: the score may fall when an input rises. They can be
gamed (shuffled or repeated words succeed in a quarter to a third of the attempts); where somebody
could tune captions against the score, ``eval_ms(guard=True)`` is another model that also reads how
fluent the caption is (``stumbles``) and whether it repeats itself (``distinct``). It is a sum of
normal scores without negative weights, so that no input lowers the score by rising, and was not
trained to tell machine captions apart: its score is not the probability that a person wrote the
caption.

Known deviations of the paper's models: the paper trains on Flickr30k with three captioners that are
not available; ours are trained on COCO val2014 with seven captioners, with captions of other images
and gamed captions as further negatives (see docs/results-composites.md for why). When to stop was
chosen on half of the photographs of Flickr8k-Expert. Word vectors are GloVe, not word2vec.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from captious import assets
from captious.errors import CaptiousError, InputError, MissingAsset
from captious.learned import contributions, model_file
from captious.learned.features import identity, metrics_of, needs_of
from captious.learned.model_file import Model
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.types import CaptionSet, Contribution, Contributions, Evidence, Floats, Sample

SHIPPED = "composites"
_LOST = re.compile("cut to|longer than")  # remarks about text that an input did not read
GUARDS = ("stumbles", "distinct")  # what guarded models read besides


def _column(name: str, meaning: str) -> tuple[Column, ...]:
    return (Column(name, 0.0, 1.0, meaning, undefined="one of its inputs is undefined"),)


@dataclass(frozen=True)
class _Composite(Metric):
    """What all composites share; a subclass says which file it reads."""

    learned: ClassVar[bool] = True
    empty: ClassVar[float] = float("nan")  # the network's answer to the features of nothing
    features: ClassVar[tuple[str, ...]] = ()  # input columns that the file must have, if fixed

    def _file(self) -> str:
        """Name the shipped model, or the folder of another."""
        raise TypeError(f"{type(self).__name__} must say which model it reads")

    def open(self) -> Model:
        """Open the model file.

        Raises:
            InputError: it reads other features than this composite does.
        """
        name = self._file()
        shipped = assets.resolve(SHIPPED, wanted_by=self.name) / name
        path = shipped if shipped.is_dir() else Path(name)
        model = model_file.load(path)
        have = tuple(i.text for i in model.inputs)
        wanted = self._wanted()
        if wanted and have != wanted:
            raise InputError(
                f"{path}: this model reads {', '.join(have)}; {self.name} reads "
                f"{', '.join(wanted)}. Use it as composite(model='{path}')"
            )
        return model

    def _wanted(self) -> tuple[str, ...]:
        return self.features

    @property
    def assets(self) -> tuple[str, ...]:
        """The shipped models, and what the inputs read."""
        return (SHIPPED, *dict.fromkeys(a for m in self._known() for a in m.assets))

    def _known(self) -> tuple[Metric, ...]:
        """Return the inputs, or none where there is no model; `missing` says so then."""
        try:
            return self.inputs
        except MissingAsset:
            return ()

    @property
    def inputs(self) -> tuple[Metric, ...]:
        """The metrics behind the features."""
        return metrics_of(self.open().inputs)

    def missing(self) -> list[CaptiousError]:
        """Name everything that the inputs lack."""
        try:
            inputs = self.inputs
        except MissingAsset as err:
            return [err]
        # The inputs know which packages they need; `modules` names those of the default model.
        own = [err for err in Metric.missing(self) if isinstance(err, MissingAsset)]
        problems = [*own, *(err for metric in inputs for err in metric.missing())]
        return list({str(err): err for err in problems}.values())

    def combine(self, parts: Sequence[Stats], contexts: Sequence[Any], evidence: Evidence) -> Stats:
        """Return the score of each caption from the inputs' statistics."""
        model = self._checked(contexts, evidence)
        raw, place = self._features(model, parts), {m: i for i, m in enumerate(self.inputs)}
        rows = np.full((len(raw), 1), np.nan)
        known = np.isfinite(raw).all(axis=1)
        if known.any():
            rows[known, 0] = model.scores(raw[known])
        reasons = {}
        for row in np.flatnonzero(~known):
            at = int(np.flatnonzero(~np.isfinite(raw[row]))[0])
            model_input = model.inputs[at]
            why = parts[place[model_input.metric]].reasons.get(
                int(row), model_input.metric.columns[model_input.index].undefined
            )
            reasons[int(row)] = f"its input {model_input.text} has no value: {why}"
        notes = {
            f"{metric.name}: {text}": count
            for metric, part in zip(self.inputs, parts, strict=True)
            for text, count in part.notes.items()
            if _LOST.search(text)
        }
        return Stats(rows, reasons, notes)

    def _features(self, model: Model, parts: Sequence[Stats]) -> Floats:
        metrics = self.inputs
        scores = {m: m.scores(p.rows) for m, p in zip(metrics, parts, strict=True)}
        return np.column_stack([scores[i.metric][:, i.index] for i in model.inputs])

    def _checked(self, contexts: Sequence[Any], evidence: Evidence) -> Model:
        """Return the model once its inputs are those that it was trained on."""
        model = self.open()
        pairs = zip(self.inputs, contexts, strict=True)
        identities = {metric: identity(metric, context, evidence) for metric, context in pairs}
        differ = model.differences([identities[i.metric] for i in model.inputs])
        if differ:
            raise InputError(
                [f"{self.name} was trained on other features: {d}" for d in differ]
                + ["train it again with `captious train composite`, or restore those inputs"]
            )
        return model

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the model file and its inputs."""
        model = self.open()
        texts = "+".join(i.text.replace("|", "/") for i in model.inputs)
        return {"model": f"{Path(self._file()).name}@{model.sha}", "inputs": texts}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Say what each feature added to the score, against the mean training caption."""
        caption_set = CaptionSet.of([sample])
        model = self._checked(context, sample.evidence)
        parts = [m.stats(caption_set, c) for m, c in zip(self.inputs, context, strict=True)]
        raw = self._features(model, parts)
        if not np.isfinite(raw).all():
            why = next(iter(self.combine(parts, context, sample.evidence).reasons.values()))
            return Explanation(f"Cannot be scored: {why}.", {"score": None, "reason": why})
        score = float(model.scores(raw)[0])
        base = float(model.scores(model.baseline[None])[0])
        shares = contributions.shapley(model.scores, raw[0], model.baseline)
        rows: list[dict[str, Any]] = [
            {"input": i.text, "value": float(v), "mean": float(m), "contribution": float(s)}
            for i, v, m, s in zip(model.inputs, raw[0], model.baseline, shares, strict=True)
        ]
        if model.linear:
            exact = contributions.log_odds_parts(model, raw[0])
            for row, part in zip(rows, exact, strict=True):
                row["log_odds"] = float(part)
        items = tuple(
            Contribution(r["input"], r["value"], r["mean"], r["contribution"]) for r in rows
        )
        lines = [
            f"{self.name} {score:.4f} = {base:.4f} (an average caption of the training set) "
            "plus what each input adds:"
        ]
        lines += [
            f"  {r['contribution']:+.4f}  {r['input']} = {r['value']:.4f} (average {r['mean']:.4f})"
            for r in rows
        ]
        return Explanation(
            "\n".join(lines),
            {"score": score, "baseline": base, "contributions": rows, "model": model.sha},
            (Contributions(f"{self.name} {score:.3f}", score, base, items),),
        )


_METEOR, _WMD, _CIDER, _SPICE = "meteor", "wmd", "cider(df='coco-val')", "spice"


@dataclass(frozen=True)
class _Eval(_Composite):
    """A composite of the paper.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    guard: bool = False
    model: str | None = None

    def _file(self) -> str:
        return self.model or (f"{self.name}_guard" if self.guard else self.name)

    def _wanted(self) -> tuple[str, ...]:
        return (*self.features, *GUARDS) if self.guard else self.features


_HUMAN = "probability that a person wrote it for this image, from"


@dataclass(frozen=True)
class EvalMs(_Eval):
    """Eval_MS: learned from METEOR and SPICE.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    name: ClassVar[str] = "eval_ms"
    columns: ClassVar[tuple[Column, ...]] = _column("eval_ms", f"{_HUMAN} METEOR, SPICE")
    features: ClassVar[tuple[str, ...]] = (_METEOR, _SPICE)


@dataclass(frozen=True)
class EvalCs(_Eval):
    """Eval_CS: learned from CIDEr and SPICE.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    name: ClassVar[str] = "eval_cs"
    columns: ClassVar[tuple[Column, ...]] = _column("eval_cs", f"{_HUMAN} CIDEr, SPICE")
    features: ClassVar[tuple[str, ...]] = (_CIDER, _SPICE)


@dataclass(frozen=True)
class EvalMcs(_Eval):
    """Eval_MCS: learned from METEOR, CIDEr and SPICE.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    name: ClassVar[str] = "eval_mcs"
    columns: ClassVar[tuple[Column, ...]] = _column("eval_mcs", f"{_HUMAN} METEOR, CIDEr, SPICE")
    features: ClassVar[tuple[str, ...]] = (_METEOR, _CIDER, _SPICE)


@dataclass(frozen=True)
class EvalWcs(_Eval):
    """Eval_WCS: learned from WMD, CIDEr and SPICE.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    name: ClassVar[str] = "eval_wcs"
    columns: ClassVar[tuple[Column, ...]] = _column("eval_wcs", f"{_HUMAN} WMD, CIDEr, SPICE")
    features: ClassVar[tuple[str, ...]] = (_WMD, _CIDER, _SPICE)


@dataclass(frozen=True)
class EvalMws(_Eval):
    """Eval_MWS: learned from METEOR, WMD and SPICE.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    name: ClassVar[str] = "eval_mws"
    columns: ClassVar[tuple[Column, ...]] = _column("eval_mws", f"{_HUMAN} METEOR, WMD, SPICE")
    features: ClassVar[tuple[str, ...]] = (_METEOR, _WMD, _SPICE)


@dataclass(frozen=True)
class EvalMwcs(_Eval):
    """Eval_MWCS: learned from METEOR, WMD, CIDEr and SPICE.

    Args:
        guard: False = the paper's model; True = another model that also reads fluency and
            repetition of the caption and is harder to game.
        model: folder of another model with the same features (``captious train composite``).
    """

    name: ClassVar[str] = "eval_mwcs"
    columns: ClassVar[tuple[Column, ...]] = _column(
        "eval_mwcs", f"{_HUMAN} METEOR, WMD, CIDEr, SPICE"
    )
    features: ClassVar[tuple[str, ...]] = (_METEOR, _WMD, _CIDER, _SPICE)


for _one in (EvalMs, EvalCs, EvalMcs, EvalWcs, EvalMws, EvalMwcs):
    _one.modules = {
        module: extra
        for text, module, extra in (
            (_METEOR, "numba", "meteor"),
            (_WMD, "ot", "vectors"),
            (_SPICE, "spacy", "spice"),
        )
        if text in _one.features
    }


@dataclass(frozen=True)
class Composite(_Composite):
    """A composite of your own: any features, trained by ``captious train composite``.

    Args:
        model: its folder, or the name of a shipped one; the default is that of ``eval_mwcs``.
    """

    model: str = "eval_mwcs"

    name: ClassVar[str] = "composite"
    columns: ClassVar[tuple[Column, ...]] = _column("composite", "score of a model of your own")

    def _file(self) -> str:
        return self.model

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """What the inputs of the model need."""
        return needs_of(self._known())
