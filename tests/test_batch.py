"""The operator on Arrow tables, and its adapters in their hosts."""

from __future__ import annotations

import io
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import captious
from captious.batch import ERROR, SIGNATURE, Scorer
from captious.compat.spark import ScoreBatches
from captious.errors import CaptiousError, UsageError

PHOTOS = sorted((Path(captious.__file__).parent / "demo/photos").glob("*.jpg"))[:2]
TABLE = pa.table(
    {
        "k": list(range(6)),
        "text": ["a dog runs", None, "a cat", "", "x" * 200_000, "a red bus"],
        "references": [["a dog is running"], ["y"], None, ["a"], ["b"], ["the red bus", "a bus"]],
    }
)
COLUMNS = {"caption": "text"}
METRICS = ["bleu", "cider_d"]


def check(out: pa.Table) -> None:
    assert out["k"].to_pylist() == list(range(6))
    references = [["a dog is running"], ["the red bus", "a bus"]]
    expected = captious.scorer(METRICS)(["a dog runs", "a red bus"], references)
    for name in ("bleu_1", "bleu_4", "cider_d"):
        values = out[name].to_pylist()
        assert [values[0], values[5]] == pytest.approx(expected.per_caption[name].tolist())
        assert all(values[i] is None or np.isnan(values[i]) for i in (1, 2, 4))
    errors = out[ERROR].to_pylist()
    assert "missing" in errors[1]
    assert "it has no reference" in errors[2]
    assert "characters" in errors[4]
    assert {errors[i] for i in (0, 3, 5)} == {None}
    assert "coco-val" in out[SIGNATURE][0].as_py()


def test_rows_stay_and_none_raises():
    scorer = pickle.loads(pickle.dumps(Scorer(METRICS, COLUMNS)))
    out = scorer(TABLE)
    check(out)
    assert out.select(TABLE.column_names).equals(TABLE)
    assert out.schema.names[3:] == [f.name for f in scorer.fields]
    assert scorer(TABLE.slice(0, 0)).num_rows == 0
    assert scorer(out).schema.equals(out.schema)  # a second time replaces


def test_a_metric_that_raises_costs_one_row():
    def shy(caption: str, references: list[str]) -> float:
        if "cat" in caption:
            raise RuntimeError("no cats")
        return float(len(caption))

    rows = pa.table({"caption": ["a dog", "a cat", "bus"], "references": [["a"]] * 3})
    out = Scorer(shy)(rows)
    values = out["shy"].to_pylist()
    assert (values[0], values[2]) == (5.0, 3.0)
    assert np.isnan(values[1])
    assert "no cats" in out[ERROR][1].as_py()


def test_pictures_of_every_kind():
    pytest.importorskip("torch", reason="torch is not installed")
    from PIL import Image

    path = str(PHOTOS[0])
    raw = PHOTOS[0].read_bytes()
    pixels = np.asarray(Image.open(path).convert("RGB"))[:40, :50]
    scorer = Scorer("fit")
    kinds = [
        {"image": [raw]},
        {"jpg": [raw]},
        {"image": [{"bytes": raw, "path": None}]},
        {"image": [f"file://{path}"]},
    ]
    for kind in kinds:
        batch = scorer._batch(pa.table({"caption": ["a mountain"], **kind}))
        assert list(batch.samples.evidence.photographs.values()) == [raw]
    batch = scorer._batch(pa.table({"caption": ["x"], "image": pa.array([pixels.tolist()])}))
    (encoded,) = batch.samples.evidence.photographs.values()
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encoded))), pixels)
    images = pa.array([path, "/no/such.jpg"])
    out = scorer(pa.table({"caption": ["a mountain"] * 2, "image": images}))
    assert "no photograph" in out[ERROR][1].as_py()
    mixed = scorer(pa.table({"caption": ["a", "a mountain"], "image": [b"no picture", raw]}))
    assert mixed[ERROR][0].as_py()
    assert mixed["fit"][1].as_py() == pytest.approx(out["fit"][0].as_py(), abs=2e-6)


def test_wrong_columns():
    with pytest.raises(UsageError, match="no part of a sample"):
        Scorer("bleu", {"captoin": "text"})
    with pytest.raises(UsageError, match="no column 'words'"):
        Scorer("bleu", {"caption": "words"})(TABLE)


