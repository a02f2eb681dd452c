"""Which shift of the states helps: what ``captious train vilbert --look`` should teach.

    python benchmarks/looking_shift.py FOLDER --data FLICKR8K --regions REGIONS

FOLDER is a ViLBERT before that stage. Its text states in front of a blank photograph are moved by
the grounding model's own values, as if they had been learned perfectly, on dev photographs: tau-c
of F with four grades of relevance and with the three of captions of other photographs, and how
often F finds the better of two template captions (see ``MachineJudge``). No judgement of people
takes part.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F
from trained_quality import grades

from captious import assets
from captious.evidence.region_formats import open_regions
from captious.metrics.scan import FUNCTION_WORDS
from captious.models.image_text import WordPieces
from captious.models.vilbert_load import load_vilbert
from captious.training import scan_run, vilbert_judge
from captious.training.scan import nearest
from captious.training.vilbert_batches import VilbertData
from captious.training.vilbert_teacher import LookingTeacher

MIDDLES, LENGTHS, UNIT, LEAST, MOST = (1.5, 1.0, 0.75, 0.5, 0.0), (0.2, 0.25, 0.35), 1.5, -1.6, 2.0


def fits(teacher, rows):
    """What the grounding model finds of every piece, marks as the caption is."""
    out = []
    for row, (_, some, refs) in enumerate(rows):
        asked = [(row, k) for k in range(len(some) + len(refs))]
        for found in teacher(teacher.regions[0][row : row + 1].float(), [asked]):
            out.append(F.pad(found.fits, (1, 1), value=float(found.fits.mean())))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--regions", type=Path, required=True)
    parser.add_argument("--look", default="scan-coco")
    parser.add_argument("--images", type=int, default=300)
    args = parser.parse_args()
    torch.set_num_threads(1)
    captions, splits = scan_run.read_captions(
        scan_run.Sources(
            captions=args.data / "Flickr8k.token.txt",
            regions=args.regions,
            train=args.data / "Flickr_8k.trainImages.txt",
            dev=args.data / "Flickr_8k.devImages.txt",
        )
    )
    store, model = open_regions(args.regions), load_vilbert(args.folder)[0].eval()
    names = splits["dev"]
    texts = [list(captions[name]) for name in names]
    pieces = WordPieces(None, model.config.vocab_size)

    def vectors(some):
        return scan_run.sentence_vectors("minilm", some)

    near = nearest(vectors(texts), 20)
    ids = [[one.ids for one in pieces.tokenize(some, 40)] for some in texts]
    written = {
        i: t for some, own in zip(ids, texts, strict=True) for i, t in zip(some, own, strict=True)
    }
    blank = torch.zeros(1, 1, store.dim).expand(len(names), 1, -1)
    box = torch.tensor([[[0.0, 0, 1, 1, 1]]]).expand(len(names), 1, -1)
    data = VilbertData(blank, box, ids, near)
    people = vilbert_judge.DevJudge(data, pieces.masking()[1], args.images)
    machine = vilbert_judge.MachineJudge(texts, near, pieces, vectors, args.images)
    asked = [[written[t] for t in (*some, *refs)] for _, some, refs in people.rows]
    found = []
    for judge, said in ((people, asked), (machine, machine.texts)):
        spelled = [[pieces.spell(one) for one in pieces.tokenize(some, 40)] for some in said]
        teacher = LookingTeacher(
            assets.resolve(args.look, wanted_by="this"), [store], names[: len(said)], said, spelled,
            FUNCTION_WORDS,
        )  # fmt: skip
        still = vilbert_judge.text_states(model, data, vilbert_judge.pairs_of(judge.rows))
        found.append(([F.normalize(s, dim=-1) for s in still], fits(teacher, judge.rows)))
    draw = torch.Generator().manual_seed(0)
    direction = F.normalize(torch.randn(model.config.hidden_size, generator=draw), dim=0)
    print("middle length  4 grades  3 grades  machine")

    def show(middle, length):
        moved = [
            [s + length * ((z - middle) / UNIT).clamp(LEAST, MOST)[:, None] * direction
             for s, z in zip(still, fit, strict=True)]
            for still, fit in found
        ]  # fmt: skip
        f = [one.mean(1) for one in vilbert_judge.f_of(people.rows, moved[0], people.specials)]
        f = np.stack(f)
        print(f"{middle:6.2f} {length:6.2f}  {grades(f):8.4f}  {grades(f[:, 1:]):8.4f}  "
              f"{machine.agreement(moved[1]):7.4f}", flush=True)  # fmt: skip

    show(0.0, 0.0)
    for middle in MIDDLES:
        for length in LENGTHS:
            show(middle, length)


if __name__ == "__main__":
    main()
