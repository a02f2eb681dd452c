"""BERT-TBR and its unigram variant: equal to the released scorers, right by hand."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.stats import kendalltau

from captious.errors import UsageError
from captious.metrics._matching import tbr_kernel
from captious.metrics.bert_tbr import PARTS, PROFILES, BertTbr
from captious.metrics.bertscore import BertScore
from captious.metrics.unigram_tbr import UnigramTbr
from captious.models import text_encoder
from captious.report.pictures import draw
from captious.text.stopwords_tbr import TBR
from captious.types import CaptionSet, Sample

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

needs_minilm = pytest.mark.skipif(
    bool(BertTbr().missing()), reason="the MiniLM package is not installed"
)

REFERENCES = [
    ["a man rides a horse on the beach", "a person on a brown horse by the sea", "a rider"],
    ["two dogs play in the snow", "a pair of dogs run through deep snow"],
    ["a red bus drives down the street"],
    ["a black cat sleeps on an old green sofa near a window", "the cat", "a couch", "cat nap"],
]
CAPTIONS = ["a man on a horse by the water", "dogs in the snow", "a bus", "a cat on the couch"]


@pytest.fixture(scope="module")
def made() -> CaptionSet:
    return CaptionSet.build(CAPTIONS, REFERENCES)


@pytest.fixture(scope="session")
def expert(shared):
    pandas = pytest.importorskip("pandas")
    return pandas.read_parquet(shared / "golden/classic/flickr8k_expert.parquet")


def score(metric, samples):
    return metric.stats(samples, metric.prepare(samples)).rows[:, 0]


# -- against the release -----------------------------------------------------------------------


@needs_minilm
def test_release_golden(shared):
    golden = json.loads((shared / "golden/bert_tbr/flickr8k_minilm.json").read_text())
    items = golden["items"]
    samples = CaptionSet.build([i["candidate"] for i in items], [i["references"] for i in items])
    metric = BertTbr(
        profile="release", layer=golden["hidden_state_index"], threshold=golden["threshold"]
    )
    found = score(metric, samples)
    np.testing.assert_allclose(found, [i["release_score"] for i in items], rtol=0, atol=2e-6)


def test_unigram_golden(expert):
    samples = CaptionSet.build(list(expert.cand), [list(r) for r in expert.refs])
    found = score(UnigramTbr(), samples)
    np.testing.assert_allclose(found, expert.unigram_tbr_raw, rtol=0, atol=1e-12)
    rows = ~expert.in_refs.to_numpy()
    tau = kendalltau(found[rows], expert["mean"][rows]).statistic
    assert tau == pytest.approx(0.4708, abs=5e-5)
    found = score(UnigramTbr(tokenizer="ptb"), samples)
    np.testing.assert_allclose(found, expert.unigram_tbr_ptb, rtol=0, atol=1e-12)


def test_stop_list(shared):
    file = shared / "golden/bert_tbr/stop_word_list.txt"
    assert frozenset(file.read_text().split("\n")) - {""} == TBR
    assert len(TBR) == 1186


def test_release_slips():
    """One-hot vectors, as the spec describes: base b1 b2, another reference with l1 l2.

    The base's closing mark is scored as l1, the other reference's opening mark as l2; the vectors
    of l1 and l2 themselves are never used.
    """
    #          CLS b1 b2 SEP | CLS l1 l2 SEP
    vectors = torch.eye(8)[None]
    owner = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])
    content = torch.tensor([[0, 1, 1, 0, 0, 1, 1, 0]]).bool()
    refs = tbr_kernel.References(vectors, owner, content, 2)
    taken = tbr_kernel.combine(refs, 0.4, "marks")
    assert taken[0, 0].nonzero().ravel().tolist() == [1, 2, 5, 6]
    rows = tbr_kernel.release_rows(refs, taken)[0, 0]
    assert rows[[1, 2, 5, 6]].tolist() == [1, 2, 3, 4]


# -- the parts, by hand -------------------------------------------------------------------------


def make_refs(cosines_of: dict[str, list[float]], refs: list[list[str]]) -> tbr_kernel.References:
    names = [w for r in refs for w in r]
    vectors = torch.tensor([cosines_of[w] for w in names], dtype=torch.float32)
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    owner = torch.tensor([k for k, r in enumerate(refs) for _ in r])
    return tbr_kernel.References(
        vectors[None], owner[None], torch.ones(1, len(names), dtype=bool), len(refs)
    )


def test_combination_grows():
    """Likeness is not transitive: x ~ y and y ~ z, but not x ~ z.

    Base x; y matches it and is left out; z is compared with what was collected (x): it is added.
    The release compares z with all of the earlier references, finds y, and leaves z out.
    """
    angle = np.radians([0, 50, 100])
    space = {n: [np.cos(a), np.sin(a)] for n, a in zip("xyz", angle, strict=True)}
    refs = make_refs(space, [["x"], ["y"], ["z"]])
    grown = tbr_kernel.combine(refs, 0.5, "grow")[0]
    assert grown.int().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    marked = tbr_kernel.combine(refs, 0.5, "marks")[0]
    assert marked.int().tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
    assert tbr_kernel.combine(refs, 0.5, "cat")[0].int().tolist() == [[1, 1, 1]]
    assert tbr_kernel.combine(refs, 0.5, "none")[0].int().tolist() == np.eye(3).tolist()


def test_factors_by_hand():
    """The worked example of the module's docstring."""
    #                  a    puppy
    cosine = torch.tensor([[[1.0, 0.1], [0.2, 0.8], [0.3, 0.39]]])  # a, dog, runs
    found = {}
    for denominator in ("all", "matched"):
        found[denominator] = tbr_kernel.factors(
            cosine, torch.ones(1, 1, 3, dtype=bool), None, torch.tensor([[0.0, 1.0, 2.0]]),
            torch.tensor([[True, False, False]]), torch.ones(1, 2, dtype=bool),
            torch.tensor([[True, False]]), 0.4, denominator,
        )  # fmt: skip
    assert found["all"].combined.item() == pytest.approx(0.8)
    assert found["all"].removed.item() == pytest.approx(0.4)
    assert found["matched"].removed.item() == pytest.approx(0.8)


