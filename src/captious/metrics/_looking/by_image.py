"""What every metric that reads region features shares: rows grouped by image, or why not."""

from __future__ import annotations

from dataclasses import dataclass

from captious.errors import InputError
from captious.types import CaptionSet, Evidence, Regions


@dataclass(frozen=True)
class ImageGroups:
    """Rows that can be scored, by image.

    Attributes:
        store: whose features are read.
        rows: image -> its row numbers.
        reasons: row -> why it cannot be scored.
    """

    store: Regions
    rows: dict[str, list[int]]
    reasons: dict[int, str]

    @property
    def scored(self) -> list[int]:
        """All rows that can be scored, image after image."""
        return [row for rows in self.rows.values() for row in rows]


def regions_of(evidence: Evidence, kind: str, wanted_by: str) -> Regions:
    """Return the region features of a kind.

    Raises:
        InputError: the evidence has none; the engine fills it from photographs, other callers must.
    """
    store = evidence.regions_like(kind)
    if store is None:
        raise InputError(
            f"{wanted_by} looks at the photographs, and there are none: give --images FOLDER "
            f"(images=... in Python), or region features of the kind {kind!r} with --regions FILE"
        )
    return store


def group_by_image(samples: CaptionSet, kind: str, wanted_by: str, references: bool) -> ImageGroups:
    """Group rows by image; a row without image, features or references gets its reason.

    Args:
        samples: the captions.
        kind: of features.
        wanted_by: name of the metric, for the message.
        references: whether a row needs references.
    """
    store = regions_of(samples.evidence, kind, wanted_by)
    rows: dict[str, list[int]] = {}
    reasons: dict[int, str] = {}
    counts = samples.reference_counts
    for row, image in enumerate(samples.images):
        if image is None:
            reasons[row] = "the sample has no image"
        elif references and counts[row] == 0:
            reasons[row] = "no references"
        elif image not in store:
            reasons[row] = f"no region features of image {image!r}"
        else:
            rows.setdefault(str(image), []).append(row)
    return ImageGroups(store, rows, reasons)
