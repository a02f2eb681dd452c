"""BERTScore: equal to the values that transformers gives, and independent of batches."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from captious import settings
from captious.errors import InputError, MissingAsset, UsageError
from captious.metrics.bertscore import BertScore
from captious.models import embedding_cache, piece_idf, text_encoder
from captious.models.embedding_cache import EmbeddingCache
from captious.report.pictures import draw
from captious.types import CaptionSet, Sample

pytest.importorskip("torch")
pytest.importorskip("transformers")

if BertScore().missing():
    pytest.skip("the MiniLM package is not installed", allow_module_level=True)

REFERENCES = [
    ["a man rides a horse on the beach", "a person on a brown horse by the sea"],
    ["two dogs play in the snow", "a pair of dogs run through deep snow", "dogs"],
    ["a red bus drives down the street"],
    ["a very long sentence about a black cat that sleeps on an old green sofa near a window"],
]
CAPTIONS = ["a man on a horse", "dogs in the snow", "a red bus drives down the street", "cat"]


@pytest.fixture(scope="module")
def made() -> CaptionSet:
    return CaptionSet.build(CAPTIONS, REFERENCES)


@pytest.fixture
def fresh():
    """An encoder that remembers nothing."""
    encoder = text_encoder.load("minilm")
    encoder.forget()
    return encoder


@pytest.fixture(scope="session")
def expert(shared):
    pandas = pytest.importorskip("pandas")
    return pandas.read_parquet(shared / "golden/classic/flickr8k_expert.parquet")


def build(frame) -> CaptionSet:
    return CaptionSet.build(list(frame.cand), [list(r) for r in frame.refs])


def check_golden(frame, layer, pool):
    rows = BertScore(layer=layer, pool=pool, profile="release").stats(build(frame), None).rows
    for k, part in enumerate("PRF"):
        golden = frame[f"bertscore_minilm_L{layer}_{part}_{pool}"]
        if part != "F":
            np.testing.assert_allclose(rows[:, k], golden, rtol=0, atol=2e-6)
        else:
            # 2PR/(P + R) has a pole at P = -R; cosines of layer 6 can be negative, and a caption
            # near the pole magnifies the last bits of P and R (one in 900 rows, by 2e-4).
            far = np.abs(rows[:, k] - golden) > 1e-5
            assert far.mean() <= 0.002, f"{far.sum()} of {len(far)} F values differ"


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("layer", [5, 6])
def test_golden(expert, layer, pool):
    check_golden(expert.iloc[::197], layer, pool)


@pytest.mark.full
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("layer", [5, 6])
def test_golden_all(expert, layer, pool):
    check_golden(expert, layer, pool)


def test_by_hand(made, fresh):
    """P and R of one pair from the definition, one sentence per pass of the plain model."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(fresh.path).eval()

    def states(text):
        with torch.no_grad():
            out = model(torch.tensor([fresh.tokenize([text])[0][0]]), output_hidden_states=True)
        v = out.hidden_states[5][0].double()
        return v / v.norm(dim=1, keepdim=True)

    a, b = states("a man on a horse"), states(REFERENCES[0][0])
    cosine = a @ b.T
    p = cosine.max(1).values[1:-1].mean().item()  # [CLS] and [SEP] are targets, not counted
    r = cosine.max(0).values[1:-1].mean().item()
    one = CaptionSet.build(["a man on a horse"], [[REFERENCES[0][0]]])
    found = BertScore(layer=5).stats(one, None).rows[0]
    np.testing.assert_allclose(found, [p, r, 2 * p * r / (p + r)], atol=1e-6)


def test_batch_and_order_do_not_matter(made, fresh, monkeypatch):
    metric = BertScore(idf="references")
    context = metric.prepare(made)
    whole = metric.stats(made, context).rows
    for budget in (1, 40, 100000):
        monkeypatch.setitem(text_encoder._BATCH_TOKENS, "cpu", budget)
        fresh._store.clear()
        order = np.array([2, 0, 3, 1])
        rows = metric.stats(made.take(order), context).rows
        np.testing.assert_allclose(rows, whole[order], rtol=0, atol=1e-5)


def test_each_sentence_is_encoded_once(made, fresh, monkeypatch):
    seen = []
    compute = fresh._compute
    monkeypatch.setattr(fresh, "_compute", lambda p, some: seen.extend(some) or compute(p, some))
    BertScore(layer=4).stats(made, None)
    assert len(seen) == len(made.pool)
    twice = made.take([0, 0, 1, 2, 3, 3])
    BertScore(layer=4, pool="mean").stats(twice, None)
    assert len(seen) == len(made.pool)


