"""TIGEr: the released program's numbers, the defined edge cases, and how it is used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from captious.errors import InputError, UsageError
from captious.evidence.regions import MemoryRegions, RegionSet, save_regions
from captious.metrics._looking.by_image import regions_of
from captious.metrics._looking.grounding import (
    region_rank_similarity,
    weight_distribution_parts,
    weight_distribution_similarity,
)
from captious.metrics.tiger import Tiger
from captious.report.pictures import draw
from captious.types import CaptionSet, Evidence, Sample
from seeing import Seeing

GOLDEN = Path(__file__).parent / "golden" / "scan_tiger"
CASES = ("i2t_bigru", "i2t_unigru_noimgnorm", "t2i_weightnorm")


@pytest.mark.parametrize("case", CASES)
def test_scores_of_the_release_from_its_grounding_vectors(case):
    safetensors = pytest.importorskip("safetensors.numpy")
    data = safetensors.load_file(GOLDEN / f"{case}.outputs.safetensors")
    candidate = data["cand_grounding"].astype(np.float64)
    reference = data["ref_grounding"].astype(np.float64).mean(axis=1)
    wanted = json.loads((GOLDEN / f"{case}.scores.json").read_text())["tiger"]
    found = Tiger().compare(reference, candidate)
    divergence, length = weight_distribution_parts(reference, candidate)
    for row, one in enumerate(wanted):
        assert found[row].tolist() == pytest.approx(
            [one["tiger"], one["rrs_released"], one["wds"]], abs=1e-6
        )
        assert divergence[row] == pytest.approx(one["kl"], abs=1e-6)
        assert length[row] == pytest.approx(one["d_rel"], abs=1e-6)


def words_of(ids, lengths):
    return [
        " ".join(f"w{i - 4}" for i in row[1 : n - 1]) for row, n in zip(ids, lengths, strict=True)
    ]


@pytest.fixture(params=CASES)
def released(request, tmp_path):
    """The golden inputs as a user has them: a checkpoint, a vocabulary, features, captions."""
    pytest.importorskip("torch")
    from safetensors.numpy import load_file

    case = request.param
    given = load_file(GOLDEN / f"{case}.inputs.safetensors")
    store = MemoryRegions(
        {
            f"{n}.jpg": RegionSet(one, np.tile(np.float32([0, 0, 9, 9]), (len(one), 1)), 10, 10)
            for n, one in enumerate(given["images"])
        }
    )
    np.save(tmp_path / "x_ims.npy", given["images"])
    (tmp_path / "x_ids.txt").write_text("0.jpg 1.jpg 2.jpg 3.jpg")
    metric = Tiger(
        model=str(GOLDEN / f"{case}.checkpoint.pth.tar"),
        vocabulary=str(GOLDEN / f"{case}.vocab.json"),
    )
    metric = Seeing(metric, str(tmp_path / "x_ims.npy"))
    captions = words_of(given["cand_ids"], given["cand_lengths"])
    flat = words_of(given["ref_ids"], given["ref_lengths"])
    wanted = json.loads((GOLDEN / f"{case}.scores.json").read_text())["tiger"]
    samples = CaptionSet.build(
        [captions[one["candidate"]] for one in wanted],
        [[flat[r] for r in one["references"]] for one in wanted],
        images=[f"{one['image']}.jpg" for one in wanted],
    )
    return metric, samples, wanted, store


def test_from_checkpoint_and_text_to_the_released_scores(released):
    metric, samples, wanted, _ = released
    metric.prepare(samples)
    rows = metric.stats(samples, None).rows
    for row, one in enumerate(wanted):
        assert rows[row, :3].tolist() == pytest.approx(
            [one["tiger"], one["rrs_released"], one["wds"]], abs=1e-5
        )


def test_similarity_column_is_the_models_score(released):
    from safetensors.numpy import load_file

    metric, samples, wanted, _ = released
    name = Path(metric.model).name.split(".")[0]
    matrix = load_file(GOLDEN / f"{name}.outputs.safetensors")["image_caption_similarity"]
    rows = metric.stats(samples, None).rows
    for row, one in enumerate(wanted):
        assert rows[row, 3] == pytest.approx(matrix[one["image"], one["candidate"]], abs=1e-5)


def test_scan_without_references_asks_the_words_too(released, monkeypatch):
    """Similarity as in TIGEr; the fit of words written down once more, word by word."""
    from captious.metrics import scan

    metric, samples, _, store = released
    alone = Seeing(scan.Scan(metric.model, metric.vocabulary), metric.regions)
    monkeypatch.setattr(scan, "FUNCTION_WORDS", frozenset({"<start>", "<end>", "w1"}))
    rows = alone.stats(samples, None).rows
    np.testing.assert_allclose(rows[:, 0], metric.stats(samples, None).rows[:, 3], atol=1e-6)
    model = metric._model()
    for row, (text, image) in enumerate(zip(samples.captions(), samples.images, strict=True)):
        regions, words = model.regions(store[image]), model.words([text])[0]
        fits = [
            max(float(region @ word) for region in regions)
            for word, token in zip(words, model.tokens(text), strict=True)
            if token not in ("<start>", "<end>", "w1")
        ]
        assert rows[row, 1] == pytest.approx(np.mean(fits), abs=1e-5)
        assert rows[row, 2] == pytest.approx(np.mean(sorted(fits)[:2]), abs=1e-5)
    shuffled = alone.stats(samples.take([2, 0, 3]), None).rows
    np.testing.assert_allclose(shuffled, rows[[2, 0, 3]], atol=1e-6)


def test_order_duplicates_and_batches_do_not_matter(released):
    metric, samples, _, _ = released
    whole = metric.stats(samples, None).rows
    back = metric.stats(samples.take([3, 1, 1, 0, 2]), None).rows
    np.testing.assert_allclose(back, whole[[3, 1, 1, 0, 2]], atol=1e-6)
    single = np.concatenate([metric.stats(samples[n : n + 1], None).rows for n in range(4)])
    np.testing.assert_allclose(single, whole, atol=1e-6)


def test_identity_is_three_quarters_and_empty_is_defined(released):
    metric, samples, _, _ = released
    text = samples.captions()[0]
    some = CaptionSet.build([text, "", "zzz"], [[text]] * 3, images=["0.jpg"] * 3)
    stats = metric.stats(some, None)
    assert stats.rows[0, :3].tolist() == pytest.approx([0.75, 1.0, 0.5], abs=1e-6)
    assert np.isfinite(stats.rows).all()
    assert stats.notes["empty captions"] == 1
    assert stats.notes["captions with words unknown to the grounding model"] == 1


def test_what_cannot_be_scored_is_nan_with_a_reason(released):
    metric, _, _, _ = released
    some = CaptionSet.build(
        ["w1", "w1", "w1"], [["w2"], [], ["w2"]], images=[None, "0.jpg", "9.jpg"]
    )
    stats = metric.stats(some, None)
    assert np.isnan(stats.rows).all()
    assert set(stats.reasons) == {0, 1, 2}
    assert "9.jpg" in stats.reasons[2]


def test_a_store_of_other_images_is_refused_before_work(released):
    metric, _, _, _ = released
    some = CaptionSet.build(["a"] * 2, [["b"]] * 2, images=["7.jpg", "8.jpg"])
    with pytest.raises(InputError, match=r"no region features of any image.*'7\.jpg', '8\.jpg'"):
        metric.given(some)


def test_features_of_the_wrong_length_name_both_sides(released, tmp_path):
    metric, samples, _, _ = released
    np.save(tmp_path / "y_ims.npy", np.zeros((4, 9, 7), np.float32))
    (tmp_path / "y_ids.txt").write_text("0.jpg 1.jpg 2.jpg 3.jpg")
    other = metric.but(regions=str(tmp_path / "y_ims.npy"))
    with pytest.raises(InputError, match=r"length 20.*length 7"):
        other.stats(samples, None)


def test_our_own_store_gives_the_same(released, tmp_path):
    metric, samples, _, store = released
    save_regions(store, tmp_path / "store")
    rows = metric.but(regions=tmp_path / "store").stats(samples, None).rows
    np.testing.assert_allclose(rows, metric.stats(samples, None).rows, atol=2e-3)


def test_paper_profile_and_clip_are_other_numbers(released):
    metric, samples, _, _ = released
    release = metric.stats(samples, None).rows
    paper = metric.but(profile="paper").stats(samples, None).rows
    assert (np.abs(paper[:, 1] - release[:, 1]) > 1e-4).any()
    with pytest.raises(UsageError, match="profile"):
        Tiger(profile="thesis")


def test_signature_names_model_weights_and_features(released):
    metric, _, _, _ = released
    assert len(metric.signature_parts(None)["weights"]) == 12
    assert "|features:scan-npy:x_ims.npy|" in metric.signature("1", None, metric.evidence)


def test_explanation_in_words_data_and_pictures(released, tmp_path):
    metric, samples, wanted, store = released
    save_regions(store, tmp_path / "store")
    told = metric.but(regions=tmp_path / "store").explain(samples[0], None)
    assert f"TIGEr {told.data['tiger']:.4f}" in told.text
    assert told.data["tiger"] == pytest.approx(wanted[0]["tiger"], abs=3e-3)
    assert draw(told).startswith("<svg")
    for one in told.data["regions"]:
        assert f">{one['region']}: {one['candidate']:+.2f}<" in draw(told)
        assert f">{one['region']}: {one['reference']:+.2f}<" in draw(told)
    weights = np.array(told.data["attention"])
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-3)
    assert weights.shape == (9, len(told.data["words"]))
    json.dumps(told.data)


def test_explaining_without_features_says_so(released):
    metric, _, _, _ = released
    with pytest.raises(InputError, match="no region features"):
        metric.explain(Sample("1", "w1", ("w2",), "none.jpg"), None)
    with pytest.raises(InputError, match=r"tiger looks at the photographs.*--images"):
        regions_of(Evidence(), "toy/v1", "tiger")  # what a user reads who forgot the photographs


# -- the formulas at their edges --------------------------------------------------------------


def test_rrs_by_hand():
    reference = np.array([[3.0, 1.0, 2.0]])
    candidate = np.array([[0.1, 0.3, 0.2]])
    # gains 1, 0, .5; order of the candidate: 0, .5, 1 -> .5/log2(3) + 1/2; ideal: 1 + .5/log2(3)
    wanted = (0.5 / np.log2(3) + 0.5) / (1 + 0.5 / np.log2(3))
    assert region_rank_similarity(reference, candidate)[0] == pytest.approx(wanted)
    plain = (1 + 2 / np.log2(3) + 3 / 2) / (3 + 2 / np.log2(3) + 1 / 2)
    assert region_rank_similarity(reference, candidate, scaled=False)[0] == pytest.approx(plain)


def test_equal_candidate_values_keep_the_order_of_the_regions():
    reference = np.array([[1.0, 2.0, 3.0]])
    flat = region_rank_similarity(reference, np.zeros((1, 3)))
    by_index = region_rank_similarity(reference, np.array([[3.0, 2.0, 1.0]]))
    assert flat == pytest.approx(by_index)


def test_constant_reference_and_single_region_rank_nothing():
    assert region_rank_similarity(np.ones((1, 3)), np.array([[1.0, 2.0, 3.0]]))[0] == 1
    assert region_rank_similarity(np.array([[0.3]]), np.array([[0.9]]))[0] == 1


def test_wds_at_zero_length_and_far_apart():
    zero, one = np.zeros((1, 3)), np.array([[0.1, 0.2, 0.3]])
    divergence, length = weight_distribution_parts(one, zero)
    assert length[0] == 0
    assert divergence[0] > 0
    huge = weight_distribution_similarity(np.array([[1e4, 0.0]]), np.array([[0.0, 1e-4]]))
    assert huge[0] == pytest.approx(0.0)
    assert np.isfinite(huge).all()


def test_wds_is_one_half_for_equal_vectors_and_larger_for_longer_ones():
    one = np.array([[0.1, 0.2, 0.3]])
    assert weight_distribution_similarity(one, one)[0] == pytest.approx(0.5)
    assert weight_distribution_similarity(one, 1.2 * one)[0] > 0.5


def test_clip_only_changes_vectors_with_negative_values():
    reference = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    candidate = np.array([[0.3, 0.2, 0.1], [-0.9, -0.8, 0.1]])
    plain, clipped = (
        Tiger().compare(reference, candidate),
        Tiger(clip=True).compare(reference, candidate),
    )
    assert plain[0] == pytest.approx(clipped[0])
    assert clipped[1, 2] < plain[1, 2]


# -- the second grounding model ---------------------------------------------------------------


def test_a_clip_type_model_grounds_region_crops(tmp_path):
    """A small random CLIP: the numbers mean nothing, the path from photograph to score is real."""
    transformers = pytest.importorskip("transformers")
    import torch
    from PIL import Image
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    torch.manual_seed(0)
    words = {"[PAD]": 0, "[UNK]": 1, "<s>": 2, "</s>": 3, "a": 4, "red": 5, "blue": 6, "wall": 7}
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    tokeniser = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    )
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2}  # fmt: skip
    config = transformers.CLIPConfig(
        text_config={**small, "vocab_size": 8, "max_position_embeddings": 16, "eos_token_id": 3,
                     "bos_token_id": 2, "pad_token_id": 0},
        vision_config={**small, "image_size": 16, "patch_size": 8},
        projection_dim=12,
    )  # fmt: skip
    folder = tmp_path / "clip"
    transformers.CLIPModel(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
    ).save_pretrained(folder)
    photos = tmp_path / "p"
    photos.mkdir()
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, :32] = (255, 0, 0)
    Image.fromarray(pixels).save(photos / "x.png")
    from captious.cli import main

    regions = tmp_path / "r"
    assert main(["regions", str(photos), "-o", str(regions), "--clip", str(folder), "-q"]) == 0
    metric = Seeing(Tiger(model=f"clip:{folder}"), str(regions))
    samples = CaptionSet.build(
        ["a red wall", "a blue wall"], [["a red wall"]] * 2, images=["x.png"] * 2
    )
    rows = metric.stats(samples, None).rows
    assert rows[0, :3].tolist() == pytest.approx([0.75, 1, 0.5], abs=1e-5)
    assert np.isfinite(rows).all()
    assert rows[1, 0] != pytest.approx(rows[0, 0], abs=1e-6)


def test_rrs_of_the_paper_stays_inside_0_and_1():
    """Negative weights as gains gave 1.36, even -32 on such vectors; their positive part cannot."""
    rng = np.random.default_rng(0)
    reference, candidate = rng.normal(size=(2, 2000, 36))
    found = region_rank_similarity(reference, candidate, scaled=False)
    assert found.min() >= 0
    assert found.max() <= 1
    # By hand: gains 0 (for -1), 2, 1; the candidate puts the best region last.
    r, c = np.array([[-1.0, 2.0, 1.0]]), np.array([[3.0, 1.0, 2.0]])
    expected = (0 + 1 / np.log2(3) + 2 / np.log2(4)) / (2 + 1 / np.log2(3))
    assert region_rank_similarity(r, c, scaled=False)[0] == pytest.approx(expected)
    assert region_rank_similarity(-np.abs(r), c, scaled=False)[0] == 1


def test_lambda_is_a_parameter(released):
    metric, samples, *_ = released
    plain = metric.stats(samples, None).rows[:, 0]
    own = float(metric.signature("5", None).partition("|lambda:")[2].partition("|")[0])
    same = metric.but(smooth=own)
    np.testing.assert_array_equal(same.stats(samples, None).rows[:, 0], plain)
    assert same.signature("5", None) == metric.signature("5", None)
    sharp = metric.but(smooth=2 * own)
    assert not np.allclose(sharp.stats(samples, None).rows[:, 0], plain)
    assert f"|lambda:{2 * own:g}|" in sharp.signature("5", None)
    with pytest.raises(UsageError, match="lambda"):
        Tiger(smooth=0.0)


def test_the_length_term_can_be_weighed_and_the_signature_says_so():
    """A candidate that is the reference at half its length: no divergence of order, length only."""
    reference = np.array([[0.4, 0.2, 0.1]])
    near = Tiger().compare(reference, reference * 0.5)[0, 2]
    less = Tiger(norm=0.1).compare(reference, reference * 0.5)[0, 2]
    none = Tiger(norm=0.0).compare(reference, reference * 0.5)[0, 2]
    assert near < less < none < 0.5
    distance = weight_distribution_parts(reference, reference * 0.5)
    expected = 1 / (1 + np.exp(1.5 * (distance[0] + 0.1 * distance[1])))
    assert less == pytest.approx(float(expected[0]))
    with pytest.raises(UsageError, match="norm"):
        Tiger(norm=-1.0)
