"""Longest common subsequences of many pairs at once, by bit-parallel rows (Hyyrö 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import settings
from captious.text.machine_code import I32, I64, MachineCode, side_by_side
from captious.text.tokens import TokenTable

_int64: Any = np.int64  # for numba; type checkers take its whole numbers for ints
_FEW, _UNMADE = 500, 15_000
_PART = 20_000  # pairs that are worth a thread
_WORD = 64
_LONG = 256  # longer captions are done one by one, so that a padded block stays small
_BLOCK = 1 << 15


def lengths(
    table: TokenTable, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Return the LCS length of strings ``a[i]`` and ``b[i]`` of a token table.

    Pairs whose second side fits a machine word are done by compiled code, or together, column by
    column; longer ones one by one with Python's long integers, which are bit-parallel too.
    """
    kernels = _kernels.if_worth(len(a))
    if kernels is not None:
        out = np.empty(len(a), np.int64)
        parts = max(1, min(settings.get().threads, len(a) // _PART))
        edges = [len(a) * part // parts for part in range(parts + 1)]

        def walk(part: int) -> int:
            begin, end = edges[part], edges[part + 1]
            return kernels._walked(table.ids, table.offsets, a, b, begin, end, out)

        side_by_side(walk, range(parts), len(a))
        rest = np.flatnonzero(out < 0)
    else:
        out, rest = _by_columns(table, a, b)
    for i in rest:
        out[i] = _long(
            table.ids[table.offsets[a[i]] : table.offsets[a[i] + 1]].tolist(),
            table.ids[table.offsets[b[i]] : table.offsets[b[i] + 1]].tolist(),
        )
    return out


def _walked(ids: I32, offsets: I64, a: I32, b: I32, first: int, last: int, out: I64) -> int:
    """Do one pair after the other (compiled); -1 where the second side is too long."""
    for pair in range(first, last):
        begin, end = offsets[b[pair]], offsets[b[pair] + 1]
        if end - begin > _WORD:
            out[pair] = -1
            continue
        row = ~np.uint64(0)
        for at in range(offsets[a[pair]], offsets[a[pair] + 1]):
            match = np.uint64(0)
            for place in range(begin, end):
                if ids[place] == ids[at]:
                    match |= np.uint64(1) << np.uint64(place - begin)
            kept = row & match
            row = (row + kept) | (row - kept)
        common = _int64(0)
        for place in range(end - begin):
            if (row >> np.uint64(place)) & np.uint64(1) == np.uint64(0):
                common += 1
        out[pair] = common
    return 0


_kernels = MachineCode(globals(), ("_walked",), helpers=(), small=_FEW, unmade=_UNMADE)


def _by_columns(
    table: TokenTable, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Do all pairs together, column by column; return lengths and the pairs that are left."""
    out = np.zeros(len(a), np.int64)
    short = (table.lengths[b] <= _WORD) & (table.lengths[a] <= _LONG)
    index = np.flatnonzero(short)
    # Pairs of like length together, so that a block has few empty columns.
    index = index[np.argsort(table.lengths[a[index]], kind="stable")]
    for start in range(0, len(index), _BLOCK):
        block = index[start : start + _BLOCK]
        out[block] = _short(table, a[block], b[block])
    return out, np.flatnonzero(~short)


def _padded(table: TokenTable, index: npt.NDArray[np.int32], fill: int) -> npt.NDArray[np.int32]:
    """Return the tokens as (columns, strings): one contiguous line per position."""
    size = table.lengths[index]
    place = np.arange(int(size.max(initial=0)))[:, None]
    at = np.minimum(table.offsets[index] + place, max(len(table.ids) - 1, 0))
    token_ids = table.ids[at] if len(table.ids) else np.zeros(at.shape, np.int32)
    return np.where(place < size, token_ids, np.int32(fill))


def _short(
    table: TokenTable, a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    left, right = _padded(table, a, -1), _padded(table, b, -2)
    row: npt.NDArray[np.uint64] = np.full(len(a), ~np.uint64(0), np.uint64)
    bits = np.uint64(1) << np.arange(len(right), dtype=np.uint64)
    for word in left:
        match = np.zeros(len(a), np.uint64)
        for bit, other in zip(bits, right, strict=True):
            match |= np.where(word == other, bit, np.uint64(0))
        kept = row & match
        row = np.bitwise_or(row + kept, row - kept)
    return np.bitwise_count(~row).astype(np.int64)


def _long(a: Sequence[int], b: Sequence[int]) -> int:
    places: dict[int, int] = {}
    for i, word in enumerate(b):
        places[word] = places.get(word, 0) | (1 << i)
    full = (1 << len(b)) - 1
    row = full
    for word in a:
        kept = row & places.get(word, 0)
        row = ((row + kept) | (row - kept)) & full
    return len(b) - row.bit_count()


def subsequence(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Return one longest common subsequence of two short token lists."""
    size = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            size[i + 1, j + 1] = size[i, j] + 1 if x == y else max(size[i, j + 1], size[i + 1, j])
    out, i, j = [], len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1] and size[i, j] == size[i - 1, j - 1] + 1:
            out.append(a[i - 1])
            i, j = i - 1, j - 1
        elif size[i - 1, j] >= size[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return out[::-1]
