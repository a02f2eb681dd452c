"""n-grams in compiled code: counted per text, looked up, matched between captions and references.

The n-grams of a text stand in the order of their 64-bit names, so two texts are compared by walking
along both, and sums over the n-grams of a text are taken in the same order whatever else is in the
chunk: the same bits whatever the chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from captious.text.jit import Kernels

Array = npt.NDArray[Any]
_STEP: Final = 0x9E3779B97F4A7C15
_SHORT: Final = 48  # n-grams that are sorted by insertion
_FEW = 15_000


@dataclass(frozen=True, eq=False)
class Grams:
    """The distinct n-grams of every text: ``names[bounds[i]:bounds[i + 1]]``, ascending."""

    bounds: Array
    names: Array
    counts: Array


def kernels(texts: int) -> Any:
    """Return the compiled functions if that many texts are worth them, else None."""
    return _kernels.if_worth(texts)


def _counted(words: Array, offsets: Array, order: int) -> tuple[Array, Array, Array]:
    """Count the n-grams of one order in every text; ``words`` are 64-bit names."""
    texts = len(offsets) - 1
    bounds = np.zeros(texts + 1, np.int64)
    names = np.empty(len(words), np.uint64)
    counts = np.empty(len(words), np.int32)
    used = 0
    for text in range(texts):
        size = offsets[text + 1] - offsets[text] - order + 1
        begin = used
        if size > _SHORT:
            long = np.empty(size, np.uint64)
            for at in range(size):
                long[at] = _named(words, offsets[text] + at, order)
            long.sort()
            for at in range(size):
                if at and long[at] == names[used - 1]:
                    counts[used - 1] += 1
                else:
                    names[used], counts[used] = long[at], 1
                    used += 1
        else:
            for at in range(size):
                name = _named(words, offsets[text] + at, order)
                place = used
                while place > begin and names[place - 1] > name:
                    place -= 1
                if place > begin and names[place - 1] == name:
                    counts[place - 1] += 1
                else:
                    for later in range(used, place, -1):
                        names[later], counts[later] = names[later - 1], counts[later - 1]
                    names[place], counts[place] = name, 1
                    used += 1
        bounds[text + 1] = used
    return bounds, names[:used].copy(), counts[:used].copy()


def _named(words: Array, at: int, order: int) -> np.uint64:
    """Return the name of the n-gram that begins at a word."""
    name = words[at]
    for after in range(1, order):
        name = name * np.uint64(_STEP) + words[at + after]
    return name


def _slots_for(size: int) -> int:
    """Return a power of two of at least twice this size."""
    slots = 16
    while slots < 2 * size:
        slots *= 2
    return slots


def _documents(
    bounds: Array, names: Array, texts: Array, document: Array
) -> tuple[Array, Array, Array]:
    """In how many documents does each n-gram occur?

    Args:
        bounds: where the n-grams of each text begin.
        names: the n-grams of all texts.
        texts: texts of all documents, those of one document side by side.
        document: which document each belongs to.

    Returns:
        Distinct names, in how many documents each occurs, and for every n-gram of ``names`` its
        place among the distinct ones (-1: in no document).
    """
    distinct = np.empty(1 << 12, np.uint64)
    found_in = np.zeros(1 << 12, np.uint32)
    latest = np.empty(1 << 12, np.int64)
    slots = np.full(1 << 13, -1, np.int32)
    number_of = np.full(len(names), -1, np.int32)
    known = 0
    for at in range(len(texts)):
        text = texts[at]
        size = bounds[text + 1] - bounds[text]
        if known + size > len(distinct):
            wide = 2 * (known + size)
            longer = np.empty(wide, np.uint64)
            longer[:known] = distinct[:known]
            distinct = longer
            counts = np.zeros(wide, np.uint32)
            counts[:known] = found_in[:known]
            found_in = counts
            last = np.empty(wide, np.int64)
            last[:known] = latest[:known]
            latest = last
        if 2 * (known + size) > len(slots):
            slots = _spread(distinct, known, 2 * _slots_for(known + size))
        mask = len(slots) - 1
        for gram in range(bounds[text], bounds[text + 1]):
            number = number_of[gram]
            if number < 0:
                name = names[gram]
                slot = np.int64(name >> np.uint64(8)) & mask
                while slots[slot] >= 0 and distinct[slots[slot]] != name:
                    slot = (slot + 1) & mask
                if slots[slot] < 0:
                    slots[slot] = known
                    distinct[known], latest[known] = name, -1
                    known += 1
                number = slots[slot]
                number_of[gram] = number
            if latest[number] != document[at]:
                latest[number] = document[at]
                found_in[number] += np.uint32(1)
    return distinct[:known].copy(), found_in[:known].copy(), number_of


def _spread(distinct: Array, known: int, size: int) -> Array:
    """Return a table of slots: where a name's place among the distinct ones is found."""
    slots = np.full(size, -1, np.int32)
    mask = size - 1
    for number in range(known):
        slot = np.int64(distinct[number] >> np.uint64(8)) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number
    return slots


