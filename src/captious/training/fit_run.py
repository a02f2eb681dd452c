"""From files to a trained folder of ``fit``: reading, text vectors, dev recalls, model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captious.errors import UsageError
from captious.evidence.region_formats import open_regions
from captious.evidence.regions import require
from captious.models import text_encoder
from captious.models.fit import FitConfig, FitModel, FitNetwork, load, save
from captious.training.curve import draw_curve
from captious.training.fit import FitData, FitOptions, FitTrainer, piece_table, recalls
from captious.training.scan_run import Sources, read_captions
from captious.training.text_vectors import mean_vectors
from captious.training.whitened import whitened, whitening_of

SPECIALS = ("[PAD]", "[OTHER]")


@dataclass(frozen=True)
class Texts:
    """Captions as the model reads them: pieces of the encoder, and its mean vectors."""

    pieces: Tensor
    encoded: Tensor


def train(
    sources: Sources,
    shape: Mapping[str, Any],
    options: FitOptions,
    target: Path,
    report: Callable[[dict[str, Any]], None] | None = None,
    join: Sequence[Path] = (),
) -> Path:
    """Train (or go on with) one member and write its folder, with the members of ``join`` beside.

    What is slow to make (text vectors, whitened regions) is kept in ``target/run``.
    """
    torch.set_num_threads(1)  # small products: more threads are slower
    captions, splits = read_captions(sources)
    store = open_regions(sources.regions)
    require(store, [name for part in splits.values() for name in part])
    run = target / "run"
    encoder = text_encoder.load(sources.teacher or "minilm")
    texts = {
        part: captions_as_read(
            encoder, [captions[name] for name in names], run / f"{part}.npy", options.longest
        )
        for part, names in splits.items()
    }
    table = piece_table(texts["train"].pieces, len(encoder.vocabulary), options.least)
    number = {int(own): k for k, own in enumerate(table.tolist()) if own > 1}
    own = [*SPECIALS, *(encoder.vocabulary[number[k]] for k in range(2, len(number) + 2))]
    whitening = whitening_of(store, splits["train"], options.whitened, run)
    data = FitData(
        whitened(store, splits["train"], whitening, run / "regions.npy"),
        table[texts["train"].pieces.long()].to(torch.int32),
        texts["train"].encoded,
    )
    config = FitConfig.of(
        {
            **shape,
            "img_dim": store.dim,
            "regions": data.features.shape[1],
            "pieces": len(own),
            "encoder_dim": encoder.width,
        }
    )
    others = [_member(folder, config, own) for folder in join]
    trainer = FitTrainer(config, data, options, run / f"seed-{options.seed}", whitening)
    trainer.resume()
    dev_features = torch.from_numpy(
        np.stack([np.asarray(store[name].features) for name in splits["dev"]])
    )
    dev_pieces = table[texts["dev"].pieces.long()]

    def score(*nets: FitNetwork) -> dict[str, float]:
        return _dev(nets, dev_features, dev_pieces, texts["dev"].encoded)

    made = trainer.run(score, report)
    members = [net for model in others for net in model.members] + [made]
    result = score(*members)
    if report is not None and others:
        report({"members": len(members)} | result)
    facts = {
        "features": store.source,
        "encoder": encoder.name,
        "training": asdict(options),
        "images": len(splits["train"]),
        "dev": result,
    }
    save(config, members, own, target, facts)
    draw_curve(trainer.history, target / "curve.png", ("contrast",), ("rsum",))
    (target / "README.md").write_text(model_card(target.name, facts), encoding="utf-8")
    return target


def _member(folder: Path, config: FitConfig, pieces: Sequence[str]) -> FitModel:
    """A model that fits beside the one to be trained."""
    model = load(str(folder))
    mine, other = asdict(config), asdict(model.config)
    if model.pieces != list(pieces) or any(mine[k] != other[k] for k in mine if k != "members"):
        raise UsageError(f"{folder}: trained with other words, sizes or features; use the same")
    return model


def captions_as_read(
    encoder: text_encoder.TextEncoder,
    captions: Sequence[Sequence[str]],
    file: Path,
    longest: int = 48,
) -> Texts:
    """Pieces ``[images, captions, longest]`` and mean vectors; the vectors are kept in ``file``."""
    fewest = min(len(texts_of_one) for texts_of_one in captions)
    flat = [text for texts_of_one in captions for text in texts_of_one[:fewest]]
    numbers, _ = encoder.tokenize(flat)
    pieces = torch.zeros(len(flat), longest, dtype=torch.int32)
    for row, ids in enumerate(numbers):
        pieces[row, : len(ids)] = torch.tensor(ids[:longest], dtype=torch.int32)
    vectors = mean_vectors(encoder, flat, file)
    return Texts(
        pieces.reshape(len(captions), fewest, -1),
        vectors.reshape(len(captions), fewest, -1),
    )


def _dev(
    nets: Sequence[FitNetwork], features: Tensor, pieces: Tensor, encoded: Tensor
) -> dict[str, float]:
    images, count = encoded.shape[:2]
    flat, vectors = pieces.reshape(images * count, -1), encoded.reshape(images * count, -1).float()
    with torch.inference_mode():
        seen = torch.cat(
            [torch.cat([net.image(x.float()) for x in features.split(64)]) for net in nets], 1
        )
        said = torch.cat(
            [
                torch.cat(
                    [
                        net.text(p, v)
                        for p, v in zip(flat.split(512), vectors.split(512), strict=True)
                    ]
                )
                for net in nets
            ],
            1,
        )
        return recalls(seen, said, torch.arange(images).repeat_interleave(count))


def model_card(name: str, facts: Mapping[str, Any]) -> str:
    """A short card from the facts of the run; the shipped model's card says more."""
    lines = [f"# {name}", "", "Model of `fit`, trained with `captious train fit`.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    return "\n".join([*lines, ""])
