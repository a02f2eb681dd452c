"""Pictures from anywhere, and object labels in every format."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from captious.errors import InputError
from captious.evidence.images import find_images, open_image, open_images
from captious.evidence.objects import ObjectStore, union

# ---- pictures ----------------------------------------------------------------------------


def test_orientation_is_applied(tmp_path):
    picture = Image.new("RGB", (40, 20), "black")
    picture.paste("white", (0, 0, 20, 20))
    exif = picture.getexif()
    exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees
    picture.save(tmp_path / "a.jpg", exif=exif, quality=95)
    upright = open_image(tmp_path / "a.jpg")
    assert upright.size == (20, 40)
    pixels = np.asarray(upright)
    assert pixels[5].mean() > 200 > 50 > pixels[35].mean()


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "LA", "1", "I;16"])
def test_every_mode_becomes_rgb(mode, tmp_path):
    name = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    if mode == "I;16":
        Image.fromarray(np.full((4, 6), 40000, np.uint16)).save(name)
    else:
        Image.new("RGB", (6, 4), (250, 250, 250)).convert(mode).save(name)
    picture = open_image(name)
    assert (picture.mode, picture.size) == ("RGB", (6, 4))
    low, high = (150, 162) if mode == "I;16" else (245, 256)
    assert low <= np.asarray(picture).mean() <= high


def test_transparent_becomes_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "a.png")
    assert np.asarray(open_image(tmp_path / "a.png")).min() == 255


def _png_header(wide: int, high: int) -> bytes:
    """A PNG that claims a size; its pixel data is a few bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99))
            + chunk(b"IEND", b""))  # fmt: skip


