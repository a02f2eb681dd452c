"""Properties that every registered metric must have; a metric that is not covered fails here."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import replace
from functools import reduce
from importlib import import_module

import numpy as np
import pytest

import judge_stub
import tiny_models
from captious import registry, settings
from captious.engine import evidence
from captious.metrics.base import Metric, Need
from captious.report.pictures import draw
from captious.types import CaptionSet, Sample
from conftest import COMPANIONS

# One made-up set for all: repeated images, several systems, long and short captions.
_REFS = {
    "beach": (
        "a man rides a horse on the beach",
        "a person on a brown horse by the sea",
        "someone riding a horse along the shore",
    ),
    "snow": ("two dogs play in the snow", "a pair of dogs run through deep snow"),
    "bus": (
        "a red bus drives down the street",
        "a double decker bus on a busy road",
        "the red bus is full of people",
    ),
    "cat": ("a black cat sleeps on a sofa", "the cat is lying on the couch"),
    "food": ("a large plate with pasta and vegetables", "a dish of food on a wooden table"),
    "kids": ("three children play football in the park", "kids kicking a ball on the grass"),
}
_CAPTIONS = [
    ("beach", "a man riding a horse on the beach"),
    ("beach", "a dog on a sofa"),
    ("snow", "two dogs running in the snow"),
    ("snow", "dogs"),
    ("bus", "a red bus on the street"),
    ("bus", "a a a a bus bus"),
    ("cat", "a black cat sleeps on a sofa"),
    ("food", "a plate of food on the table"),
    ("kids", "children playing with a ball in a park on a sunny day"),
    ("kids", "a park"),
]
_OBJECTS = {
    "beach": ("person", "horse"),
    "snow": ("dog", "dog"),
    "bus": ("bus", "person"),
    "cat": ("cat", "sofa"),
    "food": ("bowl", "dining table"),
    "kids": ("person", "person", "sports ball"),
}

NAMES = registry.names()


def samples_for(metric: Metric, photographs: dict[str, str]) -> CaptionSet:
    images = {k: k for k in _REFS}
    if metric.needs & {Need.IMAGE_PIXELS, Need.IMAGE_REGIONS}:
        images = photographs
    samples = CaptionSet.of(
        Sample(f"{image}-{i}", text, _REFS[image], images[image], "", _OBJECTS[image])
        for i, (image, text) in enumerate(_CAPTIONS)
    )
    return evidence.complete(samples, [metric])


@pytest.fixture(scope="module")
def photographs() -> dict[str, str]:
    """Six of the demo photographs stand for the made-up images."""
    from captious.demo import photographs as found

    return dict(zip(_REFS, map(str, found()), strict=False))


def stand_in(name: str, folders: pytest.TempPathFactory) -> Metric | None:
    """A metric whose weights are on a hub only, with a small random model in their place."""
    if name == "judge":
        return registry.load(name)(endpoint=judge_stub.running(), model="stub")
    if name not in ("clipscore", "ref_clipscore", "pac_s", "ref_pac_s"):
        return None
    base = folders.getbasetemp() / "stand-in"
    if not base.exists():
        tiny_models.save_clip(base)
        tiny_models.save_state(base / "pac.pth", lora=True)
    weights = str(base / "pac.pth") if "pac" in name else ""
    return registry.load(name)(model=str(base), weights=weights)


@pytest.fixture(params=NAMES)
def case(request, photographs, tmp_path_factory):
    metric = stand_in(request.param, tmp_path_factory) or registry.load(request.param)()
    missing = metric.missing()
    if missing:
        pytest.skip(str(missing[0]))
    samples = samples_for(metric, photographs)
    return metric, samples, metric.prepare(samples)


def values(metric, samples, context) -> np.ndarray:
    return metric.scores(metric.stats(samples, context).rows)


def close(a, b) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5, equal_nan=True)


def is_neural(metric: Metric) -> bool:
    """Whether a network computes the score, or part of it."""
    return metric.learned or "torch" in metric.modules


def same(metric: Metric, a, b) -> None:
    """Classic metrics are equal to the last bit; networks round differently by batch."""
    if is_neural(metric):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6, equal_nan=True)
    else:
        np.testing.assert_array_equal(a, b)


def test_declares_itself(case):
    metric, samples, context = case
    assert metric.name in NAMES
    assert metric.columns
    assert all(c.low < c.high and c.meaning for c in metric.columns)
    assert (type(metric).__doc__ or "").strip()
    assert registry.create(registry.text_form(metric)) == metric
    text = metric.signature("3", context, samples.evidence)
    assert text.startswith(metric.name + "|")
    assert "captious:" in text
    assert "\n" not in text


def test_shape_and_range(case):
    metric, samples, context = case
    found = values(metric, samples, context)
    assert found.shape == (len(samples), len(metric.columns))
    for at, column in enumerate(metric.columns):
        inside = found[:, at][~np.isnan(found[:, at])]
        assert len(inside), f"{column.name} is undefined on ordinary captions"
        assert (inside >= column.low - 1e-9).all(), column.name
        assert (inside <= column.high + 1e-9).all(), column.name
    total = metric.aggregate(metric.stats(samples, context).rows)
    assert total.shape == (len(metric.columns),)
    assert np.isfinite(total[0])


def test_order_does_not_matter(case):
    metric, samples, context = case
    order = np.random.default_rng(0).permutation(len(samples))
    shuffled = values(metric, samples.take(order), context)
    same(metric, shuffled, values(metric, samples, context)[order])


def test_one_row_at_a_time(case):
    metric, samples, context = case
    single = [values(metric, samples[i : i + 1], context) for i in range(len(samples))]
    same(metric, np.concatenate(single), values(metric, samples, context))


def test_seven_shards(case):
    """Shards that are prepared apart, their contexts merged, give what the whole gives."""
    metric, samples, context = case
    parts = [samples.take(np.arange(len(samples))[k::7]) for k in range(7)]
    merged = reduce(metric.merge, [metric.prepare(part) for part in parts])
    whole = values(metric, samples, context)
    found = np.empty_like(whole)
    for k, part in enumerate(parts):
        found[k::7] = values(metric, part, merged)
    same(metric, found, whole)


def test_duplicates_do_not_matter(case):
    metric, samples, context = case
    twice = samples.take(np.repeat(np.arange(len(samples)), 2))
    same(metric, values(metric, twice, context)[::2], values(metric, samples, context))


def test_threads_do_not_matter(case):
    """Enough rows that metrics which share work among threads do so."""
    metric, samples, context = case
    many = samples.take(np.tile(np.arange(len(samples)), 1 if is_neural(metric) else 450))
    found = []
    for threads in (1, 2):
        with settings.use(threads=threads):
            found.append(values(metric, many, context))
    same(metric, *found)
    same(metric, found[0][: len(samples)], values(metric, samples, context))


def test_deterministic(case):
    metric, samples, context = case
    first = metric.stats(samples, context).rows
    again = metric.stats(CaptionSet.of(list(samples)), metric.prepare(samples)).rows
    same(metric, first, again)


def test_shards_merge(case):
    """Corpus facts of two shards that share images give the scores of the whole."""
    metric, samples, context = case
    rows = list(samples)
    left, right = CaptionSet.of(rows[::2]), CaptionSet.of(rows[1::2])
    parts = metric.prepare(left), metric.prepare(right)
    for merged in (metric.merge(*parts), metric.merge(*parts[::-1])):
        joined = np.empty((len(rows), metric.stats(samples, context).rows.shape[1]))
        joined[::2] = metric.stats(left, merged).rows
        joined[1::2] = metric.stats(right, merged).rows
        close(metric.scores(joined), values(metric, samples, context))
        close(metric.aggregate(joined), metric.aggregate(metric.stats(samples, context).rows))


def test_empty_caption(case):
    """An empty caption is a caption: its defined value, or NaN with a reason; never a crash."""
    metric, samples, context = case
    rows = list(samples)
    empty = CaptionSet.of([replace(rows[0], id="e", caption="")])
    stats = metric.stats(empty, context)
    value = metric.scores(stats.rows)[0, 0]
    if np.isnan(value):
        assert stats.reasons.get(0)
    elif not np.isnan(metric.empty):
        assert value == pytest.approx(metric.empty, abs=1e-6)


def test_identity(case):
    """A caption equal to its only reference gets the value that the metric declares."""
    metric, samples, context = case
    if metric.identity is None:
        pytest.skip(f"{metric.name} fixes no value for a caption equal to its reference")
    text = "a black cat sleeps on a sofa"
    row = list(samples)[6]
    same = CaptionSet.of([replace(row, id="i", caption=text, references=(text,))])
    assert values(metric, same, context)[0, 0] == pytest.approx(metric.identity, abs=1e-5)


def test_odd_text(case):
    """Emoji, right-to-left text, newlines, a word of 5,000 letters: a number or a reason."""
    metric, samples, context = case
    rows = list(samples)
    odd = [
        "\U0001f600 \U0001f600",
        "קצר מאוד",
        "a dog\nruns\r\nfast",
        "!!! ... ---",
        "x" * 5000,
        "the " * 600,
    ]
    given = CaptionSet.of(replace(rows[0], id=f"o{i}", caption=text) for i, text in enumerate(odd))
    stats = metric.stats(given, context)
    found = metric.scores(stats.rows)[:, 0]
    for i, value in enumerate(found):
        assert np.isfinite(value) or stats.reasons.get(i), odd[i][:20]


def test_corpus_from_sums(case):
    """The corpus value is a function of summed rows, whatever the grouping."""
    metric, samples, context = case
    rows = metric.stats(samples, context).rows
    rows = rows[~np.isnan(rows).any(axis=1)]
    parts = rows[:4].sum(axis=0) + rows[4:].sum(axis=0)
    close(metric.corpus(parts, np.float64(len(rows))), metric.aggregate(rows))
    stacked = metric.corpus(np.stack([parts, parts]), np.array([float(len(rows))] * 2))
    assert stacked.shape == (2, len(metric.columns))


def test_explains_a_caption_in_words_and_data(case):
    """Something to read, and data that a report can store, for a good caption and an empty one."""
    metric, samples, context = case
    told = metric.explain(samples[0], context)
    if metric.name in COMPANIONS:
        assert told.parts
        assert (draw(told) or "").startswith("<svg")
    assert told.text.strip()
    assert json.loads(json.dumps(told.data)) is not None
    assert metric.explain(replace(samples[0], id="e", caption=""), context).text.strip()


def test_every_metric_is_covered():
    """A metric class of the house that has a name is registered, and so stands in this suite."""
    for room in ("metrics", "learned"):
        package = import_module(f"captious.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            import_module(f"captious.{room}.{module.name}")
    todo, named = [Metric], set()
    while todo:
        todo += todo[0].__subclasses__()
        found = todo.pop(0)
        if found.name and found.__module__.startswith("captious."):
            named.add(found.name)
    assert named == set(NAMES) == set(registry.names())


@pytest.mark.parametrize("text", ["a " * 49_000, "x" * 99_000, "the red dog and a cat " * 4_000])
def test_the_longest_captions_are_scored(case, text, bounded):
    """Any caption that the loader accepts is scored, or refused with a reason."""
    metric, samples, _ = case
    if is_neural(metric):
        pytest.skip("networks cut texts to their length")
    text = text.strip()
    long = CaptionSet.of(
        [*samples, replace(samples[0], id="long", caption=text, references=(text[:-1], "a dog"))]
    )
    found = metric.stats(long, metric.prepare(long))
    assert np.isfinite(found.rows[-1]).any() or found.reasons[len(long) - 1]


def test_text_that_a_network_does_not_read_is_counted(case):
    """Two captions that differ in their last words only: other scores, or a remark."""
    metric, samples, _ = case
    if not is_neural(metric):
        pytest.skip("only networks cut texts to a length")
    begin = "a man rides a horse on the beach and " * 80
    ends = ("two dogs play in the deep snow", "a red bus drives down the street")
    long = CaptionSet.of(
        replace(samples[0], id=end, caption=begin + end, references=samples[0].references)
        for end in ends
    )
    found = metric.stats(long, metric.prepare(long))
    read = not np.array_equal(found.rows[0], found.rows[1], equal_nan=True)
    said = [count for text, count in found.notes.items() if "cut to" in text or "longer" in text]
    assert read or said == [2], found.notes
