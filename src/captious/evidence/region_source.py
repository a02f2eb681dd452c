"""Where the regions of a run come from: features that were named, or photographs and the cache."""

from __future__ import annotations

from functools import lru_cache

from captious import settings
from captious.evidence.regions import RegionStore


def region_store(named: str | None = None) -> RegionStore:
    """Return the store that is named, else that of the settings, else extraction on demand.

    Each is opened once: metrics of one run share it.
    """
    chosen = named or settings.get().regions
    return _opened(str(chosen)) if chosen else _extracting(str(settings.get().cache_dir))


def extraction_assets(named: str | None = None) -> tuple[str, ...]:
    """Return the backbones, where no features are named and photographs must be looked at."""
    from captious.evidence.extract import DEFAULT_BACKBONES

    return () if named or settings.get().regions else DEFAULT_BACKBONES


@lru_cache(maxsize=8)
def _opened(path: str) -> RegionStore:
    from captious.evidence.region_formats import open_regions

    return open_regions(path)


@lru_cache(maxsize=8)
def _extracting(cache: str) -> RegionStore:
    """``cache`` is the folder of the settings: another folder, another store."""
    from captious.evidence.extract import CachedRegions, extractor

    return CachedRegions(extractor())
