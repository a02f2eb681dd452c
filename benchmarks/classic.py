"""Tokenising, BLEU, ROUGE-L and CIDEr-D: captious beside pycocoevalcap 1.2, in one run.

    python benchmarks/classic.py [--data FOLDER] [--system NAME] [--grow]

Both sides run in fresh processes on one captioner's 40,504 captions of COCO val2014 with five
references each; process start, imports and reading are part of the end-to-end time. ``--grow``
instead scores 10^4 .. 10^6 captions with captious alone and prints seconds per 10,000.
The data folder is the one with ``coco/val2014_captions.parquet``; pycocoevalcap needs Java.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data"


def read(data: Path, system: str) -> tuple[list[int], list[str], list[list[str]]]:
    import pyarrow.parquet as pq

    refs = pq.read_table(data / "coco" / "val2014_captions.parquet")
    caps = pq.read_table(data / "coco" / "val2014_systems.parquet", columns=["image_id", system])
    by_id = dict(zip(refs["image_id"].to_pylist(), refs["captions"].to_pylist(), strict=True))
    ids = caps["image_id"].to_pylist()
    return ids, caps[system].to_pylist(), [by_id[i] for i in ids]


def read_columns(data: Path, system: str) -> tuple[Any, Any, Any]:
    """The same as Arrow columns: captious takes them as they are."""
    import pyarrow.compute as pc
    from pyarrow.parquet import ParquetFile

    refs = ParquetFile(data / "coco" / "val2014_captions.parquet").read()
    caps = ParquetFile(data / "coco" / "val2014_systems.parquet").read(["image_id", system])
    place = pc.index_in(caps["image_id"], refs["image_id"])
    return caps["image_id"], caps[system], refs["captions"].take(place)


def ours(data: Path, system: str) -> dict[str, float]:
    from captious.engine.run import run
    from captious.metrics.bleu import Bleu
    from captious.metrics.cider import CiderD
    from captious.metrics.rouge_l import RougeL
    from captious.text import tokens
    from captious.types import CaptionSet

    ids, captions, references = read_columns(data, system)
    made = {}
    start = time.perf_counter()
    samples = CaptionSet.of_arrow(captions, references, ids=[str(i) for i in ids.to_pylist()])
    tokens.table(samples.pool)
    made["tokenise"] = time.perf_counter() - start
    start = time.perf_counter()
    table = run(samples, [Bleu(), RougeL(), CiderD()], resamples=0)
    made["three metrics, shared n-grams"] = time.perf_counter() - start
    values = {k: float(v) for k, v in table.corpus.items()}
    return {"seconds": made, "values": values}  # type: ignore[dict-item]


def single(data: Path, system: str) -> dict[str, float]:
    """Each metric alone, with its own n-grams, so that nothing is shared."""
    from captious.engine.run import run
    from captious.metrics.bleu import Bleu
    from captious.metrics.cider import CiderD
    from captious.metrics.rouge_l import RougeL
    from captious.text import tokens
    from captious.types import CaptionSet

    ids, captions, references = read(data, system)
    made = {}
    for name, metric in (("BLEU", Bleu()), ("ROUGE-L", RougeL()), ("CIDEr-D", CiderD())):
        samples = CaptionSet.build(captions, references, ids=[str(i) for i in ids])
        tokens.table(samples.pool)
        start = time.perf_counter()
        run(samples, [metric], resamples=0)
        made[name] = time.perf_counter() - start
    return {"seconds": made}  # type: ignore[dict-item]


def peer(data: Path, system: str) -> dict[str, float]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    ids, captions, references = read(data, system)
    made = {}
    start = time.perf_counter()
    res = PTBTokenizer().tokenize({i: [{"caption": c}] for i, c in zip(ids, captions, strict=True)})
    gts = PTBTokenizer().tokenize(
        {i: [{"caption": c} for c in r] for i, r in zip(ids, references, strict=True)}
    )
    made["tokenise"] = time.perf_counter() - start
    values = {}
    for name, scorer in (("BLEU", Bleu(4)), ("ROUGE-L", Rouge()), ("CIDEr-D", Cider())):
        start = time.perf_counter()
        value, _ = scorer.compute_score(gts, res)
        made[name] = time.perf_counter() - start
        if name == "BLEU":
            values |= {f"bleu_{n}": float(v) for n, v in enumerate(value, 1)}
        else:
            values[{"ROUGE-L": "rouge_l", "CIDEr-D": "cider_d"}[name]] = float(value)
    return {"seconds": made, "values": values}  # type: ignore[dict-item]


def grow(data: Path, system: str) -> None:
    from captious.engine.run import run
    from captious.types import CaptionSet

    ids, captions, references = read(data, system)
    for size in (10_000, 40_000, 160_000, 640_000, 1_000_000):
        start = time.perf_counter()
        rows = [i % len(ids) for i in range(size)]
        # a marker word keeps every string distinct, so that nothing is shared between copies
        marks = [f" w{i // len(ids)}" if i >= len(ids) else "" for i in range(size)]
        samples = CaptionSet.build(
            [captions[r] + m for r, m in zip(rows, marks, strict=True)],
            [[t + m for t in references[r]] for r, m in zip(rows, marks, strict=True)],
        )
        run(samples, None, resamples=0)
        spent = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{size:>9,} captions {spent:8.1f} s  {spent / size * 1e4:6.2f} s per 10,000 "
            f" peak {peak:,.0f} MB",
            flush=True,
        )


def child(side: str, args: argparse.Namespace) -> dict:
    start = time.perf_counter()
    command = [
        sys.executable,
        __file__,
        "--side",
        side,
        "--data",
        str(args.data),
        "--system",
        args.system,
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=dict(os.environ))
    result = json.loads(done.stdout.decode().strip().split("\n")[-1])
    result["wall"] = time.perf_counter() - start
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--system", default="Vinyals-et-al-2017")
    parser.add_argument("--side", choices=["ours", "single", "peer"])
    parser.add_argument("--grow", action="store_true")
    args = parser.parse_args()
    if args.grow:
        grow(args.data, args.system)
        return
    if args.side:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)  # pycocoevalcap prints; only our last line goes to stdout
        result = {"ours": ours, "single": single, "peer": peer}[args.side](args.data, args.system)
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        java = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        result["memory"] = {"python": own, "java": java}  # type: ignore[assignment]
        os.dup2(kept, 1)
        print(json.dumps(result))
        return
    if not (args.data / "coco").is_dir():
        sys.exit(f"no folder {args.data / 'coco'}: name the data with --data")
    a, s, b = child("ours", args), child("single", args), child("peer", args)
    print(f"{'':28}{'pycocoevalcap':>14}{'captious':>10}{'ratio':>8}")
    rows = [("tokenise", b["seconds"]["tokenise"], a["seconds"]["tokenise"])]
    rows += [
        (f"{n} alone", b["seconds"][n], s["seconds"][n]) for n in ("BLEU", "ROUGE-L", "CIDEr-D")
    ]
    rows.append(("all, end to end", b["wall"], a["wall"]))
    for name, theirs, mine in rows:
        print(f"{name:28}{theirs:12.2f} s{mine:8.2f} s{theirs / mine:7.1f}x")
    most = max(b["memory"].values())
    print(
        f"{'peak memory':28}{most:11.0f} MB{a['memory']['python']:7.0f} MB"
        f"{most / a['memory']['python']:7.1f}x"
    )
    worst = max(abs(b["values"][k] - a["values"][k]) for k in b["values"])
    print(f"largest difference of the corpus values: {worst:.2e}")


if __name__ == "__main__":
    main()
