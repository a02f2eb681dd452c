"""Bootstrap over images that need not be in memory together (Poisson bootstrap).

In every draw an image counts 0, 1, 2, ... times, a Poisson number of mean 1. The number is a hash
of the image's name, the draw and the seed. So sums over shards can be added in any order, and an
image that stands in two shards gets the same number in both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from captious.types import Floats

_BLOCK = 2048
_PER_HASH = 4  # a 64-bit hash gives four numbers of 16 bits
_MASK = (1 << 64) - 1


def image_hashes(images: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit name of every image, the same on every machine."""
    named = (hashlib.blake2b(i.encode(), digest_size=8).digest() for i in images)
    return np.frombuffer(b"".join(named), "<u8")


def weights(images: npt.NDArray[np.uint64], resamples: int, seed: int) -> Floats:
    """Return (resamples, images): how often each image counts in each draw."""
    groups = -(-resamples // _PER_HASH)
    streams = _mixed(np.arange(1, groups + 1, dtype=np.uint64) + np.uint64(seed * 2**20 & _MASK))
    hashed = _mixed(images[:, None] ^ streams[None, :])
    numbers = hashed.astype("<u8", copy=False).view("<u2")[:, :resamples]
    return _COUNTS[numbers].T


def resampled_sums(
    images: npt.NDArray[np.uint64], sums: Floats, resamples: int, seed: int
) -> Floats:
    """Return (resamples, k): the sums of every draw, from (images, k) sums per image."""
    total = np.zeros((resamples, sums.shape[1]))
    for start in range(0, len(images), _BLOCK):
        block = slice(start, start + _BLOCK)
        total += weights(images[block], resamples, seed) @ sums[block]
    return total


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a well-mixed number for every number (the last steps of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _counts() -> Floats:
    """Return the Poisson number of each of 65,536 equally likely cases."""
    shares = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(9)])
    cases = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.searchsorted(shares, cases).astype(np.float64)


_COUNTS = _counts()
