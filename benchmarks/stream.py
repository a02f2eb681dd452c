"""A long file through BLEU, ROUGE-L and CIDEr-D: captions per second and peak memory.

    python benchmarks/stream.py [--rows 100000 1000000] [--workers 1 2] [--engines processes ray]

The file is one captioner's captions of COCO val2014 with five references each, over and over; every
copy has a word of its own at the end of each text, so that no text is shared between copies. Each
run is a fresh ``captious score --stream`` process; reading, start and writing are part of its time.
Memory is the sum over all its processes (proportional set size, sampled four times a second). CPU
seconds stand beside wall seconds, because wall time says little on a machine with other jobs; they
are those of all its processes, for Ray with its own ones (sampled, for they are no children to the
end).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from classic import DATA, read


def write(path: Path, rows: int, data: Path, system: str = "Vinyals-et-al-2017") -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ids, captions, references = read(data, system)
    writer = None
    for copy, start in enumerate(range(0, rows, len(ids))):
        size = min(len(ids), rows - start)
        mark = f" w{copy}" if copy else ""
        table = pa.table(
            {
                "id": [f"{copy}-{i}" for i in ids[:size]],
                "caption": [c + mark for c in captions[:size]],
                "references": [[r + mark for r in listed] for listed in references[:size]],
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def tree(root: int) -> set[int]:
    """A process and what it started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
            except OSError:
                continue
    members = {root}
    while True:
        more = {p for p, parent in parents.items() if parent in members} - members
        if not more:
            break
        members |= more
    return members


def memory(members: set[int]) -> float:
    """Megabytes of processes."""
    total = 0
    for pid in members:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def processor(pid: int) -> float:
    """Processor seconds of a process until now."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(command: list[str]) -> tuple[float, float, float]:
    """Seconds of wall, seconds of CPU, peak megabytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, peak = time.perf_counter(), 0.0
    spent: dict[int, float] = {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ))
    while process.poll() is None:
        members = tree(process.pid)
        peak = max(peak, memory(members))
        for pid in members:
            spent[pid] = max(spent.get(pid, 0.0), processor(pid))
        time.sleep(0.25)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, max(cpu, sum(spent.values())), peak


def _line(engine: str, workers: int, rows: int, path: Path, metrics: str) -> None:
    """Measure one way of doing it; one worker of ``processes`` is this very process."""
    chosen = ["--engine", engine, "--workers", str(workers)]
    command = [
        sys.executable, "-m", "captious", "score", str(path), "--stream", "-q", "-m", metrics,
        "-o", str(path.with_name("out.parquet")),
        *(chosen if workers > 1 or engine != "processes" else []),
    ]  # fmt: skip
    wall, cpu, peak = run(command)
    print(f"{rows:>10,} {engine:>10} {workers:>8} {wall:>8.1f} {cpu:>8.1f} {rows / wall:>8,.0f} "
          f"{rows / cpu:>10,.0f} {peak:>8,.0f}  {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", default=["processes"])
    parser.add_argument("--metrics", default="bleu,rouge_l,cider_d")
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    print(f"{'captions':>10} {'engine':>10} {'workers':>8} {'wall s':>8} {'CPU s':>8} {'per s':>8} "
          f"{'per CPU s':>10} {'peak MB':>8}  load", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for rows in args.rows:
            path = Path(folder) / f"{rows}.parquet"
            write(path, rows, args.data)
            for engine in args.engines:
                for workers in args.workers:
                    _line(engine, workers, rows, path, args.metrics)
            path.unlink()


if __name__ == "__main__":
    main()
