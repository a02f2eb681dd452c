"""Train ``captious_ref`` and ``captious_free``: a sum of normal scores without negative weights.

    python -m captious.training.flagship --data DATA --regions F8K --pascal-regions P50S \
        --coco-regions COCO --store FOLDER [--names captious_ref ...] [--choose]

Every input is brought to normal scores by its quantiles in a reference distribution that mixes the
domains of ``domains.py`` in equal parts and is stored with the model. The score is the sigmoid of a
weighted sum whose weights are never negative: where an input rises, the score cannot fall.

Inputs and form are chosen on half A, leaving one whole collection out at a time: what a candidate
is worth is its worst distance to the best single input on the collection that it did not see, among
candidates that rank untouched captions above gamed ones. Equal weights and fewer inputs win ties.
``--choose`` prints that choice; without it the inputs of ``CHOSEN`` are trained and shipped.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from captious.judgements import protocols
from captious.judgements.judgement_set import JudgementSet, Pairs
from captious.learned import features
from captious.learned.composite import GUARDS
from captious.learned.model_file import Model, Scaling
from captious.meta import agreement, gaming
from captious.meta.evaluate import mean_rating
from captious.perturb.attacks import Gamed
from captious.training.composite_recipe import TARGET, ship
from captious.training.domains import (
    PLAIN,
    Places,
    attacked,
    domain,
    pair_rows,
)
from captious.training.feature_store import FeatureStore
from captious.types import Floats, Ints, Need

CIDER = "cider_d(df='coco-val')"
# What every reference says alike: the mean over references instead of the best of them.
MEAN_F, MEAN_R = "bertscore_f(pool='mean')", "bertscore_r(pool='mean')"
TEXT = ("bertscore_p", "bertscore_r", MEAN_F, CIDER)
POOLS = {
    # Without ViLBERTScore, which would need one more network (decision 9).
    "captious_ref": ("bertscore_p", "bertscore_r", MEAN_F, MEAN_R, CIDER, "fit", "scan_words"),
    "captious_ref_text": TEXT,
    "captious_free": ("fit", "scan", "scan_words", "scan_weakest"),
}  # fmt: skip
# Domains that share photographs are left out together.
COLLECTIONS = {
    "Flickr8k": ("expert", "crowd"),
    "CxC": ("cxc",),
    "PASCAL-50S": ("pascal",),
    "nocaps-FOIL": ("foils",),
    "COCO swaps": ("swaps",),
}
MOST_INPUTS = 6
REFERENCE_ROWS = 1000  # per domain
RATED_PAIRS = 12000
MARGIN = 0.5
HELD = 0.955  # share of attacks, best of three variants, that a candidate must win on half A
TIE = 0.004  # of tau: candidates nearer than this to the best are equally good
L2 = 1e-3
# Guards count below what ordinary and long captions have (decision 9).
STUMBLES_FROM = {"captious_ref": -2.0, "captious_ref_text": -2.0, "captious_free": -1.5}


@dataclass(frozen=True)
class Form:
    """How the weights are found.

    Attributes:
        equal: every input has the same weight; only the guards are fitted.
        gamed: weight of the pairs of untouched and gamed captions.
    """

    equal: bool
    gamed: float

    def __str__(self) -> str:
        return f"{'equal' if self.equal else 'fitted'} weights, gamed pairs {self.gamed:g}"


FORMS = tuple(Form(equal, gamed) for equal in (True, False) for gamed in (0.03, 0.1))


@dataclass(frozen=True, eq=False)
class Lesson:
    """Pairs of feature rows of which the first should score higher, with weights that sum to 1."""

    better: Floats
    worse: Floats
    weight: Floats


@dataclass(eq=False)
class Workshop:
    """Features of all domains, scaled by one frozen reference distribution."""

    where: Places
    store: FeatureStore
    name: str
    inputs: tuple[str, ...]
    _scaled: dict[str, Floats] = field(default_factory=dict)

    @property
    def collections(self) -> dict[str, tuple[str, ...]]:
        """Collections whose captions have everything that the inputs need."""
        looks = self.name != "captious_ref_text"
        return {k: v for k, v in COLLECTIONS.items() if not (looks and v == ("foils",))}

    @property
    def domains(self) -> list[str]:
        """Their domains."""
        return [name for names in self.collections.values() for name in names]

    def raw(self, what: str, texts: Sequence[str]) -> Floats:
        """Return raw features of a domain, of untouched captions, or of gamed ones."""
        return np.column_stack([self._column(what, text).values for text in texts])

    def identities(self, texts: Sequence[str]) -> tuple[dict[str, str], ...]:
        """Return what decides the values of the inputs."""
        return tuple(self._column("expert", text).identity for text in texts)

    def _column(self, what: str, text: str) -> Any:
        if what in PLAIN or what.removesuffix(" gamed") in PLAIN:
            plain = attacked(self.where, what.removesuffix(" gamed"))
            samples = plain.plain if what in PLAIN else plain.gamed.samples
            regions: tuple[Path, ...] | None = plain.regions
        else:
            samples, regions = domain(self.where, what).samples, domain(self.where, what).regions
        [wanted] = features.parse_inputs(text)
        looks = Need.IMAGE_REGIONS in wanted.metric.needs
        return self.store.column(what, samples, regions if looks else None, text)

    @property
    def all_inputs(self) -> tuple[str, ...]:
        """Inputs and guards."""
        return (*self.inputs, *GUARDS)

    @lru_cache(maxsize=1)  # noqa: B019 - one object per model
    def reference(self) -> Floats:
        """Return raw features of half A of every domain, equally many of each."""
        rng = np.random.default_rng(1)
        parts = []
        for name in self.domains:
            rows = np.flatnonzero(domain(self.where, name).first)
            taken = rng.choice(rows, REFERENCE_ROWS, replace=len(rows) < REFERENCE_ROWS)
            parts.append(self.raw(name, self.all_inputs)[taken])
        return np.concatenate(parts)

    @lru_cache(maxsize=1)  # noqa: B019
    def scaling(self) -> Scaling:
        """Return the frozen normal scores; guards keep their own scale, 0 for a sound caption."""
        return normal_scores(self.reference(), len(self.inputs), STUMBLES_FROM[self.name])

    def scaled(self, what: str) -> Floats:
        """Return features as the sum reads them."""
        if what not in self._scaled:
            self._scaled[what] = self.scaling()(self.raw(what, self.all_inputs))
        return self._scaled[what]


def normal_scores(
    values: Floats, ranked: int, stumbles_from: float, points: int = 33, reach: float = 6.0
) -> Scaling:
    """Return curves to normal scores for the first ``ranked`` columns, and those of the guards.

    Between the outermost quantiles a curve follows the quantiles; beyond them it goes on straight,
    with the slope of a normal distribution as wide as the middle two thirds. Guards are 0 for every
    ordinary caption: ``stumbles`` counts from ``stumbles_from`` down, ``distinct`` as -4 times the
    share of repeated words.
    """
    from scipy.stats import norm

    shares = (np.arange(points) + 0.5) / points
    heights = norm.ppf(shares)
    knots = np.quantile(values, shares, axis=0)
    wide = (np.quantile(values, 0.84, axis=0) - np.quantile(values, 0.16, axis=0)) / 2
    beyond = (reach - heights[-1]) * np.maximum(wide, 1e-6)
    knots = np.vstack([knots[0] - beyond, knots, knots[-1] + beyond])
    heights = np.concatenate([[-reach], heights, [reach]])
    for at, guard in enumerate(GUARDS):
        flat = np.maximum(heights, 0) * 1e6  # above 0 the curve of a guard is level
        below = stumbles_from + heights if guard == "stumbles" else 1 + heights / 4
        knots[:, ranked + at] = below + flat
    # np.interp wants increasing knots: equal ones (many zeros) are pulled apart by a hair.
    knots = knots + np.arange(len(heights))[:, None] * 1e-9
    count = values.shape[1]
    return Scaling(np.zeros(count), np.ones(count), knots, heights)


# -- what is learned -----------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _pairs_of(where: Places, name: str) -> tuple[Ints, Ints, Floats]:
    """Return rows of half A, better and worse, with the weight of each pair."""
    judged_domain = domain(where, name)
    if isinstance(judged_domain.judged.judged, Pairs):
        better, worse = pair_rows(judged_domain.judged)
        mine = judged_domain.first[better]
        return better[mine], worse[mine], np.ones(int(mine.sum()))
    rows, ratings = mean_rating(judged_domain.judged.judged)
    mine = judged_domain.first[rows]
    rows, ratings = rows[mine], ratings[mine]
    drawn = np.random.default_rng(2).integers(len(rows), size=(3 * RATED_PAIRS, 2))
    gap = ratings[drawn[:, 0]] - ratings[drawn[:, 1]]
    drawn, gap = drawn[gap != 0][:RATED_PAIRS], gap[gap != 0][:RATED_PAIRS]
    won = gap > 0
    first, second = rows[drawn[:, 0]], rows[drawn[:, 1]]
    return np.where(won, first, second), np.where(won, second, first), np.abs(gap)


def lesson(shop: Workshop, name: str) -> Lesson:
    """Return the pairs of half A of a domain."""
    better, worse, weight = _pairs_of(shop.where, name)
    values = shop.scaled(name)
    return Lesson(values[better], values[worse], weight / weight.sum())


def gamed_lesson(shop: Workshop) -> Lesson:
    """Return untouched captions of half A beside their gamed versions."""
    better, worse = [], []
    for name in PLAIN:
        source = attacked(shop.where, name).gamed.source
        mine = attacked(shop.where, name).first[source]
        better.append(shop.scaled(name)[source[mine]])
        worse.append(shop.scaled(f"{name} gamed")[mine])
    count = sum(map(len, better))
    return Lesson(np.concatenate(better), np.concatenate(worse), np.full(count, 1 / count))


def fitted(
    lessons: Sequence[Lesson], gamed: Lesson, columns: Ints, guards: Ints, form: Form
) -> Floats:
    """Return non-negative weights of the chosen columns and of the guards.

    The loss is the logistic one of the pairs, every domain counted alike, plus that of the gamed
    pairs, which must be ``MARGIN`` apart.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    parts = [(one.better - one.worse, one.weight / len(lessons), 0.0) for one in lessons]
    parts.append((gamed.better - gamed.worse, form.gamed * gamed.weight, MARGIN))
    kept = []
    for gap, weight, margin in parts:
        content = gap[:, columns]
        if form.equal:
            content = content.mean(axis=1, keepdims=True)
        kept.append((np.hstack([content, gap[:, guards]]), weight, margin))
    gaps = np.vstack([k[0] for k in kept])
    weights = np.concatenate([k[1] for k in kept])
    margins = np.concatenate([np.full(len(k[0]), k[2]) for k in kept])

    def loss(w: Floats) -> tuple[float, Floats]:
        z = margins - gaps @ w
        value = float(weights @ np.logaddexp(0.0, z)) + L2 / 2 * float(w @ w)
        return value, -(weights * expit(z)) @ gaps + L2 * w

    start = np.full(gaps.shape[1], 0.3)
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start))
    if form.equal:
        content = np.full(len(columns), minimum.x[0] / len(columns))
        return np.concatenate([content, minimum.x[1:]])
    return np.asarray(minimum.x)


