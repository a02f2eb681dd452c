"""Scores in NeMo Curator: ``pipeline.add_stage(captious.compat.nemo_curator.stage(["bleu"]))``.

A stage over ``DocumentBatch`` tasks. The scorer travels to the workers as its arguments; each loads
its models once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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

    made = Scorer(metrics, columns, df, device)

    class CaptiousStage(ProcessingStage):  # type: ignore[misc]
        name = "captious"

        def inputs(self) -> tuple[list[str], list[str]]:
            return ["data"], list((columns or {}).values())

        def outputs(self) -> tuple[list[str], list[str]]:
            return ["data"], [field.name for field in made.fields]

        def process(self, task: Any) -> Any:
            scored = made(task.to_pyarrow())
            # A task of Curator 1.4 gets its id from the executor, one of 1.0 keeps it.
            held = scored if isinstance(task.data, pa.Table) else scored.to_pandas()
            return replace(task, data=held)

    return CaptiousStage()
