"""COCO Captioning Challenge 2015: human judgements M1..M5 of whole systems, and their scores.

The collection holds no captions of the teams, so that only metrics whose values the leaderboard
shows can be compared with people; whoever has captions puts them beside it (``coco2015/captions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from captious.io import files
from captious.judgements.judgement_set import Card, Checks, SystemTable
from captious.judgements.sets._files import table
from captious.types import Floats

HUMAN = {
    "M1": "share of captions judged better than or equal to a human's",
    "M2": "share of captions that pass the Turing test",
    "M3": "mean correctness 1..5",
    "M4": "mean amount of detail 1..5",
    "M5": "share of captions that are similar to a human description",
}

CAPTIONS = "coco2015/captions"

CARD = Card(
    name="coco2015",
    title="COCO Captioning Challenge 2015, 15 teams and two baselines",
    licence="published leaderboard",
    files=("coco2015/challenge_2015.csv",),
    optional=(CAPTIONS,),
    counts="15 teams, Human and Random with M1..M5; 14 teams and Human with C5 and C40 scores",
    traps=(
        "papers correlate over 12 teams and do not name them; two rows are called m-RNN",
        "the papers score validation images, the leaderboard the hidden test images",
        "some leaderboard rows are of a later submission than the judged one (see the dates)",
        "Human has to be left out: the interval of r is dominated by it",
    ),
    get="M1..M5 and C5/C40 tables of cocodataset.org, as coco2015/challenge_2015.csv",
)
NOT_TEAMS = ("Human", "Random")


def load(root: Path) -> SystemTable:
    """Read the table; empty cells are scores that were not published."""
    checks = Checks(CARD.name)
    header, rows = table(root / CARD.files[0])
    for column in ("team", *HUMAN):
        if column not in header:
            checks.bad("columns that are missing", column)
    checks.stop_if_bad()
    teams = [row["team"].strip() for _, row in rows]
    for place, row in rows:
        if teams.count(row["team"].strip()) > 1:
            checks.bad("teams that appear twice", f"{place}: {row['team']}")
    metrics = [c for c in header if c.startswith(("c5_", "c40_")) and not c.endswith("_date")]

    def values_of(name: str) -> Floats:
        values = []
        for place, row in rows:
            try:
                values.append(float(row[name]) if row[name] else float("nan"))
            except ValueError:
                checks.bad("cells that are not numbers", f"{place}: {name} {row[name]!r}")
                values.append(float("nan"))
        return np.array(values)

    systems = SystemTable(
        CARD, tuple(teams), {c: values_of(c) for c in HUMAN}, {c: values_of(c) for c in metrics}
    )
    checks.stop_if_bad()
    return systems


def team_captions(root: Path, teams: Sequence[str]) -> dict[str, dict[int, str]]:
    """Return the captions of the teams whose file is there: ``TEAM.json``, COCO results.

    Raises:
        InputError: a file is of no team, or is not a list of ``image_id`` and ``caption``.
    """
    folder = root / CAPTIONS
    known = {_key(team): team for team in teams}
    checks = Checks(CARD.name)
    captions_of_team: dict[str, dict[int, str]] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        team = known.get(_key(path.stem))
        if team is None:
            checks.bad("caption files of no team", path.name)
            continue
        try:
            captions = {int(r["image_id"]): str(r["caption"]) for r in files.read_json(path)}
        except (KeyError, TypeError, ValueError):
            checks.bad("caption files without image_id and caption", path.name)
            continue
        captions_of_team[team] = captions
    checks.stop_if_bad()
    return captions_of_team


def _key(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


SETS = ((CARD, load),)