# -- how good is it? -----------------------------------------------------------------------------


def measured(judged: JudgementSet, protocol: str, scores: Floats, keep: np.ndarray) -> float:
    """Return agreement over the rows that are kept: tau, or 2 x accuracy - 1 for pairs."""
    how = protocols.get(protocol, judged.name)
    if isinstance(judged.judged, Pairs):
        pairs = judged.judged
        mine = keep[pairs.first]
        won = agreement.credit(
            scores[pairs.first], scores[pairs.second], pairs.preference, how.ties
        )
        return 2 * float(np.nanmean(won[mine])) - 1
    ratings = judged.judged
    mine = keep[ratings.rows]
    return agreement.MEASURES[how.measure](scores[ratings.rows[mine]], ratings.values[mine])


def agreement_on(shop: Workshop, name: str, scores: Floats, first: bool) -> float:
    """Return the agreement of scores of a domain on half A or half B."""
    judged_domain = domain(shop.where, name)
    return measured(
        judged_domain.judged, judged_domain.protocol, scores, judged_domain.first == first
    )


def held(shop: Workshop, weights: Floats, columns: Ints, first: bool) -> dict[str, float]:
    """Return the share of attacks, best of three variants, that untouched captions win."""
    out = {}
    for name in PLAIN:
        attacks = attacked(shop.where, name)
        mine = (attacks.first == first)[attacks.gamed.source]
        part = Gamed(attacks.gamed.samples, attacks.gamed.source[mine], attacks.gamed.attack[mine])
        before = shop.scaled(name)[:, columns] @ weights
        after = shop.scaled(f"{name} gamed")[mine][:, columns] @ weights
        out[name] = gaming.judge("", before, after, part)[-1].held
    return out


