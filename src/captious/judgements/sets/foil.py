"""FOIL: a correct caption against the same caption with one wrong noun (Shekhar et al. 2017).

Nobody voted: the correct caption is the preferred one. References are the other captions that the
COCO annotators wrote for the image.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from captious.io import files
from captious.judgements.judgement_set import Card, Checks, JudgementSet, Pairs
from captious.judgements.sets import _coco
from captious.types import CaptionSet

CARD = Card(
    name="foil",
    title="FOIL v1.0, test: one noun of a COCO caption is wrong (Shekhar et al. 2017)",
    licence="see its page; captions of COCO (CC BY 4.0)",
    files=("foil/foilv1.0_test_2017.json", "|".join(_coco.SOURCES)),
    optional=("coco/images",),
    counts="99,480 pairs in the test file of the release",
    traps=(
        "papers take 1 or 4 references and about 32,000 pairs (one foil per correct caption)",
        "the correct caption must not be among its references",
    ),
    get="foilv1.0_test_2017.json of foilunitn.github.io goes to foil/",
)


def load(root: Path) -> JudgementSet:
    """Pair every foil with the correct caption of the same caption id."""
    checks = Checks(CARD.name)
    content = files.read_json(root / CARD.files[0])
    right: dict[int, str] = {}
    foils = []
    for number, entry in enumerate(content["annotations"]):
        place = f"annotation {number}"
        lacking = {"id", "image_id", "caption", "foil"} - set(entry)
        if lacking:
            checks.bad("annotations that lack a field", f"{place}: {', '.join(sorted(lacking))}")
        elif entry["foil"]:
            foils.append((place, entry))
        else:
            right[int(entry["id"])] = entry["caption"].strip()
    references = _coco.captions(root)
    rows = []
    for place, entry in foils:
        key, image = int(entry["id"]), int(entry["image_id"])
        if key not in right:
            checks.bad("foils whose correct caption is missing", f"{place}: caption {key}")
        elif image not in references:
            checks.bad("foils whose image has no references", f"{place}: image {image}")
        else:
            kind = f"{entry.get('target_word', '?')} -> {entry.get('foil_word', '?')}"
            others = _coco.others(right[key], references[image])
            rows.append((image, right[key], entry["caption"].strip(), others, kind))
    checks.stop_if_bad()
    twice = [r for r in rows for _ in (0, 1)]
    samples = CaptionSet.build(
        [c for r in rows for c in r[1:3]],
        [r[3] for r in twice],
        ids=[f"{n}{'ab'[k]}" for n in range(len(rows)) for k in (0, 1)],
        images=[str(r[0]) for r in twice],
    )
    at = np.arange(len(rows))
    votes = np.tile([1.0, 0.0], (len(rows), 1))
    return JudgementSet(
        CARD,
        samples,
        Pairs(2 * at, 2 * at + 1, votes),
        samples.images,
        counts={"pairs": len(rows), "images": len({r[0] for r in rows})},
        remarks=checks.remarks(),
    )


SETS = ((CARD, load),)
