"""nocaps-FOIL: a caption of a nocaps photograph against the same with one wrong noun (ALOHa, 2024).

Nobody voted: the caption as it was written is the preferred one. Groups are the domains of nocaps
(in-domain, near-domain, out-domain: how far its objects are from those of COCO).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Pairs
from captious.judgements.sets._files import picture, records
from captious.types import CaptionSet

CARD = Card(
    name="nocaps-foil",
    title="nocaps-FOIL: one noun of a nocaps caption is wrong, by domain (Petryk et al. 2024)",
    licence="none stated: for research",
    files=("nocaps_foil/nocaps_val_foil.parquet|nocaps_foil/nocaps-val-foil.json",),
    optional=("nocaps_foil/images",),
    counts="2,500 pairs with 8 to 10 references",
    traps=(
        "papers report average precision over single captions as well; the share of pairs that are "
        "told apart is another number",
        "ties: metrics of nouns give many; the default protocol counts them half",
    ),
    get="data/nocaps-val-foil.json of github.com/DavidMChan/aloha goes to nocaps_foil/",
)
_NAMES = {"image": ("image", "image_path"), "caption": ("caption", "baseline")}


def load(root: Path) -> JudgementSet:
    """Pair every foil with its caption."""
    checks = Checks(CARD.name)
    path = next(p for p in map(root.joinpath, CARD.files[0].split("|")) if p.exists())
    _, entries = records(path, keep=("image",))
    rows: list[tuple[str, str, str, list[str], str]] = []
    for place, entry in entries:
        image, caption = (_first(entry, names) for names in _NAMES.values())
        texts = [image, caption, entry.get("foil"), entry.get("domain")]
        references = entry.get("references")
        if not all(isinstance(text, str) for text in texts) or not isinstance(references, list):
            checks.bad("entries that lack a field", place)
            continue
        rows.append((image, caption.strip(), entry["foil"].strip(), references, entry["domain"]))
    checks.stop_if_bad()
    twice = [row for row in rows for _ in (0, 1)]
    folder = path.parent / "images"
    samples = CaptionSet.build(
        [text for row in rows for text in row[1:3]],
        [row[3] for row in twice],
        ids=[f"{n}{'ab'[k]}" for n in range(len(rows)) for k in (0, 1)],
        images=[picture(folder, row[0], checks) for row in twice],
    )
    at = np.arange(len(rows))
    groups = np.empty(len(rows), object)
    groups[:] = [row[4] for row in rows]
    return JudgementSet(
        CARD,
        samples,
        Pairs(2 * at, 2 * at + 1, np.tile([1.0, 0.0], (len(rows), 1))),
        samples.images,
        groups,
        counts={"pairs": len(rows), "images": len({row[0] for row in rows})},
        remarks=checks.remarks(),
    )


def _first(entry: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((entry[name] for name in names if name in entry), None)


SETS = ((CARD, load),)
