"""The domains that ``captious_ref`` and ``captious_free`` learn from and are judged on.

Six kinds of judgement, each cut by photograph into half A (training and every choice) and half B
(reported once): ratings by experts and by a crowd of Flickr8k photographs, ratings of captions that
were written for another COCO photograph (CxC), choices between two captions of one photograph
(PASCAL-50S), and true captions beside the same caption with one wrong word, from nocaps (no
photographs at hand) and from COCO.

A photograph belongs to half A if the sha256 of its file name begins with an even byte; COCO
photographs by the first hexadecimal digit of the sha256 of their number, as in
``benchmarks/cxc_halves.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.evidence.region_formats import open_regions
from captious.judgements import sets
from captious.judgements.judgement_set import Card, JudgementSet, Pairs, Ratings
from captious.judgements.sets import cxc
from captious.perturb import attacks, edits
from captious.reading import read_parquet
from captious.types import CaptionSet, Ints

CROWD_ROWS = 3000
PASCAL_TAUGHT = 1000  # pairs of half A
CXC_ROWS = {True: 2500, False: 3000}  # of half A, of half B
SWAPPED = 800
FOILED = 1000
SWAPS = ("colour", "state", "action", "object, similar", "object, other")
PLAIN = {"flickr plain": 200, "coco plain": 100}
_COCO_NAME = "{:012d}.jpg"
_CXC = "cxc/sits_val.parquet"


@dataclass(frozen=True)
class Places:
    """Where judgements and region features lie, one store for each kind of features.

    Attributes:
        data: holds ``flickr8k``, ``pascal50s``, ``cxc``, ``coco``, ``nocaps_foil``.
        regions: features of the Flickr8k photographs.
        pascal_regions: of the PASCAL-50S photographs.
        coco_regions: of COCO val2014 photographs, named by twelve digits.
    """

    data: Path
    regions: tuple[Path, ...]
    pascal_regions: tuple[Path, ...]
    coco_regions: tuple[Path, ...]


@dataclass(frozen=True, eq=False)
class Domain:
    """Captions, what was said of them, and which photographs are of half A.

    Attributes:
        name: of the domain.
        judged: captions with ratings, or pairs of captions.
        first: per row, whether its photograph belongs to half A.
        protocol: how agreement is measured, as in ``captious meta``.
        regions: features of its photographs; None where there are no photographs.
    """

    name: str
    judged: JudgementSet
    first: np.ndarray
    protocol: str
    regions: tuple[Path, ...] | None

    @property
    def samples(self) -> CaptionSet:
        """The captions."""
        return self.judged.samples


def first_half(units: Iterable[Any]) -> np.ndarray:
    """Mark photographs of half A: those whose name has an even digest."""
    return np.array([hashlib.sha256(str(u).encode()).digest()[0] % 2 == 0 for u in units])


def coco_first_half(numbers: Iterable[int]) -> np.ndarray:
    """Mark COCO photographs of half A, by their number."""
    return np.array([cxc.half(number) == "A" for number in numbers])


def part_of(judged: JudgementSet, keep: np.ndarray) -> JudgementSet:
    """Return the judgements of the rows that are kept; of a pair both rows or none."""
    rows = np.flatnonzero(keep)
    place = np.full(len(keep), -1, np.int64)
    place[rows] = np.arange(len(rows))
    if isinstance(judged.judged, Ratings):
        return judged.only(keep, "left out: other photographs")
    pairs = judged.judged
    stays = keep[pairs.first]
    if (stays != keep[pairs.second]).any():
        raise InputError(f"{judged.name}: a pair was cut in two")
    part = Pairs(place[pairs.first[stays]], place[pairs.second[stays]], pairs.votes[stays])
    groups = None if judged.groups is None else judged.groups[stays]
    return JudgementSet(judged.card, judged.samples.take(rows), part, judged.units[rows], groups)


# -- the six domains ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def expert_set(data: Path) -> JudgementSet:
    """Return Flickr8k-Expert without captions that are their own reference."""
    return sets.load_ratings("flickr8k-expert", data).without_own()


def _expert(where: Places) -> Domain:
    judged = expert_set(where.data)
    first = first_half(judged.units)
    return Domain("expert", judged, first, "flickr8k-expert/tau-c-pooled", where.regions)


def _crowd(where: Places) -> Domain:
    """A fixed draw of captions that are not among their own references."""
    judged = sets.load_ratings("flickr8k-cf", where.data).without_own()
    rows = np.random.default_rng(3).choice(len(judged.samples), CROWD_ROWS, replace=False)
    judged = part_of(judged, np.isin(np.arange(len(judged.samples)), rows))
    first = first_half(judged.units)
    return Domain("crowd", judged, first, "flickr8k-cf/tau-b-without-own", where.regions)


def _pascal(where: Places) -> Domain:
    """All pairs of half B, and a fixed draw of those of half A."""
    judged = sets.load_ratings("pascal50s", where.data)
    pairs = judged.judged
    if not isinstance(pairs, Pairs):
        raise InputError("pascal50s: pairs are expected")
    first = first_half(judged.units)
    taught = np.flatnonzero(first[pairs.first])
    taken = np.random.default_rng(6).choice(taught, PASCAL_TAUGHT, replace=False)
    keep = ~first
    for rows in (pairs.first, pairs.second):
        keep[rows[taken]] = True
    judged = part_of(judged, keep)
    return Domain("pascal", judged, first[keep], "pascal50s/half-5refs", where.pascal_regions)


def _coco_references(data: Path) -> dict[int, list[str]]:
    table = read_parquet(data / "coco/val2014_captions.parquet").to_pydict()
    return dict(zip(table["image_id"], table["captions"], strict=True))


def _cxc_photographs(where: Places) -> frozenset[int]:
    """Return the numbers of the photographs of CxC that have region features.

    COCO's captions are drawn from these alone, however many more the store holds: the draw stays
    the same when a store grows.
    """
    stores = [open_regions(place) for place in where.coco_regions]
    rated = read_parquet(where.data / _CXC).to_pydict()["image_id"]
    return frozenset(
        n for n in set(rated) if all(_COCO_NAME.format(n) in store for store in stores)
    )


def _card(name: str, title: str, files: str) -> Card:
    return Card(name, title, "see the index of the data", (files,), (), "", (), "")


def _cxc(where: Places) -> Domain:
    """Captions of other photographs; a fixed draw from the photographs with region features.

    A caption rated for its own photograph has one reference fewer than the others: left out.
    """
    seen = _cxc_photographs(where)
    table = read_parquet(where.data / _CXC).to_pylist()
    rows = [
        row
        for row in table
        if row["caption_image_id"] != row["image_id"] and row["image_id"] in seen
    ]
    first = coco_first_half(row["image_id"] for row in rows)
    taken = np.sort(np.concatenate([
        np.random.default_rng(7 + half).choice(np.flatnonzero(first == half), count, replace=False)
        for half, count in CXC_ROWS.items()
    ]))  # fmt: skip
    rows = [rows[i] for i in taken]
    references = _coco_references(where.data)
    images = [_COCO_NAME.format(row["image_id"]) for row in rows]
    samples = CaptionSet.build(
        [row["caption"] for row in rows],
        [references[row["image_id"]] for row in rows],
        images=images,
    )
    count = len(rows)
    ratings = Ratings(np.arange(count), np.array([row["score"] for row in rows]),
                      np.zeros(count, np.int64), 0, 5)  # fmt: skip
    judged = JudgementSet(_card("cxc", "Crisscrossed Captions, other photographs", _CXC), samples,
                          ratings, np.array(images, object))  # fmt: skip
    return Domain("cxc", judged, first[taken], "tau-b-pooled", where.coco_regions)


def _pairs_of(
    card: Card, rows: Sequence[tuple[str, str, list[str], str, str]], named: bool
) -> JudgementSet:
    """Build pairs of (true, false, references, image, kind); the true caption is preferred."""
    captions = [text for true, false, *_ in rows for text in (true, false)]
    images = [row[3] for row in rows for _ in range(2)]
    samples = CaptionSet.build(
        captions, [row[2] for row in rows for _ in range(2)], images=images if named else None
    )
    count = len(rows)
    pairs = Pairs(
        np.arange(0, 2 * count, 2), np.arange(1, 2 * count, 2), np.tile([1.0, 0.0], (count, 1))
    )
    groups = np.array([row[4] for row in rows], object)
    return JudgementSet(card, samples, pairs, np.array(images, object), groups)


def _foils(where: Places) -> Domain:
    """One wrong noun in a caption of a nocaps photograph: a fixed draw; no photographs at hand."""
    name = "nocaps_foil/nocaps_val_foil.parquet"
    table = read_parquet(where.data / name).to_pylist()
    taken = np.sort(np.random.default_rng(10).choice(len(table), FOILED, replace=False))
    rows = [
        (row["caption"], row["foil"], row["references"], row["image"], row["domain"])
        for row in (table[i] for i in taken)
    ]
    judged = _pairs_of(_card("foils", "nocaps-FOIL", name), rows, named=False)
    return Domain("foils", judged, first_half(judged.units), "half", None)


def _swaps(where: Places) -> Domain:
    """One wrong word in a caption of a COCO photograph, made by ``captious.perturb``."""
    references = _coco_references(where.data)
    numbers = sorted(_cxc_photographs(where))
    rng = np.random.default_rng(9)
    rows: list[tuple[str, str, list[str], str, str]] = []
    for number in rng.permutation(numbers).tolist():
        caption, *others = (text.strip() for text in references[number])
        kind = SWAPS[len(rows) % len(SWAPS)]
        changed = edits.KINDS[kind](caption.split(), rng)
        if changed is not None and len(others) >= 4:
            rows.append((caption, " ".join(changed), others, _COCO_NAME.format(number), kind))
        if len(rows) == SWAPPED:
            break
    judged = _pairs_of(
        _card("swaps", "COCO captions with one wrong word", "coco"), rows, named=True
    )
    first = coco_first_half(int(str(u)[:-4]) for u in judged.units)
    return Domain("swaps", judged, first, "half", where.coco_regions)


DOMAINS = {
    "expert": _expert,
    "crowd": _crowd,
    "cxc": _cxc,
    "pascal": _pascal,
    "foils": _foils,
    "swaps": _swaps,
}


@lru_cache(maxsize=8)
def domain(where: Places, name: str) -> Domain:
    """Read one domain."""
    return DOMAINS[name](where)


# -- untouched captions, to be attacked --------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Attacked:
    """Captions of people with the other captions as references, and gamed versions of them."""

    plain: CaptionSet
    gamed: attacks.Gamed
    first: np.ndarray
    regions: tuple[Path, ...]


@lru_cache(maxsize=2)
def attacked(where: Places, name: str) -> Attacked:
    """Return the captions of ``flickr plain`` or ``coco plain``, untouched and gamed."""
    rng = np.random.default_rng(4)
    own: dict[str, list[str]] = {}
    if name == "flickr plain":
        judged = sets.load_ratings("flickr8k-expert", where.data)
        for sample in judged.samples:
            own.setdefault(str(sample.image), list(sample.references))
        regions = where.regions
    else:
        seen = _cxc_photographs(where)
        own = {_COCO_NAME.format(n): texts for n, texts in _coco_references(where.data).items()
               if n in seen and len(texts) >= 5}  # fmt: skip
        regions = where.coco_regions
    images = sorted(own)
    mine = [images[i] for i in rng.permutation(len(images))[: PLAIN[name]]]
    at = {image: int(rng.integers(len(own[image]))) for image in mine}
    plain = CaptionSet.build(
        [own[i][at[i]] for i in mine],
        [[r for n, r in enumerate(own[i]) if n != at[i]] for i in mine],
        ids=mine,
        images=mine,
    )
    first = (
        first_half(mine) if name == "flickr plain" else coco_first_half(int(i[:-4]) for i in mine)
    )
    return Attacked(plain, attacks.gamed(plain, seed=5), first, regions)


def pair_rows(judged: JudgementSet) -> tuple[Ints, Ints]:
    """Return the rows of the preferred and of the other caption of every decided pair."""
    pairs = judged.judged
    if not isinstance(pairs, Pairs):
        raise InputError(f"{judged.name}: pairs are expected")
    decided = pairs.preference != 0
    won = pairs.preference[decided] > 0
    first, second = pairs.first[decided], pairs.second[decided]
    return np.where(won, first, second), np.where(won, second, first)
