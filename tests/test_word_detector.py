"""The word detector: its arithmetic, its trainer, its place among the sources of labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import captious
from captious.cli import main
from captious.errors import InputError, UsageError
from captious.evidence.detect import WORDS, Detection, load_detector, without_rivals
from captious.evidence.regions import MemoryRegions, RegionSet, save_regions

pytest.importorskip("safetensors")

from captious.evidence import label_sources, word_detector

PHOTOS = Path(captious.__file__).parent / "demo/photos"
THINGS = ["dog", "cat", "bus", "boat"]


def toy(folder: Path) -> list[str]:
    """Photographs of four regions, one of which shows a thing; the captions name it."""
    draw = np.random.default_rng(0)
    looks = draw.normal(size=(4, 24)) * 2
    boxes = np.array([[0, 0, 20, 10], [0, 0, 10, 10], [10, 0, 20, 10], [5, 0, 15, 10]], np.float32)
    sets, lines, names = {}, [], []
    for copy in range(24):
        for number, thing in enumerate(THINGS):
            name = f"{thing}-{copy}.jpg"
            features = draw.normal(size=(4, 24)) * 0.3
            features[1 + copy % 2] += looks[number]
            sets[name] = RegionSet(features.astype(np.float16), boxes, 20, 10)
            names.append(name)
            lines += [f"{name}#0\ta {thing} is here", f"{name}#1\ttwo {thing}s near a street"]
    save_regions(MemoryRegions(sets, "toy/v1"), folder / "regions")
    (folder / "captions.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "train.txt").write_text("\n".join(names[:80]))
    (folder / "dev.txt").write_text("\n".join(names[80:]))
    return names


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("spacy")
    from captious.training.scan_run import Sources
    from captious.training.words import WordOptions, train

    folder = tmp_path_factory.mktemp("words")
    names = toy(folder)
    sources = Sources(
        folder / "captions.txt", folder / "regions", None, folder / "train.txt", folder / "dev.txt"
    )
    options = WordOptions(
        words=6, steps=150, images=32, inner=16, learning_rate=1e-2, warmup=5, whitened=16,
        validate=75,
    )  # fmt: skip
    entries = []
    train(sources, options, folder / "model", entries.append)
    return folder, names, entries


def test_it_learns_nouns_and_counts_plurals_as_their_singular(made):
    folder, _, entries = made
    facts = json.loads((folder / "model/config.json").read_text())
    assert set(THINGS) < set(facts["words"])
    assert "dogs" not in facts["words"]
    assert entries[-1]["mean_ap"] > 0.9
    assert entries[-1]["loss"] < entries[0]["loss"]


def test_it_finds_the_thing_and_its_place(made):
    from captious.evidence.regions import RegionFolder

    folder, names, _ = made
    store = RegionFolder(folder / "regions")
    detector = word_detector.load(str(folder / "model"))
    right = place = 0
    for name in names[80:]:
        best = next(one for one in detector.words(store[name], 0.0) if one.label in THINGS)
        right += best.label == name.partition("-")[0]
        left = 10.0 * (int(name.partition("-")[2].partition(".")[0]) % 2)
        place += best.box == (left, 0.0, left + 10.0, 10.0)
    assert right == len(names[80:])
    assert place >= 0.8 * len(names[80:])


def test_features_of_another_kind_are_refused(made):
    folder, _, _ = made
    detector = word_detector.load(str(folder / "model"))
    other = RegionSet(np.zeros((4, 7), np.float16), None, 20, 10)
    with pytest.raises(InputError, match="length 24"):
        detector.words(other)


def test_a_folder_is_a_detector_by_its_name(made):
    folder, _, _ = made
    assert load_detector(str(folder / "model")).name == "model"
    with pytest.raises(UsageError, match="fixed words"):
        load_detector(str(folder / "model"), "dog,cat")


def test_damaged_weights_are_reported(made, tmp_path):
    folder, _, _ = made
    facts = json.loads((folder / "model/config.json").read_text())
    facts["words"] = facts["words"][:-1]
    (tmp_path / "config.json").write_text(json.dumps(facts))
    (tmp_path / "model.safetensors").write_bytes((folder / "model/model.safetensors").read_bytes())
    with pytest.raises(InputError, match="do not match"):
        word_detector.load(str(tmp_path))


def test_rivals_for_one_place_and_neighbours():
    bear = Detection("bear", 0.87, (0, 0, 100, 100))
    dog = Detection("dog", 0.75, (2, 2, 100, 100))
    second = Detection("bear", 0.6, (1, 0, 100, 100))
    rider = Detection("person", 0.5, (20, 0, 60, 80))
    assert without_rivals([bear, dog, second, rider]) == [bear, second, rider]


def lacking() -> None:
    gone = [str(error) for name in label_sources.NAMES for error in label_sources.lacks(name)]
    if gone:
        pytest.skip(gone[0])


def test_every_demo_photograph_has_labels(cache):
    """The detector alone finds nothing in some of them."""
    lacking()
    photographs = {path.name: path for path in sorted(PHOTOS.glob("*.jpg"))}
    labels, problems = label_sources.seen(photographs, label_sources.available())
    assert not problems
    assert set(labels.by_image) == set(photographs)
    assert all(labels.by_image.values())
    assert "cat" in labels.by_image["cat.jpg"]
    assert "ssd-mobilenet-v2-coco" in labels.source
    assert WORDS in labels.source
    for image, places in labels.places.items():
        assert {place.label for place in places} == set(labels.by_image[image])


def test_a_photograph_that_cannot_be_opened_is_named(tmp_path, cache):
    lacking()
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    given = {"bad": bad, "cat": PHOTOS / "cat.jpg"}
    for sources in ((WORDS,), label_sources.NAMES):
        labels, problems = label_sources.seen(given, sources)
        assert list(labels.by_image) == ["cat"]
        assert "bad.jpg" in problems[0]


def test_the_command_line_writes_words_with_boxes(tmp_path, cache, capsys):
    lacking()
    import pyarrow.parquet as pq

    out = tmp_path / "words.parquet"
    assert main(["detect", str(PHOTOS / "cat.jpg"), "--detector", WORDS, "-o", str(out), "-q"]) == 0
    rows = pq.read_table(out).to_pylist()
    assert "cat" in {row["label"] for row in rows}
    assert all(row["right"] > row["left"] for row in rows)


def test_vifidel_shows_the_photograph_beside_the_flow(tmp_path, cache, capsys):
    lacking()
    out = tmp_path / "why.svg"
    args = ["explain", "-m", "vifidel", "-c", "a cat looks", "--image", str(PHOTOS / "cat.jpg")]
    assert main([*args, "-o", str(out), "-q"]) == 0
    drawn = out.read_text("utf-8")
    assert "what was seen" in drawn
    assert "data:image/jpeg" in drawn
    assert "objects in the image" in drawn
