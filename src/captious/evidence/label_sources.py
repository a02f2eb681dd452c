"""What is seen in photographs by every source at hand: the detector and the word detector.

The sources are merged as the VIFIDEL paper merges its own: a photograph has every label that one of
them gives, each once. The word detector reads region features, which are extracted once for all
that looks and kept in the same cache. A source whose packages or weights are not installed is left
out; the name of the evidence says who looked. The likeliest word of a photograph is always taken,
so that every photograph has a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from captious import assets
from captious.errors import CaptiousError, InputError, MissingAsset, MissingExtra
from captious.evidence import word_detector
from captious.evidence.detect import DEFAULT, WORDS, WORDS_THRESHOLD, Detection, load_detector
from captious.evidence.detections import DetectionCache
from captious.evidence.images import open_photograph
from captious.evidence.objects import joined
from captious.types import Labels, Place, Regions

NAMES = (DEFAULT, WORDS)


def lacks(name: str) -> list[CaptiousError]:
    """Return what a source of labels lacks on this machine, as errors with their remedy."""
    missing: list[CaptiousError] = []
    if name == DEFAULT:
        if find_spec("cv2") is None:
            missing.append(MissingExtra("cv2", "vision", "detection of objects"))
        wanted: Sequence[str] = (DEFAULT,)
    elif find_spec("safetensors") is None:
        missing.append(MissingExtra("safetensors", "regions", "detection of words"))
        wanted = (WORDS,)
    else:
        from captious.evidence.extract import backbones_of

        wanted = (WORDS, *backbones_of(word_detector.load(WORDS).features))
    for asset in wanted:
        try:
            assets.resolve(asset, wanted_by="detection of objects")
        except MissingAsset as err:
            missing.append(err)
    return missing


def available() -> tuple[str, ...]:
    """Return the sources that can look at photographs here."""
    return tuple(name for name in NAMES if not lacks(name))


def seen(
    photographs: Mapping[str, Path | bytes],
    sources: Sequence[str],
    regions: Sequence[Regions] = (),
) -> tuple[Labels, list[str]]:
    """Return what the sources see, united, and a line per photograph that cannot be opened.

    Args:
        photographs: image -> its file, or its encoded bytes.
        sources: of :data:`NAMES`.
        regions: stores that may hold the features of these photographs already.
    """
    parts: list[dict[str, list[Place]]] = []
    told: list[str] = []
    problems: list[str] = []
    if DEFAULT in sources:
        cache = DetectionCache(load_detector(DEFAULT))
        detected, problems = cache.detections(photographs)
        parts.append(
            {image: list(map(_place, places_of_one)) for image, places_of_one in detected.items()}
        )
        told.append(cache.source)
        photographs = {image: photographs[image] for image in detected}
    if WORDS in sources:
        detector = word_detector.load(WORDS)
        words, unread = _words(photographs, regions, detector)
        parts.append(words)
        problems += unread
        told.append(f"{detector.signature}({WORDS_THRESHOLD:g})")
    labels: dict[str, tuple[str, ...]] = {}
    places: dict[str, tuple[Place, ...]] = {}
    for image in dict.fromkeys(image for part in parts for image in part):
        mine = [part[image] for part in parts if image in part]
        several = [[place.label for place in places_of_one] for places_of_one in mine]
        labels[image] = tuple(several[0]) if len(told) == 1 else joined(several)
        places[image] = tuple(place for places_of_one in mine for place in places_of_one)
    return Labels(labels, " + ".join(told), places), problems


def _words(
    photographs: Mapping[str, Path | bytes],
    regions: Sequence[Regions],
    detector: word_detector.WordDetector,
) -> tuple[dict[str, list[Place]], list[str]]:
    """Words of photographs from their region features, extracted where no store holds them."""
    from captious.evidence.extract import extract_photographs, extractor_of

    held = [store for store in regions if store.source == detector.features]
    todo = {i: file for i, file in photographs.items() if not any(i in store for store in held)}
    problems: list[str] = []
    if todo:
        extract = extractor_of(detector.features)
        try:
            held.append(extract_photographs(todo, extract))
        except InputError:
            readable, problems = _readable(todo)
            held.append(extract_photographs(readable, extract))
    out: dict[str, list[Place]] = {}
    for image in photographs:
        for store in held:
            if image in store:
                out[image] = list(map(_place, detector.words(store[image], least=1)))
                break
    return out, problems


def _readable(
    photographs: Mapping[str, Path | bytes],
) -> tuple[dict[str, Path | bytes], list[str]]:
    good: dict[str, Path | bytes] = {}
    problems: list[str] = []
    for image, file in photographs.items():
        try:
            open_photograph(file, image)
        except InputError as error:
            problems.append(str(error))
        else:
            good[image] = file
    return good, problems


def _place(detection: Detection) -> Place:
    return Place(detection.label, detection.score, detection.box)
