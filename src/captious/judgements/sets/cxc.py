"""Crisscrossed Captions: how well does a caption fit another image, or another caption? (2021).

``sits_*.csv`` rates (caption, image); ``sts_*.csv`` rates (caption, caption). Captions are named by
their COCO annotation id, so the COCO captions are needed beside it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Ratings
from captious.judgements.sets import _coco
from captious.judgements.sets._files import number, table
from captious.types import CaptionSet

_COCO = "coco/captions_val2014.json|coco/dataset_coco.json"


def _card(task: str, what: str, counts: str) -> Card:
    return Card(
        name=f"cxc-{task}",
        title=f"Crisscrossed Captions {task.upper()}: {what}, 0..5 (Parekh et al. 2021)",
        licence="see the repository; captions of COCO (CC BY 4.0)",
        files=(f"cxc/{task}_test.csv|cxc/{task}_val.csv", _COCO),
        optional=("coco/images",),
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
        checks.bad("pairs that stand twice", len(rows) - len({r[0] for r in rows}))
    checks.stop_if_bad()
    units, groups = np.empty(len(rows), object), np.empty(len(rows), object)
    units[:], groups[:] = [r[3] for r in rows], [r[4] for r in rows]
    samples = CaptionSet.build(
        [r[1] for r in rows],
        [r[2] for r in rows],
        ids=[r[0] for r in rows],
        images=[r[3] for r in rows],
    )
    ratings = Ratings(
        np.arange(len(rows)), np.array([r[5] for r in rows]), np.zeros(len(rows), np.int64), 0, 5
    )
    return JudgementSet(
        card,
        samples,
        ratings,
        units,
        groups,
        counts={"ratings": len(rows), "images": len(set(units))},
        remarks=checks.remarks(),
    )


def _sentence(name: str) -> int:
    tail = name.rpartition(":")[2]
    return int(tail) if tail.isdigit() else -1


SETS = ((SITS, partial(load, SITS, "sits")), (STS, partial(load, STS, "sts")))
