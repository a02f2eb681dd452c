"""ABSTRACT-50S: pairs of captions of clip-art scenes, judged by consensus (Vedantam et al. 2015).

``consensus_abstract.mat`` holds triplets only: reference, B, C, vote. The pairs follow each other
in blocks of equal (B, C); the first half of them is HC (both correct), the second HI.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Pairs
from captious.judgements.sets.pascal50s import triplets
from captious.types import CaptionSet

CARD = Card(
    name="abstract50s",
    title="ABSTRACT-50S, 48 triplet votes per pair (Vedantam, Zitnick, Parikh 2015)",
    licence="research",
    files=("abstract50s/consensus_abstract.mat",),
    optional=(),
    counts="400 pairs, 200 HC and 200 HI; 48 references each; no photographs (clip art)",
    traps=(
        "the file names neither image nor kind: pairs are told apart by their two captions, the "
        "kind by their order",
        "with one document per pair, CIDEr's document frequencies come from 400 small sets",
    ),
    get="consensus_abstract.mat of the CIDEr release (vrama91/cider, pyCIDErConsensus)",
)


def load(root: Path) -> JudgementSet:
    """Read the triplets and gather them by pair."""
    checks = Checks(CARD.name)
    by_pair: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for reference, b, c, vote in triplets(root / CARD.files[0]):
        by_pair.setdefault((b, c), []).append((reference, vote))
    sizes = {len(v) for v in by_pair.values()}
    if len(sizes) > 1:
        for (b, c), block in by_pair.items():
            if len(block) != max(sizes):
                checks.note("pairs with fewer votes than the others", f"{len(block)}: {b} | {c}")
    if len(by_pair) % 2:
        checks.bad("an odd number of pairs cannot be halved into HC and HI", len(by_pair))
    checks.stop_if_bad()
    keys = [k for k in by_pair for _ in (0, 1)]
    samples = CaptionSet.build(
        [c for key in by_pair for c in key],
        [[r for r, _ in by_pair[k]] for k in keys],
        ids=[f"{n}{'ab'[k]}" for n in range(len(by_pair)) for k in (0, 1)],
        images=[f"scene-{n // 2}" for n in range(len(keys))],
    )
    votes = np.array(
        [[sum(v == 1 for _, v in b), sum(v != 1 for _, v in b)] for b in by_pair.values()], float
    )
    rows, half = np.arange(len(by_pair)), len(by_pair) // 2
    groups = np.where(rows < half, "HC", "HI").astype(object)
    return JudgementSet(
        CARD,
        samples,
        Pairs(2 * rows, 2 * rows + 1, votes),
        samples.images,
        groups,
        counts={"pairs": len(by_pair), "HC": half, "HI": len(by_pair) - half},
        remarks=checks.remarks(),
    )


SETS = ((CARD, load),)
