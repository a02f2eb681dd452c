"""Flickr8k-Expert and Flickr8k-CF: strangers' captions rated for an image (Hodosh et al. 2013).

Every judged caption was written for some image of Flickr8k and is rated for another one (or, for
158 expert rows, for its own). References of an image are its five captions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Ratings
from captious.judgements.sets._files import number, picture, tab_lines
from captious.types import CaptionSet

_GET = (
    "Flickr8k_text.zip of the authors (University of Illinois, on request) holds the text files; "
    "put them into flickr8k/, the photographs into flickr8k/images/"
)
_LICENCE = "research and education only; photographs belong to Flickr users"

EXPERT = Card(
    name="flickr8k-expert",
    title="Flickr8k-Expert, three expert ratings 1..4 (Hodosh, Young, Hockenmaier 2013)",
    licence=_LICENCE,
    files=("flickr8k/ExpertAnnotations.txt", "flickr8k/Flickr8k.token.txt"),
    optional=("flickr8k/images",),
    counts="5,822 rows x 3 ratings, 1,000 images; 5,664 rows once the 158 whose caption was "
    "written for the very image are left out",
    traps=(
        "pooling: three ratings as separate observations with tau-c (TIGEr, CLIPScore) and the "
        "mean of three with tau-b (BERT-TBR) differ by up to .03; papers copy rows across both",
        "CIDEr-D counts documents: 1,000 images or 5,664 rows give different values",
        "BLEU-4 without its tiny constants ties most captions at 0 and falls from .31 to .14",
        "the caption file has one image named 2258277193_586949ec62.jpg.1",
    ),
    get=_GET,
)
CROWD = Card(
    name="flickr8k-cf",
    title="Flickr8k-CF, share of at least three crowd workers who say that a caption fits",
    licence=_LICENCE,
    files=("flickr8k/CrowdFlowerAnnotations.txt", "flickr8k/Flickr8k.token.txt"),
    optional=("flickr8k/images",),
    counts="47,830 rows, 1,000 images; in 721 rows an image meets its own caption",
    traps=(
        "88 % of the shares are 0: tau-b and tau-c differ by a factor of two",
        "the figures of CLIPScore and its successors (BLEU-4 .169, ROUGE-L .199, CIDEr .246) come "
        "out when an image's own judged caption is taken out of the references of all captions of "
        "the image; leaving those rows out gives .146, .172, .221, keeping all as it is .195, "
        ".219, .264",
    ),
    get=_GET,
)


def captions(path: Path, checks: Checks) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return caption by id, and the captions of each image."""
    text: dict[str, str] = {}
    by_image: dict[str, list[str]] = {}
    for place, (key, caption) in tab_lines(path, 2, checks):
        if key in text:
            checks.bad("caption ids that appear twice", f"{place}: {key}")
            continue
        text[key] = caption
        by_image.setdefault(key.rpartition("#")[0], []).append(caption)
    return text, by_image


def load_expert(root: Path) -> JudgementSet:
    """Read Flickr8k-Expert: three ratings per row."""
    checks = Checks(EXPERT.name)
    judged = []
    for place, (image, key, *ratings) in tab_lines(
        root / "flickr8k/ExpertAnnotations.txt", 5, checks
    ):
        judged.append((place, image, key, [number(r, 1, 4, place, checks) for r in ratings]))
    return _join(EXPERT, root, judged, checks, 1.0, 4.0)


def load_crowd(root: Path) -> JudgementSet:
    """Read Flickr8k-CF: the share of "yes" votes is the one rating of a row."""
    checks = Checks(CROWD.name)
    judged = []
    for place, (image, key, share, yes, no) in tab_lines(
        root / "flickr8k/CrowdFlowerAnnotations.txt", 5, checks
    ):
        value = number(share, 0, 1, place, checks)
        ayes, noes = (number(x, 0, 1000, place, checks) for x in (yes, no))
        if ayes + noes < 1 or abs(value - ayes / (ayes + noes)) > 1e-3:
            checks.bad("shares that contradict their votes", f"{place}: {share} of {yes}+{no}")
        judged.append((place, image, key, [value]))
    return _join(CROWD, root, judged, checks, 0.0, 1.0)


def _join(
    card: Card,
    root: Path,
    judged: list[tuple[str, str, str, list[float]]],
    checks: Checks,
    low: float,
    high: float,
) -> JudgementSet:
    text, by_image = captions(root / "flickr8k/Flickr8k.token.txt", checks)
    seen: dict[tuple[str, str], str] = {}
    for place, image, key, _ in judged:
        if (image, key) in seen:
            checks.bad("judgements that appear twice", f"{place} and {seen[image, key]}: {key}")
        seen[image, key] = place
        if key not in text:
            checks.bad("judged captions that the caption file lacks", f"{place}: {key}")
        if image not in by_image:
            checks.bad("judged images that have no captions", f"{place}: {image}")
    checks.stop_if_bad()
    folder = root / "flickr8k/images"
    paths = {image: picture(folder, image, checks) for image in {j[1] for j in judged}}
    samples = CaptionSet.build(
        [text[key] for _, _, key, _ in judged],
        [by_image[image] for _, image, _, _ in judged],
        ids=[f"{image}|{key}" for _, image, key, _ in judged],
        images=[paths[image] for _, image, _, _ in judged],
    )
    width = len(judged[0][3])
    own = np.array([key.rpartition("#")[0] == image for _, image, key, _ in judged])
    units = np.empty(len(judged), object)
    units[:] = [image for _, image, _, _ in judged]
    return JudgementSet(
        card,
        samples,
        Ratings(
            np.repeat(np.arange(len(judged)), width),
            np.array([r for *_, rs in judged for r in rs]),
            np.tile(np.arange(width), len(judged)),
            low,
            high,
        ),
        units,
        own=own,
        counts={
            "rows": len(judged),
            "ratings": len(judged) * width,
            "images": len(paths),
            "caption is its own reference": int(own.sum()),
        },
        remarks=checks.remarks(),
    )


SETS = ((EXPERT, load_expert), (CROWD, load_crowd))
