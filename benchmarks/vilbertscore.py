"""ViLBERTScore against the plain loop of the released script, on the same weights in one run.

    python benchmarks/vilbertscore.py                   # all three sizes, one thread
    python benchmarks/vilbertscore.py --size shipped --images 32 --threads 2

The plain loop has the structure of the released script: per caption and per reference of every item
one forward of the whole model with 37 pieces and all regions; then the similarity matrix. Weights
are random (the speed does not depend on them), captions are made up with the lengths of
Flickr8k's. Three sizes: ``shipped`` is the shape of ``vilbert-coco``, which the metric uses by
default, with the 36 regions of its extractor; ``compact`` is a wider one with 100 regions; ``full``
is the original, with 100 regions. Two arrangements: ``judged`` has six candidates and five
references per image, as Flickr8k-Expert (5,822 rows on 1,000 images); ``single`` has one candidate.
Loading is in neither time; ratios are of processor time. The largest difference of the scores is
printed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from captious.evidence.handles import MemoryHandle
from captious.evidence.regions import MemoryRegions, RegionSet
from captious.metrics.vilbertscore import Vilbertscore
from captious.models.vilbert import Vilbert
from captious.models.vilbert_config import VilbertConfig
from captious.models.vilbert_load import save_vilbert
from captious.types import CaptionSet, Evidence, Sample

TEXT = (
    "a the man woman dog two people in on with of red white black blue running sitting standing "
    "grass water street snow beach ball child boy girl shirt wearing playing jumps through field "
    "mountain bike rides holding looking at camera skateboarder brown large small near young"
)
COMPACT = VilbertConfig(
    hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
    v_hidden_size=384, v_num_hidden_layers=3, v_num_attention_heads=6, v_intermediate_size=384,
    bi_hidden_size=384, bi_num_attention_heads=6, v_biattention_id=(0, 1, 2),
    t_biattention_id=(3, 4, 5),
)  # fmt: skip
SHIPPED = replace(
    COMPACT, v_feature_size=2560, v_hidden_size=256, v_num_hidden_layers=2, v_num_attention_heads=4,
    v_intermediate_size=512, bi_hidden_size=256, bi_num_attention_heads=4,
    v_biattention_id=(0, 1, 2), t_biattention_id=(4, 5, 6),
)  # fmt: skip
SIZES = {"shipped": SHIPPED, "compact": COMPACT, "full": VilbertConfig()}
REGIONS = {"shipped": 36, "compact": 100, "full": 100}
LENGTH = 37


def caption(rng):
    return " ".join(rng.choice(TEXT.split(), max(4, round(rng.normal(11, 3.5)))))


def make_samples(images, candidates, rng, evidence):
    rows = []
    for image in range(images):
        references = tuple(caption(rng) for _ in range(5))
        rows += [Sample(f"{image}-{n}", caption(rng), references, f"{image}.jpg")
                 for n in range(candidates)]  # fmt: skip
    return replace(CaptionSet.of(rows), evidence=evidence)


def make_evidence(images, regions, dim, rng):
    def region_set():
        corner = rng.uniform(0, 300, (regions, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(20, 150, (regions, 2))], 1)
        features = rng.normal(size=(regions, dim)).astype(np.float32)
        return RegionSet(features, boxes.astype(np.float32), 500, 450)

    store = MemoryRegions({f"{n}.jpg": region_set() for n in range(images)}, "random")
    return Evidence(regions=(MemoryHandle(store),))


def released_structure(model, metric, samples):
    """One forward per text of an item; words only are compared, as in the clean profile."""
    encoder = metric.encoder()
    rows = []
    with torch.inference_mode():
        for one in samples:
            seen = encoder.see(one.image, metric.store(samples.evidence)[one.image])
            features, boxes = torch.tensor(seen.features)[None], torch.tensor(seen.boxes)[None]
            states = []
            for text in encoder.pieces.tokenize([one.caption, *one.references], LENGTH):
                ids = torch.zeros(1, LENGTH, dtype=torch.long)
                ids[0, : len(text.ids)] = torch.tensor(text.ids)
                mask = torch.zeros(1, LENGTH)
                mask[0, : len(text.ids)] = 1
                out = model(ids, mask, features, boxes).text[-1][0, 1 : 1 + text.words]
                states.append(torch.nn.functional.normalize(out, dim=-1))
            values = []
            for reference in states[1:]:
                cosine = states[0] @ reference.T
                p, r = cosine.amax(1).mean(), cosine.amax(0).mean()
                values.append([float(p), float(r), float(2 * p * r / (p + r))])
            rows.append(np.mean(values, axis=0))
    return np.array(rows)


def clock(work, *args):
    start, wall = time.process_time(), time.perf_counter()
    out = work(*args)
    return out, time.process_time() - start, time.perf_counter() - wall


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for size in SIZES if args.size == "all" else [args.size]:
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        with tempfile.TemporaryDirectory() as folder:
            path = save_vilbert(Vilbert(SIZES[size]), Path(folder) / "model")
            evidence = make_evidence(args.images, REGIONS[size], SIZES[size].v_feature_size, rng)
            metric = Vilbertscore(model=str(path))
            model = metric.encoder().model
            print(
                f"{size}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, "
                f"{args.threads} threads"
            )
            warm = make_samples(1, 1, rng, evidence)
            metric.stats(warm, None)
            released_structure(model, metric, warm[:1])
            for name, candidates in (("judged", 6), ("single", 1)):
                samples = make_samples(args.images, candidates, rng, evidence)
                ours, fast, fast_wall = clock(metric.stats, samples, None)
                theirs, slow, slow_wall = clock(released_structure, model, metric, samples)
                n = len(samples)
                print(
                    f"  {name:<7} {n:3} captions: plain {n / slow:7.2f}/s, captious "
                    f"{n / fast:7.2f}/s of processor; ratio {slow / fast:.2f}; on the clock "
                    f"{n / slow_wall:.2f}/s, {n / fast_wall:.2f}/s, {slow_wall / fast_wall:.2f}; "
                    f"largest difference "
                    f"{np.abs(ours.rows - theirs).max():.1e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
