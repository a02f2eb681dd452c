"""Paper tables, analyses, probes and pictures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from captious import cli, registry
from captious.errors import UsageError
from captious.judgements import protocols
from captious.meta import diagnostics, robustness
from captious.meta.evaluate import evaluate
from captious.meta.scoring import Scorer
from captious.papers import analyses, paper_tables, reproduce
from captious.perturb import edits
from captious.types import CaptionSet


def test_every_printed_row_and_column_has_its_place():
    for table in paper_tables.TABLES:
        printed = paper_tables.reported()[table.paper][table.key]
        lost = [row for row in printed if row not in table.rows]
        assert lost in ([], ["Inter-human (cited)"]), (table.paper, table.name)
        keys = {k for row in printed.values() for k in row}
        assert {c.key for c in table.columns} == keys
        for column in table.columns:
            assert bool(column.protocol) != bool(column.missing)
            if column.protocol:
                protocols.get(column.protocol)


def test_every_table_of_the_papers_is_covered():
    done = {(t.paper, t.key) for t in paper_tables.TABLES}
    done |= {
        ("bert_tbr", f"table{k}")
        for k in ("1_coco2015_pearson", "2_ablation_pearson", "5_captioners")
    }
    done |= {("tiger", "text_sensitivity_property_accuracy")}
    for paper, tables in paper_tables.reported().items():
        for key in tables:
            if key.startswith("table") and paper != "_notes" and key != "table4_examples":
                assert (paper, key) in done, (paper, key)


def test_columns_of_choices_exist():
    """A spec whose metric is registered must give the column that the row names."""
    for table in paper_tables.TABLES:
        for choices in table.rows.values():
            for choice in choices if isinstance(choices, tuple) else ():
                if choice.spec.partition("(")[0] in registry.names():
                    names = {n for *_, ns in Scorer([choice.spec]).steps for n in ns}
                    assert choice.column in names


def test_cells():
    assert reproduce.Cell(0.323, 0.32304).text(1.0) == "0.323 / 0.323 (+0.000)"
    assert reproduce.Cell(0.323, 0.3229).text(1.0) == "0.323 / 0.323 (+0.000)"
    assert reproduce.Cell(51.2, 62.6).text(100.0) == "51.2 / 62.6 (+11.4)"
    assert reproduce.Cell(None, 62.6).text(100.0) == "- / 62.6"
    assert reproduce.Cell(0.2, float("nan")).text(1.0) == "0.200 / -"


def test_unknown_tables_are_named():
    with pytest.raises(UsageError, match="tiger table1"):
        reproduce.find("tiger", "tabel1")
    assert cli.main(["reproduce", "tigre", "table1", "--data", "."]) == 2


def test_tiger_table1_without_the_slow_rows(shared, cache, monkeypatch):
    table = reproduce.find("tiger", "table1")
    fast = {k: v for k, v in table.rows.items() if k in ("BLEU-1", "ROUGE-L", "CIDEr")}
    slow = dict.fromkeys(set(table.rows) - set(fast), "left out of this test")
    monkeypatch.setattr(reproduce, "TABLES", ())
    from dataclasses import replace

    bench = reproduce.Bench(shared / "data", extras=False, resamples=0, store=False)
    filled = reproduce.fill(replace(table, rows=fast | slow), bench)
    for label in fast:
        composite, _, tau, rho = filled.rows[label]
        assert np.isnan(composite.ours)
        assert "COMPOSITE" in composite.reason
        assert tau.ours == pytest.approx(tau.paper, abs=6e-4)
        assert rho.ours == pytest.approx(rho.paper, abs=6e-4)
    text = reproduce.render(filled, "markdown")
    assert "flickr8k-expert/tau-c-pooled" in text
    assert "left out of this test" in text


def test_coco_2015(shared):
    found = analyses.coco_2015(reproduce.Bench(shared / "data"))
    rows = {(r[0], r[1]): r for r in found.cells[1:]}
    assert rows["SPICE", "M1"][3] == "0.659"
    assert rows["LEIC (cited)", "M1"][3] == "-"
    assert "14 teams" in found.remarks[0]


# -- probes ----------------------------------------------------- ---


def test_changes_do_what_they_say():
    rng = np.random.default_rng(0)
    words = "two young dogs are running with a red ball".split()
    assert len(edits.drop(words, rng)) == len(words) - 1
    assert sorted(edits.swap(words, rng)) == sorted(words)
    assert edits.swap(words, rng) != words
    assert len(edits.repeat(words, rng)) == len(words) + 1
    assert edits.negate(words, rng)[4] == "not"
    assert edits.negate("a dog with a ball".split(), rng)[2] == "without"
    assert edits.negate("a dog".split(), rng) is None
    assert len(edits.truncate(words, rng)) == 6
    for kind, listed in (
        ("colour", edits.COLOURS),
        ("number", edits.NUMBERS),
        ("action", edits.ACTIONS),
    ):
        changed = edits.KINDS[kind](words, rng)
        differ = [(a, b) for a, b in zip(words, changed, strict=True) if a != b]
        assert len(differ) == 1
        assert set(differ[0]) <= set(listed)


@pytest.mark.parametrize(("kind", "same"), [("object, similar", True), ("object, other", False)])
def test_objects_stay_in_or_leave_their_line(kind, same):
    line = {w: n for n, group in enumerate(edits.OBJECTS) for w in group}
    for seed in range(20):
        out = edits.KINDS[kind](["a", "dog"], np.random.default_rng(seed))
        assert out[1] != "dog"
        assert (line[out[1]] == line["dog"]) == same


def test_probe_counts_and_scores(cache):
    samples = CaptionSet.build(
        ["a red dog runs", "two men sit"],
        [["a red dog runs", "x"], ["two men sit", "y"]],
        images=["1", "2"],
    )
    found = {p.kind: p for p in robustness.probe(samples, Scorer(["rouge_l"], store=False))}
    assert found["colour"].n == 1
    assert found["colour"].accuracy == 1.0
    assert found["drop"].n == 2
    assert found["drop"].fall > 0


# -- diagnostics and pictures ----------------------------------- ---


@pytest.fixture
def found(tmp_path, cache):
    from captious.judgements.sets import user_files

    rng = np.random.default_rng(3)
    lines = ["caption,rating,image,ref_1"]
    for n in range(90):
        size = int(rng.integers(2, 9))
        lines.append(
            f'{"w " * size}z{n},"[{rng.integers(1, 5)}, {rng.integers(1, 5)}]",i{n // 3},w w'
        )
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines))
    return evaluate(
        user_files.load(path),
        protocols.get("tau-b-mean", "mine.csv"),
        Scorer(["rouge_l", "bleu"], store=False),
        resamples=50,
    )


def test_splits_cover_every_caption_once(found):
    for split in (
        diagnostics.by_length(found),
        diagnostics.by_judges(found),
        diagnostics.by_error(found),
    ):
        assert np.sum(list(split.values()), axis=0).tolist() == [1] * 90
        table = diagnostics.within(found, split)
        assert set(table) == set(found.scores)


def test_kinds_of_error(tmp_path, cache):
    from captious.judgements.sets import user_files

    said = {
        "a dog runs": "none of these",  # a puppy is of the same kind
        "Three puppies, sleeping": "other actions",
        "two cars": "other objects",
        "two horses sitting": "none of these",
        "five": "other numbers",
        "white": "other colours",
        "nothing": "none of these",
    }
    lines = ["caption,rating,image,ref_1"]
    lines += [f'"{c}",{n},i{n},two black puppy sitting' for n, c in enumerate(said, 1)]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    judged = user_files.load(tmp_path / "mine.csv")
    chosen = protocols.get("tau-b-mean", "mine.csv")
    split = diagnostics.by_error(
        evaluate(judged, chosen, Scorer(["rouge_l"], store=False), resamples=0)
    )
    for row, kind in enumerate(said.values()):
        assert [name for name, inside in split.items() if inside[row]] == [kind], row


def test_correlations_and_tree(found):
    names, matrix = diagnostics.correlations(found.scores)
    assert np.allclose(matrix, matrix.T)
    assert np.allclose(np.diag(matrix), 1)
    text = diagnostics.tree(names, matrix)
    assert all(n in text for n in names)
    assert text.count("rho") == len(names) - 1


def test_pictures(found, tmp_path):
    pytest.importorskip("matplotlib")
    from captious.meta import pictures

    tests = found.tests(trials=20)
    pictures.beats(found, tests, tmp_path / "beats.svg")
    pictures.beats(found, tests, tmp_path / "again.svg")
    assert (tmp_path / "beats.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert "bleu_1" in (tmp_path / "beats.svg").read_text()
    pictures.intervals(found, tmp_path / "i.png")
    pictures.curves({"a": [1.0, 2.0]}, [0, 1], tmp_path / "c.svg", "x", "y")
    names, matrix = diagnostics.correlations(found.scores)
    pictures.dendrogram(names, diagnostics.linkage(matrix), tmp_path / "t.svg")
    pictures.heat(["a"], ["b"], np.array([[0.3]]), tmp_path / "h.svg", "t", 0.5)
    assert (tmp_path / "i.png").stat().st_size > 1000


def test_saturation(cache):
    (found,) = diagnostics.saturation(
        {"good": ["a dog runs", "a cat"], "bad": ["x", "y"]},
        ["one dog", "the cat sits"],
        [["a dog runs"], ["a cat"]],
        ["1", "2"],
        Scorer(["rouge_l"], store=False),
    )
    assert found.above_human == {"good": 1.0, "bad": 0.0}
    assert found.means["good"] == 1.0


# -- work ahead, and what is left out --------------------------- ---


def test_tasks_gather_protocols_that_share_their_captions():
    from captious.papers import parallel

    pairs = [
        ("bleu", "flickr8k-expert/tau-c-pooled"),
        ("bleu", "flickr8k-expert/rho-pooled"),
        ("bleu", "flickr8k-expert/rho-pooled"),
        ("bleu", "pascal50s/half-1drawn"),
        ("bleu", "pascal50s/half-10drawn"),
        ("spice", "pascal50s/half-10drawn"),
    ]
    found = parallel.tasks(pairs, [(("beyond", "robustness"), "bleu")])
    assert found[0].spec == "spice"
    both = [t for t in found if len(t.protocols) == 2]
    assert [t.protocols for t in both] == [
        ("flickr8k-expert/tau-c-pooled", "flickr8k-expert/rho-pooled")
    ]
    assert len(found) == 5
    assert sum(t.analysis is not None for t in found) == 1


def test_other_processes_give_the_same_evaluations(shared, cache):
    from captious.papers import parallel

    name = "flickr8k-expert/tau-c-pooled"
    alone = reproduce.Bench(shared / "data", resamples=50, store=False).result("rouge_l", name)
    bench = reproduce.Bench(shared / "data", resamples=50)
    said = []
    parallel.ahead(
        bench, [parallel.Task("rouge_l", (name,)), parallel.Task("bleu", (name,))], 2, said.append
    )
    assert said[-1] == "scored 2 of 2"
    assert bench._results["rouge_l", name].results == alone.results
    np.testing.assert_array_equal(
        bench.result("rouge_l", name).scores["rouge_l"], alone.scores["rouge_l"]
    )
    assert len(list((cache.cache_dir / "statistics").rglob("*.npz"))) == 2
    assert (
        bench.result("rouge_l", name).judged.samples.captions() == alone.judged.samples.captions()
    )


def test_what_is_left_out_keeps_its_row(shared, cache):
    bench = reproduce.Bench(shared / "data", resamples=0, skip=("bleu@flickr8k-expert", "rouge_l"))
    found = bench.result("bleu", "flickr8k-expert/tau-c-pooled")
    assert [r.metric for r in found.results] == ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]
    assert {r.reason for r in found.results} == {reproduce.SKIPPED}
    specs, why = analyses.wanted(bench, ("bleu", "rouge_l"))
    assert specs == ["bleu"]
    assert why == {"rouge_l": reproduce.SKIPPED}
    assert cli.main(["reproduce", "all", "--skip", "blue", "--data", str(shared / "data")]) == 2


def test_the_page_demands_every_metric_and_our_own_join_no_table_of_48_references(shared):
    from captious.papers import results_page

    bench = reproduce.Bench(shared / "data", resamples=0)
    found = results_page.demands(bench)
    specs, _ = analyses.usable()
    asked = {(t.spec, p) for t in found for p in t.protocols}
    for protocol in (*results_page.EXPERT, *results_page.CROWD, *results_page.PAIRS):
        assert {s for s, p in asked if p == protocol} >= set(specs)
    assert ("bertscore(layer=3)", "flickr8k-expert/tau-b-mean") in asked or "bertscore" not in specs
    assert ("unigram_tbr", "pascal50s/half-48drawn") not in asked
    assert ("rouge_l", "pascal50s/half-48drawn") in asked


@pytest.fixture(scope="module")
def small(shared, tmp_path_factory):
    """A data folder like the real one with a few images of each set, cut from it."""
    import pyarrow.parquet as pq
    from scipy.io import loadmat, savemat

    data, root = shared / "data", tmp_path_factory.mktemp("small")
    for name in ("flickr8k", "pascal50s", "coco", "coco2015"):
        (root / name).mkdir()
    flickr = data / "flickr8k"
    tokens = (flickr / "Flickr8k.token.txt").read_text("utf-8").splitlines()
    keys: set[str] = set()
    for name, few in (("ExpertAnnotations.txt", 60), ("CrowdFlowerAnnotations.txt", 300)):
        lines = (flickr / name).read_text("utf-8").splitlines()[:few]
        keys |= {part.partition("#")[0] for line in lines for part in line.split("\t")[:2]}
        (root / "flickr8k" / name).write_text("\n".join(lines) + "\n")
    tests = (flickr / "Flickr_8k.testImages.txt").read_text("utf-8").split()[:20]
    (root / "flickr8k/Flickr_8k.testImages.txt").write_text("\n".join(tests))
    kept = [t for t in tokens if t.partition("#")[0] in keys | set(tests)]
    (root / "flickr8k/Flickr8k.token.txt").write_text("\n".join(kept) + "\n", "utf-8")
    pascal = data / "pascal50s"
    fixed = json.loads((pascal / "consensus_5refs.json").read_text("utf-8"))
    fixed = {kind: pairs[:8] for kind, pairs in fixed.items()}
    (root / "pascal50s/consensus_5refs.json").write_text(json.dumps(fixed))
    pairs = loadmat(pascal / "pair_pascal.mat")
    some = np.sort(
        np.concatenate([np.flatnonzero(pairs["category"][0] == k)[:8] for k in range(1, 5)])
    )
    parts = {k: pairs[k][:, some] for k in ("new_input", "category", "result")}
    savemat(root / "pascal50s/pair_pascal.mat", parts)
    used = {Path(p["image"]).name for some in fixed.values() for p in some}
    used |= {str(pair["name"].ravel()[0]) for pair in parts["new_input"][0]}
    refs = json.loads((pascal / "pascal50s_refs.json").read_text("utf-8"))
    refs = {k: v for k, v in refs.items() if Path(k).name in used}
    (root / "pascal50s/pascal50s_refs.json").write_text(json.dumps(refs))
    systems = pq.read_table(data / "coco/karpathy_test_systems.parquet").slice(0, 20)
    pq.write_table(systems, root / "coco/karpathy_test_systems.parquet")
    shutil.copy(data / "coco2015/challenge_2015.csv", root / "coco2015")
    return root


def test_reproduce_all_on_a_little_of_everything(small, tmp_path, cache):
    from captious.papers import results_page

    metrics = ("bleu", "rouge_l", "cider_d", "unigram_tbr")
    others = tuple(n for n in registry.names() if n not in metrics)
    bench = reproduce.Bench(small, resamples=20, skip=others)
    said = []
    results_page.write(bench, tmp_path / "results.md", 20, said.append, processes=2)
    text = (tmp_path / "results.md").read_text("utf-8")
    for part in (
        "TIGEr, Table 1",
        "TIGEr, Figure 7",
        "Reference sweep",
        "VIFIDEL, Table 6",
        "BERT-TBR, Table 1",
        "Sharif et al., Table 2",
        "ViLBERTScore, Figure 3",
        "by kind of error",
        "Robustness",
        "Saturation",
    ):
        assert part in text, part
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert "0." in rows["rouge_l"]
    assert f"meteor: not computed: {reproduce.SKIPPED}" in text
    assert rows["meteor"].count(" - ") >= 2
    for name in ("flickr8k-expert-beats", "metric-tree", "tiger-figure5", "beyond-saturation"):
        assert (tmp_path / f"pictures/{name}.svg").exists(), name
        assert f"(pictures/{name}.svg)" in text
    assert any(line.startswith("scored") for line in said)
    before = {p: p.stat().st_ino for p in (cache.cache_dir / "statistics").rglob("*.npz")}
    results_page.write(reproduce.Bench(small, resamples=20, skip=others), tmp_path / "again.md", 20)
    assert (tmp_path / "again.md").read_text("utf-8") == text
    after = {p: p.stat().st_ino for p in (cache.cache_dir / "statistics").rglob("*.npz")}
    assert after == before  # every score was found again


@pytest.mark.full
def test_reproduce_all_on_the_real_data(shared, tmp_path):
    out = tmp_path / "docs/results.md"
    # Whatever parses, encodes or looks at photographs is left to the command itself (half an hour
    # for all sets): its rows stay, empty.
    slow = """bertscore bert_tbr unigram_tbr spice spider wmd lm vifidel vifidel_cider vifidel_lm
    scan tiger vilbertscore vilbert_match composite captious_ref captious_free eval_ms eval_cs
    eval_mcs eval_wcs eval_mws eval_mwcs""".split()
    command = ["reproduce", "all", "--data", str(shared / "data"), "--trials", "50", "-q"]
    assert cli.main([*command, "-o", str(out), "--skip", *slow]) == 0
    text = out.read_text()
    for part in ("TIGEr, Table 1", "VIFIDEL, Table 6", "BERT-TBR, Table 1", "Saturation"):
        assert part in text
    assert (tmp_path / "docs/pictures/flickr8k-expert-beats.svg").exists()
