"""The gaming probe, the trainer's command line, and the models that are shipped."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from captious import assets, cli, registry
from captious.engine.run import run
from captious.errors import CaptiousError, InputError, UsageError
from captious.learned import model_file
from captious.meta import gaming
from captious.perturb import attacks
from captious.types import CaptionSet
from test_learned import HUMAN, MACHINE

CAPTION = "A brown dog runs in the snow."


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_attacks_spoil(attack):
    kit = attacks.Material.of(["a man rides a horse"] * 3 + ["two cats"])
    made = attacks.spoil(CAPTION, attack, np.random.default_rng(0), kit, 3)
    assert len(made) == len(set(made)) == 3
    assert all(m.lower() != "a brown dog runs in the snow" for m in made)
    words = set("a brown dog runs in the snow".split())
    if attack in ("repetition", "objects"):
        assert all(words <= set(m.lower().split()) for m in made[:1])
    if attack == "shuffle":
        assert all(sorted(m.lower().split()) == sorted("a brown dog runs in the snow".split())
                   for m in made)  # fmt: skip
    if attack == "frequent":
        assert set(made) <= set(kit.frequent)


def test_frequent_captions_come_from_the_set():
    kit = attacks.Material.of(["a man rides a horse", "A man rides a horse .", "two cats"])
    assert kit.frequent[0] == "a man rides a horse"
    assert "two cats" not in kit.frequent


def test_nothing_to_spoil():
    rng = np.random.default_rng(0)
    assert attacks.spoil("...", "shuffle", rng, attacks.Material()) == []
    assert attacks.spoil("dogs", "shuffle", rng, attacks.Material()) == []
    with pytest.raises(UsageError, match=r"no attack is called 'shufle'. Did you mean 'shuffle'"):
        attacks.spoil("a dog", "shufle", rng, attacks.Material())
    with pytest.raises(InputError, match="no caption holds a word"):
        attacks.gamed(CaptionSet.build(["..."], [["a dog"]]))


def test_judge_takes_the_best_variant():
    made = attacks.Gamed(CaptionSet.build(["x"] * 4), np.array([0, 0, 1, 1]),
                        np.array(["shuffle"] * 4, dtype=object))  # fmt: skip
    found = gaming.judge("m", np.array([0.5, 0.5]), np.array([0.1, 0.4, 0.2, 0.5]), made)
    one, total = found
    assert (one.attack, one.captions, one.held, one.held_one) == ("shuffle", 2, 0.5, 0.75)
    assert total.attack == "all"
    assert one.gain == pytest.approx(-0.05)


def test_probe_tells_a_bag_of_words_from_an_ordered_metric(cache):
    samples = CaptionSet.build([v[0] for v in HUMAN.values()], [v[1:] for v in HUMAN.values()])
    found = {(f.column, f.attack): f for f in gaming.probe(samples, ["bleu_1", "bleu_4"])}
    assert found["bleu_1", "shuffle"].held == 0.0  # order is nothing to it: all are ties
    assert found["bleu_4", "shuffle"].held > 0.8


def test_distinct_counts_content_words():
    samples = CaptionSet.build(["a dog runs and a dog barks", "a dog and a cat", ""])
    table = run(samples, ["distinct"], resamples=0)
    assert table["distinct"].tolist() == [0.75, 1.0, 1.0]


@pytest.mark.full
def test_scan_is_the_column_of_tiger():
    """Without references: the same number as tiger's scan_similarity with them."""
    from captious.demo import photographs

    pictures = [str(p) for p in photographs()[:2]]
    samples = CaptionSet.build(
        ["a dog runs", "two people"], [["the dog"], ["a man"]], images=pictures
    )
    table = run(samples, ["scan", "scan_similarity"], resamples=0)
    np.testing.assert_allclose(table["scan"], table["scan_similarity"], atol=1e-6)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "human.json").write_text(json.dumps(HUMAN))
    for name, captions in MACHINE.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(captions))
    return tmp_path


