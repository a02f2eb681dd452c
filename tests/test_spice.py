"""SPICE and SPIDEr: rules, graphs, cache, bad input, agreement with the Java tool."""

from __future__ import annotations

import importlib.util
import sqlite3
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious import settings
from captious.errors import MissingAsset, MissingExtra
from captious.metrics.cider import CiderD
from captious.metrics.spice import Spice, reader
from captious.metrics.spider import Spider
from captious.report.pictures import draw
from captious.text import scene_parser
from captious.text._scene_lemmas import Lemmas
from captious.text._scene_rules import Parse, Scene, scene
from captious.text.parse_cache import ParseCache
from captious.text.scene_graph import SceneGraph, match
from captious.text.synsets import WordTables
from captious.training import caption_parser
from captious.types import CaptionSet, Sample

pytest.importorskip("spacy")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tables() -> WordTables:
    return WordTables.open()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """One parse cache for this file, away from the user's."""
    folder = tmp_path_factory.getbasetemp() / "spice-cache"
    with settings.use(cache_dir=folder, progress=False):
        yield


def read(text: str, tags: str, labels: str, heads: list[int], tables: WordTables) -> Scene:
    parse = Parse(tuple(text.split()), tuple(tags.split()), tuple(labels.split()), tuple(heads))
    return scene(parse, Lemmas(tables))


def score(captions: list[str], references: list[list[str]], **options: str) -> np.ndarray:
    spice = Spice(**options)
    return spice.scores(spice.stats(CaptionSet.build(captions, references), None).rows)


# -- rules on given parses: no parser involved ---------------------------------------------------


def test_verb_with_object_and_place(tables):
    got = read(
        "two men are riding a horse on the beach",
        "CD NNS VBP VBG DT NN IN DT NN",
        "nummod nsubj aux ROOT det dobj prep det pobj",
        [1, 3, 3, 3, 5, 3, 3, 8, 6],
        tables,
    )
    assert got.relations == (("man", "ride", "horse"), ("man", "ride on", "beach"))
    assert got.attributes == (("man", "two"),)
    assert got.objects == ("man", "horse", "beach")


def test_copula_gives_attribute_or_place(tables):
    got = read("the dog is black", "DT NN VBZ JJ", "det nsubj ROOT acomp", [1, 2, 2, 2], tables)
    assert got.attributes == (("dog", "black"),)
    got = read(
        "the dog is in water",
        "DT NN VBZ IN NN",
        "det nsubj ROOT prep pobj",
        [1, 2, 2, 2, 3],
        tables,
    )
    assert got.relations == (("dog", "in", "water"),)


def test_on_top_of_is_one_relation(tables):
    got = read(
        "a cat sitting on top of a laptop",
        "DT NN VBG IN NN IN DT NN",
        "det ROOT acl prep pobj prep det pobj",
        [1, 1, 1, 2, 3, 4, 7, 5],
        tables,
    )
    assert got.relations == (("cat", "sit on top of", "laptop"),)


def test_quantity_becomes_an_attribute(tables):
    got = read("a pair of shoes", "DT NN IN NNS", "det ROOT prep pobj", [1, 1, 1, 2], tables)
    assert got.attributes == (("shoe", "a"),)
    assert not got.relations


def test_pronoun_stands_for_the_first_noun(tables):
    got = read(
        "woman is touching her ear",
        "NN VBZ VBG PRP$ NN",
        "nsubj aux ROOT poss dobj",
        [2, 2, 2, 4, 2],
        tables,
    )
    assert got.relations == (("woman", "touch", "ear"), ("woman", "have", "ear"))


def test_passive_agent_and_flat_compounds(tables):
    got = read(
        "a ball is kicked by a city street cleaner",
        "DT NN VBZ VBN IN DT NN NN NN",
        "det nsubjpass auxpass ROOT agent det compound compound pobj",
        [1, 3, 3, 3, 3, 8, 7, 8, 4],
        tables,
    )
    assert got.relations == (("cleaner", "kick", "ball"),)
    assert got.attributes == (("cleaner", "city"), ("cleaner", "street"))


