"""Damage the input of every reader and count what happens: ``make fuzz``.

Each input is drawn from (seed, reader, number) alone, so that any of them can be made again. The
readers run in child processes with bounded memory: a crash of the process, a hang and an exhausted
memory are counted like an exception. What is expected is that damage is either harmless (``read``)
or refused with an error of captious (``refused``); anything else is a defect:

    raw      an exception that is not a CaptiousError
    crash    the process died (SIGSEGV, SIGBUS, abort)
    hang     ten seconds of processor time for one input, or a minute of waiting
    memory   the process was short of memory

Inputs that fail are written to a folder, made smaller where that keeps the failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import mutations
from readers import readers

HANG = 10.0
MEMORY = 12 << 30  # bytes of address space; torch alone maps four
BAD = ("raw", "crash", "hang", "memory")
_ODD = 0.06  # share of inputs that are not a regular file at all


# -- child ---------------------------------------------------------------------------------------


class Child:
    """Makes inputs and reads them."""

    def __init__(self, seed: int, home: Path) -> None:
        self.seed, self.home = seed, home
        self.readers = {r.name: r for r in readers()}
        self.valid: dict[str, bytes] = {}
        mutations.make_bomb(home / "bomb.gz")

    def seeds(self, name: str) -> Path:
        """Return the folder with the reader's valid input, made once per campaign."""
        folder = self.home / "seeds" / name
        if not folder.is_dir():
            work = Path(tempfile.mkdtemp(dir=self.home))
            self.readers[name].make(work)
            folder.parent.mkdir(exist_ok=True)
            try:
                work.rename(folder)
            except OSError:  # the other child was faster
                shutil.rmtree(work)
        if name not in self.valid:
            self.valid[name] = (folder / self.readers[name].target).read_bytes()
        return folder

    def make(self, name: str, number: int, work: Path) -> str:
        """Put the damaged input into the folder ``work``; return what was done."""
        draw = random.Random(f"{self.seed}:{name}:{number}")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.seeds(name), work)
        reader = self.readers[name]
        target = work / reader.target
        if number == 0:
            return "valid"
        if draw.random() < _ODD:
            return mutations.odd_file(target, draw)
        other = self.valid[draw.choice(sorted(self.valid))]
        target.write_bytes(mutations.damage(self.valid[name], reader.kind, draw, other))
        return "damaged"

    def read(self, name: str, work: Path) -> tuple[str, str]:
        """Return the class of what happened, and the message."""
        from captious.errors import CaptiousError

        try:
            self.readers[name].read(work)
        except CaptiousError as error:
            cause = error.__cause__
            if isinstance(cause, AttributeError | NameError | AssertionError):
                return "net", f"{type(cause).__name__}: {cause}"  # refused, but by luck
            return "refused", str(error)[:300]
        except MemoryError:
            return "memory", "MemoryError"
        except Exception as error:
            return "raw", f"{type(error).__name__}: {error}"[:300]
        return "read", ""

    def smaller(self, name: str, work: Path, why: str, seconds: float = 5.0) -> None:
        """Cut pieces out of the damaged file as long as the same exception is raised."""
        target = work / self.readers[name].target
        if not target.is_file() or target.is_symlink():
            return
        kind = why.split(":")[0]
        content, end = target.read_bytes(), time.monotonic() + seconds
        step = max(1, len(content) // 2)
        while step and time.monotonic() < end:
            at, shrunk = 0, False
            while at < len(content) and time.monotonic() < end:
                target.write_bytes(content[:at] + content[at + step :])
                found, said = self.read(name, work)
                if found == "raw" and said.split(":")[0] == kind:
                    content, shrunk = content[:at] + content[at + step :], True
                else:
                    at += step
            step = step if shrunk and step < len(content) else step // 2
        target.write_bytes(content)


def serve(seed: int, home: Path) -> None:
    """Answer lines ``reader number`` with lines of JSON until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    child = Child(seed, home)
    answers = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    work = Path(tempfile.mkdtemp(dir=home)) / "w"
    for name in child.readers:  # what is imported or compiled on first use is no hang
        child.make(name, 0, work)
        child.read(name, work)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        name, number = line.split()
        how = child.make(name, int(number), work)
        found, why = child.read(name, work)
        if found == "raw":
            child.smaller(name, work, why)
        if found in BAD:
            kept = home / "failures" / f"{name}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(work, kept, symlinks=True, ignore=_special)
            (kept / "why.txt").write_text(f"{how}\n{found}\n{why}\n", errors="replace")
        answers.write(json.dumps([found, why]) + "\n")
        answers.flush()


def _special(folder: str, names: list[str]) -> list[str]:
    return [
        n for n in names if not (Path(folder) / n).is_file() and not (Path(folder) / n).is_dir()
    ]


# -- parent --------------------------------------------------------------------------------------


class Worker:
    """A child and the input that it is busy with."""

    def __init__(self, seed: int, home: Path) -> None:
        self.seed, self.home = seed, home
        self.start()

    def start(self) -> None:
        command = [sys.executable, __file__, "--serve", str(self.home), "--seed", str(self.seed)]
        env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        self.busy: tuple[str, int] | None = None
        self.since = time.monotonic()
        self.ready = False

    def spent(self) -> float:
        """Processor seconds of the child so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def hangs(self) -> bool:
        """Whether its input took too long: in processor time, or in time where it only waits."""
        waited = time.monotonic() - self.since
        if self.busy is None or waited < HANG:
            return False
        return waited > 6 * HANG or self.spent() - self.before > HANG

    def give(self, name: str, number: int) -> None:
        self.process.stdin.write(f"{name} {number}\n")
        self.process.stdin.flush()
        self.busy, self.since, self.before = (name, number), time.monotonic(), self.spent()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def run(
    inputs: int, seconds: float, seed: int, out: Path, workers: int = 2, only: str = ""
) -> dict[str, Any]:
    """Run a campaign; return counts by class and reader.

    Args:
        inputs: how many damaged files in all.
        seconds: budget of time, the start of the children not counted.
        seed: of every draw.
        out: folder of failing inputs; made anew.
        workers: child processes.
        only: readers whose name matches this expression.
    """
    shutil.rmtree(out, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix="captious-fuzz-"))
    (home / "failures").mkdir()
    names = [r.name for r in readers() if re.search(only, r.name)]
    jobs = iter([(n, k) for k in range(-(-inputs // len(names))) for n in names][:inputs])
    counts: dict[str, Counter[str]] = {n: Counter() for n in names}
    said: list[tuple[str, int, str, str]] = []
    team = [Worker(seed, home) for _ in range(workers)]
    begun: float | None = None
    tried = 0

    def note(name: str, number: int, found: str, why: str) -> None:
        nonlocal tried
        tried += 1
        counts[name][found] += 1
        if found in (*BAD, "net") or (number == 0 and found != "read" and name != "picture-eps"):
            said.append((name, number, found, why))

    try:
        while team:
            for worker in list(team):
                late = worker.ready and begun is not None and time.monotonic() - begun > seconds
                if worker.ready and worker.busy is None:
                    job = None if late else next(jobs, None)
                    if job is None:
                        worker.stop()
                        team.remove(worker)
                        continue
                    worker.give(*job)
            streams = [w.process.stdout for w in team]
            got = select.select(streams, [], [], 0.2)[0] if streams else []
            for worker in team:
                if worker.process.stdout in got:
                    line = worker.process.stdout.readline()
                    if line == "ready\n":
                        worker.ready = True
                        begun = begun or time.monotonic()
                    elif line and worker.busy:
                        note(*worker.busy, *json.loads(line))
                        worker.busy = None
                    else:
                        code = worker.process.wait()
                        if worker.busy is None:
                            raise SystemExit(f"a child ended with {code} before its first input")
                        note(*worker.busy, "crash", f"exit {code}")
                        _keep(worker, "crash")
                        worker.stop()
                        worker.start()
                elif worker.hangs():
                    note(*worker.busy, "hang", f"more than {HANG:g} s of processor time")
                    _keep(worker, "hang")
                    worker.stop()
                    worker.start()
    finally:
        for worker in team:
            worker.stop()
        if any((home / "failures").iterdir()):
            shutil.copytree(home / "failures", out, symlinks=True, ignore=_special)
        shutil.rmtree(home, ignore_errors=True)
    total = sum(counts.values(), Counter())
    return {
        "seed": seed,
        "readers": len(names),
        "inputs": tried,
        "seconds": round(time.monotonic() - (begun or time.monotonic()), 1),
        "classes": {k: total[k] for k in ("read", "refused", "net", *BAD)},
        "by_reader": {n: dict(c) for n, c in counts.items()},
        "defects": said,
    }


def _keep(worker: Worker, why: str) -> None:
    """Make a lost input again (the draw is known) and keep it as it is."""
    name, number = worker.busy
    child = Child(worker.seed, worker.home)
    kept = worker.home / "failures" / f"{name}-{number}"
    child.valid = {
        r: (worker.home / "seeds" / r / child.readers[r].target).read_bytes() for r in child.readers
    }
    what = child.make(name, number, kept)
    if kept.is_dir():
        (kept / "why.txt").write_text(f"{what}\n{why}\n")


def main() -> int:
    """Run from the command line; the exit code is 1 if there are defects."""
    parser = argparse.ArgumentParser(description="Damage the input of every reader.")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("fuzz-out"), help="failing inputs go here")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="readers whose name matches this expression")
    parser.add_argument("--again", nargs=2, metavar=("READER", "FOLDER"), help="read a kept input")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.seed, args.serve)
        return 0
    if args.again:
        print({r.name: r for r in readers()}[args.again[0]].read(Path(args.again[1])))
        return 0
    found = run(args.inputs, args.seconds, args.seed, args.out, args.workers, args.only)
    width = max(map(len, found["by_reader"]))
    for name, counted in found["by_reader"].items():
        print(f"{name:<{width}}  " + "  ".join(f"{k} {v}" for k, v in sorted(counted.items())))
    for name, number, kind, why in found["defects"][:60]:
        print(f"{kind:<7} {name} {number}: {why}")
    print(
        f"{found['inputs']:,} inputs over {found['readers']} readers in {found['seconds']:.0f} s, "
        f"seed {found['seed']}: " + ", ".join(f"{k} {v:,}" for k, v in found["classes"].items())
    )
    return 1 if any(found["classes"][k] for k in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
