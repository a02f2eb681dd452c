"""The shape of a ViLBERT, as its JSON configuration tells it.

The keys are those of the original files (``bert_base_6layer_6conect.json``); the defaults are that
file's values. Keys that only matter elsewhere (pooling of the task heads, say) are read past; keys
that would make another network of it are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.reading import json_object

_ACTIVATIONS = ("gelu", "relu", "swish")
_OTHER_NETWORKS = {"with_coattention": True, "dynamic_attention": False, "fast_mode": False,
                   "model": "bert", "bi_attention_type": 1}  # fmt: skip


@dataclass(frozen=True)
class VilbertConfig:
    """Sizes of both streams and where they meet.

    Block ``k`` of co-attention comes before text layer ``t_biattention_id[k]`` and before vision
    layer ``v_biattention_id[k]``.

    Attributes:
        task_tokens: rows of the task embedding; 0 = a model without task tokens.
        features: what the region features are that the model was trained on ("" = not told).
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    v_feature_size: int = 2048
    v_target_size: int = 1601
    v_hidden_size: int = 1024
    v_num_hidden_layers: int = 6
    v_num_attention_heads: int = 8
    v_intermediate_size: int = 1024
    v_hidden_act: str = "gelu"
    v_hidden_dropout_prob: float = 0.1
    v_attention_probs_dropout_prob: float = 0.1
    bi_hidden_size: int = 1024
    bi_num_attention_heads: int = 8
    v_biattention_id: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    t_biattention_id: tuple[int, ...] = (6, 7, 8, 9, 10, 11)
    task_tokens: int = 0
    features: str = ""

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise InputError([f"ViLBERT configuration: {p}" for p in problems])

    def _problems(self) -> Iterator[str]:
        for size, heads in (("hidden_size", "num_attention_heads"),
                            ("v_hidden_size", "v_num_attention_heads"),
                            ("bi_hidden_size", "bi_num_attention_heads")):  # fmt: skip
            wide, many = getattr(self, size), getattr(self, heads)
            if many < 1 or wide < 1 or wide % many:
                yield f"{size} {wide} cannot be shared among {heads} {many}"
        for name in ("hidden_act", "v_hidden_act"):
            if getattr(self, name) not in _ACTIVATIONS:
                yield f"{name} is one of {', '.join(_ACTIVATIONS)}, not {getattr(self, name)!r}"
        if len(self.v_biattention_id) != len(self.t_biattention_id):
            yield "v_biattention_id and t_biattention_id have different lengths"
        if not self.t_biattention_id:
            yield "there is no co-attention block"
        for name, layers in (("t_biattention_id", self.num_hidden_layers),
                             ("v_biattention_id", self.v_num_hidden_layers)):  # fmt: skip
            ids = getattr(self, name)
            if list(ids) != sorted(ids) or (ids and not 0 <= ids[0] <= ids[-1] <= layers):
                yield f"{name} {list(ids)} does not rise within 0..{layers}"

    @property
    def blocks(self) -> int:
        """Number of co-attention blocks: the layers that the score can choose from."""
        return len(self.t_biattention_id)

    @property
    def identity(self) -> str:
        """Short hash of the shape, for signatures."""
        shape = {k: v for k, v in asdict(self).items() if k != "features"}
        return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:8]

    def to_json(self) -> dict[str, Any]:
        """The keys to write; :func:`read_config` reads them back."""
        return {"model_type": "vilbert", **asdict(self)}


def from_mapping(values: Mapping[str, Any], origin: str = "configuration") -> VilbertConfig:
    """A configuration from the keys of a JSON file, original or ours."""
    for key, usual in _OTHER_NETWORKS.items():
        if values.get(key, usual) != usual:
            raise InputError(
                f"{origin}: {key}={values[key]!r} makes another network than the one captious "
                f"builds ({key}={usual!r})"
            )
    known: dict[str, Any] = {}
    for field in fields(VilbertConfig):
        if field.name not in values:
            continue
        value = values[field.name]
        if isinstance(value, list):
            value = tuple(value)
        if not isinstance(value, type(field.default)) and not (
            isinstance(field.default, float) and isinstance(value, int)
        ):
            wanted = type(field.default).__name__
            raise InputError(f"{origin}: {field.name} must be of type {wanted}, not {value!r}")
        known[field.name] = value
    return VilbertConfig(**known)


def read_config(path: Path | str) -> VilbertConfig:
    """The configuration of a JSON file."""
    return from_mapping(json_object(path, "a configuration"), str(path))
