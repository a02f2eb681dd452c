"""The judgement collections that captious reads, one module each."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from captious.errors import InputError, UsageError, did_you_mean
from captious.judgements.judgement_set import Card, JudgementSet, SystemTable
from captious.reading import reading

Loader = Callable[[Path], "JudgementSet | SystemTable"]

MODULES = (
    "flickr8k",
    "pascal50s",
    "abstract50s",
    "composite",
    "coco2015",
    "thumb",
    "polaris",
    "cxc",
    "foil",
    "nocaps_foil",
)


@lru_cache(maxsize=1)
def _known() -> dict[str, tuple[Card, Loader]]:
    loaders: dict[str, tuple[Card, Loader]] = {}
    for name in MODULES:
        for card, loader in import_module(f"captious.judgements.sets.{name}").SETS:
            loaders[card.name] = (card, loader)
    return loaders


def names() -> list[str]:
    """Return the names of all collections."""
    return list(_known())


def card(name: str) -> Card:
    """Return the data card of a collection.

    Raises:
        UsageError: there is no such collection.
    """
    if name not in _known():
        raise UsageError(
            f"no judgement set is called {name!r}.{did_you_mean(name, _known())} "
            f"There are: {', '.join(_known())}; or give a file of your own ratings."
        )
    return _known()[name][0]


def data_root(folder: str | Path | None = None) -> Path:
    """Return the folder that holds the collections: as given, else ``CAPTIOUS_DATA``.

    Raises:
        UsageError: neither is given.
        InputError: there is no such folder.
    """
    named = folder or os.environ.get("CAPTIOUS_DATA")
    if not named:
        raise UsageError(
            "captious does not know the folder of the judgement sets: give it with --data FOLDER "
            "or the environment variable CAPTIOUS_DATA; `captious data` shows what it should hold"
        )
    root = Path(named)
    if not root.is_dir():
        raise InputError(f"the data folder {root} does not exist")
    return root


def missing(name: str, root: Path, optional: bool = False) -> list[str]:
    """Return the files of a collection that are not under the root."""
    wanted = card(name).optional if optional else card(name).files
    return [f for f in wanted if not any((root / part).exists() for part in f.split("|"))]


def load(name: str, root: Path) -> JudgementSet | SystemTable:
    """Read a collection.

    Raises:
        InputError: files are missing, or do not join; everything is listed.
    """
    lacking = missing(name, root)
    if lacking:
        raise InputError(
            [f"{name}: {root / f.split('|')[0]} was not found" for f in lacking]
            + [f"{name}: {card(name).get}"]
        )
    with reading(f"{name} in {root}", "this collection", "copy its files again"):
        return _known()[name][1](root)


def load_ratings(name: str, root: Path) -> JudgementSet:
    """Read a collection that judges single captions or pairs of them."""
    judged = load(name, root)
    if not isinstance(judged, JudgementSet):
        raise UsageError(f"{name} judges whole systems and holds no captions")
    return judged
