"""The language model: probabilities, training, metric."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import captious  # noqa: E402
from captious.errors import InputError  # noqa: E402
from captious.models import lm  # noqa: E402
from captious.training import lm as trainer  # noqa: E402

TEXTS = [
    f"a {c} {n} {v} on the {p} ."
    for c in ("red", "small", "old", "black")
    for n in ("dog", "cat", "man", "bus")
    for v in ("sits", "runs", "waits")
    for p in ("street", "sofa", "beach", "grass", "road")
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    recipe = trainer.Recipe(epochs=6, tokens=256, rate=1e-2, least=1, embedding=16, hidden=24)
    said = []
    result = trainer.train(TEXTS, TEXTS[::7], folder, recipe, said.append)
    return folder, result, said


def test_training_learns_and_saves(trained):
    folder, result, said = trained
    perplexities = [h["dev"] for h in result["history"]]
    assert perplexities[-1] < 0.5 * perplexities[0]
    assert not (folder / "checkpoint.pt").exists()
    assert (folder / "model.safetensors").stat().st_size < 200_000
    assert any("held-out perplexity" in line for line in said)


def test_probabilities_sum_to_one(trained):
    model = lm.load(str(trained[0]))
    start = torch.tensor([[lm.START]])
    state, _ = model.layers["rnn"](model.layers["embed"](start))
    every = model.layers["out"].log_prob(state[:, -1]).exp().detach()
    assert float(every.sum()) == pytest.approx(1.0, abs=1e-4)
    first = np.exp(model.token_scores(["a"])[0])
    assert first == pytest.approx(float(every[0, model.number["a"]]), abs=1e-5)


def test_order_of_words_matters(trained):
    model = lm.load(str(trained[0]))
    good = "a red dog sits on the street".split()
    bad = "street the on sits dog red a".split()
    both = model.fluency([[good], [bad]])
    assert both[0, 0] > 2 * both[1, 0]
    assert both[0, 1] > both[1, 1] + 1
    alone = np.concatenate([model.fluency([[s]]) for s in (good, bad)])
    np.testing.assert_allclose(both, alone, atol=1e-6)


def test_slor_is_the_gain_of_context_over_frequency(trained):
    model = lm.load(str(trained[0]))
    # Every sentence of the training text has one "a" and one end among its eight tokens.
    share = np.log(1 / 8)
    a, end = model.token_scores(["a"])
    wanted = ((a - share) + (end - share)) / 2
    assert model.fluency([[["a"]]])[0, 1] == pytest.approx(wanted, abs=1e-9)


def test_a_model_without_counts_has_no_slor(trained, tmp_path):
    config = json.loads((trained[0] / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes((trained[0] / "model.safetensors").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | {"counts": None}))
    table = captious.score(["a red dog"], metrics=f"lm(model='{tmp_path}')")
    assert np.isfinite(table["lm"]).all()
    assert np.isnan(table["slor"]).all()
    assert np.isnan(table["stumbles"]).all()
    (tmp_path / "config.json").write_text(json.dumps(config | {"counts": [1, 2]}))
    lm._load.cache_clear()
    with pytest.raises(InputError, match="2 counts for"):
        lm.load(str(tmp_path))


def test_an_explanation_names_what_is_out_of_place():
    from captious.metrics.lm import _least_expected

    def row(word, probability, frequency, known=True):
        return {"word": word, "probability": probability, "frequency": frequency, "known": known}

    rows = [row("dog", 0.2, 0.1), row("the", 0.001, 0.1), row("</s>", 0.01, 0.1)]
    lines = _least_expected(rows)
    assert [line.split() for line in lines[1:]] == [
        ["the", "100.0", "times"], ["(the", "end)", "10.0", "times"],
    ]  # fmt: skip
    assert _least_expected(rows[:1]) == [
        "every word is at least as likely here as elsewhere in captions"
    ]
    blind = _least_expected([row("dog", 0.2, np.nan), row("xyz", 0.001, np.nan, known=False)])
    assert blind[1].split()[:3] == ["xyz", "probability", "0.001,"]
    assert "unknown to the model" in blind[1]


def test_metric_and_explanation(trained):
    metric = f"lm(model='{trained[0]}')"
    table = captious.score(["a red dog sits on the street", "", "zebra zebra"], metrics=metric)
    assert (table["lm"] > 0).all()
    assert table["lm"][0] > table["lm"][2]
    assert "captions with words that the language model does not know" in next(iter(table.notes))
    found = captious.explain(metric, "a red dog")
    assert len(found.data["tokens"]) == 4
    product = np.prod([t["probability"] for t in found.data["tokens"]]) ** 0.25
    assert found.data["score"] == pytest.approx(product)
    odds = [np.log(t["probability"] / t["frequency"]) for t in found.data["tokens"]]
    assert found.data["slor"] == pytest.approx(np.mean(odds))
    assert found.data["stumbles"] == pytest.approx(min(0.0, np.mean(sorted(odds)[:3]) - np.log(2)))


def test_a_killed_training_goes_on(tmp_path, monkeypatch):
    recipe = trainer.Recipe(epochs=2, tokens=256, least=1, embedding=8, hidden=8)

    halves = tmp_path / "halves"
    original = lm.save
    calls = []

    def dies(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(lm, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            trainer.train(TEXTS, TEXTS[::7], halves, recipe, lambda _: None)
    said: list[str] = []
    trainer.train(TEXTS, TEXTS[::7], halves, recipe, said.append)
    assert said[0] == "continuing after epoch 1"
    assert json.loads((halves / "training.json").read_text())["history"][-1]["epoch"] == 2


def test_bad_models_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="there is no such file"):
        lm.load(str(tmp_path))
    with pytest.raises(InputError, match="at least 100"):
        trainer.train(["a"], ["a"], tmp_path / "x")


def test_shipped_model_prefers_fluent_captions():
    if captious.metric("lm").metric.missing():
        pytest.skip("the shipped language model is not in this checkout")
    good = ["a man riding a horse on a beach", "two dogs playing with a ball in the grass"]
    bad = ["beach a on horse a riding man a", "dogs two grass the in ball a with playing"]
    table = captious.score(good + bad, metrics="lm", intervals=False)
    assert table["lm"][:2].min() > 3 * table["lm"][2:].max()
