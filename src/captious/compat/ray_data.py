"""Scores in Ray Data: ``dataset = captious.compat.ray_data.score(dataset, ["bleu", "cider_d"])``.

Every actor holds one :class:`captious.batch.Scorer`, so models are loaded once per worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from captious.batch import Scorer


def score(
    dataset: Any,
    metrics: str | Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    df: str = "coco-val",
    device: str | None = None,
    workers: int = 1,
    num_gpus: float = 0,
    batch_size: int = 4096,
    **options: Any,
) -> Any:
    """Return the dataset with one column per score, signature and error.

    Args:
        dataset: a ``ray.data.Dataset``.
        metrics: names or specs.
        columns: which column holds what; see :class:`captious.batch.Scorer`.
        df: document frequencies.
        device: where networks run.
        workers: how many actors.
        num_gpus: GPUs per actor, also a fraction.
        batch_size: rows per call.
        **options: anything else that ``map_batches`` takes.
    """
    import ray.data

    return dataset.map_batches(
        Scorer,
        fn_constructor_args=(metrics, dict(columns or {}), df, device),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_gpus=num_gpus,
        **options,
    )
