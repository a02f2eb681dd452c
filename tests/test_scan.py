"""SCAN against the original code, its checkpoints, and its trainer on a toy problem."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from captious.errors import InputError, UsageError  # noqa: E402
from captious.models import checkpoints, scan  # noqa: E402
from captious.training.scan import (  # noqa: E402
    PairData,
    Trainer,
    TrainOptions,
    soft_tiger,
    word_base,
)
from captious.training.whitened import Whitening  # noqa: E402

GOLDEN = Path(__file__).parent / "golden" / "scan_tiger"
CASES = ("i2t_bigru", "i2t_unigru_noimgnorm", "t2i_weightnorm")
CLOSE = {"atol": 1e-5, "rtol": 0}


@pytest.fixture(params=CASES)
def case(request):
    name = request.param
    model, words = scan.load(GOLDEN / f"{name}.checkpoint.pth.tar", GOLDEN / f"{name}.vocab.json")
    given = load_file(GOLDEN / f"{name}.inputs.safetensors")
    wanted = load_file(GOLDEN / f"{name}.outputs.safetensors")
    scores = json.loads((GOLDEN / f"{name}.scores.json").read_text())
    return model, words, given, wanted, scores


def test_embeddings_similarity_loss_and_grounding_equal_the_original(case):
    model, words, given, wanted, scores = case
    assert len(words) == model.config.vocab_size
    with torch.no_grad():
        regions = model.image(given["images"])
        captions = model.text(given["cand_ids"], given["cand_lengths"])
        references = model.text(given["ref_ids"], given["ref_lengths"])
        similarity = model.similarity(regions, captions, given["cand_lengths"])
        own = model.grounding(regions, captions, given["cand_lengths"])
        theirs = model.grounding(regions, references, given["ref_lengths"])
        loss = scan.contrastive_loss(similarity, model.config.margin, model.config.max_violation)
    torch.testing.assert_close(regions, wanted["image_embeddings"], **CLOSE)
    torch.testing.assert_close(captions, wanted["cand_embeddings"], **CLOSE)
    torch.testing.assert_close(references, wanted["ref_embeddings"], **CLOSE)
    torch.testing.assert_close(similarity, wanted["image_caption_similarity"], **CLOSE)
    assert float(loss) == pytest.approx(scores["contrastive_loss"], abs=1e-5)
    picked = torch.stack([own[k, k] for k in range(4)])
    torch.testing.assert_close(picked, wanted["cand_grounding"], **CLOSE)
    picked = torch.stack([theirs[k, 3 * k : 3 * k + 3] for k in range(4)])
    torch.testing.assert_close(picked, wanted["ref_grounding"], **CLOSE)


def test_options_of_the_checkpoint_are_read(case):
    model, _, _, _, scores = case
    for key in ("cross_attn", "agg_func", "lambda_softmax", "lambda_lse", "img_dim", "bi_gru"):
        assert getattr(model.config, key) == scores["options"][key]


def _plain_attention(query, context, smooth, norm):
    """One query set over one context set, written down as the definition says."""
    raw = context @ query.T
    if norm == "softmax":
        raw = raw.softmax(1)
    if norm.startswith("clipped"):
        raw = torch.where(raw > 0, raw, 0.1 * raw)
    if norm.endswith("l2norm"):
        raw = raw / (raw.norm(dim=1, keepdim=True) + 1e-8)
    if norm.endswith("l1norm"):
        raw = raw / (raw.abs().sum(1, keepdim=True) + 1e-8)
    attended = (smooth * raw.T).softmax(1) @ context
    return torch.nn.functional.cosine_similarity(query, attended, dim=1)


@pytest.mark.parametrize("norm", scan.NORMS)
def test_every_normalisation_in_both_directions(norm):
    draw = torch.Generator().manual_seed(3)
    regions = torch.randn(3, 5, 8, generator=draw)
    lengths = torch.tensor([4, 2])
    words = torch.randn(2, 4, 8, generator=draw)
    words[1, 2:] = 0
    mask = scan.word_mask(lengths, 4)
    over_words = scan.attend_words(regions, words, mask, 4.0, norm)
    over_regions = scan.attend_regions(regions, words, mask, 4.0, norm)
    for image in range(3):
        for caption in range(2):
            inner = words[caption, : lengths[caption]]
            torch.testing.assert_close(
                over_words[image, caption],
                _plain_attention(regions[image], inner, 4.0, norm),
                **CLOSE,
            )
            torch.testing.assert_close(
                over_regions[image, caption, : len(inner)],
                _plain_attention(inner, regions[image], 4.0, norm),
                **CLOSE,
            )


def test_aggregations_leave_padding_out():
    values = torch.tensor([[0.5, -0.2, 9.0]])
    mask = torch.tensor([[True, True, False]])
    wanted = {
        "Mean": 0.15,
        "Sum": 0.3,
        "Max": 0.5,
        "LogSumExp": float(np.log(np.exp(3) + np.exp(-1.2)) / 6),
    }
    for how, value in wanted.items():
        assert float(scan.aggregate(values, how, 6.0, mask)) == pytest.approx(value, abs=1e-6)


def test_loss_of_a_small_matrix_by_hand():
    scores = torch.tensor([[0.5, 0.4], [0.1, 0.2]])
    # captions: [.2-.5+.4]+ = .1, [.2-.2+.1]+ = .1; images: [.2-.5+.1]+ = 0, [.2-.2+.4]+ = .4
    assert float(scan.contrastive_loss(scores, 0.2, False)) == pytest.approx(0.6, abs=1e-6)
    assert float(scan.contrastive_loss(scores, 0.2, True)) == pytest.approx(0.6, abs=1e-6)


def test_word_vectors_do_not_depend_on_the_batch():
    model, _ = scan.load(GOLDEN / "i2t_bigru.checkpoint.pth.tar", GOLDEN / "i2t_bigru.vocab.json")
    some = [[1, 5, 9, 2], [1, 7, 2], [1, 8, 9, 10, 11, 2]]
    together = model.text(*scan.pad(some)).detach()
    for row, one in enumerate(some):
        alone = model.text(*scan.pad([one])).detach()[0]
        torch.testing.assert_close(together[row, : len(one)], alone, atol=1e-6, rtol=0)


def test_our_folder_round_trip(tmp_path):
    config = scan.ScanConfig(img_dim=6, word_dim=5, embed_size=8, vocab_size=6)
    words = scan.Vocabulary({w: i for i, w in enumerate([*scan.SPECIALS, "dog", "runs"])})
    model = scan.Scan(config).eval()
    scan.save(model, words, tmp_path / "m", {"features": "toy"})
    again, vocabulary = scan.load(tmp_path / "m")
    assert vocabulary.encode(["dog", "flies"]) == [1, 4, 3, 2]
    assert scan.features_of(tmp_path / "m") == "toy"
    torch.testing.assert_close(
        again.image(torch.ones(1, 6)), model.image(torch.ones(1, 6)), atol=2e-3, rtol=0
    )


def test_an_original_checkpoint_needs_its_vocabulary():
    with pytest.raises(UsageError, match="vocabulary"):
        scan.load(GOLDEN / "i2t_bigru.checkpoint.pth.tar")


class _Evil:
    def __reduce__(self):
        return os.system, ("true",)


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    torch.save({"model": [], "opt": _Evil()}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match="refused"):
        checkpoints.load_torch(tmp_path / "bad.pth")


def test_old_style_and_namespace_checkpoints_load(tmp_path):
    data = {"opt": argparse.Namespace(margin=0.2, cross_attn="t2i"), "x": torch.ones(2)}
    torch.save(data, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    loaded = checkpoints.load_torch(tmp_path / "old.pth")
    assert checkpoints.options_of(loaded["opt"]) == {"margin": 0.2, "cross_attn": "t2i"}
    assert loaded["x"].tolist() == [1, 1]


def test_options_of_python_2_are_text():
    made = argparse.Namespace(**{"agg_func": b"Mean"})
    assert checkpoints.options_of(made) == {"agg_func": "Mean"}


def test_damaged_checkpoint_is_an_input_error(tmp_path):
    (tmp_path / "x.pth").write_bytes(b"nonsense")
    with pytest.raises(InputError):
        checkpoints.load_torch(tmp_path / "x.pth")


def _toy_data(images=60, regions=4, dim=10, concepts=6, seed=0):
    """Photographs whose regions show concepts, captions that name them."""
    draw = np.random.default_rng(seed)
    prototypes = draw.normal(size=(concepts, dim))
    shown = np.array([draw.permutation(concepts)[:2] for _ in range(images)])
    features = prototypes[np.repeat(shown, regions // 2, axis=1)]
    features = features + 0.1 * draw.normal(size=features.shape)
    captions = [[[1, 4 + a, 4 + b, 2], [1, 4 + b, 10, 4 + a, 2]] for a, b in shown]
    teacher = np.zeros((images, 2, concepts))
    teacher[np.arange(images)[:, None], :, shown] = 2**-0.5
    return PairData(
        torch.tensor(features, dtype=torch.half), captions, None, torch.tensor(teacher).float()
    )


TOY = TrainOptions(
    steps=60,
    images=12,
    group=2,
    whitened=10,
    validate=30,
    learning_rate=5e-3,
    warmup=5,
    own_words=20,
    average=0.9,
    word_dropout=0.0,
)
TOY_CONFIG = scan.ScanConfig(
    img_dim=10, word_dim=6, embed_size=12, vocab_size=12, cross_attn="i2t", agg_func="Mean"
)


def test_training_lowers_the_losses_and_the_export_is_plain_scan(tmp_path):
    data = _toy_data()
    trainer = Trainer(TOY_CONFIG, data, TOY, tmp_path)
    best = trainer.run(lambda model: {"select": 0.0})
    first, last = trainer.history[0], trainer.history[-1]
    assert last["hinge"] < 0.7 * first["hinge"]
    assert last["similarity"] < first["similarity"]
    model = scan.Scan(TOY_CONFIG)
    model.load_state_dict(torch.load(best, weights_only=True))
    assert model.image(data.features[:3].float()).shape == (3, 4, 12)
    # The exported model takes raw features: whitening is folded in.
    whitened = trainer.whitening(data.features[:3]).float()
    inside = trainer.average.scan.image(whitened).detach()
    exported = trainer.average.export(trainer.whitening).image(data.features[:3].float()).detach()
    torch.testing.assert_close(exported, inside, atol=5e-3, rtol=0)


def test_a_stopped_run_resumes(tmp_path):
    data = _toy_data()
    trainer = Trainer(TOY_CONFIG, data, TOY, tmp_path)
    trainer.run(lambda model: {"select": 0.0}, seconds=0.0)
    assert trainer.step == 1
    again = Trainer(TOY_CONFIG, data, TOY, tmp_path)
    assert again.resume()
    assert again.step == 1
    for old, new in zip(trainer.learner.parameters(), again.learner.parameters(), strict=True):
        torch.testing.assert_close(old, new)
    again.run(lambda model: {"select": 0.0})
    assert again.step == TOY.steps
    assert [entry["step"] for entry in again.history] == [1, 30, 60]


def test_training_in_the_other_direction_runs(tmp_path):
    from dataclasses import replace

    options = replace(TOY, steps=2, validate=2, hardest=True, graded=0.0, region_dropout=0.5)
    config = replace(TOY_CONFIG, cross_attn="t2i", agg_func="LogSumExp")
    trainer = Trainer(config, _toy_data(), options, tmp_path, base=word_base([np.eye(12)]))
    trainer.run(lambda model: {"select": 0.0})
    assert np.isfinite(trainer.history[-1]["hinge"])


def test_soft_tiger_agrees_with_the_formula():
    from captious.metrics._looking.grounding import weight_distribution_similarity

    draw = np.random.default_rng(0)
    reference, candidate = draw.normal(size=(2, 5)), draw.normal(size=(2, 3, 5))
    _, wds = soft_tiger(torch.tensor(reference), torch.tensor(candidate))
    for row in range(2):
        wanted = weight_distribution_similarity(
            np.repeat(reference[row][None], 3, 0), candidate[row]
        )
        np.testing.assert_allclose(wds[row].numpy(), wanted, atol=1e-5)


def test_whitening_gives_unit_variance_where_there_is_any():
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(500, 1, 3, generator=draw) * torch.tensor([3.0, 2.0, 1.5])
    out = Whitening.sampled(rows, 3)(rows).float()
    np.testing.assert_allclose(out.reshape(-1, 3).std(0).numpy(), 1, atol=0.06)


@pytest.mark.full
def test_the_whole_training_command(tmp_path, shared):
    """Train a few steps on a hundred Flickr8k photographs, from files to a folder TIGEr can use."""
    from captious.cli import main

    photos = tmp_path / "photos"
    photos.mkdir()
    flickr = shared / "data" / "flickr8k"
    for part, count in (("train", 100), ("dev", 70)):
        names = (flickr / f"Flickr_8k.{part}Images.txt").read_text().split()[:count]
        (tmp_path / f"{part}.txt").write_text("\n".join(names))
        for name in names:
            (photos / name).write_bytes((flickr / "images" / name).read_bytes())
    cache = str(tmp_path / "cache")
    regions = str(tmp_path / "regions")
    assert main(["regions", str(photos), "-o", regions, "--cache", cache, "-q"]) == 0
    command = [
        "train",
        "scan",
        "--regions",
        regions,
        "--captions",
        str(flickr / "Flickr8k.token.txt"),
    ]
    command += ["--train", str(tmp_path / "train.txt"), "--dev", str(tmp_path / "dev.txt")]
    command += ["-o", str(tmp_path / "model"), "--steps", "4", "--batch", "8", "--validate", "2"]
    assert main([*command, "--cache", cache, "-q"]) == 0
    model, words = scan.load(tmp_path / "model")
    assert model.config.img_dim == 2560
    assert "dog" in words
    assert (tmp_path / "model" / "curve.png").stat().st_size > 1000
    later = [*command, "-o", str(tmp_path / "later"), "--start", str(tmp_path / "model")]
    (tmp_path / "train.txt").write_text(
        "\n".join((tmp_path / "train.txt").read_text().split()[40:])
    )
    assert main([*later, "--rate", "0", "--cache", cache, "-q"]) == 0
    again, same = scan.load(tmp_path / "later")
    assert same.words() == words.words()  # those of the earlier run, though fewer were read
    for name, value in model.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value, msg=name)


def test_joined_models_have_the_mean_of_the_dot_products(tmp_path):
    torch.manual_seed(0)
    config = scan.ScanConfig.of(
        {"img_dim": 6, "word_dim": 4, "embed_size": 8, "vocab_size": 9, "bi_gru": True}
    )
    members = [scan.Scan(config).eval() for _ in range(2)]
    both = scan.Joined(members).eval()
    seen, ids, lengths = torch.randn(3, 6), torch.tensor([[1, 4, 5, 2]]), torch.tensor([4])
    dots = [one.image(seen) @ one.text(ids, lengths)[0].T for one in members]
    found = both.image(seen) @ both.text(ids, lengths)[0].T
    torch.testing.assert_close(found, (dots[0] + dots[1]) / 2)
    words = scan.Vocabulary({word: k for k, word in enumerate([*scan.SPECIALS, *"abcde"])})
    scan.save(both, words, tmp_path / "m", {"features": "x"})
    again, _ = scan.load(tmp_path / "m")
    assert isinstance(again, scan.Joined)
    torch.testing.assert_close(again.image(seen), both.image(seen), atol=2e-3, rtol=2e-3)


def test_unknown_compounds_are_read_as_their_parts():
    listed = [
        *scan.SPECIALS,
        "a",
        "table",
        "dining",
        "plant",
        "tv",
        "monitor",
        "to",
        "night",
        "rare",
    ]
    ids = {word: k for k, word in enumerate(listed)}
    words = scan.Vocabulary(ids, frequent=len(listed) - 1)
    assert words.parts("diningtable") == ["dining", "table"]
    assert words.parts("tvmonitor") == ["tv", "monitor"]
    assert words.parts("tonight") == ["tonight"], "a short word in front is no compound"
    assert words.parts("rareplant") == ["rareplant"], "parts are frequent words"
    assert words.parts("rare-plant") == ["rare", "plant"]
    assert words.parts("table") == ["table"]
    assert words.parts("zebra") == ["zebra"]
    assert scan.Vocabulary(ids).parts("diningtable") == ["diningtable"], "as the original has it"


def test_the_shipped_model_reads_compounds():
    from captious.models import grounding

    model = grounding.load("scan-coco")
    said = model.tokens("A man at a diningtable.")
    assert said == ["<start>", "a", "man", "at", "a", "dining", "table", ".", "<end>"]
    assert model.unknown("a diningtable and a pottedplant") == 0
    assert model.reading == "treebank+compounds"
