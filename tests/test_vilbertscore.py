"""ViLBERTScore: the released scorer's numbers, the defined edge cases, clear refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from safetensors.numpy import load_file  # noqa: E402

from captious.errors import InputError, UsageError  # noqa: E402
from captious.evidence.regions import MemoryRegions, RegionSet, save_regions  # noqa: E402
from captious.metrics._matching.token_blocks import Block  # noqa: E402
from captious.metrics.bertscore import score_pairs  # noqa: E402
from captious.metrics.vilbertscore import Vilbertscore  # noqa: E402
from captious.models import image_text  # noqa: E402
from captious.models.image_text import Regions, Text  # noqa: E402
from captious.models.vilbert_load import load_vilbert  # noqa: E402
from captious.report.pictures import draw  # noqa: E402
from captious.types import CaptionSet, Sample  # noqa: E402
from seeing import Seeing  # noqa: E402
from test_vilbert import CASES, GOLDEN, as_folder, saved  # noqa: E402


@pytest.mark.parametrize("profile", ["clean", "release"])
@pytest.mark.parametrize("case", CASES)
def test_scores_of_the_released_scorer(case, profile, tmp_path):
    wanted = json.loads((GOLDEN / f"{case}.scores.json").read_text())
    metric = Vilbertscore(model=str(as_folder(case, tmp_path / "m")), profile=profile)
    if profile == "release" and "released_code" not in wanted:
        with pytest.raises(UsageError, match="the released program fails on it"):
            metric.encoder()
        return
    given = load_file(GOLDEN / f"{case}.inputs.safetensors")
    images = [
        Regions(f[m == 1], s[m == 1])
        for f, s, m in zip(given["features"], given["spatials"], given["image_mask"], strict=True)
    ]
    texts = [
        Text(tuple(ids[mask == 1].tolist()), int(mask.sum()) - 2, False)
        for side in ("cand", "ref")
        for ids, mask in zip(
            given[f"{side}.input_ids"], given[f"{side}.attention_mask"], strict=True
        )
    ]
    encoder = metric.encoder()
    layer = metric.chosen_layer(encoder)
    encoded = metric.vectors(texts, [0, 1, 2, 0, 1, 2], images, encoder, layer)
    found = score_pairs(
        Block(np.arange(3), np.arange(3), [], encoded), np.arange(3), np.arange(3, 6),
        np.ones(1), "cpu",
    )  # fmt: skip
    key = {"clean": "words_only", "release": "released_code"}[profile]
    columns = [wanted[key][name] for name in ("precision", "recall", "f1")]
    np.testing.assert_allclose(found, np.array(columns).T, atol=1e-6)


CAPTIONS = [
    ("a.jpg", "w5 w6 w7 w8 w9 w10 w11"), ("a.jpg", "w20 w21"), ("b.jpg", "w5 w6 w30"),
    ("b.jpg", "w44"), ("c.jpg", "w50 w51 w52 w53"), ("a.jpg", "w44"),
]  # fmt: skip
REFERENCES = {
    "a.jpg": ("w5 w6 w7", "w20 w90 w91 w92 w93"),
    "b.jpg": ("w60 w61 w62 w63 w64 w65 w66 w67 w68", "w44 w45", "w5 w6"),
    "c.jpg": ("w50 w52",),
}


def regions(count: int, seed: int, dim: int = 24) -> RegionSet:
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 60, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 30, (count, 2))], 1)
    # Values that half precision, which our store keeps, can hold.
    features = rng.normal(size=(count, dim)).astype(np.float16)
    return RegionSet(features, boxes.astype(np.float32), 100, 90)


def stored(folder: Path, **others) -> str:
    sets = {"a.jpg": regions(5, 1), "b.jpg": regions(3, 2), "c.jpg": regions(8, 3), **others}
    return str(save_regions(MemoryRegions(sets, "made up"), folder).path)


def samples() -> CaptionSet:
    return CaptionSet.of(
        Sample(str(n), text, REFERENCES[image], image) for n, (image, text) in enumerate(CAPTIONS)
    )


@pytest.fixture(params=["interleaved_layers", "multitask_2conect", "pretrained_2conect"])
def metric(request, tmp_path):
    model = Vilbertscore(model=str(as_folder(request.param, tmp_path / "m")))
    return Seeing(model, stored(tmp_path / "r"))


def plain(metric: Vilbertscore, one: Sample) -> np.ndarray:
    """The score written down once more: one forward per text, loops over words."""
    model, _ = load_vilbert(metric.model)
    vocabulary = (Path(metric.model) / "vocab.txt").read_text().split()
    here = metric.store(metric.evidence)[one.image]
    features = np.concatenate([here.features.mean(0, dtype=np.float32)[None], here.features])
    wide, high = here.width, here.height
    boxes = [[0, 0, 1, 1, 1]] + [
        [x1 / wide, y1 / high, x2 / wide, y2 / high, (x2 - x1) * (y2 - y1) / (wide * high)]
        for x1, y1, x2, y2 in here.boxes.tolist()
    ]
    task = 7 if model.config.task_tokens else None
    skip = 1 + (task is not None)

    def words(text: str) -> np.ndarray:
        ids = torch.tensor([[1, *(vocabulary.index(w) for w in text.split()), 2]])
        out = model(ids, torch.ones_like(ids), torch.tensor(features, dtype=torch.float32)[None],
                    torch.tensor(boxes)[None], None, task)  # fmt: skip
        found = out.text[(metric.layer or model.config.blocks) - 1][0, skip:-1].numpy()
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    mine = words(one.caption)
    values = []
    for reference in one.references:
        cosine = mine @ words(reference).T
        p, r = cosine.max(1).mean(), cosine.max(0).mean()
        values.append([p, r, 2 * p * r / (p + r)])
    return np.mean(values, axis=0)


@pytest.mark.parametrize("layer", [None, 1])
def test_from_text_and_regions_to_the_score(metric, layer):
    metric = metric.but(layer=layer)
    given = samples()
    metric.prepare(given)
    rows = metric.stats(given, None).rows
    np.testing.assert_allclose(rows, [plain(metric, one) for one in given], atol=1e-5)


def test_batches_order_and_duplicates_do_not_matter(metric, monkeypatch):
    given = samples()
    whole = metric.stats(given, None).rows
    order = [4, 1, 1, 0, 5, 2, 3]
    np.testing.assert_allclose(metric.stats(given.take(order), None).rows, whole[order], atol=1e-5)
    single = [metric.stats(given[n : n + 1], None).rows for n in range(len(given))]
    np.testing.assert_allclose(np.concatenate(single), whole, atol=1e-5)
    monkeypatch.setattr("captious.metrics.vilbertscore._PAIRS_AT_ONCE", 3)
    monkeypatch.setitem(image_text.POSITIONS_AT_ONCE, "cpu", 20)
    np.testing.assert_allclose(metric.stats(given, None).rows, whole, atol=1e-5)


def test_identity_and_empty(metric):
    given = CaptionSet.build(
        ["w5 w6", "", "w5", "  "], [["w5 w6"], ["w5"], ["", "w5"], [""]], images=["a.jpg"] * 4
    )
    rows = metric.stats(given, None).rows
    np.testing.assert_allclose(rows[0], 1, atol=1e-6)
    np.testing.assert_allclose(rows[[1, 3]], 0)
    np.testing.assert_allclose(rows[2], 0.5, atol=1e-6)


def test_what_cannot_be_scored_is_nan_with_a_reason(metric):
    given = CaptionSet.build(
        ["w5"] * 4, [["w6"], [], ["w6"], ["w6"]], images=[None, "a.jpg", "z.jpg", "b.jpg"]
    )
    found = metric.stats(given, None)
    assert np.isnan(found.rows[:3]).all()
    assert np.isfinite(found.rows[3]).all()
    assert set(found.reasons) == {0, 1, 2}
    assert "z.jpg" in found.reasons[2]


def test_long_texts_are_cut_and_counted(metric):
    long = " ".join(f"w{5 + n}" for n in range(60))
    same = " ".join(f"w{5 + n}" for n in range(35))
    given = CaptionSet.build([long, same, "w5"], [["w5 w9"]] * 3, images=["a.jpg"] * 3)
    found = metric.stats(given, None)
    assert found.notes == {"captions or references cut to 37 tokens": 1}
    np.testing.assert_allclose(found.rows[0], found.rows[1], atol=1e-5)


class Fixed:
    """An encoder whose states are given: [CLS], task, words, [SEP]."""

    task, device = True, "cpu"

    def __init__(self, states):
        self._states = states

    def states(self, texts, which, images, layer):
        return [torch.nn.functional.normalize(torch.tensor(s).float(), dim=-1)
                for s in self._states]  # fmt: skip


def test_release_counts_the_task_token_and_floors_at_padding():
    caption = [[9, 9], [1, 0], [-1, 0], [9, 9]]
    reference = [[9, 9], [1, 0], [0.6, 0.8], [9, 9]]
    encoder = Fixed([caption, reference])
    texts = [Text((1, 5, 2), 1, False)] * 2

    def score(metric):
        encoded = metric.vectors(texts, [0, 0], [None], encoder, 1)
        block = Block(np.arange(1), np.arange(1), [], encoded)
        return score_pairs(block, np.array([0]), np.array([1]), np.ones(1), "cpu")[0]

    # clean: the word alone, cosine -0.6
    np.testing.assert_allclose(score(Vilbertscore())[:2], [-0.6, -0.6], atol=1e-6)
    # release: task token and word; best of (-1, -0.6) is 0 with padding, -0.6 without
    padded = Vilbertscore(profile="release")
    np.testing.assert_allclose(score(padded)[:2], [(1 + 0) / 2, (1 + 0.6) / 2], atol=1e-6)
    filled = Vilbertscore(profile="release", length=3)
    np.testing.assert_allclose(score(filled)[:2], [(1 - 0.6) / 2, (1 + 0.6) / 2], atol=1e-6)


# -- refusals, each before any scoring -------------------------------------------------------------


def test_absent_weights_and_text_encoders_are_named(tmp_path):
    absent = Vilbertscore(model="/nowhere/multi_task_model.bin").missing()
    assert "no weights at" in str(absent[0])
    official = Vilbertscore(model="vilbert-multitask").missing()
    assert "link is dead" in str(official[0])
    (tmp_path / "config.json").write_text('{"text_from": "someone/absent-encoder"}')
    part = Vilbertscore(model=str(tmp_path)).missing()
    assert "someone/absent-encoder" in str(part[0])


def test_features_that_cannot_be_extracted_are_asked_for(metric, tmp_path, cache):
    from captious.demo import photographs
    from captious.engine import evidence

    assert metric.missing() == []
    given = CaptionSet.build(["w5"], [["w6"]], images=[str(photographs()[0])])
    [lacking] = evidence.missing(given, [metric.metric])
    assert "--regions" in str(lacking)
    assert evidence.missing(metric.seen(given), [metric.metric]) == []
    assert evidence.missing(given, [metric.but(blind=True).metric]) == []


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (RegionSet(np.ones((3, 24)), None, 10, 10), "without boxes"),
        (RegionSet(np.ones((3, 24)), np.ones((3, 4), np.float32), None, None), "width and height"),
        (
            RegionSet(np.ones((1, 24)), np.array([[5, 5, 5, 9]], np.float32), 10, 10),
            "covers nothing",
        ),
        (RegionSet(np.ones((0, 24)), np.ones((0, 4), np.float32), 10, 10), "has no regions"),
    ],
)
def test_bad_regions_are_all_named_before_work(metric, tmp_path, bad, told):
    store = stored(tmp_path / "bad", **{"a.jpg": bad, "b.jpg": bad})
    broken = metric.but(regions=store)
    with pytest.raises(InputError, match=told) as caught:
        broken.prepare(samples())
    assert len(caught.value.problems) == 2
    assert "a.jpg" in str(caught.value)
    assert "b.jpg" in str(caught.value)


def test_features_of_another_length_name_both_sides(metric, tmp_path):
    sets = {name: regions(2, 0, dim=9) for name in ("a.jpg", "b.jpg", "c.jpg")}
    store = save_regions(MemoryRegions(sets, "others"), tmp_path / "other").path
    other = metric.but(regions=str(store))
    for work in (other.prepare, lambda s: other.stats(s, None)):
        with pytest.raises(InputError, match=r"length 24; these are of length 9 \(others\)"):
            work(samples())


def test_images_without_features_are_named(metric):
    with pytest.raises(InputError, match=r"no region features of any image.*q\.jpg"):
        metric.given(CaptionSet.build(["w5"], [["w5"]], images=["q.jpg"]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"layer": 3}, "has layers 1 to 2, not 3"),
        ({"layer": 0}, "has layers 1 to 2, not 0"),
        ({"length": 41}, "length=41 is more than the 40 positions"),
    ],
)
def test_parameters_that_do_not_fit_the_model(metric, change, told):
    with pytest.raises(UsageError, match=told):
        metric.but(**change).prepare(samples())


def test_parameters_that_never_fit():
    with pytest.raises(UsageError, match="profile"):
        Vilbertscore(profile="paper")
    with pytest.raises(UsageError, match="length"):
        Vilbertscore(length=2)


# -- saying what was done --------------------------------------------------------------------------


def test_signature_names_everything_the_number_depends_on(metric):
    parts = metric.signature_parts(None)
    assert parts["model"] == "vilbert"
    assert parts["weights"].startswith("m(")
    assert len(parts["weights"]) == 11
    assert parts["layer"] == "2/2"
    assert parts["dtype"] == "float32"
    text = metric.signature("3", None, metric.evidence)
    assert "|regions:made up|" in text
    assert "|regions:blank|" in metric.but(blind=True).signature("3", None, metric.evidence)
    assert str(Path(metric.model).parent) not in text


def test_blind_sees_no_image(metric):
    given = samples()
    blind = metric.but(blind=True)
    blind.prepare(given)
    rows = blind.stats(given, None).rows
    assert (np.abs(rows - metric.stats(given, None).rows) > 1e-4).any()
    moved = CaptionSet.build(given.captions(), given.references(), images=[None] * len(given))
    np.testing.assert_allclose(blind.stats(moved, None).rows, rows, atol=1e-5)


def test_explanation_with_and_without_the_image(metric):
    one = samples()[0]
    told = metric.explain(one, None)
    f = metric.stats(CaptionSet.of([one]), None).rows[0, 2]
    assert f"F {f:.4f}" in told.text
    data = json.loads(json.dumps(told.data))
    seen, blind = np.array(data["cosine"]), np.array(data["cosine_without_image"])
    assert seen.shape == blind.shape == (len(data["reference_pieces"]), 7)
    change = seen - blind
    assert data["raised"] or data["lowered"]
    for what, sign in (("raised", 1), ("lowered", -1)):
        most = (sign * change).max()
        if most <= 0:
            assert data[what] == []
            continue
        a, b, value = data[what][0]
        at = data["reference_pieces"].index(a), data["caption_pieces"].index(b)
        assert sign * value == pytest.approx(most, abs=1e-4)
        assert change[at] == pytest.approx(value, abs=1e-4)
        assert f"{a} ~ {b} {value:+.3f}" in told.text
    attention = np.array(data["attention"])
    assert attention.shape == (7, 6)  # five regions behind the whole image
    np.testing.assert_allclose(attention.sum(1), 1, atol=1e-3)
    assert [word for word, _ in data["words"]] == data["caption_pieces"]
    assert data["boxes"][0] == [0, 0, 1, 1]
    np.testing.assert_allclose(data["whole"], attention[:, 0], atol=1e-4)  # it has no place
    shown = " ".join(told.parts[-1].words) + " "
    for (word, top), share in zip(data["words"], attention, strict=True):
        assert [i for i, _ in top] == (1 + np.argsort(-share[1:], kind="stable"))[
            : len(top)
        ].tolist()
        said = f"{word:<14} looks at region {top[0][0]} {top[0][1]:.2f}"
        assert (said in told.text) == (f"{word} " in shown)
    assert told.text.count(" looks at ") == len(told.parts[-1].words) == 5  # as in the picture
    assert any(f"({share:.2f} whole)" in draw(told) for share in data["whole"])  # five words of 7
    assert draw(told).startswith("<svg")
    assert draw(told).count("<svg") == draw(told).count("</svg>") == 4
    with pytest.raises(InputError, match="has no image"):
        metric.explain(replace(one, image=None), None)
    assert draw(metric.explain(replace(one, caption=""), None)) is None


@pytest.mark.parametrize("kind", ["lxmert", "visual_bert", "vilt"])
def test_other_models_through_the_same_metric(kind, tmp_path):
    folder = saved(kind, tmp_path / "m")
    given = samples()
    if kind == "vilt":
        from PIL import Image

        rng = np.random.default_rng(0)
        for name in REFERENCES:
            Image.fromarray(rng.integers(0, 256, (80, 120, 3), np.uint8)).save(
                tmp_path / name, format="PNG"
            )
        given = CaptionSet.of(replace(s, image=str(tmp_path / s.image)) for s in given)
        store = None
    else:
        sets = {name: regions(n, n, dim=12) for n, name in enumerate(REFERENCES, 3)}
        store = str(save_regions(MemoryRegions(sets, "made up"), tmp_path / "r").path)
    metric = Seeing(Vilbertscore(model=str(folder), length=20), store)
    assert metric.missing() == []
    metric.prepare(given)
    rows = metric.stats(given, None).rows
    assert np.isfinite(rows).all()
    single = np.concatenate([metric.stats(given[n : n + 1], None).rows for n in range(6)])
    np.testing.assert_allclose(single, rows, atol=1e-5)
    assert metric.signature_parts(None)["model"] == kind
    assert draw(metric.explain(given[0], None))
    if kind == "vilt":
        with pytest.raises(InputError, match="no such photograph"):
            metric.prepare(samples())


def test_precision_is_a_parameter_and_not_the_devices(metric, monkeypatch):
    """A CUDA machine computes in float32 as well, unless it is asked for half precision."""
    from captious import settings

    assert metric.encoder().dtype == "float32"
    assert "|dtype:float32|" in f"{metric.signature('1', None, metric.evidence)}|"
    half = metric.but(dtype="bfloat16")
    assert half.encoder().dtype == "bfloat16"
    assert "|dtype:bfloat16|" in f"{half.signature('1', None, metric.evidence)}|"
    near = half.stats(samples(), None).rows - metric.stats(samples(), None).rows
    assert 0 < np.abs(near).max() < 0.05
    with pytest.raises(UsageError, match="dtype is one of"):
        metric.but(dtype="int4").encoder()
    monkeypatch.setattr(settings, "torch_device", lambda: "meta")
    monkeypatch.setattr(image_text, "settings", settings)
    assert metric.encoder().dtype == "float32"
