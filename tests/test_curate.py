"""Filter, select, rerank, audit."""

from __future__ import annotations

import csv
import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import captious
from captious.cli import main
from captious.curate.auditing import Audited, audit
from captious.curate.expression import clauses, parse
from captious.curate.filtering import Scores, best, filter_rows, select_rows
from captious.curate.reranking import rerank
from captious.curate.two_stage import TwoStage, choose_band
from captious.errors import InputError, UsageError
from captious.io.tables import is_stored
from captious.report import audit_page
from captious.types import CaptionSet

NAN = float("nan")
HELD = {
    "fit": np.array([0.1, 0.5, 0.9, NAN]),
    "lm": np.array([-1.0, -3.0, -1.0, -1.0]),
    "system": np.array(["a", "b", None, "a"], object),
}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("fit > 0.3", [1, 2]),
        ("fit > 0.3 and lm > -2", [2]),
        ("fit > 0.3 or lm == -1", [0, 1, 2, 3]),
        ("not fit > 0.3", [0, 3]),
        ("0.2 < fit < 0.6", [1]),
        ("fit + 2 * lm < -1", [0, 1, 2]),
        ("-(fit - 1) / 2 >= 0.25", [0, 1]),
        ("fit is missing", [3]),
        ("fit is not missing and system is missing", [2]),
        ("system == 'a' and (fit < 0.2 or fit > 0.8)", [0]),
        ("`fit` >= .5e0", [1, 2]),
        ("1 < 2", [0, 1, 2, 3]),
    ],
)
def test_conditions(text, kept):
    assert np.flatnonzero(parse(text).mask(HELD)).tolist() == kept
    joined = np.ones(4, bool)
    for clause in clauses(text):
        joined &= clause.mask(HELD)
    assert np.flatnonzero(joined).tolist() == kept


@pytest.mark.parametrize(
    "text", ["", "fit >", "fit > 0.3 lm", "(fit > 1", "fit", "and", "fit > > 1", "fit $ 1",
             "__import__('os')", "(" * 200, "fit is big", "system > 1"],
)  # fmt: skip
def test_what_is_no_condition(text):
    with pytest.raises(UsageError):
        parse(text).mask(HELD)


@given(st.text(max_size=30))
def test_no_text_does_anything_else(text):
    with suppress(UsageError):
        parse(text).mask(HELD)


ROWS = [
    {"id": i, "caption": c, "references": r, "fit": f, "uid": f"{i:032x}"}
    for i, (c, r, f) in enumerate(
        [("a dog", ["a dog"], 0.9), ("a cat", ["a bus"], 0.8), ("bus", ["a dog"], 0.1),
         ("a red bus", ["a red bus"], None), ("men", ["two men"], 0.8)]
    )
]  # fmt: skip


def stored(kind, folder):
    path = folder / f"in.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    else:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, ROWS[0])
            writer.writeheader()
            writer.writerows(r | {"references": json.dumps(r["references"])} for r in ROWS)
    return path


def ids(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)["id"].to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line)["id"] for line in path.read_text().splitlines()]
    with open(path, newline="") as file:
        return [int(r["id"]) for r in csv.DictReader(file)]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_filter_keeps_rows_as_they_are(kind, tmp_path):
    place, out = stored(kind, tmp_path), tmp_path / f"out.{kind}"
    kept = filter_rows(place, out, "fit > 0.3 and rouge_l > 0.5")
    assert ids(out) == [0, 4]
    assert (kept.read, kept.kept) == (5, 2)
    assert kept.lost == {"fit > 0.3": 2, "rouge_l > 0.5": 1}
    if kind == "jsonl":
        assert out.read_text().splitlines()[0] == place.read_text().splitlines()[0]
    with pytest.raises(InputError, match="Did you mean 'fit'"):
        filter_rows(place, out, "fitt > 0.3")


