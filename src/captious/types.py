"""The data that flows through captious: frozen, columnar inside, no behaviour beyond access."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from html import escape
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, overload

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
            strings = pa.array(list(strings), type=pa.large_string())
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
        return TextPool(self._strings.take(pa.array(np.asarray(index, dtype=np.int64))))

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
        coded = pa.array(flat, type=pa.large_string()).dictionary_encode()
        index = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        del flat
        pa.default_memory_pool().release_unused()  # else the scratch of coding stays with us
        made = cls(
            pool=TextPool(coded.dictionary),
            caption=index[:n],
            reference=index[n:],
            offsets=offsets,
            ids=_objects(ids if ids is not None else [str(i) for i in range(n)]),
            images=_objects(images if images is not None else [None] * n),
            systems=_objects(systems if systems is not None else [""] * n),
        )
        if objects is None:
            return made
        held = zip(made.image_keys.tolist(), objects, strict=True)
        return made.with_labels({str(i): tuple(o) for i, o in held if o is not None})

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
        self, by_image: Mapping[str, tuple[str, ...]], source: str = "given"
    ) -> CaptionSet:
        """Return the same captions with these object labels."""
        return replace(self, evidence=replace(self.evidence, labels=Labels(by_image, source)))

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


# -- explanations: what a metric found, as data that others draw --------------------------------


@dataclass(frozen=True)
class WordMark:
    """One word and what a metric made of it.

    Attributes:
        word: as the metric reads it.
        state: ``confirmed`` (the references or the image have it), ``extra`` (only the caption
            has it), ``missing`` (the caption lacks it) or ``plain`` (nothing was decided).
        weight: how much it counts or adds, where the metric says so.
        note: a remark for people.
    """

    word: str
    state: str
    weight: float | None = None
    note: str = ""


@dataclass(frozen=True)
class WordMarks:
    """Words confirmed, missing and extra; ``meaning`` says what the weights are."""

    title: str
    words: tuple[WordMark, ...]
    meaning: str = ""


@dataclass(frozen=True)
class Link:
    """A stretch of the caption and the stretch of the reference it was matched with."""

    caption: tuple[int, int]
    reference: tuple[int, int]
    kind: str


@dataclass(frozen=True)
class Alignment:
    """Two sentences and the links between their words."""

    title: str
    caption: tuple[str, ...]
    reference: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True)
class MatchMatrix:
    """Similarities of reference pieces (rows) and caption pieces (columns).

    Attributes:
        title: what is shown.
        rows: reference pieces.
        columns: caption pieces.
        values: one tuple per row.
        threshold: values not above it count as no match.
        weights: of the rows, or empty.
        row_stop: which rows are stop words, or empty.
        column_stop: which columns are stop words, or empty.
        notes: a remark per row, or empty.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    threshold: float | None = None
    weights: tuple[float, ...] = ()
    row_stop: tuple[bool, ...] = ()
    column_stop: tuple[bool, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flow:
    """Which word's mass went to which word, and at what cost per unit."""

    left_title: str
    right_title: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    left_mass: tuple[float, ...]
    right_mass: tuple[float, ...]
    moved: tuple[tuple[int, int, float, float], ...]
    """(left, right, mass, cost per unit), dearest first."""


@dataclass(frozen=True)
class RegionAttention:
    """What the words of a caption look at in a photograph.

    Attributes:
        title: what is shown.
        image: the photograph, or None.
        size: its width and height in pixels.
        boxes: left, top, right, bottom of every region, as shares of width and height.
        words: of the caption.
        shares: per word, its weight on every region.
        whole: regions that cover the photograph and so say nothing about where.
        caption: weight of every region for the caption as a whole, or empty.
        references: weight of every region for the references, or empty.
        telling: regions to point at first.
        reference_texts: what the weights of the references stand for.
        caption_text: the caption.
        scores: numbers to print below, with their names.
    """

    title: str
    image: str | None
    size: tuple[int, int]
    boxes: tuple[tuple[float, float, float, float], ...]
    words: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    whole: tuple[int, ...] = ()
    caption: tuple[float, ...] = ()
    references: tuple[float, ...] = ()
    telling: tuple[int, ...] = ()
    caption_text: str = ""
    reference_texts: tuple[str, ...] = ()
    scores: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Node:
    """A word of a scene graph."""

    name: str
    matched: bool


@dataclass(frozen=True)
class Graph:
    """Objects with their attributes, and relations (source, target, word)."""

    objects: tuple[Node, ...]
    attributes: tuple[tuple[Node, ...], ...]
    relations: tuple[tuple[int, int, Node], ...]


@dataclass(frozen=True)
class SceneGraphs:
    """What the caption says and what the references say; nodes tell whether they matched."""

    caption: Graph
    references: Graph


@dataclass(frozen=True)
class Contribution:
    """What one input added to a score; ``mean`` is its value in the baseline."""

    name: str
    value: float
    mean: float
    share: float


@dataclass(frozen=True)
class Contributions:
    """Score = baseline + the sum of the shares."""

    title: str
    score: float
    baseline: float
    items: tuple[Contribution, ...]


@dataclass(frozen=True)
class LabelledPhotograph:
    """A photograph with what was seen in it."""

    title: str
    image: str
    places: tuple[Place, ...]


Part = (
    WordMarks
    | Alignment
    | MatchMatrix
    | Flow
    | RegionAttention
    | LabelledPhotograph
    | SceneGraphs
    | Contributions
)


@dataclass(frozen=True)
class Explanation:
    """Why a caption got its score: in words, as JSON-able data, as typed parts to draw.

    ``captious.report.pictures.draw`` turns the parts into a picture.
    """

    text: str
    data: dict[str, Any]
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str | None:
        """Show the picture in a notebook.

        Pictures are drawn upstairs, in report/: it is named here, and opened by notebooks only.
        """
        return import_module("captious.report.pictures").draw(self)

    def _repr_html_(self) -> str:
        """Show words and picture in a notebook."""
        return f"{self._repr_svg_() or ''}<pre>{escape(self.text)}</pre>"


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out
