"""SCAN: how well does the caption fit the image, by the grounding model alone?

The image-caption score of the grounding model of TIGEr (Lee et al. 2018): for every region the
words are attended to, the cosine between the region and what was attended is taken, and the cosines
are averaged over the regions. No references are read: this is the column ``scan_similarity`` of
``tiger`` for captions that have none.

Two more columns look at single words (ours, not in the paper): how well does each content word fit
the region that fits it best? ``scan_words`` is the mean of these dot products, ``scan_weakest`` the
mean of the two lowest: an object that is not there hardly moves the first column, but it moves the
last.

Worked example: two regions whose cosines with their attended words are 0.2 and 0.6 give 0.4. If the
words "dog", "red", "ball" reach 0.5, 0.1 and 0.3, the other columns are 0.3 and 0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from captious.metrics._looking.by_image import ImageGroups, group_by_image
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.metrics.tiger import IMAGES_AT_ONCE, Tiger
from captious.types import CaptionSet, Floats, RegionAttention, Sample

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
    """

    model: str = "scan-coco"
    vocabulary: str | None = None

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
        return Tiger(model=self.model, vocabulary=self.vocabulary)

    @property
    def assets(self) -> tuple[str, ...]:
        """Those of TIGEr."""
        return self._tiger.assets

    @property
    def region_kind(self) -> str:
        """The features that the grounding model was trained on."""
        return self._tiger.region_kind

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return similarity and the fit of the words; an image's regions are read once."""
        from captious.models import grounding

        groups = group_by_image(samples, self.region_kind, self.name, references=False)
        model = grounding.load(self.model, self.vocabulary)
        grounding.check_dimensions(model, groups.store)
        captions = samples.captions()
        rows = np.full((len(samples), 3), np.nan)
        self._fill(rows, groups, captions, model)
        unknown = sum(model.unknown(captions[row]) > 0 for row in groups.scored)
        cut = sum(model.cut(captions[row]) for row in groups.scored)
        empty = sum(not captions[row].strip() for row in groups.scored)
        notes = {
            "captions with words unknown to the grounding model": unknown,
            "captions longer than the grounding model reads": cut,
            "empty captions": empty,
        }
        return Stats(rows, groups.reasons, {text: count for text, count in notes.items() if count})

    def _fill(self, rows: Floats, groups: ImageGroups, captions: list[str], model: Any) -> None:
        """Score image after image; without any content word, all words of a caption count."""
        from captious.models import grounding

        images = list(groups.rows)
        for begin in range(0, len(images), IMAGES_AT_ONCE):
            batch = images[begin : begin + IMAGES_AT_ONCE]
            texts = list(dict.fromkeys(captions[r] for image in batch for r in groups.rows[image]))
            vectors = dict(zip(texts, model.words(texts), strict=True))
            content = {
                text: [k for k, w in enumerate(model.tokens(text)) if w not in FUNCTION_WORDS]
                for text in texts
            }
            for image in batch:
                mine = groups.rows[image]
                regions = model.regions(groups.store[image])
                own = list(dict.fromkeys(captions[row] for row in mine))
                block, lengths = grounding.stack([vectors[text] for text in own])
                similar = model.similarity(regions, block, lengths).double().numpy()
                for row in mine:
                    text = captions[row]
                    fit = (regions @ vectors[text].T).amax(0).double().numpy()
                    fit = np.sort(fit[content[text]] if content[text] else fit)
                    rows[row] = similar[own.index(text)], fit.mean(), fit[:2].mean()

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Model and weights."""
        return self._tiger.signature_parts(context)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show which regions the words look at."""
        own = replace(sample, references=(sample.caption,))
        told = self._tiger.explain(own, context)
        score = float(self.stats(CaptionSet.of([sample]), context).rows[0, 0])
        lines = [f"scan {score:.4f}"]
        lines += [_one_side(line) for line in told.text.splitlines()[1:]]
        data = {k: v for k, v in told.data.items() if k not in ("tiger", "rrs", "wds")}
        parts = tuple(
            replace(
                part,
                title="what each word of the caption looks at",
                references=(),
                reference_texts=(),
                scores=(("scan", score),),
            )
            for part in told.parts
            if isinstance(part, RegionAttention)
        )
        return Explanation("\n".join(lines), {"score": score, **data}, parts)


def _one_side(line: str) -> str:
    """Leave out what is said of the references: the caption stands alone here."""
    before, mark, rest = line.partition(", references ")
    return before.replace("candidate", "weight") + rest[rest.index(";") :] if mark else line
