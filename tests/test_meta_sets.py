"""Loaders of judgement collections: the real files where present, small made-up ones elsewhere."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

from captious.errors import InputError, UsageError
from captious.judgements import labels, protocols, sets
from captious.judgements.judgement_set import Pairs, Ratings, SystemTable
from captious.judgements.sets import user_files

# -- the real files --------------------------------------------- ---


def test_flickr8k_expert(shared):
    found = sets.load_ratings("flickr8k-expert", shared / "data")
    assert found.counts["rows"] == 5822
    assert found.counts["images"] == 1000
    kept = found.without_own()
    assert len(kept.samples) == 5664
    assert len(kept.judged.values) == 3 * 5664
    assert kept.counts["left out: caption is its own reference"] == 158
    # Rows that stay keep their ratings.
    row = int(np.flatnonzero(~found.own)[100])
    mine = kept.judged.values[kept.judged.rows == 100]
    assert mine.tolist() == found.judged.values[found.judged.rows == row].tolist()
    assert kept.samples[100].caption == found.samples[row].caption
    assert set(np.diff(kept.samples.offsets)) == {5}


def test_flickr8k_crowd(shared):
    found = sets.load_ratings("flickr8k-cf", shared / "data")
    assert len(found.samples) == 47830
    assert len(found.without_own().samples) == 47109
    assert (found.judged.low, found.judged.high) == (0.0, 1.0)


def test_pascal_fixed_and_votes_are_the_same_pairs(shared):
    fixed = sets.load_ratings("pascal50s", shared / "data")
    votes = sets.load_ratings("pascal50s-votes", shared / "data")
    for found in (fixed, votes):
        assert [found.counts[k] for k in ("HC", "HI", "HM", "MM")] == [1000] * 4
        assert len(found.samples) == 8000
    assert set(np.diff(fixed.samples.offsets)) == {5}
    assert set(np.diff(fixed.pool.offsets)) == {50}
    assert set(votes.judged.votes.sum(axis=1)) == {10.0, 11.0}
    label = {}
    for n in range(4000):
        a, b = fixed.samples[2 * n], fixed.samples[2 * n + 1]
        label[fixed.units[2 * n], a.caption, b.caption] = fixed.judged.preference[n]
    agree = []
    for n in range(4000):
        key = (votes.units[2 * n], votes.samples[2 * n].caption, votes.samples[2 * n + 1].caption)
        if votes.groups[n] == "HI":
            agree.append(label[key] == votes.judged.preference[n])
    assert np.mean(agree) > 0.99  # a wrong order of the two sentences would give under .01


def test_coco_2015(shared):
    found = sets.load("coco2015", shared / "data")
    assert isinstance(found, SystemTable)
    assert "Human" in found.systems
    assert np.isnan(found.metrics["c5_CIDEr"][found.systems.index("Random")])


# -- names and places ------------------------------------------- ---


def test_unknown_set_and_missing_files(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="flickr8k-expert"):
        sets.card("flickr8k-exprt")
    with pytest.raises(InputError) as err:
        sets.load("composite", tmp_path)
    assert "8k_correctness.csv" in str(err.value)
    assert "coco_correctness.csv" in str(err.value)
    monkeypatch.delenv("CAPTIOUS_DATA", raising=False)
    with pytest.raises(UsageError, match="CAPTIOUS_DATA"):
        sets.data_root()


def test_every_card_is_complete():
    for name in sets.names():
        card = sets.card(name)
        assert card.title
        assert card.licence
        assert card.files
        assert card.counts
        assert card.traps
        assert card.get


# -- made-up files ---------------------------------------------- ---


def _flickr(root, expert):
    folder = root / "flickr8k"
    folder.mkdir(parents=True)
    lines = [f"{i}.jpg#{k}\tcaption {k} of image {i} ." for i in (1, 2) for k in range(5)]
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines))
    (folder / "ExpertAnnotations.txt").write_text(expert)


def test_flickr_lists_every_kind_of_damage_at_once(tmp_path):
    _flickr(
        tmp_path,
        "\n".join(
            [
                "1.jpg\t2.jpg#0\t1\t2\t3",
                "1.jpg\t2.jpg#0\t1\t2\t3",
                "1.jpg\t9.jpg#0\t1\t2\t3",
                "7.jpg\t2.jpg#0\t1\t2\t3",
                "1.jpg\t2.jpg#1\t1\t5\tx",
                "1.jpg\t2.jpg#1",
            ]
        ),
    )
    with pytest.raises(InputError) as err:
        sets.load("flickr8k-expert", tmp_path)
    text = str(err.value)
    for part in ("appear twice", "9.jpg#0", "7.jpg", "outside 1..4", "not numbers", "5 columns"):
        assert part in text
    assert "line 6" in text


def test_missing_photographs_are_noted_not_fatal(tmp_path):
    _flickr(tmp_path, "1.jpg\t2.jpg#0\t1\t2\t3\n2.jpg\t2.jpg#0\t4\t4\t4")
    (tmp_path / "flickr8k/images").mkdir()
    found = sets.load_ratings("flickr8k-expert", tmp_path)
    assert "photographs that are not in the image folder: 2" in found.remarks[0]
    assert found.own.tolist() == [False, True]
    assert found.samples[0].image == "1.jpg"  # the key stays, CIDEr counts images by it


def _cell(text):
    out = np.empty((1, 1), object)
    out[0, 0] = np.array([text])
    return out


def _triplets(path, rows):
    kinds = [("ref", "O"), ("b", "O"), ("c", "O"), ("vote", "O")]
    data = np.empty((1, len(rows)), dtype=kinds)
    for i, (a, b, c, vote) in enumerate(rows):
        data[0, i] = (_cell(a), _cell(b), _cell(c), np.array([[vote]]))
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"triplets": data})


def test_abstract50s(tmp_path):
    rows = [(f"ref {i}", "a b", "c d", 1 if i < 5 else -1) for i in range(6)]
    rows += [(f"ref {i}", "e f", "g h", -1) for i in range(6)]
    _triplets(tmp_path / "abstract50s/consensus_abstract.mat", rows)
    found = sets.load_ratings("abstract50s", tmp_path)
    assert found.judged.votes.tolist() == [[5.0, 1.0], [0.0, 6.0]]
    assert found.groups.tolist() == ["HC", "HI"]
    assert found.samples[0].references == tuple(f"ref {i}" for i in range(6))


def _pairs_mat(path, pairs):
    kinds = [("name", "O"), ("sent1", "O"), ("sent2", "O")]
    data = np.empty((1, len(pairs)), dtype=kinds)
    results = np.empty((1, len(pairs)), dtype=[("result", "O")])
    for i, (image, a, b, votes) in enumerate(pairs):
        data[0, i] = (np.array([image]), np.array([a]), np.array([b]))
        results[0, i] = (np.array([votes]),)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"new_input": data, "category": np.array([[1] * len(pairs)]), "result": results})


def test_pascal_consensus_file(tmp_path):
    _pairs_mat(
        tmp_path / "pascal50s/pair_pascal.mat",
        [("1.jpg", " a b", "c d ", [1, 1, -1]), ("2.jpg", "e f", "g h", [-1, -1, -1])],
    )
    rows = [(f"r {i}", "c d", "a b", 1 if i < 40 else -1) for i in range(48)]
    rows += [(f"s {i}", "g h", "e f", 1 if i < 24 else -1) for i in range(48)]
    _triplets(tmp_path / "pascal50s/consensus_pascal.mat", rows)
    found = sets.load_ratings("pascal50s-consensus", tmp_path)
    assert found.judged.votes.tolist() == [[8.0, 40.0], [24.0, 24.0]]
    assert found.judged.preference.tolist() == [-1.0, 0.0]
    assert len(found.samples[0].references) == 48
    assert found.counts["votes split evenly"] == 1


def test_pascal_consensus_that_does_not_join(tmp_path):
    _pairs_mat(tmp_path / "pascal50s/pair_pascal.mat", [("1.jpg", "a b", "c d", [1])])
    _triplets(
        tmp_path / "pascal50s/consensus_pascal.mat", [(f"r {i}", "x", "a b", 1) for i in range(48)]
    )
    with pytest.raises(InputError, match="not those of the pair"):
        sets.load("pascal50s-consensus", tmp_path)


def test_a_file_that_is_no_matlab_file(tmp_path):
    path = tmp_path / "abstract50s/consensus_abstract.mat"
    path.parent.mkdir()
    path.write_text("not a mat file " * 20)
    with pytest.raises(InputError, match="MATLAB"):
        sets.load("abstract50s", tmp_path)


def _coco(root):
    folder = root / "coco"
    folder.mkdir(parents=True)
    notes = [
        {"image_id": i, "id": 10 * i + k, "caption": f"coco caption {k} of {i}."}
        for i in (5, 6)
        for k in range(5)
    ]
    (folder / "captions_val2014.json").write_text(json.dumps({"images": [], "annotations": notes}))


AMT = (
    "HITId;Input.image_url;Input.text1;Input.text2;Input.text3;Answer.Q1Answer;"
    "Answer.Q2Answer;Answer.Q3Answer"
)


def test_composite_reads_both_shapes(tmp_path):
    _flickr(tmp_path, "1.jpg\t2.jpg#0\t1\t2\t3")
    _coco(tmp_path)
    (tmp_path / "flickr30k").mkdir()
    pq.write_table(
        pa.table({"image": ["77.jpg"], "split": ["x"], "captions": [["one cap", "two cap"]]}),
        tmp_path / "flickr30k/captions.parquet",
    )
    folder = tmp_path / "composite"
    folder.mkdir()
    (folder / "8k_correctness.csv").write_text(
        AMT + "\nx;http://h/1.jpg;Caption 0 of image 1;m1;m2;5;2;1\n;;;;;;;\n"
    )
    (folder / "30k_correctness.csv").write_text("image;h;a;b;s1;s2;s3\np/77.jpg;two cap;m;n;4;3;2")
    (folder / "coco_correctness.csv").write_text(
        AMT + "\nx;http://h/COCO_val2014_000000000005.jpg;a new one;m1;m2;5;2;1\n"
    )
    found = sets.load_ratings("composite", tmp_path)
    assert found.judged.values.tolist() == [5, 2, 1, 4, 3, 2, 5, 2, 1]
    assert np.diff(found.samples.offsets).tolist() == [5, 5, 5, 2, 2, 2, 5, 5, 5]
    for name, counts in (("tau-c", [4, 4, 4, 1, 1, 1]), ("tau-c-row", [4, 5, 5, 1, 2, 2])):
        chosen = protocols.chosen_samples(found, protocols.get(name, "composite"))
        assert chosen.reference_counts.tolist() == [*counts, 5, 5, 5]
    assert found.groups.tolist() == ["8k"] * 3 + ["30k"] * 3 + ["coco"] * 3
    assert any("lines without an image: 1" in r for r in found.remarks)
    assert any("not among the references: 1" in r for r in found.remarks)


def test_thumb(tmp_path):
    _coco(tmp_path)
    (tmp_path / "thumb").mkdir()
    lines = [
        {
            "SYS": "Up-Down",
            "image": "COCO_val2014_000000000005.jpg",
            "hyp": "x",
            "human_score": 4.2,
        },
        {
            "SYS": "Human",
            "image": "COCO_val2014_000000000005.jpg",
            "hyp": "Coco caption 3 of 5",
            "human_score": 5.0,
        },
    ]
    (tmp_path / "thumb/mscoco_THumB-1.0.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = sets.load_ratings("thumb", tmp_path)
    assert found.judged.values.tolist() == [4.2, 5.0]
    assert np.diff(found.samples.offsets).tolist() == [4, 4]  # the person's caption is taken out


def test_polaris_reads_lists_without_running_them(tmp_path):
    (tmp_path / "polaris").mkdir()
    path = tmp_path / "polaris/polaris_test.csv"
    path.write_text('mt,refs,score,imgid\n"a, b","[\'r 1\', ""it\'s r""]",0.75,1.jpg\n')
    found = sets.load_ratings("polaris", tmp_path)
    assert found.samples[0].references == ("r 1", "it's r")
    assert found.judged.values.tolist() == [0.75]
    path.write_text("mt,refs,score,imgid\na,\"__import__('os')\",0.75,1.jpg\nb,['x'],7,2.jpg\n")
    with pytest.raises(InputError) as err:
        sets.load("polaris", tmp_path)
    assert "not a list of texts" in str(err.value)
    assert "outside 0..1" in str(err.value)
    path.write_text("cand,refs,human_score\na,['x'],0.5\n")
    with pytest.raises(InputError, match="imgid or file_name"):
        sets.load("polaris", tmp_path)


def test_lists_as_pandas_writes_them(tmp_path):
    """numpy puts no comma between texts; Python would join them into one."""
    (tmp_path / "nebula").mkdir()
    refs = np.array(["a dog", "it's one dog", 'the "dog"'], object)
    assert "dog' " in str(refs)
    with (tmp_path / "nebula/nebula_test.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "refs", "mt", "human_score"])
        rows.writerow(["1.jpg", refs, "a cat", 0.5])
    found = sets.load_ratings("nebula", tmp_path)
    assert found.samples[0].references == ("a dog", "it's one dog", 'the "dog"')


def test_nebula_as_it_is_distributed(tmp_path):
    """JSON and parquet with file_name, refs, mt and human_score; made-up rows."""
    (tmp_path / "nebula").mkdir()
    rows = [
        {"file_name": "1.jpg", "refs": ["a dog", "one dog"], "mt": "a cat", "human_score": 0.25},
        {"file_name": "2.jpg", "refs": ["a hat"], "mt": "a hat", "human_score": 1.0},
    ]
    path = tmp_path / "nebula/nebula_test.json"
    path.write_text(json.dumps(rows))
    read = sets.load_ratings("nebula", tmp_path)
    assert read.samples[0].references == ("a dog", "one dog")
    assert read.judged.values.tolist() == [0.25, 1.0]
    path.write_text(json.dumps({name: [row[name] for row in rows] for name in rows[0]}))
    assert sets.load_ratings("nebula", tmp_path).samples.captions() == ["a cat", "a hat"]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")  # Dataset.to_json of the hub
    assert sets.load_ratings("nebula", tmp_path).samples.captions() == ["a cat", "a hat"]
    path.write_text("\n".join(map(json.dumps, [rows[0], {"mt": "x"}]))[:-3] + "}\n")
    with pytest.raises(InputError, match="line 2"):
        sets.load("nebula", tmp_path)
    path.write_text(json.dumps({str(n): row for n, row in enumerate(rows)}))
    assert sets.load_ratings("nebula", tmp_path).samples.captions() == ["a cat", "a hat"]
    path.write_text(json.dumps([rows[0] | {"refs": "a dog"}]))
    with pytest.raises(InputError, match="not a list of texts"):
        sets.load("nebula", tmp_path)
    path.write_text(json.dumps(["a dog"]))
    with pytest.raises(InputError, match="list of objects"):
        sets.load("nebula", tmp_path)
    path.unlink()
    table = pa.Table.from_pylist([row | {"image": b"pixels"} for row in rows])
    pq.write_table(table, path.with_suffix(".parquet"))
    assert sets.load_ratings("nebula", tmp_path).judged.values.tolist() == [0.25, 1.0]


def test_cxc_others_is_cut_by_photograph(tmp_path):
    _coco(tmp_path)
    (tmp_path / "cxc").mkdir()
    rows = [
        {"image_id": image, "caption": "a hat", "caption_image_id": other, "score": 2.5}
        for image, other in ((5, 6), (6, 5), (5, 5))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "cxc/sits_val.parquet")
    read = sets.load_ratings("cxc-others", tmp_path)
    assert len(read.samples) == 2
    assert read.counts["left out: the photograph's own caption"] == 1
    assert set(read.groups) <= {"A", "B"}
    assert len(read.samples[0].references) == 5
    assert read.samples.objects is None
    labels = {"image_id": [5, 6], "objects": [["dog"], ["dog"]]}
    pq.write_table(pa.table(labels), tmp_path / "coco/val2014_objects.parquet")
    seen = sets.load_ratings("cxc-others", tmp_path).samples
    assert seen.objects == [("dog",), ("dog",)]
    assert seen.evidence.labels.source.startswith("val2014_objects.parquet(")
    (tmp_path / "coco/images").mkdir()  # photographs: the detectors look
    assert sets.load_ratings("cxc-others", tmp_path).samples.objects is None
    instances = {
        "images": [{"id": n, "file_name": f"COCO_val2014_{n:012d}.jpg"} for n in (5, 6)],
        "annotations": [{"image_id": n, "category_id": 17} for n in (5, 6)],
        "categories": [{"id": 17, "name": "cat"}],
    }
    (tmp_path / "coco/instances_val2014.json").write_text(json.dumps(instances))
    assert sets.load_ratings("cxc-others", tmp_path).samples.objects == [("cat",), ("cat",)]


def test_cxc_others_of_the_research_data(shared):
    read = sets.load_ratings("cxc-others", shared / "data")
    assert read.counts["ratings"] == 19_722
    assert read.counts["images"] == 4_594
    assert all(labels is not None for labels in read.samples.objects)
    by_image = dict(zip(read.units.tolist(), read.groups.tolist(), strict=True))
    assert 0.45 < np.mean([part == "A" for part in by_image.values()]) < 0.55


def test_nocaps_foil(tmp_path, shared):
    (tmp_path / "nocaps_foil").mkdir()
    path = tmp_path / "nocaps_foil/nocaps-val-foil.json"
    entry = {
        "image_path": "1.jpg",
        "references": ["a hat", "one hat"],
        "baseline": "the hat ",
        "foil": "the cat ",
        "replacement": ["hat", "cat"],
        "domain": "in-domain",
    }
    path.write_text(json.dumps([entry]))
    read = sets.load_ratings("nocaps-foil", tmp_path)
    assert read.samples.captions() == ["the hat", "the cat"]
    assert read.judged.preference.tolist() == [1.0]
    assert read.groups.tolist() == ["in-domain"]
    path.write_text(json.dumps([entry | {"foil": None}]))
    with pytest.raises(InputError, match="lack a field"):
        sets.load("nocaps-foil", tmp_path)
    whole = sets.load_ratings("nocaps-foil", shared / "data")
    assert whole.counts["pairs"] == 2_500
    assert whole.samples.reference_counts.min() == 8


def test_cxc(tmp_path):
    _coco(tmp_path)
    (tmp_path / "cxc").mkdir()
    (tmp_path / "cxc/sits_val.csv").write_text(
        "caption,image,agg_score,sampling_method\n"
        "COCO_val2014:sentid:51,COCO_val2014_000000000005.jpg,4.5,c2i_original\n"
        "COCO_val2014:sentid:51,COCO_val2014_000000000006.jpg,1.5,c2i_intrasim\n"
    )
    (tmp_path / "cxc/sts_val.csv").write_text(
        "caption1,caption2,agg_score,sampling_method\n"
        "COCO_val2014:sentid:51,COCO_val2014:sentid:62,2.5,c2c_isim\n"
    )
    found = sets.load_ratings("cxc-sits", tmp_path)
    assert np.diff(found.samples.offsets).tolist() == [4, 5]
    assert sets.load_ratings("cxc-sts", tmp_path).samples[0].references == ("coco caption 2 of 6.",)


def test_foil(tmp_path):
    _coco(tmp_path)
    (tmp_path / "foil").mkdir()
    notes = [
        {"id": 52, "image_id": 5, "caption": "coco caption 2 of 5.", "foil": False},
        {
            "id": 52,
            "image_id": 5,
            "caption": "coco cat 2 of 5.",
            "foil": True,
            "target_word": "caption",
            "foil_word": "cat",
        },
    ]
    path = tmp_path / "foil/foilv1.0_test_2017.json"
    path.write_text(json.dumps({"annotations": notes}))
    found = sets.load_ratings("foil", tmp_path)
    assert isinstance(found.judged, Pairs)
    assert found.judged.preference.tolist() == [1.0]
    assert len(found.samples[0].references) == 4
    path.write_text(json.dumps({"annotations": notes[1:]}))
    with pytest.raises(InputError, match="correct caption is missing"):
        sets.load("foil", tmp_path)


# -- a user's own file ------------------------------------------ ---


def test_own_ratings(tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [
        {"caption": "a dog", "references": ["a dog .", "x"], "rating": [1, 3], "image": "i"},
        {"caption": "a cat", "references": ["a dog"], "rating": 2},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    found = user_files.load(path)
    assert isinstance(found.judged, Ratings)
    assert found.judged.values.tolist() == [1.0, 3.0, 2.0]
    assert found.own.tolist() == [True, False]


def test_own_pairs_and_rankings(tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("caption_a,caption_b,ref_1,preferred,group\na,b,r,a,x\nc,d,r,tie,y\n")
    found = user_files.load(pairs)
    assert found.judged.preference.tolist() == [1.0, 0.0]
    assert found.groups.tolist() == ["x", "y"]
    ranks = tmp_path / "ranks.csv"
    ranks.write_text("caption,item,rank,references\na,1,1,r\nb,1,3,r\nc,1,2,r\n")
    found = user_files.load(ranks)
    assert found.counts["pairs"] == 3
    assert found.judged.preference.tolist() == [1.0, 1.0, -1.0]


def test_own_judgements_that_stand_twice(tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("caption_a,caption_b,image,votes_a,votes_b\na,b,i,1,0\nb,a,i,0,1\n")
    assert "pairs that appear twice: 1 (record 2 and record 1)" in user_files.load(pairs).remarks
    pairs.write_text("caption_a,caption_b,image,votes_a,votes_b\na,b,i,-1,0\n")
    with pytest.raises(InputError, match="votes below 0"):
        user_files.load(pairs)
    ranks = tmp_path / "ranks.csv"
    ranks.write_text("caption,item,rank,references\na,1,1,r\na,1,3,r\n")
    with pytest.raises(InputError, match="ranked twice"):
        user_files.load(ranks)


def test_own_file_lists_all_that_is_wrong(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(
        json.dumps(
            [
                {"caption": 3, "rating": "x", "references": ["r"]},
                {"caption": "a", "rating": 1, "references": 5},
            ]
        )
    )
    with pytest.raises(InputError) as err:
        user_files.load(path)
    for part in ("caption is not text", "ratings that are not numbers", "not a list of texts"):
        assert part in str(err.value)
    path.write_text(json.dumps([{"text": "a"}]))
    with pytest.raises(InputError, match="neither of ratings"):
        user_files.load(path)


# -- photographs and labels of COMPOSITE; parts and systems ----- ---


def _composite(root):
    """One image of each part, one of them in the photograph folders."""
    _flickr(root, "1.jpg\t2.jpg#0\t1\t2\t3")
    _coco(root)
    (root / "flickr30k").mkdir()
    pq.write_table(
        pa.table({"image": ["1.jpg"], "split": ["x"], "captions": [["one cap", "two cap"]]}),
        root / "flickr30k/captions.parquet",
    )
    folder = root / "composite"
    folder.mkdir()
    for ending in ("correctness", "throughness"):
        for part, image in (("8k", "1.jpg"), ("30k", "1.jpg"), ("coco", "5")):
            (folder / f"{part}_{ending}.csv").write_text(
                f"image;h;a;b;s1;s2;s3\n{image};a dog;m1;m2;5;2;1"
            )


def test_composite_names_its_photographs_like_the_other_sets(tmp_path):
    _composite(tmp_path)
    found = sets.load_ratings("composite", tmp_path)
    bare = ["1.jpg", "flickr30k/1.jpg", "COCO_val2014_000000000005.jpg"]
    assert found.samples.images.tolist() == [b for b in bare for _ in range(3)]
    places = ["flickr8k/images/1.jpg", "flickr30k/images/1.jpg", "coco/images/000000000005.jpg"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"x")
    found = sets.load_ratings("composite", tmp_path)
    assert found.samples.images[::3].tolist() == [str(tmp_path / p) for p in places]
    assert len(set(found.units.tolist())) == 3


def test_composite_finds_labels_by_number_by_file_and_of_coco_itself(tmp_path):
    _composite(tmp_path)
    files = {"a.json": {"5": ["Traffic_light"], "1.jpg": ["dog"]}}
    (tmp_path / "a.json").write_text(json.dumps(files["a.json"]))
    (tmp_path / "b.json").write_text(json.dumps({"COCO_val2014_000000000005.jpg": ["car", "car"]}))
    judged = sets.load_ratings("composite", tmp_path)
    assert judged.samples.objects is None
    one = labels.labelled(judged, labels.parse([str(tmp_path / "a.json")]))
    assert one.samples.objects[::3] == [("dog",), ("dog",), ("traffic light",)]
    both = labels.parse([f"A={tmp_path / 'a.json'}", f"B={tmp_path / 'b.json'}"])
    two = labels.labelled(judged, both)
    assert two.samples.objects[6] == ("traffic light", "car")
    assert re.fullmatch(r"A\([0-9a-f]{8}\)\+B\([0-9a-f]{8}\)", two.samples.evidence.labels.source)
    assert labels.labelled(judged, both, counts=True).samples.objects[6].count("car") == 2
    with pytest.raises(InputError, match="instances_val2014"):
        labels.labelled(judged, labels.parse(["gold"]))
    instances = {
        "images": [{"id": 5, "file_name": "COCO_val2014_000000000005.jpg"}],
        "annotations": [{"image_id": 5, "category_id": 18}],
        "categories": [{"id": 18, "name": "dog"}],
    }
    (tmp_path / "coco/instances_val2014.json").write_text(json.dumps(instances))
    judged = sets.load_ratings("composite", tmp_path)
    assert judged.samples.objects[::3] == [None, None, ("dog",)]
    gold = labels.labelled(judged, labels.parse(["gold", f"B={tmp_path / 'b.json'}"]))
    assert gold.samples.objects[6] == ("dog", "car")


def test_sources_of_labels_are_checked(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"elsewhere": ["dog"]}))
    with pytest.raises(InputError, match="no such object label file"):
        labels.parse(["D500=nowhere.parquet"])
    with pytest.raises(UsageError, match="called a:"):
        labels.parse([str(tmp_path / "a.json"), f"a={tmp_path / 'a.json'}"])
    _composite(tmp_path)
    judged = sets.load_ratings("composite", tmp_path)
    with pytest.raises(InputError, match="no labels for any of its images"):
        labels.labelled(judged, labels.parse([str(tmp_path / "a.json")]))


def test_protocols_select_part_and_systems(tmp_path):
    _composite(tmp_path)
    judged = sets.load_ratings("composite", tmp_path)
    protocol = protocols.get("composite/rho-coco-machine-5refs")
    kept = protocols.selected(judged, protocol)
    assert kept.samples.captions() == ["m1", "m2"]
    assert kept.judged.values.tolist() == [2, 1]
    assert kept.counts["left out by the protocol"] == 7
    assert protocols.chosen_samples(kept, protocol).reference_counts.tolist() == [5, 5]
    none = protocols.get("composite/rho-coco-machine-0refs")
    assert protocols.chosen_samples(kept, none).reference_counts.tolist() == [0, 0]
    people = protocols.get("composite/tau-c+part=8k+systems=human")
    assert protocols.selected(judged, people).samples.captions() == ["a dog"]
    with pytest.raises(InputError, match="its parts are 30k, 8k, coco"):
        protocols.selected(judged, protocols.get("composite/tau-c+part=4k"))


def test_references_can_be_joined(tmp_path):
    _composite(tmp_path)
    judged = sets.load_ratings("composite", tmp_path)
    chosen = protocols.get("composite/tau-b-row+joined=True")
    found = protocols.chosen_samples(judged, chosen)
    assert found.references()[3] == ["one cap two cap"]
    assert "joined into one" in chosen.describe()


def test_pascal_labels_are_words(shared):
    """`pottedplant`, `diningtable` and `tvmonitor` have no vector: 211 of 1,000 images hold one."""
    judged = sets.load_ratings("pascal50s", shared / "data")
    found = {x for some in judged.samples.objects for x in some}
    assert {"potted plant", "dining table", "tv monitor"} <= found
    assert not found & {"pottedplant", "diningtable", "tvmonitor"}
    source = judged.samples.evidence.labels.source
    assert re.fullmatch(r"pascal50s_voc_objects\.json\([0-9a-f]{8}\)", source)
    assert judged.pool.evidence.labels.source == judged.samples.evidence.labels.source
    drawn = protocols.chosen_samples(judged, protocols.get("pascal50s/half-5drawn"))
    assert drawn.evidence.labels.source == judged.samples.evidence.labels.source
