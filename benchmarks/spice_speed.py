"""How fast is SPICE?

Scores captions of COCO val2014 (the first caption of each image against the other four) three
times: with an empty cache on one core, with an empty cache on all cores, and with every parse in
the cache, which leaves extraction, merging and matching. Prints sentences and captions per second
by the clock, and by the processor time of this process, which other programs disturb less.
The Java tool cannot run beside it: CoreNLP and its models are in no package registry.

    python benchmarks/spice_speed.py [--images 4000] [--parser default] [--shared ../shared]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from captious import settings
from captious.metrics.spice import Spice, reader, row
from captious.text import tokens
from captious.types import CaptionSet


def timed(name: str, spice: Spice, samples: CaptionSet, sentences: int) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    spice.stats(samples, None)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"{name:34s} {wall:7.2f} s  {len(samples) / wall:7.0f} captions/s  "
        f"{sentences / wall:7.0f} sentences/s  ({sentences / cpu:7.0f} per processor second)"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--images", type=int, default=4000)
    options.add_argument("--parser", default="default")
    options.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared")
    chosen = options.parse_args()
    table = pq.read_table(chosen.shared / "data/coco/val2014_captions.parquet")
    rows = table["captions"].slice(0, chosen.images).to_pylist()
    samples = CaptionSet.build([r[0] for r in rows], [r[1:] for r in rows])
    spice = Spice(model=chosen.parser)
    print(spice.signature("4", None))
    sentences = len(set(tokens.table(samples.pool, "ptb").texts()))
    print(f"{len(samples)} captions, {sentences} distinct sentences")
    reader(spice.parser, spice.tables).scenes(["a dog"])  # the model is loaded before the clock
    cores = settings.get().threads
    with tempfile.TemporaryDirectory() as folder:
        with settings.use(cache_dir=Path(folder) / "one", threads=1):
            timed("empty cache, one process", spice, samples, sentences)
        with settings.use(cache_dir=Path(folder) / "all", threads=cores):
            timed(f"empty cache, {cores} processes", spice, samples, sentences)
            timed("parses in the cache", spice, samples, sentences)
            texts = tokens.table(samples.pool, "ptb").texts()
            used = reader(spice.parser, spice.tables)
            parses = used.parser.parse(texts)
            cpu = time.process_time()
            graph_of = used.graphs_of(parses)
            for i, caption in enumerate(samples.caption.tolist()):
                refs = samples.reference[samples.offsets[i] : samples.offsets[i + 1]]
                row(graph_of((texts[caption],)), graph_of(tuple(texts[k] for k in refs)))
            cpu = time.process_time() - cpu
            print(
                f"extraction, merging and matching alone: {len(samples) / cpu:.0f} captions, "
                f"{sentences / cpu:.0f} sentences per processor second"
            )


if __name__ == "__main__":
    main()
