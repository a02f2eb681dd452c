"""METEOR equals the jar; its statistics, alignment and corner cases are what they should be."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from captious import assets, settings
from captious.errors import InputError, MissingAsset
from captious.metrics import meteor
from captious.metrics._meteor import align as aligner
from captious.metrics._meteor import phrases as phrase_finder
from captious.metrics._meteor import words
from captious.metrics._meteor.words import java_hashes
from captious.metrics.meteor import Meteor
from captious.report.pictures import draw
from captious.text import paraphrase
from captious.text.meteor_norm import normalize
from captious.text.paraphrase import Paraphrases, Places, distinct
from captious.text.synsets import WordTables
from captious.types import CaptionSet, Sample

pytest.importorskip("numba", reason="numba is not installed (extra: meteor)")
if assets.available("meteor-paraphrases") is None:
    pytest.skip("pycocoevalcap with METEOR's tables is not installed", allow_module_level=True)

SMALL = Meteor(paraphrase=False, tokenizer="plain")  # reads no large table
WORDS = (
    "a the dog dogs cat sits sitting on red , 's puppy big large horse-back 3.5 ... in man".split()
)


def rows_of(metric: Meteor, pairs) -> np.ndarray:
    return metric.stats(CaptionSet.build([c for c, _ in pairs], [r for _, r in pairs]), None).rows


def score_of(metric: Meteor, caption: str, *references: str) -> float:
    return float(metric.scores(rows_of(metric, [(caption, references)]))[0, 0])


# -- against the original ------------------------------------------------------------------------


def test_twelve_items(twelve):
    rows = rows_of(Meteor(), [(x["cand"], x["refs"]) for x in twelve["items"]])
    golden = [[float(x) for x in line.split()] for line in twelve["meteor"]["stats"]]
    np.testing.assert_array_equal(rows[:, :23], golden)
    np.testing.assert_allclose(Meteor().scores(rows)[:, 0], twelve["meteor"]["segment"], atol=1e-12)
    np.testing.assert_allclose(Meteor().aggregate(rows), twelve["meteor"]["corpus"], atol=1e-12)


def test_both_directions():
    """Values from meteor-1.5.jar -l en -norm (SCORE and EVAL over -stdio)."""
    one, other = "a person rides a horse", "a man is riding a horse"
    rows = rows_of(Meteor(), [(one, [other]), (other, [one])])
    expected = [0.3632088987178342, 0.3860112511037072]
    np.testing.assert_allclose(Meteor().scores(rows)[:, 0], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(Meteor().aggregate(rows), 0.3742630825918552, rtol=0, atol=1e-12)
    assert score_of(Meteor(), "the cats are sleeping", "a cat sleeps") == 0.0


def test_flickr8k_expert(shared):
    table = pq.read_table(
        shared / "golden" / "classic" / "flickr8k_expert.parquet",
        columns=["cand", "refs", "meteor"],
    )
    samples = CaptionSet.build(table["cand"].to_pylist(), table["refs"].to_pylist())
    found = Meteor().scores(Meteor().stats(samples, None).rows)[:, 0]
    assert len(found) == 5822
    np.testing.assert_allclose(found, table["meteor"].to_numpy(), rtol=0, atol=1e-9)


@pytest.mark.full
def test_jar_on_other_captions(shared):
    """1,000 captions of each COCO captioner, statistics and all, against the jar itself."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    coco = shared / "data" / "coco"
    table = pq.read_table(coco / "val2014_captions.parquet")
    references = dict(
        zip(table["image_id"].to_pylist(), table["captions"].to_pylist(), strict=True)
    )
    systems = pq.read_table(coco / "val2014_systems.parquet")
    ids = systems["image_id"].to_pylist()
    pick = np.random.default_rng(7).choice(len(ids), 1000, replace=False).tolist()
    pairs = [
        (_line(systems[name][i].as_py()), [_line(r) for r in references[ids[i]]])
        for name in systems.column_names[1:]
        for i in pick
    ]
    jar = assets.resolve("meteor-tables")
    lines = [" ||| ".join(["SCORE", *refs, caption]) for caption, refs in pairs]
    options = ["-", "-", "-stdio", "-l", "en", "-norm"]
    done = subprocess.run(
        ["java", "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", jar, *options],
        input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    golden = [[float(x) for x in line.split()] for line in done.stdout.splitlines()]
    np.testing.assert_array_equal(rows_of(Meteor(tokenizer="none"), pairs)[:, :23], golden)


def _line(text: str) -> str:
    return " ".join(text.replace("|||", " ").split())


# -- properties ----------------------------------------------------------------------------------

sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)
anything = st.text(max_size=40)


