"""Robustness: does a metric notice when one thing in a correct caption is spoilt?

A caption that a person wrote is scored against the other captions of its image, untouched and with
one change of a given kind (:mod:`captious.perturb.edits`). A good metric gives the untouched one
the higher score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from captious.errors import InputError
from captious.meta.scoring import Scorer
from captious.perturb.edits import KINDS, change_all
from captious.types import CaptionSet, Floats


@dataclass(frozen=True)
class Probe:
    """Outcome of one kind of change for one metric.

    Attributes:
        metric: column name.
        kind: the change.
        accuracy: share of captions whose untouched form scores higher (ties count half).
        fall: mean loss of score, in standard deviations of the metric's scores.
        n: captions that the change applies to and that were scored.
    """

    metric: str
    kind: str
    accuracy: float
    fall: float
    n: int


def probe(samples: CaptionSet, scorer: Scorer, seed: int = 12345) -> list[Probe]:
    """Spoil every caption in every way that applies and compare the scores.

    Args:
        samples: correct captions with references that do not hold them.
        scorer: the metrics.
        seed: of the choice of words.
    """
    changed = change_all(samples.captions(), seed)
    rows = [(kind, i) for kind, texts in changed.items() for i, t in enumerate(texts) if t]
    if not rows:
        raise InputError("no caption holds a word that the probes can change")
    count = len(samples)
    references = samples.references()
    everything = CaptionSet.build(
        samples.captions() + [str(changed[k][i]) for k, i in rows],
        references + [references[i] for _, i in rows],
        ids=[str(x) for x in samples.ids] + [f"{samples.ids[i]}|{k}" for k, i in rows],
        images=[*samples.images, *(samples.images[i] for _, i in rows)],
        objects=None
        if samples.objects is None
        else [*samples.objects, *(samples.objects[i] for _, i in rows)],
    )
    at = np.array([i for _, i in rows])
    kinds = np.array([k for k, _ in rows])
    out = []
    for name, scores in scorer(everything).items():
        if scores.reason:
            continue
        before, after = scores.values[:count], scores.values[count:]
        spread = float(np.nanstd(before)) or 1.0
        for kind in KINDS:
            gap: Floats = (before[at] - after)[kinds == kind]
            gap = gap[~np.isnan(gap)]
            if len(gap):
                right = (gap > 0).mean() + (gap == 0).mean() / 2
                out.append(Probe(name, kind, float(right), float(gap.mean() / spread), len(gap)))
    return out
