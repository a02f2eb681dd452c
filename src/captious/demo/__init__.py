"""The bundled demonstration: free photographs, references, and captions of three systems.

References and captions were written by us while looking at the photographs. ``good`` is right and
detailed, ``vague`` is right but would fit many pictures, ``wrong`` is fluent but about another
picture. ``LICENCES.md`` names the author and the licence of every photograph.
"""

from __future__ import annotations

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
