"""A composite on disk: ``model.safetensors`` (weights, scaling) beside ``model.json`` (all facts).

Scoring is a few matrix products in numpy: no torch, no pickle. A file says which metrics it reads
and what decided their values in training (document frequencies, word vectors, weights, versions of
tokenisers); with anything else it refuses to score and says what differs.

The score of a caption with features f is ``softmax(net(t(f)))[1]``; t scales each feature:
``(map(f) - centre) / spread``, where ``map`` is the identity or a piecewise linear curve.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from captious._version import __version__
from captious.errors import InputError, MissingAsset
from captious.io import files
from captious.learned.features import Input, parse_inputs
from captious.reading import json_object, reading
from captious.types import Floats

FORMAT = 1
WEIGHTS, FACTS = "model.safetensors", "model.json"
_NEEDED = ("format", "name", "inputs", "identities", "objective", "captious")


@dataclass(frozen=True, eq=False)
class Scaling:
    """How raw features become what the network reads.

    Attributes:
        centre: subtracted, per feature.
        spread: divided by, per feature.
        knots: (points, features) increasing values of the curves; empty for the identity.
        heights: (points,) what the curves give at the knots.
    """

    centre: Floats
    spread: Floats
    knots: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    heights: Floats = field(default_factory=lambda: np.zeros(0))

    def __call__(self, raw: Floats) -> Floats:
        """Scale (rows, features)."""
        if len(self.heights):
            raw = np.column_stack(
                [np.interp(raw[:, i], self.knots[:, i], self.heights) for i in range(raw.shape[1])]
            )
        return (raw - self.centre) / self.spread


@dataclass(frozen=True, eq=False)
class Model:
    """A trained composite.

    Attributes:
        inputs: the columns it reads, in order.
        identities: per input, what decided its values in training.
        scaling: of the features.
        layers: (weights, bias) pairs; ReLU between them, two outputs at the end.
        baseline: mean raw features of the training set: what explanations compare with.
        facts: everything else that the file says.
        sha: digest of weights and facts.
    """

    inputs: tuple[Input, ...]
    identities: tuple[dict[str, str], ...]
    scaling: Scaling
    layers: tuple[tuple[Floats, Floats], ...]
    baseline: Floats
    facts: dict[str, Any]
    sha: str = ""

    @property
    def linear(self) -> bool:
        """Whether it is a weighted sum of the scaled features under a sigmoid."""
        return len(self.layers) == 1

    def logits(self, raw: Floats) -> Floats:
        """Return the log odds of "good" for (rows, features) raw values."""
        x = self.scaling(np.asarray(raw, np.float64))
        for weight, bias in self.layers[:-1]:
            x = np.maximum(x @ weight + bias, 0.0)
        weight, bias = self.layers[-1]
        out = x @ weight + bias
        return out[:, 1] - out[:, 0]

    def scores(self, raw: Floats) -> Floats:
        """Return the probability of "good", in (0, 1)."""
        return 0.5 * (1.0 + np.tanh(0.5 * self.logits(raw)))

    @cached_property
    def weights(self) -> Floats:
        """Weight of every scaled feature in the log odds (linear models only)."""
        return self.layers[0][0][:, 1] - self.layers[0][0][:, 0]

    def differences(self, found: Sequence[dict[str, str]]) -> list[str]:
        """Say where the inputs at hand differ from those of training; empty if nowhere."""
        out = []
        for model_input, then, now in zip(self.inputs, self.identities, found, strict=True):
            names = model_input.metric.renamed
            then = {k if k in now else names.get(k, k): v for k, v in then.items()}
            for key in dict.fromkeys([*then, *now]):
                if key not in now and then[key] == "none":
                    continue  # an option that was not used and that the metric no longer has
                if key not in then and model_input.metric.is_default(key):
                    continue  # an option that came later and is not used
                if then.get(key) != now.get(key):
                    out.append(
                        f"{model_input.text}: {key} was {then.get(key, 'absent')} in training "
                        f"and is {now.get(key, 'absent')} here"
                    )
        return list(dict.fromkeys(out))


def save(model: Model, folder: Path) -> Path:
    """Write the two files, whole or not at all."""
    tensors = {
        "centre": model.scaling.centre,
        "spread": model.scaling.spread,
        "knots": model.scaling.knots,
        "heights": model.scaling.heights,
        "baseline": model.baseline,
    }
    for number, (weight, bias) in enumerate(model.layers):
        tensors |= {f"layer{number}.weight": weight, f"layer{number}.bias": bias}
    bad = [name for name, value in tensors.items() if not np.isfinite(value).all()]
    if bad:
        raise InputError(
            f"{folder}: not written, {', '.join(bad)} holds values that are not finite"
        )
    facts = {
        "format": FORMAT,
        "captious": __version__,
        **model.facts,
        "inputs": [i.text for i in model.inputs],
        "identities": list(model.identities),
    }
    with files.replacing(folder / WEIGHTS, "wb") as file:
        file.write(_pack(tensors))
    with files.replacing(folder / FACTS) as file:
        file.write(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    return folder


def load(folder: Path) -> Model:
    """Open a composite.

    Raises:
        MissingAsset: there is none.
        InputError: the files are damaged, of another version, or do not belong together.
    """
    if not (folder / FACTS).is_file() or not (folder / WEIGHTS).is_file():
        raise MissingAsset(
            f"{folder}: this is not the folder of a composite ({FACTS} and {WEIGHTS} are missing); "
            "`captious train composite` makes one"
        )
    times = tuple((folder / name).stat().st_mtime_ns for name in (FACTS, WEIGHTS))
    return _load(folder, times)


@lru_cache(maxsize=32)
def _load(folder: Path, times: tuple[int, ...]) -> Model:
    with reading(folder, "a composite of captious", "train it again"):
        return _read(folder)


def _read(folder: Path) -> Model:
    facts = json_object(folder / FACTS, "a composite of captious")
    made = facts.get("format")
    if made != FORMAT:
        kind = "a newer" if isinstance(made, int) and made > FORMAT else "another"
        raise InputError(
            f"{folder / FACTS}: written by {kind} version of captious (format {made!r}, captious "
            f"{facts.get('captious', 'unknown')}; this is captious {__version__}, which reads "
            f"format {FORMAT}): train it again, or use that version"
        )
    lacking = [key for key in _NEEDED if key not in facts]
    if lacking:
        raise InputError(f"{folder / FACTS}: {', '.join(lacking)} is missing")
    raw = files.read_bytes(folder / WEIGHTS)
    tensors = _unpack(raw, folder / WEIGHTS)
    inputs = parse_inputs(facts["inputs"], remark=False)
    layers: list[tuple[Floats, Floats]] = []
    try:
        while f"layer{len(layers)}.weight" in tensors:
            at = len(layers)
            layers.append((tensors[f"layer{at}.weight"], tensors[f"layer{at}.bias"]))
        scaling = Scaling(*(tensors[k] for k in ("centre", "spread", "knots", "heights")))
        baseline = tensors["baseline"]
    except KeyError as err:
        raise InputError(f"{folder / WEIGHTS}: the tensor {err} is missing") from None
    _check_shapes(folder / WEIGHTS, len(inputs), layers, scaling, baseline)
    digest = hashlib.sha256(raw + json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    if len(facts["identities"]) != len(inputs):
        raise InputError(f"{folder / FACTS}: inputs and identities differ in number")
    return Model(
        inputs,
        tuple(dict(i) for i in facts["identities"]),
        scaling,
        tuple(layers),
        baseline,
        facts,
        digest,
    )


def _check_shapes(
    path: Path,
    count: int,
    layers: Sequence[tuple[Floats, Floats]],
    scaling: Scaling,
    baseline: Floats,
) -> None:
    width, problems = count, []
    for number, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or weight.shape[0] != width or bias.shape != weight.shape[1:]:
            problems.append(
                f"{path}: layer {number} has the shape {weight.shape}, expected {width} rows"
            )
        width = weight.shape[-1]
    if not layers or width != 2:
        problems.append(f"{path}: the last layer must have two outputs")
    for name, value in (
        ("centre", scaling.centre),
        ("spread", scaling.spread),
        ("baseline", baseline),
    ):
        if value.shape != (count,):
            problems.append(f"{path}: {name} has {value.size} values for {count} inputs")
    if len(scaling.heights) and scaling.knots.shape != (len(scaling.heights), count):
        problems.append(f"{path}: knots have the shape {scaling.knots.shape}")
    arrays = [a for pair in layers for a in pair]
    if not all(np.isfinite(a).all() for a in arrays) or not (scaling.spread > 0).all():
        problems.append(
            f"{path}: holds values that are not finite or a spread that is not positive"
        )
    if problems:
        raise InputError(problems)


def _pack(tensors: dict[str, Floats]) -> bytes:
    """Write the safetensors layout: length, JSON header, little-endian numbers."""
    header: dict[str, Any] = {}
    body = b""
    for name, value in tensors.items():
        content = np.ascontiguousarray(value, dtype="<f8").tobytes()
        header[name] = {
            "dtype": "F64",
            "shape": list(np.shape(value)),
            "data_offsets": [len(body), len(body) + len(content)],
        }
        body += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def _unpack(raw: bytes, path: Path) -> dict[str, Floats]:
    with reading(path, "a safetensors file"):
        (size,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8 : 8 + size])
        body = raw[8 + size :]
        out = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            kind = {"F64": "<f8", "F32": "<f4"}[entry["dtype"]]
            first, last = entry["data_offsets"]
            array = np.frombuffer(body[first:last], dtype=kind).reshape(entry["shape"])
            out[name] = array.astype(np.float64)
    return out