def test_filter_finds_the_delimiter_and_keeps_it(tmp_path):
    place, out = tmp_path / "in.csv", tmp_path / "out.csv"
    place.write_text("id;caption;fit\n1;a dog, a cat;0.9\n2;a bus;0.1\n")
    filter_rows(place, out, "fit > 0.3")
    assert out.read_text() == "id;caption;fit\n1;a dog, a cat;0.9\n"


def noisy(path: Path, rows: int, noise: float, sign: int = 1) -> np.ndarray:
    """A file of two columns: the dear one, and a cheap one that nearly says the same."""
    rng = np.random.default_rng(5)
    dear = rng.random(rows)
    cheap = sign * dear + noise * rng.standard_normal(rows)
    cheap[7] = np.nan
    pq.write_table(pa.table({"id": np.arange(rows), "cheap": cheap, "dear": dear}), path)
    return dear


@pytest.mark.parametrize("sign", [1, -1])
def test_two_stages_ask_the_costly_score_in_the_band_only(sign, tmp_path, monkeypatch):
    dear = noisy(tmp_path / "in.parquet", 30_000, 0.03, sign)
    asked = []
    columns = Scores.columns

    def counted(self, table, names, path):
        if "dear" in names:
            asked.append(table.num_rows)
        return columns(self, table, names, path)

    monkeypatch.setattr(Scores, "columns", counted)
    plan = TwoStage("cheap", agree=0.99, trial=3_000)
    kept = filter_rows(
        tmp_path / "in.parquet", tmp_path / "out.parquet", "dear > 0.6", two_stage=plan
    )
    chosen = np.zeros(len(dear), bool)
    chosen[ids(tmp_path / "out.parquet")] = True
    assert (chosen == (dear > 0.6)).mean() > 0.985
    assert (chosen[:3_000] == (dear > 0.6)[:3_000]).all()
    assert kept.kept == chosen.sum()
    assert kept.sure + sum(asked) == 30_000
    assert sum(asked) < 3_000 + 0.12 * 27_000
    assert sum(kept.lost.values()) == 30_000 - kept.kept
    assert kept.band.agreement >= 0.99


def test_a_useless_first_score_leaves_all_to_the_condition(tmp_path):
    rng = np.random.default_rng(2)
    table = pa.table({"id": np.arange(4000), "cheap": rng.random(4000), "dear": rng.random(4000)})
    pq.write_table(table, tmp_path / "in.parquet")
    plan = TwoStage("cheap", agree=1.0, trial=2_000)
    kept = filter_rows(tmp_path / "in.parquet", tmp_path / "o.parquet", "dear > 0.5",
                       two_stage=plan)  # fmt: skip
    dear = table["dear"].to_numpy()
    assert kept.sure < 40
    assert abs(kept.kept - (dear > 0.5).sum()) <= kept.sure
    with pytest.raises(UsageError, match="share"):
        TwoStage("cheap", agree=99)


def test_a_short_file_is_decided_by_the_condition(tmp_path, capsys):
    noisy(tmp_path / "in.parquet", 300, 0.03)
    assert main(["filter", str(tmp_path / "in.parquet"), "-o", str(tmp_path / "o.parquet"),
                 "--keep", "dear > 0.6", "--first", "cheap"]) == 0  # fmt: skip
    assert "the condition decided all" in capsys.readouterr().err


@given(
    st.lists(st.tuples(st.floats(-1, 1, width=16), st.booleans()), min_size=1, max_size=60),
    st.floats(0.5, 1),
)
def test_a_band_keeps_its_promise(rows, agree):
    cheap = np.array([value for value, _ in rows])
    fulfilled = np.array([fine for _, fine in rows])
    band = choose_band(cheap, fulfilled, agree)
    sure = band.sure(cheap)
    right = (sure == 0) | ((sure > 0) == fulfilled)
    assert right.mean() == pytest.approx(band.agreement)
    assert (~right).sum() <= (1 - agree) * len(rows) + 1e-6


