"""Captions with their references: columnar inside, each distinct text once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captious import columns
from captious.types.image_evidence import Evidence, Labels, Place
from captious.types.metric_values import Ints

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One caption to be judged, with what is known of its image."""

    id: str
    caption: str
    references: tuple[str, ...] = ()
    image: str | None = None
    system: str = ""
    objects: tuple[str, ...] | None = None
    evidence: Evidence = field(default_factory=Evidence, repr=False, compare=False)


@dataclass(frozen=True)
class WorkKey(Generic[T]):
    """Names a product of a text pool (tokens, n-gram counts) whose type is ``T``."""

    kind: str
    parameters: tuple[Hashable, ...] = ()


class TextPool:
    """The distinct strings of a chunk; work on a string is done once and shared by all metrics.

    What was derived from the strings is working memory: it stays in this process and is forgotten
    when the engine is done with the chunk.
    """

    def __init__(self, strings: pa.Array | Sequence[str]) -> None:
        if not isinstance(strings, pa.Array):
            strings = columns.of_texts(strings)
        self._strings = strings
        self._derived: dict[WorkKey[Any], Any] = {}

    def __len__(self) -> int:
        return len(self._strings)

    def __getitem__(self, index: int) -> str:
        return str(self._strings[int(index)].as_py())

    def __getstate__(self) -> dict[str, Any]:
        """Other processes get the strings, not what was derived from them."""
        return {"_strings": self._strings, "_derived": {}}

    @property
    def array(self) -> pa.Array:
        """The strings as Arrow holds them."""
        return self._strings

    def chunks(self, size: int = 65536) -> Iterator[list[str]]:
        """Yield the strings in lists of bounded size (memory stays flat)."""
        for start in range(0, len(self), size):
            yield self._strings.slice(start, size).to_pylist()

    def strings(self, index: npt.ArrayLike | None = None) -> list[str]:
        """Return all strings, or those at ``index``."""
        if index is None:
            return self._strings.to_pylist()
        return self.take(index)._strings.to_pylist()

    def take(self, index: npt.ArrayLike) -> TextPool:
        """Return a pool of the strings at ``index``."""
        return TextPool(self._strings.take(columns.of_numbers(np.asarray(index, dtype=np.int64))))

    def derived(self, key: WorkKey[T], build: Callable[[], T]) -> T:
        """Return the product named by ``key``, building it on first use."""
        if key not in self._derived:
            self._derived[key] = build()
        return self._derived[key]

    def forget(self) -> None:
        """Drop everything that was derived."""
        self._derived.clear()


