"""From files to a trained SCAN folder: reading, vocabulary, teacher, dev scores, model card."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captious.errors import InputError, UsageError
from captious.evidence.region_formats import open_regions
from captious.evidence.regions import RegionStore, require
from captious.models.scan import (
    SPECIALS,
    Joined,
    Scan,
    ScanConfig,
    Vocabulary,
    features_of,
    load,
    pad,
    save,
)
from captious.progress import track
from captious.text import treebank
from captious.training.curve import draw_curve
from captious.training.scan import PairData, Trainer, TrainOptions, nearest, word_base
from captious.training.text_vectors import mean_vectors
from captious.training.whitened import WHITENING, whitened, whitening_of
from captious.types import Floats

Compare = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Sources:
    """Where a run's data lie."""

    captions: Path
    regions: Path
    flipped: Path | None = None
    train: Path | None = None
    dev: Path | None = None
    words: Path | None = None
    teacher: str | None = "minilm"
    word_vectors: str | None = "glove-6b-50d"


def train(
    sources: Sources,
    shape: Mapping[str, Any],
    options: TrainOptions,
    target: Path,
    compare: Compare,
    select: str = "graded",
    report: Callable[[dict[str, Any]], None] | None = None,
    join: Sequence[Path] = (),
    start: Path | None = None,
) -> Path:
    """Train (or go on with) a model and write its folder.

    ``compare`` turns reference and candidate grounding vectors into TIGEr (first column). ``join``
    are folders of models trained before, with the same words and features, that are put beside.
    ``start`` is the folder of an earlier run: training begins with its weights and keeps its words,
    on other photographs if need be.
    """
    torch.set_num_threads(1)  # small products: more threads are slower
    captions, splits = read_captions(sources)
    store = open_regions(sources.regions)
    require(store, [name for part in splits.values() for name in part])
    # A word that was seen once is worth an entry where word vectors say what it means.
    least = 2 if sources.word_vectors is None else 1
    if start is None:
        words = vocabulary([captions[name] for name in splits["train"]], sources.words, least)
    else:
        words = Vocabulary.read(start / "vocab.json")
    others = [_member(folder, words, store.source) for folder in join]
    run = target / "run"
    if start is not None and not (run / WHITENING).exists():
        run.mkdir(parents=True, exist_ok=True)
        shutil.copy(start / "run" / WHITENING, run)
    teacher = {
        part: sentence_vectors(
            sources.teacher, [captions[name] for name in names], run / f"{part}.npy"
        )
        for part, names in splits.items()
    }
    whitening = whitening_of(store, splits["train"], options.whitened, run)
    flipped = None
    if sources.flipped is not None:
        mirrored = open_regions(sources.flipped)
        require(mirrored, splits["train"])
        flipped = whitened(mirrored, splits["train"], whitening, run / "flipped.npy")
    data = PairData(
        whitened(store, splits["train"], whitening, run / "regions.npy"),
        [[encode(words, text) for text in captions[name]] for name in splits["train"]],
        flipped,
        teacher["train"],
    )
    config = ScanConfig.of({**shape, "img_dim": store.dim, "vocab_size": len(words)})
    base = _word_base(words, sources)
    trainer = Trainer(config, data, options, run, base, whitening)
    if not trainer.resume() and start is not None:
        trainer.begin_from(start / "run" / "last.pt")
    judge = DevJudge(
        gather(store, splits["dev"]),
        [captions[name] for name in splits["dev"]],
        teacher["dev"],
        words,
        compare,
        select,
    )
    best = trainer.run(judge, report)
    model = Scan(config)
    model.load_state_dict(torch.load(best, weights_only=True))
    if others:
        model = Joined([*others, model])
        if report is not None:
            report({"joined": len(join) + 1} | judge(model.eval()))
    result = recalls(model.eval(), judge.features, judge.texts, words)
    facts = {
        "features": store.source,
        "training": asdict(options),
        "teacher": sources.teacher,
        "word_vectors": sources.word_vectors,
        "images": len(splits["train"]),
        "dev": result,
    } | ({} if start is None else {"start": start.name})
    save(model, words, target, facts)
    draw_curve(trainer.history, target / "curve.png")
    (target / "README.md").write_text(model_card(target.name, facts), encoding="utf-8")
    return target


def _member(folder: Path, words: Vocabulary, features: str) -> Scan:
    """A model that fits beside the one to be trained."""
    model, own = load(folder)
    if isinstance(model, Joined):
        raise UsageError(f"{folder}: this is a joined model already; name its members")
    if own.words() != words.words() or features_of(folder) != features:
        raise UsageError(f"{folder}: trained with other words or features; they must be the same")
    return model


