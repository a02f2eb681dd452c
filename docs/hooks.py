"""Brings CHANGELOG.md and LICENCES.md, which lie beside docs/, into the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("CHANGELOG.md", "LICENCES.md")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for name in BESIDE:
        text = (ROOT / name).read_text().replace("(docs/", "(")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to them lead into the site."""
    for name in BESIDE:
        markdown = markdown.replace(f"](../{name}", f"]({name}")
    return markdown
