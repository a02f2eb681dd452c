"""CLIP over photographs: Data-Juicer's own filter, one sample per forward pass, beside ours.

    python benchmarks/clip_batches.py [--data ../shared/data] [--rows 48]

Where Data-Juicer is installed: its ``image_text_similarity_filter`` and ``captious.batch.Scorer``
with ``clipscore`` (which ``compat/data_juicer.py`` runs) get the same photographs, captions and
network: a CLIP of the shape of ViT-B/32 with random weights, which take as long as trained ones.
Decoding and preparing the pictures is part of both. Processor seconds of one thread; on a GPU,
where a pass over one sample leaves most of it idle, the ratio is another one. The cosines of both
are compared; they are not equal to the last digit, because transformers and we cut a crop of odd
margin one pixel apart.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from classic import DATA

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))


def save_model(folder: Path, tiny: bool) -> float:
    """Write the network; return its scale of cosines."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

    import tiny_models

    words = tiny_models.vocabulary()
    end = words["<|endoftext|>"]
    tokenizer = CLIPTokenizer(vocab=words, merges=tiny_models.merges(), model_max_length=77)
    marks = {"bos_token_id": end - 1, "eos_token_id": end, "pad_token_id": end}
    text, vision = {"vocab_size": len(words), **marks}, {}
    if tiny:
        small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        small["num_attention_heads"] = 2
        text, vision = text | small, small
    config = CLIPConfig(text_config=text, vision_config=vision)
    torch.manual_seed(1)
    model = CLIPModel(config)
    model.save_pretrained(folder)
    CLIPProcessor(CLIPImageProcessor(), tokenizer).save_pretrained(folder)
    return math.exp(model.logit_scale.item())


def data_juicer(folder: Path, images: list[str], captions: list[str]) -> tuple[list[float], float]:
    """Return its similarities and the processor seconds."""
    from data_juicer.ops.filter.image_text_similarity_filter import ImageTextSimilarityFilter
    from data_juicer.utils.constant import Fields, StatsKeys
    from data_juicer.utils.mm_utils import SpecialTokens

    op = ImageTextSimilarityFilter(hf_clip=str(folder))

    def samples(some: slice) -> dict:
        texts = [f"{SpecialTokens.image}{text} {SpecialTokens.eoc}" for text in captions[some]]
        stats = [{} for _ in texts]
        return {"text": texts, "images": [[i] for i in images[some]], Fields.stats: stats}

    op.compute_stats_batched(samples(slice(0, 1)))  # loads the model
    start = time.process_time()
    done = op.compute_stats_batched(samples(slice(0, None)))
    took = time.process_time() - start
    return [float(row[StatsKeys.image_text_similarity][0]) for row in done[Fields.stats]], took


def ours(folder: Path, images: list[str], captions: list[str]) -> tuple[list[float], float]:
    """Return our cosines and the processor seconds; no vector is known beforehand."""
    import pyarrow as pa

    from captious.batch import Scorer
    from captious.metrics.clipscore import ClipScore
    from captious.types import CaptionSet

    scorer = Scorer([f"clipscore(model='{folder}', prefix='')"])

    def rows(some: slice) -> pa.Table:
        return pa.table({"caption": captions[some], "image": images[some]})

    scorer(rows(slice(0, 1)))
    start = time.process_time()
    scorer(rows(slice(1, None)))
    took = (time.process_time() - start) * len(images) / (len(images) - 1)
    # A score is 0 where the cosine is negative, as many of random weights are.
    metric = ClipScore(str(folder), prefix="")
    return metric._pairs(CaptionSet.build(captions, images=images)).image.tolist(), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--tiny", action="store_true", help="a small network, to try this out")
    args = parser.parse_args()
    import torch

    from captious import settings

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    images = [str(p) for p in sorted((args.data / "flickr8k" / "images").iterdir())[: args.rows]]
    captions = [f"a dog number {n} on the beach" for n in range(len(images))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "clip"
        scale = save_model(folder, args.tiny)
        with settings.use(cache_dir=Path(name) / "cache", threads=1, progress=False):
            mine, took = ours(folder, images, captions)
        theirs, took_theirs = data_juicer(folder, images, captions)
    cosines = np.array(theirs) * 100 / scale
    gap = np.abs(cosines - np.array(mine)).max()
    rows = len(images)
    print(f"Data-Juicer, one per pass  {1000 * took_theirs / rows:7.1f} ms per pair")
    print(f"captious, in batches       {1000 * took / rows:7.1f} ms per pair")
    print(f"ratio {took_theirs / took:.2f}; largest difference of a cosine {gap:.1e}")


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
