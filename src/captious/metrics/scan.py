"""SCAN: how well does the caption fit the image, by the grounding model alone?

The image-caption score of the grounding model of TIGEr (Lee et al. 2018): for every region the
words are attended to, the cosine between the region and what was attended is taken, and the cosines
are averaged over the regions. No references are read: this is the column ``scan_similarity`` of
``tiger`` for captions that have none.

Worked example: two regions whose cosines with their attended words are 0.2 and 0.6 give 0.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.metrics.tiger import Tiger
from captious.types import CaptionSet, Sample


@dataclass(frozen=True)
class Scan(Metric):
    """SCAN: similarity of caption and image under the grounding model, no references.

    Args:
        model: a grounding model: asset name, path of a SCAN model, or ``clip:PATH``.
        vocabulary: vocabulary json of an original SCAN checkpoint.
        regions: region features; default: those named in the settings, else extracted.
    """

    model: str = "scan-flickr8k"
    vocabulary: str | None = None
    regions: str | None = None

    name: ClassVar[str] = "scan"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_REGIONS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("scan", -np.inf, np.inf, "image-caption score of the grounding model"),
    )
    modules: ClassVar[dict[str, str]] = Tiger.modules
    empty: ClassVar[float] = float("nan")

    @property
    def _tiger(self) -> Tiger:
        return Tiger(model=self.model, vocabulary=self.vocabulary, regions=self.regions)

    @property
    def assets(self) -> tuple[str, ...]:
        """Those of TIGEr."""
        return self._tiger.assets

    def prepare(self, samples: CaptionSet) -> None:
        """Find every image without region features before any work is done."""
        self._tiger.prepare(samples)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the similarity per row; a caption stands in for the references of TIGEr."""
        own = CaptionSet.build(
            samples.captions(),
            [[text] for text in samples.captions()],
            images=samples.images.tolist(),
        )
        found = self._tiger.stats(own, context)
        return Stats(found.rows[:, 3:4], found.reasons, found.notes)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model, weights, features."""
        return self._tiger.signature_parts(context)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show which regions the words look at."""
        own = Sample(sample.id, sample.caption, (sample.caption,), sample.image)
        return self._tiger.explain(own, context)
