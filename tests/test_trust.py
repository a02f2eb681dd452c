"""What docs/security.md claims, one test per claim: nothing is run, everything is bounded."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import captious
from captious import plain_pickle, reading, settings
from captious.errors import CaptiousError, InputError, UsageError
from captious.evidence.objects import ObjectStore
from captious.io import files
from captious.io.load import load
from captious.text import _vector_formats

# -- pickles ---------------------------------------------------------------------------------------


def _call(module: str, name: str, *arguments: object) -> bytes:
    """A pickle that calls a function with these arguments."""
    packed = b"".join(pickle.dumps(a, 2)[2:-1] for a in arguments)
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(" + packed + b"tR."


def test_the_payloads_below_are_real():
    assert pickle.loads(_call("builtins", "len", "abc")) == 3


@pytest.mark.parametrize(
    "content",
    [
        _call("os", "system", "touch /tmp/captious-was-here"),
        _call("builtins", "eval", "1 + 1"),
        _call("numpy", "ndarray", (1,), "O", b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        _call("numpy.core.multiarray", "fromfile", "/etc/passwd"),
        _call("numpy", "load", "x.npy", None, True),
        _call("numpy.core.multiarray", "scalar", "O8", b"12345678"),
    ],
    ids=["system", "eval", "ndarray-of-pointers", "fromfile", "numpy.load", "scalar-of-object"],
)
def test_a_pickle_calls_nothing(content):
    with pytest.raises(InputError, match="not readable as a pickle of plain arrays"):
        plain_pickle.load(content, "x.pkl")
    assert not Path("/tmp/captious-was-here").exists()


def test_a_pickle_changes_no_function_of_ours():
    """BUILD sets attributes on what stands before it; the compiled unpickler would obey."""
    setting = b"\x80\x02cnumpy.core.numeric\n_frombuffer\n}(X\x01\x00\x00\x00aK\x01ub."
    with pytest.raises(InputError, match="sets the state"):
        plain_pickle.load(setting, "x.pkl")


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<i8", "u1", "<f2", "<U5", "?"])
def test_plain_arrays_come_back(protocol, kind):
    array = np.arange(12).reshape(3, 4).astype(kind)
    stored = {"a": array, "f": np.asfortranarray(array), "s": array[1, 2], b"k": [1, "x", None]}
    found = plain_pickle.load(pickle.dumps(stored, protocol), "x.pkl")
    np.testing.assert_array_equal(found["a"], array)
    np.testing.assert_array_equal(found["f"], array)
    assert found["s"] == array[1, 2]
    assert found[b"k"] == [1, "x", None]


def test_a_shape_that_its_bytes_do_not_hold_is_refused():
    whole = pickle.dumps(np.zeros((2, 3), np.float32), 2)
    assert b"K\x02K\x03" in whole
    with pytest.raises(InputError, match="needs"):
        plain_pickle.load(whole.replace(b"K\x02K\x03", b"K\xffK\xff"), "x.pkl")


def test_a_text_that_is_named_a_million_times_is_refused(bounded):
    text = b"X" + struct.pack("<I", 1 << 20) + b"x" * (1 << 20) + b"q\x01"
    again = b"c_codecs\nencode\nh\x01X\x06\x00\x00\x00latin1\x86R"
    with pytest.raises(InputError, match="unpacks to more"):
        plain_pickle.load(b"\x80\x02]q\x00(" + text + again * 5000 + b"e.", "x.pkl")


def test_a_list_that_holds_itself_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InputError, match="nested too deeply"):
        plain_pickle.load(pickle.dumps(endless), "x.pkl")


# -- LMDB ------------------------------------------------------------------------------------------


def test_lmdb_is_read_as_its_library_reads_it(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    from captious.evidence.lmdb_file import LmdbFile

    rng = np.random.default_rng(0)
    pairs = {f"image-{i:05d}".encode(): rng.bytes(int(rng.integers(0, 9000))) for i in range(1500)}
    with lmdb.open(str(tmp_path), map_size=1 << 26) as base:
        with base.begin(write=True) as view:
            for key, value in pairs.items():
                view.put(key, value)
        with base.begin(write=True) as view:  # a second transaction, with free pages behind it
            for key in list(pairs)[::7]:
                view.delete(key)
                del pairs[key]
    ours = LmdbFile(tmp_path / "data.mdb")
    assert ours.keys() == sorted(pairs)
    assert all(ours.get(key) == value for key, value in pairs.items())
    assert ours.get(b"absent") is None


def _read_all(opened, file):
    found = opened(file)
    return [found.get(key) for key in found.keys()]  # noqa: SIM118


def test_lmdb_that_is_cut_off_ends_in_an_error(tmp_path):
    """The library itself dies of SIGBUS here."""
    lmdb = pytest.importorskip("lmdb")
    from captious.evidence.lmdb_file import LmdbFile

    with lmdb.open(str(tmp_path), map_size=1 << 24) as base, base.begin(write=True) as view:
        for i in range(500):
            view.put(f"{i:05d}".encode(), bytes(3000))
    file = tmp_path / "data.mdb"
    whole = file.read_bytes()
    for size in (0, 10, 4096, 8192, len(whole) // 2):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError):
            _read_all(LmdbFile, file)


# -- bombs -----------------------------------------------------------------------------------------


def _zeros(mebibytes: int) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6) as file:
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
    return out.getvalue()


def test_a_gzip_bomb_is_refused_in_little_memory(tmp_path):
    """The first version asked for 8 GiB of address space for any gzip file."""
    bomb = tmp_path / "a.json.gz"
    bomb.write_bytes(_zeros(280))
    code = (
        "import resource, sys; from captious.reading import read_bytes\n"
        "used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "read_bytes(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(bomb)], capture_output=True, text=True)
    assert "InputError" in done.stderr
    assert "unpacks to more than" in done.stderr


def test_zip_npz_and_parquet_bombs_are_refused(tmp_path, monkeypatch, bounded):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(reading, "FREE", 8 << 20)  # 256 MiB take longer to pack than to refuse
    with zipfile.ZipFile(tmp_path / "v.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("v.txt", "a " + "0.1 " * 10 + "\n" + " " * (40 << 20))
    with pytest.raises(InputError, match="unpacks to more"):
        list(_vector_formats.read(tmp_path / "v.zip"))
    np.savez_compressed(tmp_path / "a.npz", features=np.zeros((5 << 20, 2), np.float32))
    with pytest.raises(InputError, match="unpacks to more"):
        reading.read_arrays(tmp_path / "a.npz")
    text = pa.array(["x" * 50_000]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000, np.int32)), text.dictionary)
    pq.write_table(pa.table({"caption": column}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 20
    with pytest.raises(InputError, match="unpacks to more"):
        load(tmp_path / "a.parquet")


def test_npy_that_promises_more_than_it_holds(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, np.zeros((4, 3), np.float32))
    file.write_bytes(
        file.read_bytes()
        .replace(b"(4, 3), }", b"(9999999, 9), }"[:9])
        .replace(b"(9999999,", b"(4, 9), }")
    )
    for mapped in (False, True):
        with pytest.raises(InputError):
            reading.read_array(file, mapped=mapped)


def test_object_arrays_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="pickled Python objects"):
        reading.read_array(tmp_path / "a.npy")


# -- what is not a file ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "absent", "socket"])
@pytest.mark.parametrize("reader", ["captions", "objects", "regions", "vectors", "picture"])
def test_only_regular_files_are_opened(tmp_path, kind, reader):
    name = {"captions": "a.json", "objects": "a.csv", "regions": "a.tsv", "vectors": "a.vec",
            "picture": "a.jpg"}[reader]  # fmt: skip
    place = tmp_path / name
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "folder":
        place.mkdir()
    elif kind == "socket":
        os.mknod(place, 0o140644)
    from captious.evidence.images import open_image
    from captious.evidence.region_formats import open_regions

    read = {"captions": load, "objects": ObjectStore.read, "regions": open_regions,
            "vectors": lambda p: list(_vector_formats.read(p)), "picture": open_image}  # fmt: skip
    with pytest.raises(CaptiousError):
        read[reader](place)


# -- pictures and XML ------------------------------------------------------------------------------


def test_an_eps_called_jpg_starts_no_program(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    from captious.evidence.images import open_image

    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    (tmp_path / "a.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(InputError, match="supported: JPEG, PNG, WEBP, GIF, BMP, TIFF"):
        open_image(tmp_path / "a.jpg")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
def test_xml_with_a_document_type_is_refused_in_any_encoding(tmp_path, encoding):
    declared = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-16-le": "utf-16le"}[encoding]
    text = (
        f'<?xml version="1.0" encoding="{declared}"?><!DOCTYPE a [<!ENTITY b "c">]>'
        "<annotation><filename>&b;</filename></annotation>"
    )
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match=r"document type|not valid XML"):
        ObjectStore.read(tmp_path / "a.xml")


# -- odd values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[" + "9" * 5000 + "]"),
        ("a.jsonl", '{"caption": ' + "9" * 5000 + "}"),
        ("a.json", '{"images": 5, "annotations": [{"image_id": 1, "caption": "a"}]}'),
        ("a.json", '{"annotations": [{"image_id": [1], "caption": "a"}]}'),
        ("a.csv", 'caption,references\na,"' + "[" * 5000 + "]" * 5000 + '"\n'),
        ("a.json", "[" * 100_000),
        ("a.json", '[{"caption": {"a": 1}}]'),
    ],
)
def test_odd_values_are_refused_with_a_place(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"a\.(json|jsonl|csv)"):
        captious.load(tmp_path / name, tmp_path / name)


def test_a_time_out_of_range_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    times = pa.array([2**62], pa.timestamp("ms"))
    pq.write_table(pa.table({"caption": ["a"], "id": times}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet"):
        load(tmp_path / "a.parquet")


def test_vectors_with_a_long_first_line_are_read_whole(tmp_path):
    """A first line over 65,536 bytes was cut in two rows."""
    row = " ".join(f"{i / 7:.6f}" for i in range(9000))
    (tmp_path / "v.txt").write_text(f"dog {row}\ncat {row}\n")
    ((words, matrix),) = _vector_formats.read(tmp_path / "v.txt")
    assert words == ["dog", "cat"]
    assert matrix.shape == (2, 9000)


def test_names_do_not_leave_their_folder(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "x.jpg").write_bytes(b"secret")
    records = [{"id": 1, "image": "../x.jpg", "caption": "a"}]
    with pytest.raises(InputError, match="no image file"):
        load(records, images=tmp_path / "photos")


# -- writing, settings -----------------------------------------------------------------------------


def test_an_output_that_cannot_be_written_leaves_the_old_one(tmp_path):
    table = captious.score(["a dog"], [["a dog"]], metrics="bleu")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "folder.json", tmp_path / "file" / "a.json"):
        with pytest.raises(UsageError, match=place.name):
            table.save(place)
    old = tmp_path / "a.json"
    old.write_text("old")

    def full() -> None:
        with files.replacing(old) as file:
            file.write("new")
            raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="unchanged"):
        full()
    assert old.read_text() == "old"
    assert [p.name for p in tmp_path.glob(".*")] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seed", "-1"], "--seed must be 0 or a positive whole number"),
        (["--threads", "0"], "at least one thread is needed"),
        (["--device", "bogus", "-m", "bert_tbr"], "the device 'bogus' is not available"),
        (["-o", "/dev/null/x.json"], "x.json"),
    ],
)
def test_options_are_refused_in_one_line(tmp_path, words, said):
    caps = tmp_path / "a.json"
    caps.write_text(json.dumps([{"id": 1, "caption": "a dog", "references": ["a dog"]}]))
    line = [sys.executable, "-m", "captious", "score", str(caps), "-m", "bleu", *words]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_no_home_folder_is_said_in_words(monkeypatch):
    monkeypatch.delenv("CAPTIOUS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", staticmethod(none))
    with pytest.raises(UsageError, match="CAPTIOUS_CACHE"):
        settings.Settings()


def test_what_takes_long_is_stored_by_time(tmp_path, monkeypatch):
    """Photographs that take a minute each are not lost before the hundredth."""
    from captious.demo import photographs
    from captious.evidence import detect_run

    class Slow:
        name = signature = "slow"

        def detect(self, image, threshold):
            if len(list((tmp_path / "o.parquet.parts").glob("part-*"))) == 2:
                raise KeyboardInterrupt
            return []

    monkeypatch.setattr(detect_run, "PATIENCE", -1.0)
    images = [(p.name, p) for p in photographs()[:6]]
    with pytest.raises(KeyboardInterrupt):
        detect_run.detect_images(images, Slow(), tmp_path / "o.parquet")
    assert len(list((tmp_path / "o.parquet.parts").glob("part-*.parquet"))) == 2


def test_ctrl_c_keeps_parses(cache, monkeypatch):
    pytest.importorskip("spacy")
    from captious.text import scene_parser

    parser = scene_parser.SceneParser("default")
    texts = ["a dog", "a cat", "a brown horse runs"]

    def stops(model, texts):
        yield from ("DT NN\tdet ROOT\t1 1" for _ in texts[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(scene_parser, "encode_all", stops)
    with pytest.raises(KeyboardInterrupt):
        parser.parse(texts)
    monkeypatch.setattr(scene_parser, "encode_all", lambda model, texts: iter(()))
    assert set(parser.parse(texts[:2])) == set(texts[:2])


def test_a_network_in_onnx_format_reads_no_other_file(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from captious.evidence.backbones import open_graph

    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.ones(3, np.float32).tobytes())
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    x = onnx.helper.make_tensor_value_info("pixels", onnx.TensorProto.FLOAT, [1, 3])
    y = onnx.helper.make_tensor_value_info("maps", onnx.TensorProto.FLOAT, [1, 3])
    weight = onnx.numpy_helper.from_array(np.ones((1, 3), np.float32), "w")
    node = onnx.helper.make_node("Mul", ["pixels", "w"], ["maps"])
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    for place in ("../secret.bin", str(secret)):
        outside = onnx.TensorProto()
        outside.CopyFrom(weight)
        onnx.external_data_helper.set_external_data(outside, place)
        outside.ClearField("raw_data")
        graph = onnx.helper.make_graph([node], "g", [x], [y], [outside])
        opset = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
        (tmp_path / "home" / "g.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(InputError, match="ONNX"):
            open_graph(tmp_path / "home" / "g.onnx", options)


def test_a_damaged_cache_of_vectors_is_not_used(tmp_path, caplog):
    from captious.models.embedding_cache import EmbeddingCache

    path = tmp_path / "e.sqlite"
    path.write_bytes(b"no data base at all, only words" * 100)
    cache = EmbeddingCache(path, 1 << 20)
    key = EmbeddingCache.key("encoder", 1, "a dog")
    cache.put([(key, (np.zeros(1, np.int32), np.ones((1, 4), np.float32)))])
    assert cache.get([key]) == {}
    assert "Delete it" in caplog.text
    cache.close()


@pytest.mark.full
def test_four_processes_on_one_cold_cache_for_every_metric(tmp_path):
    """Each of four processes runs every metric that is installed, on one empty cache."""
    from captious import demo, registry

    photo = sorted(demo.photographs())[0]
    rows = [
        {"id": text, "caption": text, "references": ["a dog runs", "the dog"], "image": str(photo)}
        for text in ("a dog", "a brown dog runs")
    ]
    (tmp_path / "caps.json").write_text(json.dumps(rows))
    names = [n for n in registry.names() if not list(registry.create(n).missing())]
    assert len(names) >= 29
    line = [sys.executable, "-m", "captious", "score", str(tmp_path / "caps.json")]
    line += ["-m", ",".join(names), "--no-intervals", "--quiet", "--cache", str(tmp_path / "cache")]
    outs = [tmp_path / f"{n}.json" for n in range(4)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    team = [subprocess.Popen([*line, "-o", str(out)], **pipes) for out in outs]
    said = [child.communicate()[1] for child in team]
    assert [child.returncode for child in team] == [0] * 4, said
    tables = [json.loads(out.read_text())["captions"] for out in outs]
    assert all(table == tables[0] for table in tables)