def read_captions(sources: Sources) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Captions by image, and the images of train and dev."""
    captions: dict[str, list[str]] = {}
    splits: dict[str, list[str]] = {"train": [], "dev": []}
    if sources.captions.suffix == ".json":
        dataset = json.loads(sources.captions.read_text(encoding="utf-8"))
        for image in dataset["images"]:
            captions[image["filename"]] = [sentence["raw"] for sentence in image["sentences"]]
            part = {"train": "train", "restval": "train", "val": "dev"}.get(image["split"])
            if part:
                splits[part].append(image["filename"])
    else:
        captions = read_lines(sources.captions)
    for part, listing in (("train", sources.train), ("dev", sources.dev)):
        if listing is not None:
            splits[part] = listing.read_text(encoding="utf-8").split()
        missing = [name for name in splits[part] if name not in captions]
        if missing:
            raise InputError([f"{part} image {name} has no captions" for name in missing])
        if not splits[part]:
            raise InputError(f"no {part} images: name them with --{part} LIST")
    both = set(splits["train"]) & set(splits["dev"])
    if both:
        raise InputError(f"{len(both)} images are in train and in dev, among them {min(both)}")
    return captions, splits


def read_lines(path: Path) -> dict[str, list[str]]:
    """Captions by image from lines ``IMAGE#N TAB CAPTION``."""
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        name, tab, text = line.partition("\t")
        if not tab:
            raise InputError(f"{path}:{number}: no tab between image and caption")
        captions.setdefault(name.split("#")[0], []).append(text)
    return captions


def vocabulary(captions: Sequence[Sequence[str]], more: Path | None, least: int = 2) -> Vocabulary:
    """Words that occur ``least`` times in train captions, most frequent first; then extra words."""
    counts = Counter(
        word for texts in captions for text in texts for word in treebank.split(text.lower())
    )
    frequent = [word for word, count in counts.most_common() if count >= least]
    extra = more.read_text(encoding="utf-8").lower().split() if more else []
    words = dict.fromkeys(
        [*SPECIALS, *frequent, *(w for w in extra if re.fullmatch(r"[a-z'-]+", w))]
    )
    return Vocabulary({word: number for number, word in enumerate(words)})


def encode(words: Vocabulary, text: str) -> list[int]:
    """Ids of a caption."""
    return words.encode(treebank.split(text.lower()))


def gather(store: RegionStore, names: Sequence[str]) -> Tensor:
    """Region features of images in one block; all must have the same number of regions."""
    first = store[names[0]].features
    block = torch.empty((len(names), *first.shape), dtype=torch.half)
    for row, name in enumerate(track(names, "reading regions", unit="images")):
        features = np.array(store[name].features, np.float16)
        if features.shape != first.shape:
            raise InputError(
                f"image {name} has {features.shape[0]} regions, others {first.shape[0]}: all "
                "images must have the same number"
            )
        block[row] = torch.from_numpy(features)
    return block


def _sentences(name: str, texts: Sequence[str]) -> Tensor:
    from captious.models import text_encoder

    encoder = text_encoder.load(name)
    layers = encoder.layers
    vectors = []
    for begin in range(0, len(texts), 512):
        encoded = encoder.encode(list(texts[begin : begin + 512]), layers)
        bounds = encoded.offsets.tolist()
        vectors += [encoded.vectors[a:b].mean(0) for a, b in pairwise(bounds)]
    return torch.nn.functional.normalize(torch.stack(vectors).float(), dim=1)


def sentence_vectors(
    name: str | None, captions: Sequence[Sequence[str]], file: Path | None = None
) -> Tensor | None:
    """A teacher's vectors ``[images, captions, k]``, kept in ``file``; None without a teacher."""
    if name is None:
        return None
    fewest = min(len(texts) for texts in captions)
    flat = [text for texts in captions for text in texts[:fewest]]
    if file is None:
        vectors = _sentences(name, flat)
    else:
        from captious.models import text_encoder

        means = mean_vectors(text_encoder.load(name), flat, file)
        vectors = torch.nn.functional.normalize(means.float(), dim=1)
    return vectors.reshape(len(captions), fewest, -1).half()


def _word_base(words: Vocabulary, sources: Sources) -> Tensor | None:
    if sources.word_vectors is None:
        return None
    from captious.text.vectors import open_vectors

    vectors, listed = open_vectors(sources.word_vectors), words.words()
    rows = vectors.rows(listed)
    table = np.where(rows[:, None] >= 0, vectors.matrix[np.maximum(rows, 0)], 0.0)
    tables = [table]
    if sources.teacher is not None:
        single = _sentences(sources.teacher, listed).numpy()
        single[: len(SPECIALS)] = 0
        tables.append(single)
    return word_base(tables)