@dataclass(frozen=True)
class Candidate:
    """A set of inputs and a form, with what leaving each collection out says of it."""

    inputs: tuple[str, ...]
    form: Form
    gaps: dict[str, float]
    held: float

    @property
    def worst(self) -> float:
        """The worst distance to the best single input on a collection that was left out."""
        return min(self.gaps.values())


def candidates(shop: Workshop, sets: Sequence[Sequence[str]] | None = None) -> list[Candidate]:
    """Measure sets of inputs (every one of up to ``MOST_INPUTS``) in every form, on half A."""
    if sets is None:
        sizes = range(1, MOST_INPUTS + 1)
        sets = [chosen for n in sizes for chosen in itertools.combinations(shop.inputs, n)]
    lessons = {name: lesson(shop, name) for name in shop.domains}
    spoilt = gamed_lesson(shop)
    guards = np.arange(len(shop.inputs), len(shop.all_inputs))
    best = {
        name: max(agreement_on(shop, name, shop.scaled(name)[:, i], True)
                  for i in range(len(shop.inputs)))
        for name in shop.domains
    }  # fmt: skip
    out = []
    for texts, form in itertools.product(sets, FORMS):
        if len(texts) == 1 and not form.equal:
            continue
        columns = np.array([shop.inputs.index(text) for text in texts])
        read = np.concatenate([columns, guards])
        gaps: dict[str, float] = {}
        wins: list[float] = []
        for collection, names in shop.collections.items():
            taught = [lessons[n] for n in shop.domains if n not in names]
            weights = fitted(taught, spoilt, columns, guards, form)
            gaps[collection] = min(
                agreement_on(shop, n, shop.scaled(n)[:, read] @ weights, True) - best[n]
                for n in names
            )
            wins += held(shop, weights, read, True).values()
        out.append(Candidate(tuple(texts), form, gaps, float(np.mean(wins))))
    return out


