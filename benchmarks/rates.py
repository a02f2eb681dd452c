"""Captions per second and core for every metric, and what a billion of them would cost.

    python benchmarks/rates.py [--data FOLDER] [--metrics NAME ...] [--seconds 4]

One thread, processor seconds (so other jobs matter little), models loaded and machine
code compiled before, caches empty otherwise. Reference-based metrics: captions of COCO val2014 with
five references each. Metrics that look: one caption per photograph of Flickr8k, detection and
region features made on the way, which is nearly all of their cost; more captions of the same
photograph cost little.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from classic import DATA, read

os.environ["OMP_NUM_THREADS"] = "1"
MOST_PHOTOGRAPHS = 48


def samples_for(metric, size: int, data: Path):
    from captious.metrics.base import Need
    from captious.types import CaptionSet

    ids, captions, references = read(data, "Vinyals-et-al-2017")
    held = {"ids": [str(i) for i in ids[:size]]}
    if metric.needs & {Need.IMAGE_PIXELS, Need.IMAGE_OBJECTS, Need.IMAGE_REGIONS}:
        root = data / "flickr8k" / "images"
        names = sorted(root.iterdir())[:size]
        return CaptionSet.build(captions[: len(names)], references[: len(names)],
                                images=[str(n) for n in names])  # fmt: skip
    return CaptionSet.build(captions[:size], references[:size], **held)


def measure(name: str, seconds: float, data: Path) -> tuple[int, float]:
    """Return captions and processor seconds."""
    from captious import registry
    from captious.engine.run import run
    from captious.metrics.base import Need

    metric = registry.create(name)
    looks = metric.needs & {Need.IMAGE_PIXELS, Need.IMAGE_OBJECTS, Need.IMAGE_REGIONS}
    size, spent = 8, 0.0
    run(samples_for(metric, 4, data), [metric], resamples=0)  # loads models
    most = MOST_PHOTOGRAPHS if looks else 40_000
    while True:
        samples = samples_for(metric, size + 4, data)[4:]
        start = time.process_time()
        run(samples, [metric], resamples=0)
        spent = time.process_time() - start
        if spent > seconds / 2 or size >= most:
            return len(samples), spent
        size = min(most, int(size * min(8.0, max(2.0, seconds / max(spent, 1e-3)))))


def compile_kernels(data: Path) -> None:
    """Score so many captions that the functions for many are compiled, which happens once."""
    import captious

    _, captions, references = read(data, "Vinyals-et-al-2017")
    captious.score(
        captions[:6_000], references[:6_000], metrics="bleu,rouge_l,cider_d", intervals=False
    )


def main() -> None:
    from captious import registry, settings
    from captious.errors import CaptiousError

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--metrics", nargs="+")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    compile_kernels(args.data)
    print("| metric | captions/s per core | core-hours for a billion |\n|---|---|---|")
    for name in args.metrics or registry.names():
        with (
            tempfile.TemporaryDirectory() as folder,
            settings.use(cache_dir=Path(folder), threads=1, progress=False),
        ):
            try:
                count, spent = measure(name, args.seconds, args.data)
            except CaptiousError as err:
                print(f"| `{name}` | not measured: {str(err).splitlines()[0][:60]} | |", flush=True)
                continue
        rate = count / spent
        print(f"| `{name}` | {rate:,.3g} | {1e9 / rate / 3600:,.3g} |", flush=True)


if __name__ == "__main__":
    main()
