"""BLEU, ROUGE-L, CIDEr-D and CIDEr against the original toolkit's numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import captious
from captious.text import ngrams, ptb
from captious.types import CaptionSet, TextPool
from conftest import GOLDEN

EXACT = {"rtol": 0, "atol": 1e-9}


@pytest.fixture(scope="module")
def items(twelve):
    return [i["cand"] for i in twelve["items"]], [i["refs"] for i in twelve["items"]]


def test_twelve_bleu(items, twelve):
    table = captious.score(*items, metrics="bleu(tokenizer=none)", intervals=False)
    for n in range(4):
        assert table.corpus[f"bleu_{n + 1}"] == pytest.approx(twelve["bleu"]["corpus"][n], abs=1e-9)
        np.testing.assert_allclose(
            table[f"bleu_{n + 1}"], np.array(twelve["bleu"]["segment"])[n], **EXACT
        )


@pytest.mark.parametrize(
    ("column", "golden"), [("rouge_l", "rouge_l"), ("cider_d", "cider_d_corpus_idf")]
)
def test_twelve(items, twelve, column, golden):
    table = captious.score(*items, metrics=f"{column}(tokenizer=none)", intervals=False)
    np.testing.assert_allclose(table[column], twelve[golden]["segment"], **EXACT)
    assert table.corpus[column] == pytest.approx(twelve[golden]["corpus"], abs=1e-9)


def test_twelve_cider_r(items):
    """Item 5 is empty (NaN in the authors' code), item 10 has a hyphen (see the docstring)."""
    golden = json.loads((GOLDEN / "classic" / "cider_r.json").read_text())["cider_r"]
    found = captious.score(*items, metrics="cider_r", intervals=False)["cider_r"]
    kept = [at for at in range(12) if at not in (4, 9)]
    np.testing.assert_allclose(found[kept], [golden[at] for at in kept], **EXACT)
    assert golden[4] is None
    assert found[4] == 0
    assert found[9] == pytest.approx(golden[9], abs=0.06)
    assert abs(found[9] - golden[9]) > 1e-3
    release = captious.score(*items, metrics="cider_r(profile=release)", intervals=False)
    whole = [at for at in range(12) if at != 4]
    np.testing.assert_allclose(release["cider_r"][whole], [golden[at] for at in whole], **EXACT)
    assert np.isnan(release["cider_r"][4])
    assert "no word" in next(u.reason for u in release.unscored)


@pytest.fixture(scope="module")
def flickr(shared):
    import pyarrow.parquet as pq

    table = pq.read_table(shared / "golden" / "classic" / "flickr8k_expert.parquet")
    rows = {c: table[c].to_pylist() for c in ("id", "image", "cand", "refs", "in_refs")}
    samples = CaptionSet.build(
        rows["cand"], rows["refs"], ids=[str(i) for i in rows["id"]], images=rows["image"]
    )
    return table, samples, np.array(rows["in_refs"])


def test_flickr8k_from_raw_captions(flickr):
    """5,822 captions, tokenised by us, by image: every value equal to the toolkit's."""
    table, samples, _ = flickr
    got = captious.score(samples, metrics=["bleu", "rouge_l", "cider_d"], intervals=False)
    for column, golden in [
        ("bleu_1", "bleu1"),
        ("bleu_2", "bleu2"),
        ("bleu_3", "bleu3"),
        ("bleu_4", "bleu4"),
        ("rouge_l", "rouge_l"),
        ("cider_d", "cider_d"),
    ]:
        np.testing.assert_allclose(got[column], table[golden].to_numpy(), **EXACT, err_msg=column)


def test_flickr8k_documents_by_row(flickr):
    table, samples, in_refs = flickr
    got = captious.score(samples, metrics="cider_d(by=row)", intervals=False)
    np.testing.assert_allclose(got["cider_d"], table["cider_d_item5822"].to_numpy(), **EXACT)
    kept = samples.take(np.flatnonzero(~in_refs))
    got = captious.score(kept, metrics="cider_d(by=row)", intervals=False)
    want = table["cider_d_item5664"].to_numpy()[~in_refs]
    np.testing.assert_allclose(got["cider_d"], want, **EXACT)


def test_plain_cider_by_hand():
    """Against the definition, written out with dictionaries for three tiny items."""
    import math
    from collections import Counter

    refs = [["a b c", "a b"], ["b c d", "d"], ["a d", "c c d"]]
    caps = ["a b d", "d d c", "a c"]
    df: Counter = Counter()
    for several in refs:
        df.update({g for r in several for g in grams(r)})
    idf = {g: math.log(3) - math.log(max(1, n)) for g, n in df.items()}

    def vector(text, n):
        return {
            g: c * idf.get(g, math.log(3)) for g, c in Counter(grams(text)).items() if len(g) == n
        }

    want = []
    for cap, several in zip(caps, refs, strict=True):
        total = 0.0
        for n in range(1, 5):
            v = vector(cap, n)
            for r in several:
                w = vector(r, n)
                norm = math.dist(v.values(), [0] * len(v)) * math.dist(w.values(), [0] * len(w))
                dot = sum(x * w.get(g, 0.0) for g, x in v.items())
                total += dot / norm / len(several) if norm else 0.0
        want.append(10 * total / 4)
    got = captious.score(caps, refs, metrics="cider(tokenizer=none)", intervals=False)
    np.testing.assert_allclose(got["cider"], want, **EXACT)


def grams(text):
    words = text.split()
    return [tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1)]


