"""n-grams in compiled code: counted per text, looked up, matched between captions and references.

The n-grams of a text stand in the order of their 64-bit names, so two texts are compared by walking
along both, and sums over the n-grams of a text are taken in the same order whatever else is in the
chunk: the same bits whatever the chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from captious.text.machine_code import F64, I32, I64, U32, U64, MachineCode

_int64: Any = np.int64  # for numba; type checkers take its whole numbers for ints
_STEP: Final = 0x9E3779B97F4A7C15
_FEW, _UNMADE = 200, 15_000
_PARTITION = 4_096  # n-grams that are counted together, in a table that the processor's cache holds
_MOST_BITS = 12


@dataclass(frozen=True, eq=False)
class Grams:
    """The distinct n-grams of every text: ``names[bounds[i]:bounds[i + 1]]``, ascending."""

    bounds: I64
    names: U64
    counts: I32


def kernels(texts: int) -> Any:
    """Return the compiled functions if that many texts are worth them, else None."""
    return _kernels.if_worth(texts)


def counted(words: U64, ids: I32, offsets: I64, order: int) -> Grams:
    """Count the n-grams of one order in every text; ``words`` are the 64-bit names of the ids."""
    texts = len(offsets) - 1
    most = int(np.maximum(np.diff(offsets) - order + 1, 0).sum())
    bounds = np.zeros(texts + 1, np.int64)
    names, counts = np.empty(most, np.uint64), np.empty(most, np.int32)
    used = _kernels.loaded._counted(words, ids, offsets, texts, order, bounds, names, counts)
    return Grams(bounds, names[:used], counts[:used])


def documents(grams: Grams, texts: I32, document: I64) -> tuple[U64, U32, U32]:
    """In how many documents does each n-gram occur?

    Args:
        grams: n-grams of all texts.
        texts: texts of all documents, those of one document side by side.
        document: which document each belongs to.

    Returns:
        Distinct names, in how many documents each occurs, and the same for every n-gram of
        ``grams`` (0: in no document).
    """
    other = np.ones(len(grams.bounds) - 1, bool)
    other[texts] = False
    others = np.flatnonzero(other).astype(np.int32)
    order = np.concatenate([texts, others])
    of = np.concatenate([document, np.full(len(others), -1)]).astype(np.int32)
    total = int(np.diff(grams.bounds)[order].sum())
    bits = min(_MOST_BITS, max(0, (total // _PARTITION).bit_length()))
    begin = np.zeros((1 << bits) + 1, np.int64)
    native = _kernels.loaded
    largest = native._partition_sizes(grams.bounds, grams.names, order, len(order), bits, begin)
    entries = np.empty(2 * total, np.uint64)
    native._partitioned(
        grams.bounds, grams.names, order, of, len(order), bits, begin[:-1].copy(), entries
    )
    slots = np.empty(2 * _power(largest), np.int32)
    most = len(grams.names)
    distinct, found_in = np.empty(most, np.uint64), np.empty(most, np.uint32)
    of_each, latest = np.empty(most, np.uint32), np.empty(most, np.int32)
    known = native._documents(begin, 1 << bits, entries, slots, distinct, found_in, latest, of_each)
    return distinct[:known], found_in[:known], of_each


def spread(names: U64) -> I32:
    """Return a table of slots: where a name's place among these is found."""
    slots = np.full(2 * _power(len(names)), -1, np.int32)
    _kernels.loaded._spread(names, len(names), slots, len(slots) - 1)
    return slots


def looked_up(known: U64, slots: I32, counts: U32, names: U64) -> U32:
    """Return the counts of names; 0 for one that is not known."""
    out = np.zeros(len(names), np.uint32)
    _kernels.loaded._looked_up(known, slots, len(slots) - 1, counts, names, len(names), out)
    return out


def united(a: U64, a_counts: U32, b: U64, b_counts: U32) -> tuple[U64, U32]:
    """Add the counts of two ascending lists of names."""
    names = np.empty(len(a) + len(b), np.uint64)
    counts = np.empty(len(names), np.uint32)
    used = _kernels.loaded._united(a, a_counts, len(a), b, b_counts, len(b), names, counts)
    return names[:used].copy(), counts[:used].copy()


