"""WMD against gensim's ``wmdistance``, and VIFIDEL's rate, in one run.

    pip install gensim
    python benchmarks/transport.py
    python benchmarks/transport.py --captions 100000 --slow 400

Both get the same vectors, words and references (Flickr8k-Expert, 5 references each); gensim gets
the words ready cut, captious cuts the captions itself and that is in its time. Distances are
compared too. VIFIDEL (no references) scores captions of nine captioners on COCO val2014 images
whose labels are known. Rates are of processor time on one thread; opening the vectors is in none.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from captious.metrics.vifidel import Vifidel
from captious.metrics.wmd import Wmd
from captious.text import stoplists, tokenizers, transport
from captious.text.vectors import open_vectors
from captious.types import CaptionSet

SHARED = Path(__file__).parents[1] / ".." / "shared"


def clock(work):
    """Return the result and the processor time, which other users of the machine do not change."""
    start = time.process_time()
    out = work()
    return out, time.process_time() - start


def gensim_vectors(words):
    """The vectors of these words, in gensim's own table."""
    from gensim.models import KeyedVectors

    table = open_vectors()
    rows = table.rows(words)
    known = [w for w, r in zip(words, rows, strict=True) if r >= 0]
    out = KeyedVectors(table.dim)
    out.add_vectors(known, table.matrix[rows[rows >= 0]])
    out.fill_norms()
    return out


def compare_wmd(slow: int) -> None:
    table = pq.read_table(SHARED / "golden/classic/flickr8k_expert.parquet")
    rows = table.select(["cand", "refs"]).to_pylist()
    cut, unwanted = tokenizers.get("ptb"), stoplists.stop_words("nltk")

    def words(text):
        return [w for w in cut(text) if w not in unwanted]

    small = rows[:: max(1, len(rows) // slow)][:slow]
    ready = [(words(r["cand"]), [words(t) for t in r["refs"]]) for r in small]
    keyed = gensim_vectors(sorted({w for c, refs in ready for t in [c, *refs] for w in t}))
    theirs, spent = clock(lambda: [min(keyed.wmdistance(c, t) for t in refs) for c, refs in ready])
    gensim_rate = len(ready) / spent

    def ours(part):
        samples = CaptionSet.build([r["cand"] for r in part], [r["refs"] for r in part])
        return Wmd().stats(samples, None).rows[:, 0]

    ours(rows[:10])
    same = np.abs(-np.log(ours(small)) - theirs)
    _, spent = clock(lambda: ours(rows))
    rate = len(rows) / spent
    print("WMD, 5 references, captions per second of one core")
    print(f"  gensim wmdistance {gensim_rate:9,.0f}   ({len(ready)} captions, words ready cut)")
    print(f"  captious wmd      {rate:9,.0f}   ({len(rows)} captions, tokenising included)")
    print(f"  ratio             {rate / gensim_rate:9.1f}")
    print(f"  largest difference of distances {np.nanmax(same):.1e}")


def vifidel_rate(count: int) -> None:
    systems = pq.read_table(SHARED / "data/coco/val2014_systems.parquet")
    texts, images = [], []
    for name in [c for c in systems.column_names if c != "image_id"]:
        texts += systems.column(name).to_pylist()
        images += systems.column("image_id").to_pylist()
    labels = pq.read_table(SHARED / "data/coco/val2014_objects.parquet").to_pydict()
    known = dict(zip(labels["image_id"], labels["objects"], strict=True))
    pick = np.random.default_rng(0).permutation(len(texts))
    print("VIFIDEL without references, captions per second of one core")
    for size in (count // 4, count // 2, count):
        rows = pick[:size]
        samples = CaptionSet.build(
            [texts[i] for i in rows], objects=[known.get(images[i], ()) for i in rows]
        )
        Vifidel().stats(samples[:10], None)
        samples = CaptionSet.build(samples.captions(), objects=list(samples.objects))
        solver = Timed(transport.emd)
        transport.emd = solver
        stats, spent = clock(lambda s=samples: Vifidel().stats(s, None))
        transport.emd = solver.work
        scored = int(np.isfinite(stats.rows).sum())
        print(f"  {size:8,} captions {size / spent:9,.0f}   (scored {scored:,}, "
              f"solver {solver.spent / spent:.0%} of the time)")  # fmt: skip


class Timed:
    """A function that adds up the time spent in it."""

    def __init__(self, work):
        self.work, self.spent = work, 0.0

    def __call__(self, *args):
        """Call it."""
        out, spent = clock(lambda: self.work(*args))
        self.spent += spent
        return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", type=int, default=100_000, help="for VIFIDEL")
    parser.add_argument("--slow", type=int, default=400, help="captions that gensim gets")
    options = parser.parse_args()
    compare_wmd(options.slow)
    vifidel_rate(options.captions)
