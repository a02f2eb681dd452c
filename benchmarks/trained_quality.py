"""Quality of the models we train, on any split: what the model cards state for the test split.

    python benchmarks/trained_quality.py scan FOLDER --data FLICKR8K --regions REGIONS
    python benchmarks/trained_quality.py vilbert FOLDER --data FLICKR8K --regions REGIONS

FLICKR8K holds the files as distributed. FOLDER is what ``captious train`` wrote; for ViLBERT it
must hold ``run/`` still: its weights are measured as they were trained, in full precision.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import kendalltau

from captious.evidence.region_formats import open_regions
from captious.models import scan as scan_model
from captious.models.image_text import WordPieces
from captious.models.vilbert import Vilbert
from captious.models.vilbert_heads import Heads
from captious.training import scan_run, vilbert_judge, vilbert_run
from captious.training.scan import nearest
from captious.training.vilbert import COMPACT
from captious.training.vilbert_batches import VilbertData, VilbertOptions
from captious.training.whitened import Whitening


def scan(folder, store, captions, splits):
    model, words = scan_model.load(folder)
    names = splits["dev"]
    features = scan_run.gather(store, names)
    return scan_run.recalls(model, features, [captions[name] for name in names], words)


def vilbert(folder, store, captions, splits):
    options = VilbertOptions()
    whitening = Whitening.sampled(vilbert_run.gather(store, splits["train"])[0], options.whitened)
    features, boxes = vilbert_run.gather(store, splits["dev"])
    texts = [captions[name] for name in splits["dev"]]
    pieces = WordPieces(None, COMPACT.vocab_size)
    ids = [[one.ids for one in pieces.tokenize(some, options.longest)] for some in texts]
    teacher = scan_run.sentence_vectors("minilm", texts)
    nothing = whitening(torch.zeros(1, 1, store.dim))[0].float()
    near = nearest(teacher, 20)
    data = VilbertData(whitening.blocks(features), boxes, ids, near, teacher, nothing)
    state = torch.load(folder / "run" / "best.pt", weights_only=True)
    model = Vilbert(replace(COMPACT, v_feature_size=options.whitened))
    model.load_state_dict(state["model"])
    heads = Heads(model.config)
    heads.load_state_dict(state["heads"])
    model.eval(), heads.eval()
    judge = vilbert_judge.DevJudge(data, pieces.masking()[1], len(texts))

    def vectors(some):
        return scan_run.sentence_vectors("minilm", some)

    machine = vilbert_judge.MachineJudge(texts, near, pieces, vectors, len(texts))
    graded = {}
    for name, seen in (("image", data), ("blank", vilbert_judge.blinded(data))):
        graded[f"machine_{name}"] = machine.scores(model, seen)
        scores = judge.scores(model, seen)
        graded[f"grades_4_{name}"] = grades(scores)
        graded[f"grades_3_{name}"] = grades(scores[:, 1:])  # captions of other photographs
    return {**judge(model, heads), **graded, **vilbert_judge.recalls(model, heads, data, 100)}


def grades(scores):
    """tau-c of scores with how near the photograph is that the caption belongs to."""
    wanted = np.tile(np.arange(scores.shape[1], 0, -1), len(scores))
    return float(kendalltau(scores.flatten(), wanted, variant="c").statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("scan", "vilbert"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--split", default="test")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sources = scan_run.Sources(
        captions=args.data / "Flickr8k.token.txt",
        regions=args.regions,
        train=args.data / "Flickr_8k.trainImages.txt",
        dev=args.data / f"Flickr_8k.{args.split}Images.txt",
    )
    captions, splits = scan_run.read_captions(sources)
    judge = {"scan": scan, "vilbert": vilbert}[args.model]
    print(judge(args.folder, open_regions(args.regions), captions, splits))


if __name__ == "__main__":
    main()
