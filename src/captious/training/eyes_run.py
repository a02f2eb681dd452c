"""From photographs and captions to a tuned last stage: maps, text vectors, dev recalls, card."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from captious import assets
from captious.errors import InputError
from captious.evidence.backbones import base_network, base_of
from captious.evidence.images import open_photograph
from captious.evidence.photographs import open_photographs
from captious.models import text_encoder
from captious.progress import Progress
from captious.training.checkpoints import mean_losses, write_history, write_state
from captious.training.eyes import EyesData, EyesOptions, EyesTrainer, split
from captious.training.fit import piece_table, recalls
from captious.training.fit_run import captions_as_read
from captious.training.scan_run import Sources, read_captions

SIDE = 256
_AT_ONCE = 16


def train(
    photographs: Path,
    sources: Sources,
    backbone: str,
    options: EyesOptions,
    target: Path,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Train (or go on with) the last stage of ``backbone`` and write its folder.

    What is slow to make (maps of the photographs, text vectors) is kept in ``target/run``.
    """
    torch.set_num_threads(1)
    captions, splits = read_captions(sources)
    run = target / "run"
    run.mkdir(parents=True, exist_ok=True)
    network = base_network(backbone, assets.resolve(backbone))
    names = [*splits["dev"], *splits["train"]]
    cut = split(network, options.blocks)
    maps = stage_maps(network, cut, photographs, names, run / "maps.npy")
    encoder = text_encoder.load(sources.teacher or "minilm")
    texts = {
        part: captions_as_read(encoder, [captions[name] for name in listed], run / f"{part}.npy")
        for part, listed in splits.items()
    }
    table = piece_table(texts["train"].pieces, len(encoder.vocabulary), 5)
    dev = len(splits["dev"])
    data = EyesData(
        maps,
        np.arange(dev, len(names)),
        table[texts["train"].pieces.long()].to(torch.int32),
        texts["train"].encoded,
    )
    trainer = EyesTrainer(network, data, options, int(table.max()) + 1)
    history: list[dict[str, Any]] = []
    if (run / "last.pt").exists():
        trainer.load_state(torch.load(run / "last.pt", weights_only=True))
        history = json.loads((run / "history.json").read_text(encoding="utf-8"))["history"]
    pieces, encoded = table[texts["dev"].pieces.long()], texts["dev"].encoded
    owner = torch.arange(dev).repeat_interleave(pieces.shape[1])
    losses: list[dict[str, float]] = []
    while trainer.step < options.steps:
        losses.append(trainer.one_step())
        if trainer.step % options.validate == 0 or trainer.step == options.steps:
            seen, said = trainer.vectors(maps[:dev], pieces.flatten(0, 1), encoded.flatten(0, 1))
            entry = {"step": trainer.step} | mean_losses(losses) | recalls(seen, said, owner)
            losses = []
            history.append(entry)
            write_state(trainer.state(), run / "last.pt")
            write_history(run, options, history)
            if report is not None:
                report(entry)
    facts = {
        "format": "captious-eyes",
        "backbone": base_of(backbone),
        "start": backbone,
        "side": SIDE,
        "images": len(splits["train"]),
        "training": asdict(options),
        "dev": history[-1] if history else {},
    }
    trainer.swap()
    save(trainer.tail.exported(network), target, facts)
    return target


def save(stage: dict[str, torch.Tensor], target: Path, facts: dict[str, Any]) -> None:
    """Write the folder of a last stage, in half precision."""
    from safetensors.torch import save_file

    target.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: value.half().contiguous() for name, value in stage.items()},
        target / "model.safetensors",
    )
    text = json.dumps(facts, indent=1)
    (target / "config.json").write_text(text + "\n", encoding="utf-8")


def stage_maps(
    network: Any, cut: int, photographs: Path, names: Sequence[str], file: Path
) -> np.ndarray:
    """Maps ``[n, rows, columns, channels]`` in front of block ``cut``, where learning begins.

    They are kept in ``file``; a run that was cut off goes on.
    """

    def maps(batch: torch.Tensor) -> torch.Tensor:
        """Pixels ``[n, side, side, 3]`` to the map in front of the blocks that learn."""
        state = torch.relu(
            network._bn0(network._conv_stem((batch.permute(0, 3, 1, 2) - 127) / 128))
        )
        state = state.clamp(max=6)
        for block in network._blocks[:cut]:
            state = block(state)
        return state.permute(0, 2, 3, 1)

    with torch.inference_mode():
        shape = (len(names), *maps(torch.zeros(1, SIDE, SIDE, 3)).shape[1:])
    fresh = "r+" if file.exists() else "w+"
    block = np.lib.format.open_memmap(file, fresh, np.float16, shape)
    done = np.lib.format.open_memmap(file.with_suffix(".done.npy"), fresh, bool, (len(names),))
    place = {name: number for number, name in enumerate(names)}
    left = [name for name in names if not done[place[name]]]
    collection = open_photographs(photographs)
    absent = sorted(set(left) - set(collection.names())) if left else []
    if absent:
        raise InputError([f"{photographs}: there is no photograph {name!r}" for name in absent])
    with Progress("first stages", len(left), "photographs") as bar:
        for part in _parts(collection.read(left)):
            pixels = torch.from_numpy(np.stack([_square(*one) for one in part]))
            rows = [place[name] for name, _ in part]
            with torch.inference_mode():
                block[rows] = maps(pixels).half().numpy()
            done[rows] = True
            bar.advance(len(part))
    if not done.all():
        raise InputError(collection.problems or f"{photographs}: photographs could not be read")
    return block


def _parts(photographs: Iterable[tuple[str, Path | bytes]]) -> Iterator[list[Any]]:
    photographs = iter(photographs)
    while part := list(islice(photographs, _AT_ONCE)):
        yield part


def _square(name: str, picture: Path | bytes) -> np.ndarray:
    from PIL import Image

    image = open_photograph(picture, name).convert("RGB")
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32)