@given(sentences)
def test_identity_scores_one(text):
    assert score_of(SMALL, text, text) == pytest.approx(1.0, abs=1e-12)


@given(sentences | anything, st.lists(sentences | anything, min_size=1, max_size=4), st.randoms())
def test_order_of_references_does_not_matter(caption, references, random):
    shuffled = random.sample(references, len(references))
    assert score_of(SMALL, caption, *references) == score_of(SMALL, caption, *shuffled)


odd_words = st.text(alphabet="aB1.,'`-\u2019\u201d&|\u00e9\u2003 \x01", max_size=30)


@given(st.lists(odd_words, min_size=1, max_size=5))
def test_sentences_are_normalised_as_one_by_one(texts):
    tables = WordTables.open()
    pool = CaptionSet.build(texts).pool
    lexicon = words.build(pool, "none", tables, None)
    for i, text in enumerate(pool.strings()):
        joined = " ".join(text.split()).replace("|||", "")
        expected = normalize(joined, tables.prefixes, tables.numeric_prefixes)
        assert lexicon.sentence(i) == expected


@given(anything, anything)
def test_any_text_has_a_value(caption, reference):
    assert 0.0 <= score_of(SMALL, caption, reference) <= 1.0


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
def test_rows_hang_together(pairs):
    rows = rows_of(SMALL, [(c, [r]) for c, r in pairs])
    matched = rows[:, 4:20].reshape(-1, 4, 2, 2)  # stage, content or function, side
    np.testing.assert_array_equal(matched.sum(axis=(1, 2)), rows[:, 21:23])
    assert (rows[:, 21] <= rows[:, 0]).all()
    assert (rows[:, 22] <= rows[:, 1]).all()
    assert (rows[:, 20] <= rows[:, 21]).all()
    # The compiled formula and the one over arrays are the same.
    np.testing.assert_allclose(SMALL.scores(rows)[:, 0], aligner.scores(rows), rtol=1e-14)


@hypothesis_settings(max_examples=15)
@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
def test_compiled_equals_plain(pairs):
    samples = CaptionSet.build([c for c, _ in pairs], [[r, c] for c, r in pairs])
    metric = Meteor(tokenizer="plain")
    arrays = metric._lexicon(samples).arrays
    found = []
    for code in (None, aligner.kernels.loaded):
        rows, refused, matches = aligner.statistics(
            arrays,
            samples.caption.astype(np.int64),
            samples.reference.astype(np.int64),
            samples.offsets,
            code,
        )
        found.append((rows.tolist(), refused.tolist(), matches))
    assert found[0] == found[1]


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(meteor, "_WORTH_A_THREAD", 10)
    rng = np.random.default_rng(3)
    pairs = [(" ".join(rng.choice(WORDS, 8)), [" ".join(rng.choice(WORDS, 9))]) for _ in range(60)]
    with settings.use(threads=1):
        one = rows_of(SMALL, pairs)
    with settings.use(threads=3):
        three = rows_of(SMALL, pairs)
    np.testing.assert_array_equal(one, three)


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caption", "reference", "value"),
    [
        ("", "a dog", 0.0),
        ("a dog", "", 0.0),
        ("", "", 0.0),
        ("?!", "a dog", 0.0),
        ("😀", "a dog", 0.0),
        ("собака бежит", "a dog", 0.0),
        ("собака бежит", "собака бежит", 1.0),
        ("狗 跑", "狗 跑", 1.0),
        ("a ||| dog", "a dog", 1.0),
        ("a dog", "a ||| dog", 1.0),
    ],
)
def test_odd_texts(caption, reference, value):
    assert score_of(SMALL, caption, reference) == pytest.approx(value, abs=1e-12)


