"""SVG as PNG, through resvg; letters are those of DejaVu, which matplotlib brings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from captious.errors import MissingExtra
from captious.io import files


def save_png(svg: str, path: Path, scale: int = 2) -> None:
    """Write an SVG picture as PNG, ``scale`` pixels for each unit.

    Raises:
        MissingExtra: resvg is not installed.
    """
    if find_spec("resvg_py") is None:
        raise MissingExtra("resvg_py", "report", "a PNG picture")
    import resvg_py

    content = resvg_py.svg_to_bytes(
        svg_string=svg,
        zoom=scale,
        background="#ffffff",
        font_dirs=_fonts(),
        font_family="DejaVu Sans",
        sans_serif_family="DejaVu Sans",
        monospace_family="DejaVu Sans Mono",
    )
    with files.replacing(path, "wb") as file:
        file.write(bytes(content))


def _fonts() -> list[str]:
    """Return where DejaVu lies, so that a machine without fonts writes words too."""
    package = find_spec("matplotlib")
    if package is None or package.origin is None:
        return []
    return [str(Path(package.origin).parent / "mpl-data/fonts/ttf")]
