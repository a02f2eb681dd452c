"""The comparison of grounding vectors: the formulas of TIGEr, on whole arrays.

``reference`` and ``candidate`` are ``[m, n]``: ``m`` comparisons over ``n`` regions each.
"""

from __future__ import annotations

import numpy as np

from captious.types import Floats


def region_rank_similarity(reference: Floats, candidate: Floats, scaled: bool = True) -> Floats:
    """RRS: discounted gain of the candidate's region order over that of the reference's own.

    The gain of a region is its reference weight, min-max scaled per image if ``scaled`` (the
    released code; without it all values sit near one), else its positive part: a region that the
    references do not describe has no relevance, and the value stays in 0..1. Equal values keep the
    order of the regions. A reference that is constant or nowhere positive ranks nothing: 1.

    >>> r = np.array([[3.0, 2.0, 1.0]])
    >>> round(float(region_rank_similarity(r, r[:, ::-1])[0]), 4)
    0.6199
    """
    gain = np.maximum(reference, 0.0)
    flat = np.ptp(reference, axis=1) == 0
    if scaled:
        low = reference.min(axis=1, keepdims=True)
        spread = np.where(flat, 1.0, np.ptp(reference, axis=1))[:, None]
        gain = (reference - low) / spread
    discount = 1.0 / np.log2(np.arange(reference.shape[1]) + 2.0)
    actual = _ranked(gain, candidate) @ discount
    ideal = _ranked(gain, reference) @ discount
    undefined = flat | (ideal == 0)
    return np.where(undefined, 1.0, actual / np.where(undefined, 1.0, ideal))


def weight_distribution_parts(reference: Floats, candidate: Floats) -> tuple[Floats, Floats]:
    """KL divergence of the two weight distributions, and the log ratio of the vectors' lengths."""
    log_p, log_q = _log_softmax(reference), _log_softmax(candidate)
    divergence = (np.exp(log_p) * (log_p - log_q)).sum(axis=1)
    first = np.linalg.norm(reference, axis=1)
    second = np.linalg.norm(candidate, axis=1)
    known = (first > 0) & (second > 0)
    ratio = np.where(known, first, 1.0) / np.where(known, second, 1.0)
    return divergence, np.log(ratio)


def weight_distribution_similarity(
    reference: Floats, candidate: Floats, tau: float = 1.5
) -> Floats:
    """WDS: ``sigmoid(-tau * (KL + log |reference| / |candidate|))``; equal vectors: 1/2."""
    divergence, length = weight_distribution_parts(reference, candidate)
    return sigmoid(-tau * (divergence + length))


def sigmoid(x: Floats) -> Floats:
    """The logistic function without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _ranked(gain: Floats, by: Floats) -> Floats:
    order = np.argsort(-by, axis=1, kind="stable")
    return np.take_along_axis(gain, order, axis=1)


def _log_softmax(x: Floats) -> Floats:
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