def test_long_captions():
    rng = np.random.default_rng(1)
    long = " ".join(rng.choice(WORDS, 500))
    other = " ".join(rng.choice(WORDS, 500))
    assert score_of(SMALL, long, long) == pytest.approx(1.0, abs=1e-12)
    assert 0.0 < score_of(SMALL, long, other) < 1.0
    assert 0.0 < score_of(SMALL, "a " * 500, "a " * 300 + "dog") < 1.0


def test_what_cannot_be_scored_has_a_reason():
    endless = "a " * 10_001
    samples = CaptionSet.build(
        ["a dog", "a dog", endless, "a dog"], [["a dog"], [], ["a dog"], ["a cat", endless]]
    )
    found = SMALL.stats(samples, None)
    assert np.isnan(found.rows).any(axis=1).tolist() == [False, True, True, True]
    assert found.reasons.keys() == {1, 2, 3}
    assert "references" in found.reasons[1]
    assert "10,000 words" in found.reasons[3]
    np.testing.assert_array_equal(np.isnan(SMALL.scores(found.rows)[:, 0]), [0, 1, 1, 1])


def test_missing_tables_are_named(tmp_path):
    metric = Meteor(tables=str(tmp_path / "gone"))
    assert [type(e) for e in metric.missing()] == [MissingAsset, MissingAsset]
    with pytest.raises(MissingAsset, match="gone"):
        score_of(metric, "a dog", "a dog")


# -- what it says --------------------------------------------------------------------------------


def test_explanation():
    sample = Sample(
        "1", "a man rides a horse & <b>", ("nothing here", "a man riding a horse & <b>")
    )
    found = Meteor(tokenizer="plain").explain(sample, None)
    assert found.data["best_reference"] == 1
    stages = {m["caption_words"]: m["stage"] for m in found.data["matches"]}
    assert stages["man"] == "exact"
    assert found.data["score"] == pytest.approx(
        found.data["mean"] * (1 - found.data["penalty"]), abs=1e-12
    )
    assert "reference 2" in found.text
    json.dumps(found.data)
    words = [e.text for e in ET.fromstring(draw(found)).iter("{http://www.w3.org/2000/svg}text")]
    assert "<" in words
    with pytest.raises(InputError):
        SMALL.explain(Sample("2", "a dog"), None)


def test_explanation_of_phrases():
    sample = Sample(
        "1", "puppies sat in front of a huge automobile", ("pup sat before a large car",)
    )
    found = Meteor().explain(sample, None)
    matches = found.data["matches"]
    assert {"exact", "synonym", "paraphrase"} == {m["stage"] for m in matches}
    phrase = next(m for m in matches if m["caption_words"].startswith("in front of"))
    assert phrase["reference_words"].startswith("before")
    assert phrase["caption"] == [2, 2 + len(phrase["caption_words"].split())]
    assert "paraphrase: in front of a = before a, huge = large" in found.text


def test_signature_names_the_variant():
    with_table, without = Meteor().signature("5", None), SMALL.signature("5", None)
    assert Paraphrases.open().fingerprint in with_table
    assert "paraphrase:no" in without
    assert "ptb" in with_table


def test_words_of_equal_hash_are_one_word():
    hashes = java_hashes(["hello", "", "an", "c0", "\U0001f600"]).tolist()
    assert hashes == [99162322, 0, 3117, 3117, 0xD83D * 31 + 0xDE00]
    assert score_of(SMALL, "c0 dog", "an dog") > score_of(SMALL, "c1 dog", "an dog")


