"""SPIDEr: the mean of SPICE and CIDEr-D.

Liu et al. 2017. (SPICE + CIDEr-D) / 2 per caption and for the corpus, CIDEr-D on its own scale of
0 to 10, so that it dominates; this is how the score is defined and reported.

Worked example: SPICE 0.2 and CIDEr-D 1.1 give 0.65.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.metrics.cider import CiderD
from captious.metrics.spice import Spice
from captious.types import CaptionSet, Evidence, Sample


@dataclass(frozen=True)
class Spider(Metric):
    """SPIDEr: mean of SPICE (0..1) and CIDEr-D (0..10).

    Args:
        model: the parser of SPICE.
        tables: of SPICE.
        df: of CIDEr-D: ``corpus``, ``coco-val`` or a file.
        by: of CIDEr-D: what one document is in corpus mode, ``image`` or ``row``.
        tokenizer: of both.
    """

    model: str = "default"
    tables: str | None = None
    df: str = "corpus"
    by: str = "image"
    tokenizer: str = "ptb"

    name: ClassVar[str] = "spider"
    renamed: ClassVar[dict[str, str]] = {"parser": "model"}
    columns: ClassVar[tuple[Column, ...]] = (
        Column("spider", 0.0, 5.5, "mean of SPICE and CIDEr-D"),
    )
    modules: ClassVar[dict[str, str]] = Spice.modules
    batch: ClassVar[int] = Spice.batch

    def __post_init__(self) -> None:
        self._cider  # noqa: B018 - its parameters are checked when the metric is named

    @property
    def _spice(self) -> Spice:
        return Spice(self.model, self.tables, self.tokenizer)

    @property
    def _cider(self) -> CiderD:
        return CiderD(df=self.df, by=self.by, tokenizer=self.tokenizer)

    @property
    def assets(self) -> tuple[str, ...]:
        """What its two parts need."""
        return self._spice.assets + self._cider.assets

    @property
    def inputs(self) -> tuple[Metric, ...]:
        """SPICE and CIDEr-D."""
        return self._spice, self._cider

    def combine(self, parts: Sequence[Stats], contexts: Sequence[Any], evidence: Evidence) -> Stats:
        """Return the mean of the two scores of each caption."""
        spice, cider = parts
        rows = (spice.rows[:, :1] + cider.rows[:, :1]) / 2
        notes = {k: v for k, v in spice.notes.items() if "undefined" not in k}
        return Stats(rows, cider.reasons | spice.reasons, cider.notes | notes)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name what its two parts name."""
        return self._cider.signature_parts(context[1]) | self._spice.signature_parts(None)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Put the two explanations together; the drawing is that of the scene graphs."""
        cider = self._cider.explain(sample, context[1])
        spice = self._spice.explain(sample, None)
        samples = CaptionSet.of([sample])
        values = self._cider.stats(samples, context[1]).rows[0, 0], spice.data["scores"]["spice"]
        score = float(np.mean(values))
        return Explanation(
            f"spider {score:.4f}\n{spice.text}\n{cider.text}",
            {"score": score, "spice": spice.data, "cider_d": cider.data},
            (*spice.parts, *cider.parts),
        )
