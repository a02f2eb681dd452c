"""Analyses beyond the papers: captions that are spoilt, captioners that are strong."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from captious.errors import InputError
from captious.judgements.judgement_set import Checks
from captious.judgements.sets import flickr8k
from captious.judgements.sets._files import picture
from captious.meta import diagnostics, robustness
from captious.papers.analyses import Analysis, left_out, wanted
from captious.papers.bench import Bench
from captious.perturb import edits
from captious.reading import read_parquet
from captious.types import CaptionSet


def robustness_suite(
    bench: Bench, images: int = 1000, only: tuple[str, ...] | None = None
) -> Analysis:
    """Our robustness suite: one thing in a correct caption is spoilt."""
    samples = held_out_captions(bench.root, images)
    specs, why = wanted(bench, only)
    probed = [p for s in specs for p in robustness.probe(samples, bench.scorer(s))]
    kinds = list(edits.KINDS)
    sizes = {p.kind: p.n for p in probed}
    cells = [["metric", *kinds], ["captions", *(f"{sizes.get(k, 0):,}" for k in kinds)]]
    for metric in dict.fromkeys(p.metric for p in probed):
        mine = {p.kind: p for p in probed if p.metric == metric}
        cells.append(
            [
                metric,
                *(
                    f"{100 * mine[k].accuracy:.1f} ({mine[k].fall:+.2f})" if k in mine else "-"
                    for k in kinds
                ),
            ]
        )
    return Analysis(
        "Robustness: one thing in a correct caption is spoilt",
        cells,
        [
            "percent of captions whose untouched form scores higher, ties half (mean fall in "
            "standard deviations of the score)",
            "first caption of each Flickr8k test image against its other four; our own word lists",
            *left_out(why),
        ],
    )


def saturation(bench: Bench, images: int = 1000, only: tuple[str, ...] | None = None) -> Analysis:
    """Our saturation test: do metrics still see a difference between people and captioners?"""
    path = bench.root / "coco/karpathy_test_systems.parquet"
    if not path.exists():
        raise InputError(f"{path} was not found")
    content = read_parquet(path).slice(0, images).to_pydict()
    references = content.pop("references")
    names = [str(i) for i in content.pop("image_id")]
    specs, why = wanted(bench, only)
    human, others = [r[0] for r in references], [r[1:] for r in references]
    saturations = [
        s
        for spec in specs
        for s in diagnostics.saturation(content, human, others, names, bench.scorer(spec))
    ]
    systems = list(content)
    cells = [["metric", *(f"{s}: mean, above human" for s in systems), "human: mean"]]
    for s in saturations:
        both = (f"{s.means[x]:.3f}, {100 * s.above_human[x]:.0f} %" for x in systems)
        cells.append([s.metric, *both, f"{s.means['human']:.3f}"])
    values = np.array([[s.above_human[x] for x in systems] for s in saturations])
    return Analysis(
        "Saturation on strong captioners",
        cells,
        [
            f"first {images:,} images of COCO Karpathy-test; all are scored against the four "
            "captions that are left when one person's caption is set aside",
            "above 50 %: the metric prefers the machine's captions to a person's",
            "llava15_briefly is cut off by its length limit",
            *left_out(why),
        ],
        heat=([s.metric for s in saturations], systems, values, 0.5) if saturations else None,
    )


def held_out_captions(root: Path, images: int) -> CaptionSet:
    """Return the first caption of each Flickr8k test image, the other four as references."""
    path = root / "flickr8k/Flickr_8k.testImages.txt"
    if not path.exists():
        raise InputError(f"{path} was not found: the probes take captions of the test images")
    checks = Checks("flickr8k")
    names = path.read_text("utf-8").split()[:images]
    by_image = flickr8k.captions(root / "flickr8k/Flickr8k.token.txt", checks)[1]
    checks.stop_if_bad()
    return CaptionSet.build(
        [by_image[n][0].removesuffix(".").strip() for n in names],
        [by_image[n][1:] for n in names],
        ids=names,
        images=[picture(root / "flickr8k/images", n, checks) for n in names],
    )
