"""How far can a metric be fooled? Scores of untouched captions beside those of gamed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from captious.engine.run import run
from captious.metrics.base import Metric
from captious.perturb.attacks import ATTACKS, Gamed, gamed
from captious.types import CaptionSet, Floats


@dataclass(frozen=True)
class Fooled:
    """What one attack does to one column.

    Attributes:
        column: of the metric.
        attack: its name.
        captions: how many were attacked.
        held: share whose untouched version scores above every variant (a tie is a loss).
        held_one: the same for a single variant, not the best of several.
        gain: mean score of the best variant minus the untouched score, over the mean untouched
            score's spread (standard deviation); above 0 the attack pays.
    """

    column: str
    attack: str
    captions: int
    held: float
    held_one: float
    gain: float


def judge(column: str, plain: Floats, spoilt: Floats, made: Gamed) -> list[Fooled]:
    """Compare scores of untouched and gamed captions, per attack and over all."""
    spread = float(np.nanstd(plain)) or 1.0
    out = []
    won: list[Floats] = []
    won_one: list[Floats] = []
    gains: list[Floats] = []
    for attack in dict.fromkeys(made.attack.tolist()):
        mine = made.attack == attack
        rows, values = made.source[mine], spoilt[mine]
        known = np.isfinite(values) & np.isfinite(plain[rows])
        rows, values = rows[known], values[known]
        if not len(rows):
            continue
        best = np.full(len(plain), -np.inf)
        np.maximum.at(best, rows, values)
        rated = np.unique(rows)
        won.append((plain[rated] > best[rated]).astype(float))
        won_one.append((plain[rows] > values).astype(float))
        gains.append((best[rated] - plain[rated]) / spread)
        out.append(Fooled(column, attack, len(rated), float(won[-1].mean()),
                          float(won_one[-1].mean()), float(gains[-1].mean())))  # fmt: skip
    if out:
        joined = [np.concatenate(part) for part in (won, won_one, gains)]
        out.append(Fooled(column, "all", len(joined[0]), *(float(j.mean()) for j in joined)))
    return out


def probe(
    samples: CaptionSet,
    metrics: str | Sequence[str | Metric],
    *,
    attacks: Sequence[str] = tuple(ATTACKS),
    variants: int = 3,
    seed: int = 0,
) -> list[Fooled]:
    """Attack every caption and report how far each column of the metrics is fooled."""
    made = gamed(samples, attacks=attacks, variants=variants, seed=seed)
    plain = run(samples, metrics, resamples=0)
    spoilt = run(made.samples, metrics, resamples=0)
    out: list[Fooled] = []
    for column, values in plain.values.items():
        sign = 1.0 if plain.columns[column].higher_is_better else -1.0
        out += judge(column, sign * values, sign * spoilt.values[column], made)
    return out
