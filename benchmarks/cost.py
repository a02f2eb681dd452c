"""What the worst captions cost: processor seconds of one thread, printed for docs/reliability.md.

python benchmarks/cost.py classic     the longest captions that the loader accepts, every metric
python benchmarks/cost.py meteor      one word, again and again
python benchmarks/cost.py bert_tbr    up to 1,000 references
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import captious

CLASSIC = ("bleu", "rouge_l", "cider", "cider_d", "meteor", "spice", "spider", "distinct",
           "unigram_tbr", "wmd")  # fmt: skip
MOST = 99_990  # characters; the loader accepts 100,000
LONG = {
    "one word": "a " * 50_000,
    "997 words": " ".join(f"w{i % 997}" for i in range(50_000)),
    "no space": "x" * MOST,
    "sentences": "the dog and the cat on a red sofa near two men . " * 9000,
}
OTHER = "two dogs play in the snow"
WORDS = [
    "a",
    "the",
    "dog",
    "cat",
    "man",
    "woman",
    "two",
    "three",
    "red",
    "blue",
    "ball",
    "park",
    "beach",
    "runs",
    "sits",
    "jumps",
    "on",
    "in",
    "with",
    "near",
    "green",
    "grass",
    "bench",
    "street",
    "bus",
    "plays",
    "holds",
    "looks",
    "young",
    "old",
    "big",
    "small",
    "white",
    "black",
]


def seconds(captions: list[str], references: list[list[str]], metric: str) -> tuple[float, str]:
    begun = time.process_time()
    table = captious.score(captions, references, metrics=metric)
    spent = time.process_time() - begun
    column = next(iter(table.values))
    reasons = [u.reason for u in table.unscored if u.column == column]
    return spent, f"{table.values[column][0]:.4f}" + (f"  ({reasons[0]})" if reasons else "")


def classic() -> None:
    for metric in CLASSIC:
        seconds([OTHER, "a cat"], [[OTHER], ["a cat"]], metric)  # tables and models are loaded
        for name, text in LONG.items():
            text = text[:MOST].strip()
            spent, value = seconds([text, OTHER], [[text, "a dog"], [OTHER, "dogs"]], metric)
            print(f"{metric:<12} {name:<10} {spent:6.2f} s  {value}", flush=True)


def meteor() -> None:
    seconds(["a " * 400], [["a " * 400]], "meteor")  # compiles
    for count in (100, 300, 1200, 1990, 9000):
        text = ("a " * count).strip()
        spent, value = seconds([text], [[text + " b"]], "meteor")
        print(f"meteor, {count:>5} times the same word {spent:6.2f} s  {value}", flush=True)


def jar() -> None:
    from captious import assets

    draw = random.Random(3)
    few = "a a a the dog cat cats dogs big large".split()  # noqa: SIM905
    pairs = [("a " * n, "a " * n + "b") for n in (20, 60, 150)]
    for _ in range(12):
        pairs.append((" ".join(draw.choices(few, k=60)), " ".join(draw.choices(few, k=55))))
    program = assets.resolve("meteor-tables", wanted_by="this comparison")
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("captions", "references")]
        for place, texts in zip(places, zip(*pairs, strict=True), strict=True):
            place.write_text("\n".join(t.strip() for t in texts) + "\n")
        line = ["java", "-Xmx2G", "-jar", str(program), *map(str, places), "-l", "en", "-norm"]
        said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    theirs = [float(x) for x in re.findall(r"Segment \d+ score:\s+(\S+)", said)]
    table = captious.score([c for c, _ in pairs], [[r] for _, r in pairs], metrics="meteor")
    apart = max(abs(a - b) for a, b in zip(theirs, table.values["meteor"], strict=True))
    print(f"meteor and its jar on {len(theirs)} pairs: at most {apart:.1e} apart")


def bert_tbr() -> None:
    draw = random.Random(0)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=11))

    seconds([sentence()], [[sentence()]], "bert_tbr")
    for count in (5, 80, 160, 320, 1000):
        spent, value = seconds([sentence()], [[sentence() for _ in range(count)]], "bert_tbr")
        print(f"bert_tbr, {count:>5} references {spent:6.2f} s  {value}", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("classic", "meteor", "bert_tbr"):
        {"classic": classic, "meteor": meteor, "bert_tbr": bert_tbr, "jar": jar}[name]()
