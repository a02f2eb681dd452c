"""Corpus values by group of images: nocaps in-domain, near-domain, out-domain.

Statistics of a caption are those of the whole run (document frequencies are counted once); the
values of a group are computed from the statistics of its captions alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious.engine.table import ScoreTable
from captious.errors import InputError
from captious.evidence.image_lists import key
from captious.reading import parse_json, read_text

_GROUP = ("domain", "group")
_IMAGE = ("id", "image_id", "image", "file_name", "open_images_id")


@dataclass(frozen=True)
class Domain:
    """One group of images.

    Attributes:
        name: of the group.
        captions: system -> number of its captions in the group.
        corpora: system -> column -> corpus value.
    """

    name: str
    captions: dict[str, int]
    corpora: dict[str, dict[str, float]]


def read(path: Path) -> dict[str, str]:
    """Return the group of every image of a file.

    It is nocaps' annotations (``images`` with a ``domain`` each), a JSON object image -> group, or
    a CSV with the columns ``image`` and ``group`` (or ``domain``).

    Raises:
        InputError: it is none of these.
    """
    text = read_text(path)
    entries: list[Mapping[str, Any]]
    if path.suffix == ".csv":
        entries = list(csv.DictReader(io.StringIO(text, newline="")))
    else:
        content = parse_json(text, path)
        if isinstance(content, dict) and isinstance(content.get("images"), list):
            entries = [entry for entry in content["images"] if isinstance(entry, dict)]
        elif isinstance(content, dict) and all(isinstance(v, str) for v in content.values()):
            entries = [{"image": image, "group": group} for image, group in content.items()]
        else:
            entries = []
    groups: dict[str, str] = {}
    for entry in entries:
        group = next((entry[name] for name in _GROUP if entry.get(name)), None)
        if group is not None:
            names = [entry[name] for name in _IMAGE if entry.get(name) not in (None, "")]
            groups |= {key(str(name)): str(group) for name in names}
    if not groups:
        raise InputError(
            f"{path}: no image has a group; expected nocaps' annotations (images with a domain), a "
            'JSON object {"image": "group"}, or a CSV with the columns image and group'
        )
    return groups


def by_domain(table: ScoreTable, groups: Mapping[str, str]) -> list[Domain]:
    """Return the corpus values of every group, in the order of the mapping.

    Raises:
        InputError: no image of the table has a group.
    """
    known = {key(image): group for image, group in groups.items()}
    found = np.array([known.get(key(str(image)), "") for image in table.samples.image_keys])
    if not (found != "").any():
        mine = ", ".join(repr(i) for i in dict.fromkeys(table.samples.image_keys[:3].tolist()))
        theirs = ", ".join(map(repr, list(groups)[:3]))
        raise InputError(
            f"no image of the captions has a group: images are called {mine} in the captions and "
            f"{theirs} in the groups"
        )
    domains = []
    for name in dict.fromkeys(groups.values()):
        counts, corpora = {}, {}
        for system in table.corpora:
            rows = (found == name) & (table.samples.systems == system)
            counts[system] = int(rows.sum())
            corpora[system] = {
                column: float(values[at])
                for step, block in zip(table.steps, table.blocks, strict=True)
                for values in [step.metric.aggregate(block[rows])]
                for column, at in zip(step.names, step.index, strict=True)
            }
        domains.append(Domain(name, counts, corpora))
    return domains


def cells(table: ScoreTable, domains: list[Domain]) -> list[list[list[str]]]:
    """Return a table per system: metrics as rows, groups as columns, the whole run last."""
    tables = []
    for system, whole in table.corpora.items():
        held = [domain for domain in domains if domain.captions[system]]
        title = f"metric, {system}" if system else "metric"
        of_all = int((table.samples.systems == system).sum())
        rows = [[title, *(domain.name for domain in held), "all"]]
        rows.append(["captions", *(f"{d.captions[system]:,}" for d in held), f"{of_all:,}"])
        for column, value in whole.items():
            shown = [*(d.corpora[system][column] for d in held), float(value)]
            rows.append([column, *("-" if v != v else f"{v:.4f}" for v in shown)])
        tables.append(rows)
    return tables