def clipped(grams: Grams, caption: I32, reference: I32, offsets: I64) -> I64:
    """Return per row how many n-grams of the caption a reference holds.

    Each counts at most as often as it stands in the reference that holds it most often.
    """
    matched = np.empty(len(caption), np.int64)
    best = np.empty(int(np.diff(grams.bounds).max(initial=0)) + 1, np.int32)
    _kernels.loaded._clipped(
        grams.bounds,
        grams.names,
        grams.counts,
        caption,
        reference,
        offsets,
        len(caption),
        best,
        matched,
    )
    return matched


def similarity(
    grams: Grams,
    frequencies: U32,
    idf: F64,
    caption: I32,
    reference: I32,
    offsets: I64,
    factor: F64,
    clip: bool,
) -> F64:
    """Return per row the sum over references of cosine times ``factor`` (one per reference).

    Args:
        grams: n-grams of all texts.
        frequencies: in how many documents each occurs.
        idf: the weight of an n-gram by that number.
        caption: the text of every row.
        reference: the texts of all references.
        offsets: where the references of each row begin.
        factor: per reference.
        clip: whether an n-gram weighs at most what it weighs in the reference.
    """
    texts = len(grams.bounds) - 1
    weights, norms, out = np.empty(len(grams.names)), np.empty(texts), np.empty(len(caption))
    native = _kernels.loaded
    native._weights(grams.bounds, texts, grams.counts, frequencies, idf, weights, norms)
    np.sqrt(norms, out=norms)
    native._similarity(
        grams.bounds,
        grams.names,
        weights,
        norms,
        caption,
        reference,
        offsets,
        len(caption),
        factor,
        clip,
        out,
    )
    return out


def _power(size: int) -> int:
    """Return a power of two of at least this size."""
    return 1 << max(4, (size - 1).bit_length())


# -- compiled ------------------------------------------------------------------------------------


def _counted(
    words: U64, ids: I32, offsets: I64, texts: int, order: int, bounds: I64, names: U64, counts: I32
) -> int:
    used = _int64(0)
    for text in range(texts):
        begin = used
        first = offsets[text]
        for at in range(first, offsets[text + 1] - order + 1):
            name = words[ids[at]]
            for after in range(1, order):
                name = name * np.uint64(_STEP) + words[ids[at + after]]
            names[used] = name
            counts[used] = 1
            used += 1
        _sort(names, begin, used)
        kept = begin
        for at in range(begin + 1, used):
            if names[at] == names[kept]:
                counts[kept] += np.int32(1)
            else:
                kept += 1
                names[kept] = names[at]
        used = min(kept + 1, used)
        bounds[text + 1] = used
    return used


def _sort(names: U64, begin: int, end: int) -> None:
    """Sort a stretch: Shell's way, which for a dozen names is insertion."""
    gap = _int64(1)
    while 9 * gap < end - begin:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(begin + gap, end):
            name = names[at]
            place = at
            while place >= begin + gap and names[place - gap] > name:
                names[place] = names[place - gap]
                place -= gap
            names[place] = name
        gap //= 3


def _partition_sizes(bounds: I64, names: U64, texts: I32, count: int, bits: int, begin: I64) -> int:
    """Count the n-grams of every partition (by the first bits of their names); return the most."""
    shift = np.uint64(63 - bits)
    for at in range(count):
        for gram in range(bounds[texts[at]], bounds[texts[at] + 1]):
            begin[_int64(names[gram] >> np.uint64(1) >> shift) + 1] += 1
    largest = _int64(0)
    for part in range(1 << bits):
        largest = max(largest, begin[part + 1])
        begin[part + 1] += begin[part]
    return largest


def _partitioned(
    bounds: I64,
    names: U64,
    texts: I32,
    document: I32,
    count: int,
    bits: int,
    filled: I64,
    entries: U64,
) -> int:
    """Write names, with place and document, partition by partition; their order stays."""
    shift = np.uint64(63 - bits)
    for at in range(count):
        member = np.uint64(document[at] + 1) << np.uint64(32)
        for gram in range(bounds[texts[at]], bounds[texts[at] + 1]):
            part = _int64(names[gram] >> np.uint64(1) >> shift)
            place = filled[part]
            filled[part] = place + 1
            entries[2 * place] = names[gram]
            entries[2 * place + 1] = member | np.uint64(gram)
    return 0


