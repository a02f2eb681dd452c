"""From files to a trained ViLBERT folder: reading, similar photographs, dev scores, model card."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captious.evidence.region_formats import open_regions
from captious.evidence.regions import RegionStore, require
from captious.models import fit
from captious.models.image_text import WordPieces, as_regions
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_load import save_vilbert, text_encoder_state
from captious.progress import track
from captious.training.curve import draw_curve
from captious.training.machine_captions import machine_captions
from captious.training.scan import nearest
from captious.training.scan_run import Sources, read_captions, sentence_vectors
from captious.training.vilbert import VilbertTrainer, folded
from captious.training.vilbert_batches import VilbertData, VilbertOptions, Vocabulary
from captious.training.vilbert_judge import DevJudge, recalls
from captious.training.vilbert_looking import LookingTrainer
from captious.training.vilbert_teacher import LookingTeacher
from captious.training.whitened import Whitening

_NEAR = 20


def train(
    sources: Sources,
    config: VilbertConfig,
    options: VilbertOptions,
    target: Path,
    text: str | None = "minilm",
    report: Callable[[dict[str, Any]], None] | None = None,
    start: Path | None = None,
    looking: Path | None = None,
    unseen: Container[str] = (),
    whole: str | None = None,
) -> Path:
    """Train (or go on with) a model and write its folder: weights, configuration, card, curve.

    ``start`` is the folder of an earlier run whose weights this one begins with, or a file of its;
    ``looking`` the folder of a grounding model (SCAN) that it learns to look from, ``whole`` a
    model of ``fit`` that judges whole captions beside it; ``unseen`` words that no region can show.
    """
    torch.set_num_threads(1)  # small products: more threads are slower
    if start is not None and looking is None:  # words and regions are aligned already
        options = replace(options, align_steps=0)
    captions, splits = read_captions(sources)
    store = open_regions(sources.regions)
    require(store, [name for part in splits.values() for name in part])
    pieces = WordPieces(None, config.vocab_size)
    raw = {part: gather(store, names) for part, names in splits.items()}
    stores = [store]
    if sources.flipped is not None:
        stores.append(open_regions(sources.flipped))
        require(stores[1], splits["train"])
    whitening = Whitening.sampled(raw["train"][0], options.whitened)
    data = {}
    nothing = whitening(torch.zeros(1, 1, store.dim))[0].float()
    for part, names in splits.items():
        texts = [captions[name] for name in names]
        ids = [
            [caption.ids for caption in pieces.tokenize(image_texts, options.longest)]
            for image_texts in texts
        ]
        teacher = sentence_vectors(sources.teacher, texts, target / "run" / f"{part}-captions.npy")
        near = None if teacher is None else nearest(teacher, min(_NEAR, len(texts) - 1))
        features, boxes = raw.pop(part)
        data[part] = VilbertData(whitening.blocks(features), boxes, ids, near, teacher, nothing)
    if sources.flipped is not None:
        features, boxes = gather(stores[1], splits["train"])
        data["train"].mirrored = whitening.blocks(features), boxes
    if looking is not None:
        texts = [list(captions[name]) for name in splits["train"]]
        for own, machine in zip(texts, machine_captions(texts), strict=True):
            own += machine
        read = [pieces.tokenize(image_texts, options.longest) for image_texts in texts]
        data["train"].captions = [[caption.ids for caption in image_texts] for image_texts in read]
        spelled = [[pieces.spell(caption) for caption in image_texts] for image_texts in read]
        data["train"].looking = LookingTeacher(
            looking, stores, splits["train"], texts, spelled, unseen,
            None if whole is None else fit.load(whole),
        )  # fmt: skip
    words = Vocabulary(config.vocab_size, *pieces.masking())
    state = text_encoder_state(text) if text is not None else None
    kind = VilbertTrainer if looking is None else LookingTrainer
    trainer = kind(config, data["train"], words, options, target / "run", state)
    if start is not None:
        trainer.start_from(start if start.is_file() else start / "run")
    trainer.resume()
    judge = DevJudge(data["dev"], words.specials)
    best = torch.load(trainer.run(judge, report), weights_only=True)
    trainer.heads.load_state_dict(best["heads"])  # first: it shares the word table
    trainer.model.load_state_dict(best["model"])
    trainer.model.eval()
    trainer.heads.eval()
    quality = {
        **DevJudge(data["dev"], words.specials, len(splits["dev"]))(trainer.model, trainer.heads),
        **recalls(trainer.model, trainer.heads, data["dev"], 100),
    }
    facts = {
        "training": asdict(options),
        "teacher": sources.teacher,
        "images": len(splits["train"]),
        "dev": quality,
    }
    model = folded(trainer.model, whitening, store.source)
    save_vilbert(model, target, facts, text_from=text, heads=trainer.heads)
    draw_curve(trainer.history, target / "curve.png",
               ("words", "regions", "matching", "grading", "alignment", "agreement", "preference",
                "contribution", "looking", "seeing"),
               ("random", "near", "graded", "preferred", "blind"))  # fmt: skip
    (target / "README.md").write_text(model_card(target.name, facts, text), encoding="utf-8")
    return target


def gather(store: RegionStore, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Features (half precision) and boxes of all images, the whole image as region 0.

    Images with fewer regions than the largest repeat their whole-image row.
    """
    most = 1 + max(len(store[name].features) for name in names)
    features = np.empty((len(names), most, store.dim), np.float16)
    boxes = np.empty((len(names), most, 5), np.float32)
    for row, name in enumerate(track(names, "reading regions", unit="images")):
        regions = as_regions(name, store[name], store.dim, boxes=True, whole=True)
        for block, values in ((features, regions.features), (boxes, regions.boxes)):
            block[row, : len(regions)] = values
            block[row, len(regions) :] = values[0]
    return torch.from_numpy(features), torch.from_numpy(boxes)


def model_card(name: str, facts: Mapping[str, Any], text: str | None) -> str:
    """A short card from the facts of the run."""
    lines = [f"# {name}", "", "ViLBERT, trained with `captious train vilbert`.", ""]
    lines += [f"- text stream started from: {text}"] if text is not None else []
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    return "\n".join([*lines, ""])
