"""METEOR: captious beside the jar as pycocoevalcap runs it, in one run.

    python benchmarks/meteor.py [--data FOLDER] [--system NAME] [--rows N] [--threads N]

One captioner's captions of COCO val2014 (40,504), five references each, PTB tokenised beforehand
for both. Each side is a fresh process: interpreter or JVM start, loading the tables, reading the
captions and scoring are all in the time. captious runs warm (its index and compiled code exist; the
script makes them first and prints what that took). Processor time is printed beside the clock,
because other users of the machine disturb it less. Peak memory is that of our process and of the
JVM alone. pandas, which pyarrow loads where it is installed, is hidden from our side: captious does
not depend on it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class HidePandas:
    """Make ``import pandas`` fail, as where only captious[meteor] is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse one name, leave the others to the usual finders."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden in this benchmark", name=name)


def write(data: Path, system: str, rows: int, target: Path) -> None:
    """Store captions and references, tokenised, in a file that both sides read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from captious.text.ptb import tokenize

    refs = pq.read_table(data / "coco" / "val2014_captions.parquet")
    caps = pq.read_table(data / "coco" / "val2014_systems.parquet", columns=["image_id", system])
    by_id = dict(zip(refs["image_id"].to_pylist(), refs["captions"].to_pylist(), strict=True))
    ids = caps["image_id"].to_pylist()[:rows]
    table = {
        "caption": [" ".join(tokenize(c)) for c in caps[system].to_pylist()[:rows]],
        "references": [[" ".join(tokenize(r)) for r in by_id[i][:5]] for i in ids],
        "raw_caption": caps[system].to_pylist()[:rows],
        "raw_references": [by_id[i][:5] for i in ids],
    }
    pq.write_table(pa.table(table), target)


def columns(path: Path, prefix: str = "") -> tuple[Any, Any]:
    """Return captions and references as Arrow holds them: captious takes them so."""
    from pyarrow.parquet import ParquetFile

    names = [f"{prefix}caption", f"{prefix}references"]
    table = ParquetFile(path).read(names)
    return table[names[0]], table[names[1]]


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    captions, references = columns(path)
    return captions.to_pylist(), references.to_pylist()


def peak_memory(process: int | str) -> float:
    """Return the peak resident memory in MB (a child's ru_maxrss would contain its parent's)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def ours(path: Path, threads: int, raw: bool) -> dict[str, Any]:
    sys.meta_path.insert(0, HidePandas())
    from captious import settings
    from captious.metrics.meteor import Meteor
    from captious.types import CaptionSet

    samples = CaptionSet.of_arrow(*columns(path, "raw_" if raw else ""))
    metric = Meteor(tokenizer="ptb" if raw else "none")
    with settings.use(threads=threads):
        rows = metric.stats(samples, None).rows
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "corpus": float(metric.aggregate(rows)[0]),
        "scores": metric.scores(rows)[:, 0].tolist(),
        "processor": usage.ru_utime + usage.ru_stime,
        "memory": peak_memory("self"),
    }


def jar(path: Path) -> dict[str, Any]:
    from pycocoevalcap.meteor.meteor import Meteor

    captions, references = read(path)
    scorer = Meteor()
    corpus, scores = scorer.compute_score(
        dict(enumerate(references)), {i: [c] for i, c in enumerate(captions)}
    )
    peak = peak_memory(scorer.meteor_p.pid)
    scorer.meteor_p.stdin.close()
    _, _, usage = os.wait4(scorer.meteor_p.pid, 0)
    scorer.meteor_p.returncode = 0
    own = resource.getrusage(resource.RUSAGE_SELF)
    spent = usage.ru_utime + usage.ru_stime + own.ru_utime + own.ru_stime
    return {"corpus": corpus, "scores": scores, "processor": spent, "memory": peak}


def child(*args: str) -> dict[str, Any]:
    """Run one side in a fresh process and add its time on the clock."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, *args], stdout=subprocess.PIPE, check=True, text=True
    )
    wall = time.perf_counter() - start
    return {**json.loads(done.stdout.splitlines()[-1]), "wall": wall}


def show(what: str, run: dict[str, Any]) -> None:
    print(
        f"{what:<40} {run['wall']:7.2f} s  {run['processor']:7.2f} s of processor "
        f"{run['memory']:7.0f} MB  METEOR {run['corpus']:.6f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--system", default="Vinyals-et-al-2017")
    parser.add_argument("--rows", type=int, default=40504)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--side", choices=("ours", "raw", "jar"), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        result = (
            jar(args.file)
            if args.side == "jar"
            else ours(args.file, args.threads, raw=args.side == "raw")
        )
        print(json.dumps(result))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "captions.parquet"
        write(args.data, args.system, args.rows, file)
        few = Path(folder) / "few.parquet"
        write(args.data, args.system, min(args.rows, 1500), few)
        one = Path(folder) / "one.parquet"
        write(args.data, args.system, 1, one)
        common = ["--file", str(file), "--threads", str(args.threads)]
        first = child("--side", "ours", "--file", str(few), "--threads", "1")
        print(f"first run, 1,500 captions, making what is missing: {first['wall']:.1f} s")
        show("start-up: one caption, warm", child("--side", "ours", "--file", str(one)))
        fast = child("--side", "ours", *common)
        show(f"captious, {args.threads} threads", fast)
        show("captious, 1 thread", child("--side", "ours", *common[:2], "--threads", "1"))
        show("captious, tokenising included", child("--side", "raw", *common))
        slow = child("--side", "jar", *common)
        show("meteor-1.5.jar via pycocoevalcap", slow)
    worst = max(abs(a - b) for a, b in zip(fast["scores"], slow["scores"], strict=True))
    print(f"largest difference of a caption's score: {worst:.1e}")
    print(
        f"ratio: {slow['wall'] / fast['wall']:.1f} times faster on the clock, "
        f"{slow['processor'] / fast['processor']:.1f} in processor time, "
        f"{fast['memory'] / slow['memory']:.2f} of the memory"
    )


if __name__ == "__main__":
    main()
