"""Polaris and Nebula: captions of modern models rated on a scale of five (Wada 2024, Matsuda 2024).

CSV, JSON (also one object per line) or parquet with the fields ``mt`` (or ``cand``), ``refs`` (a
list, in a CSV in one cell), ``score`` (or ``human_score``) and ``imgid`` (or ``file_name``), as the
two are distributed and as ``datasets`` of the hub writes them out. A list in a cell is read as a
literal, never run as code.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from captious.judgements.judgement_set import Card, Checks, JudgementSet, Ratings
from captious.judgements.sets._files import number, picture, records
from captious.types import CaptionSet

POLARIS = Card(
    name="polaris",
    title="Polaris, test split, mean ratings scaled to 0..1 (Wada et al. 2024)",
    licence="Clear BSD; photographs of COCO and nocaps",
    files=("polaris/polaris_test.csv|polaris/polaris_test.json|polaris/polaris_test.parquet",),
    optional=("polaris/images",),
    counts="26,123 rated captions in the test split",
    traps=(
        "the copy on the hub (yuwd/Polaris) calls the columns cand and human_score and has no "
        "imgid, which says what ratings belong to one photograph: add one, or take the CSV",
        "papers print tau-c",
    ),
    get="polaris_test.csv of the archive polaris.zip, which the README of "
    "github.com/keio-smilab24/Polos links to, goes to polaris/",
)
NEBULA = Card(
    name="nebula",
    title="Nebula, test split, mean ratings scaled to 0..1 (Matsuda et al. 2024)",
    licence="see the hub page; photographs of several sources",
    files=("nebula/nebula_test.json|nebula/nebula_test.csv|nebula/nebula_test.parquet",),
    optional=("nebula/images",),
    counts="32,978 images over all splits",
    traps=(
        "test ratings of the first release have errors: the Spica corrections replace rows by "
        "(imgid, mt)",
    ),
    get="the test split of the hub data set Ka2ukiMatsuda/Nebula (fields file_name, refs, mt, "
    "human_score) goes to nebula/nebula_test.parquet as it is, or to nebula_test.json or .csv as "
    "datasets writes it without the column image; the CSV that the code of "
    "github.com/Ka2ukiMatsuda/DENEB reads (mt, refs, score, imgid) does, too",
)


def load(card: Card, root: Path) -> JudgementSet:
    """Read the file that is there."""
    checks = Checks(card.name)
    path = next(p for p in map(root.joinpath, card.files[0].split("|")) if p.exists())
    header, rows = records(path)
    names = {}
    for ours, theirs in {
        "caption": ("mt", "cand"),
        "refs": ("refs",),
        "score": ("score", "human_score"),
        "image": ("imgid", "file_name"),
    }.items():
        names[ours] = next((n for n in theirs if n in header), "")
        if not names[ours]:
            checks.bad("columns that are missing", " or ".join(theirs))
    checks.stop_if_bad()
    folder = path.parent / "images"
    captions, references, values, images = [], [], [], []
    seen: dict[tuple[str, str], str] = {}
    for place, row in rows:
        caption, image = (str(row.get(names[n], "")).strip() for n in ("caption", "image"))
        if (image, caption) in seen:
            checks.note("captions rated twice", f"{place} and {seen[image, caption]}")
        seen[image, caption] = place
        captions.append(caption)
        images.append(image)
        references.append(_list(row.get(names["refs"]), place, checks))
        values.append(number(row.get(names["score"]), 0, 1, place, checks))
    checks.stop_if_bad()
    units = np.empty(len(rows), object)
    units[:] = images
    samples = CaptionSet.build(
        captions,
        references,
        ids=[f"{n}|{image}" for n, image in enumerate(images)],
        images=[picture(folder, image, checks) for image in images],
    )
    ratings = Ratings(
        np.arange(len(rows)), np.array(values), np.zeros(len(rows), np.int64), 0.0, 1.0
    )
    return JudgementSet(
        card,
        samples,
        ratings,
        units,
        counts={"ratings": len(rows), "images": len(set(images))},
        remarks=checks.remarks(),
    )


def _list(cell: Any, place: str, checks: Checks) -> list[str]:
    readers = (json.loads, _literal) if isinstance(cell, str) else (lambda held: held,)
    for read in readers:
        try:
            texts = read(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
            continue
        if isinstance(texts, list) and texts and all(isinstance(x, str) for x in texts):
            return [x.strip() for x in texts]
    checks.bad("cells of references that are not a list of texts", f"{place}: {str(cell)[:40]}")
    return []


def _literal(cell: str) -> Any:
    """Read a list as Python or numpy writes it.

    numpy (and so pandas and ``datasets``) puts no comma between texts, and Python takes two texts
    without one for a single text.

    Example:
        >>> _literal("['a dog', 'one dog']"), _literal("['a dog' 'one dog']")
        (['a dog', 'one dog'], ['a dog', 'one dog'])
    """
    texts = ast.literal_eval(cell)
    if isinstance(texts, list) and all(isinstance(x, str) for x in texts):
        tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
        return [ast.literal_eval(t.string) for t in tokens if t.type == tokenize.STRING]
    return texts


SETS = ((POLARIS, partial(load, POLARIS)), (NEBULA, partial(load, NEBULA)))
