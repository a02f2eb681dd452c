"""The judge against a stub service: smoothing, storing, replaying, refusing."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import captious
from captious.demo import photographs
from captious.errors import CaptiousError, InputError, UsageError
from captious.metrics.judge import Judge
from captious.models import judge_answers
from captious.models.judge_answers import Answer, smoothed
from captious.types import CaptionSet
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


def test_ratings_without_probabilities_stand_as_written():
    assert smoothed(Answer("0.8", (("0.8", {"0.8": 0.9}),))) == (0.8, False)
    assert smoothed(Answer("Rating: 0.7")) == (0.7, False)
    assert smoothed(Answer("7 of 10")) == (None, False)
    assert smoothed(Answer("10.5")) == (None, False)


def test_fleur_raw_and_smoothed_fit_the_formula(shared):
    """Released scores: of a rating below 1 at most 0.99, never far from the written rating."""
    table = pq.read_table(shared / "data" / "fleur" / "flickr8k_expert.parquet")
    raw, smooth = (table[name].to_numpy() for name in ("raw", "smoothed"))
    assert ((smooth >= 0) & (smooth <= 1.0005)).all()
    assert smooth[raw < 1].max() <= 0.99
    assert np.abs(raw - smooth).mean() < 0.1
    assert np.corrcoef(raw, smooth)[0, 1] > 0.9


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
