"""scene_match: the worked example, long captions, what is cut."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from captious.errors import UsageError
from captious.metrics.scene_match import SENTENCES, SceneMatch
from captious.types import CaptionSet


def values(caption: str, *references: str, metric: SceneMatch | None = None) -> list[float]:
    metric = metric or SceneMatch()
    stats = metric.stats(CaptionSet.build([caption], [references]), None)
    return metric.scores(stats.rows)[0].tolist()


def test_the_worked_example():
    found = values("a brown dog", "a brown dog in a park", metric=SceneMatch(soft=1.0))
    assert found == pytest.approx([(5 * 2 / 3 + 5) / 12, 2 / 3, 1, 0, 0.5], abs=1e-9)


def test_words_that_name_nothing_are_dropped():
    plain = values("a dog on the beach", "a dog on the beach")
    wordy = values("The image shows a dog on the beach.", "a dog on the beach")
    assert plain[0] == pytest.approx(1.0)
    assert wordy[1] == pytest.approx(1.0)


def test_soft_matches_count_half_their_cosine():
    assert 0.3 <= values("a dog", "a cat")[1] <= 0.5
    assert values("a dog", "a cat", metric=SceneMatch(soft=1.0))[1] == 0
    assert values("a couch", "a sofa", metric=SceneMatch(soft=1.0))[1] == 1
    with pytest.raises(UsageError, match="soft"):
        SceneMatch(soft=0.0)


def test_sentences_are_read_one_by_one():
    caption = "A man rides a horse. A brown dog runs beside them. The sky is blue."
    references = ("a man on a horse", "a dog runs")
    told = SceneMatch().explain(CaptionSet.build([caption], [references])[0], None)
    assert len(told.data["sentences"]) == 3
    assert "dog" in told.data["sentences"][1]["supported"]
    assert any("sky" in words for words in told.data["sentences"][2]["unsupported"])


def test_every_sentence_is_scored_and_what_none_mentions_is_listed():
    caption = "A man and a brown dog. The sky is blue. Wonderful!"
    references = ("a man with a dog", "a tree")
    metric = SceneMatch(soft=1.0)
    told = metric.explain(CaptionSet.build([caption], [references])[0], None)
    first, second, third = told.data["sentences"]
    # Both objects are there, the attribute is not: 5 x 1 and 5 x 0 over the kinds it states.
    assert first["score"] == pytest.approx(0.5)
    assert first["coverage"] == pytest.approx(2 / 3)
    assert first["unsupported"] == ["dog brown"]
    assert (second["score"], second["coverage"]) == (0, 0)
    assert (third["score"], third["coverage"]) == (None, 0)  # it names nothing
    assert told.data["missing"] == ["tree"]
    assert "Not mentioned: tree." in told.text
    (drawn,) = told.parts
    marked = {node.name: node.matched for node in drawn.caption.objects}
    assert marked == {"man": True, "dog": True, "sky": False}
    assert {n.name: n.matched for n in drawn.references.objects}["tree"] is False


def test_what_is_nearly_right_is_told_apart():
    told = SceneMatch().explain(CaptionSet.build(["a dog"], [["a cat"]])[0], None)
    assert told.data["sentences"][0]["nearly"] == ["dog"]
    assert told.data["missing"] == []


def test_what_is_cut_is_counted():
    text = "A dog runs. " * (SENTENCES + 50)
    stats = SceneMatch().stats(CaptionSet.build([text], [["a dog"]]), None)
    assert stats.notes == {f"captions of which {SENTENCES} sentences were read": 1}


def test_long_captions_gain_by_what_they_say(shared, bounded):
    """LLaVA's 50 words cover more than its brief answers; 500 words are scored, too."""
    table = pq.read_table(shared / "data" / "coco" / "karpathy_test_systems.parquet").slice(0, 150)
    rows = table.to_pydict()

    def coverage(system: str) -> float:
        metric = SceneMatch()
        samples = CaptionSet.build(rows[system], rows["references"])
        return float(metric.aggregate(metric.stats(samples, None).rows)[4])

    assert coverage("llava15_default") > coverage("llava15_briefly")
    long = " ".join(rows["llava15_default"][:10])
    assert len(long.split()) > 400
    assert np.isfinite(values(long, *rows["references"][0])[0])
