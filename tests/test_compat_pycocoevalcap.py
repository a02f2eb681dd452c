"""The drop-in for pycocoevalcap against pycocoevalcap 1.2 itself, number by number (Java)."""

from __future__ import annotations

import json
import math
import re
import shutil
import warnings

import numpy as np
import pytest

from captious import demo
from captious.compat import pycocoevalcap as ours

real = pytest.importorskip("pycocoevalcap.eval", reason="the host pycocoevalcap is not installed")
java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:SPICE is computed with the parser of captious"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ODD = {
    901: ("", ["a dog", "nothing here"]),
    902: ("A man's hat (red), isn't it?", ["a hat-rack & co.", "It's $5.00 at 10:30 a.m."]),
    903: ("the the the the the", ["the cat sat on the mat"]),
    905: ("two  dogs\nrun", ["Two dogs run.", "dogs; running..."]),
    904: ("a well-known skate-boarder", ["a skateboarder does a trick"] * 3),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """COCO annotations and results: the demo's captions, and odd ones."""
    references = json.loads(demo.references_file().read_text())
    lines = [json.loads(line) for line in demo.captions_file().read_text().splitlines()]
    captions = {}
    for line in lines:
        captions.setdefault(
            line.get("image", line.get("image_id", line.get("id"))), line["caption"]
        )
    rows = {
        100 + i: (captions.get(name, refs[-1]), refs[:-1])
        for i, (name, refs) in enumerate(references.items())
    } | ODD
    folder = tmp_path_factory.mktemp("coco")
    annotations = [
        {"image_id": image, "id": 10 * image + j, "caption": text}
        for image, (_, texts) in rows.items()
        for j, text in enumerate(texts)
    ]
    data = {"images": [{"id": i} for i in rows], "annotations": annotations, "type": "captions"}
    (folder / "ann.json").write_text(json.dumps(data | {"info": {}, "licenses": []}))
    results = [{"image_id": i, "caption": c} for i, (c, _) in rows.items()]
    (folder / "res.json").write_text(json.dumps(results))
    return folder / "ann.json", folder / "res.json"


def loaded(files):
    COCO = pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed").COCO
    coco = COCO(str(files[0]))
    return coco, coco.loadRes(str(files[1]))


def same(mine, theirs):
    """Compare values that may be dictionaries, lists, arrays or numbers."""
    if isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        for key in theirs:
            same(mine[key], theirs[key])
    elif isinstance(theirs, list | np.ndarray):
        assert type(mine) is type(theirs)
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            same(a, b)
    elif isinstance(theirs, float):
        assert isinstance(mine, float)
        assert mine == pytest.approx(theirs, rel=1e-11, abs=1e-14) or (
            math.isnan(mine) and math.isnan(theirs)
        )
    else:
        assert mine == theirs


@java
@pytest.mark.parametrize("subset", [False, True])
def test_the_whole_evaluation(files, monkeypatch, capsys, subset):
    # Its SPICE downloads Stanford's models; ours stands in, so that everything else runs.
    monkeypatch.setattr(real, "Spice", ours.Spice)
    coco, results = loaded(files)
    done, said = [], []
    for module in (real, ours):
        capsys.readouterr()
        judge = module.COCOEvalCap(coco, results)
        if subset:
            judge.params["image_id"] = sorted(results.getImgIds())[2:]
        judge.evaluate()
        said.append(capsys.readouterr().out)
        done.append(judge)
    theirs, mine = done
    same(mine.eval, theirs.eval)
    assert list(mine.eval) == [*(f"Bleu_{n}" for n in range(1, 5)), "METEOR", "ROUGE_L", "CIDEr",
                               "SPICE"]  # fmt: skip
    if subset:
        same(mine.imgToEval, theirs.imgToEval)
        same(mine.evalImgs, theirs.evalImgs)
    assert numbered(said[1]) == numbered(said[0])


def numbered(text):
    """Cut printed numbers to twelve digits."""
    return re.sub(r"\d+\.\d{4,}", lambda m: f"{float(m[0]):.12g}", text)


@java
def test_tokens(files):
    coco, results = loaded(files)
    for some in (coco, results):
        given = {i: some.imgToAnns[i] for i in some.getImgIds()}
        assert ours.PTBTokenizer().tokenize(given) == real.PTBTokenizer().tokenize(given)


