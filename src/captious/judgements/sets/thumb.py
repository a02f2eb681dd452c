"""THumB 1.0: precision, recall and penalties of five captioners on COCO (Kasai et al. 2022)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from captious.io import files
from captious.judgements.judgement_set import Card, Checks, JudgementSet, Ratings
from captious.judgements.sets import _coco
from captious.judgements.sets._files import number, picture
from captious.types import CaptionSet

CARD = Card(
    name="thumb",
    title="THumB 1.0, overall score of 500 images x 5 captioners (Kasai et al. 2022)",
    licence="see jungokasai/THumB; captions of COCO",
    files=(
        "thumb/mscoco_THumB-1.0.jsonl",
        "thumb/mscoco_references.jsonl|thumb/mscoco_references.json|" + "|".join(_coco.SOURCES),
    ),
    optional=("coco/images",),
    counts="2,500 ratings: 500 images, Up-Down, Unified-VLP, VinVL-base, VinVL-large and Human",
    traps=(
        "the Human caption is one of the COCO captions: it is taken out of the references of "
        "all five captions of its image, as in the release",
        "the score is (P+R)/2 minus penalties: values such as 4.2 are right",
        "papers report with and without the Human rows",
    ),
    get="mscoco/ of github.com/jungokasai/THumB goes to thumb/",
)


def load(root: Path) -> JudgementSet:
    """Read ratings and references."""
    checks = Checks(CARD.name)
    rows = []
    path = root / CARD.files[0]
    for number_, line in enumerate(files.read_text(path).splitlines(), 1):
        place = f"{path.name} line {number_}"
        try:
            item = json.loads(line)
            image = _coco.image_id(str(item["image"]))
            rows.append(
                (
                    place,
                    str(item["SYS"]),
                    image,
                    str(item["image"]),
                    item["hyp"].strip(),
                    str(item["human_score"]),
                )
            )
        except (json.JSONDecodeError, KeyError, TypeError) as err:
            checks.bad("lines that cannot be read", f"{place}: {err}")
    references = _references(root, rows)
    values = [number(r[5], -5, 5, r[0], checks) for r in rows]
    seen: dict[tuple[str, int], str] = {}
    for place, system, image, *_ in rows:
        if (system, image) in seen:
            checks.bad("captions rated twice", f"{place} and {seen[system, image]}")
        seen[system, image] = place
        if image not in references:
            checks.bad("images that have no references", f"{place}: {image}")
    checks.stop_if_bad()
    folder = root / "coco/images"
    samples = CaptionSet.build(
        [r[4] for r in rows],
        [references[r[2]] for r in rows],
        ids=[f"{r[2]}|{r[1]}" for r in rows],
        images=[picture(folder, r[3], checks) for r in rows],
        systems=[r[1] for r in rows],
    )
    units = np.empty(len(rows), object)
    units[:] = [str(r[2]) for r in rows]
    return JudgementSet(
        CARD,
        samples,
        Ratings(np.arange(len(rows)), np.array(values), np.zeros(len(rows), np.int64), -5, 5),
        units,
        samples.systems,
        counts={"ratings": len(rows), "images": len({r[2] for r in rows})},
        remarks=checks.remarks(),
    )


def _references(
    root: Path, rows: list[tuple[str, str, int, str, str, str]]
) -> dict[int, list[str]]:
    for name in ("thumb/mscoco_references.jsonl", "thumb/mscoco_references.json"):
        if (root / name).exists():
            lines = [json.loads(s) for s in files.read_text(root / name).splitlines() if s.strip()]
            return {int(x["seg_id"]): [r.strip() for r in x["refs"]] for x in lines}
    captions = _coco.captions(root)
    human = {r[2]: r[4] for r in rows if r[1] == "Human"}
    return {
        image: _coco.others(human[image], texts) if image in human else texts
        for image, texts in captions.items()
    }


SETS = ((CARD, load),)