def test_layers_share_one_pass(fresh, monkeypatch):
    passes = []
    forward = fresh._forward
    monkeypatch.setattr(fresh, "_forward", lambda *a: passes.append(1) or forward(*a))
    monkeypatch.setattr(fresh, "_wanted", {3, 6})
    deep = fresh.encode(["a dog runs"], 6).vectors
    shallow = fresh.encode(["a dog runs"], 3).vectors
    assert len(passes) == 1
    assert not np.allclose(deep, shallow)


def test_memory_is_bounded(fresh, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_EMBEDDING_MEMORY", "0.0004")
    texts = [f"a dog number {i} runs" for i in range(60)]
    first = fresh.encode(texts, 2).vectors.clone()
    kept = fresh._store._entries
    assert 0 < fresh._store.size <= 300_000
    assert sum(v.nbytes for v in kept.values()) == fresh._store.size
    assert (2, texts[0]) in kept  # what came first is found when the next metric starts
    np.testing.assert_allclose(fresh.encode(texts, 2).vectors, first, atol=1e-5)
    monkeypatch.setenv("CAPTIOUS_EMBEDDING_MEMORY", "lots")
    with pytest.raises(UsageError, match="CAPTIOUS_EMBEDDING_MEMORY='lots'"):
        embedding_cache.memory_bytes()


def test_scores_do_not_depend_on_the_memory(made, fresh, monkeypatch):
    from captious.metrics._matching import token_blocks

    metric = BertScore(idf="references")
    context = metric.prepare(made)
    want = metric.stats(made, context).rows
    monkeypatch.setenv("CAPTIOUS_EMBEDDING_MEMORY", "0.00001")
    monkeypatch.setattr(token_blocks, "_LEAST_CHARACTERS", 30)
    fresh._store.clear()
    assert len(list(token_blocks.blocks(made, fresh, 6))) > 1
    np.testing.assert_allclose(metric.stats(made, context).rows, want, rtol=0, atol=1e-5)


def test_memory_lets_go_of_an_earlier_run(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("CAPTIOUS_EMBEDDING_MEMORY", "0.000001")
    store, one = embedding_cache.Kept(), torch.zeros(1, 30)  # 120 bytes: six fit into 750
    for k in range(18):
        store.put((1, f"old {k}"), one)
    assert store.get((1, "old 5")) is not None
    assert store.get((1, "old 6")) is None
    for k in range(13):  # 1,560 bytes without a hit
        store.put((1, f"new {k}"), one)
    assert store.get((1, "old 5")) is None
    assert store.get((1, "new 12")) is not None
    assert store.size <= 750


def test_packed_sentences_equal_the_models_own_forward(fresh, tiny_roberta, monkeypatch):
    """The padding piece inside a text has a position of its own in RoBERTa."""
    texts = [*CAPTIONS, *(r for refs in REFERENCES for r in refs), "", "<pad> a dog <pad>"]
    for encoder in (fresh, text_encoder.load(tiny_roberta)):
        sentences = sorted(encoder.tokenize(texts)[0], key=len)
        layers = list(range(encoder.layers + 1))
        assert encoder._packed is not None
        packed = encoder._forward(sentences, layers)
        with monkeypatch.context() as only:
            only.setattr(encoder, "_packed", None)
            padded = encoder._forward(sentences, layers)
        assert list(packed) == layers
        for layer in layers:
            np.testing.assert_allclose(packed[layer], padded[layer], rtol=0, atol=3e-6)


def test_repeated_texts_are_given_twice(fresh):
    twice = fresh.encode(["a dog", "a cat sleeps", "a dog"], 3)
    once = fresh.encode(["a dog", "a cat sleeps"], 3)
    assert twice.offsets.tolist() == [0, 4, 9, 13]
    np.testing.assert_array_equal(twice.vectors[9:], once.vectors[:4])
    np.testing.assert_array_equal(twice.pieces[9:], once.pieces[:4])


def test_idf_weights(made, fresh):
    metric = BertScore(idf="references")
    context = metric.prepare(made)
    assert context.documents == sum(map(len, REFERENCES))
    piece = {p: i for i, p in enumerate(fresh.vocabulary)}
    weights = context.weights()
    n = context.documents
    assert weights[piece["horse"]] == pytest.approx(np.log((n + 1) / 3))
    assert weights[piece["zebra"]] == pytest.approx(np.log(n + 1))
    assert weights[piece["[CLS]"]] == 0
    plain = BertScore().stats(made, None).rows
    assert np.abs(metric.stats(made, context).rows - plain).max() > 0.005
    assert f"idf:references(n={n})" in metric.signature("1..3", context)


def test_idf_counts_an_image_once():
    """More systems, or rows split over shards, leave the weights as they are."""
    metric = BertScore(idf="references")
    rows = [
        Sample(f"{s}{i}", c, tuple(r), f"image{i}", s)
        for s in ("x", "y") for i, (c, r) in enumerate(zip(CAPTIONS, REFERENCES, strict=True))
    ]  # fmt: skip
    one = metric.prepare(CaptionSet.of(rows[:4]))
    both = metric.prepare(CaptionSet.of(rows))
    a, b = metric.prepare(CaptionSet.of(rows[:5])), metric.prepare(CaptionSet.of(rows[3:]))
    for other in (both, metric.merge(a, b), metric.merge(b, a)):
        assert other.documents == one.documents
        np.testing.assert_array_equal(other.frequency, one.frequency)


def test_frozen_idf_table(made, fresh, tmp_path):
    path = tmp_path / "table.json"
    assert piece_idf.save([r for refs in REFERENCES for r in refs], fresh, path) == 7
    metric = BertScore(idf=str(path))
    run = BertScore(idf="references")
    alone = made.take([0])
    frozen = metric.stats(alone, metric.prepare(alone)).rows[0]
    np.testing.assert_allclose(frozen, run.stats(made, run.prepare(made)).rows[0], atol=1e-5)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"vocabulary": "another"}))
    with pytest.raises(UsageError, match="another vocabulary"):
        metric.prepare(made)
    path.write_text("[]")
    with pytest.raises(InputError, match="not an idf table"):
        metric.prepare(made)
    with pytest.raises(InputError, match="neither"):
        BertScore(idf="nowhere.json").prepare(made)


