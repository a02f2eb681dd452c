"""Speed of region extraction: photographs per second, processor time, and what faster roads cost.

    python benchmarks/regions_speed.py PHOTOS [--images 64] [--roads onnxruntime torch detector]
    python benchmarks/regions_speed.py PHOTOS --roads onnxruntime int8 openvino-bf16 \
        --captions CAPTIONS.txt

Every road extracts the same photographs. ``onnxruntime`` is what captious does, ``torch`` what it
falls back to, ``detector`` adds the boxes of the default detector, ``imagenet`` makes the features
that ViLBERT reads (photographs in their own shape). Two roads are measured here and
not offered: ``int8`` are the same networks quantised by ONNX Runtime (static, per channel,
calibrated on the demo photographs), ``openvino-bf16`` needs the package openvino. For those the
mean cosine of their features with the default's is printed and, with ``--captions`` (IMAGE#N TAB
CAPTION), the retrieval of `fit` and SCAN on their features. On a busy machine trust the processor
time; two cores do 2,000 / milliseconds photographs a second at best.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from captious import assets, demo, settings
from captious.evidence import backbones, extract
from captious.evidence.detect import DEFAULT
from captious.evidence.images import find_images, open_image
from captious.evidence.regions import MemoryRegions

ROADS = ("onnxruntime", "torch", "detector", "imagenet", "int8", "openvino-bf16")


def measure(maker, photos):
    """Regions by name, seconds on the clock and of processor per photograph."""
    for _ in extract.extract_many(photos[:2], maker):
        pass
    wall, busy = time.perf_counter(), time.process_time()
    sets = dict(extract.extract_many(photos, maker))
    times = (time.perf_counter() - wall) / len(photos), (time.process_time() - busy) / len(photos)
    return sets, *times


def maker_of(road, folder):
    maker = extract.extractor_of(extract.DEFAULT_KIND)
    if road == "detector":
        names = [backbone.name for backbone in maker.backbones]
        return extract.extractor(names, detect=DEFAULT, side=maker.side)
    if road == "imagenet":
        return extract.extractor()
    for backbone in maker.backbones:
        if road == "torch":
            backbone._run = backbones._torch_runner(backbone.name, backbone._path())
        elif road == "int8":
            backbone._run = _session(_quantised(backbone.name, folder))
        elif road == "openvino-bf16":
            backbone._run = _openvino(backbone.name)
    return maker


def _session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda batch: np.asarray(session.run(None, {"pixels": batch})[0], np.float32)


def _quantised(name, folder):
    from onnxruntime.quantization import CalibrationDataReader, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Demo(CalibrationDataReader):
        def __init__(self):
            self.files = iter(find_images(Path(demo.__file__).parent / "photos"))

        def get_next(self):
            file = next(self.files, None)
            return None if file is None else {"pixels": _pixels(open_image(file))}

    plain, target = folder / f"{name}.onnx", folder / f"{name}-int8.onnx"
    graph = backbones._exported(name, assets.resolve(name))
    quant_pre_process(str(graph), str(plain), skip_symbolic_shape=True)
    quantize_static(str(plain), str(target), Demo(), per_channel=True)
    return target


def _pixels(image):
    side = extract.extractor_of(extract.DEFAULT_KIND).side
    pixels = np.asarray(image.resize((side, side)), np.float32)
    return np.ascontiguousarray(((pixels - 127.0) / 128.0).transpose(2, 0, 1)[None], np.float32)


def _openvino(name):
    import openvino

    core = openvino.Core()
    model = core.read_model(str(backbones._exported(name, assets.resolve(name))))
    hints = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    network = core.compile_model(model, "CPU", hints)
    return lambda batch: np.array(network.create_infer_request().infer({0: batch})[0], np.float32)


def cosine(sets, others):
    values = []
    for name, regions in sets.items():
        a, b = (np.asarray(s.features, np.float32) for s in (regions, others[name]))
        values.append((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))
    return float(np.mean(values))


def recalls(sets, captions):
    """Retrieval with one caption per photograph, by `fit` and by SCAN."""
    from captious.models import fit, scan
    from captious.training import fit as fit_training
    from captious.training import scan_run

    store, names = MemoryRegions(sets, "measured"), list(sets)
    texts = [captions[name][:1] for name in names]
    model = fit.load()
    vectors = model.images([store[name] for name in names]), model.texts([t[0] for t in texts])
    found = {"fit": fit_training.recalls(*vectors, torch.arange(len(names)))}
    network, words = scan.load(assets.resolve("scan-coco"))
    found["scan"] = scan_run.recalls(network, scan_run.gather(store, names), texts, words)
    return "; ".join(
        f"{model} captions R@1/5 {r['captions_r1']} {r['captions_r5']}, images {r['images_r1']} "
        f"{r['images_r5']}, sum {r['rsum']}"
        for model, r in found.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--roads", nargs="+", choices=ROADS, default=list(ROADS[:4]))
    parser.add_argument("--captions", type=Path)
    args = parser.parse_args()
    captions = None
    if args.captions is not None:
        from captious.training.scan_run import read_lines

        captions = read_lines(args.captions)
    photos = [(path.name, path) for path in find_images(args.photos)[: args.images]]
    print(f"{len(photos)} photographs, {settings.get().threads} threads")
    first = None
    with tempfile.TemporaryDirectory() as cache, settings.use(cache_dir=Path(cache)):
        for road in args.roads:
            few = (
                photos
                if road in ("onnxruntime", "imagenet", "int8", "openvino-bf16")
                else photos[:16]
            )
            sets, wall, busy = measure(maker_of(road, Path(cache)), few)
            line = f"{road}: {1 / wall:.1f} photographs/s, {1000 * busy:.0f} ms of processor each"
            if first is None:
                first = sets
            elif road not in ("detector", "imagenet"):
                line += f"; mean cosine with {args.roads[0]} {cosine(sets, first):.4f}"
            print(line, flush=True)
            if captions is not None and len(few) == len(photos):
                print(f"  {recalls(sets, captions)}", flush=True)


if __name__ == "__main__":
    main()