def best_of(found: Sequence[Candidate]) -> Candidate:
    """Return the simplest of the candidates that are as good as the best that cannot be gamed.

    Where none wins enough attacks, those that win most of the good ones come first.
    """
    safe = [c for c in found if c.held >= HELD]
    top = max(c.worst for c in safe or found)
    near = [c for c in safe or found if c.worst >= top - TIE]
    won = max(round(c.held, 3) for c in near)
    return min(
        [c for c in near if safe or round(c.held, 3) == won],
        key=lambda c: (not c.form.equal, len(c.inputs), -c.worst),
    )


# -- the models ----------------------------------------------------------------------------------


def build(shop: Workshop, form: Form, facts: dict[str, Any]) -> Model:
    """Fit on half A of every domain."""
    lessons = [lesson(shop, name) for name in shop.domains]
    columns = np.arange(len(shop.inputs))
    guards = np.arange(len(shop.inputs), len(shop.all_inputs))
    weights = fitted(lessons, gamed_lesson(shop), columns, guards, form)
    reference = shop.reference()
    middle = float(np.median(shop.scaling()(reference) @ weights))
    layer = np.column_stack([-weights / 2, weights / 2])
    bias = np.array([middle / 2, -middle / 2])
    inputs = features.parse_inputs(shop.all_inputs)
    return Model(
        inputs,
        shop.identities(shop.all_inputs),
        shop.scaling(),
        ((layer, bias),),
        reference.mean(axis=0),
        {"name": shop.name, "objective": "rank",
         "options": {"form": str(form), "l2": L2, "seed": 1},
         "weights": {i.text: round(float(w), 3) for i, w in zip(inputs, weights, strict=True)},
         **facts},
    )  # fmt: skip