def _places(distinct: Array, slots: Array, names: Array, places: Array) -> None:
    """Fill in the place of every name whose place is not known yet (-1); unknown names stay."""
    mask = len(slots) - 1
    for at in range(len(names)):
        if places[at] < 0:
            slot = np.int64(names[at] >> np.uint64(8)) & mask
            while slots[slot] >= 0 and distinct[slots[slot]] != names[at]:
                slot = (slot + 1) & mask
            places[at] = slots[slot]


def _united(a: Array, a_counts: Array, b: Array, b_counts: Array) -> tuple[Array, Array]:
    """Add the counts of two ascending lists of names."""
    names = np.empty(len(a) + len(b), np.uint64)
    counts = np.empty(len(a) + len(b), np.uint32)
    i, j, used = 0, 0, 0
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] < b[j]):
            names[used], counts[used] = a[i], a_counts[i]
            i += 1
        elif i == len(a) or b[j] < a[i]:
            names[used], counts[used] = b[j], b_counts[j]
            j += 1
        else:
            names[used], counts[used] = a[i], a_counts[i] + b_counts[j]
            i, j = i + 1, j + 1
        used += 1
    return names[:used].copy(), counts[:used].copy()


def _clipped(
    bounds: Array, names: Array, counts: Array, caption: Array, reference: Array, offsets: Array
) -> Array:
    """Return per row how many n-grams of the caption a reference holds.

    Each counts at most as often as it stands in the reference that holds it most often.
    """
    matched = np.zeros(len(caption), np.int64)
    best = np.zeros(16, np.int32)
    for row in range(len(caption)):
        begin, end = bounds[caption[row]], bounds[caption[row] + 1]
        if end - begin > len(best):
            best = np.zeros(2 * (end - begin), np.int32)
        best[: end - begin] = 0
        for at in range(offsets[row], offsets[row + 1]):
            mine, other = begin, bounds[reference[at]]
            stop = bounds[reference[at] + 1]
            while mine < end and other < stop:
                if names[mine] < names[other]:
                    mine += 1
                elif names[other] < names[mine]:
                    other += 1
                else:
                    best[mine - begin] = max(best[mine - begin], counts[other])
                    mine, other = mine + 1, other + 1
        total = 0
        for gram in range(begin, end):
            total += min(counts[gram], best[gram - begin])
        matched[row] = total
    return matched


def _norms(bounds: Array, weights: Array) -> Array:
    """Return the length of every text's vector."""
    norms = np.empty(len(bounds) - 1)
    for text in range(len(norms)):
        total = 0.0
        for gram in range(bounds[text], bounds[text + 1]):
            total += weights[gram] * weights[gram]
        norms[text] = np.sqrt(total)
    return norms


def _similarity(
    bounds: Array,
    names: Array,
    weights: Array,
    norms: Array,
    caption: Array,
    reference: Array,
    offsets: Array,
    factor: Array,
    clip: bool,
) -> Array:
    """Return per row the sum over references of cosine times ``factor`` (one per reference)."""
    out = np.zeros(len(caption))
    for row in range(len(caption)):
        begin, end = bounds[caption[row]], bounds[caption[row] + 1]
        for at in range(offsets[row], offsets[row + 1]):
            mine, other = begin, bounds[reference[at]]
            stop = bounds[reference[at] + 1]
            dot = 0.0
            while mine < end and other < stop:
                if names[mine] < names[other]:
                    mine += 1
                elif names[other] < names[mine]:
                    other += 1
                else:
                    weight = weights[mine]
                    if clip and weights[other] < weight:
                        weight = weights[other]
                    dot += weight * weights[other]
                    mine, other = mine + 1, other + 1
            norm = norms[caption[row]] * norms[reference[at]]
            if norm > 0:
                out[row] += dot / norm * factor[at]
    return out


_kernels = Kernels(
    globals(),
    (
        "_named",
        "_slots_for",
        "_spread",
        "_counted",
        "_documents",
        "_places",
        "_united",
        "_clipped",
        "_norms",
        "_similarity",
    ),
    small=_FEW,
)