def test_cut_is_strict():
    cosine = torch.tensor([[[0.5], [0.6]]])
    ones = torch.ones(1, 1, 2, dtype=bool)
    none = torch.zeros(1, 2, dtype=bool)
    factors = tbr_kernel.factors(
        cosine, ones, None, torch.ones(1, 2), none, torch.ones(1, 1, dtype=bool),
        torch.zeros(1, 1, dtype=bool), 0.5, "all",
    )  # fmt: skip
    assert factors.combined.item() == pytest.approx(0.6)
    assert factors.removed.item() == pytest.approx(0.3)


def slow_clean(encoder, caption, references, weights, layer, beta):
    """The default profile written as loops over words, straight from the formulas."""

    def read(text):
        e = encoder.encode([text], layer)
        return [
            (int(p), v.double().numpy()) for p, v in
            zip(e.pieces[1:-1], e.vectors[1:-1], strict=True)
        ]  # fmt: skip

    def best(x, others):
        top = max((float(x[1] @ y[1]) for y in others), default=0.0)
        return top if top > beta else 0.0

    stop = {i for i, w in enumerate(encoder.words) if w in TBR}
    cand, refs = read(caption), [read(r) for r in references]
    scores = []
    for k in range(len(refs)):
        combined = list(refs[k])
        for j, other in enumerate(refs):
            if j != k:
                combined += [t for t in other if best(t, combined) == 0.0]
        s = [best(t, cand) for t in combined]
        below = sum(weights[t[0]] for t, v in zip(combined, s, strict=True) if v > 0)
        above = sum(weights[t[0]] * v for t, v in zip(combined, s, strict=True))
        content = [t for t in combined if t[0] not in stop]
        cand_content = [t for t in cand if t[0] not in stop]
        removed = sum(best(t, cand_content) for t in content) / max(1, len(content))
        scores.append(above / below * removed if below > 0 else 0.0)
    return float(np.mean(scores))


