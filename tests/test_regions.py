"""Region stores: our format, formats of others, the extractor's geometry."""

from __future__ import annotations

import base64
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from captious.errors import InputError
from captious.evidence import backbones, extract
from captious.evidence.region_formats import convert_pickle, open_regions
from captious.evidence.regions import (
    KeyTable,
    MemoryRegions,
    RegionFolder,
    RegionSet,
    RegionWriter,
    require,
    save_regions,
)


def make(count: int = 3, regions: int = 2, dim: int = 4) -> MemoryRegions:
    draw = np.random.default_rng(0)
    return MemoryRegions(
        {
            f"photo{n}.jpg": RegionSet(
                draw.normal(size=(regions, dim)).astype(np.float32),
                np.array([[0, 0, 10, 10], [5, 5, 10, 20]], np.float32)[:regions],
                10,
                20,
            )
            for n in range(count)
        },
        "toy",
    )


def same(one: RegionSet, other: RegionSet, atol: float = 0.0) -> None:
    np.testing.assert_allclose(one.features, other.features, atol=atol)
    if other.boxes is not None:
        np.testing.assert_allclose(one.boxes, other.boxes)


def test_our_format_round_trip_and_short_names(tmp_path):
    store = make()
    folder = save_regions(store, tmp_path / "r", part=2)
    assert len(list((tmp_path / "r").glob("part-*.index.json"))) == 2
    assert list(folder.ids()) == list(store.ids())
    assert (folder.dim, folder.source) == (4, "toy")
    for name in store.ids():
        same(folder[name], store[name], atol=2e-3)
    assert (folder["photo1.jpg"].width, folder["photo1.jpg"].height) == (10, 20)
    same(folder["/elsewhere/photo1.jpg"], store["photo1.jpg"], atol=2e-3)
    same(folder["photo2"], store["photo2.jpg"], atol=2e-3)
    assert "photo9.jpg" not in folder


def test_a_resumed_conversion_writes_only_what_is_missing(tmp_path):
    store = make()
    writer = RegionWriter(tmp_path / "r", 4, "toy")
    writer.write_part([("photo0.jpg", store["photo0.jpg"])])
    folder = save_regions(store, tmp_path / "r")
    assert sorted(folder.ids()) == sorted(store.ids())
    with pytest.raises(InputError, match="another folder"):
        RegionWriter(tmp_path / "r", 5, "toy")


def test_an_unfinished_part_is_not_seen(tmp_path):
    save_regions(make(1), tmp_path / "r")
    np.save(tmp_path / "r" / "part-00009-1.features.npy", np.zeros((2, 4), np.float16))
    assert len(RegionFolder(tmp_path / "r")) == 1


def test_all_missing_images_are_named_at_once():
    with pytest.raises(InputError, match=r"2 images .*a\.jpg, b\.jpg"):
        require(make(), ["photo0.jpg", "b.jpg", "a.jpg", "b.jpg"])


def test_ambiguous_short_names_are_not_guessed():
    one = make(1)["photo0.jpg"]
    store = MemoryRegions({"x/1.jpg": one, "y/1.jpg": one})
    assert "x/1.jpg" in store
    assert "1.jpg" not in store


def test_boxes_as_fractions():
    spatial = make(1)["photo0"].spatial()
    np.testing.assert_allclose(spatial[1], [0.5, 0.25, 1, 1, 0.375])


# -- formats of others ------------------------------------------------------------------------


@pytest.mark.parametrize("rows_per_image", [1, 5])
def test_scan_array(tmp_path, rows_per_image):
    data = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    np.save(tmp_path / "test_ims.npy", np.repeat(data, rows_per_image, axis=0))
    ids = [name for name in ("17", "4") for _ in range(5)]
    (tmp_path / "test_ids.txt").write_text("\n".join(ids))
    store = open_regions(tmp_path / "test_ims.npy")
    assert list(store.ids()) == ["17", "4"]
    np.testing.assert_array_equal(store["4"].features, data[1])
    assert store["4"].boxes is None


def test_scan_array_with_the_wrong_number_of_ids(tmp_path):
    np.save(tmp_path / "test_ims.npy", np.zeros((2, 3, 4), np.float32))
    (tmp_path / "test_ids.txt").write_text("1 2 3")
    with pytest.raises(InputError, match="2 rows of features but 3 ids"):
        open_regions(tmp_path / "test_ims.npy")


