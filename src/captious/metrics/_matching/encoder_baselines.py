"""What an encoder says of sentences that have nothing to do with each other, layer by layer.

The mean BERTScore of random pairs is both the baseline for rescaling and, as recall, the rule for
BERT-TBR's threshold: the thresholds of its authors lie there (0.40 against 0.37 to 0.40 for
BERT-base, 0.83 against 0.8315 for RoBERTa-large).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.metrics._matching.token_blocks import Block
from captious.metrics.bertscore import score_pairs
from captious.models.text_encoder import TextEncoder
from captious.progress import Progress
from captious.types import Floats

_CHUNK = 512


@dataclass(frozen=True)
class LayerBaseline:
    """Mean P, R, F of random pairs at one hidden state, and the spread of R over pairs."""

    layer: int
    p: float
    r: float
    f: float
    r_sd: float


def baselines(
    encoder: TextEncoder, texts: Sequence[str], pairs: int, seed: int
) -> list[LayerBaseline]:
    """Draw pairs of different texts and score them at every layer."""
    pool = sorted({t.strip() for t in texts} - {""})
    if len(pool) < 100:
        raise InputError(f"{len(pool)} different texts are too few for random pairs: give 100")
    drawn = np.random.default_rng(seed)
    left = drawn.integers(0, len(pool), pairs)
    right = (left + drawn.integers(1, len(pool), pairs)) % len(pool)  # never the same text
    layers = range(encoder.layers + 1)
    for layer in layers:
        encoder.expect(layer)
    weights = np.ones(len(encoder.vocabulary))
    scores = np.zeros((len(layers), pairs, 3))
    with Progress("random pairs", pairs, "pairs") as bar:
        for start in range(0, pairs, _CHUNK):
            part = slice(start, min(start + _CHUNK, pairs))
            used, number = np.unique(np.stack([left[part], right[part]]), return_inverse=True)
            a, b = number.reshape(2, -1)
            strings = [pool[i] for i in used]
            none = np.zeros(0, np.int64)
            for layer in layers:
                block = Block(none, none, [], encoder.encode(strings, layer))
                scores[layer, part] = score_pairs(block, a, b, weights, encoder.device)
            bar.advance(part.stop - part.start)
    return [_summary(k, scores[k]) for k in layers]


def _summary(layer: int, values: Floats) -> LayerBaseline:
    p, r, f = values.mean(0).tolist()
    return LayerBaseline(layer, p, r, f, float(values[:, 1].std()))


def as_json(
    encoder: TextEncoder, rows: Sequence[LayerBaseline], pairs: int, seed: int, source: str
) -> dict[str, Any]:
    """Return what ``bertscore(baseline=FILE)`` reads, with where it comes from."""
    return {
        "encoder": encoder.name,
        "weights": encoder.weights_sha,
        "dtype": encoder.dtype,
        "pairs": pairs,
        "seed": seed,
        "texts": source,
        "layers": [asdict(r) for r in rows],
    }
