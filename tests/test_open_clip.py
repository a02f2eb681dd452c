"""open_clip really run: a tiny model of open_clip scores as the same weights in transformers do.

open_clip imports torchvision, which captious never installs: tests/torchvision_stand_in.py takes
its place. Run with `pip install --no-deps --target FOLDER open_clip_torch ftfy wcwidth` and FOLDER
on PYTHONPATH.
"""

from __future__ import annotations

import gzip
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import captious
import torchvision_stand_in
from captious import errors
from captious.demo import photographs
from captious.metrics.clipscore import ClipScore, RefClipScore
from captious.models import dual_encoder
from captious.types import CaptionSet

WIDTH, SIDE, PATCH, DIM, CONTEXT = 64, 48, 16, 32, 24
TEXTS = ["a dog on a beach", "Two cats, sleeping.", "a red bus " * 12]

pytestmark = pytest.mark.skipif(find_spec("open_clip") is None, reason="open_clip is not installed")


@pytest.fixture
def open_clip(monkeypatch, tmp_path):
    """The real package, with a tiny architecture of ours."""
    torchvision_stand_in.install(monkeypatch)
    # Modules that an earlier test imported hold its stand-in.
    for name in [n for n in sys.modules if n.split(".")[0] in ("open_clip", "timm")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "timm", None)  # it would want the rest of torchvision
    import open_clip

    text = {"context_length": CONTEXT, "vocab_size": 49408, "width": WIDTH, "heads": 1, "layers": 2}
    vision = {"image_size": SIDE, "layers": 2, "width": WIDTH, "head_width": WIDTH,
              "patch_size": PATCH}  # fmt: skip
    shape = {"embed_dim": DIM, "quick_gelu": True, "vision_cfg": vision, "text_cfg": text}
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/tiny-test.json").write_text(json.dumps(shape))
    open_clip.add_model_config(tmp_path / "configs")
    return open_clip


@pytest.fixture
def weights(open_clip, tmp_path) -> Path:
    """Random weights of the tiny architecture, as open_clip saves them."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = open_clip.create_model("tiny-test")
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    path = tmp_path / "tiny.pt"
    torch.save({"state_dict": model.state_dict()}, path)
    return path


@pytest.fixture
def folder(open_clip, tmp_path) -> Path:
    """A folder of transformers of the same architecture with open_clip's table of pieces."""
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    place = tmp_path / "same"
    table = Path(open_clip.__file__).parent / "bpe_simple_vocab_16e6.txt.gz"
    lines = gzip.decompress(table.read_bytes()).decode().split("\n")
    merges = [tuple(line.split()) for line in lines[1 : 49152 - 256 - 2 + 1]]
    letters = list(bytes_to_unicode().values())
    pieces = letters + [f"{c}</w>" for c in letters] + ["".join(pair) for pair in merges]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=CONTEXT).save_pretrained(place)
    side = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_hidden_layers": 2,
            "num_attention_heads": 1, "projection_dim": DIM}  # fmt: skip
    end = vocabulary["<|endoftext|>"]
    text = side | {"vocab_size": 49408, "max_position_embeddings": CONTEXT, "bos_token_id": end - 1,
                   "eos_token_id": end, "pad_token_id": end}  # fmt: skip
    vision = side | {"patch_size": PATCH, "image_size": SIDE}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=DIM)
    CLIPModel(config).save_pretrained(place)
    (place / "preprocessor_config.json").write_text(json.dumps({
        "do_resize": True, "size": {"shortest_edge": SIDE}, "do_center_crop": True,
        "crop_size": {"height": SIDE, "width": SIDE}, "resample": 3}))  # fmt: skip
    return place


def test_open_clip_scores_as_transformers_does(weights, folder, cache):
    images = [str(path) for path in photographs()[: len(TEXTS)]]
    samples = CaptionSet.build(TEXTS, [["a dog"], ["a cat", "cats"], ["a bus"]], images=images)
    for kind in (ClipScore, RefClipScore):
        one = kind(f"open_clip:tiny-test@{weights}").stats(samples, None)
        other = kind(str(folder), weights=str(weights)).stats(samples, None)
        np.testing.assert_allclose(one.rows, other.rows, atol=1e-5)
        assert one.notes == other.notes == {f"captions cut to {CONTEXT} tokens": 1}
    assert (one.rows > 1e-4).sum() >= 2  # of random weights a cosine may be negative: 0


def test_what_open_clip_does_not_know(open_clip, weights):
    with pytest.raises(errors.UsageError, match="no architecture"):
        dual_encoder.load(f"open_clip:tiny-tset@{weights}")
    with pytest.raises(errors.CaptiousError, match="no file"):
        captious.score(["a dog"], images=[str(photographs()[0])],
                       metrics=["clipscore(model='open_clip:tiny-test@nowhere.pt')"])  # fmt: skip
    with pytest.raises(errors.UsageError, match="TAG"):
        dual_encoder.load("open_clip:tiny-test")


def test_the_same_weights_in_another_network_are_another_model(open_clip, weights, tmp_path, cache):
    """Vectors that the first one left in the cache are not taken for those of the second."""
    shape = json.loads((tmp_path / "configs/tiny-test.json").read_text())
    (tmp_path / "other").mkdir()
    (tmp_path / "other/tiny-other.json").write_text(json.dumps(shape | {"quick_gelu": False}))
    open_clip.add_model_config(tmp_path / "other")
    images = [str(path) for path in photographs()[: len(TEXTS)]]
    samples = CaptionSet.build(TEXTS, images=images)
    metrics = [ClipScore(f"open_clip:{name}@{weights}") for name in ("tiny-test", "tiny-other")]
    cosines = [metric._pairs(samples).image for metric in metrics]
    assert not np.array_equal(*cosines)
    parts = [
        [
            p
            for p in m.signature("0", None, samples.evidence).split("|")
            if not p.startswith("model")
        ]
        for m in metrics
    ]
    assert parts[0] != parts[1]
    again = ClipScore(f"open_clip:tiny-test@{weights}").signature("0", None, samples.evidence)
    assert again == metrics[0].signature("0", None, samples.evidence)  # no places in memory
