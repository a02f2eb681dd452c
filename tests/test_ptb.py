"""PTB tokens: the goldens of the Java tool, the two ways to them, and texts made to hurt."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.errors import MissingExtra, UsageError
from captious.text import _munch, ptb, tokenizers

FOLDER = Path(__file__).parent / "golden" / "ptb"
GOLDEN = json.loads((FOLDER / "strings.json").read_text("utf-8"))


@pytest.mark.parametrize("item", GOLDEN["items"], ids=lambda item: item["input"][:40])
def test_scored_tokens_of_the_java_tool(item):
    assert ptb.tokenize(item["input"]) == item["coco"].split()


def test_raw_tokens_of_the_java_tool():
    """Scanned as one text, because the tool looks into the next line."""
    tokens, _ = ptb.scan("\n".join(item["input"] for item in GOLDEN["items"]))
    lines = " ".join(tokens).lower().split("\n")
    assert [line.strip(" ") for line in lines] == [item["ptb"] for item in GOLDEN["items"]]


def test_flickr8k_as_the_toolkit_tokenised_it(shared):
    import pyarrow.parquet as pq

    path = shared / "golden" / "classic" / "flickr8k_expert.parquet"
    table = pq.read_table(path, columns=["cand", "cand_tok", "refs", "refs_tok"]).to_pydict()
    pairs = set(zip(table["cand"], table["cand_tok"], strict=True))
    for texts, answers in zip(table["refs"], table["refs_tok"], strict=True):
        pairs |= set(zip(texts, answers, strict=True))
    assert len(pairs) > 4900
    assert [text for text, answer in pairs if ptb.tokenize(text) != answer.split()] == []


def test_made_up_strings_as_the_java_tool_has_them():
    """All but those with a Greek capital sigma, whose lower case the two languages define apart."""
    pairs = json.loads((FOLDER / "made_up.json").read_text("utf-8"))
    chosen = [(text, answer) for text, answer in pairs if "\u03a3" not in text]
    assert len(chosen) > 700
    wrong = [
        (text, answer, ptb.raw_tokenize(text))
        for text, answer in chosen
        if trimmed(ptb.raw_tokenize(text)) != trimmed(answer.split(" ") if answer else [])
    ]
    assert wrong == []


def trimmed(tokens: list[str]) -> list[str]:
    """Without the dot doubled behind a final abbreviation: it depends on the next line."""
    return tokens[:-1] if len(tokens) > 1 and tokens[-1] == "." == tokens[-2][-1:] else tokens


# Answers of the Java tool too, with a line "b" behind each.
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", ""),
        ("   ", ""),
        ("There is a hydrant I. The street", "there is a hydrant i . the street"),
        ("the U.S. The man", "the u.s. . the man"),
        ("c++ and C# code", "c++ and c# code"),
        ("call 555-1234 now", "call 555-1234 now"),
        ("photo.jpg and a.b", "photo.jpg and a.b"),
        ("'TIS the season", "'t is the season"),
        ("he CANNOT go", "he can not go"),
        ("<b>bold</b> 5 < 6", "<b> bold </b> 5 < 6"),
        ("......", "... ."),
        ("\U0001f600 smile", "smile"),
        ("\u2018em\u2019 O\u2019Neil\u2019s", "` em ' o\u2019neil 's"),
        ("Q&amp;A &lt;b&gt; caf&eacute;", "q&a < b > caf&eacute;"),
        ("co\u00adop \u00ad", "coop -"),
        ("x \u00a25 \u20ac9 \u00bd", "x cents 5 $ 9 1/2"),
        ("(555) 555-1234", "-lrb-555-rrb-\u00a0555-1234"),
        ("No. 5 and no. x", "no. 5 and no . x"),
        ("Pty. Ltd. of St. John", "pty. ltd. of st. john"),
        ("f(x) [y] {z} :)", "f -lrb- x -rrb- -lsb- y -rsb- -lcb- z -rcb- :-rrb-"),
    ],
)
def test_single_rules(text, answer):
    assert ptb.raw_tokenize(text) == (answer.split(" ") if answer else [])


def test_mixed_fraction_is_one_raw_token_and_two_scored_ones():
    assert ptb.raw_tokenize("2 1/2 men") == ["2\u00a01/2", "men"]
    assert ptb.tokenize("2 1/2 men") == ["2", "1/2", "men"]


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\u2028", "\u2029"])
def test_line_separators_only_separate(separator):
    assert ptb.tokenize(f"a man{separator}a dog") == ["a", "man", "a", "dog"]
    assert ptb.raw_tokenize(f"{separator}a man{separator}") == ["a", "man"]


def test_next_line_of_latin1_is_an_ellipsis():
    """U+0085 is the ellipsis of Windows text: the original reads it so."""
    assert ptb.raw_tokenize("a man\x85a dog") == ["a", "man", "...", "a", "dog"]


_BITS = """\
a A man's dogs' isn't U.S. Mr. no. No. etc. I. The 2 1/2 555 1234 (555) -- ... . .. ? !? , " ' `
'90s '90 cannot gonna y'all rock'n'roll $5 £ € ½ &amp; &lt; <b > <a b="c http://a.b/c x@y.z @me #tag
:) ^_^ e.g. café 中文 \u00a0 \u00ad \u2019 \u201c \u2014 \u2026 \t \r 😀 co. ltd. ltd pty. Ltd. p.m.
photo.jpg test.com Inc. &nbsp; 10:30 1,000 c++ 3-4 black-and-white w/o / \\ _ * = + % ~"""
BITS = st.sampled_from(["", *_BITS.replace("\n", " ").split(" ")])
TEXTS = st.one_of(
    st.lists(BITS, max_size=8).map(" ".join), st.lists(BITS, max_size=8).map("".join), st.text()
)


@given(TEXTS)
def test_tables_agree_with_the_scanner(text):
    assert ptb.tokenize(text) == ptb._scored.scanned(text)
    assert ptb.raw_tokenize(text) == ptb._raw.scanned(text)


@given(TEXTS, TEXTS)
def test_settled_means_settled(text, more):
    """Where the scanner says that nothing behind a text matters, nothing does."""
    tokens, settled = ptb.scan(text, " ")
    if settled:
        assert tokens == ptb.scan(text, " " + more)[0]


def test_tables_agree_with_the_scanner_on_captions(shared):
    import pyarrow.parquet as pq

    path = shared / "data" / "coco" / "val2014_captions.parquet"
    captions = pq.read_table(path).column("captions").combine_chunks().flatten().to_pylist()
    chosen = captions[::50]
    assert [c for c in chosen if ptb.tokenize(c) != ptb._scored.scanned(c)] == []


def test_a_space_takes_the_odd_spaces_behind_it_along():
    """At the start of a caption a no-break space may begin a web address, after a space not."""
    assert ptb.raw_tokenize("two \u00a0test.com") == ["two", "test.com"]
    assert ptb.raw_tokenize("\u00a0test.com") == ["\u00a0test.com"]
    assert ptb.tokenize("\u00a0test.com") == ["test.com"]


def test_tables_stay_small(monkeypatch):
    monkeypatch.setattr(ptb, "_TABLE_SIZE", 10)
    fresh = ptb._Tokenizer(ptb._finish_scored)
    for number in range(100):
        assert fresh.tokens(f"x{number} y{number}") == [f"x{number}", f"y{number}"]
    assert len(fresh._inner) <= 10
    assert len(fresh._last) <= 10


@given(TEXTS)
def test_scored_tokens_are_clean(text):
    tokens = ptb.tokenize(text)
    assert not ptb.PUNCTUATION.intersection(tokens)
    assert all(token.split() == [token] for token in tokens)


MILLION = 1_000_000
SLOWER = ["a,", "a.", "((", "1/", "http:", "<!-", "a\u00ad", '<a b="', "'"]


@pytest.mark.parametrize(
    "unit",
    ["word ", "<a ", "x@", ". ", "-", *(pytest.param(u, marks=pytest.mark.full) for u in SLOWER)],
)
def test_a_million_characters(unit):
    """Each of these makes a naive scanner read to the end of the text again for every token."""
    text = unit * (MILLION // len(unit))
    assert isinstance(ptb.tokenize(text), list)


@pytest.mark.parametrize("unit", ["a,", "<a ", '<a b="', "<!-", "x@", "http:", "1/", "(("])
def test_work_grows_with_the_length_only(unit, monkeypatch):
    """Counts steps of the automaton: twice the text, about twice the steps."""

    def steps(length: int) -> int:
        class Counted(list):
            read = 0

            def __getitem__(self, at):
                Counted.read += 1
                return super().__getitem__(at)

        real = _munch.Machine.kinds
        monkeypatch.setattr(_munch.Machine, "kinds", lambda m, text: Counted(real(m, text)))
        ptb.scan(unit * length)
        monkeypatch.setattr(_munch.Machine, "kinds", real)
        return Counted.read

    assert steps(8000) < 2.5 * steps(4000)


# --- the machine itself ---


WORDS = st.text("ab.", max_size=12)


@given(WORDS)
def test_longest_match_is_what_re_finds_by_trying_all(text):
    """Against re, with every pattern tried at every length."""
    patterns = [
        (_munch.some("a"), "a+"),
        (_munch.seq("a", _munch.maybe("b"), "."), r"ab?\."),
        (_munch.times(_munch.alt("ab", "ba"), 2, 3), "(ab|ba){2,3}"),
        (_munch.seq(_munch.many(_munch.one("ab")), "."), r"[ab]*\."),
    ]
    machine = _munch.Machine([ours for ours, _ in patterns])
    kinds = machine.kinds(text)
    for start in range(len(text)):
        found = [
            (end, -number)
            for end in range(start + 1, len(text) + 1)
            for number, (_, theirs) in enumerate(patterns)
            if re.fullmatch(theirs, text[start:end], re.IGNORECASE)
        ]
        rule, end, _ = machine.longest(kinds, start, set())
        assert (end, -rule) == max(found) if found else rule == -1


def test_character_sets():
    vowels = _munch.one("aeiou-")
    assert "a" in vowels
    assert "-" in vowels
    assert "b" not in vowels
    assert "b" in ~vowels
    assert "a" not in (_munch.one("a-z") - vowels)
    assert "\u00e9" in _munch.table("00C0-00FF 0100")
    assert "\U0010ffff" in ~vowels


# --- the table of tokenisers ---


def test_tokenizers_by_name():
    assert tokenizers.get("ptb")("A man's dog.") == ["a", "man", "'s", "dog"]
    assert tokenizers.get("plain")("A man's dog.") == ["a", "man's", "dog."]
    assert tokenizers.get("13a")("A man's dog, 1.5 m.") == "a man's dog , 1.5 m .".split()
    assert tokenizers.get("none")("A man 's dog") == ["A", "man", "'s", "dog"]
    assert tokenizers.get("ptb").signature == ptb.SIGNATURE == "ptb-3.4.1"
    signatures = [tokenizers.get(name).signature for name in tokenizers.names()]
    assert len(set(signatures)) == len(signatures)


def test_tokenizers_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    zh = tokenizers.get("zh")
    assert zh("一只 Dog 跑。") == ["一", "只", "dog", "跑", "。"]
    assert zh.signature == f"sacrebleu-zh-{sacrebleu.__version__}-lc"
    assert tokenizers.get("intl")("Ein Hund, läuft!") == ["ein", "hund", ",", "läuft", "!"]
    if "ja-mecab" not in tokenizers.names():
        with pytest.raises(MissingExtra, match="languages"):
            tokenizers.get("ja-mecab")


@pytest.mark.parametrize(
    ("name", "signature", "text", "words"),
    [
        ("ja-mecab", r"sacrebleu-ja-mecab-[\d.]+-IPA-.*-lc", "犬が BUS の上を走っている。",
         "犬 が bus の 上 を 走っ て いる 。"),
        ("ko-mecab", r"sacrebleu-ko-mecab-[\d.]+/ko-[\d.]+-KO-.*-lc", "개 한 마리가 달리고 있다.",
         "개 한 마리 가 달리 고 있 다 ."),
    ],
)  # fmt: skip
def test_japanese_and_korean(name, signature, text, words):
    """MeCab cuts them; its dictionary is in the signature; threads get the same words."""
    if name not in tokenizers.names():
        pytest.skip("captious[languages] is not installed")
    import captious

    tokenizer = tokenizers.get(name)
    assert tokenizer(text) == words.split()
    assert re.fullmatch(signature, tokenizer.signature)
    with ThreadPoolExecutor(4) as pool:
        assert all(cut == words.split() for cut in pool.map(tokenizer, [text] * 200))
    metrics = [f"{m}(tokenizer={name})" for m in ("bleu", "rouge_l")]
    table = captious.score([text], [[text, "x"]], metrics=metrics, intervals=False)
    assert table["bleu_4"][0] == pytest.approx(1.0)
    assert tokenizer.signature in table.signatures["rouge_l"]


def test_chinese_captions_are_scored_by_character():
    import captious

    metric = "cider_d(tokenizer=zh,df=corpus)"
    references = [["一只狗在草地上跑"], ["一辆红色的公交车"]]
    table = captious.score(
        ["一只狗在跑", "一辆公交车"], references, metrics=["bleu(tokenizer=zh)", metric]
    )
    assert (table["bleu_1"] > 0.3).all()
    assert "tokenizer:sacrebleu-zh-" in table.signatures["cider_d"]


def test_unknown_tokenizer_is_told_apart():
    with pytest.raises(UsageError, match="Did you mean 'ptb'"):
        tokenizers.get("pbt")


@given(TEXTS)
def test_13a_is_that_of_sacrebleu(text):
    theirs = pytest.importorskip("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()
    assert tokenizers.get("13a")(text) == theirs(text.lower().rstrip()).split()
