"""noun_support: matching by hand, the noun it names, and nocaps-FOIL."""

from __future__ import annotations

import numpy as np
import pytest

from captious.errors import UsageError
from captious.metrics.noun_support import NounSupport, _Space
from captious.types import CaptionSet, Need, Sample


def samples(caption: str, references: list[str], objects: list[str] | None = None) -> CaptionSet:
    held = None if objects is None else tuple(objects)
    return CaptionSet.of([Sample("1", caption, tuple(references), "1", objects=held)])


def test_the_least_supported_noun_decides():
    metric = NounSupport()
    given = samples("A dog with a kite.", ["The dogs play with a ball on the grass."])
    whole, least, mean = metric.stats(given, None).rows[0]
    values, partners = _Space(metric).matched(["dog", "kite"], ["dog", "ball", "grass"])
    assert values[0] == 1.0
    assert partners[0] == "dog"
    assert least == values[1]
    assert mean == pytest.approx(values.mean())
    assert whole == pytest.approx(0.9 * least + 0.1 * mean)
    told = metric.explain(given[0], None)
    assert told.data["least"] == "kite"
    assert "Least supported: kite" in told.text


def test_a_supporting_noun_serves_once():
    values, partners = _Space(NounSupport()).matched(["dog", "puppy"], ["dog"])
    assert values.tolist() == [1.0, 0.0]
    assert partners == ["dog", ""]


def test_synonyms_support():
    values, _ = _Space(NounSupport()).matched(["couch"], ["sofa", "car"])
    assert values[0] >= 0.95


def test_labels_support_where_they_are_asked_for():
    given = samples("a zebra", ["an animal in the grass"], ["zebra"])
    alone = NounSupport().stats(given, None).rows[0, 1]
    both = NounSupport(objects=True)
    assert both.needs == {Need.REFERENCES, Need.IMAGE_OBJECTS}
    assert alone < both.stats(given, None).rows[0, 1] == 1.0
    only = NounSupport(references=False, objects=True)
    assert only.needs == {Need.IMAGE_OBJECTS}
    assert only.stats(given, None).rows[0, 0] == 1.0
    with pytest.raises(UsageError, match="references, objects or both"):
        NounSupport(references=False)


def test_a_caption_that_names_nothing():
    stats = NounSupport().stats(samples("very beautiful", ["a dog"]), None)
    assert np.isnan(stats.rows).all()
    assert "no noun" in stats.reasons[0]


def test_nocaps_foil(shared):
    """300 of the 2,500 pairs; benchmarks/noun_support.py runs all."""
    from captious.judgements import sets

    whole = sets.load_ratings("nocaps-foil", shared / "data")
    rows = np.arange(600)
    scores = NounSupport().stats(whole.samples.take(rows), None).rows[:, 0]
    right, wrong = scores[0::2], scores[1::2]
    assert (right > wrong).mean() >= 0.8
