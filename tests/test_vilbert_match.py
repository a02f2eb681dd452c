"""ViLBERT's matching head as a metric without references."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from safetensors.torch import load_file, save_file  # noqa: E402

from captious.errors import InputError  # noqa: E402
from captious.metrics.vilbert_match import VilbertMatch  # noqa: E402
from captious.models.image_text import as_regions  # noqa: E402
from captious.models.vilbert_load import load_vilbert, matching_head  # noqa: E402
from captious.types import CaptionSet  # noqa: E402
from seeing import Seeing  # noqa: E402
from test_vilbert import as_folder  # noqa: E402
from test_vilbertscore import CAPTIONS, stored  # noqa: E402


def with_head(folder: Path) -> Path:
    file = folder / "model.safetensors"
    state = load_file(file)
    width = state["bert.t_pooler.dense.weight"].shape[0]
    torch.manual_seed(7)
    head = {"weight": torch.randn(2, width), "bias": torch.randn(2)}
    save_file(state | {f"cls.bi_seq_relationship.{k}": v for k, v in head.items()}, file)
    return folder


@pytest.fixture(params=["interleaved_layers", "multitask_2conect", "pretrained_2conect"])
def metric(request, tmp_path):
    folder = with_head(as_folder(request.param, tmp_path / "m"))
    return Seeing(VilbertMatch(model=str(folder)), stored(tmp_path / "r"))


def rows_of(texts, images) -> CaptionSet:
    return CaptionSet.build(texts, [[] for _ in texts], images=images)


def test_equals_the_whole_forward_and_the_head(metric):
    """One pair at a time through the model's own forward, without batches."""
    images, texts = zip(*CAPTIONS, strict=True)
    given = rows_of(texts, images)
    metric.prepare(given)
    found = metric.stats(given, None).rows[:, 0]
    model, _ = load_vilbert(metric.model)
    head = matching_head(Path(metric.model))
    vocabulary = (Path(metric.model) / "vocab.txt").read_text().split()
    store = metric._score.store(metric.evidence)
    for image, text, value in zip(images, texts, found, strict=True):
        seen = as_regions(image, store[image], store.dim, boxes=True, whole=True)
        ids = torch.tensor([[1, *(vocabulary.index(w) for w in text.split()), 2]])
        out = model(
            ids, torch.ones_like(ids), torch.tensor(seen.features)[None],
            torch.tensor(seen.boxes)[None], None, 7 if model.config.task_tokens else None,
        )  # fmt: skip
        match, other = head(out.pooled_text * out.pooled_image)[0].tolist()
        assert value == pytest.approx(1 / (1 + math.exp(other - match)), abs=1e-5)


def test_order_and_company_do_not_matter(metric):
    images, texts = zip(*CAPTIONS, strict=True)
    together = metric.stats(rows_of(texts, images), None).rows[:, 0]
    back = metric.stats(rows_of(texts[::-1], images[::-1]), None).rows[::-1, 0]
    single = [metric.stats(rows_of([text], [image]), None).rows[0, 0] for image, text in CAPTIONS]
    np.testing.assert_allclose(together, back, atol=1e-6)
    np.testing.assert_allclose(together, single, atol=1e-5)


def test_explain_leaves_out_each_word(metric):
    sample = rows_of(["w5 w6 w7"], ["a.jpg"])[0]
    found = metric.explain(sample, None).data
    shorter = metric.stats(rows_of(["w5 w7"], ["a.jpg"]), None).rows[0, 0]
    assert [one["word"] for one in found["words"]] == ["w5", "w6", "w7"]
    assert found["words"][1]["without"] == pytest.approx(shorter, abs=1e-6)
    assert found["words"][1]["change"] == pytest.approx(found["score"] - shorter, abs=1e-6)


def test_weights_without_the_head_are_refused(metric, tmp_path):
    plain = metric.but(model=str(as_folder("pretrained_2conect", tmp_path / "plain")))
    with pytest.raises(InputError, match="no matching head"):
        plain.prepare(rows_of(["w5"], ["a.jpg"]))


def test_a_caption_without_image_has_a_reason(metric):
    found = metric.stats(rows_of(["w5", "w6"], ["a.jpg", None]), None)
    assert np.isfinite(found.rows[0, 0])
    assert np.isnan(found.rows[1, 0])
    assert found.reasons[1] == "the sample has no image"
