"""Kill captious at random moments, resume, and compare the result with that of an unbroken run.

``make chaos`` runs every scenario on tiny data made from the demo. For each, the command runs twice
to its end (the results must be equal; the second run tells how long it takes). Then, in a fresh
place, it is started and killed (SIGKILL, to the whole process group) at random moments, started
again and left to finish. The result must be that of the unbroken run: weights and features byte by
byte, tables value by value. Beside that: a limit on file sizes (as on a full disk, writing fails in
the middle), four processes at once on one empty cache, two runs with one output, and a clock that
was set back (the files of an unfinished run seem to come from the future).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious import demo


@dataclass(frozen=True)
class Scenario:
    """A command whose result is compared.

    Attributes:
        name: shown in the report.
        words: the command line; ``{data}`` and ``{out}`` are filled in.
        result: returns what must be equal, given the place of the output.
    """

    name: str
    words: tuple[str, ...]
    result: Callable[[Path], Any]


def _bytes_of(*names: str) -> Callable[[Path], Any]:
    return lambda out: {name: (out / name).read_bytes() for name in names}


def _json_of(out: Path) -> Any:
    found = json.loads(out.read_text())
    return {k: v for k, v in found.items() if k in ("corpus", "captions", "signatures", "systems")}


def _rows_of(out: Path) -> Any:
    import pyarrow.parquet as pq

    rows = pq.read_table(out).to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def _regions_of(out: Path) -> Any:
    from captious.evidence.region_formats import images_of, open_regions

    sets = images_of(open_regions(out))
    return {
        n: (s.features.tobytes(), s.boxes.tobytes() if s.boxes is not None else b"")
        for n, s in sets
    }


def _text_of(out: Path) -> Any:
    return out.read_text()


SCENARIOS = (
    Scenario("score", ("score", "{data}/caps.json", "-m", "bleu,rouge_l,cider_d,meteor", "-o",
                       "{out}.json"), lambda out: _json_of(out.with_suffix(".json"))),
    Scenario("detect", ("detect", "{data}/photos", "-o", "{out}.parquet"),
             lambda out: _rows_of(out.with_suffix(".parquet"))),
    Scenario("regions", ("regions", "{data}/photos", "-o", "{out}", "--count", "4", "--backbone",
                         "efficientnet-lite0"), _regions_of),
    Scenario("train lm", ("train", "lm", "--captions", "{data}/texts.txt", "-o", "{out}",
                          "--epochs", "12", "--hidden", "16"),
             _bytes_of("model.safetensors", "config.json")),
    Scenario("train scan", ("train", "scan", "--regions", "{data}/store", "--captions",
                            "{data}/karpathy.json", "-o", "{out}", "--teacher", "none",
                            "--word-vectors", "none", "--size", "16", "--word-size", "8", "--steps",
                            "60", "--validate", "5", "--batch", "6"),
             _bytes_of("model.safetensors", "vocab.json")),
    Scenario("train vilbert", ("train", "vilbert", "--regions", "{data}/store", "--captions",
                               "{data}/karpathy.json", "-o", "{out}", "--teacher", "none",
                               "--steps", "12", "--validate", "3", "--batch", "4", "--config",
                               "{data}/vilbert.json"), _bytes_of("model.safetensors")),
    Scenario("train composite", ("train", "composite", "--human", "{data}/refs.json", "--machine",
                                 "{data}/machine.json", "--refs", "{data}/refs.json", "--inputs",
                                 "bleu_1,rouge_l", "-o", "{out}", "--hidden", "4", "--epochs", "20",
                                 "--accuracy", "0", "--references", "1"),
             _bytes_of("model.safetensors")),
    Scenario("reproduce", ("reproduce", "bert_tbr", "table3", "--only", "--data", "{data}/sets",
                           "-o", "{out}.md"), lambda out: _text_of(out.with_suffix(".md"))),
    Scenario("meta", ("meta", "bleu", "rouge_l", "--set", "{data}/ratings.json", "--trials", "50",
                      "-f", "json", "-o", "{out}.json"),
             lambda out: _text_of(out.with_suffix(".json"))),
)  # fmt: skip


def make_data(data: Path) -> None:
    """Write captions, photographs, regions and judgements, all from the demo."""
    data.mkdir()
    photos = demo.photographs()
    (data / "photos").mkdir()
    for copy in range(6):
        for photo in photos:
            shutil.copy(photo, data / "photos" / f"{photo.stem}{copy}.jpg")
    here = Path(demo.__file__).parent
    references = json.loads((here / "references.json").read_text())
    texts = {Path(k).stem: v for k, v in references.items()}
    records = [
        {"id": f"{name}{i}", "caption": " ".join(refs[i % len(refs)].split()[: 5 + i % 7]),
         "references": refs}
        for i in range(300) for name, refs in texts.items()
    ]  # fmt: skip
    (data / "caps.json").write_text(json.dumps(records))
    lines = [text for refs in texts.values() for text in refs]
    words = [" ".join(t.split()[k : k + 8]) for t in lines for k in range(3)]
    (data / "texts.txt").write_text("\n".join((words * 8)[:800]))
    images = [
        {"filename": f"{photo.stem}{copy}.jpg", "imgid": 100 * copy + n,
         "split": "train" if copy < 4 else "val",
         "sentences": [{"raw": t} for t in (texts[photo.stem] * 5)[:5]]}
        for copy in range(6) for n, photo in enumerate(photos)
    ]  # fmt: skip
    (data / "karpathy.json").write_text(json.dumps({"images": images}))
    (data / "refs.json").write_text(json.dumps({k: (v * 5)[:5] for k, v in texts.items()}))
    machine = {k: " ".join(v[0].split()[::2]) for k, v in texts.items()}
    (data / "machine.json").write_text(json.dumps(machine))
    ratings = [{"caption": r["caption"], "references": r["references"], "rating": i % 5,
                "image": r["id"]} for i, r in enumerate(records[:400])]  # fmt: skip
    (data / "ratings.json").write_text(json.dumps(ratings))
    judged = data / "sets" / "flickr8k"
    judged.mkdir(parents=True)
    names = sorted(texts)
    (judged / "Flickr8k.token.txt").write_text(
        "\n".join(
            f"{name}.jpg#{k}\t{text}"
            for name in names
            for k, text in enumerate((texts[name] * 5)[:5])
        )
    )
    (judged / "ExpertAnnotations.txt").write_text(
        "\n".join(
            f"{a}.jpg\t{b}.jpg#{k}\t" + "\t".join(3 * [str(1 + (n + k) % 4)])
            for n, a in enumerate(names)
            for k, b in enumerate(names[:5])
        )
    )


def command(words: tuple[str, ...], data: Path, out: Path, cache: Path) -> list[str]:
    filled = [w.format(data=data, out=out) for w in words]
    return [sys.executable, "-m", "captious", *filled, "--cache", str(cache), "--quiet"]


def start(line: list[str], limit: int | None = None) -> subprocess.Popen[str]:
    def bound() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=bound, env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip


def finish(line: list[str]) -> float:
    begun = time.monotonic()
    child = start(line)
    _, said = child.communicate()
    if child.returncode:
        raise SystemExit(f"{' '.join(line)}\nended with {child.returncode}:\n{said[-2000:]}")
    return time.monotonic() - begun


def tables_only(cache: Path, fresh: Path) -> Path:
    """Return a cache with the converted tables of another, and nothing that a run has kept."""
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for name in ("meteor", "vectors", "onnx"):
        if (cache / name).exists():
            shutil.copytree(cache / name, fresh / name)
    return fresh


def kills(scenario: Scenario, home: Path, count: int, draw: random.Random) -> tuple[int, int, bool]:
    """Return (kills, of them in the middle of the run, whether the results are equal)."""
    data, cache = home / "data", home / "cache"
    whole = home / f"{scenario.name.replace(' ', '-')}-whole"
    finish(command(scenario.words, data, whole, cache))
    wanted = scenario.result(whole)
    again = whole.with_name(whole.name + "-again")
    seconds = finish(command(scenario.words, data, again, tables_only(cache, home / "again-cache")))
    if scenario.result(again) != wanted:
        return 0, 0, False
    out = home / f"{scenario.name.replace(' ', '-')}-killed"
    line = command(scenario.words, data, out, tables_only(cache, home / "killed-cache"))
    hits = 0
    for _ in range(count):
        child = start(line)
        try:
            child.wait(draw.uniform(0.3, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            hits += 1
        child.communicate()
    finish(line)
    return count, hits, scenario.result(out) == wanted


def file_limit(home: Path) -> tuple[bool, str]:
    """Writing fails in the middle: one line, an exit code, and the old output stays."""
    line = command(SCENARIOS[0].words, home / "data", home / "full", home / "cache")
    out = home / "full.json"
    out.write_text("old")
    child = start(line, limit=100_000)
    _, said = child.communicate()
    held = child.returncode != 0 and out.read_text() == "old" and "Traceback" not in said
    return held and len(said.strip().splitlines()) == 1, said.strip()[-300:]


def full_disk(home: Path) -> tuple[bool, str]:
    """Score into a small tmpfs that is full: one line, an exit code, and the old output stays."""
    disk = home / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        return True, "not tried: mounting a tmpfs needs root"
    try:
        (disk / "full.json").write_text("old")
        line = command(SCENARIOS[0].words, home / "data", disk / "full", home / "cache")
        child = start(line)
        _, said = child.communicate()
        kept = (disk / "full.json").read_text() == "old"
        held = child.returncode != 0 and kept and "Traceback" not in said
        return held and len(said.strip().splitlines()) == 1, said.strip()[-300:]
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def installed() -> list[str]:
    """Names of the metrics that run here."""
    from captious import registry

    return [name for name in registry.names() if not list(registry.create(name).missing())]


def at_once(
    home: Path, processes: int, metrics: str, cold: bool, one_output: bool
) -> tuple[bool, str]:
    """Start several processes together and compare their results."""
    tag = f"{metrics.replace(',', '-')}-{processes}-{one_output}"
    cache = home / (f"cold-{tag}" if cold else "cache")
    small = home / "data" / "small.json"
    records = json.loads((home / "data" / "caps.json").read_text())[:56]
    small.write_text(json.dumps(
        [r | {"image": str(home / "data/photos" / f"{r['id'].rstrip('0123456789')}0.jpg")}
         for r in records]))  # fmt: skip
    words = ("score", str(small), "-m", metrics, "-o", "{out}.json", "--no-intervals")
    outs = [home / f"{tag}-{0 if one_output else n}" for n in range(processes)]
    team = [start(command(words, home / "data", out, cache)) for out in outs]
    said = [child.communicate()[1].strip() for child in team]
    if any(child.returncode for child in team):
        bad = [s for child, s in zip(team, said, strict=True) if child.returncode]
        return False, f"{len(bad)} of {processes} failed: {bad[0][-300:]}"
    results = [_json_of(out.with_suffix(".json")) for out in outs]
    return all(r == results[0] for r in results), ""


def clock_back(home: Path) -> bool:
    """A run is killed, its files seem to come from tomorrow, and it is resumed."""
    words, out = SCENARIOS[2].words, home / "tomorrow"
    line = command(words, home / "data", out, home / "cache")
    child = start(line)
    time.sleep(6)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    for file in out.rglob("*") if out.exists() else ():
        os.utime(file, (time.time() + 86_400,) * 2)
    finish(line)
    return _regions_of(out) == _regions_of(home / "regions-whole")


def main() -> int:
    """Run the scenarios and say what held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=3, help="per scenario")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of scenarios")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    home = Path(tempfile.mkdtemp(prefix="captious-chaos-"))
    make_data(home / "data")
    finish(command(SCENARIOS[2].words, home / "data", home / "data" / "store", home / "cache"))
    from captious.evidence.regions import RegionFolder

    dim = RegionFolder(home / "data" / "store").dim
    config = {
        "hidden_size": 384, "num_hidden_layers": 1, "num_attention_heads": 12,
        "intermediate_size": 1536, "v_feature_size": dim, "v_num_hidden_layers": 1,
        "v_hidden_size": 32, "v_num_attention_heads": 4, "v_intermediate_size": 32,
        "bi_hidden_size": 32, "bi_num_attention_heads": 4, "bi_intermediate_size": 32,
        "v_target_size": 8, "v_biattention_id": [0], "t_biattention_id": [0],
    }  # fmt: skip
    (home / "data" / "vilbert.json").write_text(json.dumps(config))
    failed, total, middle = 0, 0, 0

    def tell(name: str, held: bool, more: str = "") -> None:
        nonlocal failed
        failed += not held
        print(f"{name:<44} {'held' if held else 'FAILED'}  {more}", flush=True)

    for scenario in SCENARIOS:
        if args.only is None or scenario.name in args.only:
            count, hits, held = kills(scenario, home, args.kills, draw)
            total, middle = total + count, middle + hits
            tell(f"{scenario.name}, killed and resumed", held, f"{hits} of {count} in the middle")
    if args.only is None or "faults" in args.only:
        tell("a file-size limit while writing", *file_limit(home))
        tell("a full disk while writing", *full_disk(home))
        for metrics in installed():
            name = f"four processes, cold cache: {metrics}"
            tell(name, *at_once(home, 4, metrics, cold=True, one_output=False))
        tell("two runs with one output", *at_once(home, 2, "bleu,rouge_l", False, True))
        if (home / "regions-whole").exists():
            tell("clock set back", clock_back(home))
    print(f"{total} kills, {middle} in the middle of a run; {failed} scenarios failed")
    if args.keep:
        print(home)
    else:
        shutil.rmtree(home)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
