"""METEOR's alignment of two sentences, compiled.

Everything is integers here: words, stems and phrases are numbers (see ``words``). Three
steps give the statistics of a caption against one reference:

1. :func:`_collect` lists every match at every reference position, stage by stage.
2. :func:`_search` fixes the matches without rival and finds the rest with a beam of 40 states that
   walk over the reference from left to right.
3. :func:`_count` counts matched content and function words by stage, and chunks.

The search imitates the reference program to the last tie, including its peculiarities: a non-exact
one-word match weighs nothing while searching (half a point, cut to an integer), and the distance
of a tried match is charged to the state that it was tried from, not to the new state.

The functions are written for ``text.machine_code``: tables are flat arrays with a fixed number of
columns. They run as they stand, too, where there is little to do.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from captious.text.machine_code import F64, I32, I64, U8, U64, MachineCode

_int64: Any = np.int64  # for numba; type checkers take its whole numbers for ints
BEAM: Final = 40
STAGES: Final = 4
STATISTICS: Final = 24
EXACT, STEM, SYNONYM, PARAPHRASE = range(STAGES)
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS: Final = (1.0, 0.6, 0.8, 0.6)

# Columns of the table of matches.
MATCH: Final = 6
_START, _LENGTH, _OTHER, _OTHER_LENGTH, _STAGE, _ORDER = range(MATCH)
# Columns of the table of search states.
_STATE: Final = 4
_COST, _NEXT, _LAST, _TRAIL = range(_STATE)
# A cost is minus points, then chunks, then distance, packed into one integer: smaller is better.
_CHUNK: Final = 1 << 30
_POINT: Final = 1 << 44
LONGEST: Final = 10_000  # words of a sentence for which the packing holds
# Possible matches of a caption with all its references together: 2,000 times the same word on both
# sides. The search costs 40 states times this; the reference program takes more than five minutes
# for a third of it.
MOST: Final = 4_000_000
_ROOM: Final = 1024  # matches that there is room for at first
_READ: Final = 18  # parameters of the compiled code that it only reads stand first

# Work is counted in word pairs: 550 for a caption with five references.
_SMALL, _UNMADE = 5_000, 150_000


class _Room:
    """Memory to align sentences of up to so many words in."""

    def __init__(self, longest: int, stride: int) -> None:
        """``stride`` is the largest number of words, of stems or of phrases."""
        self.stride = stride
        self.stamps = np.full(STAGES * stride, -1, np.int32)
        self.own = np.zeros(2 * longest + 1, np.int32)
        self.first = np.zeros(longest + 1, np.int64)
        self.chosen = np.zeros(longest + 1, np.int64)
        self.cover = np.zeros(2 * longest + 1, np.int32)
        self.taken = np.zeros(longest + 1, np.uint8)
        self.states = np.zeros(2 * BEAM * _STATE, np.int64)
        self.used = np.zeros(2 * BEAM * (longest // 64 + 1), np.uint64)
        self.beam = np.zeros(2 * BEAM, np.int64)
        self.trail = np.zeros(2 * (BEAM * longest + 1), np.int64)
        self.matches = np.zeros(MATCH * _ROOM, np.int64)

    def grow(self, matches: int) -> None:
        """Make room for so many matches."""
        self.matches = np.zeros(MATCH * max(matches, 2 * len(self.matches) // MATCH), np.int64)

    def arrays(self) -> tuple[Any, ...]:
        """Return what the code takes, in its order."""
        return (
            self.stamps, self.stride, self.own, self.first, self.chosen, self.cover, self.taken,
            self.states, self.used, self.beam, self.trail, self.matches, len(self.matches) // MATCH,
        )  # fmt: skip


def statistics(
    lexicon: tuple[npt.NDArray[Any], ...], captions: I64, references: I64, bounds: I64, code: Any
) -> tuple[F64, U8, list[list[int]]]:
    """Return the statistics of every caption with every reference.

    The references of caption ``i`` are ``references[bounds[i]:bounds[i + 1]]``. ``code`` is what
    ``kernels.if_worth`` gave.

    Returns:
        A row for each of these references; for each caption whether it has more than ``MOST``
        possible matches, so that its rows mean nothing; the matches of the last pair (start and
        length in the reference, start and length in the caption, stage).
    """
    offsets, key, pair_bounds = lexicon[1], lexicon[2], lexicon[9]
    begun, ended = int(bounds[0]), int(bounds[-1])
    lengths = np.diff(offsets)
    sentences = np.concatenate([captions, references[begun:ended]])
    room = _Room(int(lengths[sentences].max(initial=0)), max(len(key), len(pair_bounds)))
    rows = np.zeros((ended - begun) * STATISTICS)
    refused = np.zeros(len(captions), np.uint8)
    progress = np.zeros(2, np.int64)  # captions done, matches that there was no room for
    run = _in_lists if code is None else code._aligned
    while progress[0] < len(captions):
        run(
            *lexicon, captions, len(captions), references, bounds, rows, refused, *room.arrays(),
            progress,
        )  # fmt: skip
        if progress[0] < len(captions):
            room.grow(int(progress[1]))
    chosen = room.chosen[: lengths[references[ended - 1]]].tolist() if ended > begun else []
    matches = room.matches.reshape(-1, MATCH)[:, :_ORDER]
    return rows.reshape(-1, STATISTICS), refused, [matches[m].tolist() for m in chosen if m >= 0]


def _in_lists(*values: Any) -> None:
    """Run the code as it stands, on lists: Python reads them sooner than arrays."""
    passed = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    _aligned(*passed)
    for value, made in list(zip(values, passed, strict=True))[_READ:]:
        if isinstance(value, np.ndarray):
            value[:] = made


def scores(rows: F64) -> F64:
    """Return METEOR of each row of statistics.

    Multiplications stand in the order of the reference program, so that two references tie here
    exactly when they tie there; for the same reason powers are those of the C library.
    """
    row = np.ascontiguousarray(rows.T)
    length1 = DELTA * (row[0] - row[2]) + (1.0 - DELTA) * row[2]
    length2 = DELTA * (row[1] - row[3]) + (1.0 - DELTA) * row[3]
    weighted1, weighted2 = np.zeros(len(rows)), np.zeros(len(rows))
    for s in range(STAGES):
        weighted1 += row[4 + 4 * s] * WEIGHTS[s] * DELTA
        weighted2 += row[5 + 4 * s] * WEIGHTS[s] * DELTA
    for s in range(STAGES):
        weighted1 += row[6 + 4 * s] * WEIGHTS[s] * (1.0 - DELTA)
        weighted2 += row[7 + 4 * s] * WEIGHTS[s] * (1.0 - DELTA)
    nothing = (weighted1 == 0.0) | (weighted2 == 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = weighted1 / length1, weighted2 / length2
        mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
        fragments = row[23] / ((row[21] + row[22]) / 2.0)
    fragments[nothing] = 0.0
    distinct, place = np.unique(fragments, return_inverse=True)
    power = np.array([fragment**BETA for fragment in distinct.tolist()])[place.reshape(-1)]
    return np.where(nothing, 0.0, np.maximum(mean * (1.0 - GAMMA * power), 0.0))


# -- compiled ------------------------------------------------------------------------------------


def _aligned(
    ids: I32, offsets: I64, key: I32, stem: I32, function: U8,
    syn_bounds: I64, syn_words: I32, spans: I32, span_bounds: I64,
    pair_bounds: I64, pair_targets: I32, pair_ranks: I32, near_bounds: I64, near: I32,
    captions: I64, count: int, references: I64, bounds: I64, rows: F64, refused: U8,
    stamps: I32, stride: int, own: I32, first: I64, chosen: I64, cover: I32, taken: U8,
    states: I64, used: U64, beam: I64, trail: I64, matches: I64, room: int, progress: I64,
) -> int:  # fmt: skip
    """Fill a row of statistics for every caption with every reference, from ``progress`` on.

    It stops at a caption whose matches have no room.
    """
    for c in range(progress[0], count):
        begin1 = offsets[captions[c]]
        n1 = offsets[captions[c] + 1] - begin1
        span1, span1_end = span_bounds[captions[c]], span_bounds[captions[c] + 1]
        # Stamp every key, stem, word and phrase that the caption could match: only where a
        # reference has one of these are words compared with each other.
        for t in range(n1):
            word = ids[begin1 + t]
            own[2 * t], own[2 * t + 1] = key[word], stem[word]
            stamps[key[word]] = c
            stamps[stride + stem[word]] = c
            for k in range(syn_bounds[word], syn_bounds[word + 1]):
                stamps[2 * stride + syn_words[k]] = c
        for t in range(span1, span1_end):
            phrase = spans[3 * t + 2]
            for k in range(near_bounds[phrase], near_bounds[phrase + 1]):
                stamps[3 * stride + near[k]] = c
        left = _int64(MOST)
        for r in range(bounds[c], bounds[c + 1]):
            begin2 = offsets[references[r]]
            n2 = offsets[references[r] + 1] - begin2
            found = _collect(
                ids, begin1, n1, begin2, n2, key, stem, syn_bounds, syn_words,
                spans, span1, span1_end, span_bounds[references[r]], span_bounds[references[r] + 1],
                pair_bounds, pair_targets, pair_ranks, stamps, stride, c, own, first, matches, room,
                left,
            )  # fmt: skip
            if found < 0:
                progress[0], progress[1] = c, -found
                return 0
            if found > left:
                refused[c] = 1
                break
            left -= found
            _search(
                matches, first, n1, n2, chosen, cover, taken, states, used, beam, trail
            )  # fmt: skip
            _count(
                ids, begin1, n1, begin2, n2, function, matches, chosen, rows,
                STATISTICS * (r - bounds[0]),
            )  # fmt: skip
    progress[0] = count
    return 0


def _collect(
    ids: I32, begin1: int, n1: int, begin2: int, n2: int, key: I32, stem: I32,
    syn_bounds: I64, syn_words: I32, spans: I32, span1: int, end1: int, span2: int, end2: int,
    pair_bounds: I64, pair_targets: I32, pair_ranks: I32, stamps: I32, stride: int, stamp: int,
    own: I32, first: I64, matches: I64, room: int, most: int,
) -> int:  # fmt: skip
    """List the matches of each reference position in the order in which they are tried.

    The order is exact, stem, synonym (each by hypothesis position), paraphrases looked up from
    the reference (by length, place in the table, hypothesis position), paraphrases looked up from
    the hypothesis (by hypothesis position, length, place in the table). Returns how many there are
    (more than ``most``: the list is not complete), or minus the room that is needed.
    """
    same = n1 == n2
    for j in range(n2 if same else 0):
        same = same and own[2 * j] == key[ids[begin2 + j]]
    n = _int64(0)
    for j in range(n2):
        first[j] = n
        if n > most:
            return n
        if n + 3 * n1 > room:
            return -(n + 3 * n1)
        b = ids[begin2 + j]
        key2, stem2 = key[b], stem[b]
        if stamps[key2] == stamp:
            for i in range(n1):
                if own[2 * i] == key2:
                    n = _add(matches, n, j, 1, i, 1, EXACT)
        if same:
            continue
        if stamps[stride + stem2] == stamp:
            for i in range(n1):
                if own[2 * i + 1] == stem2 and own[2 * i] != key2:
                    n = _add(matches, n, j, 1, i, 1, STEM)
        if stamps[2 * stride + b] == stamp:
            for i in range(n1):
                if own[2 * i] != key2 and _related(syn_bounds, syn_words, b, ids[begin1 + i]) >= 0:
                    n = _add(matches, n, j, 1, i, 1, SYNONYM)
        here = span2
        while span2 < end2 and spans[3 * span2] == j:
            span2 += 1
        for side in range(2):
            begun = n
            for at in range(here, span2):
                length, phrase = _int64(spans[3 * at + 1]), spans[3 * at + 2]
                if stamps[3 * stride + phrase] != stamp:
                    continue
                if n + end1 - span1 > room:
                    return -(n + end1 - span1)
                for s in range(span1, end1):
                    i, other_length = _int64(spans[3 * s]), _int64(spans[3 * s + 1])
                    other = spans[3 * s + 2]
                    if side == 0:
                        place = _related(pair_bounds, pair_targets, phrase, other)
                    else:
                        place = _related(pair_bounds, pair_targets, other, phrase)
                    if place >= 0:
                        rank = _int64(pair_ranks[place])
                        if side == 0:
                            order = length << 46 | rank << 14 | i
                        else:
                            order = i << 46 | other_length << 32 | rank
                        matches[MATCH * n + _ORDER] = order
                        n = _add(matches, n, j, length, i, other_length, PARAPHRASE)
            _sort(matches, begun, n)
    first[n2] = n
    return n


def _related(bounds: I64, targets: I32, a: int, b: int) -> int:
    """Return the place of b among the sorted targets of a, or -1."""
    low, high = bounds[a], bounds[a + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if targets[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low if low < end and targets[low] == b else _int64(-1)


def _add(
    matches: I64, n: int, start: int, length: int, other: int, other_length: int, stage: int
) -> int:
    """Write the n-th match; return the number of matches."""
    at = MATCH * n
    matches[at + _START], matches[at + _LENGTH], matches[at + _STAGE] = start, length, stage
    matches[at + _OTHER], matches[at + _OTHER_LENGTH] = other, other_length
    return n + 1


def _sort(matches: I64, begin: int, end: int) -> int:
    """Put matches in order (few; insertion leaves equals as they are)."""
    for m in range(begin + 1, end):
        k = m
        while k > begin and matches[MATCH * k + _ORDER] < matches[MATCH * (k - 1) + _ORDER]:
            for at in range(MATCH * k, MATCH * (k + 1)):
                matches[at], matches[at - MATCH] = matches[at - MATCH], matches[at]
            k -= 1
    return 0


def _fix(
    matches: I64, first: I64, n1: int, n2: int, chosen: I64, cover: I32, taken: U8, used: U64
) -> bool:
    """Choose in advance every match that nothing else competes with; tell whether others are left.

    ``chosen[j]`` becomes the match that starts at reference position j or -1; ``taken`` marks the
    reference words of these, and the first state of ``used`` has one bit per hypothesis word.
    """
    for at in range(n1 + n2):
        cover[at] = 0
    for at in range((n1 + 63) >> 6):
        used[at] = 0
    for m in range(first[n2]):
        at = MATCH * m
        for k in range(matches[at + _OTHER], matches[at + _OTHER] + matches[at + _OTHER_LENGTH]):
            cover[k] += 1
        start = n1 + matches[at + _START]
        for k in range(start, start + matches[at + _LENGTH]):
            cover[k] += 1
    rivals = False
    for j in range(n2):
        chosen[j] = -1
        taken[j] = 0
    for j in range(n2):
        if first[j + 1] == first[j]:
            continue
        at = MATCH * first[j]
        alone = first[j + 1] - first[j] == 1
        if alone:
            end = matches[at + _OTHER] + matches[at + _OTHER_LENGTH]
            for k in range(matches[at + _OTHER], end):
                alone = alone and cover[k] == 1
            for k in range(n1 + j, n1 + j + matches[at + _LENGTH]):
                alone = alone and cover[k] == 1
        if not alone:
            rivals = True
            continue
        chosen[j] = first[j]
        for k in range(j, j + matches[at + _LENGTH]):
            taken[k] = 1
        for i in range(matches[at + _OTHER], matches[at + _OTHER] + matches[at + _OTHER_LENGTH]):
            used[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    return rivals


def _cost(cost: int, last: int, matches: I64, m: int) -> int:
    """Return the cost of a state after a match: points gained, a chunk more if there is a break.

    Each side of a match that is not exact counts half, cut to an integer.
    """
    at = MATCH * m
    if matches[at + _STAGE] == EXACT:
        points = matches[at + _LENGTH] + matches[at + _OTHER_LENGTH]
    else:
        points = (matches[at + _LENGTH] >> 1) + (matches[at + _OTHER_LENGTH] >> 1)
    cost -= points * _POINT
    return cost + _CHUNK if last != -1 and last != matches[at + _OTHER] else cost


def _enter(beam: I64, size: int, cost: int, source: int) -> int:
    """Put a candidate into the sorted beam, behind its equals; return the new size.

    The worst one drops out of a full beam.
    """
    if size == BEAM:
        if cost >= beam[2 * BEAM - 2]:
            return size
        size -= 1
    k = size
    while k > 0 and cost < beam[2 * k - 2]:
        beam[2 * k], beam[2 * k + 1] = beam[2 * k - 2], beam[2 * k - 1]
        k -= 1
    beam[2 * k], beam[2 * k + 1] = cost, source
    return size + 1


def _resort(states: I64, begin: int, used: U64, used_begin: int, width: int, size: int) -> int:
    """Restore the order of states after their costs changed a little; equals keep their order."""
    for s in range(1, size):
        k = s
        while k > 0:
            at = begin + _STATE * k
            if states[at + _COST] >= states[at - _STATE + _COST]:
                break
            for c in range(at, at + _STATE):
                states[c], states[c - _STATE] = states[c - _STATE], states[c]
            for c in range(used_begin + width * k, used_begin + width * (k + 1)):
                used[c], used[c - width] = used[c - width], used[c]
            k -= 1
    return 0


def _free(matches: I64, m: int, used: U64, mine: int, taken: U8) -> bool:
    """Tell whether a match touches no used word on either side."""
    at = MATCH * m
    for k in range(1, matches[at + _LENGTH]):
        if taken[matches[at + _START] + k] != 0:
            return False
    for i in range(matches[at + _OTHER], matches[at + _OTHER] + matches[at + _OTHER_LENGTH]):
        if (used[mine + (i >> 6)] >> np.uint64(i & 63)) & np.uint64(1) != np.uint64(0):
            return False
    return True


def _search(
    matches: I64, first: I64, n1: int, n2: int, chosen: I64, cover: I32, taken: U8,
    states: I64, used: U64, beam: I64, trail: I64,
) -> int:  # fmt: skip
    """Find the best set of matches; it is written into ``chosen``.

    Each position lets every state take each match that is still free, or none; of all results the
    best 40 live on. ``trail`` remembers (trail before, match). ``states`` and ``used`` hold the
    states of this position and those of the next, one behind the other.
    """
    if not _fix(matches, first, n1, n2, chosen, cover, taken, used):
        return 0
    width = (n1 + 63) >> 6
    trail[0], trail[1] = -1, -1
    trails = _int64(1)
    states[_COST], states[_NEXT], states[_LAST], states[_TRAIL] = 0, 0, -1, 0
    size = _int64(1)
    now, used_now = _int64(0), _int64(0)
    for j in range(n2):
        fixed = chosen[j]
        if fixed >= 0 or first[j] == first[j + 1]:  # no choice: the states change in place
            for s in range(size):
                at = now + _STATE * s
                if j < states[at + _NEXT]:
                    continue
                last = states[at + _LAST]
                if fixed >= 0:
                    other = matches[MATCH * fixed + _OTHER]
                    states[at + _COST] = _cost(states[at + _COST], last, matches, fixed) + abs(
                        j - other
                    )
                    states[at + _NEXT] = j + matches[MATCH * fixed + _LENGTH]
                    states[at + _LAST] = other + matches[MATCH * fixed + _OTHER_LENGTH]
                elif last != -1:
                    states[at + _COST] += _CHUNK
                    states[at + _LAST] = -1
            _resort(states, now, used, used_now, width, size)
            continue
        grown = _int64(0)
        for s in range(size):
            at = now + _STATE * s
            cost, last = states[at + _COST], states[at + _LAST]
            if j >= states[at + _NEXT]:
                mine = used_now + width * s
                for m in range(first[j], first[j + 1]):
                    i = matches[MATCH * m + _OTHER]
                    # Most often a word is taken: one look at its bit spares the rest.
                    bit = (used[mine + (i >> 6)] >> np.uint64(i & 63)) & np.uint64(1)
                    if bit == np.uint64(0) and _free(matches, m, used, mine, taken):
                        new = _cost(cost, last, matches, m)
                        if grown < BEAM or new < beam[2 * BEAM - 2]:
                            grown = _enter(beam, grown, new, _int64(s) << 32 | (m + 1))
                        cost += abs(j - i)
                if last != -1:
                    cost += _CHUNK
            grown = _enter(beam, grown, cost, _int64(s) << 32)
        after, used_after = _STATE * BEAM - now, width * BEAM - used_now
        for s in range(grown):
            by, m = beam[2 * s + 1] >> 32, (beam[2 * s + 1] & 0xFFFFFFFF) - 1
            old, at = now + _STATE * by, after + _STATE * s
            states[at + _COST], states[at + _NEXT] = beam[2 * s], states[old + _NEXT]
            states[at + _LAST], states[at + _TRAIL] = states[old + _LAST], states[old + _TRAIL]
            mine = used_after + width * s
            for k in range(width):
                used[mine + k] = used[used_now + width * by + k]
            if m >= 0:
                other = matches[MATCH * m + _OTHER]
                end = other + matches[MATCH * m + _OTHER_LENGTH]
                for i in range(other, end):
                    used[mine + (i >> 6)] |= np.uint64(1) << np.uint64(i & 63)
                trail[2 * trails], trail[2 * trails + 1] = states[at + _TRAIL], m
                states[at + _NEXT] = j + matches[MATCH * m + _LENGTH]
                states[at + _LAST] = end
                states[at + _TRAIL] = trails
                trails += 1
            elif j >= states[at + _NEXT]:
                states[at + _LAST] = -1
        now, used_now = after, used_after
        size = grown
    best, least = _int64(0), _int64(0)
    for s in range(size):
        at = now + _STATE * s
        cost = states[at + _COST]
        if states[at + _LAST] != -1:
            cost += _CHUNK
        if s == 0 or cost < least:
            best, least = _int64(s), cost
    at = states[now + _STATE * best + _TRAIL]
    while trail[2 * at + 1] >= 0:
        chosen[matches[MATCH * trail[2 * at + 1] + _START]] = trail[2 * at + 1]
        at = trail[2 * at]
    return 0


def _count(
    ids: I32, begin1: int, n1: int, begin2: int, n2: int, function: U8, matches: I64, chosen: I64,
    rows: F64, row: int,
) -> int:  # fmt: skip
    """Fill a row of statistics from the chosen matches."""
    for at in range(STATISTICS):
        rows[row + at] = 0.0
    rows[row], rows[row + 1] = n1, n2
    for i in range(n1):
        rows[row + 2] += function[ids[begin1 + i]]
    for j in range(n2):
        rows[row + 3] += function[ids[begin2 + j]]
    chunks, last, j = _int64(0), _int64(-1), _int64(0)
    while j < n2:
        if chosen[j] < 0:
            if last != -1:
                chunks += 1
            last = _int64(-1)
            j += 1
            continue
        at = MATCH * chosen[j]
        other, length, other_length = (
            matches[at + _OTHER], matches[at + _LENGTH], matches[at + _OTHER_LENGTH],
        )  # fmt: skip
        column = row + 4 + 4 * matches[at + _STAGE]
        for k in range(other_length):
            rows[column + 2 * _int64(function[ids[begin1 + other + k]])] += 1.0
        for k in range(length):
            rows[column + 1 + 2 * _int64(function[ids[begin2 + j + k]])] += 1.0
        rows[row + 21] += other_length
        rows[row + 22] += length
        if last != -1 and last != other:
            chunks += 1
        last = other + other_length
        j += length
    if last != -1:
        chunks += 1
    rows[row + 20] = chunks
    # A perfect pair adds no chunk to the corpus.
    whole = chunks == 1 and rows[row + 21] == n1 and rows[row + 22] == n2
    rows[row + 23] = 0.0 if whole else float(chunks)
    return 0


kernels = MachineCode(
    globals(),
    ("_aligned",),
    helpers=(
        "_related", "_add", "_sort", "_collect", "_fix", "_cost", "_enter", "_resort", "_free",
        "_search", "_count",
    ),
    small=_SMALL,
    unmade=_UNMADE,
)  # fmt: skip
