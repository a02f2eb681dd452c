"""CHAIR of the captioners of COCO val2014 and of M2, BLIP-2 and LLaVA on the Karpathy test images.

    python benchmarks/chair.py --data ../shared/data [--authors FOLDER --pattern FOLDER] [--only M2]

Objects: coco/val2014_objects.parquet, which joins instances with the nouns of the references.

``--authors`` runs the authors' code beside ours on the same objects and captions: FOLDER is a
checkout of github.com/LisaAnne/Hallucination, the other one of github.com/clips/pattern, whose
``singularize`` it calls; nltk cuts the words and has to be installed. The code is of Python 2, so
the two functions that find objects (``CHAIR.__init__``, ``caption_to_words``) are read out of
their file, likewise ``singularize``; the rest needs COCO's own files. nltk's table of sentence ends
is not needed: sentences are cut behind a full stop.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from captious.metrics.chair import Chair
from captious.types import CaptionSet


def authors(checkout: Path, pattern: Path) -> Callable[[str], list[str]]:
    """Return the authors' function from a caption to its objects."""
    import nltk

    inflect = (pattern / "pattern" / "text" / "en" / "inflect.py").read_text("utf-8")
    prepositions = re.search(r"plural_prepositions = set\(\(.*?\)\)\n", inflect, re.DOTALL)
    section = inflect[inflect.index("singular_rules = [") : inflect.index("#### VERB CONJUGATION")]
    names: dict[str, Any] = {"re": re, "NOUN": "NN"}
    exec(prepositions[0] + section, names)  # type: ignore[index]
    cutter = nltk.NLTKWordTokenizer()

    class Cut:
        """What the code takes of nltk."""

        @staticmethod
        def word_tokenize(text: str) -> list[str]:
            sentences = re.split(r"(?<=[.!?])\s+", text)
            return [word for sentence in sentences for word in cutter.tokenize(sentence)]

    code = (checkout / "utils" / "chair.py").read_text("utf-8").expandtabs(4)
    rules = code[
        code.index("        #Some hard coded rules") : code.index("    def _load_generated")
    ]
    finding = code[
        code.index("    def caption_to_words") : code.index("    def get_annotations_from_segments")
    ]
    scope: dict[str, Any] = {"nltk": Cut, "singularize": lru_cache(None)(names["singularize"])}
    exec(dedent(finding) + "\n" + "def rules(self):\n" + rules, scope)

    class Finder:
        """The state that the two functions share."""

    finder: Any = Finder()
    listed_words = (checkout / "data" / "synonyms.txt").read_text("utf-8").splitlines()
    synonyms = [line.strip().split(", ") for line in listed_words]
    finder.mscoco_objects = [word for listed in synonyms for word in listed]
    finder.inverse_synonym_dict = {word: listed[0] for listed in synonyms for word in listed}
    scope["rules"](finder)
    find = scope["caption_to_words"]

    def objects(caption: str) -> list[str]:
        return find(finder, caption)[1]

    return objects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--authors", type=Path, help="a checkout of LisaAnne/Hallucination")
    parser.add_argument("--pattern", type=Path, help="a checkout of clips/pattern")
    parser.add_argument("--only", nargs="+", help="these captioners alone")
    given = parser.parse_args()
    find = authors(given.authors, given.pattern) if given.authors else None
    folder = given.data / "coco"
    objects = pq.read_table(folder / "val2014_objects.parquet").to_pydict()
    labels = dict(zip(map(str, objects["image_id"]), map(tuple, objects["objects"]), strict=True))
    people = pq.read_table(folder / "val2014_captions.parquet").to_pydict()
    systems = pq.read_table(folder / "val2014_systems.parquet").to_pydict()
    modern = pq.read_table(folder / "karpathy_test_systems.parquet").to_pydict()
    runs = [(name, systems["image_id"], systems[name]) for name in systems if name != "image_id"]
    runs += [
        (name, modern["image_id"], modern[name])
        for name in modern
        if name not in ("image_id", "references")
    ]
    runs.append(("people, first caption", people["image_id"], [c[0] for c in people["captions"]]))
    theirs = " authors CHAIRs | authors CHAIRi | agree |" if find else ""
    print(f"| captions of | images | CHAIRs | CHAIRi | recall | F1 | cut off | CPU s |{theirs}")
    print("|" + "---|" * (8 + theirs.count("|")))
    metric = Chair()
    for name, images, captions in runs:
        if given.only and name not in given.only:
            continue
        samples = CaptionSet.build(captions, images=[str(i) for i in images]).with_labels(labels)
        began = time.process_time()
        stats = metric.stats(samples, None)
        took = time.process_time() - began
        values = " | ".join(f"{100 * value:.1f}" for value in metric.aggregate(stats.rows))
        cut = sum(count for remark, count in stats.notes.items() if "cut off" in remark)
        row = f"| {name} | {len(samples):,} | {values} | {cut:,} | {took:.2f} |"
        if find is not None:
            named = [find(text) for text in captions]
            there = [frozenset(labels.get(str(image), ())) for image in images]
            wrong = [
                sum(w not in seen for w in said) for said, seen in zip(named, there, strict=True)
            ]
            share = sum(wrong) / max(sum(map(len, named)), 1)
            some = np.array(wrong) > 0
            agree = float((some == (stats.rows[:, 2] > 0)).mean())
            row += f" {100 * some.mean():.1f} | {100 * share:.1f} | {100 * agree:.1f} % |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
