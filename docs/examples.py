"""Write a worked example of every metric: docs/metrics/examples/NAME.txt and a picture beside it.

    python docs/examples.py [NAME...]

Runs the real models on a bundled photograph and caption; `docs/generate.py` puts the result into
the page of each metric.
"""

from __future__ import annotations

import sys
from pathlib import Path

from captious import demo, registry
from captious.engine.explain import explain
from captious.engine.job import ScoringJob
from captious.errors import CaptiousError
from captious.report.pictures import draw

HERE = Path(__file__).resolve().parent / "metrics" / "examples"
ROW = "dogs"


def main() -> int:
    HERE.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name in sys.argv[1:] or registry.names():
        metric = registry.load(name)()
        job = ScoringJob(
            demo.captions_file(), demo.references_file(), demo.folder() / "photos",
            metrics=(metric,), resamples=0,
        )  # fmt: skip
        samples = job.read()
        row = samples.ids.tolist().index(ROW)
        try:
            told = explain(samples, metric, row)
        except CaptiousError as err:
            print(f"{name}: {str(err).splitlines()[0]}")
            wrong += 1
            continue
        lines = [line.rstrip() for line in told.text.rstrip().splitlines()]
        (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
        svg = draw(told)
        if svg is not None and len(svg) < 60_000:  # a photograph inside makes a page heavy
            (HERE / f"{name}.svg").write_text(svg)
    print(f"{wrong} metrics have no example")
    return 0


if __name__ == "__main__":
    sys.exit(main())
