"""Two configurations that give different numbers never share a signature: the companions."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import tiny_models
from captious import registry
from captious.demo import photographs
from captious.engine import evidence
from captious.errors import InputError, UsageError
from captious.metrics.base import Metric
from captious.metrics.clipscore import ClipScore, RefClipScore
from captious.metrics.judge import Judge
from captious.metrics.pac_s import PacS, RefPacS
from captious.models import dual_encoder
from captious.models.model_folder import revision, settings_sha
from captious.models.pixels import Pixels
from captious.text import document_frequency
from captious.types import CaptionSet
from conftest import COMPANIONS

OTHER = {
    "images": "karpathy-test", "tokenizer": "13a", "by": "row", "endpoint": "http://localhost:1/v1",
    "mode": "pairwise", "dtype": "bfloat16", "profile": "release", "df": "coco-val",
}  # fmt: skip

# Without references it needs objects; the built-in table of frequencies is of one tokeniser.
_REFUSED = {("noun_support", "references"), ("diversity", "tokenizer")}


def values(metric, samples) -> np.ndarray:
    return metric.scores(metric.stats(samples, metric.prepare(samples)).rows)


def signature(metric, samples) -> str:
    return metric.signature("1", metric.prepare(samples), samples.evidence)


@pytest.fixture
def samples() -> CaptionSet:
    return CaptionSet.build(
        ["a tiger near a red sofa", "a big dog", "a red dog runs"],
        [["a cat on a couch", "a dog"], ["a dog runs"], ["a dog runs", "a bus"]],
        images=["1", "2", "2"], objects=[["cat", "couch"], ["dog"], ["dog"]],
    )  # fmt: skip


def in_own_folders(tmp_path: Path, name: str, *contents: str) -> list[str]:
    """Files of one name: a signature that says the name only would confuse them."""
    paths = [tmp_path / str(number) / name for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.parent.mkdir()
        path.write_text(content)
    return [str(path) for path in paths]


@pytest.mark.parametrize("name", COMPANIONS)
def test_every_companion_is_complete(name):
    """Profile, explanation, data card, page, and what was not verified; test_contract has all."""
    kind = registry.load(name)
    page = (Path(__file__).parent.parent / f"docs/metrics/{name}.md").read_text()
    said = " ".join((sys.modules[kind.__module__].__doc__ or "").split())
    # A parameter where paper and release differ; a sentence that says why there is none otherwise.
    assert ("profile" in {field.name for field in fields(kind)}) != ("no ``profile``" in said)
    assert "**Not verified here**" in said or "**not verified here**" in said
    assert kind.explain is not Metric.explain
    card = kind().data_card()
    assert any("icence" in line or "captious" in line for line in card)
    assert any(line.startswith("trap: ") for line in card)
    assert all(line in page for line in card)


@pytest.mark.parametrize("name", ["noun_support", "scene_match", "cider_r", "diversity", "chair"])
def test_every_parameter_is_signed(name, samples, tmp_path):
    metric = registry.load(name)()
    before = signature(metric, samples)
    for field in fields(metric):
        old = getattr(metric, field.name)
        new = OTHER.get(field.name)
        if isinstance(old, bool):
            new = not old
        elif isinstance(old, float):
            new = old + 1e-9  # differs, if little: so does the number
        elif field.name == "profile" and old == "release":
            new = "paper"
        if new is None or new == old or (name, field.name) in _REFUSED:
            continue
        changed = registry.load(name)(**{field.name: new})
        assert signature(changed, samples) != before, field.name


def test_tables_of_one_name_are_told_apart_by_content(samples, tmp_path):
    tables = in_own_folders(
        tmp_path, "words.txt", "cat, tiger\ndog\ncouch, sofa", "cat\ndog\ntiger"
    )
    metrics = [registry.load("chair")(table=path) for path in tables]
    assert not np.array_equal(*(values(m, samples) for m in metrics), equal_nan=True)
    assert len({signature(m, samples) for m in metrics}) == 2


def test_lists_of_one_name_are_told_apart_by_content(samples, tmp_path):
    lists = in_own_folders(tmp_path, "images.txt", "1\n", "2\n")
    metrics = [registry.load("chair")(images=path) for path in lists]
    assert not np.array_equal(*(values(m, samples) for m in metrics), equal_nan=True)
    assert len({signature(m, samples) for m in metrics}) == 2


@pytest.mark.parametrize("spec", ["chair", "noun_support(objects=True)"])
def test_labels_of_one_name_are_told_apart_by_content(spec, samples, tmp_path):
    """The same labels in a file of another layout are the same evidence."""
    labels = {"1": ["cat", "couch"], "2": ["dog"]}
    others = {"1": ["bus", "tiger"], "2": ["dog"]}
    again = json.dumps(dict(reversed(labels.items())), indent=3)
    texts = json.dumps(labels), json.dumps(others), again
    files = in_own_folders(tmp_path, "labels.json", *texts)
    metric = registry.create(spec)
    seen = [evidence.labelled(samples.without_labels(), [Path(file)]) for file in files]
    first, second, third = (signature(metric, held) for held in seen)
    assert not np.array_equal(values(metric, seen[0]), values(metric, seen[1]), equal_nan=True)
    assert first != second
    assert first == third
    assert "objects:labels.json(" in first


@pytest.mark.parametrize("name", ["noun_support", "scene_match"])
def test_vectors_of_one_name_are_told_apart_by_content(name, samples, tmp_path):
    near = "tiger 1 0\ncat 1 0.1\nsofa 0 1\ncouch 0 1\ndog 0.5 0.5\n"
    files = in_own_folders(tmp_path, "v.txt", near, near.replace("tiger 1 0", "tiger 0 -1"))
    metrics = [registry.load(name)(vectors=path) for path in files]
    assert not np.array_equal(*(values(m, samples) for m in metrics), equal_nan=True)
    assert len({signature(m, samples) for m in metrics}) == 2


@pytest.mark.parametrize("name", ["cider_r", "diversity"])
def test_frequencies_of_one_name_are_told_apart_by_content(name, samples, tmp_path):
    paths = [tmp_path / number / "df.npz" for number in "12"]
    for path, counted in zip(
        paths, (["a dog", "a bus"], ["a dog", "a big dog", "no"]), strict=True
    ):
        path.parent.mkdir()
        held = CaptionSet.build([""] * len(counted), [[text] for text in counted])
        document_frequency.count(held, "ptb", False, "row").save(path)
    metrics = [registry.load(name)(df=str(path)) for path in paths]
    assert not np.array_equal(*(values(m, samples) for m in metrics), equal_nan=True)
    assert len({signature(m, samples) for m in metrics}) == 2


def test_texts_in_a_signature_cannot_pass_for_other_parts():
    one = ClipScore(prefix="A", weights="x|weights:").parameters()
    two = ClipScore(prefix="A|weights:x", weights="").parameters()

    def told(parameters) -> str:
        from captious.metrics.base import _plain

        return "|".join(f"{key}:{_plain(value)}" for key, value in parameters.items())

    assert told(one) != told(two)
    assert "\n" not in told(ClipScore(prefix="A\nB").parameters())


# -- models -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save_clip(tmp_path_factory.mktemp("clip") / "tiny")


@pytest.fixture
def looked(cache) -> CaptionSet:
    named = [str(path) for path in photographs()[:3]]
    made = CaptionSet.build(
        ["a dog on the beach", "", "A MAN"], [["a cat"], ["a dog"], ["the street"]], images=named
    )
    return evidence.complete(made, [ClipScore()])


def changed(folder: Path, tmp_path: Path, file: str, change) -> Path:
    """A copy of a model's folder, of the same name, with one small file changed."""
    copy = tmp_path / file / folder.name
    shutil.copytree(folder, copy)
    facts = json.loads((copy / file).read_text())
    change(facts)
    (copy / file).write_text(json.dumps(facts))
    return copy


