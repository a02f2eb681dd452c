"""Which objects an image holds, as label metrics see it.

A store maps an image to the labels of its objects, one entry per instance. Images are found by the
key they were stored under, or by file name, or by file name without suffix, as long as that is
not ambiguous; COCO file names are found by their number too.

Example:
    >>> store = ObjectStore.of({"photos/a.jpg": ["dog", "dog", "ball"], "photos/b.jpg": []})
    >>> store.labels("a.jpg"), store.labels("b"), store.labels("c")
    (('dog', 'dog', 'ball'), (), None)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from captious.errors import InputError
from captious.evidence import _object_files
from captious.evidence.classes import readable

_COCO_NAME = re.compile(r"^(?:COCO_\w+?_)?0*(\d{1,30})$")


@dataclass(frozen=True)
class ObjectStore:
    """Labels by image.

    Attributes:
        source: where they come from, for messages.
        by_image: image -> labels, one per object seen; an empty tuple means none was found.
    """

    source: str
    by_image: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, labels: Mapping[str, Iterable[str]], source: str = "given") -> ObjectStore:
        """Make a store from plain labels."""
        return cls(source, {k: tuple(readable(x) for x in v) for k, v in labels.items()})

    @classmethod
    def read(cls, *paths: str | os.PathLike[str], threshold: float = 0.0) -> ObjectStore:
        """Read annotations or stored detections; the formats are found out.

        Args:
            paths: VOC XML file or folder; COCO instances or detections JSON; Visual Genome JSON;
                Open Images CSV; plain ``image -> labels`` as JSON, JSON lines, CSV or parquet; the
                parquet of ``captious detect``. Several are put together (see :func:`union`).
            threshold: drop detections that are less sure than this (annotations have no score).

        Raises:
            InputError: a file is absent, damaged or of no known format.
        """
        return union([cls._read(Path(path), threshold) for path in paths])

    @classmethod
    def _read(cls, path: Path, threshold: float) -> ObjectStore:
        labels_by_image: dict[str, list[str]] = {}
        for item in _object_files.read(path):
            labels = labels_by_image.setdefault(item.image, [])
            if not isinstance(item.score, int | float | None):
                raise InputError(
                    f"{path}: the score of an object in {item.image[:80]!r} is "
                    f"{str(item.score)[:40]!r}, not a number"
                )
            sure = item.score is None or item.score >= threshold
            if item.label is not None and sure:
                labels.append(item.label)
        if not labels_by_image:
            raise InputError(f"{path}: holds no image")
        return cls(path.name, {image: tuple(labels) for image, labels in labels_by_image.items()})

    def __len__(self) -> int:
        return len(self.by_image)

    @cached_property
    def digest(self) -> str:
        """Eight digits that differ where a label does; not by the format of the file."""
        whole = json.dumps(sorted(self.by_image.items()))
        return hashlib.sha256(whole.encode()).hexdigest()[:8]

    @property
    def signed(self) -> str:
        """Source and checksum, for signatures: files of one name are told apart."""
        return f"{self.source}({self.digest})"

    def labels(self, image_key: str) -> tuple[str, ...] | None:
        """Return the labels of an image, or None if the store does not know the image."""
        labels = self.by_image.get(image_key)
        if labels is not None:
            return labels
        for alias in _aliases(image_key):
            key = self._by_alias.get(alias)
            if key:
                return self.by_image[key]
        return None

    def table(self) -> dict[str, tuple[str, ...]]:
        """Return the labels under every name by which :meth:`labels` finds them."""
        named = {a: self.by_image[key] for a, key in self._by_alias.items() if key}
        return named | dict(self.by_image)

    @cached_property
    def _by_alias(self) -> dict[str, str]:
        """Alias -> key; an empty key marks an alias that several images share."""
        known: dict[str, str] = {}
        for key in self.by_image:
            for alias in _aliases(key):
                known[alias] = key if known.get(alias, key) == key else ""
        return known


def joined(parts: Sequence[Sequence[str]], counts: bool = False) -> tuple[str, ...]:
    """Join the labels that several sources give one image: every label once.

    The paper joins gold annotations and detectors this way; counts of different detectors cannot be
    added without counting the same object twice. With ``counts`` a label stands as often as in the
    source that sees most of it.

    Example:
        >>> joined([["dog", "dog"], ["dog", "ball"]]), joined([["dog", "dog"], ["dog"]], True)
        (('dog', 'ball'), ('dog', 'dog'))
    """
    names = dict.fromkeys(label for part in parts for label in part)
    if not counts:
        return tuple(names)
    counters = [Counter(part) for part in parts]
    return tuple(n for n in names for _ in range(max(c[n] for c in counters)))


def union(stores: Sequence[ObjectStore]) -> ObjectStore:
    """Join sources: an image has every label that any of them gives, each once."""
    if len(stores) == 1:
        return stores[0]
    together: dict[str, tuple[str, ...]] = {}
    for number, store in enumerate(stores):
        for key in store.by_image:
            if any(earlier.labels(key) is not None for earlier in stores[:number]):
                continue  # already there, perhaps under a longer or shorter name
            parts = [part for s in stores if (part := s.labels(key)) is not None]
            together[key] = joined(parts)
    return ObjectStore(" + ".join(s.source for s in stores), together)


def _aliases(key: str) -> list[str]:
    """Other names of an image, the most exact first."""
    pure = PurePath(key)
    names = [key, pure.name, pure.stem]
    number = _COCO_NAME.match(pure.stem)
    if number:
        names.append(str(int(number.group(1))))
    return list(dict.fromkeys(names))
