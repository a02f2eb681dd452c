"""Object labels of a judgement set: its own annotations, files that a user names, their union.

A source is written ``NAME=FILE``, or ``FILE`` (its name is then the file's, without suffix). Two
names need no file: ``gold`` are the annotations that the set brings, ``detector`` is captious' own
detector, which looks at the photographs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from captious.errors import InputError, UsageError
from captious.evidence.objects import ObjectStore, joined
from captious.judgements.judgement_set import JudgementSet
from captious.types import CaptionSet

GOLD, DETECTOR = "gold", "detector"


@dataclass(frozen=True)
class Source:
    """A named file of object labels.

    Attributes:
        name: how tables call it, e.g. ``D500``.
        path: where it lies; None for ``gold`` and ``detector``.
    """

    name: str
    path: Path | None = None


def parse(texts: Iterable[str]) -> tuple[Source, ...]:
    """Read ``NAME=FILE``, ``FILE``, ``gold`` or ``detector``.

    Example:
        >>> [source.name for source in parse(["gold"])]
        ['gold']

    Raises:
        UsageError: a name stands twice, or has no file.
    """
    sources: list[Source] = []
    for text in texts:
        name, equals, rest = text.partition("=")
        if text in (GOLD, DETECTOR):
            sources.append(Source(text))
        elif equals and rest and not Path(text).exists():
            sources.append(Source(name, Path(rest)))
        elif not equals or Path(text).exists():
            sources.append(Source(Path(text).stem, Path(text)))
        else:
            raise UsageError(f"--objects {text}: write NAME=FILE, FILE, gold or detector")
    names = [s.name for s in sources]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise UsageError(
            f"two sources of object labels are called {', '.join(twice)}: write NAME=FILE"
        )
    absent = [str(s.path) for s in sources if s.path is not None and not s.path.exists()]
    if absent:
        raise InputError(f"no such object label file: {', '.join(absent)}")
    return tuple(sources)


@dataclass(frozen=True)
class Labels:
    """Object labels by image, to be joined with captions."""

    store: ObjectStore

    def add_to(self, samples: CaptionSet) -> CaptionSet:
        """Return the captions with the labels of their image (None where none are known)."""
        known = {
            image: labels
            for image in dict.fromkeys(samples.images.tolist())
            if image is not None and (labels := self.store.labels(image)) is not None
        }
        return samples.with_labels(known, self.store.signed)


def own_labels(path: Path) -> Labels | None:
    """Return the annotations that belong to a set, where their file is there."""
    return Labels(ObjectStore.read(path)) if path.exists() else None


def labelled(judged: JudgementSet, sources: Sequence[Source], counts: bool = False) -> JudgementSet:
    """Return the set with the labels of these sources, united; its own are ``gold``.

    Args:
        judged: captions and judgements.
        sources: where labels come from; none leaves the set as it is.
        counts: several sources: keep how often a label stands (see ``joined``).

    Raises:
        InputError: the set brings no labels of its own, or no image is known to the files.
    """
    if not sources:
        return judged
    if DETECTOR in {s.name for s in sources}:
        if len(sources) > 1:
            raise InputError(
                "the detector cannot be combined with other label sources directly: run `captious "
                "detect` first and name its file"
            )
        return _changed(judged, CaptionSet.without_labels)
    stores = [None if s.path is None else _read(s.path) for s in sources]
    name = "+".join(s.name for s in sources)
    signed = "+".join(
        s.name if store is None else f"{s.name}({store.digest})"
        for s, store in zip(sources, stores, strict=True)
    )

    def add(samples: CaptionSet) -> CaptionSet:
        by_source = [
            _own(judged, samples) if store is None else _of(Labels(store).add_to(samples))
            for store in stores
        ]
        labels_of_image: dict[str, tuple[str, ...]] = {}
        for image in dict.fromkeys(str(i) for i in samples.image_keys):
            label_lists = [labels[image] for labels in by_source if image in labels]
            if label_lists:
                labels_of_image[image] = (
                    label_lists[0] if len(stores) == 1 else joined(label_lists, counts)
                )
        if not labels_of_image:
            images = ", ".join(repr(i) for i in samples.images[:3])
            raise InputError(
                f"{judged.name}: {name} holds no labels for any of its images, which are called "
                f"{images}"
            )
        return samples.with_labels(labels_of_image, signed)

    return _changed(judged, add)


def _own(judged: JudgementSet, samples: CaptionSet) -> Mapping[str, tuple[str, ...]]:
    if samples.evidence.labels is None:
        wanted = [f for f in judged.card.optional if "objects" in f or "instances" in f]
        raise InputError(
            f"{judged.name} has no gold labels here"
            + (f": put {' or '.join(wanted)} into the data folder" if wanted else "")
            + ", or name a file (--objects gold=FILE)"
        )
    return samples.evidence.labels.by_image


def _of(samples: CaptionSet) -> Mapping[str, tuple[str, ...]]:
    return {} if samples.evidence.labels is None else samples.evidence.labels.by_image


def _read(path: Path) -> ObjectStore:
    return _opened(path.resolve(), path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=8)
def _opened(path: Path, changed: int) -> ObjectStore:
    """Open a file once (``changed`` is its time): several rows of a table read the same."""
    return ObjectStore.read(path)


def _changed(judged: JudgementSet, change: Callable[[CaptionSet], CaptionSet]) -> JudgementSet:
    return replace(
        judged,
        samples=change(judged.samples),
        pool=None if judged.pool is None else change(judged.pool),
    )
