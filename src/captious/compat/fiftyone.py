"""A table of scores as a FiftyOne dataset: ``captious.compat.fiftyone.dataset(table)``.

One sample per caption: its photograph, the caption, its references, its system, and a number per
score, so that the app sorts and filters photographs by them.
"""

from __future__ import annotations

import itertools
import math
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from captious.errors import CaptiousError, InputError

if TYPE_CHECKING:
    from captious.engine.table import ScoreTable

__all__ = ["dataset"]

# fields that a sample has without our scores: FiftyOne's own, then ours
_TAKEN = (
    "id", "filepath", "tags", "metadata", "created_at", "last_modified_at",
    "caption_id", "system", "caption", "references",
)  # fmt: skip


def dataset(table: ScoreTable, name: str | None = None, **options: Any) -> Any:
    """Return a FiftyOne dataset of a table whose captions name their photographs.

    Args:
        table: of ``captious.score(..., images=...)``.
        name: of the dataset; FiftyOne chooses one if None.
        **options: of ``fiftyone.Dataset``, such as ``persistent=True``.

    Raises:
        InputError: a caption names no photograph.
    """
    if find_spec("fiftyone") is None:
        raise CaptiousError("FiftyOne is not installed: pip install fiftyone")
    import fiftyone

    samples = table.samples
    lacking = [str(i) for i, image in zip(samples.ids, samples.images, strict=True) if not image]
    if lacking:
        raise InputError(
            f"{len(lacking)} captions have no photograph for FiftyOne to show (the first: "
            f"{lacking[0]!r}); score with images=..."
        )
    columns = _fields(table)
    captions, references = samples.captions(), samples.references()
    rows = [
        fiftyone.Sample(
            filepath=str(samples.images[row]),
            caption_id=str(samples.ids[row]),
            system=str(samples.systems[row]),
            caption=captions[row],
            references=references[row],
            **{n: None if math.isnan(v[row]) else v[row] for n, v in columns.items()},
        )
        for row in range(len(samples))
    ]
    made = fiftyone.Dataset(name, **options)
    made.add_samples(rows)
    return made


def _fields(table: ScoreTable) -> dict[str, list[float]]:
    """Return the scores under names that a field may have, none of them taken or met twice."""
    taken = set(_TAKEN)
    fields = {}
    for name, values in table.values.items():
        field = plain = re.sub(r"\W+", "_", name).strip("_")
        for number in itertools.count(2):
            if field not in taken:
                break
            field = f"{plain}_{number}"
        taken.add(field)
        fields[field] = values.tolist()
    return fields
