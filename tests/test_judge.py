"""The judge against a stub service: smoothing, storing, replaying, refusing."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import captious
import tiny_models
from captious.demo import photographs
from captious.errors import CaptiousError, InputError, UsageError
from captious.metrics.judge import Judge
from captious.models import judge_answers
from captious.models.judge_answers import Answer, smoothed
from captious.types import CaptionSet
from conftest import GOLDEN
from judge_stub import Stub, completion

TEXTS = ["a dog on a beach", "two cats", "a red bus"]


@pytest.fixture
def stub(monkeypatch):
    monkeypatch.setattr(judge_answers, "_PAUSE", 0.01)
    server = Stub()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def samples(cache) -> CaptionSet:
    images = [str(path) for path in photographs()[: len(TEXTS)]]
    return CaptionSet.build(TEXTS, [["a dog"], ["a cat", "cats"], ["a bus"]], images=images)


def test_smoothing_by_hand():
    eight = {"8": 0.5, "9": 0.3, "7": 0.1, "x": 0.1}
    tokens = (("0", {"0": 1.0}), (".", {".": 1.0}), ("8", eight))
    value, smooth = smoothed(Answer("0.8", tokens))
    assert value == pytest.approx(0.05 * 8 + 0.03 * 9 + 0.01 * 7)
    assert smooth
    five = ("5", {"5": 0.8, "0": 0.2})
    assert smoothed(Answer("0.85", (*tokens, five)))[0] == pytest.approx(value + 0.01 * 5 * 0.8)
    one = (("1", {"1": 0.7, "0": 0.2}), (".", {".": 1.0}), ("0", {"0": 1.0}))
    assert smoothed(Answer("1.0", one))[0] == pytest.approx(0.7 + 0.9 * 0.2)


def test_smoothing_is_that_of_the_released_program():
    golden = json.loads((GOLDEN / "fleur" / "smoothing.json").read_text())
    for case in golden["cases"]:
        tokens = tuple((token, options) for token, options in case["tokens"])
        value, smooth = smoothed(Answer(case["written"], tokens))
        assert smooth
        assert value == pytest.approx(case["fleur"], abs=1e-12), case["written"]


def test_ratings_without_probabilities_stand_as_written():
    assert smoothed(Answer("0.8", (("0.8", {"0.8": 0.9}),))) == (0.8, False)
    assert smoothed(Answer("Rating: 0.7")) == (0.7, False)
    assert smoothed(Answer("7 of 10")) == (None, False)
    assert smoothed(Answer("10.5")) == (None, False)


def _largest(digit: int) -> float:
    """The largest mean that digits can have where this one is the likeliest."""
    above = sorted(set(range(10)) - {digit}, reverse=True)
    return max(float(np.mean([digit, *above[:count]])) for count in range(10))


def test_released_scores_of_fleur_fit_the_formula(shared):
    """The digit that was written is the likeliest, which bounds the mean over all digits."""
    table = pq.read_table(shared / "data" / "fleur" / "flickr8k_expert.parquet")
    raw, smooth = (table[name].to_numpy() for name in ("raw", "smoothed"))
    bound = [
        _largest(int(text[2])) / 10 + (_largest(int(text[3])) / 100 if text[3] != "0" else 0)
        for text in (f"{value:.2f}" for value in raw)
    ]
    assert len(raw) == 5664
    assert raw.max() < 1  # the case 1.0 does not occur among the released scores
    assert (smooth >= 0).all()
    assert (smooth <= np.array(bound) + 1e-3).all()
    np.testing.assert_array_equal(smooth.astype(np.float16), smooth)  # computed in half precision


def test_answers_are_kept_and_replayed(samples, stub, tmp_path):
    path = tmp_path / "answers.jsonl"
    metric = Judge("stub", stub.address, answers=str(path))
    first = metric.stats(samples, None)
    assert len(stub.questions) == 3
    assert first.notes["questions asked"] == 3
    assert first.notes["prompt tokens"] == 300
    again = metric.stats(samples, None)
    assert len(stub.questions) == 3
    assert again.notes == {"answers from the file": 3}
    np.testing.assert_array_equal(first.rows, again.rows)
    replay = Judge("stub", answers=str(path), offline=True)
    np.testing.assert_array_equal(replay.stats(samples, None).rows, first.rows)
    assert not replay.missing()
    other = Judge("another model", answers=str(path), offline=True).stats(samples, None)
    assert "stored answers" in other.reasons[0]
    path.write_text('{"key": 1}\n')
    with pytest.raises(InputError, match="line 1"):
        replay.stats(samples, None)


def test_the_question_carries_photograph_and_caption(samples, stub, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_JUDGE_KEY", "secret")
    metric = Judge("stub", stub.address)
    metric.stats(samples, None)
    picture, text = stub.questions[0]["messages"][0]["content"]
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    assert TEXTS[0] in text["text"]
    assert stub.questions[0]["temperature"] == 0
    assert stub.headers[0]["Authorization"] == "Bearer secret"
    assert "secret" not in metric.signature("1", None)
    assert "prompt:captious-" in metric.signature("1", None)


def test_pairs_are_asked_in_both_orders(samples, stub):
    stub.script = [(200, completion([("A", {"A": 0.8, "B": 0.2})])),
                   (200, completion([("B", {"A": 0.4, "B": 0.6})]))]  # fmt: skip
    metric = Judge("stub", stub.address, mode="pairwise")
    assert metric.stats(samples[:1], None).rows[0, 0] == pytest.approx((0.8 + 0.6) / 2)
    asked = [q["messages"][0]["content"][1]["text"] for q in stub.questions]
    assert "A: a dog on a beach\nB: a dog\n" in asked[0]
    assert "A: a dog\nB: a dog on a beach\n" in asked[1]


def test_explains_by_what_could_have_been_written(samples, stub):
    eight = {"8": 0.5, "9": 0.25, "7": 0.25}
    stub.script = [(200, completion([("0", {"0": 1.0}), (".", {".": 1.0}), ("8", eight)]))]
    told = Judge("stub", stub.address).explain(samples[0], None)
    assert told.data["score"] == pytest.approx(0.8)
    (chances,) = told.data["probabilities"]
    assert chances["what"] == "decimal 1"
    assert chances["probabilities"] == pytest.approx(eight)
    assert "8 0.50" in told.text
    (drawn,) = told.parts
    assert [(m.word, round(m.weight, 2)) for m in drawn.words] == [
        ("8", 0.5), ("7", 0.25), ("9", 0.25),
    ]  # fmt: skip
    stub.script = [(200, completion([("1", {"1": 0.7, "0": 0.2}), (".", {}), ("0", {"0": 1.0})]))]
    sure = Judge("stub", stub.address).explain(samples[1], None)
    assert sure.data["probabilities"][0]["what"] == "first digit"
    stub.script = [(200, completion([("A", {"A": 0.8, "B": 0.2})])),
                   (200, completion([("B", {"A": 0.4, "B": 0.6})]))]  # fmt: skip
    pair = Judge("stub", stub.address, mode="pairwise").explain(samples[0], None)
    assert [c["what"] for c in pair.data["probabilities"]] == [
        "reference 1, the caption is A", "reference 1, the caption is B",
    ]  # fmt: skip


def test_failures_that_pass_are_tried_again_but_not_for_ever(samples, stub):
    stub.script = [(503, "busy"), (429, "slow down")]
    assert np.isfinite(Judge("stub", stub.address).stats(samples[:1], None).rows).all()
    stub.script = [(500, "broken")] * 3
    before = len(stub.questions)
    stats = Judge("stub2", stub.address).stats(samples[:1], None)
    assert "did not answer (500" in stats.reasons[0]
    assert len(stub.questions) - before == judge_answers.TRIES
    stub.script = [(200, {"choices": []})] * 3
    assert "did not answer" in Judge("stub3", stub.address).stats(samples[:1], None).reasons[0]
    stub.script = [(401, "no key")]
    with pytest.raises(UsageError, match="refused"):
        Judge("stub4", stub.address).stats(samples[:1], None)


def test_a_service_that_refuses_probabilities_is_asked_without(samples, stub):
    plain = {"choices": [{"message": {"content": "0.7"}}]}
    stub.script = [(400, "unknown parameter: logprobs"), (200, plain)]
    stats = Judge("stub", stub.address).stats(samples[:1], None)
    assert stats.rows[0, 0] == 0.7
    assert stats.notes["ratings without probabilities of digits (taken as written)"] == 1
    assert ["logprobs" in question for question in stub.questions] == [True, False]
    stub.script = [(400, "the picture is too large")]
    stats = Judge("stub2", stub.address).stats(samples[:1], None)
    assert "the picture is too large" in stats.reasons[0]
    assert len(stub.questions) == 3  # such a refusal does not pass


def test_words_are_no_rating(samples, stub):
    stub.script = [(200, completion([("good", {"good": 1.0})]))]
    stats = Judge("stub", stub.address).stats(samples[:1], None)
    assert "no rating" in stats.reasons[0]


def test_nobody_to_ask(samples):
    with pytest.raises(CaptiousError, match="OpenAI-compatible"):
        captious.score(TEXTS, images=samples.images.tolist(), metrics=["judge"])
    with pytest.raises(UsageError, match="mode"):
        Judge(mode="duel")


def test_a_question_of_ones_own(samples, stub, tmp_path):
    path = tmp_path / "question.txt"
    path.write_text("Is this right? {caption}")
    metric = Judge("stub", stub.address, prompt=str(path))
    metric.stats(samples[:1], None)
    asked = stub.questions[0]["messages"][0]["content"][1]["text"]
    assert asked == f"Is this right? {TEXTS[0]}"
    assert metric.signature("1", None) != Judge("stub", stub.address).signature("1", None)
    told = metric.explain(samples[0], None)
    assert "the model wrote" in told.text
    path.write_text("Is this right?")
    with pytest.raises(InputError, match="caption"):
        metric.stats(samples[:1], None)


# -- a model on this machine ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    pytest.importorskip("transformers")
    return tiny_models.save_llava(tmp_path_factory.mktemp("llava") / "tiny")


def test_a_local_model_rates_by_the_probabilities_of_its_digits(samples, llava, tmp_path):
    """Expected: one pass of transformers itself over the question and the written 0 and point."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    path = tmp_path / "question.txt"
    path.write_text("Rate {caption}:")
    metric = Judge(str(llava), prompt=str(path), answers=str(tmp_path / "answers.jsonl"))
    assert not metric.missing()
    stats = metric.stats(samples, None)
    assert stats.notes["questions asked"] == 3
    assert stats.notes["completion tokens"] == 9

    processor = AutoProcessor.from_pretrained(llava)
    model = AutoModelForImageTextToText.from_pretrained(llava).eval()
    for row, caption in enumerate(TEXTS):
        picture = Image.open(samples.images[row]).convert("RGB")
        picture.thumbnail((672, 672))
        given = processor(text=[f"<image>Rate {caption}:0."], images=[picture], return_tensors="pt")
        with torch.no_grad():
            shares = torch.softmax(model(**given).logits[0, -1], dim=-1)
        digits = [float(shares[processor.tokenizer.convert_tokens_to_ids(d)]) for d in "0123456789"]
        expected = sum(0.1 * d * p for d, p in enumerate(digits))
        # The judge sees a JPEG of the photograph: pixels differ a little.
        assert stats.rows[row, 0] == pytest.approx(expected, abs=2e-3)
    assert len(set(stats.rows[:, 0])) == 3  # photograph and caption make a difference


