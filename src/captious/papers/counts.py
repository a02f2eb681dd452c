"""Sizes of data that the papers print, beside those of the files that are here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from captious.errors import InputError
from captious.judgements.judgement_set import Pairs
from captious.meta import agreement
from captious.papers.analyses import Analysis, left_out
from captious.papers.bench import Bench, lacking_files
from captious.papers.paper_tables import reported
from captious.reading import read_parquet

# The judgement set that a count belongs to, by the first word of its name.
_SETS = {"composite": "composite", "flickr8k": "flickr8k-expert", "validation": "flickr8k-expert",
         "pascal": "pascal50s"}  # fmt: skip


def _analysis(
    title: str,
    printed: dict[str, float],
    ours: dict[str, Callable[[], float]],
    reasons: dict[str, str],
    remarks: list[str],
) -> Analysis:
    cells = [["what", "paper", "here"]]
    why: dict[str, str] = {}
    for key, value in printed.items():
        mine = "-"
        if key in ours:
            try:
                mine = f"{ours[key]():,.4g}" if value < 10 else f"{ours[key]():,.0f}"
            except InputError as err:
                why[key] = lacking_files(err, _SETS.get(key.partition("_")[0], "the paper"))
        else:
            why[key] = reasons[key]
        cells.append([key.replace("_", " "), f"{value:,g}" if value < 10 else f"{value:,}", mine])
    return Analysis(title, cells, [*remarks, *left_out(why)])


def tiger(bench: Bench) -> Analysis:
    """TIGEr: sizes of the three sets, agreement of the experts."""

    def composite(part: str) -> float:
        judged = bench.judged("composite")
        groups = judged.groups if judged.groups is not None else np.zeros(0)
        return float((groups == part).sum()) / (3 if part else 1)

    def references(count: int) -> float:
        judged = bench.judged("pascal50s")
        pool = judged.pool if judged.pool is not None else judged.samples
        _, first = np.unique(judged.units.astype(str), return_index=True)
        return float((pool.reference_counts[first] == count).sum())

    def pairs() -> float:
        judged = bench.judged("pascal50s").judged
        return float(len(judged.first)) if isinstance(judged, Pairs) else 0.0

    expert = "flickr8k-expert"
    return _analysis(
        "TIGEr: sizes of the data",
        reported()["tiger"]["dataset_counts"],
        {
            "composite_total": lambda: float(len(bench.judged("composite").samples)),
            "composite_coco_images": lambda: composite("coco"),
            "composite_flickr8k_images": lambda: composite("8k"),
            "composite_flickr30k_images": lambda: composite("30k"),
            "flickr8k_rows": lambda: float(len(bench.judged(expert).samples)),
            "flickr8k_removed": lambda: float(
                len(bench.judged(expert).samples) - len(bench.judged(expert).without_own().samples)
            ),
            "pascal_pairs": pairs,
            "pascal_images": lambda: float(len(set(bench.judged("pascal50s").units))),
            "pascal_images_50refs": lambda: references(50),
            "flickr8k_intercoder": lambda: agreement.ceiling(bench.judged(expert).without_own())[
                "tau-b, pairs of judges"
            ],
        },
        {
            "scan_training_images_claimed": "the paper's SCAN was trained on COCO; what ours "
            "was trained on stands on its card (src/captious/weights/scan-coco/README.md)"
        },
        [
            "agreement of the experts: Kendall's tau-b, mean over pairs of judges, without "
            "the 158 rows that are their own reference (the paper does not name its measure)"
        ],
    )


def composite(bench: Bench) -> Analysis:
    """Sharif et al.: sizes of training, validation and test data."""

    def flickr30k() -> float:
        path = bench.root / "flickr30k/captions.parquet"
        return float(len(read_parquet(path)))

    return _analysis(
        "Sharif et al.: sizes of the data",
        reported()["composite"]["counts"],
        {
            "flickr30k_images": flickr30k,
            "validation_captions": lambda: float(len(bench.judged("flickr8k-expert").samples)),
        },
        {
            "training_captions": "the captions of its three captioners were never released; ours "
            "are trained on COCO val2014 (docs/results-composites.md)",
            "coco_trainval_images": "its captioners were trained on these; we train none",
            "test_captions": "6,993 captions are no part of COMPOSITE that could be named: Table 1 "
            "takes all 11,985",
        },
        [],
    )
