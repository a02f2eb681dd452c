"""Streams, shards and workers: the values of one process, whatever the parts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import captious
from captious.cli import main
from captious.engine.executors import Processes
from captious.engine.job import ScoringJob
from captious.engine.shards import score_shards
from captious.engine.stream import _Seen, stream
from captious.engine.tally import Histogram
from captious.errors import CaptiousError, InputError, UsageError
from captious.io import files
from captious.io.batches import Reader, shards
from captious.io.sinks import sink_for
from captious.io.tables import is_stored
from captious.statistics import poisson
from captious.text import document_frequency
from captious.types import CaptionSet, Column

METRICS = ("bleu", "rouge_l", "cider_d")
WORDS = "a the dog cat man runs sits on red bus street park green ball small big".split()


def rows(n: int = 200, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        refs = [" ".join(rng.choice(WORDS, 7)) for _ in range(3)]
        caption = " ".join([*refs[0].split()[:4], *rng.choice(WORDS, 2)])
        out.append({"id": f"r{i}", "image": f"i{i // 2}", "caption": caption, "references": refs})
    for a, b in zip(out[::2], out[1::2], strict=True):
        b["references"] = a["references"]
    return out


@pytest.fixture(scope="module")
def data() -> list[dict]:
    return rows()


@pytest.fixture(scope="module")
def whole(data):
    return captious.score(data, metrics=METRICS)


def written(data: list[dict], path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(data), path)
    elif path.name.endswith(".jsonl.gz"):
        path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in data).encode()))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in data))
    elif path.suffix == ".json":
        path.write_text(json.dumps(data))
    else:
        lines = ["id,image,caption,references"]
        for r in data:
            listed = json.dumps(r["references"]).replace('"', '""')
            lines.append(f'{r["id"]},{r["image"]},{r["caption"]},"{listed}"')
        path.write_text("\n".join(lines) + "\n")
        if path.name == "semicolons.csv":
            with path.open(newline="") as file:
                cells = list(csv.reader(file))
            with path.open("w", newline="") as file:
                csv.writer(file, delimiter=";").writerows(cells)
    return path


def same(table, whole) -> None:
    assert list(table.ids) == list(whole.ids)
    for column in whole.values:
        np.testing.assert_array_equal(table[column], whole[column])
        assert table.corpus[column] == pytest.approx(whole.corpus[column], rel=1e-12)


@pytest.mark.parametrize(
    "name", ["in.parquet", "in.jsonl", "in.jsonl.gz", "in.csv", "semicolons.csv", "in.json"]
)
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_a_stream_gives_the_values_of_a_run(name, ending, data, whole, tmp_path):
    place = written(data, tmp_path / name)
    out = tmp_path / f"out.{ending}"
    summary = stream(ScoringJob([place], metrics=METRICS), sink_for(out), rows=31)
    table = captious.ScoreTable.load(out)
    same(table, whole)
    assert len(summary) == len(data)
    assert (
        summary.corpus["cider_d"].low < summary.corpus["cider_d"] < summary.corpus["cider_d"].high
    )
    assert table.samples.references() == whole.samples.references()


def test_csv_and_json_are_written_as_streams(data, whole, tmp_path):
    place = written(data, tmp_path / "in.parquet")
    stream(ScoringJob([place], metrics=METRICS), sink_for(tmp_path / "out.json"), rows=40)
    same(captious.ScoreTable.load(tmp_path / "out.json"), whole)
    stream(ScoringJob([place], metrics=METRICS), sink_for(tmp_path / "out.csv"), rows=40)
    whole.save(tmp_path / "whole.csv")
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "whole.csv").read_text()
    assert (tmp_path / "out.corpus.csv").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("ending", ["txt", "md", "tex"])
def test_tables_for_people_are_written_as_streams(ending, data, whole, tmp_path):
    """Every caption stands there as it does after a run in memory."""
    place = written(data, tmp_path / "in.parquet")
    stream(ScoringJob([place], metrics=METRICS), sink_for(tmp_path / f"out.{ending}"), rows=40)
    whole.save(tmp_path / f"whole.{ending}")
    out, expected = ((tmp_path / f"{n}.{ending}").read_text() for n in ("out", "whole"))
    if ending == "tex":
        assert re.sub(r"\|bs_kind:poisson", "", out) == expected
    else:
        table = expected.split("\n\n")[1]
        assert len(table.splitlines()) == len(data) + 2
        assert out.split("\n\n")[1] == table
        assert ("not shown: cider_d" in out) == (ending == "txt")
        assert "cider_d: cider_d|refs:3" in out
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_several_systems_in_a_text_stream(data, tmp_path):
    places = [written(data, tmp_path / f"{name}.parquet") for name in "ab"]
    stream(ScoringJob(places, metrics="bleu_1"), sink_for(tmp_path / "out.txt"))
    captions = (tmp_path / "out.txt").read_text().split("\n\n")[1].splitlines()
    assert captions[0].split() == ["id", "system", "caption", "bleu_1"]
    assert len(captions) == 2 * len(data) + 2


def test_rows_of_an_image_stay_together_and_count_once(data, tmp_path):
    reader = Reader([(str(written(data, tmp_path / "in.parquet")), "")], rows=7)
    images = [set(batch.samples.images.tolist()) for batch in reader]
    assert sum(map(len, images)) == len(set.union(*images)) == 100
    apart = sorted(data, key=lambda r: int(r["id"][1:]) % 2)  # the two rows of an image far apart
    place = written(apart, tmp_path / "apart.parquet")
    out = tmp_path / "out.parquet"
    stream(ScoringJob([place], metrics=METRICS), sink_for(out), rows=30)
    expected = captious.score(apart, metrics=METRICS)
    same(captious.ScoreTable.load(out), expected)


def test_names_that_were_met_are_found_in_runs_that_do_not_add_up():
    """Against a set; every name once goes in, and the runs stay few however many batches come."""
    random = np.random.default_rng(0)
    seen, expected = _Seen(), set()
    for _ in range(300):
        names = [f"image {n}" for n in random.integers(0, 20_000, 97).tolist()]
        assert seen.add(names).tolist() == [name not in expected for name in names]
        expected.update(names)
    assert len(expected) > 10_000
    assert len(seen._runs) < 12


def test_a_bad_row_is_nan_with_a_reason_and_the_others_are_scored(data, whole, tmp_path):
    lines = [json.dumps(r) for r in data]
    lines[3] = '{"caption": '
    lines[5] = json.dumps(data[5] | {"caption": None})
    lines[7] = json.dumps(data[7] | {"references": [3]})
    place = tmp_path / "in.jsonl"
    place.write_text("\n".join(lines))
    out = tmp_path / "out.parquet"
    summary = stream(ScoringJob([place], metrics="rouge_l"), sink_for(out), rows=30)
    table = captious.ScoreTable.load(out)
    assert np.flatnonzero(np.isnan(table["rouge_l"])).tolist() == [3, 5, 7]
    fine = [i for i in range(len(data)) if i not in (3, 5, 7)]
    np.testing.assert_array_equal(table["rouge_l"][fine], whole["rouge_l"][fine])
    reasons = [why for _, why in summary.counted]
    assert any("JSON" in why for why in reasons)
    assert any("missing" in why for why in reasons)
    assert any("reference 1" in why for why in reasons)


def test_folders_globs_and_addresses(data, whole, tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    folder = tmp_path / "in"
    folder.mkdir()
    written(data[:100], folder / "a.parquet")
    written(data[100:], folder / "b.jsonl")
    (folder / "notes.md").write_text("not data")
    for place in (folder, tmp_path / "in" / "*.[pj]*"):
        summary = stream(ScoringJob([place], metrics=METRICS, resamples=0), rows=33)
        assert summary.corpus["bleu_4"] == whole.corpus["bleu_4"]
    with fsspec.open("memory://bucket/x.jsonl", "w") as file:
        file.write("".join(json.dumps(r) + "\n" for r in data))
    summary = stream(ScoringJob(["memory://bucket/x.jsonl"], metrics=METRICS, resamples=0))
    assert summary.corpus["bleu_4"] == whole.corpus["bleu_4"]
    with pytest.raises(InputError, match="holds no caption files"):
        shards(tmp_path / "nothing*")


def test_webdataset_tars(tmp_path):
    photo = Path(captious.__file__).parent / "demo/photos"
    content = next(p for p in sorted(photo.iterdir()) if p.suffix == ".jpg").read_bytes()
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, raw in (
            ("0.jpg", content), ("0.txt", b"a mountain"), ("1.jpg", content),
            ("1.json", json.dumps({"caption": "a dog", "references": ["one dog"]}).encode()),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    (batch,) = Reader([(str(tmp_path / "a.tar"), "")])
    assert batch.samples.captions() == ["a mountain", "a dog"]
    assert batch.samples.references() == [[], ["one dog"]]
    assert set(batch.samples.evidence.photographs.values()) == {content}


def test_poisson_weights():
    images = poisson.image_hashes([f"i{i}" for i in range(4000)])
    weights = poisson.weights(images, 50, seed=1)
    assert weights.shape == (50, 4000)
    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    assert weights.var() == pytest.approx(1.0, abs=0.02)
    assert np.abs(np.corrcoef(weights[:, :2000])).mean() < 0.05
    np.testing.assert_array_equal(weights[:, 7:9], poisson.weights(images[7:9], 50, seed=1))
    assert not np.array_equal(weights, poisson.weights(images, 50, seed=2))


def test_poisson_intervals_agree_with_the_bootstrap(data, whole, tmp_path):
    place = written(data, tmp_path / "in.parquet")
    corpus = stream(ScoringJob([place], metrics=METRICS), rows=50).corpus
    for column, value in whole.corpus.items():
        assert corpus[column].high - corpus[column].low == pytest.approx(
            value.high - value.low, rel=0.15
        )


def test_histograms():
    histogram = Histogram.over(Column("x", 0.0, 1.0, "")).add(np.array([0.1, 0.5, 0.5, np.nan, 7]))
    assert histogram.counts.sum() == 4
    assert histogram.quantile(0.5) == pytest.approx(0.5, abs=0.01)


@pytest.fixture(scope="module")
def crew():
    executor = Processes(2)
    yield executor
    executor.close()


def test_processes_give_the_same_bits(data, whole, tmp_path, crew):
    place = written(data, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    stream(ScoringJob([place], metrics=METRICS), sink_for(out), executor=crew, rows=30)
    same(captious.ScoreTable.load(out), whole)


def _slow(item: int) -> int:
    time.sleep(0.2)
    return item * item


def _fail(item: int) -> int:
    raise UsageError("no")


def _die(item: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_a_killed_worker_loses_nothing(crew):
    def kill() -> None:
        time.sleep(0.5)
        os.kill(crew._crew[0]._process.pid, signal.SIGKILL)

    list(crew.map(_slow, range(2)))  # both are up
    threading.Thread(target=kill).start()
    assert list(crew.map(_slow, range(10))) == [i * i for i in range(10)]
    with pytest.raises(UsageError, match="no"):
        list(crew.map(_fail, range(3)))
    with pytest.raises(CaptiousError, match="killed 3 times"):
        list(crew.map(_die, range(1)))
    assert list(crew.map(_slow, [3])) == [9]


def test_shards_resume_and_refuse(data, whole, tmp_path, crew):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for i in range(4):
        written(data[50 * i : 50 * i + 50], folder / f"p{i}.parquet")
    job = ScoringJob([folder], metrics=METRICS)
    first = score_shards(job, out, executor=crew)
    for column, value in whole.corpus.items():
        assert first.corpus[column] == pytest.approx(value, rel=1e-12)
    values = np.concatenate([captious.ScoreTable.load(out / f"p{i}.parquet")["cider_d"]
                             for i in range(4)])  # fmt: skip
    np.testing.assert_array_equal(values, whole["cider_d"])
    kept = (out / "p0.parquet").stat().st_mtime_ns
    (out / "p2.parquet").unlink()  # as if the run had been killed there
    again = score_shards(job, out)
    assert again.corpora == first.corpora
    assert (out / "p2.parquet").exists()
    assert (out / "p0.parquet").stat().st_mtime_ns == kept
    with pytest.raises(UsageError, match="another job"):
        score_shards(ScoringJob([folder], metrics="bleu"), out)


def test_a_folder_keeps_signatures(data, tmp_path):
    """Finished files and a run that goes on must have the same tables and weights."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    written(data[:20], folder / "p.parquet")
    table = tmp_path / "df.parquet"
    for part in (data, data[:50]):  # the same name, another content
        samples = CaptionSet.build([r["caption"] for r in part], [r["references"] for r in part])
        document_frequency.count(samples, "ptb", False, "image").save(table)
        job = ScoringJob([folder], metrics=f"cider_d(df={str(table)!r})")
        if part is data:
            score_shards(job, out)
    with pytest.raises(UsageError, match=r"another signature: was cider_d.*is now cider_d"):
        score_shards(job, out)


