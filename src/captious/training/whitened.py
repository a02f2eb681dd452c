"""Region features of many photographs, whitened and kept in one memory-mapped file.

Eighty thousand photographs with 36 regions of 2,560 numbers take 15 GB in half precision. Training
reads them whitened (mean, directions and scales estimated on some of them) and cut to the strongest
1,024 directions, from a file that the system pages in and out; a run that was cut off finds it
again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from captious.errors import InputError
from captious.evidence.regions import RegionStore
from captious.progress import track

WHITENING = "whitening.safetensors"
_SAMPLE_IMAGES = 2000


class Whitening:
    """Mean, directions and scales of region features, to be folded into a layer at the end."""

    def __init__(self, mean: Tensor, matrix: Tensor) -> None:
        self.mean, self.matrix = mean, matrix

    @classmethod
    def estimate(cls, rows: Tensor, keep: int) -> Whitening:
        """Estimate it from feature rows ``[n, dim]``, with the ``keep`` strongest directions."""
        mean = rows.mean(0)
        values, vectors = torch.linalg.eigh(torch.cov(rows.T))
        keep = min(keep, len(values))
        values, vectors = values.flip(0)[:keep].clamp(min=0), vectors.flip(1)[:, :keep]
        # A floor keeps the last directions from being blown up into noise.
        return cls(mean, vectors / (values + 0.02 * values.mean()).sqrt())

    @classmethod
    def sampled(cls, features: Tensor, keep: int, seed: int = 0) -> Whitening:
        """Estimate it from some rows of ``[images, regions, dim]``."""
        rows = features.reshape(-1, features.shape[-1])
        pick = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:40_000]
        return cls.estimate(rows[pick].float(), keep)

    def __call__(self, features: Tensor) -> Tensor:
        """Whiten ``[..., dim]``."""
        return (features.float() - self.mean) @ self.matrix

    def blocks(self, features: Tensor, chunk: int = 256) -> Tensor:
        """Whiten many images in half precision, a block at a time."""
        return torch.cat([self(part).half() for part in features.split(chunk)])

    def folded(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same linear map for features that are not whitened."""
        full = weight @ self.matrix.T
        return full, bias - full @ self.mean


def whitening_of(store: RegionStore, names: Sequence[str], keep: int, folder: Path) -> Whitening:
    """Estimate on a sample of the photographs; a second call reads what the first one wrote."""
    from safetensors.torch import load_file, save_file

    target = folder / WHITENING
    if target.exists():
        stored = load_file(target)
        return Whitening(stored["mean"], stored["matrix"])
    draw = np.random.default_rng(0)
    sampled = draw.choice(len(names), min(_SAMPLE_IMAGES, len(names)), replace=False)
    rows = []
    for number in track(sampled.tolist(), "sampling regions", unit="images"):
        features = np.asarray(store[names[number]].features, np.float32)
        rows.append(features[draw.permutation(len(features))[:20]])
    whitening = Whitening.estimate(torch.from_numpy(np.concatenate(rows)), keep)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"mean": whitening.mean, "matrix": whitening.matrix.contiguous()}, target)
    return whitening


def whitened(
    store: RegionStore, names: Sequence[str], whitening: Whitening, file: Path, chunk: int = 64
) -> Tensor:
    """Whitened features ``[images, regions, keep]`` in half precision, mapped from ``file``."""
    first = np.asarray(store[names[0]].features)
    shape = (len(names), len(first), whitening.matrix.shape[1])
    key = hashlib.sha256(json.dumps([shape, store.source, list(names)]).encode()).hexdigest()
    note = file.with_suffix(".json")
    known = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    begin = int(known.get("done", 0)) if known.get("key") == key and file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    block = np.lib.format.open_memmap(file, "r+" if begin else "w+", np.float16, shape)
    for start in track(range(begin, len(names), chunk), "whitening regions", unit="blocks"):
        part = names[start : start + chunk]
        raw = np.stack([_regions(store, name, first.shape) for name in part])
        block[start : start + len(part)] = whitening(torch.from_numpy(raw)).half().numpy()
        if (start // chunk) % 50 == 49 or start + chunk >= len(names):
            block.flush()
            text = json.dumps({"key": key, "done": start + len(part)})
            note.write_text(text, encoding="utf-8")
    return torch.from_numpy(block)


def _regions(store: RegionStore, name: str, shape: tuple[int, ...]) -> np.ndarray:
    features = np.asarray(store[name].features, np.float32)
    if features.shape != shape:
        raise InputError(
            f"image {name} has {features.shape[0]} regions, others {shape[0]}: training takes one "
            "number for all"
        )
    return features
