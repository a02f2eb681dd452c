"""The metric fit, its model file and its trainer."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from captious.errors import InputError, MissingAsset, UsageError  # noqa: E402
from captious.evidence.regions import MemoryRegions, RegionSet, save_regions  # noqa: E402
from captious.metrics.fit import Fit  # noqa: E402
from captious.models import fit as model  # noqa: E402
from captious.models import text_encoder  # noqa: E402
from captious.training import fit as trainer  # noqa: E402
from captious.training.fit_run import train  # noqa: E402
from captious.training.scan_run import Sources  # noqa: E402
from captious.training.whitened import Whitening, whitened, whitening_of  # noqa: E402
from captious.types import CaptionSet  # noqa: E402
from seeing import Seeing  # noqa: E402

THINGS = ["dog", "cat", "bus", "pizza", "horse", "boat", "kite", "clock"]
COLOURS = ["red", "blue", "green", "white"]


def minilm() -> None:
    try:
        text_encoder.load("minilm")
    except MissingAsset as error:
        pytest.skip(str(error))


def toy(folder):
    """Photographs of one thing in one colour; the features say which."""
    draw = np.random.default_rng(0)
    thing, colour = draw.normal(size=(8, 24)), draw.normal(size=(4, 24))
    sets, lines, names = {}, [], []
    for a, what in enumerate(THINGS):
        for b, shade in enumerate(COLOURS):
            for copy in range(2):
                name = f"{what}-{shade}-{copy}.jpg"
                noise = draw.normal(size=(5, 24)) * 0.3
                features = (thing[a] + colour[b] + noise).astype(np.float16)
                sets[name] = RegionSet(features, np.zeros((5, 4), np.float32), 10, 10)
                names.append(name)
                lines += [
                    f"{name}#0\ta {shade} {what}",
                    f"{name}#1\tthe {what} is {shade}",
                    f"{name}#2\tthere is a {shade} {what} here",
                ]
    save_regions(MemoryRegions(sets, "toy/v1"), folder / "regions")
    (folder / "captions.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "train.txt").write_text("\n".join(n for n in names if n.endswith("0.jpg")))
    (folder / "dev.txt").write_text("\n".join(n for n in names if n.endswith("1.jpg")))
    return Sources(
        folder / "captions.txt", folder / "regions", None, folder / "train.txt", folder / "dev.txt"
    )


OPTIONS = trainer.FitOptions(
    steps=40, images=32, group=1, warmup=5, whitened=16, least=1, average=0.9, validate=20
)
SHAPE = {"inner": 32, "dim": 16, "piece_dim": 16}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    minilm()
    folder = tmp_path_factory.mktemp("fit")
    sources = toy(folder)
    entries = []
    train(sources, SHAPE, OPTIONS, folder / "one", entries.append)
    return folder, sources, entries


def metric(folder, name="one"):
    return Seeing(Fit(model=str(folder / name)), str(folder / "regions"))


def rows_of(texts, images):
    return CaptionSet.build(texts, [[] for _ in texts], images=images)


def test_it_learns(made):
    _, _, entries = made
    assert entries[-1]["contrast"] < entries[0]["contrast"]
    assert entries[-1]["images_r5"] > 40  # 16 of 100 by chance


def test_the_right_caption_wins(made):
    folder, _, _ = made
    given = rows_of(["a red dog", "a blue boat"], ["dog-red-1.jpg"] * 2)
    right, wrong = metric(folder).stats(given, None).rows[:, 0]
    assert right > wrong


def test_company_and_order_do_not_matter(made):
    folder, _, _ = made
    texts = ["a red dog", "a very long caption about the white clock and nothing else", "a dog"]
    images = ["dog-red-1.jpg", "clock-white-0.jpg", "dog-red-1.jpg"]
    one = metric(folder)
    together = one.stats(rows_of(texts, images), None).rows[:, 0]
    back = one.stats(rows_of(texts[::-1], images[::-1]), None).rows[::-1, 0]
    alone = [
        one.stats(rows_of([t], [i]), None).rows[0, 0] for t, i in zip(texts, images, strict=True)
    ]
    np.testing.assert_allclose(together, back, atol=1e-5)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_what_cannot_be_scored_says_why(made):
    folder, _, _ = made
    found = metric(folder).stats(
        rows_of(["a dog", " ", "a dog"], ["x.jpg", "dog-red-0.jpg", None]), None
    )
    assert np.isnan(found.rows).all()
    assert ["region features" in found.reasons[0], "empty" in found.reasons[1]] == [True, True]
    assert "no image" in found.reasons[2]


def test_two_members_give_the_mean_of_their_cosines(made):
    folder, sources, _ = made
    other = trainer.FitOptions(**{**OPTIONS.__dict__, "seed": 2})
    train(sources, SHAPE, other, folder / "second")
    train(sources, SHAPE, other, folder / "both", join=[folder / "one"])
    given = rows_of(["a red dog", "the bus is blue"], ["dog-red-1.jpg", "dog-red-1.jpg"])
    each = [metric(folder, name).stats(given, None).rows for name in ("one", "second", "both")]
    np.testing.assert_allclose((each[0] + each[1]) / 2, each[2], atol=2e-3)


def test_a_run_that_was_cut_off_goes_on(made, tmp_path):
    _, sources, _ = made
    short = trainer.FitOptions(**{**OPTIONS.__dict__, "steps": 20})
    train(sources, SHAPE, short, tmp_path / "again")
    seen = []
    train(sources, SHAPE, OPTIONS, tmp_path / "again", seen.append)
    assert [entry["step"] for entry in seen] == [40]


def test_explain_leaves_out_each_word(made):
    folder, _, _ = made
    found = metric(folder).explain(rows_of(["a red dog"], ["dog-red-1.jpg"])[0], None)
    assert [one["word"] for one in found.data["words"]] == ["a", "red", "dog"]
    for move in found.data["words"]:
        assert f"{move['word']} {move['change']:+.4f}" in found.text
    many = " ".join(f"red dog{k}," for k in range(10))
    told = metric(folder).explain(rows_of([many], ["dog-red-1.jpg"])[0], None)
    assert "12 other words move it less" in told.text
    assert len(told.text.splitlines()) <= 4


def test_signature_names_weights_and_features(made):
    folder, _, _ = made
    one = metric(folder)
    assert len(one.signature_parts(None)["weights"]) == 12
    assert "|features:toy/v1|" in f"|{one.signature('0', None, one.evidence)}|"


def test_other_features_are_refused(made, tmp_path):
    folder, _, _ = made
    sets = {"a.jpg": RegionSet(np.zeros((5, 7), np.float16), None, 1, 1)}
    save_regions(MemoryRegions(sets), tmp_path / "r")
    one = Seeing(Fit(model=str(folder / "one")), str(tmp_path / "r"))
    with pytest.raises(InputError, match="length 24"):
        one.stats(rows_of(["a dog"], ["a.jpg"]), None)


def test_bytes_with_scales_are_close():
    torch.manual_seed(0)
    value = torch.randn(20, 50)
    back = model._unpacked(model.packed("w", value))["w"]
    assert float((back - value).abs().max()) < float(value.abs().max()) / 200


def test_damaged_models_are_refused(made, tmp_path):
    folder, _, _ = made
    target = tmp_path / "m"
    target.mkdir()
    for file in ("model.safetensors", "pieces.json", "config.json"):
        (target / file).write_bytes((folder / "one" / file).read_bytes())
    config = json.loads((target / "config.json").read_text())
    config["fit"]["inner"] = 10**9
    (target / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="largest"):
        model.load(str(target))
    with pytest.raises(UsageError, match="no such folder"):
        model.load(str(tmp_path / "absent"))


def test_whitening_is_found_again_and_folds(made, tmp_path):
    _, sources, _ = made
    from captious.evidence.region_formats import open_regions

    store = open_regions(sources.regions)
    names = list(store.ids())
    first = whitening_of(store, names, 8, tmp_path)
    again = whitening_of(store, names[:3], 8, tmp_path)
    assert torch.equal(first.matrix, again.matrix)
    block = whitened(store, names, first, tmp_path / "r.npy", chunk=7)
    assert block.shape == (64, 5, 8)
    raw = torch.from_numpy(np.array(store[names[5]].features, np.float32))
    weight, bias = torch.randn(3, 8), torch.randn(3)
    full, shift = first.folded(weight, bias)
    wanted = block[5].float() @ weight.T + bias
    np.testing.assert_allclose(raw @ full.T + shift, wanted, atol=0.05)
    assert isinstance(first, Whitening)