def test_bad_files_are_refused_with_their_name(tmp_path):
    Image.new("RGB", (64, 64), "red").save(tmp_path / "good.jpg")
    whole = (tmp_path / "good.jpg").read_bytes()
    bad = {
        "bomb.png": _png_header(60_000, 60_000),
        "large.png": _png_header(9_500, 9_000),
        "cut.jpg": whole[: len(whole) // 2],
        "text.jpg": b"this is no picture",
        "empty.jpg": b"",
        "broken.png": _png_header(20, 20),
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.jpg").mkdir()
    for name in [*bad, "folder.jpg", "absent.jpg"]:
        with pytest.raises(InputError, match=name):
            open_image(tmp_path / name)
    with pytest.raises(InputError, match=r"64 x 64 .* 4,000"):
        open_image(tmp_path / "good.jpg", max_pixels=4000)


def test_a_folder_is_walked_to_the_end(tmp_path):
    (tmp_path / "sub").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "sub" / "b.PNG")
    Image.new("RGB", (8, 8)).save(tmp_path / "c.jpg")
    (tmp_path / "a.jpg").write_bytes(b"no")
    (tmp_path / "notes.txt").write_text("not a picture")
    paths = find_images(tmp_path)
    assert [p.name for p in paths] == ["a.jpg", "c.jpg", "b.PNG"]
    found = list(open_images(paths))
    assert [picture is None for _, picture, _ in found] == [True, False, False]
    assert "a.jpg" in found[0][2]
    with pytest.raises(InputError):
        find_images(tmp_path / "absent")


# ---- labels ------------------------------------------------------------------------------

VOC = """<annotation><filename>2008_000001.jpg</filename>
<object><name>pottedplant</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax>
</bndbox></object><object><name>person</name></object><object><name>person</name></object>
</annotation>"""


def _read(tmp_path, name: str, content, **options) -> ObjectStore:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return ObjectStore.read(path, **options)


def test_pascal_voc(tmp_path):
    (tmp_path / "voc").mkdir()
    (tmp_path / "voc" / "2008_000001.xml").write_text(VOC)
    (tmp_path / "voc" / "b.xml").write_text("<annotation><filename>b.jpg</filename></annotation>")
    store = ObjectStore.read(tmp_path / "voc")
    assert store.labels("2008_000001.jpg") == ("potted plant", "person", "person")
    assert store.labels("VOC2012/JPEGImages/2008_000001.jpg") == store.labels("2008_000001")
    assert store.labels("b.jpg") == ()
    assert store.labels("c.jpg") is None


def test_voc_with_entities_is_refused(tmp_path):
    with pytest.raises(InputError, match="document type"):
        _read(tmp_path, "a.xml", '<!DOCTYPE a [<!ENTITY b "c">]><annotation/>')


def test_coco_instances(tmp_path):
    store = _read(
        tmp_path, "instances.json",
        {"images": [{"id": 42, "file_name": "COCO_val2014_000000000042.jpg"},
                    {"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}],
         "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}],
         "annotations": [{"image_id": 42, "category_id": 18, "bbox": [0, 0, 5, 5]},
                         {"image_id": 42, "category_id": 18, "bbox": [1, 1, 5, 5]}]},
    )  # fmt: skip
    assert store.labels("42") == store.labels("COCO_val2014_000000000042.jpg") == ("dog", "dog")
    assert store.labels("7") == ()
    assert store.table()["42"] == ("dog", "dog")


def test_coco_detections_and_threshold(tmp_path):
    rows = [{"image_id": 5, "category_id": 67, "bbox": [0, 0, 9, 9], "score": 0.9},
            {"image_id": 5, "category_id": 1, "bbox": [0, 0, 9, 9], "score": 0.2}]  # fmt: skip
    assert _read(tmp_path, "d.json", rows).labels("5") == ("dining table", "person")
    assert _read(tmp_path, "d.json", rows, threshold=0.3).labels("5") == ("dining table",)
    with pytest.raises(InputError, match="12"):
        _read(tmp_path, "d.json", [{"image_id": 5, "category_id": 12, "score": 1}])


def test_visual_genome(tmp_path):
    store = _read(
        tmp_path, "objects.json",
        [{"image_id": 1, "objects": [{"names": ["Clock", "timepiece"], "x": 1, "y": 2, "w": 3,
                                      "h": 4}, {"names": ["street"], "x": 0, "y": 0, "w": 1,
                                                "h": 1}]},
         {"image_id": 2, "objects": []}],
    )  # fmt: skip
    assert store.labels("1") == ("clock", "street")
    assert store.labels("2") == ()


def test_open_images(tmp_path):
    csv = "ImageID,Source,LabelName,Confidence\nab,x,/m/01,1\nab,x,/m/02,0\nab,x,/m/03,0.4\n"
    with pytest.raises(InputError, match="class-descriptions"):
        _read(tmp_path, "boxes.csv", csv)
    (tmp_path / "class-descriptions-boxable.csv").write_text(
        "/m/01,Traffic light\n/m/02,Cat\n/m/03,Dog\n"
    )
    assert _read(tmp_path, "boxes.csv", csv).labels("ab") == ("traffic light", "dog")
    assert _read(tmp_path, "boxes.csv", csv, threshold=0.5).labels("ab") == ("traffic light",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", {"p/1.jpg": ["dog", "dog", "Cat"], "2.jpg": []}),
        ("a.json", {"p/1.jpg": [{"name": "dog", "box": [0, 0, 1, 1]}, {"label": "dog"},
                                {"class": "cat", "score": 0.5}], "2.jpg": []}),
        ("a.json", [{"image": "p/1.jpg", "labels": ["dog", "dog", "cat"]},
                    {"image": "2.jpg", "labels": []}]),
        ("a.jsonl", '{"image": "p/1.jpg", "objects": ["dog", "dog", "cat"]}\n\n'
                    '{"image": "2.jpg", "objects": []}\n'),
        ("a.csv", "image,label\np/1.jpg,dog\np/1.jpg,dog\np/1.jpg,cat\n2.jpg,\n"),
        ("a.csv", "image,labels\np/1.jpg,dog;dog;cat\n2.jpg,\n"),
        ("a.tsv", "file_name\tobject\tscore\np/1.jpg\tdog\t1\np/1.jpg\tdog\t1\np/1.jpg\tcat\t1\n"
                  "2.jpg\t\t\n"),
    ],
)  # fmt: skip
def test_plain_labels(name, content, tmp_path):
    store = _read(tmp_path, name, content)
    assert store.labels("p/1.jpg") == ("dog", "dog", "cat")
    assert store.labels("1") == ("dog", "dog", "cat")
    assert store.labels("2.jpg") == ()
    assert len(store) == 2


def test_parquet_of_lists(tmp_path):
    pq.write_table(
        pa.table({"image_id": [42, 7], "objects": [["dog"], []]}), tmp_path / "o.parquet"
    )
    store = ObjectStore.read(tmp_path / "o.parquet")
    assert (store.labels("42"), store.labels("7")) == (("dog",), ())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "not valid JSON"),
        ("a.json", [1], "list of objects"),
        ("a.json", [{"labels": ["dog"]}], "has no image"),
        ("a.json", {"a.jpg": [{"box": [1, 2, 3, 4]}]}, "has no name"),
        ("a.json", {"a.jpg": 5}, "not a list"),
        ("a.json", {}, "no image"),
        ("a.csv", "x,y\n1,2\n", "'image' and 'label'"),
        ("a.xml", "<annotation>", "not valid XML"),
        ("a.docx", "x", "come as"),
    ],
)
def test_bad_label_files(name, content, message, tmp_path):
    with pytest.raises(InputError, match=message):
        _read(tmp_path, name, content)


