"""The backbones' own classes as labels: the arithmetic, the table of words, the real backbones."""

from pathlib import Path

import numpy as np
import pytest

from captious.errors import InputError
from captious.evidence.detect import IMAGENET, IMAGENET_THRESHOLD, default_threshold
from captious.evidence.imagenet_detector import ImageNetDetector
from captious.evidence.imagenet_words import IMAGENET_WORDS
from captious.evidence.regions import RegionSet

POODLES, TABBY, TRILOBITE = (265, 266), 281, 69


def detector():
    """Two heads of three channels: poodles, a tabby cat, and a class without a word."""
    weights = np.full((1000, 3), -50.0, np.float32)
    weights[POODLES, 0] = [10.0, 10.0 + np.log(0.75)]
    weights[TABBY, 1] = 10.0
    weights[TRILOBITE, 2] = 10.0
    return ImageNetDetector([(weights, np.zeros(1000, np.float32))] * 2, "toy")


def regions(*channels):
    features = np.zeros((len(channels), 6), np.float16)
    for row, channel in enumerate(channels):
        features[row, [channel, channel + 3]] = 1.0
    boxes = np.array([[10 * k, 0, 10 * k + 10, 10] for k in range(len(channels))], np.float32)
    return RegionSet(features, boxes, 100, 50)


def test_classes_of_one_word_add_up_and_the_best_region_is_its_place():
    [dog, cat] = detector().words(regions(1, 0, 2), 0.5)
    assert {dog.label: dog.box, cat.label: cat.box} == {
        "dog": (10, 0, 20, 10),
        "cat": (0, 0, 10, 10),
    }
    likely = detector().probabilities(regions(0).features)
    known = detector().words_known
    assert likely[0, known.index("dog")] == pytest.approx(1.0, abs=1e-6)  # 4/7 and 3/7


def test_a_class_without_a_word_gives_no_label():
    assert TRILOBITE not in IMAGENET_WORDS
    assert detector().words(regions(2), 0.1) == []


def test_features_of_other_backbones_are_refused():
    wrong = RegionSet(np.zeros((1, 5), np.float16), None, 10, 10)
    with pytest.raises(InputError, match="length 6 are expected"):
        detector().words(wrong)


def test_the_table_knows_some_landmarks_of_the_challenge():
    landmarks = {0: "fish", 7: "rooster", 207: "dog", 268: "dog", 269: "wolf", 281: "cat",
                 340: "zebra", 386: "elephant", 404: "airplane", 620: "laptop", 779: "bus",
                 920: "traffic light", 954: "banana", 963: "pizza", 985: "flower",
                 999: "toilet paper"}  # fmt: skip
    assert {number: IMAGENET_WORDS[number] for number in landmarks} == landmarks
    assert all(0 <= number < 1000 for number in IMAGENET_WORDS)
    assert sum(word == "dog" for word in IMAGENET_WORDS.values()) == 121


def test_every_word_of_the_table_has_a_vector():
    from captious.errors import CaptiousError
    from captious.text.vectors import DEFAULT, open_vectors

    try:
        vectors = open_vectors(DEFAULT)
    except CaptiousError:
        pytest.skip("the word vectors are not installed")
    words = sorted({part for word in IMAGENET_WORDS.values() for part in word.split()})
    rows = vectors.rows(words)
    assert [word for word, row in zip(words, rows, strict=True) if row < 0] == []


def test_the_threshold_is_its_own():
    assert default_threshold(IMAGENET) == IMAGENET_THRESHOLD


def test_the_backbones_name_the_demo_cat():
    pytest.importorskip("efficientnet_lite_pytorch")
    from captious import demo
    from captious.errors import MissingAsset
    from captious.evidence.detect import load_detector
    from captious.evidence.images import open_image

    try:
        named = load_detector(IMAGENET)
    except MissingAsset:
        pytest.skip("the backbones are not installed")
    picture = open_image(Path(demo.__file__).parent / "photos" / "cat.jpg")
    found = named.detect(picture, 0.3)
    assert found[0].label == "cat"
    assert found[0].score > 0.5