def test_a_folder_names_what_was_seen(data, tmp_path):
    """Labels are known while a file is scored; the summary of all files names them, too."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in "ab":
        written([r | {"objects": ["dog"]} for r in data[:4]], folder / f"{name}.parquet")
    for _ in range(2):  # scored, then read from what is finished
        summary = score_shards(ScoringJob([folder], metrics="chair"), out)
        single = captious.ScoreTable.load(out / "a.parquet")
        assert "objects:given" in single.signatures["chair_i"]
        assert summary.signatures == single.signatures


def test_from_the_shell(data, tmp_path, capsys):
    place = written(data, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    assert main(["score", str(place), "--stream", "-o", str(out), "-q"]) == 0
    assert "bleu_4" in capsys.readouterr().out
    assert main(["score", str(place), "--stream", "-q", "-m", "bleu_1", "-f", "jsonl"]) == 0
    head, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert head["corpus"]["bleu_1"]["value"] > 0
    assert [line["id"] for line in lines] == [r["id"] for r in data]
    assert main(["score", str(place), "--stream", "-q", "-m", "bleu_1", "-f", "latex"]) == 0
    assert "\\begin{tabular}" in capsys.readouterr().out
    refused = [["--rows", "5"], ["-f", "json", "-o", str(out)], ["--report", "r.html"]]
    for options in refused:
        assert main(["score", str(place), "--stream", "-q", *options]) == 2
    capsys.readouterr()
    assert main(["score", str(place), "-o", str(out), "--workers", "3", "-q"]) == 2
    assert "--engine processes" in capsys.readouterr().err
    assert main(["score", str(tmp_path / "no*.parquet"), "--stream", "-q"]) == 3


def test_a_stored_stream_is_a_table_for_other_verbs(data, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    place, folder = written(data, tmp_path / "in/a.parquet"), tmp_path / "scores"
    for ending in ("parquet", "jsonl", "json"):
        out = str(tmp_path / f"out.{ending}")
        assert main(["score", str(place), "--stream", "-m", "bleu", "-o", out, "-q"]) == 0
        assert is_stored(Path(out))
        assert main(["verify", out]) == 0  # its intervals are not those of a run in memory
        shutil.copy(out, tmp_path / f"again.{ending}")
        assert main(["compare", out, str(tmp_path / f"again.{ending}"), "-q"]) == 0
    assert main(["score", str(place.parent), "-o", str(folder), "-m", "bleu", "-q"]) == 0
    capsys.readouterr()
    assert main(["verify", str(folder / "a.parquet")]) == 2
    assert "one file of a run over many" in capsys.readouterr().err


def test_what_a_killed_writer_left_is_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stale = tmp_path / f".p0.parquet.{gone.pid}.part"
    living = tmp_path / f".p0.parquet.{os.getppid()}.part"
    other = tmp_path / f".p01.parquet.{gone.pid}.part"
    for place in (stale, living, other):
        place.write_text("half")
    files.sweep(tmp_path / "p0.parquet")
    assert sorted(tmp_path.iterdir()) == sorted([living, other])


@pytest.mark.full
def test_a_killed_driver_loses_and_doubles_nothing(tmp_path):
    """kill -9 in the middle; the same command again finishes what is left."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    data = rows(4000, seed=3)
    for i in range(8):
        written(data[500 * i : 500 * i + 500], folder / f"p{i}.parquet")
    command = [sys.executable, "-m", "captious", "score", str(folder), "-o", str(out), "-q",
               "--engine", "processes", "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not list(out.glob("*.parquet")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = {p.name: p.stat().st_mtime_ns for p in out.glob("*.parquet")}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = captious.score(data, metrics=METRICS, intervals=False)
    parts = [captious.ScoreTable.load(out / f"p{i}.parquet") for i in range(8)]
    assert [i for part in parts for i in part.ids] == list(whole.ids)
    np.testing.assert_array_equal(np.concatenate([p["cider_d"] for p in parts]), whole["cider_d"])
    sums = [out / f"p{i}.sums.npz" for i in range(8)]
    finished = [n for n in before if (out / n).with_suffix(".sums.npz") in sums]
    assert all((out / n).stat().st_mtime_ns == before[n] for n in finished)
    assert not [p for p in out.iterdir() if p.name.endswith((".part", ".rows"))]