def test_ambiguous_names_are_not_guessed():
    store = ObjectStore.of({"a/1.jpg": ["dog"], "b/1.jpg": ["cat"]})
    assert store.labels("a/1.jpg") == ("dog",)
    assert store.labels("1.jpg") is None
    assert "1.jpg" not in store.table()


def test_union_of_sources(tmp_path):
    gold = ObjectStore.of({"1.jpg": ["dog", "dog"], "2.jpg": ["cat"]}, "gold")
    seen = ObjectStore.of({"photos/1.jpg": ["dog", "ball"], "photos/3.jpg": []}, "detector")
    both = union([gold, seen])
    assert both.labels("1.jpg") == ("dog", "ball"), "unique labels of the union, as in the paper"
    assert both.labels("photos/1.jpg") == ("dog", "ball")
    assert (both.labels("2"), both.labels("3")) == (("cat",), ())
    assert both.source == "gold + detector"
    (tmp_path / "a.json").write_text('{"1.jpg": ["dog"]}')
    (tmp_path / "b.json").write_text('{"1.jpg": ["ball"]}')
    two = ObjectStore.read(tmp_path / "a.json", tmp_path / "b.json")
    assert two.labels("1") == ("dog", "ball")


def test_a_changed_asset_is_refused_and_a_checked_one_remembered(tmp_path, cache, monkeypatch):
    import hashlib
    import os
    import sys

    resolving = sys.modules["captious.assets.resolve"]
    from captious.assets.resolve import Asset
    from captious.errors import MissingAsset

    file = tmp_path / "cache/assets/x"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"right")
    os.utime(file, (1e9, 1e9))  # one that was written just now is read each time
    sha = hashlib.sha256(b"right").hexdigest()
    asset = Asset("x", "a test", "none", "get it", sha256=sha)
    monkeypatch.setattr(resolving, "known", lambda: {"x": asset})
    digests = []
    real = resolving.digest
    monkeypatch.setattr(resolving, "digest", lambda path: digests.append(path) or real(path))
    for _ in range(3):
        assert resolving.resolve("x") == file
    assert len(digests) == 1, "a file is read once"
    file.write_bytes(b"wrong content")
    with pytest.raises(MissingAsset, match=r"sha256.*get it"):
        resolving.resolve("x")
