"""What the adapters check in their input: hosts raise ``ValueError``; ours names the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from captious.calling import text_problem, texts_of
from captious.engine.plan import asked, steps_for
from captious.metrics.base import Need


def paired(
    captions: Any, references: Any, names: tuple[str, str], needed: bool = True
) -> tuple[list[str], list[list[str]]]:
    """Return captions and the references of each, as lists.

    Args:
        captions: texts.
        references: one text or list of texts each; None if ``needed`` is False.
        names: what the host calls the two, for messages.
        needed: whether every caption needs a reference.

    Raises:
        ValueError: naming every caption and every reference that is missing or no text.

    Example:
        >>> paired(["a dog"], ["one dog"], ("preds", "target"))
        (['a dog'], [['one dog']])
    """
    mine, theirs = names
    texts = _rows(captions, mine)
    problems = [f"{mine}[{i}] {wrong}" for i, t in enumerate(texts) if (wrong := text_problem(t))]
    listed: list[list[str]] = [[] for _ in texts]
    if references is not None or needed:
        rows = [] if references is None else _rows(references, theirs)
        if len(rows) != len(texts):
            raise ValueError(f"{mine} has {len(texts)} captions, {theirs} has {len(rows)} lists")
        found: list[str] = []
        listed = [list(texts_of(row, f"{theirs}[{i}]", found)) for i, row in enumerate(rows)]
        wrong_rows = {line.partition("]")[0] for line in found}
        if needed:
            found += [
                f"{theirs}[{i}]: the caption has no reference"
                for i, row in enumerate(listed)
                if not row and f"{theirs}[{i}" not in wrong_rows
            ]
        problems += found
    if problems:
        raise ValueError("\n".join(problems))
    return [str(text) for text in texts], listed


def needs_references(metrics: Any) -> bool:
    """Return whether any of these metrics (names, specs, objects, functions) reads references."""
    return any(
        Need.REFERENCES in step.metric.needs
        for step in steps_for(asked("fast" if metrics is None else metrics))
    )


def _rows(given: Any, name: str) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValueError(f"{name} is a list with one entry per caption, not {repr(given)[:80]}")
    return list(given)
