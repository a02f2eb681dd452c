"""Scores in NeMo Curator: ``pipeline.add_stage(captious.compat.nemo_curator.stage(["bleu"]))``.

A stage over ``DocumentBatch`` tasks; the scorer is made in ``setup``, once per worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from captious.batch import Scorer


def stage(
    metrics: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
    device: str | None = None,
) -> Any:
    """Return a processing stage that adds one column per score, signature and error."""
    from nemo_curator.stages.base import ProcessingStage
    from nemo_curator.tasks import DocumentBatch

    made = Scorer(metrics, columns, df, device)

    class CaptiousStage(ProcessingStage):  # type: ignore[misc]
        name = "captious"

        def inputs(self) -> tuple[list[str], list[str]]:
            return ["data"], list((columns or {"caption": "caption"}).values())

        def outputs(self) -> tuple[list[str], list[str]]:
            return ["data"], [field.name for field in made.fields]

        def setup(self, worker_metadata: Any = None) -> None:
            self.scorer = made

        def process(self, task: Any) -> Any:
            scored = self.scorer(pa.Table.from_pandas(task.to_pandas(), preserve_index=False))
            return DocumentBatch(
                task_id=task.task_id,
                dataset_name=task.dataset_name,
                data=scored.to_pandas(),
                _metadata=task._metadata,
                _stage_perf=task._stage_perf,
            )

    return CaptiousStage()