def _documents(
    begin: I64,
    partitions: int,
    entries: U64,
    slots: I32,
    distinct: U64,
    found_in: U32,
    latest: I32,
    of_each: U32,
) -> int:
    """Count partition by partition; n-grams of no document come last and are looked up only."""
    known = _int64(0)
    for part in range(partitions):
        size = _int64(16)
        while size < 2 * (begin[part + 1] - begin[part]):
            size *= 2
        mask = size - 1
        for slot in range(size):
            slots[slot] = -1
        for at in range(begin[part], begin[part + 1]):
            name, member = entries[2 * at], _int64(entries[2 * at + 1] >> np.uint64(32))
            slot = _int64(name) & mask
            while slots[slot] >= 0 and distinct[slots[slot]] != name:
                slot = (slot + 1) & mask
            number = _int64(slots[slot])
            if member > 0:
                if number < 0:
                    slots[slot] = known
                    number = known
                    distinct[known] = name
                    found_in[known] = np.uint32(0)
                    latest[known] = 0
                    known += 1
                if latest[number] != member:
                    latest[number] = member
                    found_in[number] += np.uint32(1)
            entries[2 * at] = np.uint64(number + 1)
        for at in range(begin[part], begin[part + 1]):
            number = _int64(entries[2 * at])
            gram = _int64(entries[2 * at + 1] & np.uint64(0xFFFFFFFF))
            of_each[gram] = found_in[number - 1] if number > 0 else np.uint32(0)
    return known


def _spread(names: U64, count: int, slots: I32, mask: int) -> int:
    for number in range(count):
        slot = _int64(names[number] >> np.uint64(8)) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number
    return 0


def _looked_up(
    known: U64, slots: I32, mask: int, counts: U32, names: U64, count: int, out: U32
) -> int:
    for at in range(count):
        slot = _int64(names[at] >> np.uint64(8)) & mask
        while slots[slot] >= 0 and known[slots[slot]] != names[at]:
            slot = (slot + 1) & mask
        if slots[slot] >= 0:
            out[at] = counts[slots[slot]]
    return 0


def _united(
    a: U64, a_counts: U32, a_size: int, b: U64, b_counts: U32, b_size: int, names: U64, counts: U32
) -> int:
    i, j, used = 0, 0, 0
    while i < a_size or j < b_size:
        if j == b_size or (i < a_size and a[i] < b[j]):
            names[used], counts[used] = a[i], a_counts[i]
            i += 1
        elif i == a_size or b[j] < a[i]:
            names[used], counts[used] = b[j], b_counts[j]
            j += 1
        else:
            names[used], counts[used] = a[i], a_counts[i] + b_counts[j]
            i += 1
            j += 1
        used += 1
    return used


def _clipped(
    bounds: I64,
    names: U64,
    counts: I32,
    caption: I32,
    reference: I32,
    offsets: I64,
    rows: int,
    best: I32,
    matched: I64,
) -> int:
    for row in range(rows):
        begin, end = bounds[caption[row]], bounds[caption[row] + 1]
        for gram in range(end - begin):
            best[gram] = 0
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
                    mine += 1
                    other += 1
        total = _int64(0)
        for gram in range(begin, end):
            total += min(counts[gram], best[gram - begin])
        matched[row] = total
    return 0


def _weights(
    bounds: I64, texts: int, counts: I32, frequencies: U32, idf: F64, weights: F64, squares: F64
) -> int:
    """Weigh every n-gram, and sum the squares of every text."""
    for text in range(texts):
        total = 0.0
        for gram in range(bounds[text], bounds[text + 1]):
            weight = np.float64(counts[gram]) * idf[frequencies[gram]]
            weights[gram] = weight
            total += weight * weight
        squares[text] = total
    return 0


def _similarity(
    bounds: I64,
    names: U64,
    weights: F64,
    norms: F64,
    caption: I32,
    reference: I32,
    offsets: I64,
    rows: int,
    factor: F64,
    clip: bool,
    out: F64,
) -> int:
    for row in range(rows):
        begin, end = bounds[caption[row]], bounds[caption[row] + 1]
        total = 0.0
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
                    mine += 1
                    other += 1
            norm = norms[caption[row]] * norms[reference[at]]
            if norm > 0:
                total += dot / norm * factor[at]
        out[row] = total
    return 0


_kernels = MachineCode(
    globals(),
    (
        "_counted",
        "_partition_sizes",
        "_partitioned",
        "_documents",
        "_spread",
        "_looked_up",
        "_united",
        "_clipped",
        "_weights",
        "_similarity",
    ),
    helpers=("_sort",),
    small=_FEW,
    unmade=_UNMADE,
)
