"""Photographs in folders, tars and zips: the same names, and nothing that leads out of them."""

import io
import random
import tarfile
import zipfile

import numpy as np
import pytest

from captious.errors import InputError
from captious.evidence import extract, photographs
from captious.evidence.photographs import open_photographs

pil = pytest.importorskip("PIL.Image")


class Mean:
    """A backbone of one number: the mean red of the photograph."""

    name, dim = "mean", 1

    def maps(self, pixels):
        return np.full((1, 1, 1), pixels[..., 0].mean(), np.float32)


def png(red):
    out = io.BytesIO()
    pil.new("RGB", (64, 48), (red, 0, 0)).save(out, "PNG")
    return out.getvalue()


MEMBERS = {"./a.png": png(10), "deep/b.PNG": png(20), "notes.txt": b"no photograph"}


def folder(path, members=MEMBERS):
    for name, content in members.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path


def tarred(path, members=MEMBERS, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def packed(path, members=MEMBERS):
    return tarred(path, members, "w:gz")


def zipped(path, members=MEMBERS):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


KINDS = {"photos": folder, "p.tar": tarred, "p.tar.gz": packed, "p.tgz": packed, "p.zip": zipped}
ARCHIVES = {name: make for name, make in KINDS.items() if name != "photos"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_collection_gives_the_same_store(kind, tmp_path):
    place = KINDS[kind](tmp_path / kind)
    store, problems = extract.extract_folder(place, tmp_path / "r", extract.Extractor([Mean()], 1))
    assert problems == []
    assert sorted(store.ids()) == ["a.png", "deep/b.PNG"]
    assert [float(store[name].features[0, 0]) for name in ("a.png", "deep/b.PNG")] == [10, 20]
    assert (store["a.png"].width, store["a.png"].height) == (64, 48)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_stopped_run_over_an_archive_goes_on(kind, tmp_path):
    place = ARCHIVES[kind](tmp_path / kind)
    made = extract.Extractor([Mean()], 1)
    extract.extract_folder(place, tmp_path / "r", made, only=["deep/b.PNG"])
    seen = []
    made.backbones[0].maps = lambda pixels: seen.append(1) or Mean().maps(pixels)
    store, _ = extract.extract_folder(place, tmp_path / "r", made)
    assert len(seen) == 1
    assert len(store) == 2


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_list_may_hold_file_names_only(kind, tmp_path):
    place, made = ARCHIVES[kind](tmp_path / kind), extract.Extractor([Mean()], 1)
    store, _ = extract.extract_folder(place, tmp_path / "r", made, only=["b.PNG"])
    assert list(store.ids()) == ["deep/b.PNG"]
    with pytest.raises(InputError, match=r"no photograph 'x.png' \(it holds, for example, 'a.png'"):
        extract.extract_folder(place, tmp_path / "r", made, only=["x.png"])


@pytest.mark.parametrize("kind", ARCHIVES)
def test_names_that_point_out_of_the_archive_are_not_read(kind, tmp_path):
    outside = {"../out.png": png(1), "/etc/out.png": png(2), "in/../../out.png": png(3)}
    place = ARCHIVES[kind](tmp_path / kind, {**MEMBERS, **outside})
    collection = open_photographs(place)
    assert collection.names() == ["a.png", "deep/b.PNG"]
    assert len(collection.problems) == 3
    assert all("points outside the archive" in text for text in collection.problems)
    assert [name for name, _ in collection.read([*collection.names(), "out.png"])] == [
        "a.png",
        "deep/b.PNG",
    ]
    assert not (tmp_path.parent / "out.png").exists()


def test_links_and_devices_of_a_tar_are_not_followed(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(png(99))
    with tarfile.open(tmp_path / "p.tar", "w") as archive:
        kinds = {
            "soft.png": tarfile.SYMTYPE,
            "hard.png": tarfile.LNKTYPE,
            "device.png": tarfile.CHRTYPE,
            "pipe.png": tarfile.FIFOTYPE,
        }
        for name, kind in kinds.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, str(secret)
            archive.addfile(info)
    assert open_photographs(tmp_path / "p.tar").names() == []
    with pytest.raises(InputError, match="no photographs found there"):
        extract.extract_folder(tmp_path / "p.tar", tmp_path / "r", extract.Extractor([Mean()], 1))


@pytest.mark.parametrize("kind", ARCHIVES)
def test_the_second_photograph_of_a_name_is_listed(kind, tmp_path):
    place = ARCHIVES[kind](tmp_path / kind, {"a.png": png(1), "./a.png": png(2)})
    store, problems = extract.extract_folder(place, tmp_path / "r", extract.Extractor([Mean()], 1))
    assert float(store["a.png"].features[0, 0]) == 1
    assert len(problems) == 1
    assert "a second photograph" in problems[0]


@pytest.mark.parametrize("kind", ARCHIVES)
def test_photographs_and_archives_are_bounded(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(photographs, "LARGEST", 1000)
    place = ARCHIVES[kind](tmp_path / kind, {**MEMBERS, "big.png": bytes(2000)})
    collection = open_photographs(place)
    assert "big.png" not in collection.names()
    assert "2,000 bytes, at most 1,000" in collection.problems[0]
    if kind == "p.tar":
        return  # nothing unpacks
    monkeypatch.setattr("captious.reading.FREE", 4000)
    bomb = ARCHIVES[kind](tmp_path / f"bomb-{kind}", {"bomb.png": bytes(4_000_000)})
    with pytest.raises(InputError, match="unpacks to more than"):
        open_photographs(bomb).names()


def test_a_damaged_member_of_a_zip_costs_only_itself(tmp_path):
    path = zipped(tmp_path / "p.zip", {"a.png": png(1), "b.png": png(2)})
    raw = bytearray(path.read_bytes())
    raw[60] ^= 0xFF  # within the first member's data
    path.write_bytes(raw)
    store, problems = extract.extract_folder(path, tmp_path / "r", extract.Extractor([Mean()], 1))
    assert list(store.ids()) == ["b.png"]
    assert len(problems) == 1
    assert "a.png" in problems[0]


def test_an_archive_that_was_cut_off_is_refused(tmp_path):
    for kind, make in ARCHIVES.items():
        path = make(tmp_path / kind, {"a.png": png(1), "b.png": random.Random(0).randbytes(30000)})
        path.write_bytes(path.read_bytes()[:-15000])
        with pytest.raises(InputError, match=str(path)):
            open_photographs(path).names()


@pytest.mark.parametrize("kind", ARCHIVES)
def test_damaged_archives_fail_in_words_only(kind, tmp_path):
    path = ARCHIVES[kind](tmp_path / kind)
    whole, draw = path.read_bytes(), random.Random(0)
    for _ in range(150):
        raw = bytearray(whole)
        for _ in range(draw.choice((1, 3, 30))):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        path.write_bytes(raw[: draw.choice((len(raw), draw.randrange(len(raw))))])
        collection = open_photographs(path)
        try:
            for _, content in collection.read(collection.names()):
                assert len(content) <= photographs.LARGEST
        except InputError as error:
            assert str(path) in str(error)
