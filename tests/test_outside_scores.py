"""Scores that others have made, read as columns of ``captious meta``."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captious import cli
from captious.errors import InputError
from captious.judgements import outside_scores
from captious.types import CaptionSet

SAMPLES = CaptionSet.build(
    ["A dog runs.", "a cat", "a cat"],
    [["a dog"], ["a cat sits"], ["a car"]],
    ids=["1", "2", "3"],
    images=["/photos/dog.jpg", "/photos/cat.jpg", "/photos/car.jpg"],
)


@pytest.fixture
def write(tmp_path):
    def one(name, rows):
        path = tmp_path / name
        if name.endswith("parquet"):
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif name.endswith("csv"):
            head = list(rows[0])
            lines = [",".join(head), *(",".join(str(r[h]) for h in head) for r in rows)]
            path.write_text("\n".join(lines) + "\n")
        else:
            path.write_text(json.dumps(rows))
        return str(path)

    return one


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_image_and_caption_are_the_key(write, kind):
    path = write(f"judge.{kind}", [
        {"image": "cat.jpg", "caption": "a  cat", "score": 0.5},
        {"image": "dog.jpg", "caption": "A dog runs.", "score": 0.25},
    ])  # fmt: skip
    matched = outside_scores.load(path).match(SAMPLES)
    assert list(matched) == ["judge"]
    np.testing.assert_array_equal(matched["judge"], [0.25, 0.5, np.nan])


def test_ids_and_names(write):
    rows = [{"id": str(n), "raw": n, "smooth": n / 2, "model": "x"} for n in (3, 2, 1)]
    matched = outside_scores.load(f"big={write('s.json', rows)}").match(SAMPLES)
    assert {k: v.tolist() for k, v in matched.items()} == {
        "big.raw": [1, 2, 3],
        "big.smooth": [0.5, 1, 1.5],
    }


def test_pairs_side_by_side(write):
    path = write("p.parquet", [
        {"image": "cat.jpg", "label": 1, "caption_a": "a cat", "score_a": 0.1,
         "caption_b": "a dog", "score_b": 0.2},
        {"image": "dog.jpg", "label": 0, "caption_a": "A dog runs.", "score_a": 0.3,
         "caption_b": "x", "score_b": 0.4},
    ])  # fmt: skip
    np.testing.assert_array_equal(outside_scores.load(path).match(SAMPLES)["p"], [0.3, 0.1, np.nan])


def test_rows_in_order(write):
    given = outside_scores.load(write("s.csv", [{"score": n} for n in range(3)]))
    assert given.match(SAMPLES)["s"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"3 rows for 2 captions.*add such a column"):
        given.match(SAMPLES.take(np.arange(2)))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"caption": "a cat", "note": "fine"}], "no column of numbers"),
        ([{"caption": "a", "s": 1}, {"caption": "b", "s": "bad"}], "not numbers.*record 2: 'bad'"),
        ([{"caption": "a", "s": 1}, {"caption": "a", "s": 2}], "two different scores"),
        ([], "holds no records"),
    ],
)
def test_bad_files_are_refused(write, rows, said):
    with pytest.raises(InputError, match=said):
        outside_scores.load(write("s.json", rows))


def test_captions_of_another_set_are_refused(write):
    given = outside_scores.load(write("s.json", [{"caption": "a tree", "s": 1}]))
    with pytest.raises(InputError, match="no score for any of the 3 captions"):
        given.match(SAMPLES)


def test_scores_of_a_large_judge_on_flickr8k(shared, capsys):
    """FLEUR's released scores reach the published tau-c under our protocol."""
    path = shared / "data/fleur/flickr8k_expert.parquet"
    command = ["meta", "--external", f"fleur={path}", "--data", str(shared / "data"), "--trials",
               "0", "--format", "json"]  # fmt: skip
    assert cli.main(command) == 0
    results = {r["metric"]: r for r in json.loads(capsys.readouterr().out)["results"]}
    assert results["fleur.smoothed"]["value"] == pytest.approx(0.530, abs=5e-4)
    assert results["fleur.smoothed"]["n"] == 3 * 5664
