"""Fill in what is known of the images before any metric runs: labels, regions, photographs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious import assets
from captious.errors import CaptiousError, InputError
from captious.metrics.base import Metric
from captious.types import CaptionSet, Need, Regions

log = logging.getLogger("captious")


def given(samples: CaptionSet, objects: Sequence[Path] = (), regions: Any = None) -> CaptionSet:
    """Return the samples with the labels and the region features that the user named.

    Args:
        samples: the captions.
        objects: annotation or detection files; several sources are joined.
        regions: path of a region store, or a store; or several, of different kinds.

    Raises:
        InputError: no image of the samples is in the files.
    """
    if objects:
        samples = labelled(samples, objects)
    if regions is not None:
        images = [i for i in dict.fromkeys(samples.images.tolist()) if i is not None]
        named = regions if isinstance(regions, list | tuple) else [regions]
        stores = region_handles(named)
        for place, store in zip(named, stores, strict=True):
            if images and not any(image in store for image in images):
                shown = ", ".join(map(repr, images[:3]))
                raise InputError(
                    f"{place}: holds no region features of any image of the captions; images are "
                    f"called {shown} in the captions"
                )
        samples = replace(samples, evidence=replace(samples.evidence, regions=stores))
    return samples


def region_handles(regions: Any) -> tuple[Regions, ...]:
    """Return handles of one store of region features, or of several."""
    named = regions if isinstance(regions, list | tuple) else [regions]
    return tuple(map(region_handle, named))


def region_handle(regions: Any) -> Regions:
    """Return a handle of region features: by path, or around a store in memory."""
    from captious.evidence.handles import GivenRegions, MemoryHandle

    if isinstance(regions, str | os.PathLike):
        handle = GivenRegions(os.fspath(regions))
        handle.store  # noqa: B018 - a store that cannot be opened is reported now
        return handle
    if hasattr(regions, "identity") and hasattr(regions, "only"):
        return regions
    return MemoryHandle(regions)


def labelled(samples: CaptionSet, paths: Sequence[Path]) -> CaptionSet:
    """Return the samples with object labels from annotation or detection files.

    Raises:
        InputError: no image of the samples is in the files.
    """
    from captious.evidence.objects import ObjectStore

    return with_store(samples, ObjectStore.read(*paths))


def with_store(samples: CaptionSet, store: Any) -> CaptionSet:
    """Return the samples with the labels of an object store."""
    keys = list(dict.fromkeys(samples.image_keys.astype(str).tolist()))
    known = {key: labels for key in keys if (labels := store.labels(key)) is not None}
    if not known:
        ours, theirs = (", ".join(map(repr, names[:3])) for names in (keys, list(store.by_image)))
        raise InputError(
            f"{store.source}: holds no labels for any image of the captions; images are called "
            f"{ours} in the captions and {theirs} in this file"
        )
    return samples.with_labels(known, store.signed)


def complete(samples: CaptionSet, metrics: Sequence[Metric]) -> CaptionSet:
    """Detect and extract what the metrics need and nobody gave, photograph by photograph."""
    needs: set[Need] = set().union(*(m.needs for m in metrics))
    photographs = photographs_of(samples)
    if not photographs:
        return samples  # the plan says what is missing
    if Need.IMAGE_OBJECTS in needs and samples.evidence.labels is None:
        samples = _detected(samples, photographs)
    if Need.IMAGE_REGIONS in needs and _unanswered(samples, metrics):
        samples = _extracted(samples, photographs, metrics)
    if Need.IMAGE_PIXELS in needs or any(kind == "pixels" for kind in kinds_read(metrics)):
        samples = _read(samples, photographs)
    return samples


def missing(samples: CaptionSet, metrics: Sequence[Metric]) -> list[CaptiousError]:
    """Return what extraction and detection lack on this machine, as errors with their remedy."""
    errors: list[CaptiousError] = []
    if not photographs_of(samples):
        return errors
    needs: set[Need] = set().union(*(m.needs for m in metrics))
    if Need.IMAGE_OBJECTS in needs and samples.evidence.labels is None:
        errors += detector_lacks()
    if Need.IMAGE_REGIONS in needs:
        errors += _extraction_lacks(_unanswered(samples, metrics))
    return errors


def photographs_of(samples: CaptionSet) -> dict[str, Path | bytes]:
    """Return the photographs that are there, by image."""
    held: dict[str, Path | bytes] = {}
    for image in dict.fromkeys(samples.images.tolist()):
        if image is None:
            continue
        if image in samples.evidence.photographs:
            held[image] = samples.evidence.photographs[image]
        elif os.path.isfile(image):
            held[image] = Path(image)
    return held


def detector_lacks() -> list[CaptiousError]:
    """Return what the sources of labels lack; nothing where one of them can look."""
    from captious.evidence import label_sources

    if label_sources.available():
        return []
    return [error for name in label_sources.NAMES for error in label_sources.lacks(name)]


def kinds_read(metrics: Sequence[Metric]) -> list[str]:
    """Return the kinds of region features that the metrics read, also through their inputs."""
    kinds: list[str] = []
    for metric in metrics:
        if metric.inputs:
            kinds += kinds_read(metric.inputs)
        elif Need.IMAGE_REGIONS in metric.needs:
            kinds.append(metric.region_kind)
    return list(dict.fromkeys(kinds))


def _unanswered(samples: CaptionSet, metrics: Sequence[Metric]) -> list[str]:
    """Return the kinds of features that have to be extracted.

    Features that were given answer for every kind, except where they are known to be of another
    kind that we extract ourselves: a model would read them as noise.
    """
    from captious.evidence.extract import is_ours

    kinds = [kind for kind in kinds_read(metrics) if kind not in ("blank", "pixels")]
    held = [store.source for store in samples.evidence.regions]
    if any(not is_ours(source) for source in held):
        return []
    return [kind for kind in kinds if kind not in held and (kind or not held)]


def _extraction_lacks(kinds: Sequence[str]) -> list[CaptiousError]:
    from captious.evidence.extract import backbones_of

    errors: list[CaptiousError] = []
    for kind in kinds:
        try:
            for name in backbones_of(kind):
                assets.resolve(name, wanted_by="extraction of regions")
        except CaptiousError as err:
            errors.append(err)
    return errors


def _detected(samples: CaptionSet, photographs: Mapping[str, Path | bytes]) -> CaptionSet:
    from captious.evidence import label_sources

    sources = label_sources.available()
    if not sources:
        return samples
    for name in label_sources.NAMES:
        if name not in sources:
            log.warning("no objects from %s: %s", name, label_sources.lacks(name)[0])
    labels, problems = label_sources.seen(photographs, sources, samples.evidence.regions)
    for problem in problems:
        log.warning("no objects detected: %s", problem)
    return replace(samples, evidence=replace(samples.evidence, labels=labels))


def _extracted(
    samples: CaptionSet, photographs: Mapping[str, Path | bytes], metrics: Sequence[Metric]
) -> CaptionSet:
    from captious.evidence.extract import extract_photographs, extractor_of

    kinds = _unanswered(samples, metrics)
    if _extraction_lacks(kinds):
        return samples
    absent = [i for i in dict.fromkeys(samples.images.tolist()) if i and i not in photographs]
    if absent:
        raise InputError(
            [f"{i}: no such photograph, and no region features were given" for i in absent]
        )
    stores = [extract_photographs(photographs, extractor_of(kind)) for kind in kinds if kind]
    regions = (*samples.evidence.regions, *stores)
    return replace(samples, evidence=replace(samples.evidence, regions=regions))


def _read(samples: CaptionSet, photographs: Mapping[str, Path | bytes]) -> CaptionSet:
    from captious.evidence.images import photograph_digest

    digests = {image: photograph_digest(file) for image, file in photographs.items()}
    return replace(samples, evidence=replace(samples.evidence, digests=digests))
