"""Who spends the processor time of a stream: the driver, or its workers.

    python benchmarks/workers.py [--rows 200000] [--workers 0 1 2] [--files 8]

BLEU, ROUGE-L and CIDEr-D on the file of ``benchmarks/stream.py``; each worker has one thread, 0 is
this process alone. Processor seconds, so that other jobs on the machine do not count; those of a
worker begin at its start. With ``--files`` the rows are in so many files, and a folder is the
output: workers read and write themselves.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from classic import DATA
from stream import processor, write

from captious import settings
from captious.engine.executors import Local, Processes
from captious.engine.job import ScoringJob
from captious.engine.shards import score_shards
from captious.engine.stream import stream
from captious.io.sinks import ParquetSink


def cut(path: Path, files: int) -> Path:
    """Write the rows of a file into several; return their folder."""
    folder = path.with_suffix("")
    folder.mkdir()
    table = pq.read_table(path)
    size = -(-len(table) // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
    return folder


def measure(path: Path, workers: int) -> tuple[float, list[float]]:
    """Processor seconds of the driver, and of each worker."""
    executor = Processes(workers) if workers else Local()
    job = ScoringJob([path], metrics=["bleu", "rouge_l", "cider_d"], resamples=1000)
    with settings.use(threads=max(1, workers), progress=False):
        before = time.process_time()
        if path.is_dir():
            score_shards(job, path.with_name(f"out{workers}"), executor=executor)
        else:
            stream(job, ParquetSink(path.with_name("out.parquet")), executor=executor)
        driver = time.process_time() - before
    if isinstance(executor, Local):
        return driver, []
    each = [processor(worker._process.pid) for worker in executor._crew]
    executor.close()
    return driver, each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--files", type=int)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "captions.parquet"
        write(path, args.rows, args.data)
        if args.files:
            path = cut(path, args.files)
        for workers in args.workers:
            driver, each = measure(path, workers)
            print(f"{workers} workers: driver {driver:.2f}, workers "
                  f"{', '.join(f'{s:.2f}' for s in each) or '-'}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
