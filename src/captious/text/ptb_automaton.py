"""The automaton of the PTB tokeniser as arrays, so that compiled code can run it.

``ptb`` makes the states of its automaton when they are first visited. Here all of them are written
out once (5,141 states, 131 classes of characters) and kept beside the code::

    python -m captious.text.ptb_automaton

writes the file again; a test holds it against the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.reading import read_arrays

FILE = Path(__file__).with_name("ptb_automaton.npz")
NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic automaton over classes of characters.

    Attributes:
        kinds: the class of every character below U+10000.
        steps: (states, classes) the next state, -1 where nothing can match; state 0 is the start.
        rules: per state, the rule that matches when it is reached, or -1.
        stuck: per state, whether no state follows it.
        cuts: per rule, characters at the end of a match that belong to what follows; -1 where that
            varies and the plain tokeniser has to decide.
        again: per rule, how many characters of the token begin the next token, too.
        dropped: per rule, whether it makes no token.
        apostrophes: (rules, 4) two places from the end of a match, with what ``cuts`` is where a
            plain apostrophe stands there; 0 for none.
        actions: per rule, what is done with its token.
    """

    kinds: npt.NDArray[np.uint8]
    steps: npt.NDArray[np.int16]
    rules: npt.NDArray[np.int16]
    stuck: npt.NDArray[np.bool_]
    cuts: npt.NDArray[np.int16]
    again: npt.NDArray[np.int16]
    dropped: npt.NDArray[np.bool_]
    apostrophes: npt.NDArray[np.int16]
    actions: npt.NDArray[np.str_]


def build() -> Automaton:
    """Write out every state that the rules of ``ptb`` can reach; takes seconds."""
    from captious.text.ptb import scanner

    machine, rules = scanner.__wrapped__()  # a fresh one: it numbers what it meets as it goes
    kinds = np.array([machine[chr(code)] for code in range(0x10000)], np.uint8)
    classes = int(kinds.max()) + 1
    order, number = [machine.start], {machine.start.number: 0}
    steps: list[list[int]] = []
    for state in order:  # grows while it is walked
        row = []
        for kind in range(classes):
            target = state[kind]
            if target is None:
                row.append(NOWHERE)
                continue
            if target.number not in number:
                number[target.number] = len(order)
                order.append(target)
            row.append(number[target.number])
        steps.append(row)
    return Automaton(
        kinds,
        np.array(steps, np.int16),
        np.array([state.rule for state in order], np.int16),
        np.array([state.stuck for state in order], bool),
        np.array([NOWHERE if rule.cut is None else rule.cut for rule in rules], np.int16),
        np.array([rule.repeated for rule in rules], np.int16),
        np.array([rule.dropped for rule in rules], bool),
        np.array([(*chain(*rule.apostrophes), 0, 0, 0, 0)[:4] for rule in rules], np.int16),
        np.array([rule.action for rule in rules]),
    )


@lru_cache(maxsize=1)
def load() -> Automaton:
    """Return the automaton from its file."""
    arrays: dict[str, Any] = read_arrays(FILE)
    return Automaton(**{f.name: arrays[f.name] for f in fields(Automaton)})


if __name__ == "__main__":
    made = build()
    np.savez_compressed(FILE, **{f.name: getattr(made, f.name) for f in fields(Automaton)})
