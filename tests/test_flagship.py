"""How ``captious_ref`` and ``captious_free`` are trained and chosen; what they say of the demo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from captious import demo, load
from captious.engine.run import run
from captious.metrics.bleu import Bleu
from captious.training import flagship
from captious.training.domains import coco_first_half, first_half
from captious.training.feature_store import FeatureStore
from captious.training.flagship import Candidate, Form, Lesson
from captious.types import CaptionSet

RICH = Path(__file__).parent / "rich_captions.json"


def lessons(weights, count=400, noise=0.1, seed=0):
    """Pairs whose first row is better by a weighted sum of the columns."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2, count, len(weights)))
    worth = rows @ np.array(weights) + rng.normal(size=(2, count)) * noise
    won = worth[0] > worth[1]
    better = np.where(won[:, None], rows[0], rows[1])
    worse = np.where(won[:, None], rows[1], rows[0])
    return Lesson(better, worse, np.full(count, 1 / count))


def test_weights_are_found_and_never_negative():
    """The third column speaks against the caption in one domain: it is left out, not turned."""
    taught = [lessons([2.0, 1.0, -1.0, 0.0]), lessons([2.0, 1.0, -1.0, 0.0], seed=1)]
    guards = lessons([0.0, 0.0, 0.0, 1.0], seed=2)
    weights = flagship.fitted(taught, guards, np.arange(3), np.array([3]), Form(False, 1.0))
    assert (weights >= 0).all()
    assert weights[2] == 0
    assert 1.5 < weights[0] / weights[1] < 2.7
    assert weights[3] > 0


def test_equal_weights_are_equal():
    taught = [lessons([3.0, 1.0, 0.0])]
    weights = flagship.fitted(taught, taught[0], np.arange(2), np.array([2]), Form(True, 0.1))
    assert weights[0] == weights[1] > 0


def test_normal_scores_go_on_beyond_the_reference():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(5, 2, 4000), np.zeros(4000), np.ones(4000)])
    scaling = flagship.normal_scores(values, 1, -1.0)
    out = scaling(np.array([[5.0, 0.0, 1.0], [15.0, -0.9, 1.0], [13.0, -3.0, 0.5]]))
    np.testing.assert_allclose(out[:, 0], [0, 5, 4], atol=0.25)
    np.testing.assert_allclose(out[:, 1], [0, 0, -2], atol=1e-4)  # stumbles counts from -1 down
    np.testing.assert_allclose(out[:, 2], [0, 0, -2], atol=1e-4)  # half of the words repeated


def test_the_worst_domain_decides_and_simple_models_win_ties():
    def candidate(inputs, equal, worst, held=0.99):
        return Candidate(inputs, Form(equal, 0.1), {"near": 0.3, "far": worst}, held)

    fragile = candidate(("a",), True, 0.5, held=0.9)
    best = candidate(("a", "b", "c"), False, 0.021)
    tied = candidate(("a", "b", "c"), True, 0.020)
    small = candidate(("a", "b"), True, 0.019)
    poor = candidate(("a",), True, 0.001)
    assert flagship.best_of([fragile, best, tied, small, poor]) == small
    assert flagship.best_of([fragile, best, poor]) == best
    assert flagship.best_of([fragile]) == fragile


def test_halves_are_fixed():
    """Half B must stay unseen: the rule may not change."""
    names = ["a.jpg", "d.jpg", "2513260012_03d33305cf.jpg", "1056338697_4f7d7ce270.jpg"]
    assert first_half(names).tolist() == [True, False, True, False]
    assert coco_first_half([1, 2, 66717]).tolist() == [True, False, True]


def test_features_are_kept_and_checked(tmp_path, monkeypatch):
    samples = CaptionSet.build(
        ["a dog runs", "a cat", "two men"], [["the dog runs home"], ["a cat sits"], ["two men"]]
    )
    first = FeatureStore(tmp_path).column("toy", samples, None, "bleu_1").values
    calls = []
    honest = Bleu.stats

    def counted(self, samples, context):
        calls.append(len(samples))
        return honest(self, samples, context)

    monkeypatch.setattr(Bleu, "stats", counted)
    again = FeatureStore(tmp_path).column("toy", samples, None, "bleu_1")
    assert again.values.tolist() == first.tolist()
    assert calls == [2], "two rows are scored again, the rest is read"
    said = Bleu.signature_parts
    monkeypatch.setattr(Bleu, "signature_parts", lambda *a: {**said(*a), "words": "other"})
    changed = FeatureStore(tmp_path).column("toy", samples, None, "bleu_1")
    assert changed.identity["words"] == "other"
    assert calls == [2, 2, 3]


# -- what is shipped, in the demo --------------------------------------------------------------


@pytest.fixture(scope="module")
def demo_scores():
    """Scores of the demo's captions, of our long descriptions and of a plain caption each."""
    given = load(demo.captions_file(), demo.references_file(), images=demo.folder() / "photos")
    references = {Path(str(s.image)).name: list(s.references) for s in given}
    paths = {Path(str(s.image)).name: str(s.image) for s in given}
    rows = [(s.caption, Path(str(s.image)).name, s.system) for s in given]
    rows += [(r["caption"], r["image"], "rich") for r in json.loads(RICH.read_text())]
    rows += [(texts[0], image, "plain") for image, texts in references.items()]
    samples = CaptionSet.build(
        [caption for caption, _, _ in rows],
        [references[image][1:] for _, image, _ in rows],
        images=[paths[image] for _, image, _ in rows],
    )
    names = ("captious_ref", "captious_ref(image=False)", "captious_free")
    table = run(samples, names, resamples=0)
    kinds = np.array([kind for *_, kind in rows])
    return dict(zip(names, table.values.values(), strict=True)), kinds, samples.images


@pytest.mark.parametrize("name", ["captious_ref", "captious_ref(image=False)", "captious_free"])
def test_good_above_vague_above_wrong(demo_scores, name):
    scores, kinds, _ = demo_scores
    good, vague, wrong = (scores[name][kinds == k].mean() for k in ("good", "vague", "wrong"))
    assert good > vague > wrong
