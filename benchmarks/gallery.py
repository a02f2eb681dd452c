"""Pages of the explorer's gallery over 100,000 captions: ``python benchmarks/gallery.py``.

Made-up captions of two systems with five references each, BLEU, ROUGE-L and CIDEr-D. Prints how
long a run takes to open and to warm up (in the background), and then the processor time of a page
(12 samples, as JSON) for every sort order and filter, the first time and after that.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np
from scorer import sentence

import captious
from captious.serve.views import MODES, SORTS, Asked, View

ROWS = 100_000


def main() -> None:
    rng = random.Random(5)
    images = ROWS // 2
    captions = [sentence(rng) for _ in range(ROWS)]
    references = [[sentence(rng) for _ in range(5)] for _ in range(images)]
    ids = [str(i) for i in range(images)]
    samples = captious.CaptionSet.build(
        captions, references * 2, ids=ids * 2, systems=["a"] * images + ["b"] * images
    )
    table = captious.score(samples, metrics=("bleu", "rouge_l", "cider_d"), intervals=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        table.save(path)
        begin = time.perf_counter()
        view = View(path, None)
        print(f"{ROWS:,} captions opened in {time.perf_counter() - begin:.1f} s")
        begin = time.perf_counter()
        view.warm()
        print(f"warm after another {time.perf_counter() - begin:.1f} s")
        usual = {"metric": "cider_d", "x": "bleu_4", "y": "cider_d", "base": "a", "vs": "b"}
        asked = [Asked(mode=mode, **usual) for mode in MODES]
        asked += [Asked(sort=sort, **usual) for sort in SORTS]
        asked += [Asked(find="dog beach", **usual), Asked(find="dog", sort="worst", **usual)]
        slowest = 0.0
        for question in asked:
            times = [_time(view, question, offset) for offset in (0, 0, 0, 600, 20_000)]
            slowest = max(slowest, *times)
            label = f"{question.mode} {question.sort} {question.find}"
            print(f"{label:<24} first {times[0]:7.1f} ms, then {np.median(times[1:]):6.1f} ms")
        print(f"slowest page: {slowest:.1f} ms")


def _time(view: View, asked: Asked, offset: int) -> float:
    begin = time.process_time()  # what else runs on the machine does not count
    total, items = view.page(asked, offset, 12)
    json.dumps({"total": total, "items": items})
    return 1000 * (time.process_time() - begin)


if __name__ == "__main__":
    main()
