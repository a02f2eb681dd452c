"""Proof that our PTB rules match what the Java scanner matches, for every text there is.

Needs a JDK and the package pycocoevalcap. The jar's automaton is read from the running class and
walked together with ours, every pair of states under every class of characters. They must agree on
where a match can end and go on, and each action of theirs must stand for one action of ours
(those with the same effect are one of ours; their rule for an acronym before a new sentence, which
asks for the length of the token, is two of ours). What becomes of a token is not proved here:
`ptb_vs_java.py` compares outputs. Run: python benchmarks/ptb_proof.py
"""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict, deque
from pathlib import Path

from ptb_vs_java import java_command

from captious.text._munch import Machine, State, seq
from captious.text._ptb_rules import rules

TABLES = "ZZ_LEXSTATE ZZ_CMAP ZZ_ACTION ZZ_ROWMAP ZZ_TRANS ZZ_ATTRIBUTE"
DUMP = """
import java.lang.reflect.*;
public class Dump {
  public static void main(String[] names) throws Exception {
    Class<?> lexer = Class.forName("edu.stanford.nlp.process.PTBLexer");
    for (String name : names) {
      Field field = lexer.getDeclaredField(name);
      field.setAccessible(true);
      Object table = field.get(null);
      StringBuilder line = new StringBuilder(name);
      for (int i = 0; i < Array.getLength(table); i++)
        line.append(' ').append(Array.getInt(table, i));
      System.out.println(line);
    }
  }
}
"""
NORMAL_START = 4  # the scanner's start state without the option strictTreebank3


def theirs() -> dict[str, list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "Dump.java"
        source.write_text(DUMP)
        command = [*java_command("")[:3], str(source), *TABLES.split()]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[0]: [int(number) for number in row[1:]] for row in rows}


def main() -> None:
    java = theirs()
    kind, action, row, step, mark = (java[name] for name in TABLES.split()[1:])
    listed = rules()
    ours = Machine([r.body if r.after is None else seq(r.body, r.after) for r in listed])
    letters: dict[tuple[int, int], str] = {}
    for code in range(0x10000):
        letters.setdefault((ours[chr(code)], kind[code]), chr(code))
    before = defaultdict(set)
    for state in range(len(action)):
        for column in range(max(kind) + 1):
            before[step[row[state] + column]].add(state)
    live = {state for state in range(len(action)) if mark[state] & 1}
    stack = list(live)
    while stack:
        stack += (fresh := before[stack.pop()] - live)
        live |= fresh
    first = java["ZZ_LEXSTATE"][NORMAL_START]
    queue: deque[tuple[State, int, str]] = deque([(ours.start, first, "")])
    seen, wrong, meaning = {(ours.start.number, first)}, [], defaultdict(set)
    while queue:
        mine, other, text = queue.popleft()
        if (mine.rule >= 0) != bool(mark[other] & 1):
            wrong.append((text, "only one of the two may end here"))
        elif mine.rule >= 0:
            meaning[action[other]].add(listed[mine.rule].action)
        for (my_kind, their_kind), letter in letters.items():
            next_mine, next_other = mine[my_kind], step[row[other] + their_kind]
            goes_on = next_other in live
            if (next_mine is not None) != goes_on:
                wrong.append((text + letter, "only one of the two may go on"))
            elif next_mine is not None and (next_mine.number, next_other) not in seen:
                seen.add((next_mine.number, next_other))
                queue.append((next_mine, next_other, text + letter))
    for text, why in wrong[:20]:
        print(f"{text!r}: {why}")
    unclear = [names for names in meaning.values() if len(names - {"give back 1"}) > 1]
    print(
        f"{len(seen)} pairs of states, {len(letters)} classes of characters, {len(meaning)} actions"
    )
    print(f"disagreements: {len(wrong)}; actions with two meanings: {unclear or 'none'}")


if __name__ == "__main__":
    main()