def test_trees_of_corenlp_are_read_by_the_java_tools_rules(tables):
    parse = Parse(
        ("a", "bunch", "of", "plants", "next", "to", "stuffed", "bears"),
        ("DT", "NN", "IN", "NNS", "JJ", "TO", "VBN", "NNS"),
        ("det", "ROOT", "prep", "pobj", "amod", "prep", "amod", "pobj"),
        (1, 1, 1, 2, 1, 4, 7, 5),
    )
    got = scene(parse, Lemmas(tables), corenlp=True)
    assert got.relations == (("bunch", "next to", "bear"),)
    assert got.attributes == (("plant", "a"), ("bear", "stuff"))


def test_stanford_trees_become_rows():
    lines = ["1 dog _ NN NN _ 2 nsubj", "2 is _ VBZ VBZ _ 0 root", "3 big _ JJ JJ _ 2 acomp"]
    tree = caption_parser.from_stanford([line.split() for line in lines])
    assert tree == [
        ("dog", "NN", "nsubj", 1), ("is", "VBZ", "ROOT", 1), ("big", "JJ", "attr", 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "tag", "base"),
    [("riding", "VBG", "ride"), ("sitting", "VBG", "sit"), ("parked", "VBN", "park"),
     ("lying", "VBG", "lie"), ("worn", "VBN", "wear"), ("carries", "VBZ", "carry"),
     ("is", "VBZ", "be"), ("women", "NNS", "woman"), ("boxes", "NNS", "box"),
     ("scissors", "NNS", "scissors"), ("glass", "NN", "glass"), ("driving", "VBG", "drive"),
     ("playing", "VBG", "play"), ("skiing", "VBG", "ski"), ("walkinf", "VBG", "walkinf")],
)  # fmt: skip
def test_base_forms(tables, word, tag, base):
    assert Lemmas(tables)[word, tag] == base


# -- graphs ---------------------------------------------------------------------------------------


def graph(tables: WordTables, *scenes: Scene) -> SceneGraph:
    return SceneGraph.of(scenes, lambda w: tables.all_synsets(w.replace(" ", "_")))


def test_worked_example_of_the_docstring(tables):
    caption = graph(tables, Scene((), (("dog", "brown"),), ("dog",)))
    references = graph(
        tables, Scene((("dog", "run in", "park"),), (("dog", "big"),), ("dog", "park"))
    )
    assert (match(caption, references).count, len(caption), len(references)) == (1, 2, 4)


def test_synonyms_merge_and_match(tables):
    merged = graph(tables, Scene((), (), ("photo", "picture", "dog")))
    assert [sorted(c.words) for c in merged.objects] == [["photo", "picture"], ["dog"]]
    other = graph(tables, Scene((), (), ("photograph",)))
    assert match(other, merged).count == 1


def test_relation_needs_all_three_places(tables):
    caption = graph(tables, Scene((("man", "ride", "horse"),), (), ()))
    swapped = graph(tables, Scene((("horse", "ride", "man"),), (), ()))
    assert match(caption, swapped).count == 2  # the two objects only
    assert match(caption, caption).count == 3


def test_merged_colour_is_in_no_list():
    plain = score(["a gray cat"], [["a gray cat"]])[0]
    merged = score(["a gray cat"], [["a gray cat", "a grey cat"]])[0]
    assert plain[4] == 1.0
    assert np.isnan(merged[4])


# -- the metric -----------------------------------------------------------------------------------


def test_identity_and_order_of_references():
    refs = ["a man riding a brown horse", "two dogs on a beach", "a picture of a photo"]
    one = score(["a man rides a horse on the beach"], [refs])
    two = score(["a man rides a horse on the beach"], [refs[::-1] + refs[:1]])
    np.testing.assert_array_equal(one, two)
    assert score([refs[0]], [[refs[0]]])[0, 0] == 1.0