def b64(array: np.ndarray) -> bytes:
    return base64.b64encode(array.astype("<f4").tobytes())


def test_bottom_up_tsv(tmp_path):
    store = make()
    with open(tmp_path / "f.tsv", "wb") as file:
        for n, name in enumerate(store.ids()):
            one = store[name]
            fields = [str(n).encode(), b"10", b"20", b"2", b64(one.boxes), b64(one.features)]
            file.write(b"\t".join(fields) + b"\n")
    read = open_regions(tmp_path / "f.tsv")
    same(read["1"], store["photo1.jpg"])
    assert (read["1"].width, read["1"].height) == (10, 20)
    text = (tmp_path / "f.tsv").read_bytes().replace(b"\t2\t", b"\t3\t", 1)
    (tmp_path / "bad.tsv").write_bytes(text)
    with pytest.raises(InputError, match=r"image 0: not readable"):
        open_regions(tmp_path / "bad.tsv")["0"]


def test_folder_of_npz_and_npy(tmp_path):
    one = make(1)["photo0.jpg"]
    np.savez(tmp_path / "a.npz", x=one.features, bbox=one.boxes, image_w=10, image_h=20)
    np.save(tmp_path / "b.npy", one.features)
    store = open_regions(tmp_path)
    same(store["a"], one)
    same(store["a.jpg"], one)
    assert store["a"].height == 20
    np.testing.assert_array_equal(store["b"].features, one.features)


def test_npz_with_pickled_objects_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="refused"):
        open_regions(tmp_path)


@pytest.mark.parametrize("layout", ["groups", "arrays"])
def test_hdf5(tmp_path, layout):
    h5py = pytest.importorskip("h5py")
    store = make()
    with h5py.File(tmp_path / "f.h5", "w") as file:
        if layout == "groups":
            for name in store.ids():
                group = file.create_group(name)
                group["features"], group["boxes"] = store[name].features, store[name].boxes
                group.attrs["image_w"], group.attrs["image_h"] = 10, 20
        else:
            file["ids"] = [name.encode() for name in store.ids()]
            file["features"] = np.stack([store[name].features for name in store.ids()])
            file["boxes"] = np.stack([store[name].boxes for name in store.ids()])
    same(open_regions(tmp_path / "f.h5")["photo2.jpg"], store["photo2.jpg"])


def write_lmdb(path, items):
    lmdb = pytest.importorskip("lmdb")
    base = lmdb.open(str(path), map_size=1 << 20)
    with base.begin(write=True) as view:
        for key, value in items:
            view.put(key, value)
    base.close()


