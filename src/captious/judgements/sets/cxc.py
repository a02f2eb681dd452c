"""Crisscrossed Captions: how well does a caption fit another image, or another caption? (2021).

``sits_*.csv`` rates (caption, image); ``sts_*.csv`` rates (caption, caption). Captions are named by
their COCO annotation id, so the COCO captions are needed beside it.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Ratings
from captious.judgements.sets import _coco
from captious.judgements.sets._files import number, table
from captious.reading import read_parquet
from captious.types import CaptionSet

_COCO = "coco/captions_val2014.json|coco/dataset_coco.json"


def _card(task: str, what: str, counts: str) -> Card:
    return Card(
        name=f"cxc-{task}",
        title=f"Crisscrossed Captions {task.upper()}: {what}, 0..5 (Parekh et al. 2021)",
        licence="see the repository; captions of COCO (CC BY 4.0)",
        files=(f"cxc/{task}_test.csv|cxc/{task}_val.csv", _COCO),
        optional=("coco/images", *(("|".join(_coco.LABELS),) if task == "sits" else ())),
        counts=counts,
        traps=(
            "captions are named by COCO annotation id: a caption file without ids does not do",
            "a caption rated for its own image (c2i_original) is taken out of its references",
        ),
        get="data/ of github.com/google-research-datasets/Crisscrossed-Captions goes to cxc/",
    )


SITS = _card("sits", "caption and image", "about 44,000 pairs per split")
STS = _card("sts", "two captions", "about 44,000 pairs per split")


def load(card: Card, task: str, root: Path) -> JudgementSet:
    """Read one split (test if it is there, else val)."""
    checks = Checks(card.name)
    path = next(p for p in (root / f"cxc/{task}_{s}.csv" for s in ("test", "val")) if p.exists())
    sentences = _coco.sentences(root)
    texts = {
        key: (image, text)
        for image, pairs in sentences.items()
        for key, text in pairs
        if key is not None
    }
    if not texts:
        checks.bad("caption files without caption ids", "give coco/captions_val2014.json")
    header, lines = table(path)
    if len(header) < 4:
        checks.bad("tables with fewer than four columns", path.name)
    checks.stop_if_bad()
    rows = []
    for place, line in lines:
        left, right, score, how = (line[h] for h in header[:4])
        key = _sentence(left)
        value = number(score, 0, 5, place, checks)
        if key not in texts:
            checks.bad("captions that the COCO file lacks", f"{place}: {left}")
            continue
        caption = texts[key][1]
        if task == "sits":
            image = _coco.image_id(right)
            if image not in sentences:
                checks.bad("images that the COCO file lacks", f"{place}: {right}")
                continue
            references = [t for k, t in sentences[image] if k != key]
        else:
            other = _sentence(right)
            if other not in texts:
                checks.bad("captions that the COCO file lacks", f"{place}: {right}")
                continue
            image, text = texts[other]
            references = [text]
        rows.append((f"{left}|{right}", caption, references, str(image), how, value))
    if len({r[0] for r in rows}) < len(rows):
        checks.bad("pairs that appear twice", len(rows) - len({r[0] for r in rows}))
    checks.stop_if_bad()
    units, groups = np.empty(len(rows), object), np.empty(len(rows), object)
    units[:], groups[:] = [r[3] for r in rows], [r[4] for r in rows]
    samples = CaptionSet.build(
        [r[1] for r in rows],
        [r[2] for r in rows],
        ids=[r[0] for r in rows],
        images=[r[3] for r in rows],
    )
    gold = _coco.labels(root) if task == "sits" else None
    ratings = Ratings(
        np.arange(len(rows)), np.array([r[5] for r in rows]), np.zeros(len(rows), np.int64), 0, 5
    )
    return JudgementSet(
        card,
        samples if gold is None else gold.add_to(samples),
        ratings,
        units,
        groups,
        counts={"ratings": len(rows), "images": len(set(units))},
        remarks=checks.remarks(),
    )


def _sentence(name: str) -> int:
    tail = name.rpartition(":")[2]
    return int(tail) if tail.isdigit() else -1


OTHERS = Card(
    name="cxc-others",
    title="Crisscrossed Captions SITS: captions rated for photographs of others, 0..5 (2021)",
    licence="free for any use (Google); captions of COCO (CC BY 4.0)",
    files=("cxc/sits_val.parquet", "|".join(_coco.SOURCES)),
    optional=("coco/images", "|".join(_coco.LABELS)),
    counts="44,722 pairs of the validation half, 19,722 of them with another photograph's caption",
    traps=(
        "a caption of the photograph itself is nearly always rated 5: it grades no metric and is "
        "left out here",
        "cut by photograph: make choices on the part A and report the part B",
        "val2014_objects.parquet joins COCO's instances with the nouns of the references: a metric "
        "that reads labels alone (vifidel) sees something of the references through it; it is read "
        "where there are neither instances nor photographs",
    ),
    get="a table with the columns image_id, caption, caption_image_id, score of data/ of "
    "github.com/google-research-datasets/Crisscrossed-Captions goes to cxc/sits_val.parquet",
)


def half(image: int) -> str:
    """Return the part of a photograph: A (for choices) or B (for reports)."""
    return "AB"[int(hashlib.sha256(str(image).encode()).hexdigest()[0], 16) % 2]


def load_others(root: Path) -> JudgementSet:
    """Read the pairs whose caption was written for another photograph."""
    checks = Checks(OTHERS.name)
    content = read_parquet(root / OTHERS.files[0])
    lacking = {"image_id", "caption", "caption_image_id", "score"} - set(content.column_names)
    for name in sorted(lacking):
        checks.bad("columns that are missing", name)
    checks.stop_if_bad()
    references = _coco.captions(root)
    rows = []
    own = 0
    for position, row in enumerate(content.to_pylist()):
        place = f"row {position}"
        if row["caption_image_id"] == row["image_id"]:
            own += 1
        elif row["image_id"] not in references:
            checks.bad("images that the COCO file lacks", f"{place}: {row['image_id']}")
        else:
            rows.append(
                (row["image_id"], row["caption"], number(row["score"], 0, 5, place, checks))
            )
    checks.stop_if_bad()
    samples = CaptionSet.build(
        [caption for _, caption, _ in rows],
        [references[image] for image, _, _ in rows],
        ids=[f"{at}|{image}" for at, (image, _, _) in enumerate(rows)],
        images=[_coco.photograph(root, str(image), checks) for image, _, _ in rows],
    )
    gold = _coco.labels(root)
    groups = np.empty(len(rows), object)
    groups[:] = [half(image) for image, _, _ in rows]
    values = np.array([score for _, _, score in rows])
    return JudgementSet(
        OTHERS,
        samples if gold is None else gold.add_to(samples),
        Ratings(np.arange(len(rows)), values, np.zeros(len(rows), np.int64), 0, 5),
        samples.images,
        groups,
        counts={"ratings": len(rows), "images": len({r[0] for r in rows}),
                "left out: the photograph's own caption": own},
        remarks=checks.remarks(),
    )  # fmt: skip


SETS = (
    (SITS, partial(load, SITS, "sits")),
    (STS, partial(load, STS, "sts")),
    (OTHERS, load_others),
)
