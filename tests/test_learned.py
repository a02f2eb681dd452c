"""Learned composites: drawing, training, files, contributions, the engine's sharing."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest

from captious import api, registry, settings
from captious.engine.run import run
from captious.errors import InputError, MissingAsset, UsageError
from captious.learned import contributions, features, model_file
from captious.learned.composite import Composite, EvalMs
from captious.metrics.bleu import Bleu
from captious.report.pictures import draw
from captious.training import composite, sampling
from captious.types import CaptionSet, Sample

INPUTS = "bleu_1,rouge_l"
NOUNS = "dog cat man woman bus horse table boat child bird".split()
VERBS = "runs sleeps stands jumps sits".split()
PLACES = "beach street park house field snow".split()


def scene(i: int, variant: int) -> str:
    """Five ways to say what is in image i."""
    noun, verb, place = NOUNS[i % 10], VERBS[i // 10 % 5], PLACES[i % 6]
    forms = (
        f"a {noun} {verb} in the {place}",
        f"the {noun} {verb} near a {place}",
        f"one small {noun} that {verb} at the {place}",
        f"a {noun} is there and {verb} by the {place}",
        f"in the {place} a young {noun} {verb}",
    )
    return forms[variant]


HUMAN = {str(i): [scene(i, v) for v in range(5)] for i in range(50)}
MACHINE = {
    "good": {str(i): f"a {NOUNS[i % 10]} in the {PLACES[i % 6]}" for i in range(50)},
    "poor": {str(i): "a man is standing" for i in range(50)},
}


def toy(rows: int = 400, seed: int = 0, noise: float = 0.2) -> composite.Data:
    """Two informative features."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows).astype(float)
    values = label[:, None] * np.array([0.5, 0.3]) + rng.normal(scale=noise, size=(rows, 2))
    images = np.array([str(i // 4) for i in range(rows)], dtype=object)
    return composite.Data(values, label, images)


def fitted(**changes):
    options = composite.Options(**{"hidden": (8,), "rate": 0.02, "epochs": 30, "accuracy": 0.55}
                            | changes)  # fmt: skip
    data = toy()
    judged = composite.Judged(data.values, data.target)
    inputs = features.parse_inputs(INPUTS)
    return composite.fit(data, inputs, [{}, {}], options, judged)


# -- drawing -----------------------------------------------------------------------------------


def test_draw_as_the_paper_does():
    drawn = sampling.draw(HUMAN, MACHINE, HUMAN, sampling.Draw(machine=2, other=1), seed=3)
    kinds = {k: int((drawn.kinds == k).sum()) for k in set(drawn.kinds)}
    assert kinds == {"human": 150, "machine": 100, "other": 50, "gamed": 150}
    assert set(drawn.samples.reference_counts.tolist()) == {4}
    for sample, kind, image in zip(drawn.samples, drawn.kinds, drawn.images, strict=True):
        assert sample.caption not in sample.references
        assert set(sample.references) <= set(HUMAN[image])
        assert (sample.caption in HUMAN[image]) == (kind == "human")
    for row in np.flatnonzero(drawn.kinds == "gamed"):
        whole = drawn.samples[int(drawn.partner[row])]
        assert drawn.kinds[drawn.partner[row]] == "human"
        assert drawn.samples[int(row)].references == whole.references
        assert drawn.samples[int(row)].caption != whole.caption


def test_draw_weighs_classes_alike():
    drawn = sampling.draw(HUMAN, MACHINE, HUMAN, seed=3)
    weight = drawn.weights((1.0, 2.0, 1.0))
    assert weight[drawn.labels == 1].sum() == pytest.approx(weight[drawn.labels == 0].sum())
    assert weight[drawn.kinds == "other"].sum() == pytest.approx(
        2 * weight[drawn.kinds == "machine"].sum()
    )


def test_draw_repeats_with_its_seed():
    a, b, c = (sampling.draw(HUMAN, MACHINE, HUMAN, seed=s).samples.captions() for s in (1, 1, 2))
    assert a == b != c


@pytest.mark.parametrize(
    ("human", "machine", "refs", "how", "said"),
    [
        (HUMAN, {}, HUMAN, sampling.Draw(other=0, gamed=0), "one class only"),
        (HUMAN, {"s": {"x": "a dog"}}, HUMAN, sampling.Draw(), "do the ids match"),
        (HUMAN, MACHINE, {"z": ["a", "b"]}, sampling.Draw(), "do the ids match"),
        (
            {"0": ["a dog"]},
            MACHINE,
            {"0": ["a dog"]},
            sampling.Draw(),
            "fewer than two different",
        ),
    ],
)
def test_draw_refuses(human, machine, refs, how, said):
    with pytest.raises(InputError, match=said):
        sampling.draw(human, machine, refs, how)


# -- training ----------------------------------------------------------------------------------


def test_classifier_learns_and_repeats():
    first, second, other = fitted(), fitted(), fitted(seed=5)
    assert first.best["accuracy"] > 0.75
    top = max(h["accuracy"] for h in first.history)
    able = [h["tau"] for h in first.history if h["accuracy"] >= max(0.55, top - 0.02)]
    assert first.best["tau"] == max(able)
    data = toy(seed=9)
    assert np.array_equal(first.model.scores(data.values), second.model.scores(data.values))
    assert not np.array_equal(first.model.scores(data.values), other.model.scores(data.values))
    right = (first.model.scores(data.values) > 0.5) == (data.target > 0.5)
    assert right.mean() > 0.75


def test_untrained_epoch_cannot_win():
    """Labels that say nothing: tau with the judgements is fine, yet no epoch is good enough."""
    data = toy()
    noise = np.random.default_rng(1).permutation(data.target)
    blind = composite.Data(data.values, noise, data.images)
    judged = composite.Judged(data.values, data.values[:, 0])
    options = composite.Options(hidden=(8,), epochs=8, accuracy=0.7)
    with pytest.raises(InputError, match="no epoch is good enough"):
        composite.fit(blind, features.parse_inputs(INPUTS), [{}, {}], options, judged)


@pytest.mark.parametrize("objective", ["rate", "rank"])
@pytest.mark.parametrize("hidden", [(), (8,)])
def test_ratings_are_learned(objective, hidden):
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(500, 2))
    good = values @ np.array([0.7, 0.3])
    ratings = np.digitize(good + rng.normal(scale=0.05, size=500), [0.3, 0.5, 0.7]) / 3
    images = np.array([str(i) for i in range(500)], dtype=object)
    options = composite.Options(objective, hidden, 0.05, 60, 250, scale="ranks", patience=0)
    done = composite.fit(
        composite.Data(values, ratings, images), features.parse_inputs(INPUTS), [{}, {}], options
    )
    assert np.corrcoef(done.model.logits(values), good)[0, 1] > 0.93


def test_gamed_pairs_teach():
    """Ratings hang on the first feature only; the pairs teach that the second one counts too."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 2))
    images = np.array([str(i) for i in range(300)], dtype=object)
    target = (values[:, 0] > 0).astype(float)
    spoilt = values - np.array([0.0, 1.0])
    pairs = {"better": np.arange(300), "worse": 300 + np.arange(300), "extra": spoilt}
    share = {}
    for weight in (0.0, 1.0):
        options = composite.Options("rate", (), 0.05, 40, 300, scale="z", gamed=weight, patience=0)
        model = composite.fit(composite.Data(values, target, images, **pairs),
                          features.parse_inputs(INPUTS), [{}, {}], options).model  # fmt: skip
        share[weight] = (model.logits(values) > model.logits(spoilt) + 0.1).mean()
    assert share[1.0] == 1.0
    assert share[0.0] < 1.0


def test_bad_training_data_is_refused():
    inputs = features.parse_inputs(INPUTS)
    good = toy()
    options = composite.Options(hidden=(4,), epochs=2)

    def refuses(said, options=options, **changes):
        parts = {"values": good.values, "target": good.target, "images": good.images} | changes
        with pytest.raises(InputError, match=said):
            composite.fit(composite.Data(**parts), inputs, [{}, {}], options)

    hole = good.values.copy()
    hole[7, 1] = np.nan
    refuses(r"rouge_l: 1 of 400 values are missing or not finite \(first: row 8\)", values=hole)
    refuses("one class only", target=np.ones(400))
    refuses("too few", values=good.values[:9], target=good.target[:9], images=good.images[:9])
    refuses("2 inputs are named: bleu_1, rouge_l", values=good.values[:, :1])
    refuses("labels of a classifier are 0 and 1", target=good.target * 3)
    refuses("all ratings are equal", composite.Options("rate"), target=np.full(400, 0.5))
    refuses("brought to 0..1", composite.Options("rank"), target=good.target * 4)
    refuses("loss is not finite", composite.Options(hidden=(4,), rate=1e30, epochs=9, accuracy=2.0))
    with pytest.raises(UsageError, match="objective is one of"):
        composite.Options("guess")


def test_kept_features_are_read_while_the_signature_is_the_same(cache, monkeypatch):
    samples = CaptionSet.build(["a dog runs"], [["the dog runs home"]])
    inputs = features.parse_inputs(["bleu_1"])
    first = features.table(samples, inputs)
    calls = []
    honest = Bleu.stats

    def counted(self, *args):
        calls.append(1)
        return honest(self, *args)

    monkeypatch.setattr(Bleu, "stats", counted)
    assert features.table(samples, inputs).values.tolist() == first.values.tolist()
    assert not calls
    said = Bleu.signature_parts
    monkeypatch.setattr(Bleu, "signature_parts", lambda *a: {**said(*a), "words": "other"})
    again = features.table(samples, inputs)
    assert calls
    assert again.identities[0]["words"] == "other"
    assert features.table(samples, inputs).identities == again.identities
    assert len(calls) == 1


def test_missing_features_are_named():
    inputs = features.parse_inputs(INPUTS)
    table = features.Table(
        np.array([[1.0, np.nan], [1.0, 2.0]]), ({}, {}), {(0, 1): "no reference"}
    )
    with pytest.raises(InputError, match=r"rouge_l is missing for 1 of 2 captions .*no reference"):
        table.require(inputs, "training")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ("bleu", "which of its columns"),
        ("blue_1", "Did you mean"),
        ("rouge_l,rouge_l", "given twice"),
        ("eval_ms", "cannot be an input of a composite"),
    ],
)
def test_wrong_inputs(texts, said):
    with pytest.raises(UsageError, match=said):
        features.parse_inputs(texts)


# -- files -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, cache):
    """A model of bleu_1 and rouge_l with the identities that these have now."""
    done = fitted()
    samples = CaptionSet.build([HUMAN["0"][0]], [HUMAN["0"][1:]])
    table = features.table(samples, features.parse_inputs(INPUTS), store=False)
    model = model_file.Model(done.model.inputs, table.identities, done.model.scaling,
                             done.model.layers, done.model.baseline, done.model.facts)  # fmt: skip
    return model_file.save(model, tmp_path / "mine")


def test_file_round_trip(folder):
    model, values = model_file.load(folder), toy(seed=2).values
    assert np.array_equal(model.scores(values), fitted().model.scores(values))
    load_file = pytest.importorskip("safetensors.numpy").load_file
    tensors = load_file(str(folder / "model.safetensors"))
    assert np.array_equal(tensors["layer0.weight"], model.layers[0][0])


def test_numpy_forward_is_that_of_torch(folder):
    import torch

    model, values = model_file.load(folder), toy(seed=2).values
    x = torch.tensor(values)
    for weight, bias in model.layers[:-1]:
        x = (x @ torch.tensor(weight) + torch.tensor(bias)).relu()
    out = x @ torch.tensor(model.layers[-1][0]) + torch.tensor(model.layers[-1][1])
    np.testing.assert_allclose(model.scores(values), out.softmax(dim=1)[:, 1].numpy(), atol=1e-12)


def change(folder, **facts):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_other_versions_are_refused(folder):
    change(folder, format=2, captious="9.1")
    with pytest.raises(InputError, match=r"newer version of captious \(format 2, captious 9.1"):
        model_file.load(folder)
    change(folder, format=None)
    with pytest.raises(InputError, match="another version"):
        model_file.load(folder)


def test_other_features_are_refused(folder):
    sample = Sample("0", "a dog", ("a dog runs", "the dog"))
    metric = Composite(model=str(folder))
    one = CaptionSet.of([sample])
    before = run(one, [metric], resamples=0)
    assert np.isfinite(before["composite"]).all()
    change(folder, identities=[{"tokenizer": "ptb-9", "len": "closest"},
                               model_file.load(folder).identities[1]])  # fmt: skip
    with pytest.raises(InputError, match=r"bleu_1: tokenizer was ptb-9 in training and is ptb-"):
        run(one, [metric], resamples=0)
    with pytest.raises(InputError, match="this model reads bleu_1, rouge_l; eval_ms reads meteor"):
        EvalMs(model=str(folder)).open()


def test_damaged_files_are_refused(folder, tmp_path):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for broken in (whole[:40], b"\xff" * 64, whole[:-8]):
        weights.write_bytes(broken)
        with pytest.raises(InputError, match="not readable as a safetensors file"):
            model_file.load(folder)
    weights.write_bytes(whole)
    change(folder, inputs=["bleu_1"], identities=[{}])
    with pytest.raises(InputError, match="2 values for 1 inputs"):
        model_file.load(folder)
    change(folder, inputs=["bleu_1"], identities=[{}, {}])
    (folder / "model.json").write_text("[]")
    with pytest.raises(InputError, match="not a composite"):
        model_file.load(folder)
    with pytest.raises(MissingAsset, match="not the folder of a composite"):
        model_file.load(tmp_path / "nowhere")


# -- scoring -----------------------------------------------------------------------------------


def test_inputs_are_computed_once(folder, monkeypatch):
    calls = []
    plain = Bleu.stats
    monkeypatch.setattr(Bleu, "stats", lambda self, s, c: calls.append(len(s)) or plain(self, s, c))
    texts = [(HUMAN[str(i)][0], HUMAN[str(i)][1:]) for i in range(8)]
    samples = CaptionSet.build([t[0] for t in texts], [t[1] for t in texts])
    metric = Composite(model=str(folder))
    table = run(samples, [metric, "bleu", "rouge_l"], resamples=0)
    assert calls == [8]
    raw = np.column_stack([table["bleu_1"], table["rouge_l"]])
    np.testing.assert_allclose(table["composite"], model_file.load(folder).scores(raw))
    alone = metric.scores(metric.stats(samples, metric.prepare(samples)).rows)[:, 0]
    np.testing.assert_allclose(table["composite"], alone)
    assert "mine@" in table.signatures["composite"]


def test_a_row_without_an_input_is_not_scored(folder):
    samples = CaptionSet.build(["a dog", "a dog"], [["a dog runs"], []])
    table = run(samples, [Composite(model=str(folder))], resamples=0)
    assert np.isfinite(table["composite"][0])
    assert np.isnan(table["composite"][1])
    assert "bleu_1 has no value: it has no reference" in table.unscored[0].reason


def test_settings_do_not_matter(folder):
    samples = CaptionSet.build(["a dog runs"], [["a dog", "the dog runs"]])
    metric = registry.create(f"composite(model='{folder}')")
    with settings.use(threads=1):
        first = run(samples, [metric], resamples=0)["composite"]
    assert first == run(samples, [metric], resamples=0)["composite"]


# -- contributions -----------------------------------------------------------------------------


def test_shapley_is_the_mean_over_orders():
    here, base = np.array([1.0, -0.5, 2.0]), np.zeros(3)

    def value(x):
        return np.tanh(x[:, 0] * x[:, 1] + x[:, 2]) + x[:, 1] ** 2

    slow = np.zeros(3)
    for order in permutations(range(3)):
        now = base.copy()
        for i in order:
            before = value(now[None])[0]
            now[i] = here[i]
            slow[i] += (value(now[None])[0] - before) / 6
    np.testing.assert_allclose(contributions.shapley(value, here, base), slow, atol=1e-12)
    with pytest.raises(UsageError, match="up to 14"):
        contributions.shapley(value, np.zeros(15), np.zeros(15))


def test_explanation_adds_up(folder):
    found = api.explain(f"composite(model='{folder}')", "a dog runs", ["a dog runs fast", "a cat"])
    data = found.data
    total = data["baseline"] + sum(c["contribution"] for c in data["contributions"])
    assert total == pytest.approx(data["score"], abs=1e-9)
    assert draw(found).startswith("<svg")
    assert "rouge_l" in draw(found)


def test_linear_contributions_are_exact(tmp_path):
    done = fitted(hidden=(), rate=0.05)
    here = np.array([0.4, 0.9])
    parts = contributions.log_odds_parts(done.model, here)
    logits = done.model.logits(np.stack([here, done.model.baseline]))
    assert parts.sum() == pytest.approx(logits[0] - logits[1])
    exact = contributions.shapley(done.model.logits, here, done.model.baseline)
    np.testing.assert_allclose(parts, exact, atol=1e-9)