def test_rescaling(made, tmp_path):
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"layers": [{"layer": 5, "p": 0.2, "r": 0.3, "f": 0.25}]}))
    raw = BertScore(layer=5).stats(made, None).rows
    metric = BertScore(layer=5, baseline=str(path))
    want = (raw - [0.2, 0.3, 0.25]) / (1 - np.array([0.2, 0.3, 0.25]))
    np.testing.assert_allclose(metric.stats(made, None).rows, want, atol=1e-5)
    assert "baseline:b(" in metric.signature("1", None)
    with pytest.raises(UsageError, match="no layer 4"):
        BertScore(layer=4, baseline=str(path)).stats(made, None)
    known = BertScore(layer=5, baseline="known").stats(made, None).rows
    assert (known[3] < raw[3]).all()
    folder = str(text_encoder.locate("minilm"))
    with pytest.raises(UsageError, match="captious calibrate"):
        BertScore(model=folder, layer=1, baseline="known").stats(made, None)


def test_edges(made):
    given = CaptionSet.build(
        ["", "   ", "a dog", "a dog", "a dog"], [["a dog"], ["a dog"], [""], ["a dog"], []]
    )
    stats = BertScore().stats(given, None)
    np.testing.assert_array_equal(stats.rows[:3], 0.0)
    np.testing.assert_allclose(stats.rows[3], 1.0, atol=1e-6)
    assert (stats.rows <= 1.0)[:4].all()
    assert np.isnan(stats.rows[4]).all()
    assert stats.reasons == {4: "no reference"}


def test_pole_of_f_is_remarked(monkeypatch):
    """P = .014, R = -.0145 give F = .98: the number of bert-score, with a remark."""
    from captious.metrics import bertscore

    p, r = 0.01409, -0.01429
    wild = np.array([[p, r, 2 * p * r / (p + r)]])
    monkeypatch.setattr(bertscore, "score_pairs", lambda *a: wild)
    stats = BertScore().stats(CaptionSet.build(["a dog"], [["a cat"]]), None)
    assert stats.rows[0, 2] > 1
    assert list(stats.notes.values()) == [1]
    monkeypatch.undo()
    stats = BertScore().stats(CaptionSet.build(["a dog"], [["a dog runs"]]), None)
    assert stats.notes == {}


def test_long_captions_are_cut_and_counted(fresh):
    long = CaptionSet.build(["dog " * 700, "a dog"], [["a dog runs"]] * 2)
    stats = BertScore(layer=1).stats(long, None)
    assert stats.notes == {"captions or references cut to 512 tokens": 1}
    assert np.isfinite(stats.rows).all()
    pieces, cut = fresh.tokenize(["dog " * 700, "dog " * 510])
    assert [len(p) for p in pieces] == [512, 512]
    assert cut.tolist() == [True, False]
    assert pieces[0][-1] == pieces[1][-1]  # the closing mark stays


