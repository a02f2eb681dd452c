"""VIFIDEL with a second opinion: the averages VIFIDEL+CIDEr and VIFIDEL+LM of the paper.

The paper averages "the two scores" and leaves their scales open. Here both lie in [0, 1] first:
CIDEr-D (0 to 10) is divided by 10, and the language model gives 1/perplexity, the geometric mean
of its word probabilities. So vifidel 0.40 and CIDEr-D 1.2 give (0.40 + 0.12)/2 = 0.26.

Where VIFIDEL or its partner cannot score a row, the average cannot either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.metrics.cider import CiderD
from captious.metrics.vifidel import Vifidel
from captious.text.vectors import DEFAULT
from captious.types import CaptionSet, Evidence, Floats, Sample

if TYPE_CHECKING:
    from captious.metrics.lm import Lm


@dataclass(frozen=True)
class _WithPartner(Metric):
    """What the two averages share; a subclass names its partner."""

    profile: str = "measured"
    vectors: str = DEFAULT
    references: int | None = None
    stop_words: str = "sklearn"
    no_objects: str = "undefined"

    modules: ClassVar[dict[str, str]] = Vifidel.modules
    renamed: ClassVar[dict[str, str]] = Vifidel.renamed
    scale: ClassVar[float] = 1.0  # largest value of the partner

    def __post_init__(self) -> None:
        self._vifidel  # noqa: B018 - its parameters are checked when the metric is named

    @property
    def _vifidel(self) -> Vifidel:
        return Vifidel(
            self.profile,
            self.vectors,
            self.references,
            stop_words=self.stop_words,
            no_objects=self.no_objects,
        )

    @property
    def _partner(self) -> Metric:
        raise TypeError(f"{type(self).__name__} must name its partner")

    @property
    def assets(self) -> tuple[str, ...]:
        """What its two parts need."""
        return self._vifidel.assets + self._partner.assets

    @property
    def inputs(self) -> tuple[Metric, ...]:
        """VIFIDEL and its partner."""
        return self._vifidel, self._partner

    def combine(self, parts: Sequence[Stats], contexts: Sequence[Any], evidence: Evidence) -> Stats:
        """Return the average of both scores per row."""
        mine, other = parts
        values = np.column_stack([mine.rows[:, 0], self._unit(other.rows)])
        return Stats(
            values.mean(axis=1, keepdims=True),
            other.reasons | mine.reasons,
            other.notes | mine.notes,
        )

    def _unit(self, rows: Floats) -> Floats:
        """The partner's first column, brought to [0, 1]."""
        return np.clip(self._partner.scores(rows)[:, 0] / self.scale, 0.0, 1.0)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name what both parts name."""
        return self._partner.signature_parts(context[1]) | self._vifidel.signature_parts(None)

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show the transport plan and the partner's value."""
        plan = self._vifidel.explain(sample, None)
        samples = CaptionSet.of([sample])
        mine = float(self._vifidel.stats(samples, None).rows[0, 0])
        other = float(self._unit(self._partner.stats(samples, context[1]).rows)[0])
        text = (
            f"{self.name} {(mine + other) / 2:.4f} = mean of vifidel {mine:.4f} and "
            f"{self._partner.name}, scaled to 0..1, {other:.4f}\n{plan.text}"
        )
        data = {"vifidel": mine, self._partner.name: other, **plan.data}
        return Explanation(text, data, plan.parts)


@dataclass(frozen=True)
class VifidelCider(_WithPartner):
    """Average of VIFIDEL and CIDEr-D/10: faithful to the image and worded like the references.

    Args:
        profile: of VIFIDEL.
        vectors: of VIFIDEL.
        references: how many references VIFIDEL uses (CIDEr-D uses all).
        stop_words: stop list of VIFIDEL.
        no_objects: of VIFIDEL.
        df: of CIDEr-D: ``corpus``, ``coco-val`` or a file.
        by: of CIDEr-D: what one document is in corpus mode, ``image`` or ``row``.
    """

    df: str = "corpus"
    by: str = "image"

    name: ClassVar[str] = "vifidel_cider"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_OBJECTS, Need.REFERENCES})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("vifidel_cider", 0.0, 1.0, "mean of VIFIDEL and CIDEr-D/10"),
    )
    scale: ClassVar[float] = 10.0

    @property
    def _partner(self) -> CiderD:
        return CiderD(df=self.df, by=self.by)


@dataclass(frozen=True)
class VifidelLm(_WithPartner):
    """Average of VIFIDEL and the caption language model's 1/perplexity: faithful and fluent.

    Args:
        profile: of VIFIDEL.
        vectors: of VIFIDEL.
        references: how many references VIFIDEL uses.
        stop_words: stop list of VIFIDEL.
        no_objects: of VIFIDEL.
        model: folder of a language model made by ``captious train lm``; the shipped one if None.
    """

    model: str | None = None

    name: ClassVar[str] = "vifidel_lm"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_OBJECTS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("vifidel_lm", 0.0, 1.0, "mean of VIFIDEL and 1/perplexity of the caption"),
    )
    modules: ClassVar[dict[str, str]] = {**Vifidel.modules, "torch": "neural"}
    empty: ClassVar[float] = float("nan")  # VIFIDEL says 0, the language model a tiny value

    @property
    def _partner(self) -> Lm:
        from captious.metrics.lm import Lm

        return Lm(self.model)
