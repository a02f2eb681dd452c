"""``captious verify``: does a stored result still hold?"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from captious.cli import _options
from captious.engine.job import INLINE, ScoringJob, score
from captious.engine.table import ScoreTable
from captious.errors import InputError, UsageError, VerifyError
from captious.io.batches import MANIFEST
from captious.metrics.base import Metric


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "verify",
        description="Read a result that `captious score -o` wrote (json, jsonl or parquet), score "
        "the same files again with the same metrics and compare every number.",
    )
    parser.add_argument("result", type=Path)
    parser.add_argument(
        "--tolerance",
        type=float,
        help="largest difference (default: 1e-9; 2e-6 where a network computes the score, because "
        "it rounds differently with other threads)",
    )
    _options.output(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare and report; 0 = everything holds."""
    stored = ScoreTable.load(args.result)
    if (args.result.parent / MANIFEST).is_file():
        raise UsageError(
            f"{args.result} is one file of a run over many, whose document frequencies are of all "
            "of them: score the same files into another folder and compare the two"
        )
    with _options.active(args):
        job = job_of(stored, args.result)
        fresh = _streamed(job) if _of_stream(stored) else score(job, say=_options.say(args))
    problems = differences(stored, fresh, args.tolerance)
    if problems:
        raise VerifyError(
            f"{args.result} does not hold: {len(problems)} differences\n"
            + "\n".join(f"  - {p}" for p in problems[:20])
            + (f"\n  ... and {len(problems) - 20} more" if len(problems) > 20 else "")
        )
    _options.write(
        args,
        f"{args.result}: holds ({len(stored):,} captions, {len(stored.signatures)} columns)\n",
    )
    return 0


def _of_stream(stored: ScoreTable) -> bool:
    return any("|bs_kind:poisson" in text for text in stored.signatures.values())


def _streamed(job: ScoringJob) -> ScoreTable:
    """Score batch by batch, as the stored table was: its intervals are drawn in another way."""
    from captious.engine.stream import stream
    from captious.io.sinks import ParquetSink

    with TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        stream(job, ParquetSink(path))
        return ScoreTable.load(path)


def job_of(stored: ScoreTable, path: Path) -> ScoringJob:
    """Return the job of a stored table; data that were handed over in Python are in the table."""
    try:
        job = ScoringJob.from_json(stored.job, beside=path.parent)
    except InputError as err:
        changed = [p for p in err.problems if "sha256" in p]
        raise (VerifyError("\n".join(changed)) if changed else err) from err
    if INLINE not in (job.captions, job.references, job.images, job.objects):
        return job
    samples = stored.samples
    if job.objects is None:  # what was detected is detected again
        samples = replace(samples, evidence=replace(samples.evidence, labels=None))
    return replace(job, captions=samples, references=None, images=None, objects=None, systems=None)


def differences(stored: ScoreTable, fresh: ScoreTable, tolerance: float | None = None) -> list[str]:
    """Return every signature and number that is not what it was."""
    out = []
    allowed = {
        name: tolerance if tolerance is not None else _tolerance(step.metric)
        for step in stored.steps
        for name in step.names
    }
    for column, text in stored.signatures.items():
        now = fresh.signatures.get(column)
        if now is None or not same_signature(text, now):
            out.append(f"{column}: the signature was {text}, is now {now}")
    for system, values in stored.corpora.items():
        for column, old in values.items():
            new = fresh.corpora.get(system, {}).get(column)
            for what in ("", "low", "high"):
                a = getattr(old, what) if what else float(old)
                b = None if new is None else getattr(new, what) if what else float(new)
                if not _same(a, b, allowed[column]):
                    out.append(f"{system} {column} {what}: was {a}, is now {b}".strip())
    if len(stored) != len(fresh):
        return [*out, f"{len(stored)} captions were stored, {len(fresh)} are scored now"]
    for column, then in stored.values.items():
        if column not in fresh.values:
            continue
        both = zip(stored.ids, then.tolist(), fresh.values[column].tolist(), strict=True)
        out += [
            f"caption {name}, {column}: was {a}, is now {b}"
            for name, a, b in both
            if not _same(a, b, allowed[column])
        ]
    return out


_RESPELT = {"tok": "tokenizer", "stop": "stop_words", "encoder": "model"}
"""How parts of a signature were called before."""


def same_signature(a: str, b: str) -> bool:
    """Tell whether two signatures say the same, in whatever order and spelling."""
    return _parts(a) == _parts(b)


def _parts(text: str) -> dict[str, str]:
    name, *rest = text.split("|")
    parts = dict(part.partition(":")[::2] for part in rest)
    return {"": name} | {_RESPELT.get(k, k): v for k, v in parts.items() if v != "none"}


def _tolerance(metric: Metric) -> float:
    return 2e-6 if metric.learned or "torch" in metric.modules else 1e-9


def _same(a: float, b: float | None, tolerance: float) -> bool:
    if b is None or math.isnan(a) or math.isnan(b):
        return b is not None and math.isnan(a) and math.isnan(b)
    return abs(a - b) <= tolerance * max(1.0, abs(a))
