"""CHAIR: the table of words, counts by hand, and the captioners of COCO."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow.parquet as pq
import pytest

import captious
from captious import registry
from captious.engine import evidence
from captious.errors import InputError, UsageError
from captious.evidence import image_lists
from captious.evidence.classes import COCO
from captious.metrics.chair import Chair
from captious.text import object_words
from captious.types import CaptionSet, Need, Sample


def named(text: str) -> list[tuple[str, str]]:
    return [(m.phrase, m.name) for m in object_words.coco().mentions(text)]


def test_the_table_covers_the_classes():
    table = object_words.coco()
    assert set(table.classes) == set(COCO.values())
    for name in table.classes:
        synonyms = {phrase for phrase, meant in table.phrases.items() if meant == name}
        assert table.of_label(name) == name
        assert len(synonyms) >= 2, name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a hot dog and a dog", [("hot dog", "hot dog"), ("dog", "dog")]),
        ("two men wait at the train station", [("men", "person")]),
        ("a train on the train tracks", [("train", "train")]),
        ("a baby elephant beside a polar bear", [("baby elephant", "elephant"),
                                                ("polar bear", "bear")]),
        ("teddy bears on a couch", [("teddy bears", "teddy bear"), ("couch", "couch")]),
        ("a toilet with its seat up and toilet paper", [("toilet", "toilet")]),
        ("a seat in a cafe", [("seat", "chair")]),
        ("an orange cat", [("cat", "cat")]),
        ("an orange and white cat", [("cat", "cat")]),
        ("an orange on a plate", [("orange", "orange")]),
        ("oranges, apples; knives!", [("oranges", "orange"), ("apples", "apple"),
                                      ("knives", "knife")]),
        ("a glass of wine", [("glass of wine", "wine glass")]),
        ("a bus stop with a man's bike", [("man", "person"), ("bike", "bicycle")]),
        ("the catcher's mitt", [("catcher mitt", "baseball glove")]),
    ],
)  # fmt: skip
def test_phrases(text, expected):
    assert named(text) == expected


def samples(caption: str, objects: list[str], references: list[str] | None = None) -> CaptionSet:
    return CaptionSet.of(
        [Sample("1", caption, tuple(references or ()), "1", objects=tuple(objects))]
    )


def values(metric: Chair, given: CaptionSet) -> list[float]:
    return metric.scores(metric.stats(given, None).rows)[0].tolist()


def test_the_worked_example():
    given = samples("a man and his dog on a horse", ["person", "horse"])
    assert values(Chair(), given) == pytest.approx([1, 1 / 3, 1, 0.8])


def test_references_count_as_present():
    given = samples("a man and his dog on a horse", ["person", "horse"], ["a puppy"])
    assert values(Chair(), given)[0] == 0
    assert values(Chair(references=False), given)[0] == 1


def test_references_alone_say_what_is_there_where_nobody_labelled():
    samples = CaptionSet.build(["a man and a dog"], [["a man on a horse"]])
    assert np.isnan(Chair().stats(samples, None).rows).all()
    metric = Chair(objects=False)
    assert metric.needs == {Need.REFERENCES}
    found = metric.scores(metric.stats(samples, None).rows)[0]
    assert found[:3].tolist() == [1, 0.5, 0.5]
    assert "dog" in metric.explain(samples[0], None).text.splitlines()[0]
    assert "objects:no" in metric.signature("1", None, samples.evidence)
    labelled = CaptionSet.build(["a dog"], [["a man"]], images=["1"], objects=[["dog"]])
    assert metric.stats(labelled, None).rows[0, 0] == 1  # the label is not read
    with pytest.raises(UsageError, match="references or both"):
        Chair(objects=False, references=False)


def test_an_image_without_objects():
    found = values(Chair(), samples("a dog", []))
    assert found[:2] == [1, 1]
    assert np.isnan(found[2:]).all()


def test_corpus_values_divide_sums():
    metric = Chair()
    given = CaptionSet.build(
        ["a dog and a cat", "a man", "nothing here"],
        images=["1", "2", "3"],
        objects=[["dog"], ["person", "car"], ["bus"]],
    )
    found = metric.aggregate(metric.stats(given, None).rows)
    assert found[:3] == pytest.approx([1 / 3, 1 / 3, 2 / 4])
    assert found[3] == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))


def test_cut_captions_and_strange_labels_are_counted():
    given = samples("a man riding a horse with a", ["person", "zeppelin"])
    notes = Chair().stats(given, None).notes
    assert notes == {
        "captions that seem cut off (what they would have named is not counted)": 1,
        "captions whose image has a label outside the table": 1,
    }


def test_labels_of_other_sources_are_understood():
    given = samples("a couch, a table and a tv", ["Sofa", "diningtable", "tvmonitor"])
    assert values(Chair(), given)[:3] == [0, 0, 1]


def test_a_table_of_ones_own(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("tiger, tigress\nlion, big cat\n- lion king\n")
    metric = Chair(table=str(path))
    given = samples("a tigress watches the lion king with big cats", ["tiger"])
    assert values(metric, given)[:2] == [1, 0.5]
    assert "table:words.txt-" in metric.signature("0", None)
    assert registry.create(registry.text_form(metric)) == metric
    path.write_text("tiger, cat\nlion, cat\n")
    with pytest.raises(InputError, match="stands for"):
        values(metric, given)
    path.write_text("- cat\n")
    with pytest.raises(InputError, match="names no class"):
        values(metric, given)
    with pytest.raises(InputError, match="no file"):
        Chair(table=str(tmp_path / "absent.txt"))


def test_a_list_of_images(tmp_path):
    path = tmp_path / "test-images.txt"
    path.write_text("1\n")
    metric = Chair(images=str(path))
    given = CaptionSet.build(["a dog", "a dog"], images=["1", "2"], objects=[["dog"], ["dog"]])
    stats = metric.stats(given, None)
    assert list(stats.reasons) == [1]
    assert "test-images.txt" in stats.reasons[1]
    assert "images:test-images.txt-1-" in metric.signature("0", None)
    before = metric.signature("0", None)
    path.write_text('{"image_id": 2}\n{"image_id": 3}\n')
    os.utime(path, (1, 1))  # a coarse clock must not hide the change
    assert "images:test-images.txt-2-" in metric.signature("0", None) != before
    assert list(metric.stats(given, None).reasons) == [0]
    path.write_text('[{"name": "x"}]')
    os.utime(path, (2, 2))
    with pytest.raises(InputError, match="names no image"):
        metric.stats(given, None)


def test_images_by_the_name_of_a_list(shared):
    given = CaptionSet.build(
        ["a dog"] * 3,
        images=["COCO_val2014_000000000042.jpg", "000000000043.jpg", "beach.jpg"],
        objects=[["dog"]] * 3,
    )
    metric = Chair(images="karpathy-test")
    assert list(metric.stats(given, None).reasons) == [1, 2]
    assert "images:karpathy-test-5000-" in metric.signature("0", None)
    ours = {int(k) for k in image_lists.load("karpathy-test").keys}
    assert ours == _numbers(shared)
    with pytest.raises(UsageError, match="karpathy-test"):
        Chair(images="karpathy-tset")


def _numbers(shared) -> set[int]:
    table = pq.read_table(shared / "data/coco/karpathy_test_systems.parquet")
    return {int(number) for number in table["image_id"].to_pylist()}


def test_it_says_which_word_is_wrong():
    given = samples("a puppy on a motorbike", ["motorcycle", "person"])
    told = Chair().explain(given[0], None)
    assert "not there: puppy (dog)" in told.text
    assert "not named: person" in told.text
    assert told.data["mentions"][0] == {"phrase": "puppy", "object": "dog", "there": False}


def test_coco_instances_through_the_engine(tmp_path):
    content = {
        "images": [{"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"image_id": 7, "category_id": 18, "bbox": [0, 0, 5, 5]}],
    }
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(content))
    given = evidence.given(CaptionSet.build(["a dog, a cat"], images=["7"]), [path])
    table = captious.score(["a dog, a cat"], images=["7"], objects=path, metrics=["chair"])
    assert list(table.columns) == ["chair_s", "chair_i", "chair_recall", "chair_f1"]
    assert values(Chair(), given)[:3] == [1, 0.5, 1]


def test_a_captioner_hallucinates_more_than_people(shared):
    """All of val2014; `python benchmarks/chair.py` has all nine captioners and the speed."""
    folder = shared / "data" / "coco"
    objects = pq.read_table(folder / "val2014_objects.parquet").to_pydict()
    labels = dict(zip(map(str, objects["image_id"]), map(tuple, objects["objects"]), strict=True))
    systems = pq.read_table(folder / "val2014_systems.parquet").to_pydict()
    people = pq.read_table(folder / "val2014_captions.parquet").to_pydict()
    images = [str(i) for i in systems["image_id"]]
    assert images == [str(i) for i in people["image_id"]]

    def corpus(captions: list[str]) -> np.ndarray:
        given = CaptionSet.build(captions, images=images).with_labels(labels)
        return Chair().aggregate(Chair().stats(given, None).rows)

    own = corpus([texts[0] for texts in people["captions"]])
    machine = corpus(systems["Vinyals-et-al-2017"])
    assert own[0] < machine[0]
    assert 0.05 < machine[1] < 0.25
