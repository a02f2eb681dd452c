"""Speed of region extraction: photographs per second, and processor time per photograph.

    python benchmarks/regions_speed.py PHOTOS [--images 64]

Runs the extractor on the same photographs through ONNX Runtime, through torch (what it falls back
to), and with boxes of the default detector, and prints the ratios. On a busy machine trust the
processor time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from captious import settings
from captious.evidence import extract
from captious.evidence.detect import DEFAULT
from captious.evidence.images import find_images


def measure(maker: extract.Extractor, photos: list[tuple[str, Path]]) -> tuple[float, float]:
    for _ in extract.extract_many(photos[:2], maker):
        pass
    wall, busy = time.perf_counter(), time.process_time()
    for _ in extract.extract_many(photos, maker):
        pass
    return (time.perf_counter() - wall) / len(photos), (time.process_time() - busy) / len(photos)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=64)
    args = parser.parse_args()
    photos = [(path.name, path) for path in find_images(args.photos)[: args.images]]
    with tempfile.TemporaryDirectory() as cache, settings.use(cache_dir=Path(cache)):
        fast = measure(extract.extractor(), photos)
        slow_maker = extract.extractor()
        for backbone in slow_maker.backbones:
            backbone._run = extract._torch_runner(backbone.name, backbone._path())
        slow = measure(slow_maker, photos[: max(8, args.images // 4)])
        found = measure(extract.extractor(detect=DEFAULT), photos[: max(8, args.images // 4)])
    threads = settings.get().threads
    for name, (wall, busy) in (
        ("onnxruntime", fast),
        ("torch", slow),
        (f"onnxruntime and {DEFAULT}", found),
    ):
        print(f"{name}: {1 / wall:.1f} photographs/s, {1000 * busy:.0f} ms of processor each")
    print(f"{threads} threads; processor time of torch / onnxruntime: {slow[1] / fast[1]:.2f}")
    print(f"processor time with the detector / without: {found[1] / fast[1]:.2f}")


if __name__ == "__main__":
    main()
