"""What can go wrong, as one tree; every message says what to do next.

CaptiousError
├── InputError      the user's data: file, row, cause, all problems at once
├── UsageError      a wrong name or parameter (with "did you mean")
├── MissingExtra    an optional Python package is not installed
├── MissingAsset    weights, a table or vectors are not on this machine
└── VerifyError     a stored result no longer holds
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence


class CaptiousError(Exception):
    """Base of every error that captious raises on purpose."""


class UsageError(CaptiousError):
    """A name, parameter or combination that captious does not know."""


class MissingExtra(CaptiousError):
    """An optional package is absent.

    Args:
        module: the import name that failed.
        extra: the extra of captious that brings it.
        wanted_by: what asked for it.
    """

    def __init__(self, module: str, extra: str, wanted_by: str) -> None:
        self.module, self.extra, self.wanted_by = module, extra, wanted_by
        super().__init__(
            f"{wanted_by} needs the package {module!r}, which is not installed. "
            f"Get it with: pip install 'captious[{extra}]'"
        )


class MissingAsset(CaptiousError):
    """An outside resource is not here; the message lists every way to get it.

    Args:
        message: the whole message.
        asset: name of the resource.
        extra: the extra of captious that brings it, if one does.
        wanted_by: what asked for it.
    """

    def __init__(self, message: str, asset: str = "", extra: str = "", wanted_by: str = "") -> None:
        self.asset, self.extra, self.wanted_by = asset, extra, wanted_by
        super().__init__(message)


class VerifyError(CaptiousError):
    """A stored result could not be reproduced."""


class InputError(CaptiousError):
    """Something is wrong with the user's data.

    All problems of one reading are collected, so that the user mends them in one go.
    """

    SHOWN = 20

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        shown = self.problems[: self.SHOWN]
        more = len(self.problems) - len(shown)
        if len(self.problems) == 1:
            text = shown[0]
        else:
            text = f"{len(self.problems)} problems:\n" + "\n".join(f"  - {p}" for p in shown)
        if more:
            text += f"\n  ... and {more} more of these"
        super().__init__(text)


def missing_lines(problems: Iterable[CaptiousError]) -> list[str]:
    """Return one line per extra of captious that is not installed, and the other problems as told.

    Example:
        >>> missing_lines([MissingExtra("torch", "neural", "tiger"),
        ...                MissingExtra("torch", "neural", "fit")])
        ["pip install 'captious[neural]' for tiger, fit (torch is not installed)"]
    """
    by_extra: dict[str, list[MissingExtra | MissingAsset]] = {}
    others: list[str] = []
    for problem in problems:
        if isinstance(problem, MissingExtra | MissingAsset) and problem.extra:
            by_extra.setdefault(problem.extra, []).append(problem)
        else:
            others.append(str(problem))
    lines = []
    for extra, told in by_extra.items():
        users = dict.fromkeys(problem.wanted_by for problem in told)
        parts = dict.fromkeys(
            problem.module if isinstance(problem, MissingExtra) else problem.asset
            for problem in told
        )
        lines.append(
            f"pip install 'captious[{extra}]' for {', '.join(users)} "
            f"({', '.join(parts)} {'is' if len(parts) == 1 else 'are'} not installed)"
        )
    return lines + list(dict.fromkeys(others))


def did_you_mean(word: str, known: Iterable[str], meant: Mapping[str, str] | None = None) -> str:
    """Return `` Did you mean 'x'?`` for the nearest known words, or an empty string.

    Args:
        word: what was written.
        known: what could have been written.
        meant: other words for known ones; they go before words that merely look alike.

    Example:
        >>> did_you_mean("Meteorr", ["meteor", "bertscore_r", "tiger"])
        " Did you mean 'meteor'?"
        >>> did_you_mean("nonsense", ["tokenize", "score"])
        ''
    """
    words = list(known)
    near = [meant[word.lower()]] if meant and meant.get(word.lower()) in words else []
    if not near:
        alike = {w: difflib.SequenceMatcher(None, w.lower(), word.lower()).ratio() for w in words}
        least = max(0.55, max(alike.values(), default=0.0) - 0.15)
        near = sorted((w for w in alike if alike[w] >= least), key=lambda w: -alike[w])[:3]
    if not near:
        return ""
    return " Did you mean " + " or ".join(repr(n) for n in near) + "?"
