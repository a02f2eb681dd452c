"""CHAIR (Rohrbach et al., EMNLP 2018): how many of the objects that a caption names are not there?

    chair_i      = mentions of objects that the image lacks / mentions of objects
    chair_s      = captions with at least one such mention / captions
    chair_recall = different objects named that the image has / objects the image has
    chair_f1     = harmonic mean of 1 - chair_i and chair_recall

Counted over the closed list of COCO's 80 classes, or a table of your own (``table=FILE``, one class
per line, synonyms behind it). What is there: the labels of the image (``--objects``: COCO instances
JSON, parquet, any label file, or what the detector sees) and, as the authors do, everything that a
reference names. Corpus values divide sums. chair_recall and chair_f1 are not in the paper; later
work reports them beside it because saying little hallucinates little.

Worked example: the image has person and horse, the caption is *a man and his dog on a horse*. Three
mentions, one of them wrong: chair_i 1/3, chair_s 1, recall 2/2, F1 = 2 x 2/3 / (2/3 + 1) = 0.8.

There is no ``profile``: paper and released code compute the same. The paper writes sets of objects;
its code counts every mention, and so does this metric. What differs is the table of synonyms, and
``table=data/synonyms.txt`` reads the authors' own.

Published numbers beside ours (percent; **not verified here**, since none of these captions are on
the machine this was built on):

    captions of                        images                          chair_s      chair_i
    LLaVA-1.5, greedy (1)              3 x 500 of COCO val2014         22.4 +- 1.1  7.4 +- 0.3
    LLaVA-1.5, beam search (1)         the same                        19.5 +- 1.4  6.4 +- 0.1
    LLaVA-1.5, OPERA, 64 tokens (2)    500 of COCO val2014             14.2         5.2
    the same, run again by a user (2)  500 of COCO val2014             19.4         6.4
    LLaVA-1.5, ours                    5,000, Karpathy's test images   23.3         7.6

(1) ConVis (Park et al. 2024), Table 1. (2) The OPERA paper, as quoted in issue 30 of shikiw/OPERA:
the authors drop a last sentence that was cut off before they count, the user did not. Compare
numbers only where length, images and such habits are the same. Ours are other captions of the same
model; more captioners: docs/results-companions.md.

Known deviations from the authors' code (LisaAnne/Hallucination): the table of synonyms is our own;
names of two words are found first and in more cases (*train station*, *bus stop*, *toilet paper*
are no object); *orange* as a colour is not a fruit; words are not run through a stemmer. Agreement
with the authors' rules and table, run beside ours on the same objects: docs/results-companions.md.
A caption that was cut off hides what it would have said; captions that end in a word such as *a* or
*with* are counted and reported. Papers measure on 500 images here and 5,000 there: ``images`` takes
a list by name or from a file, and the signature names it with its checksum.

Where nobody labelled the images, ``objects=False`` takes what the references name as all there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from captious.errors import InputError, UsageError
from captious.evidence import image_lists
from captious.evidence.classes import readable
from captious.evidence.image_lists import ImageList
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.text import object_words
from captious.text.object_words import Mention, ObjectWords
from captious.types import CaptionSet, Floats, Sample, WordMark, WordMarks, WorkKey

_OPEN_END = re.compile(
    r"\b(a|an|the|and|or|of|in|on|at|with|to|for|from|by|near|next|his|her|their|its|is|are|that|"
    r"while|into|behind|under|over|two|some|another)\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Chair(Metric):
    """CHAIR: share of named objects, and of captions, that the image does not support.

    Args:
        table: ``coco`` or a file of classes with their synonyms.
        references: whether objects that the references name count as present.
        objects: whether object labels of the image count as present (given, or detected).
        images: the images to be scored: ``karpathy-test``, ``karpathy-val``, or a file that lists
            them; empty for all.
    """

    table: str = "coco"
    references: bool = True
    objects: bool = True
    images: str = ""

    name: ClassVar[str] = "chair"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_OBJECTS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("chair_s", 0.0, 1.0, "captions that name an object the image lacks", False),
        Column("chair_i", 0.0, 1.0, "share of named objects that the image lacks", False),
        Column(
            "chair_recall", 0.0, 1.0, "share of the image's objects that are named",
            undefined="the image has no object of the table",
        ),
        Column(
            "chair_f1", 0.0, 1.0, "harmonic mean of 1 - chair_i and chair_recall",
            undefined="the image has no object of the table",
        ),
    )  # fmt: skip
    identity: ClassVar[float | None] = 0.0
    data: ClassVar[tuple[str, ...]] = (
        "synonyms of COCO's 80 classes: our own table. Licence: Apache-2.0. From: part of "
        "captious (text/coco_words.py).",
        "lists `karpathy-test` and `karpathy-val`: numbers of 5,000 photographs of COCO each. "
        "Licence: facts. From: part of captious; the same photographs as CxC's parts.",
        "labels: yours (COCO instances are CC-BY 4.0), or what the detectors see "
        "(`captious doctor` names them).",
        "trap: instances alone miss much of what people name; with and without `references` are "
        "two different numbers, and so are labels of people and of a detector.",
    )

    def __post_init__(self) -> None:
        if self.table != "coco" and not Path(self.table).is_file():
            raise InputError(f"chair: there is no file {self.table!r}")
        if not self.objects:
            if not self.references:
                raise UsageError(
                    "chair must know what the image shows: leave objects, references or both on"
                )
            object.__setattr__(self, "needs", frozenset({Need.REFERENCES}))
        if self.images:
            image_lists.load(self.images)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return counts: wrong mentions, mentions, any wrong, objects named and there, objects."""
        table = self._table()
        said = _Mentions(samples, table)
        listed = self._listed()
        rows = np.full((len(samples), 5), np.nan)
        reasons: dict[int, str] = {}
        unknown = 0
        classes: dict[tuple[str, ...], tuple[frozenset[str], bool]] = {}
        none: tuple[str, ...] | None = None if self.objects else ()
        held = samples.objects if self.objects else None
        for row, labels in enumerate(held or [none] * len(samples)):
            image = str(samples.image_keys[row])
            if listed is not None and image not in listed:
                reasons[row] = f"the image is not in the list {listed.name}"
                continue
            if labels is None:
                reasons[row] = "no object labels are known for this image"
                continue
            if labels not in classes:
                classes[labels] = _classes(labels, table)
            there, strange = classes[labels]
            unknown += strange
            if self.references:
                there = there.union(*map(said.names, samples.reference[_span(samples, row)]))
            named = said.of(int(samples.caption[row]))
            wrong = sum(m.name not in there for m in named)
            hits = len(there.intersection(m.name for m in named))
            rows[row] = wrong, len(named), wrong > 0, hits, len(there)
        return Stats(rows, reasons, self._notes(samples, unknown))

    def scores(self, rows: Floats) -> Floats:
        """Turn counts into the four values."""
        wrong, mentions, any_wrong, hits, objects = rows.T
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(mentions > 0, wrong / mentions, 0.0 * mentions)
            recall = hits / objects  # NaN where the image has no object
            right = 1.0 - share
            total = right + recall
            harmonic = np.where(total > 0, 2 * right * recall / total, 0.0 * total)
        return np.stack([any_wrong, share, recall, harmonic], axis=-1)

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Divide sums; chair_s is the share of captions."""
        values = self.scores(totals.reshape(-1, 5)).reshape(*totals.shape[:-1], 4)
        with np.errstate(invalid="ignore", divide="ignore"):
            values[..., 0] = totals[..., 2] / np.asarray(counts)
        return values

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the table with its checksum, and the list of images."""
        parts = {"table": self._table().source}
        listed = self._listed()
        if listed is not None:
            parts["images"] = listed.name
        return parts

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Say which word names an object that the image lacks, and what is not mentioned."""
        labels = sample.objects if self.objects else ()
        if labels is None:
            return Explanation("Cannot be scored: no object labels are known.", {"mentions": []})
        table = self._table()
        there, _ = _classes(labels, table)
        if self.references:
            there = there | {m.name for text in sample.references for m in table.mentions(text)}
        named = table.mentions(sample.caption)
        wrong = [m for m in named if m.name not in there]
        unsaid = sorted(there - {m.name for m in named})
        told = ", ".join(_told(m) for m in wrong) or "nothing"
        right = ", ".join(_told(m) for m in named if m.name in there) or "nothing"
        lines = [
            f"Named and not there: {told}.",
            f"Named and there: {right}.",
            f"There and not named: {', '.join(unsaid) or 'nothing'}.",
        ]
        marks = [
            WordMark(m.phrase, "confirmed" if m.name in there else "extra", None, m.name)
            for m in named
        ]
        marks += [WordMark(name, "missing", None, "not named") for name in unsaid]
        data = {
            "mentions": [
                {"phrase": m.phrase, "object": m.name, "there": m.name in there} for m in named
            ],
            "objects": sorted(there),
        }
        return Explanation("\n".join(lines), data, (WordMarks("objects", tuple(marks)),))

    def _table(self) -> ObjectWords:
        if self.table == "coco":
            return object_words.coco()
        return object_words.read(Path(self.table))

    def _listed(self) -> ImageList | None:
        return image_lists.load(self.images) if self.images else None

    def _notes(self, samples: CaptionSet, unknown: int) -> dict[str, int]:
        cut = sum(bool(_OPEN_END.search(text)) for text in samples.captions())
        remarks = {
            "captions that seem cut off (what they would have named is not counted)": cut,
            "captions whose image has a label outside the table": unknown,
        }
        return {remark: count for remark, count in remarks.items() if count}


class _Mentions:
    """Objects named by the texts of a pool; each text is read once."""

    def __init__(self, samples: CaptionSet, table: ObjectWords) -> None:
        self.pool, self.table = samples.pool, table
        key = WorkKey[dict[int, tuple[list[Mention], frozenset[str]]]]("objects", (table.source,))
        self.known = self.pool.derived(key, dict)
        new = np.unique(np.concatenate([samples.caption, samples.reference])).tolist()
        new = [number for number in new if number not in self.known]
        for number, text in zip(new, self.pool.strings(np.array(new, np.int64)), strict=True):
            mentions = table.mentions(text)
            self.known[number] = mentions, frozenset(m.name for m in mentions)

    def of(self, number: int) -> list[Mention]:
        return self.known[number][0]

    def names(self, number: int) -> frozenset[str]:
        return self.known[int(number)][1]


def _classes(labels: tuple[str, ...], table: ObjectWords) -> tuple[frozenset[str], bool]:
    """The classes that labels mean, and whether a label means none."""
    meant = [table.of_label(readable(label)) for label in dict.fromkeys(labels)]
    return frozenset(name for name in meant if name), None in meant


def _span(samples: CaptionSet, row: int) -> slice:
    return slice(int(samples.offsets[row]), int(samples.offsets[row + 1]))


def _told(mention: Mention) -> str:
    same = mention.phrase == mention.name
    return mention.phrase if same else f"{mention.phrase} ({mention.name})"
