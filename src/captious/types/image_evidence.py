"""What is known of the images: labels with their places, region features, photographs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Place:
    """Where a label was seen: left, top, right, bottom in pixels; ``score`` says how sure."""

    label: str
    score: float
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Labels:
    """Object labels by image, one entry per object seen; an empty tuple: nothing was found.

    ``places`` says where they were seen, for pictures; no score depends on it.
    """

    by_image: Mapping[str, tuple[str, ...]]
    source: str = "given"
    places: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)


class Regions(Protocol):
    """Region features by image; :mod:`captious.evidence.regions` has the stores."""

    @property
    def dim(self) -> int:
        """Length of a feature vector."""
        ...

    @property
    def source(self) -> str:
        """What the features are, in one short phrase: part of a metric's signature."""
        ...

    def __contains__(self, image: object) -> bool: ...

    def __getitem__(self, image: str) -> Any: ...

    def only(self, images: Iterable[str]) -> Regions:
        """Return a small store of these images, which other processes can open."""
        ...

    def identity(self, image: str) -> str:
        """Return what the features of an image come from: another content, another identity."""
        ...


@dataclass(frozen=True)
class Evidence:
    """What is known of the images of a caption set; metrics ask it and never fetch anything.

    Attributes:
        labels: objects by image.
        regions: region features, one store per kind of feature.
        photographs: pictures that were handed over in memory, as encoded bytes; all others are
            files, and the image's name is their path.
        digests: content of the photographs that pixels were read from, by image.
    """

    labels: Labels | None = None
    regions: tuple[Regions, ...] = ()
    photographs: Mapping[str, bytes] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    def only(self, images: Iterable[str]) -> Evidence:
        """Return the evidence of these images alone."""
        names = list(dict.fromkeys(images))
        labels = self.labels
        if labels is not None:
            held = {i: labels.by_image[i] for i in names if i in labels.by_image}
            places = {i: labels.places[i] for i in names if i in labels.places}
            labels = Labels(held, labels.source, places)
        return Evidence(
            labels,
            tuple(store.only(names) for store in self.regions),
            {i: self.photographs[i] for i in names if i in self.photographs},
            {i: self.digests[i] for i in names if i in self.digests},
        )

    def regions_like(self, source: str) -> Regions | None:
        """Return the store of this kind of feature; the only store answers for every kind."""
        for store in self.regions:
            if store.source == source:
                return store
        return self.regions[0] if len(self.regions) == 1 else None