def another_activation(facts) -> None:
    facts["vision_config"]["hidden_act"] = facts["text_config"]["hidden_act"] = "relu"


def other_pieces(facts) -> None:
    pieces = facts["model"]["vocab"]
    pieces["dog</w>"], pieces["beach</w>"] = pieces["beach</w>"], pieces["dog</w>"]


def a_smaller_cut(facts) -> None:
    facts["size"] = {"shortest_edge": 64}


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config.json", another_activation),
        ("tokenizer.json", other_pieces),
        ("preprocessor_config.json", a_smaller_cut),
    ],
)
def test_what_stands_beside_the_weights_is_signed(folder, tmp_path, looked, file, change):
    """And vectors of photographs that another configuration made are not taken from the cache."""
    metric, other = ClipScore(str(folder)), ClipScore(str(changed(folder, tmp_path, file, change)))
    assert not np.array_equal(metric._pairs(looked).image, other._pairs(looked).image)
    parts = [signature(m, looked).replace(m.model, "FOLDER").split("|") for m in (metric, other)]
    assert parts[0] != parts[1]


def test_the_signature_names_model_settings_pictures_type_and_length(folder, looked):
    said = dict(p.partition(":")[::2] for p in signature(ClipScore(str(folder)), looked).split("|"))
    assert said["model"] == str(folder)
    assert said["revision"] == "folder"
    assert said["settings"] == settings_sha(folder)
    assert said["preprocessing"].startswith(f"{tiny_models.SIDE}-")
    assert said["dtype"] == "float32"
    assert said["cut"] == str(tiny_models.CONTEXT)
    assert said["profile"] == "paper"


def test_who_wrote_a_configuration_does_not_matter(folder, tmp_path):
    def rewritten(facts) -> None:
        facts["transformers_version"] = "4.40.0"

    assert settings_sha(changed(folder, tmp_path, "config.json", rewritten)) == settings_sha(folder)


