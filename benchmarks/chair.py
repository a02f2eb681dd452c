"""CHAIR of the captioners of COCO val2014 and of M2, BLIP-2 and LLaVA on the Karpathy test images.

    python benchmarks/chair.py --data ../shared/data

Objects: coco/val2014_objects.parquet, which joins instances with the nouns of the references.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pyarrow.parquet as pq

from captious.metrics.chair import Chair
from captious.types import CaptionSet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data / "coco"
    objects = pq.read_table(folder / "val2014_objects.parquet").to_pydict()
    labels = dict(zip(map(str, objects["image_id"]), map(tuple, objects["objects"]), strict=True))
    people = pq.read_table(folder / "val2014_captions.parquet").to_pydict()
    systems = pq.read_table(folder / "val2014_systems.parquet").to_pydict()
    modern = pq.read_table(folder / "karpathy_test_systems.parquet").to_pydict()
    runs = [(name, systems["image_id"], systems[name]) for name in systems if name != "image_id"]
    runs += [
        (name, modern["image_id"], modern[name])
        for name in modern
        if name not in ("image_id", "references")
    ]
    runs.append(("people, first caption", people["image_id"], [c[0] for c in people["captions"]]))
    print("| captions of | images | CHAIRs | CHAIRi | recall | F1 | cut off | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    metric = Chair()
    for name, images, captions in runs:
        samples = CaptionSet.build(captions, images=[str(i) for i in images]).with_labels(labels)
        began = time.process_time()
        stats = metric.stats(samples, None)
        took = time.process_time() - began
        values = " | ".join(f"{100 * value:.1f}" for value in metric.aggregate(stats.rows))
        cut = sum(count for remark, count in stats.notes.items() if "cut off" in remark)
        print(f"| {name} | {len(samples):,} | {values} | {cut:,} | {took:.2f} |", flush=True)


if __name__ == "__main__":
    main()
