"""Cut a run into blocks for encoders, and token runs into padded batches.

Rows that share references land in the same block, so the references of an image are encoded once
even when the run is far larger than memory; inside a block, items of like size are padded
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.models import embedding_cache
from captious.models.text_encoder import Encoded, TextEncoder
from captious.types import CaptionSet, Ints, TextPool, WorkKey

BLOCK_TEXTS = 2048
BLOCK_CHARACTERS = 400_000  # some 100,000 pieces: 150 MB of vectors for MiniLM
_LEAST_CHARACTERS = 20_000
_CHARACTERS_PER_PIECE = 4
_BATCH_PIECES = 8192  # padded pieces of one batch: 12 MB of vectors for MiniLM


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a set, with the token vectors of all their texts.

    ``captions[i]`` and ``references[i]`` number the texts of row ``rows[i]`` inside ``encoded``.
    """

    rows: Ints
    captions: Ints
    references: list[Ints]
    encoded: Encoded


def blocks(samples: CaptionSet, encoder: TextEncoder, layer: int) -> Iterator[Block]:
    """Yield the rows that have references, encoded."""
    has = np.flatnonzero(samples.reference_counts > 0)
    first = samples.reference[samples.offsets[has]]
    order = has[np.lexsort((has, first))]
    long = samples.pool.derived(WorkKey[Ints]("characters"), lambda: _characters(samples.pool))
    most = _block_characters(encoder)
    seen: set[int] = set()
    letters = start = 0
    for at, row in enumerate(order.tolist()):
        refs = samples.reference[samples.offsets[row] : samples.offsets[row + 1]].tolist()
        new = {int(samples.caption[row]), *refs} - seen
        seen |= new
        letters += sum(int(long[t]) for t in new)
        full = len(seen) >= BLOCK_TEXTS or letters >= most
        if full or at == len(order) - 1:
            yield _block(samples, order[start : at + 1], encoder, layer)
            letters, start = 0, at + 1
            seen.clear()


def _block_characters(encoder: TextEncoder) -> int:
    """Return how much text a block may have: its vectors take a quarter of the allowed memory."""
    pieces = embedding_cache.memory_bytes() // 4 // (encoder.width * 4)
    return max(_LEAST_CHARACTERS, min(BLOCK_CHARACTERS, pieces * _CHARACTERS_PER_PIECE))


def _characters(pool: TextPool) -> Ints:
    """Return the length of every string of the run."""
    return np.array([len(text) for part in pool.chunks() for text in part], np.int64)


def _block(samples: CaptionSet, rows: Ints, encoder: TextEncoder, layer: int) -> Block:
    part = samples.take(rows)
    texts, number = np.unique(np.concatenate([part.caption, part.reference]), return_inverse=True)
    encoded = encoder.encode(samples.pool.strings(texts), layer)
    captions, references = number[: len(rows)], number[len(rows) :]
    return Block(rows, captions, np.split(references, part.offsets[1:-1]), encoded)


def batches(*sizes: Ints) -> Iterator[Ints]:
    """Yield item numbers, like sizes together, with bounded padded length in all."""
    order = np.lexsort(sizes)
    total = np.stack(sizes)[:, order]
    start = 0
    while start < len(order):
        stop = start + 1
        widest = total[:, start].copy()
        while stop < len(order):
            widest = np.maximum(widest, total[:, stop])
            if (stop + 1 - start) * widest.sum() > _BATCH_PIECES:
                break
            stop += 1
        yield order[start:stop]
        start = stop


def padded(starts: Ints, lengths: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return (n, longest) positions of runs, and which are real (others point at 0)."""
    step = np.arange(int(lengths.max(initial=0)))
    real = step[None, :] < lengths[:, None]
    return np.where(real, starts[:, None] + step, 0), real


def joined(runs: Sequence[Ints], encoded: Encoded) -> tuple[Ints, npt.NDArray[np.bool_], Ints]:
    """Return, for lists of texts, the padded positions of all their pieces.

    Returns:
        positions (n, longest), which are real, and the number of the text within its list.
    """
    pieces = [
        np.concatenate([np.arange(encoded.offsets[t], encoded.offsets[t + 1]) for t in run])
        for run in runs
    ]
    owners = [np.repeat(np.arange(len(run)), encoded.lengths[run]) for run in runs]
    longest = max(len(p) for p in pieces)
    at = np.zeros((len(runs), longest), np.int64)
    owner = np.full((len(runs), longest), -1, np.int64)
    for i, (p, o) in enumerate(zip(pieces, owners, strict=True)):
        at[i, : len(p)] = p
        owner[i, : len(o)] = o
    return at, owner >= 0, owner
