"""How far scores move when rows are shuffled, doubled, sharded or taken one by one.

    python benchmarks/determinism.py             every metric, on the captions of the contract
    python benchmarks/determinism.py FILE.txt    SPICE's parser on sentences, without its cache

A metric prints the largest difference of each way from the plain run; 0 is equality to the bit. For
the two columns of threads, torch is told the number too, not only captious.
"""

from __future__ import annotations

import sys
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

WAYS = ("shuffled", "doubled", "7 shards", "one by one", "1 thread", "2 threads")


def metrics() -> None:
    import torch

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import test_contract as contract
    from captious import registry, settings
    from captious.demo import photographs

    pictures = dict(zip(contract._REFS, map(str, photographs()), strict=False))
    print(f"{'metric':<15}" + "".join(f"{way:>12}" for way in WAYS))
    for name in registry.names():
        metric = registry.load(name)()
        if metric.missing():
            print(f"{name:<15} not installed")
            continue
        samples = contract.samples_for(metric, pictures)
        context = metric.prepare(samples)

        def run(part: Any, facts: Any, metric: Any = metric) -> Any:
            return metric.scores(metric.stats(part, facts).rows)

        whole, count = run(samples, context), len(samples)
        order = np.random.default_rng(0).permutation(count)
        parts = [samples.take(np.arange(count)[k::7]) for k in range(7)]
        merged = reduce(metric.merge, [metric.prepare(part) for part in parts])
        sharded = np.empty_like(whole)
        for k, part in enumerate(parts):
            sharded[k::7] = run(part, merged)
        found = [
            (run(samples.take(order), context), whole[order]),
            (run(samples.take(np.repeat(np.arange(count), 2)), context)[::2], whole),
            (sharded, whole),
            (np.concatenate([run(samples[i : i + 1], context) for i in range(count)]), whole),
        ]
        times = 1 if contract.is_neural(metric) else 450
        many = samples.take(np.tile(np.arange(count), times))
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with settings.use(threads=threads):
                found.append((run(many, context)[:count], whole))
        torch.set_num_threads(1)
        cells = [
            "0" if np.array_equal(a, b, equal_nan=True) else f"{np.nanmax(np.abs(a - b)):.1e}"
            for a, b in found
        ]
        print(f"{name:<15}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def parser(file: Path) -> None:
    from captious.text.scene_parser import SceneParser, encode_all

    model = SceneParser("default").path
    lines = (" ".join(line.split()) for line in file.read_text().splitlines())
    texts = list(dict.fromkeys(line for line in lines if line))
    known = dict(zip(texts, encode_all(model, texts), strict=True))
    for way, some in (("reversed", texts[::-1]), ("by length", sorted(texts, key=len))):
        moved = sum(known[t] != p for t, p in zip(some, encode_all(model, some), strict=True))
        print(f"{way}: {moved} of {len(some)} parses differ")
    few = texts[:300]
    moved = sum(known[t] != next(iter(encode_all(model, [t]))) for t in few)
    print(f"one by one: {moved} of {len(few)} parses differ")


if __name__ == "__main__":
    parser(Path(sys.argv[1])) if len(sys.argv) > 1 else metrics()
