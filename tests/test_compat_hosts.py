"""Adapters against their hosts: torchmetrics, evaluate, scikit-learn, lmms-eval, VLMEvalKit."""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

import captious
from captious.compat import fiftyone, harness
from captious.compat.evaluate import compute, module_file
from captious.compat.sklearn import caption_score
from captious.errors import CaptiousError, InputError

CAPTIONS = ["a dog runs on grass", "a red bus", "two men", "a cat sleeps on a bed"]
REFERENCES = [
    ["a dog runs on the grass", "the dog is running"],
    ["a red bus on a street"],
    ["two men stand", "men", "two men with hats"],
    ["a cat is sleeping on the bed"],
]
ALL = ["bleu", "rouge_l", "cider_d", "cider_d(df='coco-val')", "meteor"]


@pytest.fixture(scope="module")
def corpus():
    return captious.score(CAPTIONS, REFERENCES, metrics=ALL, intervals=False).corpus


# -- torchmetrics ----------------------------------------------------------------------------------


@pytest.fixture
def ours():
    pytest.importorskip("torchmetrics", reason="the host torchmetrics is not installed")
    from captious.compat import torchmetrics

    return torchmetrics


def test_classes_of_torchmetrics(ours, corpus):
    import torch
    import torchmetrics

    for metric in (ours.RougeL(), ours.CiderD(), ours.CiderD(df="coco-val"), ours.Meteor()):
        assert isinstance(metric, torchmetrics.Metric)
        for i in range(4):  # batch by batch
            metric.update(CAPTIONS[i : i + 1], REFERENCES[i : i + 1])
        name = "cider_d(df='coco-val')" if metric.metric.parameters().get("df") == "coco-val" else (
            metric.metric.name)  # fmt: skip
        assert float(metric.compute()) == pytest.approx(corpus[name], rel=1e-12)
        again = pickle.loads(pickle.dumps(metric))
        assert torch.equal(again.compute(), metric.compute())
        again.update(["a dog"], [["a dog"]])
        metric.reset()
        assert np.isnan(float(_quiet(metric.compute)))
    bleu = ours.Bleu()
    first = bleu(CAPTIONS[:1], REFERENCES[:1])
    assert set(first) == {"bleu_1", "bleu_2", "bleu_3", "bleu_4"}
    bleu(CAPTIONS[1:], REFERENCES[1:])
    assert float(bleu.compute()["bleu_2"]) == pytest.approx(corpus["bleu_2"], rel=1e-12)
    assert bleu.higher_is_better
    assert (bleu.plot_lower_bound, bleu.plot_upper_bound) == (0.0, 1.0)
    with pytest.raises(AttributeError):
        ours.NoSuchMetric  # noqa: B018
    assert {"Bleu", "CiderD", "Spice", "Tiger"} <= set(dir(ours))


def _quiet(call):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def test_a_collection(ours, corpus):
    from torchmetrics import MetricCollection

    both = MetricCollection({"cider": ours.CiderD(df="coco-val"), "bleu": ours.Bleu(),
                             "rouge": ours.CaptionMetric("rouge_l")})  # fmt: skip
    both.update(CAPTIONS[:2], REFERENCES[:2])
    both.update(CAPTIONS[2:], REFERENCES[2:])
    found = both.compute()
    assert float(found["cider"]) == pytest.approx(corpus["cider_d(df='coco-val')"])
    assert float(found["bleu_4"]) == pytest.approx(corpus["bleu_4"])
    assert float(found["rouge"]) == pytest.approx(corpus["rouge_l"])


def test_bad_use_leaves_the_state(ours, corpus):
    for metric in (ours.RougeL(), ours.CiderD()):
        metric.update(CAPTIONS[:2], REFERENCES[:2])
        before = float(metric.compute())
        for call in (metric.update, metric):  # forward computes on an emptied state
            with pytest.raises(ValueError, match=r"preds\[1\] is int"):
                call(["a", 3], [["a"], ["b"]])
            with pytest.raises(ValueError, match="2 captions, target has 1"):
                call(["a", "b"], [["a"]])
            with pytest.raises(ValueError, match=r"target\[0\]: the caption has no reference"):
                call(["a", "b"], [None, ["a"]])
            with pytest.raises(ValueError, match=r"target\[1\]: references are a list"):
                call(["a", "b"], [["a"], 3])
            with pytest.raises(ValueError, match="preds is a list"):
                call(3, [["a"]])
            assert float(_quiet(metric.compute)) == before
        metric.update(CAPTIONS[2:], REFERENCES[2:])
        metric_name = metric.metric.name
        assert float(metric.compute()) == pytest.approx(corpus[metric_name], rel=1e-12)
    with pytest.raises(ValueError, match="name a metric"):
        ours.CaptionMetric()