def test_command_line_trains_scores_and_probes(files, cache, capsys):
    where = str(files / "model")
    rating = [
        {"id": f"{i}-{k}", "image": str(i), "caption": text, "references": HUMAN[str(i)][2:],
         "rating": score}
        for i in range(30)
        for k, (text, score) in enumerate([(HUMAN[str(i)][0], 4), (MACHINE["poor"][str(i)], 1)])
    ]  # fmt: skip
    (files / "ratings.json").write_text(json.dumps(rating))
    base = ["--cache", str(cache.cache_dir), "-q"]
    code = cli.main(
        ["train", "composite", "--human", str(files / "human.json"), "--refs",
         str(files / "human.json"), "--machine", str(files / "good.json"), str(files / "poor.json"),
         "--inputs", "bleu_1,rouge_l", "--judgements", str(files / "ratings.json"), "--hidden", "8",
         "--epochs", "40", "--rate", "0.02", "-o", where, *base]
    )  # fmt: skip
    assert code == 0, capsys.readouterr().err
    assert {p.name for p in (files / "model").iterdir()} == {
        "model.json", "model.safetensors", "log.json", "curve.png"}  # fmt: skip
    facts = json.loads((files / "model/model.json").read_text())
    assert facts["data"]["examples"]["human"] == 150
    assert facts["quality"]["accuracy"] >= 0.6
    assert facts["options"]["seed"] == 12345
    capsys.readouterr()
    code = cli.main(
        ["probe", str(files / "good.json"), "--refs", str(files / "human.json"), "-m",
         f"composite(model='{where}')", "-f", "json", *base]
    )  # fmt: skip
    assert code == 0
    assert {r["attack"] for r in json.loads(capsys.readouterr().out)} == {*attacks.ATTACKS, "all"}
    code = cli.main(
        ["explain", "-c", "a dog runs", "-R", "a dog runs fast", "-m",
         f"composite(model='{where}')", "--svg", str(files / "why.svg"), *base]
    )  # fmt: skip
    assert code == 0
    assert (files / "why.svg").read_text().startswith("<svg")


def test_command_line_refuses(files, cache, capsys):
    base = ["-o", str(files / "m"), "--cache", str(cache.cache_dir), "-q", "--inputs", "rouge_l"]
    assert cli.main(["train", "composite", *base]) == 2
    assert "--human, --machine and --refs" in capsys.readouterr().err
    assert cli.main(["train", "composite", "--objective", "rank", *base]) == 2
    assert "give --judgements" in capsys.readouterr().err
    assert not (files / "m").exists()


# -- what is shipped ---------------------------------------------------------------------------

SIX = ("eval_ms", "eval_cs", "eval_mcs", "eval_wcs", "eval_mws", "eval_mwcs")


@pytest.mark.parametrize("name", [*SIX, *(f"{n}(guard=True)" for n in SIX), "captious_ref",
                                  "captious_ref(image=False)",
                                  "captious_free", "composite"])  # fmt: skip
def test_shipped_models_say_everything(name):
    metric = registry.create(name)
    model = metric.open()
    quality = model.facts["quality"]
    wanted = {"flickr8k-expert tau-c, half B", "pascal50s, 5 references, ties half"}
    if name.startswith("captious"):
        wanted = {"expert", "crowd", "cxc", "pascal", "swaps"}
        assert all({"half A", "half B"} == set(quality[d]) for d in wanted)
    assert wanted <= set(quality)
    assert model.facts["data"]
    assert model.facts["options"]["seed"] is not None
    assert all(model.identities)
    text = json.dumps(model.facts)
    assert not any(place in text for place in ("/work/", "/tmp/", "/root/"))


@pytest.mark.parametrize("name", SIX)
def test_the_default_is_the_model_of_the_paper(name):
    """Its features and network; the guard is one word away and says that it is another model."""
    model = registry.create(name).open()
    letters = {"m": "meteor", "w": "wmd", "c": "cider(df='coco-val')", "s": "spice"}
    assert [i.text for i in model.inputs] == [letters[c] for c in name.removeprefix("eval_")]
    assert [w.shape[1] for w, _ in model.layers] == [72, 72, 2]
    assert not len(model.scaling.knots)
    assert model.facts["data"]["weight of machine, other, gamed"] == [1, 1, 1]
    guarded = registry.create(f"{name}(guard=True)").open()
    assert [i.text for i in guarded.inputs][-2:] == ["stumbles", "distinct"]


MONOTONE = (*(f"{n}(guard=True)" for n in SIX), "captious_ref", "captious_ref(image=False)",
            "captious_free")  # fmt: skip


@pytest.mark.parametrize("name", MONOTONE)
def test_no_input_lowers_the_score_by_rising(name):
    """Weights and curves prove it for all values; drawn captions show it."""
    model = registry.create(name).open()
    assert all(i.higher_is_better for i in model.inputs)
    assert model.linear
    assert (model.weights >= 0).all()
    assert (model.weights > 0).sum() >= 3
    assert (model.scaling.spread > 0).all()
    assert (np.diff(model.scaling.knots, axis=0) > 0).all()
    assert (np.diff(model.scaling.heights) > 0).all()
    rng = np.random.default_rng(0)
    low, high = model.scaling.knots[[0, -1]]
    high = np.minimum(high, low + 20)
    captions = rng.uniform(low, high, (200, len(low)))
    for at in range(len(low)):
        raised = captions.copy()
        raised[:, at] += rng.uniform(0, 1, 200) * (high[at] - low[at])
        assert (model.scores(raised) >= model.scores(captions)).all()


@pytest.mark.parametrize("name", SIX)
def test_the_papers_networks_say_that_they_are_not_monotone(name):
    """Raising an input can lower their score, as in the paper; the page of the metric says so."""
    metric = registry.create(name)
    model = metric.open()
    assert not model.linear
    assert "may fall when an input rises" in sys.modules[type(metric).__module__].__doc__