@needs_minilm
def test_clean_equals_loops(made):
    encoder = text_encoder.load("minilm")
    metric = BertTbr(layer=4, threshold=0.5)
    context = metric.prepare(made)
    found = metric.stats(made, context).rows[:, 0]
    weights = context.weights()
    for i, value in enumerate(found):
        want = slow_clean(encoder, CAPTIONS[i], REFERENCES[i], weights, 4, 0.5)
        assert value == pytest.approx(want, abs=1e-6)


# -- profiles, switches, contract -----------------------------------------------------------------


@needs_minilm
def test_ablation_parts(made):
    values = {p: score(BertTbr(parts=p, layer=4, threshold=0.5), made) for p in PARTS}
    for a in values:
        for b in values:
            if a < b:
                assert np.abs(values[a] - values[b]).max() > 1e-4, (a, b)
    recall = BertScore(layer=4, idf="references")
    golden = recall.stats(made, recall.prepare(made)).rows[:, 1]
    # BS is BERTScore's recall, but without [CLS] and [SEP] as targets.
    assert np.abs(values["BS"] - golden).max() < 0.05
    # One reference: there is nothing to combine.
    assert values["TBR"][2] == pytest.approx(values["TR"][2])
    assert values["TBR"][2] == pytest.approx(values["TcatR"][2])


@needs_minilm
def test_paper_profile_draws_one_base(made):
    drawn = {s: score(BertTbr(profile="paper", layer=4, threshold=0.5, seed=s), made)
             for s in range(6)}  # fmt: skip
    assert len({round(float(v[0]), 9) for v in drawn.values()}) > 1
    assert len({round(float(v[2]), 9) for v in drawn.values()}) == 1
    one = BertTbr(profile="paper", layer=4, threshold=0.5)
    context = one.prepare(made)
    alone = [one.stats(made[i : i + 1], context).rows[0, 0] for i in range(4)]
    np.testing.assert_allclose(alone, one.stats(made, context).rows[:, 0], atol=1e-6)


@needs_minilm
@pytest.mark.parametrize("profile", list(PROFILES))
def test_batches_order_and_shards(made, profile, monkeypatch):
    from captious.metrics._matching import token_blocks

    metric = BertTbr(profile=profile)
    rows = [Sample(str(i), s.caption, s.references, f"im{i}") for i, s in enumerate(made)]
    whole = CaptionSet.of(rows)
    context = metric.prepare(whole)
    want = metric.stats(whole, context).rows
    order = np.array([3, 1, 2, 0])
    monkeypatch.setattr(token_blocks, "_BATCH_PIECES", 1)
    monkeypatch.setattr(token_blocks, "BLOCK_TEXTS", 1)
    text_encoder.load("minilm")._store.clear()
    monkeypatch.setitem(text_encoder._BATCH_TOKENS, "cpu", 30)
    moved = metric.stats(whole.take(order), context).rows
    np.testing.assert_allclose(moved, want[order], atol=1e-5)
    parts = [metric.prepare(CaptionSet.of(rows[:3])), metric.prepare(CaptionSet.of(rows[2:]))]
    for merged in (metric.merge(*parts), metric.merge(*parts[::-1])):
        np.testing.assert_allclose(metric.stats(whole, merged).rows, want, atol=1e-5)


@needs_minilm
@pytest.mark.parametrize("profile", list(PROFILES))
def test_edges(profile):
    given = CaptionSet.build(
        ["", "the of and", "a dog runs", "a dog runs", "a dog runs", "a dog"],
        [["a dog runs", "cats"], ["a dog"], ["the of", "and"], ["", "  "], ["", "a dog runs"], []],
    )
    metric = BertTbr(profile=profile)
    stats = metric.stats(given, metric.prepare(given))
    np.testing.assert_array_equal(stats.rows[:4, 0], 0.0)
    assert stats.rows[4, 0] > 0
    assert np.isnan(stats.rows[5, 0])
    assert stats.reasons == {5: "no reference"}
    if profile != "release":  # the empty reference is passed over
        context = metric.prepare(given)
        single = CaptionSet.build(["a dog runs"], [["a dog runs"]])
        assert stats.rows[4, 0] == pytest.approx(metric.stats(single, context).rows[0, 0])


