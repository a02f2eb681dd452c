"""Region features as evidence: small handles that any process can open.

A handle knows where features lie and what they come from; the features themselves stay on disk.
:class:`GivenRegions` points at a store that the user named, :class:`ExtractedRegions` at the cache
of what we extracted from photographs, where a photograph is known by its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from captious.evidence.regions import RegionSet, RegionStore


class _Answers:
    """Answers from the store that :meth:`opened` returns."""

    def opened(self) -> RegionStore:
        """Return the store."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Length of a feature vector."""
        return self.opened().dim

    @property
    def source(self) -> str:
        """What the features are."""
        return self.opened().source

    def __contains__(self, image: object) -> bool:
        return image in self.opened()

    def __getitem__(self, image: str) -> RegionSet:
        return self.opened()[image]


@dataclass(frozen=True)
class GivenRegions(_Answers):
    """A store of region features, by its path."""

    path: str

    @property
    def store(self) -> RegionStore:
        """The opened store."""
        return _opened(self.path, _state(Path(self.path)))

    def opened(self) -> RegionStore:
        """Open it once per process."""
        return self.store

    def only(self, images: Iterable[str]) -> GivenRegions:
        """The path is all that another process needs."""
        return self

    def identity(self, image: str) -> str:
        """Path, sizes and times of the store's files."""
        return f"{self.path}|{_state(Path(self.path))}|{image}"


@dataclass(frozen=True)
class ExtractedRegions:
    """Regions that were extracted from photographs into the cache.

    Attributes:
        folder: of the cache.
        source: what the features are.
        content: image -> digest of the photograph.
    """

    folder: str
    source: str
    content: Mapping[str, str] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        """Length of a feature vector."""
        return GivenRegions(self.folder).dim

    def __contains__(self, image: object) -> bool:
        return image in self.content

    def __getitem__(self, image: str) -> RegionSet:
        return GivenRegions(self.folder)[self.content[image]]

    def only(self, images: Iterable[str]) -> ExtractedRegions:
        """Keep the digests of these images."""
        held = {image: self.content[image] for image in images if image in self.content}
        return ExtractedRegions(self.folder, self.source, held)

    def identity(self, image: str) -> str:
        """The photograph's content and what was done to it."""
        return f"{self.source}|{self.content.get(image)}"


@dataclass(frozen=True)
class MemoryHandle(_Answers):
    """A store that lives in memory: for those who made one themselves, and for tests."""

    store: RegionStore

    def opened(self) -> RegionStore:
        """It is open."""
        return self.store

    def only(self, images: Iterable[str]) -> MemoryHandle:
        """Copy the regions of these images into a store of their own."""
        from captious.evidence.regions import MemoryRegions

        held = {image: self.store[image] for image in images if image in self.store}
        return MemoryHandle(MemoryRegions(held, self.store.source) if held else self.store)

    def identity(self, image: str) -> str:
        """The features themselves."""
        if image not in self.store:
            return ""
        return hashlib.sha256(self.store[image].features.tobytes()).hexdigest()


def _state(path: Path) -> str:
    """Return a digest of the names, sizes and times of a store's files."""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    facts = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in files if p.exists()]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@lru_cache(maxsize=4)
def _opened(path: str, state: str) -> RegionStore:
    """Open a store once per process, and again when its files have changed."""
    from captious.evidence.region_formats import open_regions

    return open_regions(path)
