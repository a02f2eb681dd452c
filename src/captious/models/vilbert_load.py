"""Read ViLBERT weights: original checkpoints under their own names, and our folders.

Original: ``pretrained_model.bin`` and ``multi_task_model.bin`` (vilbert-multi-task) and
``pytorch_model_9.bin`` (vilbert_beta); one file, read without running code from it, with the
original configuration beside it (``config=PATH``) or, if none is named, the full-size one. Ours: a
folder with ``config.json`` and ``model.safetensors``.

Which keys were missing and which had no use is said exactly (:class:`Keys`); a key that the score
needs and that is missing is an error, and so is a key that the configuration has no place for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from captious.errors import InputError
from captious.models.checkpoints import load_safetensors, load_torch
from captious.models.vilbert import Vilbert
from captious.models.vilbert_config import VilbertConfig, read_config
from captious.models.vilbert_heads import Heads
from captious.reading import json_object, reading

MATCHING = "cls.bi_seq_relationship."
TASK_TABLE = "bert.embeddings.task_embeddings.weight"
_HEADS = ("cls.", "vil_", "vision_logit.", "linguisic_logit.", "dropout.")
_SPARE = ("biOutput.q_dense", "t_pooler.", "v_pooler.")
_SHOWN = 12
_MOST_SPARE = 1 << 27  # numbers


@dataclass(frozen=True)
class Keys:
    """What became of the keys of a checkpoint.

    Attributes:
        missing: parameters that the score does without and the file lacks (left at zero).
        heads: tensors of task heads in the file, of no use to the score.
    """

    missing: tuple[str, ...]
    heads: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"missing, not needed by the score: {_listed(self.missing)}; "
            f"in the file, not used: {_listed(self.heads)}"
        )


def load_vilbert(weights: Path | str, config: Path | str | None = None) -> tuple[Vilbert, Keys]:
    """A model, ready for inference in float32, and what became of the keys.

    Raises:
        InputError: the file cannot be read, or does not fit the configuration.
    """
    with reading(weights, "a ViLBERT model"):
        return _load(Path(weights), config)


def _load(weights: Path, config: Path | str | None) -> tuple[Vilbert, Keys]:
    folder = weights if weights.is_dir() else None
    if config is None and folder is not None:
        config = folder / "config.json"
    shape = read_config(config) if config is not None else VilbertConfig()
    if folder is not None:
        weights = _inside(folder)
    state = _original_names(_read(weights), weights)
    if folder is not None:
        state = {**_text_stream(folder), **state}
    table = state.get(TASK_TABLE)
    shape = replace(shape, task_tokens=0 if table is None else len(table))
    for count in (shape.num_hidden_layers, shape.v_num_hidden_layers):
        if not 0 < count <= len(state):
            raise InputError(f"{config}: {count} layers, but the weights hold fewer")
    with torch.device("meta"):
        model = Vilbert(shape)
    keys = _fit(model, state, weights, named=config is not None)
    model.requires_grad_(False)
    return model.eval(), keys


def save_vilbert(
    model: Vilbert,
    folder: Path | str,
    facts: Mapping[str, Any] | None = None,
    half: bool = True,
    text_from: str | None = None,
    heads: Heads | None = None,
) -> Path:
    """Write our folder.

    Args:
        model: what to write.
        folder: where to.
        facts: join the configuration (training data, measured quality).
        half: whether the weights are written in half precision.
        text_from: a text encoder (``minilm``); what is exactly its own is left out and taken from
            there on loading.
        heads: whose matching head is written too.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    known = text_encoder_state(text_from) if text_from is not None else {}
    state = {}
    for name, value in model.state_dict().items():
        if name in known and torch.equal(known[name], value):
            continue
        kind = torch.float16 if half else value.dtype
        state[f"bert.{name}"] = value.detach().cpu().to(kind).contiguous()
    if heads is not None:
        for name, value in heads.bi_seq_relationship.state_dict().items():
            state[f"{MATCHING}{name}"] = value.detach().cpu().to(torch.float32).contiguous()
    save_file(state, folder / "model.safetensors")
    whole = {**model.config.to_json(), **(facts or {})}
    if text_from is not None:
        whole["text_from"] = text_from
    (folder / "config.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return folder


@lru_cache(maxsize=4)
def matching_head(path: Path) -> nn.Linear:
    """The head that tells whether text and image belong together.

    Raises:
        InputError: the weights hold none.
    """
    with reading(path, "a ViLBERT model"):
        return _head(path)


def _head(path: Path) -> nn.Linear:
    state = _original_names(_read(weights_file(path)), path)
    missing = [name for name in ("weight", "bias") if f"{MATCHING}{name}" not in state]
    if missing:
        raise InputError(
            f"{path}: these weights hold no matching head ({MATCHING}weight and bias): take a "
            "checkpoint of the pre-training, or `captious train vilbert`"
        )
    weight, bias = (state[f"{MATCHING}{name}"].float() for name in ("weight", "bias"))
    head = nn.Linear(weight.shape[1], len(weight))
    head.load_state_dict({"weight": weight, "bias": bias})
    return head.requires_grad_(False)


def text_encoder_state(name: str) -> dict[str, Tensor]:
    """The parameters of a text encoder of the BERT kind, by name or folder."""
    from captious.models import text_encoder

    state = _read(text_encoder.locate(name) / "model.safetensors")
    return {key.removeprefix("bert."): value for key, value in state.items()}


def _text_stream(folder: Path) -> dict[str, Tensor]:
    """What our folder left to a text encoder: its word table and text layers."""
    name = json_object(folder / "config.json", "a configuration").get("text_from")
    if name is None:
        return {}
    config = read_config(folder / "config.json")
    layers = tuple(f"encoder.layer.{k}." for k in range(config.num_hidden_layers))
    table = "embeddings.position_ids"  # older files carry this constant
    return {
        f"bert.{key}": value
        for key, value in text_encoder_state(str(name)).items()
        if key.startswith(("embeddings.", *layers)) and key != table
    }


def _inside(folder: Path) -> Path:
    names = ("model.safetensors", "pytorch_model.bin")
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: neither {' nor '.join(names)} is in this folder")
    return path


def weights_file(path: Path) -> Path:
    """The file with the numbers, whose hash names a model."""
    return _inside(path) if path.is_dir() else path


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_safetensors(path)
    state = load_torch(path)
    if isinstance(state, dict) and isinstance(state.get("model_state_dict"), dict):
        state = state["model_state_dict"]  # what the training script stores to resume from
    if not isinstance(state, dict) or not state:
        raise InputError(f"{path}: not a state dict of a model ({type(state).__name__})")
    odd = [str(k) for k, v in state.items() if not isinstance(v, Tensor)]
    if odd:
        raise InputError(f"{path}: not a state dict of a model: {_listed(odd)} hold no tensor")
    return state


def _original_names(state: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Undo what training wrappers and old frameworks did to the names."""
    renamed: dict[str, Tensor] = {}
    for key, value in state.items():
        name = key.removeprefix("module.")
        stem, _, last = name.rpartition(".")
        if stem.rpartition(".")[2].startswith("LayerNorm"):
            name = f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }"
        renamed[name] = value
    if not any(name.startswith("bert.") for name in renamed):
        raise InputError(
            f"{path}: no parameter is called bert.*, so this is not a ViLBERT checkpoint; it has "
            f"{_listed(renamed)}"
        )
    return renamed


def _fit(model: Vilbert, state: dict[str, Tensor], path: Path, named: bool) -> Keys:
    wanted = {f"bert.{name}": value.shape for name, value in model.state_dict().items()}
    missing = [name for name in wanted if name not in state]
    spare = [name for name in missing if any(part in name for part in _SPARE)]
    needed = [name for name in missing if name not in set(spare)]
    unused = [name for name in state if name not in wanted]
    heads = [name for name in unused if name.startswith(_HEADS)]
    alien = [name for name in unused if not name.startswith(_HEADS)]
    odd = [
        f"{name} is {tuple(state[name].shape)}, the configuration says {tuple(shape)}"
        for name, shape in wanted.items()
        if name in state and state[name].shape != shape
    ]
    problems = []
    if needed:
        problems.append(f"{len(needed)} parameters are missing: {_listed(needed)}")
    if alien:
        problems.append(f"{len(alien)} keys have no place in this model: {_listed(alien)}")
    if odd:
        problems.append(f"{len(odd)} parameters have another shape: {_listed(odd)}")
    if sum(wanted[name].numel() for name in spare) > _MOST_SPARE:
        problems.append(f"the configuration describes huge parameters that are missing: {spare}")
    if problems:
        hint = "" if named else " (no config=PATH was named, so the full-size model was tried)"
        raise InputError([f"{path}: {problem}{hint}" for problem in problems])
    ready = {
        name.removeprefix("bert."): state[name].float() if name in state else torch.zeros(shape)
        for name, shape in wanted.items()
    }
    model.load_state_dict(ready, strict=True, assign=True)
    return Keys(tuple(spare), tuple(heads))


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f", ... and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing"
