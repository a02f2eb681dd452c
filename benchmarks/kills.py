"""kill -9 of a worker and of the driver in the middle of a job; nothing may be lost or doubled.

    python benchmarks/kills.py [--engine processes ray] [--shards 12] [--rows 1500] [--kills 2]

Shards of captions with references are scored into a folder, once unbroken. Then the same job is
started anew, a worker is killed while shards are being written, and the job has to finish by
itself; and once more, the driver is killed and the same command is given again. Afterwards every
shard must hold the rows of the unbroken run, each once, with the same bits; shards that were
finished before the driver died must not have been written again. Any difference ends the script
with an error. Ray: ``pip install 'captious[ray]'``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scorer import sentence

METRICS = "bleu,rouge_l,cider_d"


def write_shards(folder: Path, shards: int, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = random.Random(4)

    folder.mkdir()
    for shard in range(shards):
        ids = [f"{shard}-{i}" for i in range(rows)]
        references = [[sentence(rng) for _ in range(5)] for _ in ids]
        table = pa.table(
            {"id": ids, "caption": [sentence(rng) for _ in ids], "references": references}
        )
        pq.write_table(table, folder / f"s{shard:03}.parquet")


def start(data: Path, out: Path, engine: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "captious", "score", str(data), "-o", str(out), "-m", METRICS,
               "--engine", engine, "--workers", "2", "-q"]  # fmt: skip
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def children(root: int) -> dict[int, str]:
    """Process ids below a process, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    members = {root}
    while more := {p for p, parent in parents.items() if parent in members} - members:
        members |= more
    out = {}
    for pid in members - {root}:
        try:
            out[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue
    return out


def workers_of(process: subprocess.Popen[bytes], engine: str) -> list[int]:
    """Processes that score: actors of Ray, or those that multiprocessing spawned."""
    mark = "ray::_Actor" if engine == "ray" else "spawn_main"
    return [pid for pid, command in children(process.pid).items() if mark in command]


def wait_until_some(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    """Wait until some shards are finished."""
    while len(list(out.glob("s*.parquet"))) < count:
        if process.poll() is not None:
            sys.exit("the job ended before it could be killed; use more or larger shards")
        time.sleep(0.01)


def finish(process: subprocess.Popen[bytes]) -> None:
    if process.wait() != 0:
        sys.exit(f"the job failed with {process.returncode}")


def content(out: Path) -> dict[str, list[tuple[object, ...]]]:
    import pyarrow.parquet as pq

    columns = ["id", "caption", "bleu_4", "rouge_l", "cider_d"]
    return {
        path.name: list(zip(*(pq.read_table(path)[c].to_pylist() for c in columns), strict=True))
        for path in sorted(out.glob("s*.parquet"))
    }


def check(out: Path, expected: dict[str, list[tuple[object, ...]]], what: str) -> None:
    found = content(out)
    if found != expected:
        wrong = [name for name in expected if found.get(name) != expected[name]]
        sys.exit(f"{what}: {len(wrong)} shards differ from the unbroken run: {wrong[:3]}")
    ids = [row[0] for rows in found.values() for row in rows]
    if len(set(ids)) != len(ids):
        sys.exit(f"{what}: rows are doubled")
    left = [p.name for p in out.iterdir() if p.suffix not in (".parquet", ".npz", ".json")]
    if left:
        sys.exit(f"{what}: unfinished files are left: {left[:3]}")


def trial(engine: str, data: Path, shards: int, kills: int, folder: Path) -> None:
    whole = folder / f"{engine}-whole"
    finish(start(data, whole, engine))
    expected = content(whole)
    if len(expected) != shards:
        sys.exit(f"{len(expected)} of {shards} shards were written")
    out = folder / f"{engine}-worker"
    process = start(data, out, engine)
    for kill in range(kills):
        wait_until_some(process, out, 1 + kill * max(1, shards // (kills + 1)))
        victims = workers_of(process, engine)
        if not victims:
            sys.exit("no worker was found to kill")
        os.kill(victims[0], signal.SIGKILL)
        print(f"{engine}: killed worker {victims[0]}", flush=True)
    finish(process)
    check(out, expected, f"{engine}, worker killed")
    print(f"{engine}: {kills} workers killed: {shards} shards, all as in the unbroken run")
    out = folder / f"{engine}-driver"
    for _ in range(kills):
        process = start(data, out, engine)
        before = {p.name: p.stat().st_mtime_ns for p in out.glob("s*.parquet")}
        wait_until_some(process, out, len(before) + 1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done = {p.name: p.stat().st_mtime_ns for p in out.glob("s*.parquet")}
        if any(done.get(name) != stamp for name, stamp in before.items()):
            sys.exit(f"{engine}: a finished shard was written again")
        print(f"{engine}: killed driver, {len(done)} of {shards} shards were finished", flush=True)
    stamps = {p.name: p.stat().st_mtime_ns for p in out.glob("s*.parquet")}
    finish(start(data, out, engine))
    if any((out / name).stat().st_mtime_ns != stamp for name, stamp in stamps.items()):
        sys.exit(f"{engine}: a finished shard was written again")
    check(out, expected, f"{engine}, driver killed")
    print(f"{engine}: driver killed {kills} times: {shards} shards, all as in the unbroken run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", nargs="+", default=["processes", "ray"])
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--kills", type=int, default=2)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="captious-kills-"))
    try:
        write_shards(folder / "data", args.shards, args.rows)
        for engine in args.engine:
            trial(engine, folder / "data", args.shards, args.kills, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
