"""State dicts of CLIP in OpenAI's form, under the names that transformers uses.

Three kinds are read: plain ones (OpenAI, OpenCLIP, PAC-S), those of PAC-S++ with low-rank additions
(LoRA), and those of Long-CLIP with a second table of positions. Vision transformers only.

PAC-S++ (rank r, scale 1/r): the additions of the attention (``in_proj``, ``out_proj``) and of the
first convolution are added to the weights. Those of the two layers behind the attention (``mlp``)
are **not**: the authors' code marks these layers as merged before it loads the file, so it never
adds them, and so do we. Long-CLIP: the first 20 positions come from one table, all others from
the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.models.checkpoints import load_safetensors, load_torch

_KEPT_POSITIONS = 20
_WRAPPERS = ("state_dict", "model", "model_state_dict")
_ONCE = {
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "logit_scale": "logit_scale",
}
_TURNED = {"text_projection": "text_projection.weight", "visual.proj": "visual_projection.weight"}
_INNER = {
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_BLOCK = re.compile(r"(visual\.)?transformer\.resblocks\.(\d+)\.(.+)")
_SPARE = (
    "input_resolution",
    "context_length",
    "vocab_size",
    "attn_mask",
    "positional_embedding_res",
)


def read(path: Path) -> dict[str, Any]:
    """Return the tensors of a file in OpenAI's form, as float32, under transformers' names.

    Raises:
        InputError: the file is no such state dict.
    """
    content: Any = load_safetensors(path) if path.suffix == ".safetensors" else load_torch(path)
    for key in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict):
        raise InputError(f"{path}: not a state dict, but a {type(content).__name__}")
    tensors = {
        str(name).removeprefix("module."): value.float()
        for name, value in content.items()
        if hasattr(value, "shape")
    }
    if "visual.proj" not in tensors or "text_projection" not in tensors:
        raise InputError(
            f"{path}: not a state dict of a CLIP with a vision transformer in OpenAI's form "
            "('visual.proj' and 'text_projection' are expected)"
        )
    return _renamed(_with_positions(_with_additions(tensors)), path)


def _with_additions(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Add the low-rank parts that the authors' code adds, and drop all of them."""
    whole = {name: value for name, value in tensors.items() if "lora_" not in name}
    for name, first in tensors.items():
        if not name.endswith("lora_A"):
            continue
        second = tensors[name.removesuffix("A") + "B"]
        stem = name.removesuffix("_lora_A").removesuffix(".lora_A")
        target = stem if stem in whole else f"{stem}.weight"
        if ".mlp." in name or target not in whole:
            continue
        weight = whole[target]
        rank = first.shape[0] // (weight.shape[-1] if weight.dim() == 4 else 1)
        whole[target] = weight + (second @ first).reshape(weight.shape) / rank
    return whole


def _with_positions(tensors: dict[str, Any]) -> dict[str, Any]:
    """Join the two tables of positions of Long-CLIP."""
    stretched = tensors.get("positional_embedding_res")
    if stretched is not None:
        own = tensors["positional_embedding"].clone()
        own[_KEPT_POSITIONS:] = stretched[_KEPT_POSITIONS:]
        tensors["positional_embedding"] = own
    return tensors


def _renamed(tensors: Mapping[str, Any], path: Path) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in tensors.items():
        if name in _SPARE or name.endswith(".attn_mask"):
            continue
        if name in _ONCE:
            out[_ONCE[name]] = value
        elif name in _TURNED:
            out[_TURNED[name]] = value.T.contiguous()
        elif block := _BLOCK.fullmatch(name):
            side = "vision_model" if block[1] else "text_model"
            out |= _of_block(f"{side}.encoder.layers.{block[2]}.", block[3], value)
        else:
            raise InputError(f"{path}: the tensor {name[:80]!r} belongs to no known CLIP")
    return out


def _of_block(stem: str, name: str, value: Any) -> dict[str, Any]:
    """The tensors of one layer; OpenAI's form has queries, keys and values in one piece."""
    if name in ("attn.in_proj_weight", "attn.in_proj_bias"):
        kind = name.rpartition("_")[2]
        parts = value.chunk(3)
        return {f"{stem}self_attn.{q}_proj.{kind}": p for q, p in zip("qkv", parts, strict=True)}
    inner, _, kind = name.rpartition(".")
    return {f"{stem}{_INNER.get(inner, inner)}.{kind}": value}
