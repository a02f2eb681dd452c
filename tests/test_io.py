"""Readers: every usual shape in, one report of everything that is wrong."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captious.calling import MAX_CHARS
from captious.errors import CaptiousError, InputError
from captious.io import files
from captious.io.load import load

CAPS = {"7": "a dog", "9": "a cat"}
REFS = {"7": ["a dog runs", "one dog"], "9": ["a cat sits", "the cat"]}
COCO = {
    "images": [{"id": 7, "file_name": "x7.jpg"}, {"id": 9, "file_name": "x9.jpg"}],
    "annotations": [
        {"image_id": int(k), "id": i, "caption": t}
        for i, (k, v) in enumerate(REFS.items())
        for t in v
    ],
}
KARPATHY = {
    "images": [
        {"cocoid": int(k), "filename": f"x{k}.jpg", "sentences": [{"raw": t} for t in v]}
        for k, v in REFS.items()
    ]
}


def write(path: Path, content) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def check(found) -> None:
    assert found.captions() == list(CAPS.values())
    assert found.references() == list(REFS.values())


@pytest.mark.parametrize(
    "refs",
    [
        COCO,
        KARPATHY,
        REFS,
        [{"id": k, "references": v} for k, v in REFS.items()],
        [{"image_id": int(k), "caption": t} for k, v in REFS.items() for t in v],
    ],
    ids=["coco", "karpathy", "dictionary", "records", "flat"],
)
@pytest.mark.parametrize(
    "caps",
    [
        [{"image_id": 7, "caption": "a dog"}, {"image_id": 9, "caption": "a cat"}],
        CAPS,
        {"7": ["a dog"], "9": ["a cat"]},
        {"7": [{"caption": "a dog"}], "9": [{"caption": "a cat"}]},
    ],
    ids=["coco", "dictionary", "pycocoevalcap", "pycocoevalcap-raw"],
)
def test_json_shapes(tmp_path, caps, refs):
    a, b = write(tmp_path / "c.json", caps), write(tmp_path / "r.json", refs)
    found = load(a, b)
    check(found)
    assert found.ids.tolist() == ["7", "9"]
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(a.read_bytes()))
    check(load(tmp_path / "c.json.gz", b))
    check(load(caps, refs))


def test_lines_tables_and_text(tmp_path):
    rows = [
        {
            "id": k,
            "caption": CAPS[k],
            "references": REFS[k],
            "image": f"{k}.jpg",
            "system": "s",
            "objects": ["dog"],
        }
        for k in CAPS
    ]
    jsonl = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    found = load(jsonl)
    check(found)
    assert found[0].objects == ("dog",)
    assert found[1].image == "9.jpg"
    assert found[1].system == "s"
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    check(load(tmp_path / "a.parquet"))
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    check(load(tmp_path / "b.parquet.gz"))
    cells = "id,caption,ref1,ref2\n7,a dog,a dog runs,one dog\n9,a cat,a cat sits,the cat\n"
    check(load(write(tmp_path / "a.csv", cells)))
    check(load(write(tmp_path / "a.tsv", cells.replace(",", "\t"))))
    listed = "id,caption,references\n" + "".join(
        f'{k},{CAPS[k]},"{json.dumps(REFS[k])}"\n'.replace('"[', '"[')
        .replace('", "', '"", ""')
        .replace('["', '[""')
        .replace('"]', '""]')
        for k in CAPS
    )
    check(load(write(tmp_path / "b.csv", listed)))
    caps = write(tmp_path / "c.txt", "a dog\na cat\n")
    one, two = (
        write(tmp_path / "r1.txt", "a dog runs\na cat sits\n"),
        write(tmp_path / "r2.txt", "one dog\nthe cat\n"),
    )
    check(load(caps, [one, two]))


def test_python_shapes():
    check(load(["a dog", "a cat"], list(REFS.values())))
    single = load(["a dog", "a cat"], ["one dog", "the cat"])
    assert single.references() == [["one dog"], ["the cat"]]
    import pandas as pd

    frame = pd.DataFrame({"caption": ["a dog", "a cat"], "references": list(REFS.values())})
    check(load(frame))


def test_ids_of_all_kinds_are_one():
    found = load({7: "a dog", 9.0: "a cat"}, {"7": REFS["7"], 9: REFS["9"]})
    check(found)


def test_several_systems(tmp_path):
    a, b = write(tmp_path / "a.json", CAPS), write(tmp_path / "b.json", CAPS)
    found = load([a, b], REFS)
    assert found.systems.tolist() == ["a", "a", "b", "b"]
    assert len(found.pool) == 6
    with pytest.raises(InputError, match="2 caption files, but 1"):
        load([a, b], REFS, systems=["x"])


def test_images_from_a_folder(tmp_path):
    for name in ("x7.jpg", "x9.jpg"):
        (tmp_path / name).write_bytes(b"")
    found = load(CAPS, COCO, images=tmp_path)
    assert [Path(i).name for i in found.images] == ["x7.jpg", "x9.jpg"]
    (tmp_path / "x9.jpg").unlink()
    with pytest.raises(InputError, match=r"no image files .* 'x9\.jpg' .* there: 'x7\.jpg'"):
        load(CAPS, COCO, images=tmp_path)


def test_remarks_on_unused_references():
    said = []
    load({"7": "a dog"}, REFS, say=said.append)
    assert "1 of 2 images have references but no caption" in said[0]


def test_everything_wrong_is_said_at_once(tmp_path):
    rows = [
        {"id": 1, "caption": 5, "references": ["a"]},
        {"id": 1, "caption": None, "references": ["a", 3]},
        {"id": 2, "caption": "x" * (MAX_CHARS + 1), "references": "a"},
        {"id": 3, "caption": "\ud800", "references": ["a"]},
        {"id": 4, "caption": float("nan"), "references": ["a"]},
    ]
    path = write(tmp_path / "bad.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError) as err:
        load(path)
    text = str(err.value)
    assert len(err.value.problems) == 7
    for part in (
        "line 1",
        "is int (5)",
        "line 2",
        "reference 2",
        "used already at line 1",
        f"{MAX_CHARS + 1:,} characters",
        "surrogate",
        "line 5",
        "null or NaN",
    ):
        assert part in text, part


def test_missing_ids_are_listed():
    with pytest.raises(InputError, match=r"2 of 3 captions have no references.*'8'.*'10'"):
        load({"7": "a", "8": "b", "10": "c"}, REFS)


def test_transposed_references_are_named():
    with pytest.raises(InputError, match="transposed"):
        load(["a", "b", "c"], [["1", "2", "3"], ["4", "5", "6"]])


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("a.json", b"", "empty"),
        ("a.json", b"  \n", "empty"),
        ("a.json", b"{", "not valid JSON"),
        ("a.json", b"[]", "empty"),
        ("a.json", b"{}", "empty"),
        ("a.json", b"3", "expected"),
        ("a.csv", b"1,a dog\n2,a cat\n", "Is the header line missing?"),
        ("a.json", b'[{"x": 1}]', "no column with captions"),
        ("a.jsonl", b'{"caption": "a"}\n{"caption"\n3\n', "line 2"),
        ("a.json", '[{"caption": "é"}]'.encode("latin-1"), "not UTF-8"),
        ("a.json", '["a"]'.encode("utf-16"), "UTF-16"),
        ("a.json.gz", b"\x1f\x8bnonsense", "broken gzip"),
        ("a.csv", b"caption,references\na,b,c\n", "row 2 has 3 cells"),
        ("a.csv", b"caption,references\n", "no row"),
        ("a.parquet", b"PAR1", "parquet"),
        ("a.xml", b"<a/>", r"reads \.json"),
    ],
)
def test_broken_files(tmp_path, name, raw, says):
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(InputError, match=says) as err:
        load(path)
    assert name in str(err.value)


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="folder"):
        load(write_folder(tmp_path))


def write_folder(path: Path) -> Path:
    (path / "d.json").mkdir()
    return path / "d.json"


def test_references_given_as_captions():
    with pytest.raises(InputError, match="give it as references"):
        load(REFS)


_texts = st.text(st.characters(codec="utf-8"), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(_texts, st.lists(_texts, max_size=3)), min_size=1, max_size=8))
def test_round_trip_through_files(tmp_path, rows):
    """Any text survives JSONL, CSV and parquet: newlines, quotes, emoji, right-to-left."""
    records = [{"id": str(i), "caption": c, "references": r} for i, (c, r) in enumerate(rows)]
    jsonl = write(tmp_path / "r.jsonl", "\n".join(map(json.dumps, records)))
    pq.write_table(
        pa.table(
            {
                "id": [r["id"] for r in records],
                "caption": [c for c, _ in rows],
                "references": pa.array([r for _, r in rows], pa.list_(pa.string())),
            }
        ),
        tmp_path / "r.parquet",
    )
    for path in (jsonl, tmp_path / "r.parquet"):
        found = load(path)
        assert found.captions() == [c for c, _ in rows]
        assert found.references() == [list(r) for _, r in rows]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _texts),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(
                st.sampled_from(
                    [
                        "id",
                        "caption",
                        "references",
                        "image_id",
                        "annotations",
                        "images",
                        "sentences",
                        "x",
                    ]
                ),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(data):
    """Whatever stands in a file, the answer is a set or a complaint, never a crash."""
    try:
        found = load(data)
    except CaptiousError as err:
        assert str(err)
    else:
        assert len(found) > 0


def test_slices_share_strings():
    found = load(CAPS, REFS)
    part = found.take([1, 0, 1])
    assert part.pool is found.pool
    assert part.captions() == ["a cat", "a dog", "a cat"]
    assert part.references() == [REFS["9"], REFS["7"], REFS["9"]]
    assert [s.id for s in part] == ["9", "7", "9"]
    assert np.array_equal(part.reference_rows, [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("around", ["results", "predictions", "captions", "data"])
def test_records_inside_of_a_dictionary_are_found(tmp_path, around):
    records = [{"image_id": 1, "text": "a dog"}, {"image_id": 2, "text": "a cat"}]
    (tmp_path / "a.json").write_text(json.dumps({around: records}))
    samples = load(tmp_path / "a.json", {"1": ["dog"], "2": ["cat"]})
    assert samples.captions() == ["a dog", "a cat"]
    assert samples.ids.tolist() == ["1", "2"]


def test_what_a_killed_writer_left_is_swept(tmp_path):
    """Also while the dead process still has its number because nobody has waited for it."""
    out = tmp_path / "scores.parquet"
    writer = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    part = tmp_path / f".{out.name}.{writer.pid}.part"
    part.write_text("half")
    files.sweep(out)
    assert part.exists()  # it is still writing
    writer.kill()
    deadline = time.monotonic() + 300
    while part.exists() and time.monotonic() < deadline:
        files.sweep(out)
    assert not part.exists()
    writer.communicate()
