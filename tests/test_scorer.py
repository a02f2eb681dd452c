"""The prepared scorer: the numbers of captious.score, from one caption at a time, under threads."""

from __future__ import annotations

import io
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captious
from captious import demo
from captious.errors import CaptiousError, InputError, UsageError

CAPTIONS = ["a dog runs on the grass", "a red bus", "", "two men's hats (red), isn't it?"]
REFERENCES = [
    ["a brown dog is running on green grass", "the dog runs"],
    ["a red double decker bus on a street", "a bus", "a red bus"],
    ["a cat sleeps"],
    ["two men with red hats", ""],
]
CLASSIC = ["bleu", "rouge_l", "cider_d(df='coco-val')", "cider(df='coco-val')"]


def test_the_numbers_are_those_of_score():
    table = captious.score(CAPTIONS, REFERENCES, metrics=CLASSIC, intervals=False)
    scores = captious.scorer(CLASSIC)(CAPTIONS, REFERENCES)
    assert list(scores.per_caption) == list(table.values)
    for name, values in table.values.items():
        np.testing.assert_allclose(scores[name], values, rtol=1e-12, atol=1e-14)
        assert scores.corpus[name] == pytest.approx(table.corpus[name], rel=1e-12)
    assert scores.signatures == table.signatures
    again = scores.table()
    assert again.corpus == scores.corpus
    assert again.captions == CAPTIONS


