"""SCAN: how well does the caption fit the image, by the grounding model alone?

The image-caption score of the grounding model of TIGEr (Lee et al. 2018): for every region the
words are attended to, the cosine between the region and what was attended is taken, and the cosines
are averaged over the regions. No references are read: this is the column ``scan_similarity`` of
``tiger`` for captions that have none.

Two more columns ask the words (ours, not in the paper): how well does each content word fit the
region that fits it best? ``scan_words`` is the mean of these dot products, ``scan_weakest`` the
mean of the two lowest: one object that is not there hardly moves the first column, but the last.

Worked example: two regions whose cosines with their attended words are 0.2 and 0.6 give 0.4. If the
words "dog", "red", "ball" reach 0.5, 0.1 and 0.3, the other columns are 0.3 and 0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from captious.evidence.region_source import region_store
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.metrics.tiger import Tiger
from captious.types import CaptionSet, Floats, Sample

_FUNCTION = """
<start> <end> . , ; : ! ? ' " ` `` '' - a an the this that these those some any each every of on in
at to and or with is are was were be been being am it its he she they them his her their there here
by for from up down off out over under into onto as while who which what one two three four
other another several many next near has have had do does
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
"""Words that no region can show; numbers among them, which SCAN does not see."""


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
        Column("scan_words", -np.inf, np.inf, "mean fit of a content word to its best region"),
        Column("scan_weakest", -np.inf, np.inf, "mean fit of the two words that fit worst"),
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
        rows = np.full((len(samples), 3), np.nan)
        rows[:, 0] = found.rows[:, 3]
        known = [row for row in range(len(samples)) if row not in found.reasons]
        rows[known, 1:] = self._words(
            [(str(samples.images[row]), str(text)) for row, text in enumerate(samples.captions())],
            known,
        )
        return Stats(rows, found.reasons, found.notes)

    def _words(self, pairs: list[tuple[str, str]], known: list[int]) -> Floats:
        """Return mean and weakest fit of the content words; without any, all words count."""
        from captious.models import grounding

        model, store = grounding.load(self.model, self.vocabulary), region_store(self.regions)
        texts = list(dict.fromkeys(pairs[row][1] for row in known))
        vectors = dict(zip(texts, model.words(texts), strict=True))
        kept = {
            text: [k for k, w in enumerate(model.tokens(text)) if w not in FUNCTION_WORDS]
            for text in texts
        }
        out = np.zeros((len(known), 2))
        order = sorted(range(len(known)), key=lambda at: pairs[known[at]][0])
        for image, rows in groupby(order, key=lambda at: pairs[known[at]][0]):
            regions = model.regions(store[image])
            for at in rows:
                text = pairs[known[at]][1]
                fit = (regions @ vectors[text].T).amax(0).double().numpy()
                fit = np.sort(fit[kept[text]] if kept[text] else fit)
                out[at] = fit.mean(), fit[:2].mean()
        return out

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model, weights, features."""
        return self._tiger.signature_parts(context)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show which regions the words look at."""
        own = Sample(sample.id, sample.caption, (sample.caption,), sample.image)
        return self._tiger.explain(own, context)
