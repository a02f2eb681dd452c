"""PTB tokens of many texts at once: the automaton runs over their bytes in compiled code.

Compiled code cuts every text and numbers the distinct cut-outs; a cut-out is a stretch of bytes and
the rule that found it. What a rule makes of its stretch (lower case, brackets, quotes, punctuation
dropped) is asked of ``ptb`` once per distinct cut-out. Texts that need a rule whose end is not
a matter of counting, and those with characters beyond U+FFFF, go to ``ptb`` whole.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captious.text import ptb, ptb_automaton
from captious.text.jit import Kernels

Array = npt.NDArray[Any]
_WHOLE: Final = -1  # stands for the rule where a text is one cut-out
_EFFORT: Final = 64  # steps per character before a text is left to the scanner that remembers
_FEW = 15_000


def cut(strings: pa.Array) -> tuple[list[str], Array, Array] | None:
    """Return words, word numbers of all texts end to end, and where each text begins.

    None where there are too few texts to load compiled code for, or no numba.
    """
    kernels = _kernels.if_worth(len(strings))
    if kernels is None:
        return None
    automaton = ptb_automaton.load()
    strings = strings.cast(pa.large_string())
    _, places, content = strings.buffers()
    bounds = np.frombuffer(places, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    data = np.frombuffer(content if content is not None else b"", np.uint8)
    numbers, offsets, cutouts = kernels._segment(
        data,
        bounds,
        automaton.kinds,
        automaton.steps,
        automaton.rules,
        automaton.stuck,
        automaton.cuts,
        automaton.again,
        automaton.dropped,
    )
    held = data.data
    words: dict[str, int] = {}
    flat: list[int] = []
    starts = np.zeros(len(cutouts) + 1, np.int64)
    for at, (begin, end, rule) in enumerate(cutouts.tolist(), 1):
        text = str(held[begin:end], "utf-8").replace("\n", " ")
        made = ptb.tokenize(text) if rule == _WHOLE else ptb.finished(text, rule)
        flat.extend(words.setdefault(word, len(words)) for word in made)
        starts[at] = len(flat)
    ids, offsets = kernels._expand(numbers, offsets, np.array(flat, np.int32), starts)
    return list(words), ids, offsets


# -- compiled ------------------------------------------------------------------------------------


def _segment(
    data: Array,
    bounds: Array,
    kinds: Array,
    steps: Array,
    rules: Array,
    stuck: Array,
    cuts: Array,
    again: Array,
    dropped: Array,
) -> tuple[Array, Array, Array]:
    """Return cut-outs of all texts by number, where each text begins, (begin, end, rule) of each.

    Follows ``ptb.scan`` of a text with a newline behind it.
    """
    texts = len(bounds) - 1
    offsets = np.zeros(texts + 1, np.int64)
    # No token is shorter than a byte, and memory that is not touched costs nothing.
    numbers = np.empty(len(data) + texts, np.int32)
    cutouts = np.empty((1 << 12, 3), np.int64)
    slots = np.full(1 << 13, -1, np.int32)
    longest = 0
    for text in range(texts):
        longest = max(longest, bounds[text + 1] - bounds[text])
    kind = np.empty(longest + 2, np.uint8)
    place = np.empty(longest + 2, np.int64)
    used, known = 0, 0
    for text in range(texts):
        first, last = bounds[text], bounds[text + 1]
        if known + last - first >= len(cutouts):
            wider = np.empty((2 * (known + last - first) + 2, 3), np.int64)
            wider[:known] = cutouts[:known]
            cutouts = wider
        spread = len(slots)
        while 2 * (known + last - first + 1) > spread:
            spread *= 4
        if spread > len(slots):
            slots = _respread(data, cutouts, known, spread)
        size = _decode(data, first, last, kinds, kind, place)
        begun, start, effort = used, 0, 0
        while 0 <= start < size:
            state, rule, end, at = 0, -1, start, start
            while at <= size:
                state = steps[state, kind[at]]
                if state < 0:
                    break
                at += 1
                if rules[state] >= 0:
                    rule, end = rules[state], at
                    if stuck[state]:
                        break
            effort += at - start
            if rule < 0 or cuts[rule] < 0 or effort > _EFFORT * (size + 1):
                start = -1
                break
            if not dropped[rule]:
                end -= cuts[rule]
                begin, stop = place[start], place[min(end, size)]
                numbers[used] = _number(data, begin, stop, rule, known, cutouts, slots)
                known = max(known, numbers[used] + 1)
                used += 1
                end -= again[rule]
            start = end if end > start else -1
        if size < 0 or start < 0:
            numbers[begun] = _number(data, first, last, _WHOLE, known, cutouts, slots)
            known = max(known, numbers[begun] + 1)
            used = begun + 1
        offsets[text + 1] = used
    return numbers[:used], offsets, cutouts[:known]


def _decode(data: Array, first: int, last: int, kinds: Array, kind: Array, place: Array) -> int:
    """Write class and byte place of every character; return how many, -1 if one is too wide."""
    size, at = 0, first
    while at < last:
        byte = np.int64(data[at])
        place[size] = at
        if byte < 0x80:
            kind[size] = kinds[byte if byte != 10 else 32]
            at += 1
        elif byte < 0xE0:
            kind[size] = kinds[(byte & 0x1F) << 6 | np.int64(data[at + 1] & 0x3F)]
            at += 2
        elif byte < 0xF0:
            code = (byte & 0x0F) << 12 | np.int64(data[at + 1] & 0x3F) << 6
            kind[size] = kinds[code | np.int64(data[at + 2] & 0x3F)]
            at += 3
        else:
            return -1
        size += 1
    place[size] = last
    kind[size] = kinds[10]
    return size


def _slot(data: Array, begin: int, end: int, rule: int, mask: int) -> int:
    """Return where the search for a cut-out begins (FNV-1a of its bytes)."""
    mixed = np.uint64(0xCBF29CE484222325) ^ np.uint64(rule + 1)
    for at in range(begin, end):
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    slot: int = np.int64(mixed >> np.uint64(20)) & mask  # type: ignore[assignment]
    return slot


def _number(
    data: Array, begin: int, end: int, rule: int, known: int, cutouts: Array, slots: Array
) -> int:
    """Return the number of a cut-out; a new one gets the next, ``known``."""
    mask = len(slots) - 1
    slot = _slot(data, begin, end, rule, mask)
    while slots[slot] >= 0:
        other = slots[slot]
        if cutouts[other, 2] == rule and cutouts[other, 1] - cutouts[other, 0] == end - begin:
            shift = cutouts[other, 0] - begin
            at = begin
            while at < end and data[at] == data[at + shift]:
                at += 1
            if at == end:
                return other
        slot = (slot + 1) & mask
    cutouts[known, 0], cutouts[known, 1], cutouts[known, 2] = begin, end, rule
    slots[slot] = known
    return known


def _respread(data: Array, cutouts: Array, known: int, size: int) -> Array:
    """Return a larger table of slots for the same cut-outs."""
    slots = np.full(size, -1, np.int32)
    mask = size - 1
    for number in range(known):
        slot = _slot(data, cutouts[number, 0], cutouts[number, 1], cutouts[number, 2], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number
    return slots


def _expand(numbers: Array, offsets: Array, flat: Array, starts: Array) -> tuple[Array, Array]:
    """Put the words of every cut-out in its place."""
    total = 0
    for number in numbers:
        total += starts[number + 1] - starts[number]
    ids = np.empty(total, np.int32)
    bounds = np.zeros(len(offsets), np.int64)
    used = 0
    for text in range(len(offsets) - 1):
        for at in range(offsets[text], offsets[text + 1]):
            number = numbers[at]
            for word in range(starts[number], starts[number + 1]):
                ids[used] = flat[word]
                used += 1
        bounds[text + 1] = used
    return ids, bounds


_kernels = Kernels(
    globals(), ("_decode", "_slot", "_number", "_respread", "_segment", "_expand"), small=_FEW
)
