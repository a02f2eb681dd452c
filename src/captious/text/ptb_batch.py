"""PTB tokens of many texts at once: the automaton runs over their bytes in compiled code.

Compiled code cuts every text and numbers the distinct cut-outs; a cut-out is a stretch of bytes and
the rule that found it. What a rule makes of its stretch (lower case, brackets, quotes, punctuation
dropped) is asked of ``ptb`` once per distinct cut-out. Texts that need a rule whose end is not
a matter of counting, and those with characters beyond U+FFFF, go to ``ptb`` whole.

Threads cut parts of the texts, each with cut-outs of its own; those are made one at the end.

Texts that were tokenised before are cut at their spaces in the same way.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from captious import settings
from captious.text import ptb, ptb_automaton
from captious.text.machine_code import I16, I32, I64, U8, MachineCode, side_by_side

_int64: Any = np.int64  # for numba; type checkers take its whole numbers for ints
_WHOLE: Final = -1  # stands for the rule where a text is one cut-out
_EFFORT: Final = 64  # steps per character before a text is left to the scanner that remembers
_MET: Final = 1 << 17  # pieces that a thread remembers
_FEW, _UNMADE = 200, 15_000
_PART = 4_000  # texts that are worth a thread


def cut(strings: pa.Array, spaced: bool = False) -> tuple[list[str], I32, I64] | None:
    """Return words, word numbers of all texts end to end, and where each text begins.

    With ``spaced`` the words are what stands between white space (``str.split``). None where there
    are too few texts to load compiled code for, or no numba.
    """
    kernels = _kernels.if_worth(len(strings))
    if kernels is None:
        return None
    strings = strings.cast(pa.large_string())
    _, places, content = strings.buffers()
    bounds = np.frombuffer(places, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    data = np.frombuffer(content if content else b"\0", np.uint8)
    count = max(1, min(settings.get().threads, len(strings) // _PART))
    edges = [len(strings) * part // count for part in range(count + 1)]
    parts = [
        _Part(kernels, data, bounds[a : b + 1]) for a, b in zip(edges, edges[1:], strict=False)
    ]
    side_by_side(_Part.run_at_spaces if spaced else _Part.run, parts, len(strings))
    first = parts[0]
    own = np.arange(first.known, dtype=np.int32)
    renumbered = [own, *(first.adopt(other) for other in parts[1:])]
    words, flat, starts = _finished(data, first.cutouts[: first.known], spaced)

    every = range(count)
    widths = side_by_side(lambda at: parts[at].width(renumbered[at], starts), every, len(strings))
    ends = np.cumsum(widths)
    ids = np.empty(int(ends[-1]), np.int32)
    sizes = np.empty(len(strings) + 1, np.int64)
    sizes[0] = 0

    def expand(at: int) -> None:
        mine = ids[ends[at] - widths[at] : ends[at]]
        parts[at].expand(
            renumbered[at], flat, starts, mine, sizes[1 + edges[at] : 1 + edges[at + 1]]
        )

    side_by_side(expand, every, len(strings))
    return words, ids, np.cumsum(sizes, out=sizes)


def _finished(data: U8, cutouts: I64, spaced: bool) -> tuple[list[str], I32, I64]:
    """Return words, the word numbers of every cut-out end to end, and where each begins."""
    held = data.tobytes()
    words: dict[str, int] = {}
    flat: list[int] = []
    starts = [0]
    actions = ptb_automaton.load().actions.tolist()
    plain = {rule for rule, action in enumerate(actions) if action in ("keep", "soften")}
    for begin, end, rule in cutouts.tolist():
        text = held[begin:end].decode()
        if spaced:
            flat.extend([words.setdefault(word, len(words)) for word in text.split()])
        elif rule in plain and text.isalnum() and text.isascii():  # nothing to rewrite
            flat.append(words.setdefault(text.lower(), len(words)))
        else:
            text = text.replace("\n", " ")
            made = ptb.tokenize(text) if rule == _WHOLE else ptb.finished(text, actions[rule])
            flat.extend([words.setdefault(word, len(words)) for word in made])
        starts.append(len(flat))
    return list(words), np.array(flat, np.int32), np.array(starts, np.int64)


class _Part:
    """Some texts in a row, and what compiled code made of them."""

    def __init__(self, kernels: Any, data: U8, bounds: I64) -> None:
        self._kernels, self._data, self._bounds = kernels, data, np.ascontiguousarray(bounds)
        sizes = np.diff(bounds)
        self._longest = int(sizes.max(initial=0))
        # No token is shorter than a byte, and memory that is not touched costs nothing.
        self.numbers = np.empty(int(sizes.sum()) + len(sizes) + 1, np.int32)
        self.offsets = np.zeros(len(bounds), np.int64)
        self.cutouts = np.empty((1 << 13, 3), np.int64)
        self.slots = np.full(1 << 15, -1, np.int32)
        self.known = 0

    def run(self) -> None:
        """Cut all texts."""
        automaton = ptb_automaton.load()
        kinds, line = automaton.kinds.copy(), int(automaton.kinds[10])
        kinds[10] = kinds[32]  # within a text a newline is a space
        met = np.full(_MET, -1, np.int32)
        kind = np.empty(self._longest + 2, np.uint8)
        place = np.empty(self._longest + 2, np.int64)
        progress = np.zeros(3, np.int64)  # texts done, cut-outs written, distinct ones
        while progress[0] < len(self._bounds) - 1:
            self._kernels._segment(
                self._data,
                self._bounds,
                len(self._bounds) - 1,
                kinds,
                line,
                automaton.steps,
                automaton.steps.shape[1],
                automaton.rules,
                automaton.stuck.view(np.uint8),
                automaton.cuts,
                automaton.apostrophes,
                automaton.again,
                automaton.dropped.view(np.uint8),
                self.numbers,
                self.offsets,
                self.cutouts,
                len(self.cutouts),
                self.slots,
                len(self.slots) - 1,
                met,
                kind,
                place,
                progress,
            )
            self._make_room(progress)

    def run_at_spaces(self) -> None:
        """Cut all texts at their spaces."""
        progress = np.zeros(3, np.int64)
        while progress[0] < len(self._bounds) - 1:
            self._kernels._spaced(
                self._data,
                self._bounds,
                len(self._bounds) - 1,
                self.numbers,
                self.offsets,
                self.cutouts,
                len(self.cutouts),
                self.slots,
                len(self.slots) - 1,
                progress,
            )
            self._make_room(progress)

    def _make_room(self, progress: I64) -> None:
        """Go on where compiled code stopped because the next text might not fit."""
        self.known = int(progress[2])
        if progress[0] < len(self._bounds) - 1:
            at = int(progress[0])
            self._grow(self.known + int(self._bounds[at + 1] - self._bounds[at]) + 1)

    def _grow(self, needed: int) -> None:
        wider = np.empty((4 * needed, 3), np.int64)
        wider[: self.known] = self.cutouts[: self.known]
        self.cutouts = wider
        self.slots = np.full(1 << (16 * needed - 1).bit_length(), -1, np.int32)
        self._kernels._respread(
            self._data, self.cutouts, self.known, self.slots, len(self.slots) - 1
        )

    def adopt(self, other: _Part) -> I32:
        """Take in the cut-outs of another part; return their numbers here."""
        if self.known + other.known > len(self.cutouts):
            self._grow(self.known + other.known)
        numbers = np.empty(other.known, np.int32)
        self.known = self._kernels._adopted(
            self._data,
            other.cutouts,
            other.known,
            self.cutouts,
            self.known,
            self.slots,
            len(self.slots) - 1,
            numbers,
        )
        return numbers

    def width(self, numbers: I32, starts: I64) -> int:
        """Return how many words the texts have."""
        width: int = self._kernels._width(self.numbers, int(self.offsets[-1]), numbers, starts)
        return width

    def expand(self, numbers: I32, flat: I32, starts: I64, ids: I32, sizes: I64) -> None:
        """Write the words of all texts end to end, and how many each has."""
        self._kernels._expand(
            self.numbers, self.offsets, len(sizes), numbers, flat, starts, ids, sizes
        )


# -- compiled ------------------------------------------------------------------------------------


def _segment(
    data: U8,
    bounds: I64,
    texts: int,
    kinds: U8,
    line: int,
    steps: I16,
    classes: int,
    rules: I16,
    stuck: U8,
    cuts: I16,
    apostrophes: I16,
    again: I16,
    dropped: U8,
    numbers: I32,
    offsets: I64,
    cutouts: I64,
    capacity: int,
    slots: I32,
    mask: int,
    met: I32,
    kind: U8,
    place: I64,
    progress: I64,
) -> int:
    """Cut the texts from ``progress`` on, up to one whose cut-outs may not fit.

    Writes the cut-outs of all texts by number, where each text begins, and (begin, end, rule) of
    each. Follows ``ptb.scan`` of a text with a newline behind it.

    What stands between two spaces and is one cut-out, found without a look behind the second
    space, is the same cut-out wherever it stands again: ``met`` remembers such pieces.
    """
    text, used, known = progress[0], progress[1], progress[2]
    while text < texts:
        first, last = bounds[text], bounds[text + 1]
        if known + last - first >= capacity:
            break
        high = np.uint8(0)
        for at in range(first, last):
            high |= data[at]
        size, wide = last - first, high > 127
        if wide:
            size = _decode(data, first, last, kinds, line, kind, place)
        begun, start, effort = used, _int64(0), _int64(0)
        while 0 <= start < size:
            piece, spot = _int64(-1), _int64(0)
            if not wide:
                if data[first + start] == 32:  # a space makes no token, whatever follows it
                    start += 1
                    continue
                piece, spot = _piece(data, first + start, last)
                if piece >= 0:
                    number = _int64(met[spot])
                    if number >= 0 and _same(data, first + start, piece, cutouts, number):
                        numbers[used] = number
                        used += 1
                        start = piece - first + 1
                        continue
            state, rule, end, at = _int64(0), _int64(-1), start, start
            while at <= size:
                if wide:
                    state = _int64(steps[state * classes + kind[at]])
                elif at < size:
                    state = _int64(steps[state * classes + kinds[data[first + at]]])
                else:
                    state = _int64(steps[state * classes + line])
                if state < 0:
                    break
                at += 1
                if rules[state] >= 0:
                    rule, end = _int64(rules[state]), at
                    if stuck[state] != 0:
                        break
            effort += at - start
            cut = _int64(-1)
            if rule >= 0:
                cut = _int64(cuts[rule])
                for pair in range(4 * rule, 4 * rule + 4, 2):
                    if cut < 0 < apostrophes[pair]:
                        behind = end - apostrophes[pair]
                        if data[place[behind] if wide else first + behind] == 39:
                            cut = _int64(apostrophes[pair + 1])
            if cut < 0 or effort > _EFFORT * (size + 1):
                start = _int64(-1)
                break
            if dropped[rule] == 0:
                end -= cut
                begin, stop = first + start, first + min(end, size)
                if wide:
                    begin, stop = place[start], place[min(end, size)]
                number = _number(data, begin, stop, rule, known, cutouts, slots, mask)
                numbers[used] = number
                known = max(known, number + 1)
                used += 1
                if stop == piece and first + at <= piece and again[rule] == 0:
                    met[spot] = number
                end -= again[rule]
            start = end if end > start else _int64(-1)
        if size < 0 or start < 0:
            number = _number(data, first, last, _WHOLE, known, cutouts, slots, mask)
            numbers[begun] = number
            known = max(known, number + 1)
            used = begun + 1
        text += 1
        offsets[text] = used
    progress[0], progress[1], progress[2] = text, used, known
    return 0


def _spaced(
    data: U8,
    bounds: I64,
    texts: int,
    numbers: I32,
    offsets: I64,
    cutouts: I64,
    capacity: int,
    slots: I32,
    mask: int,
    progress: I64,
) -> int:
    """Cut the texts at their spaces, as ``_segment`` does by the automaton."""
    text, used, known = progress[0], progress[1], progress[2]
    while text < texts:
        first, last = bounds[text], bounds[text + 1]
        if known + last - first >= capacity:
            break
        begin = first
        for at in range(first, last + 1):
            if at == last or data[at] == 32:
                if at > begin:
                    number = _number(data, begin, at, 0, known, cutouts, slots, mask)
                    numbers[used] = number
                    known = max(known, number + 1)
                    used += 1
                begin = _int64(at + 1)
        text += 1
        offsets[text] = used
    progress[0], progress[1], progress[2] = text, used, known
    return 0


def _piece(data: U8, at: int, last: int) -> tuple[int, int]:
    """Return where the next space is (-1: nowhere), and a number for what stands before it."""
    mixed = np.uint64(0xCBF29CE484222325)
    while at < last:
        if data[at] == 32:
            return at, _int64(mixed >> np.uint64(20)) & (_MET - 1)
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        at += 1
    return _int64(-1), _int64(0)


def _same(data: U8, begin: int, end: int, cutouts: I64, number: int) -> bool:
    """Tell whether a stretch has the bytes of a cut-out."""
    shift = cutouts[3 * number] - begin
    if cutouts[3 * number + 1] != end + shift:
        return False
    at = begin
    while at < end and data[at] == data[at + shift]:
        at += 1
    return at == end


def _decode(data: U8, first: int, last: int, kinds: U8, line: int, kind: U8, place: I64) -> int:
    """Write class and byte place of every character; return how many, -1 if one is too wide."""
    size, at = 0, first
    while at < last:
        byte = _int64(data[at])
        place[size] = at
        if byte < 0x80:
            kind[size] = kinds[byte]
            at += 1
        elif byte < 0xE0:
            kind[size] = kinds[(byte & 0x1F) << 6 | _int64(data[at + 1] & 0x3F)]
            at += 2
        elif byte < 0xF0:
            code = (byte & 0x0F) << 12 | _int64(data[at + 1] & 0x3F) << 6
            kind[size] = kinds[code | _int64(data[at + 2] & 0x3F)]
            at += 3
        else:
            return -1
        size += 1
    place[size] = last
    kind[size] = line
    return size


def _slot(data: U8, begin: int, end: int, rule: int, mask: int) -> int:
    """Return where the search for a cut-out begins (FNV-1a of its bytes)."""
    mixed = np.uint64(0xCBF29CE484222325) ^ np.uint64(rule + 1)
    for at in range(begin, end):
        mixed = (mixed ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return _int64(mixed >> np.uint64(20)) & mask


def _number(
    data: U8, begin: int, end: int, rule: int, known: int, cutouts: I64, slots: I32, mask: int
) -> int:
    """Return the number of a cut-out; a new one gets the next, ``known``."""
    slot = _slot(data, begin, end, rule, mask)
    while slots[slot] >= 0:
        other = _int64(slots[slot])
        if cutouts[3 * other + 2] == rule and _same(data, begin, end, cutouts, other):
            return other
        slot = (slot + 1) & mask
    cutouts[3 * known], cutouts[3 * known + 1], cutouts[3 * known + 2] = begin, end, rule
    slots[slot] = known
    return known


def _respread(data: U8, cutouts: I64, known: int, slots: I32, mask: int) -> int:
    """Enter the same cut-outs into a larger, empty table of slots."""
    for number in range(known):
        slot = _slot(
            data, cutouts[3 * number], cutouts[3 * number + 1], cutouts[3 * number + 2], mask
        )
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number
    return 0


def _adopted(
    data: U8,
    theirs: I64,
    count: int,
    cutouts: I64,
    known: int,
    slots: I32,
    mask: int,
    numbers: I32,
) -> int:
    """Number the cut-outs of another table in this one; return how many it has then."""
    for at in range(count):
        begin, end, rule = theirs[3 * at], theirs[3 * at + 1], theirs[3 * at + 2]
        number = _number(data, begin, end, rule, known, cutouts, slots, mask)
        numbers[at] = number
        known = max(known, number + 1)
    return known


def _width(numbers: I32, used: int, renumbered: I32, starts: I64) -> int:
    """Return how many words the cut-outs are."""
    total = 0
    for at in range(used):
        number = renumbered[numbers[at]]
        total += starts[number + 1] - starts[number]
    return total


def _expand(
    numbers: I32,
    offsets: I64,
    texts: int,
    renumbered: I32,
    flat: I32,
    starts: I64,
    ids: I32,
    sizes: I64,
) -> int:
    """Put the words of every cut-out in its place."""
    used = 0
    for text in range(texts):
        begun = used
        for at in range(offsets[text], offsets[text + 1]):
            number = renumbered[numbers[at]]
            for word in range(starts[number], starts[number + 1]):
                ids[used] = flat[word]
                used += 1
        sizes[text] = used - begun
    return used


_kernels = MachineCode(
    globals(),
    ("_segment", "_spaced", "_respread", "_adopted", "_width", "_expand"),
    helpers=("_decode", "_piece", "_same", "_slot", "_number"),
    small=_FEW,
    unmade=_UNMADE,
)
