"""The bundled demonstration: free photographs, references, and captions of three systems.

References and captions were written by us while looking at the photographs. ``good`` is right and
detailed, ``vague`` is right but would fit many pictures, ``wrong`` is fluent but about another
picture. ``LICENCES.md`` names the author and the licence of every photograph.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def folder() -> Path:
    """Return the folder that holds the set."""
    return Path(__file__).parent


def photographs() -> list[Path]:
    """Return the photographs, sorted by name."""
    return sorted((folder() / "photos").glob("*.jpg"))


def captions_file() -> Path:
    """Return the JSONL file with the captions of all systems."""
    return folder() / "captions.jsonl"


def references_file() -> Path:
    """Return the JSON file with five references per photograph."""
    return folder() / "references.json"


def copy_files(to: Path) -> None:
    """Copy the set into a folder, as people have such files: one caption file per system."""
    to.mkdir(parents=True, exist_ok=True)
    by_system: dict[str, list[dict[str, str]]] = {}
    for line in captions_file().read_text("utf-8").splitlines():
        row = json.loads(line)
        by_system.setdefault(row["system"], []).append(
            {"image_id": row["image"], "caption": row["caption"]}
        )
    for system, rows in by_system.items():
        (to / f"{system}.json").write_text(json.dumps(rows, indent=1), "utf-8")
    shutil.copy(references_file(), to / "refs.json")
    shutil.copytree(folder() / "photos", to / "photos", dirs_exist_ok=True)
