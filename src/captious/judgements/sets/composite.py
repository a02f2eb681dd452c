"""COMPOSITE: human and machine captions rated for correctness or thoroughness (Aditya et al. 2017).

Two shapes of the same tables are read, both with semicolons: the Mechanical Turk exports (columns
``Input.image_url``, ``Input.text1`` ..., ``Answer.Q1Answer`` ...), and the short form of TIGEr's
release (image; human caption; two machine captions; their ratings). The fourth caption that some
exports hold is left out, as in every paper.

The judged human caption is one of the references of its image: the protocols take it out, either of
the references of all three captions (``composite/tau-c``) or of its own only (``-row``).

Images are named by their photograph, as in the other sets: the path where it is there, else its
file name. The gold labels of VIFIDEL are those of COCO's instances, for the COCO part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Ratings
from captious.judgements.labels import own_labels
from captious.judgements.sets import _coco, flickr8k
from captious.judgements.sets._files import number, picture, table
from captious.reading import read_parquet
from captious.types import CaptionSet

_SYSTEMS = ("human", "machine 1", "machine 2")
_PARTS = ("8k", "30k", "coco")
_GOLD = "coco/instances_val2014.json"


def _card(name: str, what: str, ending: str) -> Card:
    return Card(
        name=name,
        title=f"COMPOSITE, one rating of {what} 1..5 per caption (Aditya et al. 2017)",
        licence="research; the ratings are on the authors' page, the photographs belong to Flickr "
        "users",
        files=(
            *(f"composite/{part}_{ending}.csv" for part in _PARTS),
            "flickr8k/Flickr8k.token.txt",
            "flickr30k/captions.parquet",
            "|".join(_coco.SOURCES),
        ),
        optional=("flickr8k/images", "flickr30k/images", "coco/images", _GOLD),
        counts="11,985 ratings = 3 captions x (997 Flickr8k + 991 Flickr30k + 2,007 COCO) images",
        traps=(
            "the human caption is also a reference: metrics that see it there score 1",
            "Sharif et al. rate 6,993 captions, which no part of this release adds up to",
            "VIFIDEL uses the COCO part and its 4,014 system captions only",
            "the thoroughness files are spelt 'throughness'",
        ),
        get="the Mechanical Turk files of Aditya et al. (AMT evaluation) go to composite/",
    )


CORRECTNESS = _card("composite", "correctness", "correctness")
THOROUGHNESS = _card("composite-thoroughness", "thoroughness", "throughness")


def load(card: Card, ending: str, root: Path) -> JudgementSet:
    """Read the three tables and join them with the references of their images."""
    checks = Checks(card.name)
    eight = flickr8k.captions(root / "flickr8k/Flickr8k.token.txt", checks)[1]
    content = read_parquet(root / "flickr30k/captions.parquet")
    thirty = dict(zip(content["image"].to_pylist(), content["captions"].to_pylist(), strict=True))
    coco = _coco.captions(root)
    # Name of the image in messages, its references, its photograph.
    find: dict[str, Callable[[str], tuple[str, list[str] | None, str]]] = {
        "8k": lambda n: (n, eight.get(n), picture(root / "flickr8k/images", n, checks)),
        # Many photographs are in both parts: without the files, the folder keeps them apart.
        "30k": lambda n: (
            n,
            thirty.get(n),
            picture(root / "flickr30k/images", n, checks, f"flickr30k/{n}"),
        ),
        "coco": lambda n: (
            str(_coco.image_id(n)),
            coco.get(_coco.image_id(n)),
            _coco.photograph(root, n, checks),
        ),
    }
    rows: list[tuple[str, str, str, list[str], str, float, str]] = []
    seen: dict[tuple[str, str], str] = {}
    for part in _PARTS:
        for place, image, texts, answers in _lines(root / f"composite/{part}_{ending}.csv", checks):
            if not image:
                checks.note("lines without an image", place)
                continue
            key, references, photograph = find[part](image.replace("\\", "/").rpartition("/")[2])
            if references is None:
                checks.bad(f"images of {part} that have no references", f"{place}: {image}")
                continue
            if (part, key) in seen:
                checks.bad("images that appear twice", f"{place} and {seen[part, key]}: {key}")
            seen[part, key] = place
            for system, text, rating in zip(_SYSTEMS, texts, answers, strict=True):
                value = number(rating, 1, 5, place, checks)
                if system == "human" and len(_coco.others(text, references)) == len(references):
                    checks.note("human captions that are not among the references", place)
                rows.append((f"{part}:{key}", system, text, references, part, value, photograph))
    checks.stop_if_bad()
    units, groups = np.empty(len(rows), object), np.empty(len(rows), object)
    units[:], groups[:] = [r[0] for r in rows], [r[4] for r in rows]
    samples = CaptionSet.build(
        [r[2] for r in rows],
        [r[3] for r in rows],
        ids=[f"{r[0]}|{r[1]}" for r in rows],
        images=[r[6] for r in rows],
        systems=[r[1] for r in rows],
    )
    gold = own_labels(root / _GOLD)
    if gold is not None:
        samples = gold.add_to(samples)
    ratings = Ratings(
        np.arange(len(rows)), np.array([r[5] for r in rows]), np.zeros(len(rows), np.int64), 1, 5
    )
    return JudgementSet(
        card,
        samples,
        ratings,
        units,
        groups,
        counts={"ratings": len(rows), "images": len(seen)}
        | {part: int((groups == part).sum()) for part in _PARTS},
        remarks=checks.remarks(),
    )


def _lines(path: Path, checks: Checks) -> list[tuple[str, str, list[str], list[str]]]:
    """Return (place, image, three captions, three ratings) of either shape of table."""
    header, rows = table(path, ";")
    if "Input.image_url" in header:
        texts = [f"Input.text{i}" for i in (1, 2, 3)]
        ratings = [f"Answer.Q{i}Answer" for i in (1, 2, 3)]
        lacking = [c for c in (*texts, *ratings) if c not in header]
        if lacking:
            checks.bad("columns that are missing", f"{path.name}: {', '.join(lacking)}")
            return []
        image = "Input.image_url"
    else:
        if len(header) < 7:
            checks.bad("tables with fewer than seven columns", f"{path.name}: {len(header)}")
            return []
        image, texts, ratings = header[0], header[1:4], header[4:7]
    return [
        (
            place,
            row.get(image, "").strip(),
            [row.get(t, "").strip() for t in texts],
            [row.get(r, "").strip() for r in ratings],
        )
        for place, row in rows
    ]


SETS = (
    (CORRECTNESS, partial(load, CORRECTNESS, "correctness")),
    (THOROUGHNESS, partial(load, THOROUGHNESS, "throughness")),
)