def test_composite_is_eval_mwcs():
    assert registry.create("composite").open().sha == registry.create("eval_mwcs").open().sha


@pytest.mark.parametrize("name", SIX)
def test_the_six_were_trained_until_nothing_rose(name):
    """The winning epoch is not the last one: 40 epochs had cut four of the six."""
    facts = registry.create(name).open().facts
    assert facts["options"]["patience"] == 60
    assert facts["quality"]["epoch"] < facts["quality"]["epochs run"] < facts["options"]["epochs"]


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("captious_ref(image=False)", 0.95),
        pytest.param("eval_mwcs(guard=True)", 0.9, marks=pytest.mark.full),
        pytest.param("captious_ref", 0.95, marks=pytest.mark.full),
    ],
)
def test_gamed_captions_stay_below_untouched_ones(name, least):
    """Attacks on the demo's captions, of which no training knew; the best of three variants counts.

    `captious_free` is not held to it: on these rich captions it keeps 89 % only.
    """
    from captious import demo, load

    samples = load(demo.captions_file(), demo.references_file(), images=demo.folder() / "photos")
    good = samples.take(np.flatnonzero(samples.systems == "good"))
    [found] = [f for f in gaming.probe(good, [name]) if f.attack == "all"]
    assert found.captions == 70
    assert found.held >= least


def test_shipped_composites_are_small():
    folder = assets.resolve("composites")
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 2_000_000


def test_captious_ref_wants_a_model_for_missing_images():
    with pytest.raises(CaptiousError, match=r"without images ask for captious_ref\(image=False\)"):
        run(CaptionSet.build(["a dog"], [["the dog"]]), ["captious_ref"])
    inputs = {i.metric.name for i in registry.create("captious_ref(image=False)").open().inputs}
    assert not inputs & {"tiger", "scan", "vilbertscore", "vifidel"}


@pytest.mark.full
@pytest.mark.parametrize("name", SIX)
def test_shipped_numbers_hold(name, shared):
    """Tau-c on the unseen half of Flickr8k-Expert is what the file says."""
    import hashlib

    from captious.judgements import sets
    from captious.meta import agreement

    judged = sets.load_ratings("flickr8k-expert", shared / "data").without_own()
    even = [hashlib.sha256(u.encode()).digest()[0] % 2 == 0 for u in judged.units.tolist()]
    rows = judged.judged.rows[~np.array(even)[judged.judged.rows]]
    ratings = judged.judged.values[~np.array(even)[judged.judged.rows]]
    values = run(judged.samples, [name], resamples=0)[name]
    model: model_file.Model = registry.create(name).open()
    said = model.facts["quality"]["flickr8k-expert tau-c, half B"]
    assert agreement.kendall_c(values[rows], ratings) == pytest.approx(said, abs=2e-3)


def test_the_setting_of_the_paper_on_the_command_line(files, cache, capsys):
    """All judged images pick the epoch; images that share a caption with a set are left out."""
    rating = [
        {"image": str(i), "caption": text, "references": HUMAN[str(i)][2:], "rating": score}
        for i in range(30)
        for text, score in ((HUMAN[str(i)][0], 4), (MACHINE["poor"][str(i)], 1))
    ]
    (files / "ratings.json").write_text(json.dumps(rating))
    (files / "seen.json").write_text(json.dumps({"x": [HUMAN["7"][1].upper() + " ."]}))
    command = ["train", "composite", "--human", str(files / "human.json"), "--refs",
               str(files / "human.json"), "--machine", str(files / "poor.json"), "--inputs",
               "rouge_l", "--hidden", "4", "--epochs", "5", "--accuracy", "0.1",
               "--others", "0", "--gamed", "0", "--judgements", str(files / "ratings.json"),
               "--cache", str(cache.cache_dir), "-q"]  # fmt: skip
    where = files / "plain"
    assert cli.main([*command, "-o", str(where)]) == 0, capsys.readouterr().err
    half = json.loads((where / "model.json").read_text())
    paper = ["--stop-on", "all", "--exclude", str(files / "seen.json")]
    assert cli.main([*command, *paper, "-o", str(where)]) == 0, capsys.readouterr().err
    whole = json.loads((where / "model.json").read_text())
    assert set(whole["data"]["examples"]) == {"human", "machine"}
    left = "images left out because a caption is in --exclude"
    assert (half["data"][left], whole["data"][left]) == (0, 1)
    assert whole["data"]["images"] == half["data"]["images"] - 1
    assert (half["epoch picked by"][-18:], whole["epoch picked by"][-17:]) == (
        "half of its images", "all of its images")  # fmt: skip
    rank = [*command, *paper, "--objective", "rank", "-o", str(where)]
    assert cli.main(rank) == 2
    assert "--stop-on all" in capsys.readouterr().err