def test_parts_are_nan_where_undefined_and_left_out_of_the_mean():
    spice = Spice()
    stats = spice.stats(CaptionSet.build(["a red car", "a car"], [["a red car"], ["a car"]]), None)
    values = spice.scores(stats.rows)
    assert values[0, 4] == 1.0
    assert np.isnan(values[1, 4])
    assert spice.aggregate(stats.rows)[4] == 1.0
    assert spice.corpus(stats.rows.sum(0), np.float64(2))[0] == values[:, 0].mean()


BAD = [
    "",
    "   ",
    "...",
    "?! , ;",
    "🐕🐕",
    "犬が走る",
    "Собака бежит по снегу",
    "of of of of",
    "the",
]


@pytest.mark.parametrize("text", [*BAD, "dog in a " * 250])
def test_bad_input_has_a_value(text):
    values = score([text, "a dog"], [["a dog on a beach"], [text]])
    assert np.isfinite(values[:, 0]).all()
    assert ((values[:, 0] >= 0) & (values[:, 0] <= 1)).all()


def test_empty_sides_score_zero():
    assert score([""], [[""]])[0, 0] == 0.0
    assert score(["a dog"], [[""]])[0, 0] == 0.0
    assert score([""], [["a dog"]])[0, 0] == 0.0


def test_long_captions_are_cut_and_counted():
    stats = Spice().stats(CaptionSet.build(["dog " * 600], [["a dog"]]), None)
    assert stats.notes["sentences cut to 512 words"] == 1


WORDS = "a the dog red two men on riding with it is of horse and , . !"
words = st.sampled_from(WORDS.split())


@given(st.lists(words, max_size=12), st.lists(words, min_size=1, max_size=12))
def test_any_word_salad_has_a_score(caption, reference):
    values = score([" ".join(caption)], [[" ".join(reference)]])
    assert 0.0 <= values[0, 0] <= 1.0


def test_signature_names_parser_and_tables():
    said = Spice().signature("5", None)
    used = reader("default", None)
    assert used.parser.version in said
    assert used.tables.fingerprint in said


def test_explanation_lists_and_draws_what_matched():
    sample = Sample("1", "a brown dog on a beach with <b>", ("a dog runs on the beach",))
    told = Spice().explain(sample, None)
    assert "caption, matched: dog, beach" in told.text
    drawing = ET.fromstring(draw(told))
    assert drawing.tag.endswith("svg")
    listed = {tuple(t["tuple"]): t["matched"] for t in told.data["caption"]}
    assert listed["dog",] is True
    assert listed["dog", "brown"] is False


def test_spider_is_the_mean_of_its_parts():
    samples = CaptionSet.build(
        ["a dog on a beach", "two cats"],
        [["a brown dog runs on the beach"], ["two black cats sleep"]],
        images=["1", "2"],
    )
    spider, cider = Spider(), CiderD()
    context = spider.prepare(samples)
    got = spider.stats(samples, context).rows[:, 0]
    want = (
        Spice().stats(samples, None).rows[:, 0]
        + cider.stats(samples, cider.prepare(samples)).rows[:, 0]
    ) / 2
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    assert "parser:" in spider.signature("1", context)
    assert "df:corpus" in spider.signature("1", context)


# -- parser and cache -----------------------------------------------------------------------------


def test_missing_things_name_their_remedy(monkeypatch):
    with pytest.raises(MissingAsset, match="en_core_web_md"):
        scene_parser.SceneParser("no_such_parser")
    with pytest.raises(MissingAsset, match="nothing found at"):
        score(["a dog"], [["a dog"]], tables="no/such/folder")
    monkeypatch.setattr(scene_parser, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="spice"):
        scene_parser.SceneParser("default")


def test_several_processes_parse_alike(monkeypatch, tmp_path):
    texts = [f"a dog number {i} runs on the beach with {i} men" for i in range(40)]
    with settings.use(cache_dir=tmp_path / "one", threads=1):
        alone = scene_parser.SceneParser("default").parse(texts)
    monkeypatch.setattr(scene_parser, "_WORTH_A_PROCESS", 10)
    with settings.use(cache_dir=tmp_path / "two", threads=2):
        shared_work = scene_parser.SceneParser("default").parse(texts)
    assert alone == shared_work