def test_batches_of_one_image(ours, corpus):
    """CIDEr of one image is not defined: a step says NaN, the epoch has its value."""
    metric = ours.CiderD()
    metric.update(CAPTIONS[:1], REFERENCES[:1])
    with pytest.raises(ValueError, match="at least two images"):
        metric.compute()
    metric.reset()
    for i in range(4):
        assert np.isnan(float(metric(CAPTIONS[i : i + 1], REFERENCES[i : i + 1])))
    assert float(metric.compute()) == pytest.approx(corpus["cider_d"], rel=1e-12)


def test_labels_and_pictures_in_memory(ours):
    """What metrics look at arrives as it does in captious.score, whether texts are kept or not."""
    labels = [["dog"], ["bus"]]
    chair = ours.Chair()
    chair.update(["a dog and a cat", "a bus"], [["a dog"], ["a bus"]], objects=labels)
    found = chair.compute()
    assert (float(found["chair_s"]), float(found["chair_i"])) == (0.5, pytest.approx(1 / 3))
    with pytest.raises(ValueError, match="chair needs object labels"):
        ours.Chair().update(["a dog"], [["a dog"]])
    both = ours.VifidelCider()
    assert both.keeps_texts
    with pytest.raises(ValueError, match="needs object labels"):
        both.update(["a dog"], [["a dog"]])  # at once, not at the end of the epoch
    both.update(CAPTIONS[:1], REFERENCES[:1], objects=labels[:1])
    both.update(CAPTIONS[1:2], REFERENCES[1:2], objects=labels[1:])
    whole = captious.score(CAPTIONS[:2], REFERENCES[:2], objects=labels, metrics="vifidel_cider")
    assert float(both.compute()) == pytest.approx(whole.corpus["vifidel_cider"], rel=1e-12)
    from captious.compat.torchmetrics import _opened, _written

    picture = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    from PIL import Image

    back = Image.open(io.BytesIO(_opened(_written(picture, "images[0]"))))
    np.testing.assert_array_equal(np.asarray(back), picture)
    assert _opened(_written("a.jpg", "images[0]")) == "a.jpg"


def test_a_metric_that_compares_captions(ours):
    """Diversity counts on the captions themselves, in whatever batches they come."""
    metric = ours.Diversity()
    metric.update(["a dog runs", "a cat"])
    metric.update(["a dog runs"])
    expected = captious.score(["a dog runs", "a cat", "a dog runs"], metrics="diversity").corpus
    found = metric.compute()
    assert float(found["div_1"]) == expected["div_1"] == 1.0
    assert float(found["vocabulary"]) == pytest.approx(4.0)


_WORKER = """
import sys, torch.distributed as dist
rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
sys.path.insert(0, sys.argv[3])
from test_compat_hosts import CAPTIONS, REFERENCES
from captious.compat.torchmetrics import Bleu, CiderD
mine = slice(0, 1) if rank == 0 else slice(1, 4)
for metric in (CiderD(), CiderD(df="coco-val"), Bleu()):
    metric.update(CAPTIONS[mine], REFERENCES[mine])
    found = metric.compute()
    print(float(found["bleu_4"] if isinstance(found, dict) else found))
dist.destroy_process_group()
"""