@java
def test_every_scorer_alone(files, capsys):
    coco, results = loaded(files)
    tokenizer = ours.PTBTokenizer()
    gts = tokenizer.tokenize({i: coco.imgToAnns[i] for i in coco.getImgIds()})
    res = tokenizer.tokenize({i: results.imgToAnns[i] for i in coco.getImgIds()})
    gts[77], res[77] = ["", "a b"], [""]  # ROUGE-L of nothing against nothing is 1 there
    for name, arguments in [("Rouge", ()), ("Cider", ()), ("Cider", (None, None, 4, 3.0)),
                            ("Bleu", ()), ("Bleu", (2,))]:  # fmt: skip
        mine, theirs = getattr(ours, name)(*arguments), getattr(real, name)(*arguments)
        assert mine.method() == theirs.method()
        same(list(mine.compute_score(gts, res)), list(theirs.compute_score(gts, res)))
    assert ours.Bleu().compute_score(gts, res, verbose=0)[0]
    assert ours.Rouge().calc_score(["a b"], ["a c"]) == real.Rouge().calc_score(["a b"], ["a c"])
    del gts[77], res[77]
    same(list(ours.Meteor().compute_score(gts, res)), list(real.Meteor().compute_score(gts, res)))


def test_one_image_has_no_cider():
    mine = ours.Cider()
    with pytest.warns(UserWarning, match="CIDEr of one image is 0"):
        score, scores = mine.compute_score({1: ["a dog"]}, {1: ["a dog"]})
    theirs = real.Cider().compute_score({1: ["a dog"]}, {1: ["a dog"]})
    assert (score, scores.tolist()) == (theirs[0], theirs[1].tolist()) == (0.0, [0.0])


def test_self_critical_training(capsys):
    """The call sequence of get_self_critical_reward: word numbers as text, samples and greedy."""
    gts = {i: [f"{i} 2 3 0", f"{i} 2 4 0"] for i in range(4)}
    res = {i: [f"{i % 3} 2 3 0"] for i in range(4)}
    for name in ("Bleu", "Cider"):
        _, mine = getattr(ours, name)(4).compute_score(gts, res) if name == "Bleu" else (
            ours.Cider().compute_score(gts, res))  # fmt: skip
        _, theirs = getattr(real, name)().compute_score(gts, res)
        np.testing.assert_allclose(np.array(mine), np.array(theirs), rtol=1e-11)


def lavis(module, files, results_file):
    """``coco_caption_eval`` of LAVIS (lavis/tasks/captioning.py; BLIP has the same)."""
    from pycocotools.coco import COCO

    coco = COCO(str(files[0]))
    coco_result = coco.loadRes(results_file)
    coco_eval = module.COCOEvalCap(coco, coco_result)
    coco_eval.params["image_id"] = coco_result.getImgIds()
    coco_eval.evaluate()
    for metric, score in coco_eval.eval.items():
        print(f"{metric}: {score:.3f}")
    return {
        "agg_metrics": coco_eval.eval["CIDEr"] + coco_eval.eval["Bleu_4"],
        "by image": {entry["image_id"]: entry["CIDEr"] for entry in coco_eval.evalImgs},
    }


def lmms_eval(module, files, metric):
    """``coco_aggregation_result`` of lmms-eval (tasks/coco_cap/utils.py): COCO without a file."""
    from pycocotools.coco import COCO

    kinds = {"METEOR": module.Meteor, "ROUGE_L": module.Rouge, "CIDEr": module.Cider}
    scorer = kinds[metric]() if metric in kinds else module.Bleu(4)
    given = json.loads(files[0].read_text())
    coco = COCO()
    coco.dataset = {"annotations": given["annotations"], "images": given["images"]}
    coco.createIndex()
    coco_eval = module.COCOEvalCap(coco, coco.loadRes(json.loads(files[1].read_text())))
    gts, res = {}, {}
    for image in coco_eval.params["image_id"]:
        gts[image] = coco_eval.coco.imgToAnns[image]
        res[image] = coco_eval.cocoRes.imgToAnns[image]
    tokenizer = module.PTBTokenizer()
    gts, res = tokenizer.tokenize(gts), tokenizer.tokenize(res)
    score, scores = scorer.compute_score(gts, res)
    if type(score) is list:
        score = score[int(metric.rpartition("_")[2]) - 1]
    coco_eval.setEval(score, metric)
    if metric == "CIDEr":
        coco_eval.setImgToEvalImgs(scores, gts.keys(), metric)
        coco_eval.setEvalImgs()
    return {"eval": coco_eval.eval, "images": coco_eval.evalImgs}