@given(
    st.lists(
        st.tuples(
            st.text("ab ,'", max_size=30),
            st.lists(st.text("ab ,'", max_size=30), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_text_gets_the_numbers_of_score(rows):
    captions, references = [c for c, _ in rows], [r for _, r in rows]
    table = captious.score(captions, references, metrics=CLASSIC, intervals=False)
    scores = JUDGE(captions, references)
    for name, values in table.values.items():
        np.testing.assert_allclose(scores[name], values, rtol=1e-9, atol=1e-12)


JUDGE = captious.scorer(CLASSIC)


def test_document_frequencies_of_known_references():
    judge = captious.scorer("cider_d", references=REFERENCES, df="corpus")
    table = captious.score(CAPTIONS, REFERENCES, metrics="cider_d", intervals=False)
    np.testing.assert_allclose(judge(CAPTIONS)["cider_d"], table["cider_d"], rtol=1e-12)
    one = judge([CAPTIONS[0]], [REFERENCES[0]])["cider_d"]
    np.testing.assert_allclose(one, table["cider_d"][:1], rtol=1e-12)


def test_references_by_id():
    known = dict(zip("wxyz", REFERENCES, strict=True))
    judge = captious.scorer(references=known)
    whole = judge(dict(zip("wxyz", CAPTIONS, strict=True)))
    assert whole.ids == list("wxyz")
    assert judge([CAPTIONS[1]], ids=["x"])["cider_d"][0] == whole["cider_d"][1]
    with pytest.raises(InputError, match=r"captions\[1\].*'q'"):
        judge(["a", "b"], ids=["w", "q"])


def test_one_text():
    assert JUDGE("a red bus", "a red bus")["rouge_l"].tolist() == [1.0]
    assert JUDGE("a red bus", ["a bus", "a red bus"])["rouge_l"].tolist() == [1.0]


def test_a_caption_without_reference_loses_nothing_else():
    scores = JUDGE(["a dog", "a cat"], [["a dog"], []])
    assert scores["bleu_1"][0] == pytest.approx(1.0)
    assert np.isnan(scores["bleu_1"][1])
    assert {(u.id, u.reason) for u in scores.unscored} == {("1", "it has no reference")}
    assert scores.corpus["rouge_l"] == 1.0
    with pytest.raises(CaptiousError, match="needs references"):
        JUDGE(["a dog"], [[]])


def test_every_wrong_entry_is_named():
    with pytest.raises(InputError) as caught:
        JUDGE(["a", 5, None], [["a"], ["b"], ["c"]])
    assert [p.split(" ")[0] for p in caught.value.problems] == ["captions[1]", "captions[2]"]
    with pytest.raises(InputError, match=r"references\[1\]\[0\] is int"):
        JUDGE(["a", "b"], [["a"], [7]])
    with pytest.raises(InputError, match="2 captions, but 1 lists"):
        JUDGE(["a", "b"], [["a"]])
    with pytest.raises(InputError, match="no caption"):
        JUDGE([], [])
    with pytest.raises(UsageError, match="cider_d"):
        captious.scorer("cidr_d")


def test_it_travels_as_its_arguments():
    judge = captious.scorer(["bleu_4", "cider_d"], references=REFERENCES)
    other = pickle.loads(pickle.dumps(judge))
    assert other(CAPTIONS)["cider_d"].tolist() == judge(CAPTIONS)["cider_d"].tolist()
    assert list(other(CAPTIONS).per_caption) == ["bleu_4", "cider_d"]
    assert len(pickle.dumps(judge)) < 2000


def test_threads_and_batches_change_no_bit():
    rng = np.random.default_rng(1)
    words = "a the dog cat bus red big runs on grass street man's".split()
    captions = [" ".join(rng.choice(words, rng.integers(0, 12))) for _ in range(400)]
    references = [[" ".join(rng.choice(words, 8)) for _ in range(3)] for _ in range(400)]
    judge = captious.scorer(remember=50)
    whole = judge(captions, references)
    with ThreadPoolExecutor(8) as pool:
        single = list(pool.map(lambda c, r: judge([c], [r]), captions, references))
    for name, values in whole.per_caption.items():
        assert [s[name][0] for s in single] == values.tolist()


def test_a_function_is_a_metric():
    def brevity(caption, references):
        return min(1.0, len(caption) / len(references[0])) if caption else None

    table = captious.score(CAPTIONS, REFERENCES, metrics=[brevity, "rouge_l"])
    assert table["brevity"][1] == pytest.approx(9 / 35)
    assert [u.reason for u in table.unscored] == ["brevity returned None"]
    assert "brevity|" in table.signatures["brevity"]
    assert captious.scorer(brevity)(CAPTIONS, REFERENCES)["brevity"][1] == table["brevity"][1]
    assert captious.score(["a b"], metrics=lambda text: len(text)).corpus == {"lambda": 3.0}

    def wrong(caption, references, temperature):
        return 0.0

    with pytest.raises(UsageError, match="temperature"):
        captious.score(CAPTIONS, REFERENCES, metrics=wrong)
    with pytest.raises(UsageError, match=r"returned str for the caption '0'"):
        captious.score(CAPTIONS, REFERENCES, metrics=lambda c, r: "good")


def test_a_metric_that_is_called_is_a_metric():
    table = captious.score(CAPTIONS, REFERENCES, metrics=[captious.metric("rouge_l", beta=1.0)])
    assert list(table.values) == ["rouge_l"]


def test_frames_tables_and_datasets(tmp_path):
    import pyarrow as pa

    rows = {"caption": CAPTIONS, "references": REFERENCES}
    expected = captious.score(CAPTIONS, REFERENCES, intervals=False).corpus
    assert captious.score(pa.table(rows), intervals=False).corpus == expected
    pd = pytest.importorskip("pandas")
    assert captious.score(pd.DataFrame(rows), intervals=False).corpus == expected
    arrays = pd.DataFrame(rows | {"references": [np.array(r, object) for r in REFERENCES]})
    assert captious.score(arrays, intervals=False).corpus == expected


def test_rows_are_scored_by_a_prepared_scorer():
    """A frame, a table or records bring their references, ids and pictures along."""
    pandas = pytest.importorskip("pandas")
    import pyarrow as pa

    columns = {"image_id": [7, 8], "caption": CAPTIONS[:2], "references": REFERENCES[:2]}
    expected = JUDGE(CAPTIONS[:2], REFERENCES[:2], ids=["7", "8"])
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for rows in (pandas.DataFrame(columns), pa.table(columns), records):
        scores = JUDGE(rows)
        assert scores.ids == ["7", "8"]
        for name, values in expected.per_caption.items():
            np.testing.assert_array_equal(scores[name], values)
    known = captious.scorer("bleu_1", references={"7": ["a dog"], "8": ["a bus"]})
    assert known(pandas.DataFrame({"id": [8], "text": ["a bus"]}))["bleu_1"][0] == pytest.approx(1)
    with pytest.raises(InputError, match="no column holds captions"):
        JUDGE(pandas.DataFrame({"references": [["a"]], "words": ["a"]}))
    with pytest.raises(InputError, match=r"captions\[1\]"):
        JUDGE(pandas.DataFrame({"caption": ["a", 3], "references": [["a"], ["b"]]}))


def test_a_frame_is_refused_by_index():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"captions\[1\]: the caption is int"):
        captious.score(pandas.DataFrame({"caption": ["a", 3], "references": [["a"], ["b"]]}))
    with pytest.raises(InputError, match="but no captions"):
        captious.score(pandas.DataFrame({"references": [["a"], ["b"]]}))


def test_a_function_that_raises_names_the_caption():
    def shy(caption, references):
        raise KeyError("no")

    with pytest.raises(KeyError) as raised:
        captious.score({"x7": "a"}, {"x7": ["a"]}, metrics=[shy])
    assert raised.value.__notes__ == ["shy() was called for the caption 'x7'"]


def test_a_dataset_of_the_hub():
    datasets = pytest.importorskip("datasets", reason="the host 'datasets' is not installed")
    made = datasets.Dataset.from_dict({"caption": CAPTIONS, "references": REFERENCES})
    expected = captious.score(CAPTIONS, REFERENCES, intervals=False).corpus
    assert captious.score(made, intervals=False).corpus == expected
    with pytest.raises(InputError, match="train"):
        captious.score(datasets.DatasetDict({"train": made}), intervals=False)


def test_pictures_come_in_many_shapes():
    image = pytest.importorskip("PIL.Image")
    path = demo.photographs()[0]
    picture = image.open(path).convert("RGB")
    png = io.BytesIO()
    picture.save(png, "PNG")
    array = np.asarray(picture)
    seen = []

    def shape(caption, image):
        seen.append(image)
        return 1.0

    given = [path, picture, array, png.getvalue(), array.transpose(2, 0, 1) / 255.0]
    captious.scorer(shape)(["a"] * 5, images=given)
    assert seen[0] == str(path)
    assert len(set(seen[1:])) <= 2  # the same pixels; PNG bytes may be packed another way
    samples = captious.load(["a"] * 5, images=given)
    held = samples.evidence.photographs
    for name in samples.images[1:]:
        pixels = np.asarray(image.open(io.BytesIO(held[name])).convert("RGB"))
        assert (pixels == array).all()
    with pytest.raises(InputError, match=r"images\[1\].*shape \(2, 2, 2\)"):
        captious.scorer(shape)(["a", "b"], images=[path, np.zeros((2, 2, 2))])
    with pytest.raises(InputError, match=r"images\[0\] is object"):
        captious.load(["a"], images=[object()])


def test_the_demo_is_scored_alike():
    references = json.loads(demo.references_file().read_text())
    judge = captious.scorer(references=references)
    assert "references of" in repr(judge)


def test_metrics_that_take_the_engine():
    """Labels, inputs of other metrics, signatures: as captious.score."""
    pytest.importorskip("ot", reason="POT is not installed")
    objects = [["dog"], ["bus", "car"], ["cat"], None]
    forms = ["meteor", "vifidel", "vifidel_cider(df='coco-val')", "bleu_1"]
    try:
        judge = captious.scorer(forms)
    except CaptiousError as err:
        pytest.skip(str(err).splitlines()[-1])
    scores = judge(CAPTIONS, REFERENCES, objects=objects)
    table = captious.score(CAPTIONS, REFERENCES, objects=objects, metrics=forms, intervals=False)
    for name, values in table.values.items():
        np.testing.assert_allclose(scores[name], values, rtol=1e-12)
    assert scores.signatures == table.signatures
    assert sorted(scores.unscored) == sorted(table.unscored)


def test_a_misspelt_argument_is_named():
    with pytest.raises(
        UsageError, match=r"no argument or setting 'metric'. Did you mean 'metrics'"
    ):
        captious.score(["a dog"], [["a dog"]], metric="bleu")
    with pytest.raises(UsageError, match="Did you mean 'device'"):
        captious.score(["a dog"], [["a dog"]], devise="cpu")