def test_select_is_exact(tmp_path):
    place = stored("parquet", tmp_path)
    kept = select_rows(place, tmp_path / "out.parquet", 0.4, "fit", uids=tmp_path / "uids.npy")
    assert ids(tmp_path / "out.parquet") == [0, 1]  # of two equal ones the earlier
    assert kept.kept == 2
    held = np.load(tmp_path / "uids.npy")
    assert held.dtype == np.dtype("u8,u8")
    assert held.tolist() == [(0, 0), (0, 1)]
    assert select_rows(place, tmp_path / "x.parquet", 3, "fit").kept == 3


def test_a_whole_number_above_one_is_a_number_of_rows():
    values = np.array([0.1, 0.9, np.nan, 0.5, 0.9])
    assert best(values, 2).tolist() == [False, True, False, False, True]
    assert best(values, 100).sum() == 4  # a row without a score is never taken


def test_select_by_what_is_no_number(tmp_path):
    place = stored("jsonl", tmp_path)
    for column, kind in (("caption", "text"), ("references", "lists")):
        with pytest.raises(InputError, match=f"the column '{column}' holds {kind}, not numbers"):
            select_rows(place, tmp_path / "out.jsonl", 0.5, column)


def test_neither_a_share_nor_a_number(tmp_path):
    with pytest.raises(UsageError, match=r"a share \(0 to 1\) or a whole number of rows"):
        select_rows(tmp_path / "x.csv", tmp_path / "y.csv", 2.5, "fit")


@given(st.lists(st.one_of(st.floats(allow_nan=True, width=16)), min_size=1), st.floats(0.01, 1))
def test_best_share(values, top):
    held = np.array(values, float)
    mask = best(held, top)
    assert mask.sum() == min(int(top * len(held)), (~np.isnan(held)).sum())
    if mask.any() and (~mask & ~np.isnan(held)).any():
        assert held[mask].min() >= held[~mask & ~np.isnan(held)].max()


def test_rerank_by_consensus_and_by_a_score():
    captions = ["a dog runs on grass", "a dog runs on the grass", "two red buses", "a cat", "a cat"]
    samples = CaptionSet.build(
        captions,
        [["two red buses"]] * 3 + [["a dog"]] * 2,
        images=["x", "x", "x", "y", "y"],
        systems=["a", "b", "c", "a", "b"],
    )
    chosen = rerank(samples, "cider_d", consensus=True)
    assert [(c.image, c.candidates) for c in chosen] == [("x", 3), ("y", 2)]
    assert chosen[0].system in ("a", "b")
    assert rerank(samples, "rouge_l")[0].caption == "two red buses"
    single = captious.score([captions[0]] * 2, [[captions[1]], [captions[2]]],
                            metrics="rouge_l", intervals=False)  # fmt: skip
    by_rouge = rerank(samples[:3], "rouge_l", consensus=True)[0]
    assert by_rouge.score == pytest.approx(single["rouge_l"].mean(), abs=0.05)
    with pytest.raises(UsageError, match="uses no references"):
        rerank(samples, "lm", consensus=True)


def test_audit_finds_a_swapped_caption():
    demo = Path(captious.__file__).parent / "demo"
    rows = [json.loads(line) for line in (demo / "captions.jsonl").read_text().splitlines()]
    first = {}
    for row in rows:
        first.setdefault(row["image"], row["caption"])
    names = [n for n in first if (demo / "photos" / Path(n).name).exists()][:6]
    captions = [first[n] for n in names]
    captions[0], captions[1] = captions[1], captions[0]
    samples = CaptionSet.build(
        captions, images=[str(demo / "photos" / Path(n).name) for n in names]
    )
    found = audit(samples, others=3)
    assert found.order[0] in (0, 1)
    assert min(found.fit[0], found.fit[1]) == found.fit[found.order[0]]
    assert np.isin(found.nearer, np.arange(4) / 3).all()
    assert not found.copies.any()


