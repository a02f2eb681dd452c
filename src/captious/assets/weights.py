"""Are the weights that captious ships what they were when they were made?

``weights/SHA256SUMS`` lists every file; ``python -m captious.assets.weights`` writes it anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

from captious.assets.resolve import digest
from captious.reading import read_text

FOLDER = Path(__file__).parents[1] / "weights"
SUMS = FOLDER / "SHA256SUMS"


def listed() -> dict[str, str]:
    """Return file below the folder -> sha256, as it should be."""
    lines = read_text(SUMS).splitlines()
    return {name: total for total, name in (line.split("  ", 1) for line in lines if line)}


def present() -> dict[str, str]:
    """Return file below the folder -> sha256, as it is."""
    paths = sorted(p for p in FOLDER.rglob("*") if p.is_file() and p != SUMS)
    return {
        p.relative_to(FOLDER).as_posix(): digest(p)
        for p in paths
        if p.suffix not in (".py", ".pyc", ".md") and not p.name.startswith(".")
    }


def damaged() -> list[str]:
    """Return one line per file that is missing, changed or not listed."""
    should, have = listed(), present()
    lines = [f"{name}: missing" for name in should if name not in have]
    lines += [
        f"{name}: {'changed' if name in should else 'not listed'}"
        for name, total in have.items()
        if should.get(name) != total
    ]
    return lines


def write() -> None:
    """Write the list anew, after weights were trained again."""
    SUMS.write_text("".join(f"{total}  {name}\n" for name, total in present().items()))


if __name__ == "__main__":
    write()
    sys.stdout.write(f"wrote {SUMS}\n")
