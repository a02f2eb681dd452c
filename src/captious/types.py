"""The data that flows through captious: frozen, columnar inside, no behaviour beyond access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

T = TypeVar("T")
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Need(Enum):
    """What a metric must be given besides the caption."""

    REFERENCES = "references"
    IMAGE_PIXELS = "image pixels"
    IMAGE_OBJECTS = "object labels"
    IMAGE_REGIONS = "region features"


@dataclass(frozen=True)
class Column:
    """One number that a metric gives per caption and per corpus.

    ``undefined`` says why a scored caption may lack just this number.
    """

    name: str
    low: float
    high: float
    meaning: str
    higher_is_better: bool = True
    undefined: str = "undefined for this caption"


@dataclass(frozen=True)
class Sample:
    """One caption to be judged, with what is known of its image."""

    id: str
    caption: str
    references: tuple[str, ...] = ()
    image: str | None = None
    system: str = ""
    objects: tuple[str, ...] | None = None


class TextPool:
    """The distinct strings of a run; work on a string is done once and shared by all metrics."""

    def __init__(self, strings: pa.Array | Sequence[str]) -> None:
        if not isinstance(strings, pa.Array):
            strings = pa.array(list(strings), type=pa.large_string())
        self._strings = strings
        self._derived: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._strings)

    def __getitem__(self, index: int) -> str:
        return str(self._strings[int(index)].as_py())

    def chunks(self, size: int = 65536) -> Iterator[list[str]]:
        """Yield the strings in lists of bounded size (memory stays flat)."""
        for start in range(0, len(self), size):
            yield self._strings.slice(start, size).to_pylist()

    def strings(self, index: npt.ArrayLike | None = None) -> list[str]:
        """Return all strings, or those at ``index``."""
        if index is None:
            return self._strings.to_pylist()
        return self._strings.take(pa.array(np.asarray(index, dtype=np.int64))).to_pylist()

    def derived(self, key: Any, build: Callable[[], T]) -> T:
        """Return the product stored under ``key``, building it on first use."""
        if key not in self._derived:
            self._derived[key] = build()
        return self._derived[key]


@dataclass(frozen=True)
class CaptionSet:
    """Captions with their references, as columns; a slice shares the text pool.

    Row ``i`` has the caption ``pool[caption[i]]`` and the references
    ``pool[r] for r in reference[offsets[i]:offsets[i + 1]]``. ``objects`` holds the labels of what
    is in each image (None where unknown) and ``objects_from`` says who found them.

    Example:
        >>> s = CaptionSet.build(["a dog"], [["a dog runs", "one dog"]])
        >>> s[0].references
        ('a dog runs', 'one dog')
    """

    pool: TextPool
    caption: npt.NDArray[np.int32]
    reference: npt.NDArray[np.int32]
    offsets: Ints
    ids: npt.NDArray[np.object_]
    images: npt.NDArray[np.object_]
    systems: npt.NDArray[np.object_]
    objects: npt.NDArray[np.object_] | None = None
    objects_from: str = "given"

    @classmethod
    def build(
        cls,
        captions: Sequence[str],
        references: Sequence[Sequence[str]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        images: Sequence[str | None] | None = None,
        systems: Sequence[str] | None = None,
        objects: Sequence[Sequence[str] | None] | None = None,
    ) -> CaptionSet:
        """Make a set from parallel sequences that were checked before (see ``captious.io``)."""
        n = len(captions)
        refs = references if references is not None else [()] * n
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum([len(r) for r in refs], out=offsets[1:])
        flat = list(captions)
        for r in refs:
            flat.extend(r)
        coded = pa.array(flat, type=pa.large_string()).dictionary_encode()
        index = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        del flat
        pa.default_memory_pool().release_unused()  # else the scratch of coding stays with us
        return cls(
            pool=TextPool(coded.dictionary),
            caption=index[:n],
            reference=index[n:],
            offsets=offsets,
            ids=_objects(ids if ids is not None else [str(i) for i in range(n)]),
            images=_objects(images if images is not None else [None] * n),
            systems=_objects(systems if systems is not None else [""] * n),
            objects=None
            if objects is None
            else _objects([None if o is None else tuple(o) for o in objects]),
        )

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> CaptionSet:
        """Make a set from single samples."""
        rows = list(samples)
        return cls.build(
            [s.caption for s in rows],
            [s.references for s in rows],
            ids=[s.id for s in rows],
            images=[s.image for s in rows],
            systems=[s.system for s in rows],
            objects=[s.objects for s in rows] if any(s.objects is not None for s in rows) else None,
        )

    def __len__(self) -> int:
        return len(self.caption)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> CaptionSet: ...
    def __getitem__(self, index: int | slice) -> Sample | CaptionSet:
        if isinstance(index, slice):
            return self.take(np.arange(*index.indices(len(self))))
        i = range(len(self))[index]
        refs = self.reference[self.offsets[i] : self.offsets[i + 1]]
        return Sample(
            id=self.ids[i],
            caption=self.pool[self.caption[i]],
            references=tuple(self.pool.strings(refs)),
            image=self.images[i],
            system=self.systems[i],
            objects=None if self.objects is None else self.objects[i],
        )

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def take(self, index: npt.ArrayLike) -> CaptionSet:
        """Return the rows at ``index``, in that order; strings are not copied."""
        rows = np.asarray(index, dtype=np.int64)
        starts, counts = self.offsets[rows], self.reference_counts[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        return CaptionSet(
            pool=self.pool,
            caption=self.caption[rows],
            reference=self.reference[np.repeat(starts, counts) + within],
            offsets=offsets,
            ids=self.ids[rows],
            images=self.images[rows],
            systems=self.systems[rows],
            objects=None if self.objects is None else self.objects[rows],
            objects_from=self.objects_from,
        )

    def captions(self) -> list[str]:
        """Return the caption of every row."""
        return self.pool.strings(self.caption)

    def references(self) -> list[list[str]]:
        """Return the references of every row."""
        flat = self.pool.strings(self.reference)
        bounds = self.offsets.tolist()
        return [flat[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]

    @cached_property
    def reference_counts(self) -> Ints:
        """Number of references per row."""
        return np.diff(self.offsets)

    @cached_property
    def reference_rows(self) -> Ints:
        """Row number of every entry of ``reference``."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.reference_counts)

    @cached_property
    def image_keys(self) -> npt.NDArray[np.object_]:
        """The image of every row; where none is named, the row's id stands for it."""
        return np.where(self.images == None, self.ids, self.images)  # noqa: E711


@dataclass(frozen=True)
class Stats:
    """Statistics of a batch: one row per sample.

    Attributes:
        rows: float64 (n, k); a row with NaN could not be scored.
        reasons: row number -> why it could not be scored.
        notes: remark -> how many samples it concerns ("captions cut to 512 pieces": 3).
    """

    rows: Floats
    reasons: dict[int, str] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Explanation:
    """Why a caption got its score: in words, as JSON-able data, as a picture."""

    text: str
    data: dict[str, Any]
    svg: str | None = None


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out