@java
def test_the_script_of_lavis(files, monkeypatch, tmp_path):
    """Its results hold more than captions, and are those of fewer images than the annotations."""
    pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    # Its SPICE downloads Stanford's models; its METEOR is compared above, and its jar is slow.
    monkeypatch.setattr(real, "Spice", ours.Spice)
    monkeypatch.setattr(real, "Meteor", ours.Meteor)
    results = json.loads(files[1].read_text())[:6]
    (tmp_path / "res.json").write_text(json.dumps([r | {"prompt": "a photo of"} for r in results]))
    mine, theirs = (lavis(module, files, str(tmp_path / "res.json")) for module in (ours, real))
    same(mine, theirs)
    assert len(mine["by image"]) == 6


@java
@pytest.mark.parametrize("metric", ["Bleu_2", "METEOR", "ROUGE_L", "CIDEr"])
def test_the_aggregation_of_lmms_eval(files, metric):
    pytest.importorskip("pycocotools.coco", reason="pycocotools is not installed")
    same(lmms_eval(ours, files, metric), lmms_eval(real, files, metric))


def test_the_shape_of_spice():
    pytest.importorskip("spacy", reason="spaCy is not installed")
    with pytest.warns(UserWarning, match="not with Stanford CoreNLP"):
        judge = ours.Spice()
    gts = {2: ["a red bus on a street"], 1: ["two dogs run"]}
    mean, scores = judge.compute_score(gts, {2: ["a red bus"], 1: ["a cat"]})
    cat, bus = scores  # sorted by image
    assert set(bus) == {"All", "Object", "Relation", "Attribute", "Color", "Cardinality", "Size"}
    assert set(bus["All"]) == {"pr", "re", "f", "fn", "numImages", "fp", "tp"}
    assert bus["All"]["pr"] == 1.0
    assert cat["All"]["f"] == 0.0
    assert math.isnan(cat["Color"]["f"])
    assert mean == pytest.approx((cat["All"]["f"] + bus["All"]["f"]) / 2)
    import captious

    table = captious.score(["a cat", "a red bus"], [gts[1], gts[2]], metrics="spice")
    assert [s["All"]["f"] for s in scores] == table["spice"].tolist()


@pytest.mark.parametrize("name", ["Bleu", "Rouge", "Cider", "Meteor", "Spice"])
def test_bad_use_is_an_assertion_error_that_names_the_image(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge = getattr(ours, name)()
    for gts, res, said in [
        ({1: ["a"], 2: ["b"]}, {1: ["a"]}, "2"),
        ({1: ["a"], 7: ["b"]}, {1: ["a"], 7: ["b", "c"]}, r"res\[7\] holds 2"),
        ({1: ["a"], 7: []}, {1: ["a"], 7: ["b"]}, r"gts\[7\] holds no"),
        ({1: ["a"], 7: ["b"]}, {1: ["a"], 7: "b"}, r"res\[7\] is not a list"),
    ]:
        with pytest.raises(AssertionError, match=said):
            judge.compute_score(gts, res)


def test_the_same_paths_as_there():
    from captious.compat.pycocoevalcap.bleu.bleu import Bleu
    from captious.compat.pycocoevalcap.cider.cider import Cider
    from captious.compat.pycocoevalcap.eval import COCOEvalCap
    from captious.compat.pycocoevalcap.meteor.meteor import Meteor
    from captious.compat.pycocoevalcap.rouge.rouge import Rouge
    from captious.compat.pycocoevalcap.spice.spice import Spice
    from captious.compat.pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    found = {c.__name__: c for c in (Bleu, Cider, COCOEvalCap, Meteor, Rouge, Spice, PTBTokenizer)}
    assert found == {name: getattr(ours, name) for name in ours.__all__}
