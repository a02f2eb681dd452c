"""CIDEr-D as a reward: captious beside pycocoevalcap, per call.

    python benchmarks/rewards.py [--self-critical FOLDER]

FOLDER is a checkout of github.com/ruotianluo/cider, the scorer of self-critical training code: its
``CiderD`` then gets the same batches and document frequencies, in the same run.

A batch of 256 new captions with five references each, document frequencies frozen for all (counted
once on the references of 1,000 images). pycocoevalcap cuts and weighs the references on every call.
References are met before in the line ``captious``; in ``captious, new refs`` every call brings
references whose sentences no call had before, to a scorer that was not made with them. All values
are compared. Ours runs in machine code once that was made (the first run of a machine says that it
was not; a run of some 15,000 texts makes it). Times are medians of processor time
of this process, so that what else runs on the machine does not count; captious includes
tokenisation, pycocoevalcap gets tokens.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from pycocoevalcap.cider.cider_scorer import CiderScorer
from scorer import sentence

import captious
from captious.text import document_frequency, gram_kernels, ptb_batch
from captious.types import CaptionSet

BATCH, CALLS, IMAGES = 256, 15, 1000


class Frozen(CiderScorer):
    """pycocoevalcap's scorer with document frequencies that were counted before."""

    frequencies: Any = None
    documents = 0

    def compute_doc_freq(self) -> None:
        """Take what was counted."""
        self.document_frequency = self.frequencies

    def compute_score(self, option: Any = None, verbose: int = 0) -> Any:
        """Do the same without its check that the batch is the corpus."""
        self.compute_doc_freq()
        mine, self.crefs = self.crefs, _Sized(self.crefs, self.documents)
        scores = self.compute_cider()
        self.crefs = mine
        return np.mean(scores), np.array(scores)


class _Sized(list):
    """A list that says how many documents were counted; compute_cider takes the log of it."""

    def __init__(self, rows: Any, size: int) -> None:
        super().__init__(rows)
        self._size = size

    def __len__(self) -> int:
        return self._size


def self_critical(checkout: Path, frequencies: Any, documents: int) -> Any:
    """Return its ``CiderD`` with our frequencies; it reads them from ``data/`` where it runs."""
    sys.path.insert(0, str(checkout.resolve()))
    from pyciderevalcap.ciderD.ciderD import CiderD

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").mkdir()
        with (Path(folder) / "data" / "frozen.p").open("wb") as file:
            pickle.dump({"ref_len": documents, "document_frequency": frequencies}, file)
        os.chdir(folder)
        try:
            return CiderD(df="frozen")
        finally:
            os.chdir(here)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--self-critical", type=Path, help="a checkout of ruotianluo/cider")
    given = parser.parse_args()
    rng = random.Random(11)
    references = [[sentence(rng)[:-1] for _ in range(5)] for _ in range(IMAGES)]
    counted = CiderScorer()
    for listed in references:
        counted += (None, listed)
    counted.compute_doc_freq()
    Frozen.frequencies = defaultdict(float, counted.document_frequency)
    Frozen.documents = IMAGES
    judge = captious.scorer("cider_d", references=references, df="corpus")
    held = CaptionSet.build([""] * IMAGES, references)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "df.npz"
        document_frequency.count(held, "ptb", False, "row").save(file)
        fresh = captious.scorer("cider_d", df=str(file), remember=0)
    took: dict[str, list[float]] = {"pycocoevalcap": [], "captious": [], "captious, new refs": []}
    critic = None
    if given.self_critical:
        critic = self_critical(given.self_critical, Frozen.frequencies, IMAGES)
        took["ruotianluo/cider"] = []
    worst = 0.0
    for _ in range(CALLS):
        at = rng.sample(range(IMAGES), BATCH)
        captions = [sentence(rng)[:-1] for _ in at]
        listed = [references[i] for i in at]
        begin = time.process_time()
        theirs = Frozen()
        for caption, refs in zip(captions, listed, strict=True):
            theirs += (caption, refs)
        _, expected = theirs.compute_score()
        took["pycocoevalcap"].append(time.process_time() - begin)
        begin = time.process_time()
        found = judge(captions, listed)["cider_d"]
        took["captious"].append(time.process_time() - begin)
        new = [[sentence(rng)[:-1] for _ in range(5)] for _ in captions]
        begin = time.process_time()
        found_new = fresh(captions, new)["cider_d"]
        took["captious, new refs"].append(time.process_time() - begin)
        again = Frozen()
        for caption, refs in zip(captions, new, strict=True):
            again += (caption, refs)
        worst = max(worst, float(np.abs(found_new - again.compute_score()[1]).max()))
        worst = max(worst, float(np.abs(found - expected).max()))
        if critic is not None:
            begin = time.process_time()
            gts = dict(enumerate(listed))
            res = [{"image_id": i, "caption": [text]} for i, text in enumerate(captions)]
            _, theirs_too = critic.compute_score(gts, res)
            took["ruotianluo/cider"].append(time.process_time() - begin)
            worst = max(worst, float(np.abs(found - theirs_too).max()))
    medians = {name: 1000 * statistics.median(times) for name, times in took.items()}
    kept = gram_kernels._kernels._file.exists() and ptb_batch._kernels._file.exists()
    print(f"machine code: {'kept' if kept else 'not made yet on this machine, plain Python'}")
    for name, ms in medians.items():
        ratio = medians["pycocoevalcap"] / ms
        print(f"{name:20} {ms:8.2f} ms per call of {BATCH}, {ratio:5.1f} x pycocoevalcap")
    print(f"largest difference of a value: {worst:.1e}")


if __name__ == "__main__":
    main()
