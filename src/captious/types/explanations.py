"""Explanations: what a metric found, as data that others draw."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import Any

from captious.types.image_evidence import Place


@dataclass(frozen=True)
class WordMark:
    """One word and what a metric made of it.

    Attributes:
        word: as the metric reads it.
        state: ``confirmed`` (the references or the image have it), ``extra`` (only the caption
            has it), ``missing`` (the caption lacks it), ``raises`` or ``lowers`` (what
            the word does to the score) or ``plain`` (nothing was decided).
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
    """(left, right, mass, cost per unit), most expensive first."""


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