@dataclass(frozen=True)
class CaptionSet:
    """Captions with their references, as columns; a slice shares the text pool.

    Row ``i`` has the caption ``pool[caption[i]]`` and the references
    ``pool[r] for r in reference[offsets[i]:offsets[i + 1]]``. ``evidence`` holds what is known of
    the images.

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
    evidence: Evidence = field(default_factory=Evidence)

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
        texts = columns.of_texts(flat)
        del flat
        made = cls._coded(texts, offsets, ids, images, systems)
        if objects is None:
            return made
        held = zip(made.image_keys.tolist(), objects, strict=True)
        return made.with_labels({str(i): tuple(o) for i, o in held if o is not None})

    @classmethod
    def of_arrow(
        cls,
        captions: pa.Array | pa.ChunkedArray,
        references: pa.ListArray | pa.ChunkedArray | None = None,
        *,
        ids: Sequence[str] | None = None,
        images: Sequence[str | None] | None = None,
        systems: Sequence[str] | None = None,
    ) -> CaptionSet:
        """Make a set from Arrow columns (texts, and lists of texts); no text becomes an object.

        A caption that is null is an empty one.

        Example:
            >>> references = pa.array([["one dog"], ["cats", "a cat"]])
            >>> CaptionSet.of_arrow(pa.array(["a dog", "a cat"]), references)[1].references
            ('cats', 'a cat')
        """
        n = len(captions)
        offsets = np.zeros(n + 1, np.int64)
        texts = _one_piece(captions)
        parts = [texts.fill_null("") if texts.null_count else texts]
        if references is not None:
            listed = _one_piece(references)
            counts = listed.value_lengths()
            counts = columns.numbers_of(counts.fill_null(0) if counts.null_count else counts)
            np.cumsum(counts, out=offsets[1:])
            parts.append(listed.flatten())
        flat = pa.concat_arrays([part.cast(pa.large_string()) for part in parts])
        return cls._coded(flat, offsets, ids, images, systems)

    @classmethod
    def _coded(
        cls,
        texts: pa.Array,
        offsets: Ints,
        ids: Sequence[str] | None,
        images: Sequence[str | None] | None,
        systems: Sequence[str] | None,
    ) -> CaptionSet:
        """Make a set from all captions and then all references, as one column."""
        n = len(offsets) - 1
        coded = texts.dictionary_encode()
        index = columns.numbers_of(coded.indices)
        pa.default_memory_pool().release_unused()  # else the scratch of coding stays with us
        return cls(
            pool=TextPool(coded.dictionary),
            caption=index[:n],
            reference=index[n:],
            offsets=offsets,
            ids=_objects(ids if ids is not None else [str(i) for i in range(n)]),
            images=_objects(images if images is not None else [None] * n),
            systems=_objects(systems if systems is not None else [""] * n),
        )

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> CaptionSet:
        """Make a set from single samples."""
        rows = list(samples)
        made = cls.build(
            [s.caption for s in rows],
            [s.references for s in rows],
            ids=[s.id for s in rows],
            images=[s.image for s in rows],
            systems=[s.system for s in rows],
            objects=[s.objects for s in rows] if any(s.objects is not None for s in rows) else None,
        )
        known = next((s.evidence for s in rows if s.evidence != Evidence()), None)
        return made if known is None else replace(made, evidence=known)

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
            objects=self.labels_of(i),
            evidence=self.evidence,
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
            evidence=self.evidence,
        )

    def compact(self) -> CaptionSet:
        """Return the same rows with their own small pool and evidence, for other processes."""
        used, place = np.unique(np.concatenate([self.caption, self.reference]), return_inverse=True)
        number = place.astype(np.int32).reshape(-1)
        return replace(
            self,
            pool=self.pool.take(used),
            caption=number[: len(self)],
            reference=number[len(self) :],
            evidence=self.evidence.only(str(i) for i in self.image_keys),
        )

    def chunks(self, size: int) -> list[npt.NDArray[np.int64]]:
        """Cut into groups of about ``size`` rows; the rows of one image stay together."""
        if len(self) <= size:
            return [np.arange(len(self))]
        codes = self.image_codes
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        cuts, begin = [], 0
        for start in starts.tolist():
            if start - begin >= size:
                cuts.append(start)
                begin = start
        return [np.sort(part) for part in np.split(order, cuts)]

    def with_labels(
        self,
        by_image: Mapping[str, tuple[str, ...]],
        source: str = "given",
        places: Mapping[str, tuple[Place, ...]] | None = None,
    ) -> CaptionSet:
        """Return the same captions with these object labels, and where they were seen."""
        labels = Labels(by_image, source, places or {})
        return replace(self, evidence=replace(self.evidence, labels=labels))

    def without_labels(self) -> CaptionSet:
        """Return the same captions with nothing known of the objects."""
        return replace(self, evidence=replace(self.evidence, labels=None))

    def labels_of(self, row: int) -> tuple[str, ...] | None:
        """Return the object labels of a row's image, or None where nothing is known."""
        labels = self.evidence.labels
        return None if labels is None else labels.by_image.get(str(self.image_keys[row]))

    @cached_property
    def objects(self) -> list[tuple[str, ...] | None] | None:
        """Object labels of every row; None where no labels were given at all."""
        labels = self.evidence.labels
        if labels is None:
            return None
        return [labels.by_image.get(str(image)) for image in self.image_keys]

    def rows_by_image(self) -> dict[str, list[int]]:
        """Return the rows of every image that is named, in the order of appearance."""
        out: dict[str, list[int]] = {}
        for row, image in enumerate(self.images):
            if image is not None:
                out.setdefault(str(image), []).append(row)
        return out

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

    @cached_property
    def image_codes(self) -> Ints:
        """A number per row: rows of one image share it, and it grows with first appearance."""
        seen: dict[str, int] = {}
        return np.array([seen.setdefault(str(i), len(seen)) for i in self.image_keys], np.int64)


def _one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out