@needs_minilm
def test_one_document_has_no_idf():
    one = CaptionSet.build(["a dog"], [["a dog runs"]])
    metric = BertTbr()
    stats = metric.stats(one, metric.prepare(one))
    assert stats.rows[0, 0] > 0
    assert list(stats.notes.values()) == [1]
    assert "weigh the same" in next(iter(stats.notes))
    off = BertTbr(idf="off")
    assert off.stats(one, off.prepare(one)).rows[0, 0] == pytest.approx(stats.rows[0, 0])
    release = BertTbr(profile="release", idf="references")
    assert release.stats(one, release.prepare(one)).rows[0, 0] == 0.0


@needs_minilm
def test_long_captions_are_counted():
    long = CaptionSet.build(["dog " * 700, "a dog"], [["a dog runs"], ["a cat"]])
    metric = BertTbr()
    stats = metric.stats(long, metric.prepare(long))
    assert stats.notes == {"captions or references cut to 512 tokens": 1}


@needs_minilm
def test_parameters_are_checked_and_signed(made, tmp_path):
    for wrong in ({"profile": "papr"}, {"parts": "XYZ"}, {"pool": "sum"}):
        with pytest.raises(UsageError, match="one of"):
            BertTbr(**wrong)
    words = tmp_path / "mine.txt"
    words.write_text("a\nthe\non\n")
    metric = BertTbr(stop_words=str(words), threshold=0.45)
    context = metric.prepare(made)
    text = metric.signature("1..4", context)
    assert "threshold:0.45" in text
    assert "stop_words:mine(" in text
    assert "idf:references(n=10)" in text
    assert "weights:53aa5117" in text
    assert np.abs(metric.stats(made, context).rows - BertTbr(threshold=0.45).stats(
        made, context).rows).max() > 1e-3  # fmt: skip


@needs_minilm
def test_threshold_of_unknown_model():
    folder = str(text_encoder.locate("minilm"))
    metric = BertTbr(model=folder, layer=4)
    one = CaptionSet.build(["a dog"], [["a cat"]])
    with pytest.raises(UsageError, match="captious calibrate"):
        metric.stats(one, metric.prepare(one))


@needs_minilm
@pytest.mark.parametrize("profile", list(PROFILES))
def test_explanation(made, profile):
    metric = BertTbr(profile=profile, layer=4, threshold=0.5)
    context = metric.prepare(made)
    found = metric.explain(made[0], context)
    data = found.data
    assert data["score"] == pytest.approx(metric.stats(made, context).rows[0, 0], abs=1e-6)
    assert np.array(data["cosine"]).shape == (len(data["pieces"]), len(data["caption"]))
    assert sum(p["adds"] for p in data["pieces"]) == pytest.approx(data["score"], abs=1e-6)
    assert data["pieces"][0]["reference"] == 0 or profile == "paper"
    assert {p["reference"] for p in data["pieces"]} > {0}  # something was added to the base
    kept = np.array(data["kept"])
    np.testing.assert_array_equal(kept, np.array(data["cosine"]) > 0.5)
    assert any(p["stop_word"] for p in data["pieces"])
    lines = found.text.splitlines()
    assert len(lines) <= 15  # a few lines, whatever the number of references
    told = [float(re.search(r"[+-]\d\.\d{4}(?= |$)", line)[0]) for line in lines[1:-1]]
    assert sum(told) == pytest.approx(data["score"], abs=1e-3)  # and they still add up
    json.dumps(data)
    assert draw(found) is not None
    assert draw(found).startswith("<svg")
    empty = metric.explain(Sample("x", "a dog", ("",)), context)
    assert empty.data["score"] == 0.0


# -- the unigram variant ---------------------------------------------------------------------------


def test_unigram_by_hand():
    given = CaptionSet.build(
        ["a dog on sand", "", "a dog", "a dog"],
        [["a dog runs", "the dog on grass"], ["a dog"], ["the of"], []],
    )
    stats = UnigramTbr().stats(given, None)
    assert stats.rows[:3, 0].tolist() == [pytest.approx(1 / 3), 0.0, 0.0]
    assert np.isnan(stats.rows[3, 0])
    assert stats.reasons == {3: "no reference"}
    found = UnigramTbr().explain(given[0], None)
    assert found.data["found"] == ["dog"]
    assert found.data["missed"] == ["grass", "runs"]