def test_wrong_names(fresh):
    with pytest.raises(UsageError, match=r"choose 0 .* to 6"):
        BertScore(layer=7).stats(CaptionSet.build(["a"], [["a"]]), None)
    with pytest.raises(UsageError, match="pool"):
        BertScore(pool="median")
    with pytest.raises(UsageError, match="dtype"):
        text_encoder.load("minilm", "float8")
    with pytest.raises(MissingAsset, match=r"--download.*model='FOLDER'"):
        text_encoder.load("nobody/no-such-model")
    found = BertScore(model="nobody/no-such-model").missing()
    assert len(found) == 1


def test_unknown_model_needs_a_layer(tmp_path, fresh):
    """A folder works as an encoder; what is not known of it has to be said."""
    with pytest.raises(UsageError, match="layer=N"):
        BertScore(model=str(fresh.path)).stats(CaptionSet.build(["a"], [["a"]]), None)
    named = BertScore(model=str(fresh.path), layer=5)
    one = CaptionSet.build(["a cat"], [["a dog"]])
    np.testing.assert_array_equal(
        named.stats(one, None).rows, BertScore(layer=5).stats(one, None).rows
    )
    assert f"weights:{fresh.weights_sha}" in named.signature("1", None)


def test_half_precision_is_near(made):
    full = BertScore().stats(made, None).rows
    half = BertScore(dtype="bfloat16").stats(made, None).rows
    assert 0 < np.abs(full - half).max() < 0.02


def test_explanation(made):
    found = BertScore().explain(made[0], None)
    assert len(found.data["cosine"]) == len(found.data["reference_pieces"])
    assert len(found.data["cosine"][0]) == len(found.data["caption_pieces"])
    assert found.data["caption_weights"][0] == 0  # [CLS]
    assert found.data["reference"] in REFERENCES[0]
    json.dumps(found.data)
    assert draw(found) is not None
    assert draw(found).count("<rect") > len(found.data["cosine"])


# -- other tokenisers: tiny models with random weights ----------------------------------------


@pytest.fixture
def tiny_roberta(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    words = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", "a", "d", "o", "g", "Ġa", "Ġd", "og", "Ġdog"]
    bpe = models.BPE(
        {w: i for i, w in enumerate(words)},
        [("Ġ", "a"), ("Ġ", "d"), ("o", "g"), ("Ġd", "og")],
        unk_token="<unk>",
    )
    raw = Tokenizer(bpe)
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        unk_token="<unk>", cls_token="<s>", sep_token="</s>",
    )  # fmt: skip
    fast.save_pretrained(tmp_path)
    config = RobertaConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=22, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    return str(tmp_path)


def test_roberta_like(tiny_roberta):
    encoder = text_encoder.load(tiny_roberta)
    assert encoder.layers == 3
    assert encoder.limit == 20  # two of the 22 positions are never used
    assert [encoder.words[i] for i in (5, 9, 11, 12)] == ["", "a", "", "dog"]
    given = CaptionSet.build(["a dog", "dog " * 50], [["dog", "a"], ["a dog"]])
    stats = BertScore(model=tiny_roberta, layer=2).stats(given, None)
    assert np.isfinite(stats.rows).all()
    assert list(stats.notes.values()) == [1]


def test_what_stands_beside_the_weights_is_signed(tiny_roberta, tmp_path):
    """The same weights with another activation: other vectors, another signature and cache."""
    other = tmp_path / "other" / Path(tiny_roberta).name
    shutil.copytree(tiny_roberta, other, ignore=shutil.ignore_patterns("other"))
    facts = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(facts | {"hidden_act": "relu"}))
    given = CaptionSet.build(["a dog"], [["dog dog"]])
    metrics = [BertScore(model=str(place), layer=2) for place in (tiny_roberta, other)]
    assert not np.array_equal(*(metric.stats(given, None).rows for metric in metrics))
    encoders = [text_encoder.load(metric.model) for metric in metrics]
    assert encoders[0].weights_sha == encoders[1].weights_sha
    assert encoders[0].identity != encoders[1].identity
    parts = [set(m.signature("1", None).split("|")) - {f"model:{m.model}"} for m in metrics]
    assert parts[0] != parts[1]
    assert "settings:" not in BertScore().signature("1", None)  # the name says it


# -- the cache on disk --------------------------------------------------------------------------