def test_known_sentences_are_not_parsed_again(monkeypatch, tmp_path):
    with settings.use(cache_dir=tmp_path):
        first = scene_parser.SceneParser("default").parse(["a cat on a mat"])
        monkeypatch.setattr(scene_parser, "encode_all", _refuse)
        assert scene_parser.SceneParser("default").parse(["a cat on a mat"]) == first


def _refuse(*_: object) -> None:
    raise RuntimeError("parsed again")


def test_cache_forgets_the_oldest_and_survives_damage(tmp_path):
    cache = ParseCache(tmp_path / "p.sqlite", limit=3)
    for i in range(5):
        cache.put([(f"text {i}", str(i))])
    assert cache.get([f"text {i}" for i in range(5)]) == {f"text {i}": str(i) for i in (2, 3, 4)}
    broken = tmp_path / "q.sqlite"
    broken.write_bytes(b"this is no database" * 100)
    cache = ParseCache(broken)
    assert cache.get(["a"]) == {}
    cache.put([("a", "1")])
    assert cache.get(["a"]) == {"a": "1"}


def test_a_damaged_cache_is_closed_whatever_it_raises(monkeypatch, tmp_path):
    """Names of tables that are no UTF-8 raise UnicodeDecodeError, which is no error of sqlite."""
    still_open: set[int] = set()

    class Watched(sqlite3.Connection):
        def close(self) -> None:
            super().close()
            still_open.discard(id(self))

    def connect(*args, **kwargs):
        made = real(*args, factory=Watched, **kwargs)
        still_open.add(id(made))
        return made

    path = tmp_path / "p.sqlite"
    ParseCache(path).put([("a dog", "DT NN")])
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA journal_mode=DELETE")
    damaged = path.read_bytes().replace(b"CREATE TABLE parse", b"CREATE TABLX p\xffrse")
    path.write_bytes(damaged.replace(b"tableparseparse", b"tablep\xffrsep\xffrse"))
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    assert ParseCache(path).get(["a dog"]) == {}
    assert not still_open
    assert path.with_suffix(".damaged").exists()


def test_cache_takes_writers_from_several_processes(tmp_path):
    code = (
        "import sys; from pathlib import Path; from captious.text.parse_cache import ParseCache\n"
        "c = ParseCache(Path(sys.argv[1]))\n"
        "for i in range(30): c.put([(f'{sys.argv[2]} {i}', sys.argv[2]), (f'both {i}', 'same')])"
    )
    path = tmp_path / "p.sqlite"

    def write(name: str) -> None:
        subprocess.run([sys.executable, "-c", code, str(path), name], check=True)

    threads = [threading.Thread(target=write, args=(n,)) for n in ("x", "y", "z")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wanted = [f"{n} {i}" for n in ("x", "y", "z", "both") for i in range(30)]
    assert len(ParseCache(path).get(wanted)) == 120


# -- agreement with the Java tool -----------------------------------------------------------------


@pytest.fixture(scope="module")
def harness():
    spec = importlib.util.spec_from_file_location(
        "spice_agreement", ROOT / "benchmarks" / "spice_agreement.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tuples_of_golden_parses(harness, shared):
    golden = harness.golden_parses(shared)[1::4]
    ours = harness.our_tuples(Spice(), [t for t, _ in golden])
    assert harness.f1(ours, [g for _, g in golden]) > 0.70


@pytest.mark.full
def test_scores_of_the_java_tool(harness, shared):
    data = harness.coco(Spice(), shared)
    found = harness.agreement(data["ours"], data["java"])
    assert found["pearson"] >= 0.88
    assert found["spearman"] >= 0.88
    assert found["mae"] <= 0.037
    assert abs(found["mean_ours"] - found["mean_java"]) <= 0.012
    first = data["system"] == "Up-Down"
    ours, java = (data[k][first].mean() - data[k][~first].mean() for k in ("ours", "java"))
    assert abs(ours - java) < 0.01


@pytest.mark.full
def test_agreement_with_people(harness, shared):
    assert harness.flickr8k(Spice(), shared) >= 0.445