def test_unigram_minds_case():
    """As released: "The" and "Two" are not on the list."""
    given = CaptionSet.build(["The dog"], [["The cat"]])
    assert score(UnigramTbr(), given)[0] == 0.5
    assert score(UnigramTbr(tokenizer="ptb"), given)[0] == 0.0


# -- BS: the recall of BERTScore ---------------------------------------------------------------


def test_recall_counts_pieces_whose_best_cosine_is_not_positive():
    """Eq. 3's denominator would drop them: .8 instead of (1 * .8 - 2 * .3) / 3."""
    cosine = torch.tensor([[[0.8, -0.1], [-0.3, -0.4]]])
    args = (
        cosine,
        torch.ones(1, 1, 2, dtype=torch.bool),
        None,
        torch.tensor([[1.0, 2.0]]),
        torch.zeros(1, 2, dtype=torch.bool),
        torch.ones(1, 2, dtype=torch.bool),
        torch.zeros(1, 2, dtype=torch.bool),
    )
    plain = tbr_kernel.factors(*args, None, "all").combined
    assert plain.item() == pytest.approx((0.8 - 2 * 0.3) / 3)
    cut = tbr_kernel.factors(*args, 0.0, "all").combined
    assert cut.item() == pytest.approx(0.8)
    empty = (*args[:5], torch.zeros(1, 2, dtype=torch.bool), args[6])
    assert tbr_kernel.factors(*empty, None, "all").combined.item() == 0.0


@needs_minilm
@pytest.mark.parametrize("profile", PROFILES)
def test_bs_is_plain_recall_with_idf(made, profile):
    metric = BertTbr(profile=profile, parts="BS")
    context = metric.prepare(made)
    found = metric.stats(made, context).rows[:, 0]
    encoder = text_encoder.load("minilm", "float32")
    tables, _ = metric._tables(encoder, context, len(made))

    def pieces(text):
        one = encoder.encode([text], metric._layer())
        inside = ~one.marks
        return one.vectors[torch.from_numpy(inside)].double().numpy(), one.pieces[inside]

    for row, (caption, references) in enumerate(zip(CAPTIONS, REFERENCES, strict=True)):
        target, _ = pieces(caption)
        recalls = []
        for reference in references:
            vectors, ids = pieces(reference)
            weight = tables.weights[ids]
            recalls.append((weight * (vectors @ target.T).max(1)).sum() / weight.sum())
        assert found[row] == pytest.approx(max(recalls), abs=1e-6)


# -- cost ----------------------------------------------------------------------------------------


def _random_references(samples: int, count: int, pieces: int, width: int) -> tbr_kernel.References:
    draw = torch.Generator().manual_seed(count)
    vectors = torch.randn(samples, count * pieces, width, generator=draw)
    content = torch.rand(samples, count * pieces, generator=draw) < 0.9
    owner = torch.arange(count).repeat_interleave(pieces).repeat(samples, 1)
    return tbr_kernel.References(
        torch.nn.functional.normalize(vectors, dim=2), owner, content, count
    )


@pytest.mark.parametrize("how", ["grow", "marks"])
@pytest.mark.parametrize("threshold", [0.2, 0.6, 0.9])
@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_many_references_are_combined_like_few(how, threshold, count, monkeypatch):
    refs = _random_references(2, count, 5, 8)
    monkeypatch.setattr(tbr_kernel, "_FEW", 1000)
    few = tbr_kernel.combine(refs, threshold, how)
    monkeypatch.setattr(tbr_kernel, "_FEW", 0)
    assert torch.equal(tbr_kernel.combine(refs, threshold, how), few)


@pytest.mark.parametrize("how", ["grow", "marks"])
def test_hundreds_of_references_do_not_run_away(how, bounded):
    """The first version took minutes of processor time for this: its cost grew with M^4."""
    refs = _random_references(1, 400, 12, 64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other count as processor time
    try:
        tbr_kernel.combine(refs, 0.4, how)
    finally:
        torch.set_num_threads(threads)