def test_two_processes(ours, corpus, tmp_path, request):
    tail = [str(tmp_path / "meet"), str(request.path.parent)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    workers = [
        subprocess.Popen([sys.executable, "-c", _WORKER, rank, *tail], **pipes) for rank in "01"
    ]
    expected = [corpus["cider_d"], corpus["cider_d(df='coco-val')"], corpus["bleu_4"]]
    for worker in workers:
        out, err = worker.communicate(timeout=300)
        assert worker.returncode == 0, err
        assert [float(line) for line in out.split()] == pytest.approx(expected, rel=1e-12)


# -- evaluate --------------------------------------------------------------------------------------


def test_compute_as_evaluate_does(corpus):
    found = compute(predictions=CAPTIONS, references=REFERENCES, metrics=["cider_d", "bleu_4"])
    assert found == {"cider_d": corpus["cider_d"], "bleu_4": corpus["bleu_4"]}
    single = compute(predictions=["a dog"], references=["a dog"], metrics="rouge_l")
    assert single == {"rouge_l": 1.0}
    with pytest.raises(ValueError, match=r"predictions\[1\] is int.*\nreferences\[0\]: the cap"):
        compute(predictions=["a", 4], references=[None, ["b"]])
    with pytest.raises(ValueError, match=r"references\[1\]\[0\] is int"):
        compute(predictions=["a", "b"], references=[["a"], [4]])
    assert compute(predictions=["a dog a dog"], metrics="distinct") == {"distinct": 0.5}


@pytest.mark.filterwarnings("ignore")
def test_the_module_that_evaluate_loads(corpus, tmp_path):
    evaluate = pytest.importorskip("evaluate", reason="the host evaluate is not installed")
    metric = evaluate.load(module_file(), "cider_d", cache_dir=str(tmp_path))
    found = metric.compute(predictions=CAPTIONS, references=REFERENCES)
    assert found == {"cider_d": pytest.approx(corpus["cider_d"])}
    metric = evaluate.load(module_file(), cache_dir=str(tmp_path))
    metric.add_batch(predictions=CAPTIONS[:2], references=REFERENCES[:2])
    metric.add_batch(predictions=CAPTIONS[2:], references=REFERENCES[2:])
    assert metric.compute()["bleu_4"] == pytest.approx(corpus["bleu_4"])


# -- scikit-learn ----------------------------------------------------------------------------------


def test_a_score_of_scikit_learn(corpus):
    assert caption_score(REFERENCES, CAPTIONS) == corpus["cider_d"]
    assert caption_score(["a dog"], np.array(["a dog"]), metric="rouge_l") == 1.0
    with pytest.raises(captious.CaptiousError, match="several columns"):
        caption_score(REFERENCES, CAPTIONS, metric="bleu")
    with pytest.raises(ValueError, match="3 captions"):
        caption_score(REFERENCES, CAPTIONS[:3])
    with pytest.raises(ValueError, match=r"y_true\[0\]: the caption has no reference"):
        caption_score([None, *REFERENCES[1:]], CAPTIONS)
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    base = pytest.importorskip("sklearn.base")

    class Parrot(base.BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return list(X)

    judge = metrics.make_scorer(caption_score, metric="bleu_4")
    assert judge(Parrot(), CAPTIONS, REFERENCES) == pytest.approx(corpus["bleu_4"])


# -- lmms-eval and VLMEvalKit ----------------------------------------------------------------------


def test_aggregations_of_lmms_eval(corpus):
    results = [
        {"answer": r, "pred": c, "image_id": 10 + i, "id": i}
        for i, (c, r) in enumerate(zip(CAPTIONS, REFERENCES, strict=True))
    ]
    assert harness.coco_cider(results, None) == pytest.approx(corpus["cider_d"])
    assert harness.coco_bleu4(results) == pytest.approx(corpus["bleu_4"])
    assert harness.coco_bleu1(results, args=None) == pytest.approx(corpus["bleu_1"])
    assert harness.coco_rougel(results) == pytest.approx(corpus["rouge_l"])
    assert harness.coco_meteor(results) == pytest.approx(corpus["meteor"])
    with pytest.raises(KeyError, match=r"results\[1\] has no 'pred'"):
        harness.coco_cider([results[0], {"answer": ["a"], "image_id": 1}])
    with pytest.raises(TypeError, match=r"results\[0\]"):
        harness.coco_cider([results[0] | {"pred": None}])
    with pytest.raises(KeyError, match="CIDEr"):
        harness.coco_aggregation_result(results, "CIDER")


@pytest.mark.filterwarnings("ignore")
def test_the_aggregations_are_those_of_lmms_eval_itself(tmp_path, monkeypatch, capsys):
    """Its own task files, with capitals and punctuation that its tokeniser (Java) cuts."""
    host = pytest.importorskip("lmms_eval", reason="the host lmms-eval is not installed")
    pytest.importorskip("pycocotools", reason="pycocotools is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    monkeypatch.chdir(tmp_path)  # it writes submission files
    tasks = types.ModuleType("lmms_eval.tasks")  # the package itself imports every model
    tasks.__path__ = [f"{host.__path__[0]}/tasks"]
    monkeypatch.setitem(sys.modules, "lmms_eval.tasks", tasks)
    results = [
        {"answer": ["A dog runs on the grass.", "the dog is running!"], "pred": "A dog, on grass",
         "image_id": 7, "id": 0},
        {"answer": ["a red bus on a street", "Bus."], "pred": "A red BUS", "image_id": 9, "id": 1},
        {"answer": ["two men stand", "men"], "pred": "two men", "image_id": 11, "id": 2},
    ]  # fmt: skip
    for task, prefix in (("coco_cap", "coco"), ("flickr30k", "flickr"), ("nocaps", "nocaps")):
        theirs = importlib.import_module(f"lmms_eval.tasks.{task}.utils")
        for what in ("bleu4", "rougel", "cider", "meteor"):
            expected = getattr(theirs, f"{prefix}_{what}")(results, None)
            found = getattr(harness, f"{prefix}_{what}")(results, None)
            assert found == pytest.approx(expected, rel=1e-11), (task, what)


def test_the_scorer_of_vlmevalkit_does_not_tokenise(capsys):
    """VLMEvalKit hands raw texts to pycocoevalcap's scorers; so do we."""
    bleu = pytest.importorskip("pycocoevalcap.bleu.bleu", reason="pycocoevalcap is not installed")
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    ref = {"0": ["A dog, on grass."], "1": ["a  red Bus"], "2": ["two men"]}
    gt = {"0": ["A dog on grass.", "a dog"], "1": ["a red bus", "Bus"], "2": ["two men stand"]}
    found = harness.COCO_Caption_Scorer(ref, gt).compute_scores()
    expected = bleu.Bleu(4).compute_score(gt, ref)[0]
    assert found["Bleu"] == pytest.approx([100 * value for value in expected], rel=1e-11)
    assert found["ROUGE_L"] == pytest.approx(100 * Rouge().compute_score(gt, ref)[0], rel=1e-11)
    assert found["CIDEr"] == pytest.approx(100 * Cider().compute_score(gt, ref)[0], rel=1e-11)


def test_the_scorer_of_vlmevalkit(corpus, capsys):
    ref = {i: [c] for i, c in enumerate(CAPTIONS)}
    judge = harness.COCO_Caption_Scorer(ref, dict(enumerate(REFERENCES)))
    found = judge.compute_scores()
    assert list(found) == ["Bleu", "ROUGE_L", "CIDEr"]
    assert found["Bleu"][3] == pytest.approx(100 * corpus["bleu_4"])
    assert found["CIDEr"] == pytest.approx(100 * corpus["cider_d"])
    assert "*****DONE*****" in capsys.readouterr().out


def test_hosts_are_imported_when_used():
    code = (
        "import sys, captious, captious.compat.evaluate, captious.compat.sklearn\n"
        "import captious.compat.harness, captious.compat.rewards, captious.compat.pycocoevalcap\n"
        "hosts = ['torch', 'torchmetrics', 'evaluate', 'datasets', 'sklearn', 'trl']\n"
        "print([h for h in [*hosts, 'pycocoevalcap', 'pycocotools'] if h in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_other_tasks_of_lmms_eval_have_their_names():
    assert harness.flickr_cider is harness.coco_cider
    assert harness.nocaps_bleu4 is harness.coco_bleu4
    assert harness.textcaps_aggregation_result is harness.coco_aggregation_result
    with pytest.raises(AttributeError, match="flickr_nothing"):
        harness.flickr_nothing  # noqa: B018


class _Sample:
    """The documented interface of fiftyone.Sample: a path, and fields of any name."""

    def __init__(self, filepath, tags=None, metadata=None, **fields):
        assert all(re.fullmatch(r"[A-Za-z]\w*", name) for name in fields)
        self.filepath, self.fields = filepath, fields

    def __getitem__(self, name):
        return self.filepath if name == "filepath" else self.fields[name]


class _Dataset(list):
    """The documented interface of fiftyone.Dataset."""

    def __init__(self, name=None, persistent=False, overwrite=False):
        super().__init__()
        self.name, self.persistent = name, persistent

    def add_samples(self, samples):
        self.extend(samples)


def scored_with_photographs():
    return captious.score(
        {"x": "a dog", "y": ""},
        {"x": ["a dog runs", "one dog"], "y": []},
        images={"x": "/photos/x.jpg", "y": "/photos/y.jpg"},
        metrics=["bleu", "distinct"],
        intervals=False,
    )


def check_fiftyone(made, table):
    first, second = list(made)
    assert (first["filepath"], second["filepath"]) == ("/photos/x.jpg", "/photos/y.jpg")
    assert (first["caption"], list(first["references"])) == ("a dog", ["a dog runs", "one dog"])
    assert [first["caption_id"], second["caption_id"]] == ["x", "y"]
    assert first["bleu_1"] == table["bleu_1"][0]
    missing = [n for n, v in table.values.items() if np.isnan(v[1])]
    assert missing
    assert all(second[name] is None for name in missing)


def test_a_dataset_of_fiftyone(monkeypatch):
    """By the documented interface: FiftyOne itself needs a database server."""
    host = types.ModuleType("fiftyone")
    host.Sample, host.Dataset = _Sample, _Dataset
    host.__spec__ = importlib.util.spec_from_loader("fiftyone", None)
    monkeypatch.setitem(sys.modules, "fiftyone", host)
    table = scored_with_photographs()
    made = fiftyone.dataset(table, "captions", persistent=True)
    assert (made.name, made.persistent) == ("captions", True)
    check_fiftyone(made, table)

    def tags(caption):
        return float(len(caption))

    three = ["rouge_l", "rouge_l(tokenizer='intl')", tags]
    crowd = captious.score(["a dog"], [["a dog"]], images=["x.jpg"], metrics=three, intervals=False)
    (only,) = fiftyone.dataset(crowd)
    assert sorted(only.fields)[-3:] == ["rouge_l_tokenizer_intl", "system", "tags_2"]
    assert only["tags_2"] == 5.0  # a sample of FiftyOne has tags of its own
    bare = captious.score(["a dog"], [["a dog"]], metrics="bleu", intervals=False)
    with pytest.raises(InputError, match="have no photograph"):
        fiftyone.dataset(bare)


@pytest.mark.filterwarnings("ignore")  # FiftyOne's packages warn of each other
def test_a_dataset_in_fiftyone_itself():
    """FiftyOne needs a MongoDB: its own, or one named by FIFTYONE_DATABASE_URI."""
    host = pytest.importorskip("fiftyone", reason="the host fiftyone is not installed")
    table = scored_with_photographs()
    made = fiftyone.dataset(table)
    try:
        check_fiftyone(made, table)
        fields = made.get_field_schema()
        assert isinstance(fields["bleu_1"], host.FloatField)
        assert isinstance(fields["references"], host.ListField)
        best = made.sort_by("distinct", reverse=True).first()  # the number is one to sort by
        assert best["distinct"] == max(table["distinct"])
        assert made.match(host.ViewField("bleu_1") > 0.5).values("caption") == ["a dog"]
        with pytest.raises(ValueError, match=made.name):
            fiftyone.dataset(table, made.name)  # the host's own error: the name is taken
        assert len(fiftyone.dataset(table, made.name, overwrite=True)) == 2
    finally:
        host.delete_dataset(made.name)


def test_without_fiftyone_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    monkeypatch.setattr(fiftyone, "find_spec", lambda name: None)
    with pytest.raises(CaptiousError, match="pip install fiftyone"):
        fiftyone.dataset(scored_with_photographs())


def test_a_table_of_wandb(tmp_path, monkeypatch):
    """What the page about plugging in says to log."""
    wandb = pytest.importorskip("wandb", reason="the host wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    table = scored_with_photographs()
    made = wandb.Table(dataframe=table.to_pandas())
    assert {"id", "caption", "bleu_1"} <= set(made.columns)
    assert len(made.data) == 2
    assert made.data[0][made.columns.index("bleu_1")] == table["bleu_1"][0]
    assert all(type(float(value)) is float for value in table.corpus.values())


def test_the_frame_for_wandb_has_every_column_once():
    table = scored_with_photographs()
    frame = table.to_pandas()
    assert list(frame.columns) == list(dict.fromkeys(frame.columns))
    assert {"id", "caption", *table.values} <= set(frame.columns)
    np.testing.assert_array_equal(frame["bleu_1"], table["bleu_1"])
