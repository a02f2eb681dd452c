"""Compiled code gives the tokens, counts and values of the plain road."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import captious
from captious.engine import scorer
from captious.engine.run import run
from captious.settings import use
from captious.text import gram_kernels, lcs, machine_code, ptb, ptb_automaton, ptb_batch
from captious.types import CaptionSet

pytest.importorskip("numba", reason="numba is not installed")

NOW = -(10**9)  # as if so much had been done that code is compiled even if none is kept

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
        monkeypatch.setattr(kernels, "_left", NOW)


def cut(texts: list[str]) -> list[list[str]]:
    ptb_batch._kernels._left = NOW
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
@hypothesis_settings(max_examples=200, deadline=None)
def test_tokens_of_any_text(texts):
    if texts:
        assert cut(texts) == [ptb.tokenize(text) for text in texts]


@given(st.lists(st.text(alphabet=" \t\n\x1c\u2003ab\u00e9\U0001f600", max_size=30), min_size=1))
@hypothesis_settings(max_examples=200, deadline=None)
def test_words_between_spaces_of_any_text(texts):
    ptb_batch._kernels._left = NOW
    words, ids, offsets = ptb_batch.cut(pa.array(texts, pa.large_string()), spaced=True)
    found = [[words[i] for i in ids[a:b]] for a, b in zip(offsets, offsets[1:], strict=False)]
    assert found == [text.split() for text in texts]


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
        monkeypatch.setattr(kernels, "_left", NOW)
    fast = values()
    for column in plain:
        np.testing.assert_array_equal(plain[column], fast[column])


def test_a_prepared_scorer_gives_the_same_bits_by_compiled_code(compiled, monkeypatch):
    rng = np.random.default_rng(3)
    words = "a the dog cat man's runs sits on red bus street park (green) ball, small big".split()
    captions = [" ".join(rng.choice(words, rng.integers(0, 30))) for _ in range(200)]
    references = [[" ".join(rng.choice(words, 9)) for _ in range(3)] for _ in range(200)]
    judge = captious.scorer(["bleu", "rouge_l", "cider_d", "cider"])
    fast = judge(captions, references).per_caption
    monkeypatch.setattr(scorer, "_BATCH", 10_000)
    for column, values in judge(captions, references).per_caption.items():
        np.testing.assert_array_equal(fast[column], values)


def test_after_a_space_only_spaces_can_follow_in_a_match():
    """Compiled code skips a space without asking the automaton."""
    automaton = ptb_automaton.load()
    state = automaton.steps[0, automaton.kinds[ord(" ")]]
    seen, waiting = {int(state)}, [int(state)]
    while waiting:
        at = waiting.pop()
        assert automaton.dropped[automaton.rules[at]]
        after = {int(target) for target in automaton.steps[at] if target >= 0} - seen
        seen |= after
        waiting += after
    gaps = {chr(c) for c in range(0x10000) if automaton.steps[state, automaton.kinds[c]] >= 0}
    assert gaps == set("\t \u00a0\u3000") | {chr(c) for c in range(0x2000, 0x200B)}


def test_threads_change_nothing(compiled):
    texts = [f"{ODD[i % len(ODD)]} number {i % 977} a man's {i % 13}th dog." for i in range(9000)]
    with use(threads=1):
        one = ptb_batch.cut(pa.array(texts, pa.large_string()))
    with use(threads=3):
        three = ptb_batch.cut(pa.array(texts, pa.large_string()))
    for found in (one, three):
        words, ids, offsets = found
        at = [[words[i] for i in ids[a:b]] for a, b in zip(offsets, offsets[1:], strict=False)]
        assert at == [ptb.tokenize(text) for text in texts]


def test_kept_machine_code_that_is_damaged_is_made_again(tmp_path, compiled):
    with use(cache_dir=tmp_path):
        made = machine_code.MachineCode(lcs.__dict__, ("_walked",), (), small=-1, unmade=-1)
        assert made.if_worth(1) is not None
        (kept,) = tmp_path.rglob("lcs-*")
        kept.write_bytes(kept.read_bytes()[:-7])
        again = machine_code.MachineCode(lcs.__dict__, ("_walked",), (), small=-1, unmade=-1)
        ids, bounds = np.array([1, 2, 3, 1, 3], np.int32), np.array([0, 3, 5])
        out = np.zeros(1, np.int64)
        zero, one = np.array([0], np.int32), np.array([1], np.int32)
        again.if_worth(1)._walked(ids, bounds, zero, one, 0, 1, out)
        assert out[0] == 2
        with pytest.raises(TypeError, match="int32"):
            again.if_worth(1)._walked(ids.astype(np.int64), bounds, zero, one, 0, 1, out)


def test_scoring_opens_no_pandas(tmp_path):
    """Arrow would import pandas where it is installed, which takes longer than a small run."""
    code = (
        "import sys, captious\n"
        "table = captious.score(['a dog', 'a cat'], [['one dog'], ['a cat sits']],"
        " metrics=['bleu', 'rouge_l', 'cider_d'])\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