@pytest.mark.parametrize("layout", ["base64", "arrays"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_both_vilbert_lmdb_layouts(tmp_path, layout, protocol):
    store = make()
    items, keys = [], []
    for n, name in enumerate(store.ids()):
        one = store[name]
        entry = {"image_id": str(n), "image_h": "20", "image_w": "10", "num_boxes": 2}
        if layout == "base64":
            entry |= {"boxes": b64(one.boxes), "features": b64(one.features)}
        else:
            entry |= {"boxes": one.boxes, "features": one.features, "image_h": np.int64(20)}
        keys.append(str(n).encode())
        items.append((keys[-1], pickle.dumps(entry, protocol)))
    items.append((b"keys", pickle.dumps(keys, protocol)))
    write_lmdb(tmp_path / "l", items)
    read = open_regions(tmp_path / "l")
    same(read["2"], store["photo2.jpg"])
    assert (read["2"].width, read["2"].height) == (10, 20)


class _Evil:
    def __reduce__(self):
        return os.system, ("true",)


def test_pickles_that_would_run_code_are_refused(tmp_path):
    bad = pickle.dumps({"features": _Evil()})
    write_lmdb(tmp_path / "l", [(b"1", bad)])
    with pytest.raises(InputError, match="refused: the file asks for"):
        open_regions(tmp_path / "l")
    (tmp_path / "x.pkl").write_bytes(bad)
    with pytest.raises(InputError, match="refused"):
        convert_pickle(tmp_path / "x.pkl")


def test_imgs_rcnn_pickles_only_by_conversion(tmp_path):
    one = make(1)["photo0.jpg"]
    (tmp_path / "imgs_rcnn.pkl").write_bytes(pickle.dumps({7: one.features}))
    with pytest.raises(InputError, match="Convert it once"):
        open_regions(tmp_path / "imgs_rcnn.pkl")
    from captious.cli import main

    target = tmp_path / "out"
    assert main(["regions", str(tmp_path / "imgs_rcnn.pkl"), "-o", str(target), "-q"]) == 0
    same(RegionFolder(target)["7"], RegionSet(one.features, None, None, None), atol=2e-3)


def test_unknown_kinds_say_so(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(InputError, match="not a kind"):
        open_regions(tmp_path / "x.bin")


# -- extraction -------------------------------------------------------------------------------


class Corner:
    """A backbone that answers the mean colour of each 32 x 32 cell."""

    name, dim = "corner", 3

    def maps(self, pixels):
        height, width, _ = pixels.shape
        cells = pixels.reshape(height // 32, 32, width // 32, 32, 3).mean((1, 3))
        return cells.transpose(2, 0, 1).astype(np.float32)


def test_grid_covers_the_photograph():
    boxes = extract.grid_boxes(36)
    assert boxes.shape == (36, 4)
    assert len(np.unique(boxes, axis=0)) == 36
    assert boxes.min() == 0
    assert boxes.max() == pytest.approx(1)
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def test_pooling_is_the_mean_over_the_box():
    maps = np.arange(12, dtype=np.float32).reshape(3, 4)
    boxes = np.array([[0, 0, 1, 1], [0, 0, 0.25, 1 / 3], [0.125, 0, 0.375, 1 / 3]], np.float32)
    pooled = extract.pooling_weights(boxes, 3, 4) @ maps.reshape(-1)
    np.testing.assert_allclose(pooled, [5.5, 0, 0.5], atol=1e-5)


def test_pooling_in_pieces_is_one_product():
    weights = extract.pooling_weights(extract.grid_boxes(36), 10, 14)
    maps = np.random.default_rng(0).random((130, 140), np.float32)
    np.testing.assert_allclose(extract.pool(weights, maps), weights @ maps.T, atol=1e-5)


@pytest.mark.parametrize(("width", "height"), [(320, 213), (213, 320), (500, 500), (3000, 20)])
def test_input_sizes_are_multiples_of_32_and_of_bounded_area(width, height):
    wide, tall = extract.input_size(width, height)
    assert wide % 32 == tall % 32 == 0
    assert 0.6 < wide * tall / extract.AREA < 1.5


def test_left_and_right_regions_see_left_and_right():
    from PIL import Image

    pixels = np.zeros((200, 300, 3), np.uint8)
    pixels[:, :150] = 255
    made = extract.Extractor([Corner()])
    regions = made(Image.fromarray(pixels))
    middle = regions.boxes[:, [0, 2]].mean(1)
    assert regions.features[middle < 70].min() > 200
    assert regions.features[middle > 230].max() < 55
    flipped = replace(made, flip=True)(Image.fromarray(pixels))
    assert flipped.features[middle < 70].max() < 55
    assert replace(made, flip=True).source == made.source + "/flipped"
    assert (regions.width, regions.height) == (300, 200)


def test_detector_boxes_take_the_place_of_the_finest_grid():
    from PIL import Image

    found = np.array([[0.1, 0.1, 0.2, 0.2]], np.float32)
    made = extract.Extractor([Corner()], 36, detector=lambda image: found)
    boxes = made(Image.new("RGB", (100, 100))).boxes
    np.testing.assert_allclose(boxes[-1], [10, 10, 20, 20], atol=1e-4)
    np.testing.assert_allclose(boxes[:35], extract.grid_boxes(35) * 100, atol=1e-4)


def test_extraction_resumes_and_lists_unreadable_files(tmp_path):
    from PIL import Image

    photos = tmp_path / "p"
    (photos / "sub").mkdir(parents=True)
    for name in ("a.png", "sub/b.png"):
        Image.new("RGB", (64, 64), "red").save(photos / name)
    (photos / "broken.jpg").write_bytes(b"no picture")
    made = extract.Extractor([Corner()])
    store, problems = extract.extract_folder(photos, tmp_path / "r", made)
    assert sorted(store.ids()) == ["a.png", "sub/b.png"]
    assert len(problems) == 1
    assert "broken.jpg" in problems[0]
    Image.new("RGB", (64, 64), "blue").save(photos / "c.png")
    calls = []
    made.backbones[0].maps = lambda pixels: calls.append(1) or Corner().maps(pixels)
    store, _ = extract.extract_folder(photos, tmp_path / "r", made)
    assert len(store) == 3
    assert len(calls) == 1


def test_only_the_photographs_of_a_list(tmp_path):
    from PIL import Image

    for name in "abc":
        Image.new("RGB", (64, 64), "red").save(tmp_path / f"{name}.png")
    made = extract.Extractor([Corner()])
    store, _ = extract.extract_folder(tmp_path, tmp_path / "r", made, only=["c.png", "a.png"])
    assert list(store.ids()) == ["c.png", "a.png"]
    with pytest.raises(InputError, match="2 problems") as caught:
        extract.extract_folder(tmp_path, tmp_path / "r", made, only=["x.png", "a.png", "y.png"])
    assert "'x.png'" in str(caught.value)
    assert "'y.png'" in str(caught.value)


def test_stores_of_several_collections_are_read_as_one(tmp_path):
    store = make(3)
    part = MemoryRegions({"photo2.jpg": store["photo2.jpg"]}, "toy")
    save_regions(make(2), tmp_path / "all/one")
    save_regions(part, tmp_path / "all/two")
    read = open_regions(tmp_path / "all")
    assert (len(read), read.dim, read.source) == (3, 4, "toy")
    for name in store.ids():
        same(read["/photos/" + name], store[name], atol=2e-3)
    assert "photo9.jpg" not in read
    with pytest.raises(InputError, match=r"photo9\.jpg"):
        require(read, ["photo1.jpg", "photo9.jpg"])
    save_regions(part, tmp_path / "all/three")
    with pytest.raises(InputError, match="occurs twice"):
        open_regions(tmp_path / "all")
    save_regions(MemoryRegions({"z.jpg": store["photo2.jpg"]}, "other"), tmp_path / "all/three2")
    with pytest.raises(InputError, match="different features"):
        open_regions(tmp_path / "all")


def test_boxes_of_a_detector_are_relative_and_never_empty(monkeypatch):
    from PIL import Image

    from captious.evidence import detect

    class Two:
        def detect(self, image, threshold):
            assert threshold == detect.THRESHOLD
            return [
                detect.Detection("dog", 0.9, (20.0, 10.0, 100.0, 60.0)),
                detect.Detection("cat", 0.8, (5.0, 5.0, 5.0, 40.0)),
            ]

    monkeypatch.setattr(detect, "load_detector", lambda name: Two())
    boxes = extract.detector_boxes("two")(Image.new("RGB", (200, 100)))
    np.testing.assert_allclose(boxes, [[0.1, 0.1, 0.5, 0.6]], atol=1e-6)
    made = extract.extractor([], detect="two", flip=True)
    assert made.source.endswith("/detector+grid36/v1/flipped")


def test_the_cache_knows_photographs_by_content(tmp_path, cache):
    from PIL import Image

    Image.new("RGB", (64, 64), "red").save(tmp_path / "a.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "a.png").read_bytes())
    calls = []
    made = extract.Extractor([Corner()])
    made.backbones[0].maps = lambda pixels: calls.append(1) or Corner().maps(pixels)
    one = extract.extract_photographs({"a": tmp_path / "a.png"}, made)
    two = extract.extract_photographs({"b": tmp_path / "copy.png"}, made)
    raw = extract.extract_photographs({"c": (tmp_path / "a.png").read_bytes()}, made)
    same(one["a"], two["b"])
    same(one["a"], raw["c"])
    assert one.identity("a") == two.identity("b") == raw.identity("c")
    assert len(calls) == 1
    with pytest.raises(InputError, match="2 problems"):
        extract.extract_photographs({n: tmp_path / n for n in ("x.png", "y.png")}, made)


@pytest.mark.full
def test_torch_and_onnx_backbones_agree(cache):
    pytest.importorskip("onnxruntime")
    pixels = np.random.default_rng(0).uniform(0, 255, (256, 320, 3)).astype(np.float32)
    backbone = backbones.EfficientNetLite("efficientnet-lite2")
    through_onnx = backbone.maps(pixels)
    backbone._run = backbones._torch_runner(backbone.name, backbone._path())
    np.testing.assert_allclose(through_onnx, backbone.maps(pixels), atol=1e-3)


def test_coco_photographs_are_found_by_both_official_names():
    table = KeyTable(["000000000042.jpg", "COCO_train2014_000000000009.jpg", "COCO_val2014_7.jpg"])
    assert table["COCO_val2014_000000000042.jpg"] == 0
    assert table["photos/COCO_val2014_000000000042.jpg"] == 0
    assert table["000000000009"] == 1
    assert "7" not in table  # no official name: twelve digits
    both = KeyTable(["COCO_train2014_000000000042.jpg", "COCO_val2014_000000000042.jpg"])
    assert both["COCO_val2014_000000000042.jpg"] == 1
    assert "000000000042.jpg" not in both  # fits two


@pytest.fixture
def two_photographs(tmp_path):
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        Image.new("RGB", (96, 64), colour).save(folder / name)
    return folder


def test_regions_makes_what_the_models_read(two_photographs, tmp_path, monkeypatch):
    """Without options the kind of tiger, scan and fit; --for asks the metric."""
    from captious import registry
    from captious.cli import main
    from captious.engine.evidence import kinds_read

    asked = []

    def remember(source, target, maker, only=None):
        asked.append(maker.source)
        return make(1), []

    monkeypatch.setattr(extract, "extract_folder", remember)
    monkeypatch.setattr(backbones.EfficientNetLite, "open", lambda self: None)
    for more in ([], ["--for", "vilbertscore"], ["--square", "64", "--count", "4"]):
        assert main(["regions", str(two_photographs), "-o", str(tmp_path / "r"), "-q", *more]) == 0
    default, vilbert, small = asked
    ours = kinds_read([registry.create(name) for name in ("tiger", "scan", "fit")])
    assert ours == [default]
    assert [vilbert] == kinds_read([registry.create("vilbertscore")])
    assert small == default.replace("square256/grid36", "square64/grid4")


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--for", "bleu"], "reads no region features"),
     (["--for", "fit", "--backbone", "efficientnet-lite0"], "leave out --backbone")],
)  # fmt: skip
def test_regions_for_a_metric_says_what_is_wrong(two_photographs, tmp_path, capsys, options, said):
    from captious.cli import main

    assert main(["regions", str(two_photographs), "-o", str(tmp_path / "r"), *options]) == 2
    assert said in capsys.readouterr().err


def test_several_stores_are_part_of_a_job(two_photographs, tmp_path):
    from captious.engine.job import ScoringJob

    places = []
    for kind in ("one", "two"):
        store = MemoryRegions({f"{n}.png": make(2)["photo1.jpg"] for n in "ab"}, kind)
        save_regions(store, tmp_path / kind)
        places.append(tmp_path / kind)
    job = ScoringJob(["red", "blue"], images=["a.png", "b.png"], regions=places)
    assert [held.source for held in job.read().evidence.regions] == ["one", "two"]
    assert ScoringJob.from_json(job.to_json()).regions == places
    with pytest.raises(InputError, match="no such store"):
        ScoringJob(["red"], metrics=("bleu",), references=[["red"]],
                   regions=[places[0], tmp_path / "three"]).check()  # fmt: skip


def test_a_composite_signs_the_features_that_its_inputs_read():
    """With several stores the one that the inputs read stands in the signature."""
    import captious
    from captious import registry
    from captious.engine import evidence

    metric = registry.create("captious_free")
    [kind] = evidence.kinds_read([metric])
    regions = {"a.png": make(2)["photo1.jpg"]}
    stores = [MemoryRegions(regions, "another"), MemoryRegions(regions, kind)]
    samples = evidence.given(captious.load(["a dog"], images=["a.png"]), regions=stores)
    assert f"|features:{kind}|" in metric.signature("0", None, samples.evidence)
