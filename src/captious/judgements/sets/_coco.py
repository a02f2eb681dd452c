"""References of COCO images, from whichever caption file is there."""

from __future__ import annotations

import re
from pathlib import Path

from captious.errors import InputError
from captious.io import files
from captious.judgements.judgement_set import Checks, same_text
from captious.judgements.labels import Labels, own_labels
from captious.judgements.sets._files import picture
from captious.reading import read_parquet

SOURCES = (
    "coco/captions_val2014.json",
    "coco/dataset_coco.json",
    "coco/val2014_captions.parquet",
)
LABELS = ("coco/instances_val2014.json", "coco/val2014_objects.parquet")
_NUMBER = re.compile(r"(\d+)(?:\.\w+)?$")


def image_id(name: str) -> int:
    """Return the COCO number of an image name, path or address.

    Example:
        >>> image_id("COCO_val2014_000000000974.jpg"), image_id("974")
        (974, 974)
    """
    match = _NUMBER.search(name.strip())
    if match is None:
        raise InputError(f"{name!r} is not the name of a COCO image")
    return int(match.group(1))


def photograph(root: Path, name: str, checks: Checks) -> str:
    """Return the path of a COCO photograph, or its official file name where it is absent.

    The tables call it by address, file name or number; the folder may hold either official name.
    """
    number = image_id(name)
    official = f"COCO_val2014_{number:012d}.jpg"
    for usual in (official, f"{number:012d}.jpg"):
        if (root / "coco/images" / usual).exists():
            return str(root / "coco/images" / usual)
    return picture(root / "coco/images", official, checks)


def captions(root: Path) -> dict[int, list[str]]:
    """Return the captions of every image, of the first caption file that is there."""
    return {image: [text for _, text in pairs] for image, pairs in sentences(root).items()}


def sentences(root: Path) -> dict[int, list[tuple[int | None, str]]]:
    """Return (caption id, caption) of every image; the parquet file has no caption ids."""
    for name in SOURCES:
        path = root / name
        if path.exists():
            break
    else:
        raise InputError([f"found none of these under {root}: {', '.join(SOURCES)}"])
    by_image: dict[int, list[tuple[int | None, str]]] = {}
    if path.suffix == ".parquet":
        content = read_parquet(path)
        for image, texts in zip(
            content["image_id"].to_pylist(), content["captions"].to_pylist(), strict=True
        ):
            by_image[int(image)] = [(None, t.strip()) for t in texts]
        return by_image
    content = files.read_json(path)
    if "annotations" in content:
        for entry in content["annotations"]:
            by_image.setdefault(int(entry["image_id"]), []).append(
                (int(entry["id"]), entry["caption"].strip())
            )
        return by_image
    for entry in content["images"]:
        by_image[int(entry["cocoid"])] = [
            (int(s["sentid"]), s["raw"].strip()) for s in entry["sentences"]
        ]
    return by_image


def labels(root: Path) -> Labels | None:
    """Return the labels of COCO's own annotators.

    Those that were joined with nouns of the references stand in for them where there are no
    photographs either; where there are, the detectors look instead.
    """
    own, joined = (root / name for name in LABELS)
    if own.exists() or (root / "coco/images").is_dir():
        return own_labels(own)
    return own_labels(joined)


def others(caption: str, references: list[str]) -> list[str]:
    """Return the references that are not the caption itself; all of them if none would be left."""
    mine = same_text(caption)
    return [r for r in references if same_text(r) != mine] or references
