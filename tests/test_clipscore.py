"""CLIPScore and PAC-S against the authors' code, on random models; see tests/golden/clip."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import captious
import tiny_models
from captious import errors, settings
from captious.demo import photographs
from captious.engine import evidence
from captious.metrics.clipscore import ClipScore, RefClipScore
from captious.metrics.pac_s import PacS, RefPacS
from captious.models import dual_encoder, openai_clip
from captious.types import CaptionSet
from conftest import GOLDEN


@pytest.fixture(scope="module")
def golden() -> dict:
    return json.loads((GOLDEN / "clip" / "clipscore.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def lora(tmp_path_factory):
    return tiny_models.save_state(tmp_path_factory.mktemp("pac") / "pac++.pth", lora=True)


@pytest.fixture
def samples(golden, cache) -> CaptionSet:
    named = {path.name: str(path) for path in photographs()}
    made = CaptionSet.build(
        golden["captions"],
        golden["references"],
        images=[named[name] for name in golden["photographs"]],
    )
    return evidence.complete(made, [ClipScore()])


def scores(metric, samples) -> list[float]:
    return metric.stats(samples, None).rows[:, 0].tolist()


@pytest.mark.parametrize("profile", ["paper", "release"])
def test_the_authors_numbers(samples, folder, golden, profile):
    metric = ClipScore(str(folder), profile=profile)
    assert scores(metric, samples) == pytest.approx(golden["clipscore"], abs=1e-5)
    found = scores(RefClipScore(str(folder), profile=profile), samples)
    assert found == pytest.approx(golden["ref_clipscore"], abs=1e-5)


def test_pac_s_from_a_state_dict(samples, folder, golden, tmp_path):
    weights = str(tiny_models.save_state(tmp_path / "clip_tiny.pth"))
    found = scores(PacS(str(folder), weights=weights), samples)
    assert found == pytest.approx(golden["pac_s"], abs=1e-5)
    found = scores(RefPacS(str(folder), weights=weights), samples)
    assert found == pytest.approx(golden["ref_pac_s"], abs=1e-5)


def test_pac_s_plus_plus_adds_what_the_authors_add(samples, folder, golden, lora):
    found = scores(PacS(str(folder), weights=str(lora)), samples)
    assert found == pytest.approx(golden["pac_s_lora"], abs=1e-5)
    found = scores(RefPacS(str(folder), weights=str(lora)), samples)
    assert found == pytest.approx(golden["ref_pac_s_lora"], abs=1e-5)
    assert not np.allclose(golden["pac_s_lora"], golden["pac_s"], atol=1e-3)


def test_long_clip_scores_as_the_authors_class_does(folder, tmp_path, cache):
    """Texts below 20 pieces, below and above CLIP's 77, and beyond Long-CLIP's 248."""
    golden = json.loads((GOLDEN / "clip" / "long_clip.json").read_text())
    assert any(20 < n < 77 for n in golden["pieces"])
    assert any(77 < n < tiny_models.LONG_CONTEXT for n in golden["pieces"])
    named = {path.name: str(path) for path in photographs()}
    images = [named[name] for name in golden["photographs"]]
    made = CaptionSet.build(golden["captions"], golden["references"], images=images)
    made = evidence.complete(made, [ClipScore()])
    weights = str(tiny_models.save_state(tmp_path / "long.pth", long=True))
    metric = RefClipScore(str(folder), weights=weights)
    stats = metric.stats(made, None)
    assert stats.rows[:, 0].tolist() == pytest.approx(golden["ref_clipscore"], abs=1e-5)
    assert stats.notes == {"captions cut to 248 tokens": 1}
    assert "cut:248" in metric.signature("2", None, made.evidence)
    found = scores(ClipScore(str(folder), weights=weights), made)
    assert found == pytest.approx(golden["clipscore"], abs=1e-5)


def test_a_long_clip_folder_whose_configuration_says_77(tmp_path):
    """Long-CLIPs of the hub have CLIP's config.json; their weights know better."""
    from transformers import CLIPModel

    folder = tiny_models.save_clip(tmp_path / "long")
    config = json.loads((folder / "config.json").read_text())
    model = CLIPModel.from_pretrained(folder)
    table = model.text_model.embeddings.position_embedding
    table.weight = type(table.weight)(table.weight.detach().repeat(3, 1))
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    assert dual_encoder.load(str(folder)).limit == 3 * tiny_models.CONTEXT


