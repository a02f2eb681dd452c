"""Metric specs and the registry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious import registry
from captious.errors import UsageError
from captious.spec import MetricSpec, parse, parse_many, split

_values = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
_names = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)


@given(_names, st.dictionaries(_names, _values, max_size=4))
def test_round_trip(name, parameters):
    spec = MetricSpec(name, tuple(parameters.items()))
    assert parse(str(spec)) == spec
    assert parse_many(f"{spec}, bleu, {spec}") == [spec, MetricSpec("bleu"), spec]


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text):
    try:
        parse_many(text)
    except UsageError as err:
        assert str(err)


def test_bare_words_are_text():
    assert parse("cider_d(df=coco-val)").parameters == (("df", "coco-val"),)
    assert parse("x(a=../b/c.npz)").parameters == (("a", "../b/c.npz"),)
    assert registry.create("cider(stem=true)").stem is True


@pytest.mark.parametrize(
    "text", ["", "a/b", "bleu(", "bleu(1)", "bleu(a=1,a=2)", "x(a=[1])", "f(a=b c)"]
)
def test_nonsense_is_refused(text):
    with pytest.raises(UsageError):
        parse_many(text)


def test_split_respects_brackets():
    assert split("a(b=1,c='x,y'),d") == ["a(b=1,c='x,y')", "d"]


def test_unknown_names_are_reported_together():
    with pytest.raises(UsageError) as err:
        registry.create_many("blue,cider_e,rouge_l(betta=1.0)")
    text = str(err.value)
    assert "'bleu'" in text
    assert "'cider_d'" in text
    assert "'beta'" in text


def test_wrong_type_is_refused():
    with pytest.raises(UsageError, match="takes float"):
        registry.create("rouge_l(beta=high)")
    assert registry.create("rouge_l(beta=2)").beta == 2.0


def test_a_column_stands_for_its_metric():
    [(metric, columns)] = registry.create_many("bleu_4,bleu_1")
    assert metric.name == "bleu"
    assert columns == ("bleu_1", "bleu_4")


def test_text_form_leaves_defaults_out():
    assert registry.text_form(registry.create("cider_d(sigma=6.0, df='coco-val')")) == (
        "cider_d(df='coco-val')"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bertscore(encoder=mpnet)", "bertscore(model='mpnet')"),
        ("spice(parser=sm)", "spice(model='sm')"),
        ("wmd(stop=none)", "wmd(stop_words='none')"),
        ("vilbertscore(weights=x, layer=1)", "vilbertscore(model='x', layer=1)"),
    ],
)
def test_old_names_of_parameters_are_understood(old, new, caplog):
    with caplog.at_level("INFO", logger="captious"):
        assert registry.text_form(registry.create(old)) == new
    assert "is now called" in caplog.text
