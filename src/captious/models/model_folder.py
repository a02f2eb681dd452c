"""What beside its weights decides the numbers of a model's folder.

The same weights give other vectors under another activation, another table of pieces or another
template of questions, and all of these are small files beside them. A model in the cache of the
hub also has a revision: the commit that its folder is called.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from captious import assets
from captious.reading import json_object

# Configuration, tables of pieces, templates, and matrices that are added to the weights.
_DECIDING = ("*.json", "*.txt", "*.model", "*.jinja", "*.bpe", "adapter_model.*")
_TOLD = ("transformers_version", "_name_or_path", "_commit_hash")  # of where a file came from
_COMMIT = re.compile(r"[0-9a-f]{40}")


def settings_sha(folder: Path) -> str:
    """Return eight digits that differ where a small file of a model's folder does.

    Of ``config.json`` the content counts, not its layout, nor which version of transformers wrote
    it.
    """
    digest = hashlib.sha256()
    for file in sorted({file for pattern in _DECIDING for file in folder.glob(pattern)}):
        if not file.is_file():
            continue
        if file.name == "config.json":
            facts = json_object(file, "a model's configuration")
            kept = {name: value for name, value in facts.items() if name not in _TOLD}
            content = json.dumps(kept, sort_keys=True)
        else:
            content = assets.digest(file)
        digest.update(f"{file.name}\0{content}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:8]


def revision(folder: Path) -> str:
    """Return the commit of a model in the cache of the hub (12 digits), or ``folder``."""
    name = folder.resolve().name
    return name[:12] if _COMMIT.fullmatch(name) else "folder"