def test_spark_function_on_arrow_batches():
    """What Spark's mapInArrow calls: an iterator of batches in, one of batches out."""
    scorer = Scorer(METRICS, COLUMNS)
    function = pickle.loads(pickle.dumps(ScoreBatches(scorer)))
    check(pa.Table.from_batches(list(function(iter(TABLE.to_batches())))))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of PySpark, about pandas 3
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets of py4j
def test_spark(monkeypatch):
    """A session of one core: workers are processes of Spark that load the scorer themselves."""
    sql = pytest.importorskip("pyspark.sql", reason="the host pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("the host pyspark is not installed: no Java")
    from captious.compat import spark as ours

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    made = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for option in ("spark.driver.host", "spark.driver.bindAddress"):
        made = made.config(option, "127.0.0.1")
    session = made.config("spark.sql.execution.arrow.maxRecordsPerBatch", "4").getOrCreate()
    try:
        frame = ours.score(session.createDataFrame(TABLE), METRICS, columns=COLUMNS)
        check(frame.toArrow())
        # Scored again, beside a struct whose fields have names that SQL would need to quote.
        odd = pa.array([{"a b": k} for k in range(6)])
        again = session.createDataFrame(frame.toArrow().append_column("odd name", odd))
        twice = ours.score(again, METRICS, columns=COLUMNS).toArrow()
        check(twice)
        assert twice["odd name"].to_pylist() == odd.to_pylist()
    finally:
        session.stop()


@pytest.mark.filterwarnings("ignore")  # Curator, Xenna and Ray warn of themselves
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_nemo_curator(kind):
    """A pipeline of one stage, in Ray."""
    pytest.importorskip("nemo_curator", reason="the host nemo_curator is not installed")
    import ray
    from nemo_curator.backends.ray_data import RayDataExecutor
    from nemo_curator.pipeline import Pipeline
    from nemo_curator.tasks import DocumentBatch

    from captious.compat.nemo_curator import stage

    data = TABLE if kind == "arrow" else TABLE.to_pandas()
    pipeline = Pipeline("scores")
    pipeline.add_stage(stage(METRICS, columns=COLUMNS))
    try:
        [task] = pipeline.run(RayDataExecutor(), initial_tasks=[DocumentBatch("captions", data)])
    finally:
        ray.shutdown()
    assert isinstance(task.data, type(data))
    check(task.to_pyarrow())


def test_adapters_are_small():
    folder = Path(captious.__file__).parent / "compat"
    for name in ("ray_data", "daft", "spark", "data_juicer", "nemo_curator"):
        lines = (folder / f"{name}.py").read_text().splitlines()
        code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        assert len(code) < 60, name


def test_daft():
    daft = pytest.importorskip("daft", reason="the host daft is not installed")
    from captious.compat import daft as ours

    check(ours.score(daft.from_arrow(TABLE), METRICS, columns=COLUMNS).to_arrow())


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")  # Ray Data warns of itself
def test_ray(tmp_path):
    ray = pytest.importorskip("ray", reason="the host ray is not installed")
    import pyarrow.parquet as pq

    from captious.compat import ray_data
    from captious.engine.executors import named
    from captious.engine.job import ScoringJob
    from captious.engine.shards import score_shards

    executor = named("ray", 2)
    try:
        frame = ray_data.score(ray.data.from_arrow(TABLE), METRICS, columns=COLUMNS).to_pandas()
        check(pa.Table.from_pandas(frame.sort_values("k"), preserve_index=False))
        whole = pa.table({"caption": ["a dog runs", "a red bus", "two men", "a cat"] * 5,
                          "references": [["a dog"], ["the red bus"], ["men"], ["cats"]] * 5,
                          "id": [f"i{i}" for i in range(20)]})  # fmt: skip
        (tmp_path / "in").mkdir()
        for i in range(4):
            pq.write_table(whole.slice(5 * i, 5), tmp_path / f"in/{i}.parquet")
        job = ScoringJob([tmp_path / "in"])
        score_shards(job, tmp_path / "out", executor=executor)
        expected = captious.score(whole)
        found = [captious.ScoreTable.load(tmp_path / f"out/{i}.parquet")["cider_d"]
                 for i in range(4)]  # fmt: skip
        np.testing.assert_array_equal(np.concatenate(found), expected["cider_d"])
    finally:
        ray.shutdown()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_ray_shares_a_gpu(caplog):
    """Ray only counts here: a cluster that says that it has a GPU has one to share out."""
    ray = pytest.importorskip("ray", reason="the host ray is not installed")
    from captious.engine.executors import named

    def accelerators(_: int) -> list[str]:  # travels by value: workers do not see this file
        return ray.get_runtime_context().get_accelerator_ids()["GPU"]

    def said() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == "captious"]

    ray.init(num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        executor = named("ray", gpus=0.5)
        assert executor.workers == 2
        assert list(executor.map(accelerators, range(4))) == [["0"]] * 4
        assert said() == []
        named("ray", 3, gpus=0.5)
        assert "room for 2 of 3 workers" in said()[0]
        with pytest.raises(CaptiousError, match="Every node of the cluster needs captious"):
            list(executor.map(_here, range(1)))
    finally:
        ray.shutdown()


def _here(_: int) -> None:
    """A function that workers look for in this file, which they do not have."""


def test_gpus_are_for_ray():
    from captious.engine.executors import named

    with pytest.raises(UsageError, match="--engine ray"):
        named("processes", 2, gpus=0.5)
    with pytest.raises(UsageError, match="or a fraction"):
        named("ray", 2, gpus=-1)


def test_data_juicer():
    pytest.importorskip("data_juicer", reason="the host data_juicer is not installed")
    from data_juicer.core.data import NestedDataset

    from captious.compat.data_juicer import CaptiousFilter, CaptiousMapper

    rows = [{"text": t, "references": r} for t, r in
            [("a dog runs", ["a dog runs"]), ("a cat", ["red bus"])]]  # fmt: skip
    data = NestedDataset.from_list(rows)
    scored = CaptiousMapper(["rouge_l"]).run(data)
    assert scored["rouge_l"][0] == pytest.approx(1.0)
    kept = CaptiousFilter(["rouge_l"], score="rouge_l", min_score=0.5).run(data)
    assert [row["text"] for row in kept] == ["a dog runs"]
