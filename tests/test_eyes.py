"""The last stage of a backbone: its twin for training, its trainer, and features made with it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite_pytorch")

from PIL import Image  # noqa: E402

from captious import assets  # noqa: E402
from captious.errors import InputError, MissingAsset  # noqa: E402
from captious.evidence import backbones, extract  # noqa: E402
from captious.models import text_encoder  # noqa: E402
from captious.training import eyes, eyes_run  # noqa: E402
from captious.training.scan_run import Sources  # noqa: E402

NAME = "efficientnet-lite0"
COLOURS = {
    "red": (220, 30, 30),
    "blue": (30, 30, 220),
    "green": (30, 200, 30),
    "white": (230, 230, 230),
}


@pytest.fixture(scope="module")
def network():
    try:
        path = assets.resolve(NAME)
    except MissingAsset as error:
        pytest.skip(str(error))
    return backbones.base_network(NAME, path)


def first_stages(network, pixels, blocks):
    state = torch.nn.functional.relu6(network._bn0(network._conv_stem(pixels)))
    for block in network._blocks[: eyes.split(network, blocks)]:
        state = block(state)
    return state.permute(0, 2, 3, 1)


# Four blocks are those at stride 32; five and eight have a stride of two among them.
DEPTHS = pytest.mark.parametrize("blocks", [None, 5, 8])


@DEPTHS
def test_the_twin_computes_what_the_network_computes(network, blocks, monkeypatch):
    pixels = torch.rand(2, 3, 64, 96, generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.inference_mode():
        right = network.extract_features(pixels)
        tail = eyes.Tail(network, blocks)
        assert len(tail.blocks) == (blocks or 4)
        maps = first_stages(network, pixels, blocks)
        rounded = tail(maps).permute(0, 3, 1, 2).float()
        monkeypatch.setattr(eyes, "HALF", torch.float32)
        ours = tail(maps).permute(0, 3, 1, 2)
    assert torch.allclose(ours, right, atol=1e-3)
    assert torch.corrcoef(torch.stack([rounded.flatten(), right.flatten()]))[0, 1] > 0.999


@DEPTHS
def test_exported_weights_fit_the_original_network(network, blocks):
    pixels = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(2)) * 2 - 1
    stage = eyes.Tail(network, blocks).exported(network)
    other = backbones.base_network(NAME, assets.resolve(NAME))
    with torch.inference_mode():
        right = network.extract_features(pixels)
        other.load_state_dict(other.state_dict() | stage)
        assert torch.allclose(other.extract_features(pixels), right, atol=1e-4)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eyes")
    draw = np.random.default_rng(0)
    lines, names = [], []
    for colour, shade in COLOURS.items():
        for number in range(4):
            name = f"{colour}-{number}.png"
            noise = draw.integers(-25, 25, (48, 64, 3))
            Image.fromarray(np.uint8(np.clip(np.array(shade) + noise, 0, 255))).save(folder / name)
            names.append(name)
            lines += [f"{name}#{k}\t{t} {colour} wall" for k, t in enumerate(("a", "the", "one"))]
    (folder / "captions.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(n for n in names if n.endswith("-3.png")))
    (folder / "train.txt").write_text("\n".join(n for n in names if not n.endswith("-3.png")))
    return folder


OPTIONS = eyes.EyesOptions(
    steps=6, images=12, captions=4, frozen=2, warmup=2, average=0.5, validate=3, tail_rate=1e-3
)


def test_training_resumes_and_its_features_are_extracted(network, photographs, monkeypatch):
    try:
        text_encoder.load("minilm")
    except MissingAsset as error:
        pytest.skip(str(error))
    sources = Sources(
        photographs / "captions.txt", photographs, train=photographs / "train.txt",
        dev=photographs / "dev.txt",
    )  # fmt: skip
    target = photographs / "made"
    told: list[dict[str, float]] = []
    half = replace(OPTIONS, steps=3)
    eyes_run.train(photographs, sources, NAME, half, target, told.append)
    eyes_run.train(photographs, sources, NAME, OPTIONS, target, told.append)
    assert [entry["step"] for entry in told] == [3, 6]
    assert told[1]["words"] < told[0]["words"]
    facts = json.loads((target / "config.json").read_text())
    assert (facts["backbone"], facts["images"], facts["side"]) == (NAME, 12, 256)

    # The folder stands for an asset called lite0-test: another last stage, so other features.
    known, resolve = assets.known(), assets.resolve
    monkeypatch.setattr(assets, "known", lambda: [*known, "lite0-test"])
    monkeypatch.setattr(
        assets, "resolve", lambda name, *a, **k: target if name == "lite0-test" else resolve(name)
    )
    assert extract.backbones_of("lite0-test/square64/grid4/v1") == ("lite0-test", NAME)
    tuned = extract.extractor_of("lite0-test/square64/grid4/v1")
    plain = extract.extractor_of(f"{NAME}/square64/grid4/v1")
    picture = Image.open(photographs / "red-0.png")
    ours, theirs = tuned(picture), plain(picture)
    assert ours.features.shape == theirs.features.shape == (4, 1280)
    assert tuned.source == "lite0-test/square64/grid4/v1"
    assert np.abs(ours.features.astype(float) - theirs.features).max() > 1e-3
    assert ours.width == 64
    assert ours.height == 48


def test_a_last_stage_of_another_backbone_is_refused(network, tmp_path):
    from safetensors.torch import save_file

    save_file({"_conv_head.weight": torch.zeros(3, 3, 1, 1)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="not a last stage of this backbone"):
        backbones.base_network("lite0-test", tmp_path)


def test_missing_photographs_are_named_at_once(network, photographs):
    with pytest.raises(InputError) as error:
        eyes_run.stage_maps(network, 12, photographs, ["x.png", "y.png"], photographs / "maps.npy")
    assert "x.png" in str(error.value)
    assert "y.png" in str(error.value)