def test_the_page_of_an_audit(tmp_path):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    demo = Path(captious.__file__).parent / "demo"
    photos = sorted((demo / "photos").iterdir())[:3]
    captions = ["a <script>alert(1)</script> dog", "the same caption", "the same caption", ""]
    samples = CaptionSet.build(
        captions, images=[*map(str, photos), str(tmp_path / "gone.jpg")], ids=["x", "y", "z", "w"]
    )
    found = Audited(
        samples,
        np.array([0.5, 0.1, 0.2, np.nan]),
        np.array([0.0, 0.75, 0.25, 0.0]),
        np.array([0, 1, 1, 0]),
        np.array([3, 1, 2, 0]),
    )
    path = tmp_path / "audit.html"
    audit_page.write(found, path, metric="fit", others=4, seed=7)
    text = path.read_text()
    assert "<script" not in text
    assert "a &lt;script&gt;alert(1)&lt;/script&gt; dog" in text
    assert text.count("data:image/") == 3 + 1 + 2  # misfits, generic, copies
    misfits, generic, copies = text.split("<section>")[1:4]
    shown = re.findall(r'class="score">(\w)', misfits)
    assert shown == ["w", "y", "z", "x"]
    assert re.findall(r'class="score">(\w)', generic) == ["y"]
    assert re.findall(r'class="score">(\w)', copies) == ["y", "z"]
    assert "could not be scored" in misfits
    assert "http" not in re.sub(r"http://www.w3.org/\S+", "", text)  # it asks for nothing
    with pytest.raises(UsageError, match="html"):
        audit_page.check(tmp_path / "audit.pdf")


def test_verbs(tmp_path, capsys):
    place = stored("jsonl", tmp_path)
    keep = ["filter", str(place), "-o", str(tmp_path / "f.jsonl"), "--keep", "fit > 0.3"]
    assert main(keep) == 0
    assert "fit > 0.3: removed 2 rows" in capsys.readouterr().err
    assert main(["select", str(place), "-o", str(tmp_path / "s.jsonl"), "--top", "0.5",
                 "--by", "fit", "-q"]) == 0  # fmt: skip
    assert ids(tmp_path / "s.jsonl") == [0, 1]
    for name, caption in (("a", "a dog runs"), ("b", "a dog runs fast"), ("c", "one bus")):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"image_id": 1, "caption": caption}]))
    files = [str(tmp_path / f"{name}.json") for name in "abc"]
    assert main(["rerank", *files, "--by", "rouge_l", "--consensus", "-q"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["chosen_from"] in ("a", "b")


def test_a_folder_of_scores_is_filtered_without_its_manifest(tmp_path, capsys):
    place, scores = tmp_path / "in", tmp_path / "scores"
    place.mkdir()
    stored("parquet", place)
    assert main(["score", str(place), "-o", str(scores), "-m", "rouge_l", "-q"]) == 0
    out = tmp_path / "kept"
    assert main(["filter", str(scores), "-o", str(out), "--keep", "rouge_l > 0.5"]) == 0
    (file,) = out.iterdir()
    assert 0 < pq.read_table(file).num_rows < len(ROWS)
    assert not is_stored(file)  # its corpus values were those of all rows
    assert is_stored(next(scores.glob("*.parquet")))
    top = ["select", str(scores), "-o", str(tmp_path / "top"), "--top", "2", "--by", "rouge_l"]
    assert main(top) == 0
    assert "kept 2 of" in capsys.readouterr().err


def test_what_a_score_lacks_is_said(tmp_path, capsys):
    place = tmp_path / "in.jsonl"
    place.write_text(json.dumps({"caption": "a dog", "refs": ["a dog"]}) + "\n")
    out = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match=r"fit needs photographs .*, and no column holds"):
        filter_rows(place, out, "fit > 0.3")
    with place.open("a") as file:
        file.write(json.dumps({"caption": "a cat", "refs": []}) + "\n")
    assert main(["filter", str(place), "-o", str(out), "--keep", "rouge_l > 0.5"]) == 0
    said = capsys.readouterr().err
    assert "1 row not scored: rouge_l: it has no reference" in said
    assert main(["select", str(place), "-o", str(out), "--top", "1", "--by", "rouge_l"]) == 0
    assert "1 row not scored" in capsys.readouterr().err