def test_the_revision_of_the_hub(tmp_path):
    place = tmp_path / "snapshots" / ("3d74acf9" * 5)
    place.mkdir(parents=True)
    assert revision(place) == "3d74acf93d74"


def test_the_release_profile_does_as_the_released_program(folder, looked, tmp_path, monkeypatch):
    """Empty captions are the bare prefix, negative cosines stay, EXIF marks are ignored."""
    from PIL import Image

    paper, release = RefClipScore(str(folder)), RefClipScore(str(folder), profile="release")
    assert np.isnan(values(paper, looked)[1, 0])
    assert np.isfinite(values(release, looked)[1, 0])
    turned = tmp_path / "turned.jpg"
    picture = Image.open(photographs()[0])
    mark = picture.getexif()
    mark[0x0112] = 6
    picture.save(turned, exif=mark)
    given = CaptionSet.build(["a dog"], [["a cat"]], images=[str(turned)])
    scores = [
        values(ClipScore(str(folder), profile=p), evidence.complete(given, [ClipScore()]))[0, 0]
        for p in ("paper", "release", "paper")
    ]
    assert scores[0] == scores[2] != scores[1]
    pairs = type("Pairs", (), {"image": np.array([0.4]), "reference": np.array([-0.2])})
    assert paper._values(pairs).tolist() == [0.0]
    [value] = release._values(pairs).tolist()
    assert value == pytest.approx(2 * 1.0 * -0.2 / (1.0 - 0.2))
    assert signature(paper, looked) != signature(release, looked)
    for kind in (ClipScore, RefClipScore, PacS, RefPacS):
        with pytest.raises(UsageError, match="profile is"):
            kind(profile="best")


def test_settings_of_pictures_as_transformers_5_writes_them(folder, tmp_path):
    """They stand inside processor_config.json; without them a SigLIP got CLIP's settings."""
    said = {"size": {"height": 32, "width": 40}, "resample": 2, "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3, "rescale_factor": 0.00392156862745098}  # fmt: skip
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": said}))
    pixels = Pixels.read(tmp_path, 224)
    assert pixels == Pixels(None, (40, 32), None, 2, (0.5,) * 3, (0.5,) * 3)
    (tmp_path / "preprocessor_config.json").write_text('{"size": 99}')
    assert Pixels.read(tmp_path, 224) == pixels  # transformers reads the same one of the two
    for setting, value in {
        "do_resize": False,
        "rescale_factor": 0.0078,
        "include_top": True,
    }.items():
        (tmp_path / "processor_config.json").write_text(
            json.dumps({"image_processor": said | {setting: value}})
        )
        with pytest.raises(InputError, match=setting):
            Pixels.read(tmp_path, 224)


def test_a_judge_is_told_apart_by_more_than_its_weights(tmp_path, looked):
    pytest.importorskip("transformers")
    llava = tiny_models.save_llava(tmp_path / "tiny")
    answers = str(tmp_path / "answers.jsonl")
    metric = Judge(str(llava), answers=answers)
    said = values(metric, looked[:1])[0, 0]

    def other_norm(facts) -> None:
        facts["text_config"]["rms_norm_eps"] = 10.0

    for other in (
        Judge(str(llava), answers=answers, dtype="bfloat16"),
        Judge(str(changed(llava, tmp_path, "config.json", other_norm)), answers=answers),
    ):
        stats = other.stats(looked[:1], None)
        assert stats.notes["questions asked"] == 1  # not the stored answer of the first
        assert stats.rows[0, 0] != said
        mine, theirs = (
            [p for p in m.signature("1", None).split("|") if p.startswith("judge:")]
            for m in (metric, other)
        )
        assert mine != theirs


def test_a_judge_behind_an_address_has_a_name():
    [problem] = Judge(endpoint="http://localhost:1/v1").missing()
    assert "name the model" in str(problem)
    assert not Judge("llava", endpoint="http://localhost:1/v1").missing()


def test_settings_decide_the_identity_of_vectors(folder):
    model = dual_encoder.load(str(folder))
    assert settings_sha(folder) in model.identity


def test_texts_that_a_table_of_another_kind_cuts_are_counted():
    """open_clip has tables of its own, and for SigLIP those of transformers behind a name."""

    class Own:
        def encode(self, text: str) -> list[int]:
            return [1] * len(text.split())

    class Foreign:
        clean_fn = staticmethod(str.lower)

        def tokenizer(self, text: str, verbose: bool) -> dict[str, list[int]]:
            assert text.islower()
            return {"input_ids": [1] * (len(text.split()) + 1)}

    model = object.__new__(dual_encoder.OpenClipDual)
    model.limit = 5
    for table, expected in ((Own(), [4, 6]), (Foreign(), [3, 5])):
        model._tokenizer = table
        assert [model._length(text) for text in ("A dog", "Two dogs run fast")] == expected
