"""What a call of a prepared scorer costs: ``python benchmarks/scorer.py``.

One caption with five references, BLEU, ROUGE-L and CIDEr-D together: references known beforehand,
references that come again with the call, references that were never seen; beside
``captious.score``. Medians over many calls, in milliseconds of processor time of this process: what
other programs of the machine do does not count.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable

import captious

_TEXT = (
    "a the two man woman dog cat bus street grass red green big small runs sits stands on in with "
    "near of and ball frisbee table plate food water beach board person holding riding white"
)
_WORDS = _TEXT.split()


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(8, 13))) + "."


def median_ms(call: Callable[[int], object], times: int) -> float:
    took = []
    for i in range(times):
        begin = time.process_time()
        call(i)
        took.append(time.process_time() - begin)
    return 1000 * statistics.median(took)


def main() -> None:
    rng = random.Random(7)
    size = 1000
    captions = [sentence(rng) for _ in range(size)]
    references = [[sentence(rng) for _ in range(5)] for _ in range(size)]
    begin = time.process_time()
    known = captious.scorer(references={str(i): r for i, r in enumerate(references)})
    print(f"made, with {size} x 5 known references: {time.process_time() - begin:.2f} s")
    fresh = captious.scorer()
    fresh(captions[:1], references[:1])
    rows = {
        "references known beforehand": lambda i: known([captions[i]], ids=[i]),
        "references never seen before": lambda i: fresh([captions[i]], [references[i]]),
        "references seen before": lambda i: fresh([captions[i]], [references[i]]),
        "and corpus values": lambda i: fresh([captions[i]], [references[i]]).corpus,
    }
    for name, call in rows.items():
        print(f"{name:32} {median_ms(call, size):8.3f} ms per caption")
    for count in (16, 256):
        took = median_ms(lambda i, n=count: fresh(captions[:n], references[:n]), 30)
        print(f"{f'batch of {count}':32} {took:8.3f} ms, {took / count:.4f} ms per caption")
    took = median_ms(
        lambda i: captious.score(
            [captions[i]],
            [references[i]],
            metrics=["bleu", "rouge_l", "cider_d(df='coco-val')"],
            intervals=False,
        ),
        50,
    )
    print(f"{'captious.score':32} {took:8.3f} ms per caption")
    tracemalloc.start()
    for name, step in (("one by one", 1), ("in calls of 256", 256)):
        small = captious.scorer()
        small(captions[:step], references[:step])  # what a first call loads is not kept per caption
        gc.collect()  # what the scorer before this one leaves is not this one's
        before = tracemalloc.get_traced_memory()[0]
        for i in range(0, size, step):
            small(captions[i : i + step], references[i : i + step])
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
        print(
            f"memory kept per caption and its five references, {name}: {held / size / 1024:.1f} KiB"
        )


if __name__ == "__main__":
    main()