def test_answers_of_a_local_model_are_stored_under_its_weights(samples, llava, tmp_path):
    path = str(tmp_path / "answers.jsonl")
    metric = Judge(str(llava), answers=path)
    rows = metric.stats(samples, None).rows
    signature = metric.signature("1", None)
    [name] = [p.split(":")[1] for p in signature.split("|") if p.startswith("judge:")]
    assert name.startswith("tiny@")
    replay = Judge(name, answers=path, offline=True)
    np.testing.assert_array_equal(replay.stats(samples, None).rows, rows)
    # Other weights under the same folder name do not take these answers for theirs.
    other = tmp_path / "tiny"
    shutil.copytree(llava, other)
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(other / "model.safetensors")
    save_file({k: v + torch.zeros_like(v) + 0.01 for k, v in tensors.items()},
              other / "model.safetensors", metadata={"format": "pt"})  # fmt: skip
    assert Judge(str(other), answers=path).stats(samples, None).notes["questions asked"] == 3


def test_a_local_model_chooses_between_two(samples, llava, tmp_path):
    path = tmp_path / "question.txt"
    path.write_text("{caption} or {other}?")
    metric = Judge(str(llava), mode="pairwise", prompt=str(path))
    stats = metric.stats(samples, None)
    assert stats.notes["questions asked"] == 8  # four references, both orders
    assert ((stats.rows > 0) & (stats.rows < 1)).all()
    told = metric.explain(samples[0], None)
    assert set(told.data["answers"]) <= {"A", "B"}


def test_a_local_model_that_is_not_there(samples, tmp_path):
    with pytest.raises(CaptiousError, match="not on this machine"):
        captious.score(
            TEXTS, images=samples.images.tolist(), metrics=["judge(model='nobody/llava-0b')"]
        )
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match="vision-language"):
        Judge(str(tmp_path)).stats(samples[:1], None)
    with pytest.raises(UsageError, match="dtype"):
        Judge(str(tmp_path), dtype="float8")
