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

The functions are plain Python. ``engine`` gives them compiled with numba when there is much to do.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from captious.text.jit import Kernels

BEAM: Final = 40
STAGES: Final = 4
STATISTICS: Final = 24
EXACT, STEM, SYNONYM, PARAPHRASE = range(STAGES)
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS: Final = (1.0, 0.6, 0.8, 0.6)

# Columns of the table of matches.
_START, _LENGTH, _OTHER, _OTHER_LENGTH, _STAGE = range(5)
# Columns of the table of search states.
_COST, _NEXT, _LAST, _TRAIL = range(4)
# A cost is minus points, then chunks, then distance, packed into one integer: smaller is better.
_CHUNK: Final = 1 << 30
_POINT: Final = 1 << 44
LONGEST: Final = 10_000  # words of a sentence for which the packing holds
# Possible matches of a caption with all its references together: 2,000 times the same word on both
# sides. The search costs 40 states times this; the reference program takes more than five minutes
# for a third of it.
MOST: Final = 4_000_000

Array = npt.NDArray[Any]


def _related(bounds: Array, targets: Array, a: int, b: int) -> int:
    """Return the place of b among the sorted targets of a, or -1."""
    low, high = bounds[a], bounds[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if targets[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low if low < bounds[a + 1] and targets[low] == b else -1


def _mark(lex: Any, hyp: int, stamps: Array, stamp: int) -> None:
    """Stamp every key, stem, word and phrase that the caption could match.

    All references of a caption are compared with these stamps; only where one is found are words
    compared with each other.
    """
    ids, offsets, key, stem = lex[0], lex[1], lex[2], lex[3]
    syn_bounds, syn_words, spans, span_bounds = lex[5], lex[6], lex[7], lex[8]
    near_bounds, near = lex[12], lex[13]
    for t in range(offsets[hyp], offsets[hyp + 1]):
        word = ids[t]
        stamps[0, key[word]] = stamp
        stamps[1, stem[word]] = stamp
        for k in range(syn_bounds[word], syn_bounds[word + 1]):
            stamps[2, syn_words[k]] = stamp
    for t in range(span_bounds[hyp], span_bounds[hyp + 1]):
        phrase = spans[t, 2]
        for k in range(near_bounds[phrase], near_bounds[phrase + 1]):
            stamps[3, near[k]] = stamp


def _grow(table: Array, needed: int) -> Array:
    """Return the table, or a larger copy of it if ``needed`` rows do not fit."""
    if needed <= len(table):
        return table
    larger = np.empty((max(needed, 2 * len(table)), table.shape[1]), table.dtype)
    larger[: len(table)] = table
    return larger


def _add(
    matches: Array, n: int, start: int, length: int, other: int, other_length: int, stage: int
) -> int:
    """Write the n-th match; return the number of matches."""
    matches[n, _START], matches[n, _LENGTH], matches[n, _STAGE] = start, length, stage
    matches[n, _OTHER], matches[n, _OTHER_LENGTH] = other, other_length
    return n + 1


def _sort_rows(rows: Array, start: int, end: int) -> None:
    """Sort rows by their first three columns (few rows; insertion keeps it stable)."""
    for i in range(start + 1, end):
        k = i
        while k > start and (
            rows[k, 0] < rows[k - 1, 0]
            or (
                rows[k, 0] == rows[k - 1, 0]
                and (
                    rows[k, 1] < rows[k - 1, 1]
                    or (rows[k, 1] == rows[k - 1, 1] and rows[k, 2] < rows[k - 1, 2])
                )
            )
        ):
            for c in range(rows.shape[1]):
                rows[k, c], rows[k - 1, c] = rows[k - 1, c], rows[k, c]
            k -= 1


def _collect(
    lex: Any, hyp: int, ref: int, stamps: Array, stamp: int, matches: Array, first: Array, most: int
) -> Array:
    """List the matches of each reference position in the order in which they are tried.

    The order is exact, stem, synonym (each by hypothesis position), paraphrases looked up from
    the reference (by length, place in the table, hypothesis position), paraphrases looked up from
    the hypothesis (by hypothesis position, length, place in the table). If there are more than
    ``most``, the last place of ``first`` becomes -1 and the list is of no use.
    """
    ids, offsets, key, stem = lex[0], lex[1], lex[2], lex[3]
    syn_bounds, syn_words, spans, span_bounds = lex[5], lex[6], lex[7], lex[8]
    pair_bounds, pair_targets, pair_ranks = lex[9], lex[10], lex[11]
    words1 = ids[offsets[hyp] : offsets[hyp + 1]]
    words2 = ids[offsets[ref] : offsets[ref + 1]]
    n1, n2 = len(words1), len(words2)
    same = n1 == n2
    for j in range(n2 if same else 0):
        same = same and key[words1[j]] == key[words2[j]]
    span1, end1 = span_bounds[hyp], span_bounds[hyp + 1]
    span2, end2 = span_bounds[ref], span_bounds[ref + 1]
    forward = np.empty((16, 5), np.int64)
    backward = np.empty((16, 5), np.int64)
    n = 0
    for j in range(n2):
        first[j] = n
        if n > most:
            first[n2] = -1
            return matches
        matches = _grow(matches, n + 3 * n1)
        b = words2[j]
        if stamps[0, key[b]] == stamp:
            for i in range(n1):
                if key[words1[i]] == key[b]:
                    n = _add(matches, n, j, 1, i, 1, EXACT)
        if same:
            continue
        if stamps[1, stem[b]] == stamp:
            for i in range(n1):
                if stem[words1[i]] == stem[b] and key[words1[i]] != key[b]:
                    n = _add(matches, n, j, 1, i, 1, STEM)
        if stamps[2, b] == stamp:
            for i in range(n1):
                a = words1[i]
                if key[a] != key[b] and _related(syn_bounds, syn_words, b, a) >= 0:
                    n = _add(matches, n, j, 1, i, 1, SYNONYM)
        pairs_held, back = 0, 0
        while span2 < end2 and spans[span2, 0] == j:
            length, phrase = spans[span2, 1], spans[span2, 2]
            span2 += 1
            if stamps[3, phrase] != stamp:
                continue
            forward = _grow(forward, pairs_held + end1 - span1)
            backward = _grow(backward, back + end1 - span1)
            for s in range(span1, end1):
                i, other_length, other = spans[s, 0], spans[s, 1], spans[s, 2]
                place = _related(pair_bounds, pair_targets, phrase, other)
                if place >= 0:
                    forward[pairs_held, 0], forward[pairs_held, 1] = length, pair_ranks[place]
                    forward[pairs_held, 2], forward[pairs_held, 3] = i, other_length
                    pairs_held += 1
                place = _related(pair_bounds, pair_targets, other, phrase)
                if place >= 0:
                    backward[back, 0], backward[back, 1] = i, other_length
                    backward[back, 2], backward[back, 3] = pair_ranks[place], length
                    back += 1
        if pairs_held or back:
            _sort_rows(forward, 0, pairs_held)
            _sort_rows(backward, 0, back)
            matches = _grow(matches, n + pairs_held + back)
            for k in range(pairs_held):
                length, i, other_length = forward[k, 0], forward[k, 2], forward[k, 3]
                n = _add(matches, n, j, length, i, other_length, PARAPHRASE)
            for k in range(back):
                i, other_length, length = backward[k, 0], backward[k, 1], backward[k, 3]
                n = _add(matches, n, j, length, i, other_length, PARAPHRASE)
    first[n2] = n if n <= most else -1
    return matches


def _fix(matches: Array, first: Array, n1: int, n2: int, chosen: Array, used: Array) -> None:
    """Choose in advance every match that nothing else competes with.

    ``chosen[j]`` becomes the match that starts at reference position j or -1; ``used`` holds one
    bit per hypothesis word.
    """
    cover1 = np.zeros(n1, np.int32)
    cover2 = np.zeros(n2, np.int32)
    for m in range(first[n2]):
        for k in range(matches[m, _OTHER_LENGTH]):
            cover1[matches[m, _OTHER] + k] += 1
        for k in range(matches[m, _LENGTH]):
            cover2[matches[m, _START] + k] += 1
    used[:] = 0
    for j in range(n2):
        chosen[j] = -1
        if first[j + 1] - first[j] != 1:
            continue
        m = first[j]
        alone = True
        for k in range(matches[m, _OTHER_LENGTH]):
            alone = alone and cover1[matches[m, _OTHER] + k] == 1
        for k in range(matches[m, _LENGTH]):
            alone = alone and cover2[j + k] == 1
        if alone:
            chosen[j] = m
            for k in range(matches[m, _OTHER_LENGTH]):
                i = matches[m, _OTHER] + k
                used[i >> 6] |= np.uint64(1) << np.uint64(i & 63)


def _weight(matches: Array, m: int) -> int:
    """Return the points of a match in the search, each side cut to an integer."""
    if matches[m, _STAGE] == EXACT:
        return matches[m, _LENGTH] + matches[m, _OTHER_LENGTH]
    return (matches[m, _LENGTH] >> 1) + (matches[m, _OTHER_LENGTH] >> 1)


def _cost(cost: int, last: int, matches: Array, m: int) -> int:
    """Return the cost of a state after a match: points gained, a chunk more if there is a break."""
    cost -= _weight(matches, m) * _POINT
    return cost + _CHUNK if last != -1 and last != matches[m, _OTHER] else cost


def _enter(beam: Array, size: int, cost: int, source: int) -> int:
    """Put a candidate into the sorted beam, behind its equals; return the new size.

    The worst one drops out of a full beam.
    """
    if size == BEAM:
        if cost >= beam[BEAM - 1, 0]:
            return size
        size -= 1
    k = size
    while k > 0 and cost < beam[k - 1, 0]:
        beam[k, 0], beam[k, 1] = beam[k - 1, 0], beam[k - 1, 1]
        k -= 1
    beam[k, 0], beam[k, 1] = cost, source
    return size + 1


def _resort(states: Array, used: Array, size: int) -> None:
    """Restore the order of states after their costs changed a little; equals keep their order."""
    for s in range(1, size):
        k = s
        while k > 0 and states[k, _COST] < states[k - 1, _COST]:
            for c in range(4):
                states[k, c], states[k - 1, c] = states[k - 1, c], states[k, c]
            for c in range(used.shape[1]):
                used[k, c], used[k - 1, c] = used[k - 1, c], used[k, c]
            k -= 1


def _free(matches: Array, m: int, used: Array, taken: Array) -> bool:
    """Tell whether a match touches no used word on either side."""
    for k in range(1, matches[m, _LENGTH]):
        if taken[matches[m, _START] + k]:
            return False
    for i in range(matches[m, _OTHER], matches[m, _OTHER] + matches[m, _OTHER_LENGTH]):
        if (used[i >> 6] >> np.uint64(i & 63)) & np.uint64(1):
            return False
    return True


def _search(
    matches: Array, first: Array, n1: int, n2: int, chosen: Array, states: Array, after: Array,
    beam: Array, trail: Array,
) -> None:  # fmt: skip
    """Find the best set of matches; it is written into ``chosen``.

    The last four are room to work in. Each position lets every state take each match that is still
    free, or none; of all results the best 40 live on. ``trail`` remembers (trail before, match).
    """
    width = (n1 + 63) >> 6
    used = np.zeros((BEAM, width), np.uint64)
    taken = np.zeros(n2, np.bool_)
    _fix(matches, first, n1, n2, chosen, used[0])
    rivals = False
    for j in range(n2):
        if chosen[j] >= 0:
            taken[j : j + matches[chosen[j], _LENGTH]] = True
        elif first[j + 1] > first[j]:
            rivals = True
    if not rivals:
        return
    used_after = np.zeros((BEAM, width), np.uint64)
    trail[0, 0], trail[0, 1] = -1, -1
    trails = 1
    states[0, _COST], states[0, _NEXT], states[0, _LAST], states[0, _TRAIL] = 0, 0, -1, 0
    size = 1
    for j in range(n2):
        fixed = chosen[j]
        if fixed >= 0 or first[j] == first[j + 1]:  # no choice: the states change in place
            for s in range(size):
                if j < states[s, _NEXT]:
                    continue
                last = states[s, _LAST]
                if fixed >= 0:
                    far = abs(j - matches[fixed, _OTHER])
                    states[s, _COST] = _cost(states[s, _COST], last, matches, fixed) + far
                    states[s, _NEXT] = j + matches[fixed, _LENGTH]
                    states[s, _LAST] = matches[fixed, _OTHER] + matches[fixed, _OTHER_LENGTH]
                elif last != -1:
                    states[s, _COST] += _CHUNK
                    states[s, _LAST] = -1
            _resort(states, used, size)
            continue
        grown = 0
        for s in range(size):
            cost, last = states[s, _COST], states[s, _LAST]
            if j >= states[s, _NEXT]:
                mine = used[s]
                for m in range(first[j], first[j + 1]):
                    i = matches[m, _OTHER]
                    # Most often a word is taken: one look at its bit spares the rest.
                    if (mine[i >> 6] >> np.uint64(i & 63)) & np.uint64(1):
                        continue
                    if _free(matches, m, mine, taken):
                        new = _cost(cost, last, matches, m)
                        if grown < BEAM or new < beam[BEAM - 1, 0]:
                            grown = _enter(beam, grown, new, s << 32 | (m + 1))
                        cost += abs(j - i)
                if last != -1:
                    cost += _CHUNK
            grown = _enter(beam, grown, cost, s << 32)
        for s in range(grown):
            by, m = beam[s, 1] >> 32, (beam[s, 1] & 0xFFFFFFFF) - 1
            after[s, _COST], after[s, _NEXT] = beam[s, 0], states[by, _NEXT]
            after[s, _LAST], after[s, _TRAIL] = states[by, _LAST], states[by, _TRAIL]
            for k in range(width):
                used_after[s, k] = used[by, k]
            if m >= 0:
                end = matches[m, _OTHER] + matches[m, _OTHER_LENGTH]
                for i in range(matches[m, _OTHER], end):
                    used_after[s, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
                trail[trails, 0], trail[trails, 1] = after[s, _TRAIL], m
                after[s, _NEXT], after[s, _LAST] = j + matches[m, _LENGTH], end
                after[s, _TRAIL] = trails
                trails += 1
            elif j >= after[s, _NEXT]:
                after[s, _LAST] = -1
        states, after = after, states
        used, used_after = used_after, used
        size = grown
    best, least = 0, 0
    for s in range(size):
        cost = states[s, _COST] + (_CHUNK if states[s, _LAST] != -1 else 0)
        if s == 0 or cost < least:
            best, least = s, cost
    at = states[best, _TRAIL]
    while trail[at, 1] >= 0:
        chosen[matches[trail[at, 1], _START]] = trail[at, 1]
        at = trail[at, 0]


def score(row: Array) -> float:
    """Return METEOR of a row of statistics, or of a sum of rows.

    Multiplications stand in the order of the reference program, so that two references tie here
    exactly when they tie there.
    """
    length1 = DELTA * (row[0] - row[2]) + (1.0 - DELTA) * row[2]
    length2 = DELTA * (row[1] - row[3]) + (1.0 - DELTA) * row[3]
    weighted1, weighted2 = 0.0, 0.0
    for s in range(STAGES):
        weighted1 += row[4 + 4 * s] * WEIGHTS[s] * DELTA
        weighted2 += row[5 + 4 * s] * WEIGHTS[s] * DELTA
    for s in range(STAGES):
        weighted1 += row[6 + 4 * s] * WEIGHTS[s] * (1.0 - DELTA)
        weighted2 += row[7 + 4 * s] * WEIGHTS[s] * (1.0 - DELTA)
    if weighted1 == 0.0 or weighted2 == 0.0:
        return 0.0
    precision, recall = weighted1 / length1, weighted2 / length2
    mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
    fragments = row[23] / ((row[21] + row[22]) / 2.0)
    return max(mean * (1.0 - GAMMA * fragments**BETA), 0.0)


def _count(lex: Any, hyp: int, ref: int, matches: Array, chosen: Array, row: Array) -> None:
    """Fill a row of statistics from the chosen matches."""
    ids, offsets, function = lex[0], lex[1], lex[4]
    words1 = ids[offsets[hyp] : offsets[hyp + 1]]
    words2 = ids[offsets[ref] : offsets[ref + 1]]
    row[:] = 0.0
    row[0], row[1] = len(words1), len(words2)
    for word in words1:
        row[2] += function[word]
    for word in words2:
        row[3] += function[word]
    chunks, last, j = 0, -1, 0
    while j < len(words2):
        m = chosen[j]
        if m < 0:
            chunks += last != -1
            last = -1
            j += 1
            continue
        stage = matches[m, _STAGE]
        for k in range(matches[m, _OTHER_LENGTH]):
            row[4 + 4 * stage + 2 * function[words1[matches[m, _OTHER] + k]]] += 1.0
        for k in range(matches[m, _LENGTH]):
            row[5 + 4 * stage + 2 * function[words2[j + k]]] += 1.0
        row[21] += matches[m, _OTHER_LENGTH]
        row[22] += matches[m, _LENGTH]
        chunks += last != -1 and last != matches[m, _OTHER]
        last = matches[m, _OTHER] + matches[m, _OTHER_LENGTH]
        j += matches[m, _LENGTH]
    chunks += last != -1
    row[20] = chunks
    whole = chunks == 1 and row[21] == row[0] and row[22] == row[1]
    row[23] = 0.0 if whole else chunks  # a perfect pair adds no chunk to the corpus


def score_rows(
    lex: Any, captions: Array, references: Array, bounds: Array, rows: Array, best: Array,
    alignment: Array,
) -> int:  # fmt: skip
    """Fill one row of statistics per caption: those of its best reference, the first if several.

    ``best`` gets the number of that reference, or -1 (and the row NaN) if the caption has more than
    ``MOST`` possible matches. If ``alignment`` has room, it gets the matches of
    the last caption with its best reference, and their number is returned.
    """
    offsets = lex[1]
    longest = 0
    for r in references[bounds[0] : bounds[len(captions)]]:
        longest = max(longest, offsets[r + 1] - offsets[r])
    matches = np.empty((1024, 5), np.int64)
    first = np.zeros(longest + 1, np.int64)
    chosen = np.zeros(longest, np.int64)
    states = np.zeros((BEAM, 4), np.int64)
    after = np.zeros((BEAM, 4), np.int64)
    beam = np.zeros((BEAM, 2), np.int64)
    trail = np.zeros((BEAM * longest + 1, 2), np.int64)
    row = np.zeros(STATISTICS, np.float64)
    stamps = np.full((4, max(len(lex[2]), len(lex[9]))), -1, np.int32)
    kept = 0
    for c in range(len(captions)):
        hyp = captions[c]
        n1 = offsets[hyp + 1] - offsets[hyp]
        highest = -1.0
        left = MOST
        _mark(lex, hyp, stamps, c)
        for r in range(bounds[c], bounds[c + 1]):
            ref = references[r]
            n2 = offsets[ref + 1] - offsets[ref]
            matches = _collect(lex, hyp, ref, stamps, c, matches, first, left)
            if first[n2] < 0:
                rows[c], best[c] = np.nan, -1
                break
            left -= first[n2]
            _search(matches, first, n1, n2, chosen, states, after, beam, trail)
            _count(lex, hyp, ref, matches, chosen, row)
            value = score(row)
            if value > highest:
                highest = value
                rows[c] = row
                best[c] = r - bounds[c]
                if len(alignment):
                    kept = 0
                    for j in range(n2):
                        if chosen[j] >= 0:
                            alignment[kept] = matches[chosen[j]]
                            kept += 1
    return kept


# Work is counted in word pairs. Loading numba takes as long as these do in plain Python (0.55 s of
# processor time): some 270 captions with five references.
engine = Kernels(
    globals(),
    (
        "_related", "_mark", "_grow", "_add", "_sort_rows", "_collect", "_fix", "_weight", "_cost",
        "_enter", "_resort", "_free", "_search", "score", "_count", "score_rows",
    ),
    small=150_000,
)  # fmt: skip