def quality(shop: Workshop, model: Model) -> dict[str, Any]:
    """Measure on half B, beside half A, and under attack."""
    weights = model.weights
    every = np.arange(len(weights))
    out: dict[str, Any] = {}
    for name in shop.domains:
        scores = shop.scaled(name) @ weights
        out[name] = {
            f"half {letter}": round(agreement_on(shop, name, scores, letter == "A"), 4)
            for letter in "AB"
        }
    out["untouched above gamed, best of 3 variants, half B"] = {
        name: round(100 * share, 1) for name, share in held(shop, weights, every, False).items()
    }
    return out


CHOSEN = {
    "captious_ref": (
        ("bertscore_p", "bertscore_r", MEAN_F, MEAN_R, "fit", "scan_words"),
        Form(equal=True, gamed=0.1),
    ),
    "captious_ref_text": (("bertscore_p", "bertscore_r", MEAN_F), Form(equal=True, gamed=0.1)),
    "captious_free": (("fit", "scan_words", "scan_weakest"), Form(equal=True, gamed=0.03)),
}


def main() -> None:
    """Choose or train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("data", "store"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("regions", "pascal-regions", "coco-regions"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True)
    parser.add_argument("--names", nargs="+", default=list(POOLS), choices=list(POOLS))
    parser.add_argument("--choose", action="store_true")
    args = parser.parse_args()
    where = Places(
        args.data, *(tuple(p) for p in (args.regions, args.pascal_regions, args.coco_regions))
    )
    store = FeatureStore(args.store)
    for name in args.names:
        if args.choose:
            choose(Workshop(where, store, name, POOLS[name]))
            continue
        texts, form = CHOSEN[name]
        shop = Workshop(where, store, name, texts)
        facts = {"data": {"domains": shop.domains, "photographs": "half A of every domain"}}
        model = build(shop, form, facts)
        model.facts["quality"] = quality(shop, model)
        ship(model, TARGET / name)


def choose(shop: Workshop) -> None:
    """Print the best candidates and the one that the rule takes."""
    compared = candidates(shop)
    ordered = sorted(
        compared, key=lambda c: -min(c.worst, c.held - 1 if c.held < HELD else c.worst)
    )
    for candidate in [*ordered[:12], best_of(compared)]:
        gaps = ", ".join(f"{k} {v:+.4f}" for k, v in candidate.gaps.items())
        print(f"{shop.name}: worst {candidate.worst:+.4f}, held {100 * candidate.held:.1f}: "
              f"{candidate.form}: {' + '.join(candidate.inputs)} ({gaps})", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