def test_the_clipscore_of_torchmetrics_is_100_times_the_mean_cosine(samples, folder):
    """What docs/metrics/clipscore.md says of it: neither prefix nor factor, one number for all."""
    host = pytest.importorskip(
        "torchmetrics.multimodal", reason="the host torchmetrics is not installed"
    )
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, CLIPImageProcessorPil, CLIPModel, CLIPProcessor

    class Plain(CLIPModel):
        """Answers as transformers 4 did, which torchmetrics 1.9 expects."""

        def get_image_features(self, *args, **kwargs):
            return super().get_image_features(*args, **kwargs).pooler_output

        def get_text_features(self, *args, **kwargs):
            return super().get_text_features(*args, **kwargs).pooler_output

    def made():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        pictures = CLIPImageProcessorPil.from_pretrained(folder)
        return Plain.from_pretrained(folder), CLIPProcessor(pictures, tokenizer)

    short = samples.take([0, 1, 2, 4])  # the other text is cut, in another way
    pictures = [np.array(Image.open(i).convert("RGB")) for i in short.images]
    theirs = host.CLIPScore(made)
    theirs.update(
        [torch.from_numpy(picture).permute(2, 0, 1) for picture in pictures],
        [f"A photo depicts {text}" for text in short.captions()],
    )
    ours = scores(ClipScore(str(folder)), short)
    assert float(theirs.compute()) == pytest.approx(100 * np.mean(ours) / 2.5, abs=1e-3)


def test_long_clip_joins_its_tables_of_positions(tmp_path):
    state = tiny_models.openai_state(long=True)
    joined = openai_clip.read(tiny_models.save_state(tmp_path / "long.pth", long=True))
    positions = joined["text_model.embeddings.position_embedding.weight"].numpy()
    np.testing.assert_array_equal(positions[:20], state["positional_embedding"][:20])
    np.testing.assert_array_equal(positions[20:], state["positional_embedding_res"][20:])


def test_long_texts_are_counted(samples, folder):
    notes = RefClipScore(str(folder)).stats(samples, None).notes
    assert notes == {f"captions cut to {tiny_models.CONTEXT} tokens": 1}


def test_photographs_are_looked_at_once(samples, folder, monkeypatch):
    metric = ClipScore(str(folder))
    first = scores(metric, samples)
    samples.pool.forget()

    def refuse(self, pictures):
        raise AssertionError("a photograph was encoded again")

    monkeypatch.setattr(dual_encoder.TransformersDual, "_pictures", refuse)
    renamed = replace(
        samples,
        images=np.array([f"other-{i}" for i in range(len(samples))], object),
        evidence=replace(
            samples.evidence,
            photographs={
                f"other-{i}": Path(path).read_bytes() for i, path in enumerate(samples.images)
            },
            digests={},
        ),
    )
    assert scores(metric, renamed) == pytest.approx(first, abs=1e-7)


def test_batches_do_not_matter(samples, folder, monkeypatch, cache):
    metric = ClipScore(str(folder))
    first = scores(metric, samples)
    samples.pool.forget()
    monkeypatch.setattr(dual_encoder, "_IMAGES_AT_ONCE", 2)
    monkeypatch.setattr(dual_encoder, "_PIECES_AT_ONCE", 8)
    with settings.use(cache_dir=cache.cache_dir / "other"):
        assert scores(metric, samples) == pytest.approx(first, abs=2e-6)


def test_siglip_and_its_signature(samples, tmp_path):
    folder = tiny_models.save_siglip(tmp_path / "siglip")
    metric = RefClipScore(str(folder), prefix="")
    stats = metric.stats(samples, None)
    assert np.isfinite(stats.rows).all()
    assert "captions cut to 16 tokens" in stats.notes
    signature = metric.signature("2", None, samples.evidence)
    for part in ("model:", "sha256:", "preprocessing:32-", "dtype:float32", "prefix:|"):
        assert part in signature


@pytest.mark.parametrize("side", ["right", "left"])
def test_siglip_vectors_are_those_of_transformers(samples, tmp_path, side):
    import torch
    from PIL import Image
    from transformers import AutoModel, AutoTokenizer, SiglipImageProcessorPil

    folder = tiny_models.save_siglip(tmp_path / "siglip")
    AutoTokenizer.from_pretrained(folder, padding_side=side).save_pretrained(folder)
    texts = ["a dog", "a man on the beach"]
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.padding_side == side
    ids = tokenizer(texts, padding="max_length", max_length=16, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        vectors = model.get_text_features(input_ids=ids)
        prepare = SiglipImageProcessorPil.from_pretrained(folder)
        picture = Image.open(samples.images[0]).convert("RGB")
        pixels = prepare(picture, return_tensors="pt")["pixel_values"]
        image = model.get_image_features(pixel_values=pixels)
    vectors, image = (getattr(x, "pooler_output", x) for x in (vectors, image))
    cosine = torch.nn.functional.cosine_similarity(vectors, image)
    both = samples.take([0, 0])
    both = CaptionSet.build(texts, images=both.images.tolist())
    metric = ClipScore(str(folder), prefix="")
    expected = (2.5 * cosine.clamp(min=0)).tolist()
    assert scores(metric, both) == pytest.approx(expected, abs=1e-5)


def test_a_model_of_patches_of_any_shape_is_refused(tmp_path):
    """SigLIP 2 NaFlex: transformers makes other pixels for it, and it reads their shape."""
    from transformers import CLIPTokenizer, Siglip2Config, Siglip2Model

    words = tiny_models.vocabulary()
    CLIPTokenizer(vocab=words, merges=tiny_models.merges()).save_pretrained(tmp_path)
    side = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 2}  # fmt: skip
    text = side | {"vocab_size": len(words), "max_position_embeddings": 16}
    vision = side | {"patch_size": 16, "num_patches": 16}
    Siglip2Model(Siglip2Config(text_config=text, vision_config=vision)).save_pretrained(tmp_path)
    with pytest.raises(errors.UsageError, match="NaFlex"):
        dual_encoder.load(str(tmp_path))


