"""Compiled code gives the tokens, counts and values of the plain road."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captious.engine.run import run
from captious.text import gram_kernels, lcs, ptb, ptb_automaton, ptb_batch
from captious.types import CaptionSet

pytest.importorskip("numba", reason="numba is not installed")

ODD = [
    "",
    " ",
    "A man's hat (red), isn't it?",
    "It's 2 1/2 o'clock... \"wow\" he said.",
    "t.v. and U.S. and I. The end. etc.",
    "no. 2 candle, bottle.com a&amp;b gonna cannot",
    "line\nbreak\u2028other\tsep\u00a0nbsp",
    "caf\u00e9 \u00bd \u20ac5 \u201cquoted\u201d na\u00efve \u4e2d\u6587 \U0001f600 emoji",
    "(555) 123-4567 call 555-1234",
    "----- -- - ... . . .",
    "a" * 5000 + " " + "." * 300,
]


@pytest.fixture
def compiled(monkeypatch):
    """Use compiled code however little there is to do."""
    for kernels in (ptb_batch._kernels, gram_kernels._kernels, lcs._kernels):
        monkeypatch.setattr(kernels, "_left", -1)


def cut(texts: list[str]) -> list[list[str]]:
    ptb_batch._kernels._left = -1
    words, ids, offsets = ptb_batch.cut(pa.array(texts, pa.large_string()))
    return [[words[i] for i in ids[a:b]] for a, b in zip(offsets, offsets[1:], strict=False)]


@pytest.mark.full
def test_the_file_of_the_automaton_is_what_the_rules_say():
    made, held = ptb_automaton.build(), ptb_automaton.load()
    for field in fields(made):
        np.testing.assert_array_equal(getattr(made, field.name), getattr(held, field.name))


def test_tokens_of_odd_texts():
    assert cut(ODD) == [ptb.tokenize(text) for text in ODD]


@given(
    st.lists(
        st.text(alphabet=st.sampled_from("aB '.,-()1/2&;\u00e9\u2019\"\n tn's$#"), max_size=40)
    )
)
@settings(max_examples=200, deadline=None)
def test_tokens_of_any_text(texts):
    if texts:
        assert cut(texts) == [ptb.tokenize(text) for text in texts]


def test_tokens_of_captions(shared):
    table = pq.read_table(shared / "data/coco/val2014_captions.parquet").slice(0, 6000)
    texts = [text for listed in table["captions"].to_pylist() for text in listed]
    assert cut(texts) == [ptb.tokenize(text) for text in texts]


def test_both_roads_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(1)
    words = "a the dog cat man runs sits on red bus street park green ball small big".split()

    def text() -> str:
        return " ".join(rng.choice(words, rng.integers(0, 14)))

    captions = [text() for _ in range(400)] + [" ".join(words * 8)]
    references = [[text() for _ in range(rng.integers(1, 6))] for _ in range(400)]
    references.append([" ".join(words * 9), "a dog"])
    metrics = ["bleu", "rouge_l", "cider_d", "cider", "cider_d(df='coco-val')"]

    def values() -> dict[str, np.ndarray]:
        return run(CaptionSet.build(captions, references), metrics, resamples=0).values

    none = [ptb_batch._kernels, gram_kernels._kernels, lcs._kernels]
    for kernels in none:
        monkeypatch.setattr(kernels, "if_worth", lambda work: None)
    plain = values()
    monkeypatch.undo()
    for kernels in none:
        monkeypatch.setattr(kernels, "_left", -1)
    fast = values()
    for column in plain:
        np.testing.assert_array_equal(plain[column], fast[column])
