"""A longest-match scanner over ordered rules: the machine under the PTB tokeniser.

A tokeniser of this kind is a list of patterns. At every position the pattern that matches the most
characters wins (what a pattern looks ahead to counts), and among equals the earlier one. Python's
``re`` takes the first alternative, not the longest, and can backtrack for ever; here the patterns
become one automaton whose deterministic states are made when first visited. Every character is then
one dictionary look-up, and the time is linear in the text whatever the text is.

Patterns are built from functions: ``seq("mr", maybe("s"), ".")``. A plain string matches in either
case; ``one("A-Z")`` is a set of characters and is exact.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_OVERSHOOT = 32  # how far a match may be sought past the last success before failures are noted
_STRIDE = 16  # failures are noted at every 16th position only: memory, for 15 wasted steps


class Chars:
    """A set of characters as sorted ranges of code points."""

    __slots__ = ("_edges", "key")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        edges: list[int] = []
        for low, high in sorted(ranges):
            if edges and low <= edges[-1]:
                edges[-1] = max(edges[-1], high + 1)
            else:
                edges += (low, high + 1)
        self._edges = edges
        self.key = tuple(edges)

    def __contains__(self, char: str) -> bool:
        return bisect_right(self._edges, ord(char)) % 2 == 1

    def __or__(self, other: Chars) -> Chars:
        return Chars([*self._pairs(), *other._pairs()])

    def __invert__(self) -> Chars:
        edges = [0, *self._edges, 0x110000]
        return Chars([(a, b - 1) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b])

    def __sub__(self, other: Chars) -> Chars:
        return ~(~self | other)

    def _pairs(self) -> list[tuple[int, int]]:
        edges = self._edges
        return [(a, b - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


class Pattern(NamedTuple):
    """One node of a pattern: what it is, its parts, and how often (for repetition)."""

    kind: str
    parts: tuple[Pattern, ...] = ()
    chars: Chars | None = None
    low: int = 1
    high: int | None = 1


Piece = Pattern | Chars | str


def one(spec: str) -> Chars:
    """Set of characters from ``"a-z0-9."``; a hyphen at the end stands for itself."""
    return Chars([(ord(a), ord(b or a)) for a, b in re.findall(r"(?s)(.)(?:-(.))?", spec)])


def table(spec: str) -> Chars:
    """Set of characters from hexadecimal ranges: ``"0041-005A 00C0"``."""
    pairs = (item.partition("-") for item in spec.split())
    return Chars([(int(a, 16), int(b or a, 16)) for a, _, b in pairs])


# Folding pairs outside ASCII that a caseless match of an ASCII letter includes.
_FOLDS = {"i": "\u0130\u0131", "s": "\u017f", "k": "\u212a"}


def _piece(piece: Piece) -> Pattern:
    if isinstance(piece, Pattern):
        return piece
    if isinstance(piece, Chars):
        return Pattern("one", chars=piece)
    folded = [{c.lower(), c.upper(), *_FOLDS.get(c.lower(), "")} for c in piece]
    letters = [Chars([(ord(c), ord(c)) for c in same]) for same in folded]
    return Pattern("seq", tuple(Pattern("one", chars=letter) for letter in letters))


def seq(*pieces: Piece) -> Pattern:
    """One after the other."""
    return Pattern("seq", tuple(map(_piece, pieces)))


def alt(*pieces: Piece) -> Pattern:
    """Any one of these."""
    return Pattern("alt", tuple(map(_piece, pieces)))


def words(listed: str) -> Pattern:
    """Any one of the words of a list, in either case."""
    return alt(*listed.split())


def times(piece: Piece, low: int, high: int | None = None) -> Pattern:
    """From ``low`` to ``high`` repetitions; without ``high`` there is no upper bound."""
    return Pattern("rep", (_piece(piece),), low=low, high=high)


def some(*pieces: Piece) -> Pattern:
    """Once or more."""
    return times(seq(*pieces), 1)


def many(*pieces: Piece) -> Pattern:
    """Any number of times, or not at all."""
    return times(seq(*pieces), 0)


def maybe(*pieces: Piece) -> Pattern:
    """Once or not at all."""
    return times(seq(*pieces), 0, 1)


def width(piece: Piece) -> int | None:
    """The number of characters a pattern matches, or None where it varies."""
    pattern = _piece(piece)
    if pattern.chars is not None:
        return 1
    widths = [width(part) for part in pattern.parts]
    if None in widths or pattern.low != pattern.high:
        return None
    if pattern.kind == "alt":
        return widths[0] if len(set(widths)) == 1 else None
    return sum(w for w in widths if w is not None) * pattern.low


class Match(NamedTuple):
    """Which rule (-1: none), where the match ends, and how far the scanner looked to be sure."""

    rule: int
    end: int
    reach: int


class State(dict[int, "State | None"]):
    """A deterministic state: class of character -> next state; missing entries are made on use."""

    __slots__ = ("machine", "number", "rule", "steps", "stuck")

    def __init__(self, machine: Machine, places: frozenset[int], number: int) -> None:
        super().__init__()
        self.machine, self.number = machine, number
        self.rule = min((machine.accepts[p] for p in places if p in machine.accepts), default=-1)
        self.steps: dict[int, list[int]] = {}  # set of characters -> places it leads to
        for place in places:
            if place in machine.steps:
                needed, target = machine.steps[place]
                self.steps.setdefault(needed, []).append(target)
        self.stuck = not self.steps

    def __missing__(self, kind: int) -> State | None:
        state = self[kind] = self.machine.follow(self, kind)
        return state


class Machine(dict[str, int]):
    """The automaton of a list of patterns; as a mapping it sends a character to its class.

    Characters that no set of any pattern tells apart share a class, so there are few columns.
    """

    def __init__(self, patterns: Sequence[Piece]) -> None:
        super().__init__()
        self.sets: list[Chars] = []
        self.steps: dict[int, tuple[int, int]] = {}  # place -> (set needed, next place)
        self.jumps: dict[int, list[int]] = {}  # place -> places reached for free
        self.accepts: dict[int, int] = {}
        self._set_numbers: dict[tuple[int, ...], int] = {}
        self._kinds: dict[frozenset[int], int] = {}
        self._members: list[frozenset[int]] = []
        self._states: dict[frozenset[int], State] = {}
        self._closures: dict[int, frozenset[int]] = {}
        self._places = 1
        for number, pattern in enumerate(patterns):
            self.accepts[self._add(_piece(pattern), 0)] = number
        self.start = self._state([0])

    def __missing__(self, char: str) -> int:
        member = frozenset(i for i, chars in enumerate(self.sets) if char in chars)
        kind = self._kinds.setdefault(member, len(self._members))
        if kind == len(self._members):
            self._members.append(member)
        self[char] = kind
        return kind

    def _place(self) -> int:
        self._places += 1
        return self._places - 1

    def _jump(self, source: int, target: int) -> None:
        self.jumps.setdefault(source, []).append(target)

    def _add(self, pattern: Pattern, entry: int) -> int:
        """Add a pattern that begins at a place; return the place where it ends."""
        if pattern.chars is not None:
            end, begin = self._place(), self._place()
            number = self._set_numbers.setdefault(pattern.chars.key, len(self.sets))
            if number == len(self.sets):
                self.sets.append(pattern.chars)
            self._jump(entry, begin)
            self.steps[begin] = (number, end)
            return end
        if pattern.kind == "seq":
            for part in pattern.parts:
                entry = self._add(part, entry)
            return entry
        if pattern.kind == "alt":
            end = self._place()
            for part in pattern.parts:
                self._jump(self._add(part, entry), end)
            return end
        (part,) = pattern.parts
        for _ in range(pattern.low if pattern.high is not None else max(pattern.low - 1, 0)):
            entry = self._add(part, entry)
        end = self._place()
        if pattern.high is None:  # a loop of its own, so that it cannot leak into a neighbour
            loop = self._place()
            self._jump(entry, loop)
            after = self._add(part, loop)
            self._jump(after, loop)
            self._jump(after if pattern.low else loop, end)
            return end
        self._jump(entry, end)
        for _ in range(pattern.high - pattern.low):
            entry = self._add(part, entry)
            self._jump(entry, end)
        return end

    def _reached(self, place: int) -> frozenset[int]:
        """The places that matter among those reached from one for free."""
        known = self._closures.get(place)
        if known is None:
            places, stack = {place}, [place]
            while stack:
                for near in self.jumps.get(stack.pop(), ()):
                    if near not in places:
                        places.add(near)
                        stack.append(near)
            known = frozenset(p for p in places if p in self.steps or p in self.accepts)
            self._closures[place] = known
        return known

    def _state(self, places: list[int]) -> State:
        reached = frozenset().union(*map(self._reached, places))
        state = self._states.get(reached)
        if state is None:
            state = self._states[reached] = State(self, reached, len(self._states))
        return state

    def follow(self, state: State, kind: int) -> State | None:
        """The state after one more character of a class, or None where nothing can match."""
        member = self._members[kind]
        places_after = [
            p for needed, places in state.steps.items() if needed in member for p in places
        ]
        return self._state(places_after) if places_after else None

    def kinds(self, text: str) -> list[int]:
        """The class of every character of a text, for `longest`."""
        return [self[char] for char in text]

    def longest(self, kinds: list[int], start: int, failed: set[tuple[int, int]]) -> Match:
        """The longest match at a position.

        Args:
            kinds: the text, as `kinds` gives it.
            start: where the match begins; before the end of the text.
            failed: empty at first, and the same set for every match of one text. It holds states
                from which nothing more can match at a position, so that a long and vain look ahead
                is made once for a text and not once for every token.
        """
        state: State | None = self.start
        rule, end, at, size = -1, start, start, len(kinds)
        limit = start + _OVERSHOOT
        trail: list[tuple[int, int]] = []
        while at < size:
            state = state[kinds[at]]  # type: ignore[index]
            if state is None:
                break
            at += 1
            if state.rule >= 0:
                rule, end, limit = state.rule, at, at + _OVERSHOOT
                trail.clear()
                if state.stuck:
                    break
            elif at > limit and not at % _STRIDE:
                mark = (state.number, at)
                if mark in failed:
                    at = size  # an earlier look went on from here
                    break
                trail.append(mark)
        failed.update(trail)
        return Match(rule, end, at if state is None or state.stuck else at + 1)

    def ends(self, text: str, start: int, stop: int) -> list[int]:
        """Every position up to ``stop`` at which a match begun at ``start`` may end."""
        positions = []
        state: State | None = self.start
        for at in range(start, stop + 1):
            if state is None:
                break
            if state.rule >= 0:
                positions.append(at)
            if at < stop:
                state = state[self[text[at]]]
        return positions