def test_rows_that_cannot_be_scored_say_why(samples, folder, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff not a picture")
    image = str(samples.images[0])
    odd = CaptionSet.build(
        ["a dog", "", "a dog", "a dog", "a dog"],
        [["a dog"], ["a dog"], [], ["a dog"], ["a dog"]],
        images=[None, image, image, "nowhere.jpg", str(broken)],
    )
    stats = RefClipScore(str(folder)).stats(odd, None)
    assert np.isnan(stats.rows).all()
    said = ["has no image", "empty", "no references", "no photograph", "picture"]
    for row, part in enumerate(said):
        assert part in stats.reasons[row]


def test_absent_weights_are_named_before_anything_runs(golden, caplog):
    image = str(photographs()[0])
    with pytest.raises(errors.CaptiousError, match="clip-vit-base-patch32") as info:
        captious.score(["a dog"], images=[image], metrics=["clipscore"])
    assert "--download" in str(info.value)
    with pytest.raises(errors.CaptiousError, match="aimagelab/pacscore"):
        captious.score(["a dog"], images=[image], metrics=["pac_s"])
    if find_spec("open_clip") is None:
        with pytest.raises(errors.CaptiousError, match="open_clip"):
            captious.score(
                ["a dog"], images=[image], metrics=["clipscore(model='open_clip:ViT-B-32/openai')"]
            )


def test_a_foreign_state_dict_is_refused(folder, tmp_path):
    import torch

    torch.save({"state_dict": {"weight": torch.zeros(2)}}, tmp_path / "other.pth")
    with pytest.raises(errors.InputError, match=r"visual\.proj"):
        openai_clip.read(tmp_path / "other.pth")
    state = tiny_models.openai_state()
    state["visual.proj"] = state["visual.proj"][:, :8]
    torch.save({k: torch.from_numpy(np.array(v)) for k, v in state.items()}, tmp_path / "cut.pth")
    with pytest.raises(errors.InputError, match="visual_projection"):
        dual_encoder.load(str(folder), str(tmp_path / "cut.pth"))


def test_explains_by_leaving_words_out(samples, folder):
    told = RefClipScore(str(folder)).explain(samples[0], None)
    assert [w["word"] for w in told.data["words"]] == samples[0].caption.split()
    assert told.data["score"] == pytest.approx(scores(RefClipScore(str(folder)), samples)[0])


def test_through_the_engine(samples, folder, cache, caplog):
    caplog.set_level(logging.WARNING)
    table = captious.score(
        samples.captions(),
        samples.references(),
        images=samples.images.tolist(),
        metrics=[ClipScore(str(folder)), RefClipScore(str(folder))],
    )
    assert list(table.columns) == ["clipscore", "ref_clipscore"]


def test_weights_in_several_files_are_all_hashed(tmp_path):
    """The index of such a model is the same for every set of weights of that size."""
    from captious.models.text_encoder import weights_sha

    def folder(name: str, *files: tuple[str, bytes]):
        made = tmp_path / name
        made.mkdir()
        for file, content in files:
            (made / file).write_bytes(content)
        return weights_sha(made)

    index = ("model.safetensors.index.json", b"{}")
    first = ("model-00001-of-00002.safetensors", b"one")
    a = folder("a", index, first, ("model-00002-of-00002.safetensors", b"two"))
    b = folder("b", index, first, ("model-00002-of-00002.safetensors", b"six"))
    assert a != b
    assert a == folder("c", index, first, ("model-00002-of-00002.safetensors", b"two"))
    old = folder("d", ("pytorch_model-00001-of-00001.bin", b"one"))
    assert old == folder("e", ("model.safetensors", b"one")) != "unknown"


def test_a_missing_model_is_not_answered_with_encoders_of_texts():
    [problem] = ClipScore(model="nobody/no-such-clip").missing()
    assert "the image-text model 'nobody/no-such-clip' is not on this machine" in str(problem)
    assert "--download" in str(problem)
    assert "minilm" not in str(problem)