class DevJudge:
    """Scores a model on dev: a graded proxy of human judgement, and retrieval recalls.

    The proxy asks for an order: a caption of the photograph itself, of a similar photograph, of a
    less similar one, of a random one, against the photograph's other captions; tau-c of TIGEr and
    of the image-caption score with these four grades. Recall alone chose worse models.
    """

    def __init__(
        self,
        features: Tensor,
        texts: Sequence[Sequence[str]],
        teacher: Tensor | None,
        words: Vocabulary,
        compare: Compare,
        select: str = "graded",
        images: int = 400,
        seed: int = 0,
    ) -> None:
        self.features, self.texts, self.words = features, texts, words
        self.compare, self.select = compare, select
        draw = np.random.default_rng(seed)
        near = None if teacher is None else nearest(teacher, len(texts) - 1).numpy()
        self.rows: list[tuple[int, list[list[int]], int]] = []
        for image in range(min(images, len(texts))):
            own = draw.permutation(len(texts[image]))
            others = draw.permutation(np.delete(np.arange(len(texts)), image))
            ranked = others if near is None else near[image]
            picks = [
                ranked[int(draw.integers(0, min(3, len(ranked))))],
                ranked[int(draw.integers(min(15, len(ranked) - 1), min(60, len(ranked))))],
                others[0],
            ]
            graded = [
                texts[image][own[0]],
                *(texts[p][int(draw.integers(len(texts[p])))] for p in picks),
            ]
            references = [texts[image][k] for k in own[1:]]
            ids = [encode(words, text) for text in (*graded, *references)]
            self.rows.append((image, ids, len(graded)))

    def __call__(self, model: Scan) -> dict[str, float]:
        """Dev scores of one checkpoint."""
        from scipy.stats import kendalltau

        tiger, similar, grade = [], [], []
        with torch.inference_mode():
            for image, ids, count in self.rows:
                padded, lengths = pad(ids)
                words = model.text(padded, lengths)
                regions = model.image(self.features[image].float())[None]
                ground = model.grounding(regions, words, lengths)[0].double().numpy()
                reference = np.repeat(ground[count:].mean(0)[None], count, 0)
                tiger += self.compare(reference, ground[:count])[:, 0].tolist()
                similar += model.similarity(regions, words, lengths)[0, :count].tolist()
                grade += list(range(count, 0, -1))
        dev_scores = {
            "tiger": float(kendalltau(tiger, grade, variant="c").statistic),
            "similarity": float(kendalltau(similar, grade, variant="c").statistic),
        }
        dev_scores |= recalls(
            model, self.features[:400], self.texts[:400], self.words, single_caption=True
        )
        dev_scores["select"] = (
            dev_scores["rsum"]
            if self.select == "rsum"
            else (dev_scores["tiger"] + 0.5 * dev_scores["similarity"])
        )
        return dev_scores


def recalls(
    model: Scan,
    features: Tensor,
    texts: Sequence[Sequence[str]],
    words: Vocabulary,
    single_caption: bool = False,
) -> dict[str, float]:
    """R@1, 5, 10 in both directions and their sum; ``single_caption`` takes one per image."""
    used = [own_texts[:1] if single_caption else list(own_texts) for own_texts in texts]
    owner = np.repeat(np.arange(len(used)), [len(own_texts) for own_texts in used])
    ids = [encode(words, text) for own_texts in used for text in own_texts]
    order = np.argsort([len(word_ids) for word_ids in ids], kind="stable")
    scores = np.zeros((len(used), len(ids)), np.float32)
    with torch.inference_mode():
        regions = torch.cat([model.image(part.float()) for part in features.split(100)])
        for begin in range(0, len(order), 100):
            rows = order[begin : begin + 100]
            padded, lengths = pad([ids[row] for row in rows])
            text_states = model.text(padded, lengths)
            for first in range(0, len(used), 100):
                part = model.similarity(regions[first : first + 100], text_states, lengths)
                scores[first : first + 100, rows] = part.numpy()
    own = scores[owner, np.arange(len(ids))]
    image_rank = (scores > own[None]).sum(0)
    best = np.array([own[owner == image].max() for image in range(len(used))])
    caption_rank = (scores > best[:, None]).sum(1)
    recall = {}
    for name, rank in (("captions", caption_rank), ("images", image_rank)):
        for depth in (1, 5, 10):
            recall[f"{name}_r{depth}"] = round(100 * float((rank < depth).mean()), 2)
    recall["rsum"] = round(sum(recall.values()), 2)
    return recall


def model_card(name: str, facts: Mapping[str, Any]) -> str:
    """A short card from the facts of the run; the shipped model's card says more."""
    lines = [f"# {name}", "", "SCAN, trained with `captious train scan`.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    return "\n".join([*lines, ""])