# -- the paraphrase index ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 100_000])
def test_places_are_the_same_searched_for_or_looked_up(size):
    """A few values are searched for, many are looked up in a table of all: the same answer."""
    draw = np.random.default_rng(0)
    chosen = np.unique(draw.integers(0, size, 30))
    values = np.concatenate([chosen, draw.integers(0, size, 60), [0, size - 1]])
    expected = [int(np.flatnonzero(chosen == v)[0]) if v in chosen else -1 for v in values]
    assert Places(chosen, size)(values).tolist() == expected
    assert distinct(values, size).tolist() == sorted(set(values.tolist()))


TABLE = [
    ("a dog", "the dog"), ("a dog", "one puppy"), ("automobile", "car"), ("automobile", "a dog"),
    ("the dog", "a dog"), ("the dog", "the dog"),
]  # fmt: skip


@pytest.fixture
def small_table(tmp_path, cache):
    path = tmp_path / "paraphrase-en.gz"
    path.write_bytes(gzip.compress("".join(f"0.5\n{a}\n{b}\n" for a, b in TABLE).encode()))
    paraphrase._load.cache_clear()
    yield path
    paraphrase._load.cache_clear()


def walk(table: Paraphrases, phrase: str) -> int:
    node = 0
    for word in phrase.split():
        number = table.numbers.get(word, -1)
        node = phrase_finder._child(table.labels, table.children, node, number)
        if node == 0:
            return 0
    return int(node)


def test_index_holds_the_table(small_table):
    table = Paraphrases.open(small_table)
    phrases = sorted({p for pair in TABLE for p in pair}, key=lambda p: walk(table, p))
    nodes = np.array([walk(table, p) for p in phrases])
    assert nodes.all()
    assert walk(table, "dog") == 0
    assert walk(table, "a cat") == 0
    left, right, rank = table.pairs_among(nodes)
    found = sorted(zip(left.tolist(), rank.tolist(), right.tolist(), strict=True))
    by_phrase = {p: [b for a, b in TABLE if a == p] for p in phrases}
    expected = [
        (i, k, phrases.index(b)) for i, p in enumerate(phrases) for k, b in enumerate(by_phrase[p])
    ]
    assert found == sorted(expected)
    # Only pairs with both sides present are reported.
    two = np.array(sorted([walk(table, "a dog"), walk(table, "one puppy")]))
    assert len(table.pairs_among(two)[0]) == 1


def test_index_is_built_once_and_checked(small_table, cache):
    Paraphrases.open(small_table)
    (home,) = (cache.cache_dir / "meteor").iterdir()
    before = (home / "index.json").stat().st_mtime_ns
    paraphrase._load.cache_clear()
    Paraphrases.open(small_table)
    assert (home / "index.json").stat().st_mtime_ns == before
    targets = bytearray((home / "targets.npy").read_bytes())
    targets[-1] ^= 1
    (home / "targets.npy").write_bytes(targets)
    paraphrase._load.cache_clear()
    with pytest.raises(InputError, match="damaged"):
        Paraphrases.open(small_table)


@pytest.mark.parametrize("text", ["0.5\na dog\n", "", "0.5\na  dog\nthe dog\n"])
def test_broken_table(tmp_path, cache, text):
    path = tmp_path / "broken.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(InputError, match="broken"):
        Paraphrases.open(path)
    assert not list((cache.cache_dir / "meteor").iterdir())


def test_a_word_repeated_thousands_of_times_is_bounded():
    """The search is cut where its cost would be minutes; just below, it is still exact."""
    low, high = "a " * 300, "a " * 3000
    samples = CaptionSet.build([low, high], [[low + "b"], [high + "b"]])
    found = Meteor(paraphrase=False).stats(samples, None)
    assert np.isfinite(found.rows[0]).all()
    assert np.isnan(found.rows[1]).all()
    assert "ways to match" in found.reasons[1]
