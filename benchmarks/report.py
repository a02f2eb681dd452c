"""The report over 100,000 captions: ``python benchmarks/report.py``.

Made-up captions of two systems with five references each, scored with BLEU, METEOR, ROUGE-L and
CIDEr-D. Prints how long it takes to read the stored table and write its report, without
explanations and with those that a report has unless told otherwise, the size of the page, and how
long chromium takes until the page is ready. Processor time beside wall-clock time: what else runs
on the machine counts in the latter.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path

from scorer import sentence

import captious
from captious.engine.table import ScoreTable
from captious.report import page

ROWS = 100_000
METRICS = ("bleu", "meteor", "rouge_l", "cider_d")


def main() -> None:
    rng = random.Random(5)
    images = ROWS // 2
    references = [[sentence(rng) for _ in range(5)] for _ in range(images)]
    samples = captious.CaptionSet.build(
        [sentence(rng) for _ in range(ROWS)],
        references * 2,
        ids=[str(i) for i in range(images)] * 2,
        systems=["a"] * images + ["b"] * images,
    )
    with tempfile.TemporaryDirectory() as folder:
        stored, out = Path(folder) / "scores.parquet", Path(folder) / "report.html"
        captious.score(samples, metrics=METRICS, intervals=False).save(stored)
        for seconds in (0.0, page.Options.seconds):
            wall, spent = time.perf_counter(), time.process_time()
            remarks = page.write(ScoreTable.load(stored), out, page.Options(seconds=seconds))
            print(
                f"{ROWS:,} captions, {'with' if seconds else 'without'} explanations: "
                f"{time.process_time() - spent:.1f} s of processor time, "
                f"{time.perf_counter() - wall:.1f} s by the clock, "
                f"{out.stat().st_size / 1e6:.2f} MB",
                *remarks,
                sep="\n  ",
                flush=True,
            )
        _opened(out)


def _opened(path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium: not opened")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = running.chromium.launch(executable_path=chromium, args=flags, timeout=300_000)
        tab = browser.new_page()
        tab.set_default_timeout(300_000)
        seen = tab.context.new_cdp_session(tab)
        seen.send("Performance.enable")
        begin = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-ready]")
        wall = time.perf_counter() - begin
        held = {m["name"]: m["value"] for m in seen.send("Performance.getMetrics")["metrics"]}
        print(
            f"opened in {wall:.2f} s by the clock; the page's own work: "
            f"{held['TaskDuration']:.2f} s, scripts {held['ScriptDuration']:.2f} s"
        )
        browser.close()


if __name__ == "__main__":
    main()