def test_stemming_joins_forms():
    refs = [["dogs running fast outside"], ["a cat"]]
    plain = captious.score(["dog runs fast outside", "x"], refs, metrics="cider", intervals=False)
    stem = captious.score(
        ["dog runs fast outside", "x"], refs, metrics="cider(stem=True)", intervals=False
    )
    assert stem["cider"][0] > plain["cider"][0] + 1
    assert stem["cider"][0] == pytest.approx(10.0)


def test_one_image_is_an_error_not_a_zero():
    with pytest.raises(captious.CaptiousError, match="coco-val"):
        captious.score(["a dog"], [["a dog runs"]], metrics="cider_d")


def test_built_in_table_scores_one_caption():
    got = captious.score(
        ["a dog runs on the beach"],
        [["a dog is running on the beach"]],
        metrics="cider_d(df='coco-val')",
        intervals=False,
    )
    assert 1.0 < got.corpus["cider_d"] < 10.0
    assert "coco-val(40504," in got.signatures["cider_d"]


def test_long_texts_use_the_other_lcs():
    """Over 64 words the LCS takes another road; both must agree with dynamic programming."""
    from captious.text import lcs, tokens
    from captious.types import TextPool

    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(list("abcdef"), size)) for size in (5, 63, 64, 65, 90, 300)]
    table = tokens.table(TextPool(texts), "none")
    pairs = [(i, j) for i in range(6) for j in range(6)]
    a, b = (np.array(x, np.int32) for x in zip(*pairs, strict=True))
    want = [len(lcs.subsequence(texts[i].split(), texts[j].split())) for i, j in pairs]
    assert lcs.lengths(table, a, b).tolist() == want


# -- our own captions, scored by the original tools: what any machine can check -------------------


@pytest.fixture(scope="module")
def demo_golden():
    return json.loads((GOLDEN / "classic/demo.json").read_text())


def test_the_demo_as_the_original_tools_score_it(demo_golden):
    captions = [row["caption"] for row in demo_golden["rows"]]
    references = [row["references"] for row in demo_golden["rows"]]
    assert len(captions) == 210
    assert [" ".join(ptb.tokenize(c)) for c in captions] == demo_golden["tokens"]["captions"]
    table = captious.score(
        captions, references, metrics=["bleu", "rouge_l", "cider_d(by=row)"], intervals=False
    )
    for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider_d"):
        np.testing.assert_allclose(table[name], demo_golden["values"][name], **EXACT)
        assert table.corpus[name] == pytest.approx(demo_golden["corpus"][name], abs=1e-9)


def test_meteor_of_the_demo_as_the_jar_scores_it(demo_golden):
    pytest.importorskip("pycocoevalcap", reason="METEOR's tables come with the extra [meteor]")
    captions = [row["caption"] for row in demo_golden["rows"]]
    references = [row["references"] for row in demo_golden["rows"]]
    table = captious.score(captions, references, metrics="meteor", intervals=False)
    np.testing.assert_allclose(table["meteor"], demo_golden["values"]["meteor"], **EXACT)
    assert table.corpus["meteor"] == pytest.approx(demo_golden["corpus"]["meteor"], abs=1e-9)


@pytest.mark.parametrize("stem", [False, True])
def test_ngrams_of_a_text_are_named_as_in_the_table(stem):
    words = "two dogs running after two dogs".split()
    table = ngrams.table(TextPool([" ".join(words)]), "none", stem)
    for n in range(1, ngrams.ORDERS + 1):
        named = ngrams.named(words, n, stem)
        assert sorted(named) == table.grams[n - 1].tolist()
        assert all(len(text.split()) == n for text in named.values())
    assert ngrams.named(["dog"], 2, stem) == {}