def test_disk_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPTIOUS_EMBEDDING_CACHE", "0.001")
    with settings.use(cache_dir=tmp_path):
        path = text_encoder.locate("minilm")
        first = text_encoder.TextEncoder("minilm", path, "float32", "cpu")
        before = first.encode(["a dog", "a cat sleeps"], 3)
        again = text_encoder.TextEncoder("minilm", path, "float32", "cpu")
        monkeypatch.setattr(again, "_forward", None)  # a call would fail
        after = again.encode(["a cat sleeps", "a dog"], 3)
    np.testing.assert_array_equal(after.vectors[:5], before.vectors[4:])
    np.testing.assert_array_equal(after.pieces[5:], before.pieces[:4])
    assert first._disk is not None
    assert again._disk is not None
    first._disk.close()
    again._disk.close()


def test_disk_cache_is_bounded(tmp_path):
    cache = EmbeddingCache(tmp_path / "c.sqlite", 3 * 4 * 8 * 4)
    entries = {
        EmbeddingCache.key("e", 1, str(i)): (np.arange(4, dtype=np.int32), np.full((4, 8), i, "f"))
        for i in range(5)
    }
    keys = list(entries)
    for key in keys[:3]:
        cache.put([(key, entries[key])])
    assert set(cache.get(keys)) == set(keys[:3])
    cache.get(keys[:1])  # the first was used last
    cache.put([(keys[3], entries[keys[3]])])
    kept = cache.get(keys)
    assert keys[0] in kept
    assert keys[3] in kept
    assert len(kept) == 3
    assert cache.size() <= cache.max_bytes
    np.testing.assert_array_equal(kept[keys[3]][1], entries[keys[3]][1])
    cache.close()


def test_disk_cache_setting(monkeypatch):
    monkeypatch.setenv("CAPTIOUS_EMBEDDING_CACHE", "much")
    with pytest.raises(UsageError, match="gigabytes"):
        embedding_cache.configured()
    monkeypatch.delenv("CAPTIOUS_EMBEDDING_CACHE")
    assert embedding_cache.configured() is None


# -- captious calibrate -------------------------------------------------------------------------


def test_calibrate(tmp_path, capsys):
    from captious.cli import main

    texts = tmp_path / "texts.txt"
    nouns = ["dog", "cat", "horse", "bus", "man", "woman", "child", "bird", "boat", "tree"]
    verbs = ["runs", "sleeps", "stands", "jumps", "waits", "falls", "eats", "hides", "rests"]
    verbs.append("turns")
    texts.write_text("\n".join(f"the {n} {v}" for n in nouns for v in verbs))
    out, idf = tmp_path / "base.json", tmp_path / "idf.json"
    code = main(["calibrate", "minilm", "--texts", str(texts), "--pairs", "150", "--out", str(out),
                 "--idf", str(idf)])  # fmt: skip
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("layer")
    made = json.loads(out.read_text())
    assert [r["layer"] for r in made["layers"]] == list(range(7))
    assert all(0 < r["r"] < 1 for r in made["layers"])
    one = CaptionSet.build(["the dog runs"], [["the cat sleeps"]])
    BertScore(baseline=str(out), idf=str(idf)).stats(one, None)
    texts.write_text("one\ntwo\n")
    assert main(["calibrate", "minilm", "--texts", str(texts)]) == 3


def test_f_stays_in_its_range_where_signs_differ(made, monkeypatch):
    """P .3 and R -.29 give -17.4 by the formula; the clean profile says 0."""
    import torch

    from captious.metrics import bertscore
    from captious.metrics._matching.token_blocks import Block
    from captious.models.text_encoder import Encoded

    vectors = torch.nn.functional.normalize(
        torch.tensor([[1.0, 0.0], [0.3, 0.954], [-0.94, 0.34]]), dim=1
    )
    encoded = Encoded(
        vectors, np.zeros(3, np.int32), np.array([0, 1, 3]), np.zeros(2, bool), prefix=0, suffix=0
    )
    block = Block(np.arange(1), np.arange(1), [], encoded)
    pair = np.array([0]), np.array([1])
    clean = bertscore.score_pairs(block, *pair, np.ones(1), "cpu")[0]
    raw = bertscore.score_pairs(block, *pair, np.ones(1), "cpu", raw_f=True)[0]
    assert clean[0] > 0 > clean[1]
    assert clean[2] == 0
    assert abs(raw[2]) > 0.5
    with pytest.raises(UsageError, match="profile"):
        BertScore(profile="paper")
