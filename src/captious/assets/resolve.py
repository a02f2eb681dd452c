"""Find a named asset on this machine, or say how to get it."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from captious import errors, settings
from captious.reading import opened

_SETTLED = 2_000_000_000  # nanoseconds after which a file counts as finished


@dataclass(frozen=True)
class Asset:
    """One entry of the manifest.

    Attributes:
        name: how the rest of captious calls it.
        purpose: what it is for, in a phrase.
        licence: of the resource, not of captious.
        package: ``import_name/relative/path`` inside an installed package that carries it.
        remedy: the one command or step that brings it.
        sha256: of the file, where it is one file and pinned ("" = not pinned).
        builtin: path below the captious package, for what we ship ourselves.
        fetch: called with the cache path when downloads are allowed; must write that path.
        source: the official home, named in docs and messages.
    """

    name: str
    purpose: str
    licence: str
    remedy: str
    package: str = ""
    sha256: str = ""
    builtin: str = ""
    fetch: Callable[[Path], None] | None = None
    source: str = ""


def known() -> dict[str, Asset]:
    """Return the manifest by name."""
    from captious.assets.manifest import ASSETS

    return {a.name: a for a in ASSETS}


def resolve(name: str, path: str | Path | None = None, wanted_by: str = "") -> Path:
    """Return where the asset lies.

    Raises:
        MissingAsset: it is nowhere; the message lists the ways to get it.
        UsageError: there is no asset of that name.
    """
    table = known()
    if name not in table:
        raise errors.UsageError(f"no asset is called {name!r}.{errors.did_you_mean(name, table)}")
    asset = table[name]
    if path is not None:
        chosen = Path(path)
        if not chosen.exists():
            raise errors.MissingAsset(f"{name}: nothing found at {chosen}")
        return chosen
    for candidate in _places(asset):
        if candidate is not None and candidate.exists():
            _check(asset, candidate)
            return candidate
    if asset.fetch is not None and settings.get().download:
        target = settings.get().cache_dir / "assets" / asset.name
        target.parent.mkdir(parents=True, exist_ok=True)
        asset.fetch(target)
        _check(asset, target)
        return target
    who = f"{wanted_by} needs " if wanted_by else ""
    more = " With --download captious fetches it itself." if asset.fetch is not None else ""
    raise errors.MissingAsset(
        f"{who}{asset.name} ({asset.purpose}), which is not on this machine. Get it with: "
        f"{asset.remedy}.{more}",
        asset.name,
        _extra(asset),
        wanted_by,
    )


def _extra(asset: Asset) -> str:
    """Return the extra of captious that brings an asset, "" if none does."""
    named = re.match(r"pip install 'captious\[(\w+)\]'", asset.remedy)
    return named[1] if named else ""


def _check(asset: Asset, path: Path) -> None:
    """Compare a pinned file with its sha256, once per file: the result is remembered on disk.

    Raises:
        MissingAsset: the file has another content than the one that captious knows.
    """
    if not asset.sha256 or not path.is_file():
        return
    actual = remembered_digest(path)
    if actual != asset.sha256:
        raise errors.MissingAsset(
            f"{asset.name}: {path} is not the file that captious knows (its sha256 begins with "
            f"{actual[:12]}, expected {asset.sha256[:12]}). Get it again: {asset.remedy}."
        )


def available(name: str) -> Path | None:
    """Return where the asset lies, or None."""
    return next((p for p in _places(known()[name]) if p is not None and p.exists()), None)


def _places(asset: Asset) -> list[Path | None]:
    return [
        settings.get().cache_dir / "assets" / asset.name,
        Path(__file__).parents[1] / asset.builtin if asset.builtin else None,
        _in_package(asset.package) if asset.package else None,
    ]


def _in_package(place: str) -> Path | None:
    module, _, inside = place.partition("/")
    spec = find_spec(module)
    if spec is None:
        return None
    roots = spec.submodule_search_locations or [str(Path(spec.origin or "").parent)]
    return next((p for p in (Path(r) / inside for r in roots) if p.exists()), None)


def digest(path: Path) -> str:
    """Return the sha256 of a file (remembered while size and time stay the same)."""
    facts = path.stat()
    return _digest(str(path), facts.st_size, facts.st_mtime_ns)


def remembered_digest(path: Path) -> str:
    """Return the sha256 of a large file, read once while its size and its time stay the same.

    The note lies in the cache. A file that was written in these seconds gets none: it could change
    again without a change of its time.
    """
    facts = path.stat()
    if time.time_ns() - facts.st_mtime_ns < _SETTLED:
        return _hashed(str(path))
    state = f"{facts.st_size} {facts.st_mtime_ns}"
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
    note = settings.get().cache_dir / "checked" / name
    try:
        noted, _, noted_state = note.read_text().partition(" ")
        if noted_state == state:
            return noted
    except (OSError, ValueError):
        pass  # it was not read before
    actual = digest(path)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        part = note.with_name(f".{name}.{os.getpid()}")
        part.write_text(f"{actual} {state}")
        part.replace(note)
    except OSError:
        pass  # a cache that cannot be written only means that it is read again
    return actual


@lru_cache(maxsize=256)
def _digest(path: str, size: int, mtime: int) -> str:
    return _hashed(path)


def _hashed(path: str) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
