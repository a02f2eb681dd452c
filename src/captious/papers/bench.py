"""What the tables and figures of one session share: sets, labels, metrics and results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from captious.errors import InputError
from captious.judgements import labels, protocols, sets
from captious.judgements.judgement_set import JudgementSet
from captious.judgements.labels import DETECTOR, GOLD, Source
from captious.meta.evaluate import Evaluation, Result, evaluate
from captious.meta.scoring import Scorer
from captious.meta.tables import short
from captious.statistics.bootstrap import SEED
from captious.types import CaptionSet, Floats

SKIPPED = "left out with --skip"


@dataclass
class Bench:
    """The judgement sets, metrics and results that the tables of one session share.

    Attributes:
        root: folder of the judgement sets.
        objects: named files of object labels.
        extras: whether registered metrics that a paper does not have join its tables.
        resamples: bootstrap draws.
        store: whether scores are kept in the cache folder.
        skip: metrics to leave out (``vilbertscore``), or on one set (``vilbertscore@flickr8k-cf``).
        regions: region features of judged photographs, used for the sets that they are of.
        profile: the profile of the paper's own metrics; empty for the one of its text.
        metrics: what figures about any metric are made of; empty for all that can run.
        pairs: replaced words of a kind that TIGEr's Figure 7 draws.
        wordnet: whether WordNet adds synonyms to the words of that figure.
        vectors: further word vectors that VIFIDEL is tried with (section 4.5).
    """

    root: Path
    objects: tuple[Source, ...] = ()
    extras: bool = True
    resamples: int = 1000
    store: bool = True
    skip: tuple[str, ...] = ()
    regions: Path | None = None
    profile: str = ""
    metrics: tuple[str, ...] = ()
    pairs: int = 300
    wordnet: bool = False
    vectors: tuple[str, ...] = ()
    _sets: dict[tuple[str, str, bool], JudgementSet] = field(default_factory=dict)
    _results: dict[tuple[str, str, str], Evaluation] = field(default_factory=dict)
    _scorers: dict[str, Scorer] = field(default_factory=dict)

    def fresh(self) -> Bench:
        """Return the same bench with nothing read or computed, for another process."""
        return replace(self, _sets={}, _results={}, _scorers={})

    def keep(
        self,
        spec: str,
        protocol: str,
        objects: str,
        results: tuple[Result, ...],
        scores: dict[str, Floats],
    ) -> None:
        """Take an evaluation that another process made."""
        chosen = protocols.get(protocol)
        judged = protocols.selected(self.judged(chosen.set, objects), chosen)
        self._results[spec, protocol, objects] = Evaluation(
            judged, chosen, results, scores, SEED, self.resamples
        )

    def results(self) -> dict[tuple[str, str, str], Evaluation]:
        """Return all evaluations so far, by metric, protocol and source of labels."""
        return dict(self._results)

    def skipped(self, spec: str, set_name: str) -> bool:
        """Say whether a metric was asked to be left out."""
        name = spec.partition("(")[0]
        return name in self.skip or f"{name}@{set_name}" in self.skip

    def judged(self, name: str, objects: str = "", counts: bool = False) -> JudgementSet:
        """Return a judgement set, read once, with the object labels of the named sources.

        Raises:
            InputError: files of the set, or labels of these sources, are not there.
        """
        key = (name, objects, counts)
        if key not in self._sets:
            raw = self._raw(name)
            self._sets[key] = (
                labels.labelled(raw, self._sources(objects), counts)
                if objects
                else self._given(raw)
            )
        return self._sets[key]

    def _raw(self, name: str) -> JudgementSet:
        """Return a set with the labels that it brings itself: these are its gold ones."""
        key = (name, GOLD + " only", False)
        if key not in self._sets:
            self._sets[key] = sets.load_ratings(name, self.root)
        return self._sets[key]

    def _given(self, judged: JudgementSet) -> JudgementSet:
        """Give a set without labels of its own those that the user named, where they fit."""
        files = tuple(s for s in self.objects if s.path is not None)
        if judged.samples.objects is not None or not files:
            return judged
        try:
            return labels.labelled(judged, files)
        except InputError:  # the files are of other images: this set stays as it is
            return judged

    def _sources(self, objects: str) -> tuple[Source, ...]:
        """Return the sources of a row: ``gold+D500``."""
        named = {s.name.lower(): s for s in self.objects}
        sources = []
        for name in objects.split("+"):
            if name.lower() in named:
                sources.append(named[name.lower()])
            elif name in (GOLD, DETECTOR):
                sources.append(Source(name))
            else:
                raise InputError(f"labels called {name} are needed: --objects {name}=FILE")
        return tuple(sources)

    def has(self, objects: str) -> bool:
        """Say whether the user named all sources of a row (gold and the detector need no file)."""
        try:
            self._sources(objects)
        except InputError:
            return False
        return True

    def scorer(self, spec: str) -> Scorer:
        """Return the scorer of one metric, made once."""
        if spec not in self._scorers:
            self._scorers[spec] = Scorer(
                [spec], store=self.store, regions=self.regions, several_sets=True
            )
        return self._scorers[spec]

    def result(self, spec: str, protocol: str, objects: str = "") -> Evaluation:
        """Return the evaluation of one metric under a protocol, computed once."""
        key = (spec, protocol, objects)
        if key not in self._results:
            chosen = protocols.get(protocol)
            if self.skipped(spec, chosen.set):
                return self._left_out(spec, chosen)
            counts = "+" in objects and "counts=True" in spec
            self._results[key] = evaluate(
                self.judged(chosen.set, objects, counts),
                chosen,
                self.scorer(spec),
                resamples=self.resamples,
            )
        return self._results[key]

    def _left_out(self, spec: str, protocol: protocols.Protocol) -> Evaluation:
        names = [n for *_, columns in self.scorer(spec).steps for n in columns]
        empty = tuple(Result(n, float("nan"), reason=SKIPPED) for n in names)
        return Evaluation(self.judged(protocol.set), protocol, empty, {}, 0, self.resamples)

    def columns(
        self, specs: Iterable[str], samples: CaptionSet, why: dict[str, str]
    ) -> dict[str, Floats]:
        """Return the scores of several metrics; what has none is noted in ``why``."""
        scored: dict[str, Floats] = {}
        for spec in specs:
            for name, scores in self.scorer(spec)(samples).items():
                if scores.reason or np.isnan(scores.values).all():
                    why[name] = short(scores.reason or next(iter(scores.unscored), "no score"))
                else:
                    scored[name] = scores.values
        return scored

    def together(self, specs: Iterable[str], protocol: str) -> Evaluation:
        """Return one evaluation of several metrics, from the single ones."""
        parts = [self.result(s, protocol) for s in specs]
        first = parts[0]
        return Evaluation(
            first.judged,
            first.protocol,
            tuple(r for p in parts for r in p.results),
            {k: v for p in parts for k, v in p.scores.items()},
            first.seed,
            first.resamples,
        )


def lacking_files(err: InputError, set_name: str) -> str:
    """Say which files of a set are missing, in one line; other problems as they are."""
    lines = str(err).splitlines()
    absent = [line for line in lines if line.rstrip().endswith("was not found")]
    if not absent:
        return short(lines[0], 200)
    return f"the files of {set_name} are not here (`captious data {set_name}` names them)"
