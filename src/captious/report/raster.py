"""The SVG pictures of captious as PNG, through matplotlib.

Not a renderer of any SVG: it knows what the explanations draw (rectangles, lines, paths, text,
embedded photographs, groups that are shifted, ``use``), and says so where it meets anything else.
"""

from __future__ import annotations

import base64
import colorsys
import re
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from captious.errors import InputError, MissingExtra
from captious.io import files

_SPACE = "{http://www.w3.org/2000/svg}"
_DPI = 100
_INHERITED = (
    "fill", "stroke", "stroke-width", "fill-opacity", "stroke-opacity", "opacity",
    "font-size", "font-family", "font-weight", "font-style", "text-anchor",
)  # fmt: skip
_SILENT = {"title", "desc", "defs"}
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)"


def save_png(svg: str, path: Path, scale: float = 2.0) -> None:
    """Write an SVG picture of captious as PNG, ``scale`` pixels for each unit."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "report", "a PNG picture")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    root = ElementTree.fromstring(svg)
    width, height = (float(root.get(side, "0")) for side in ("width", "height"))
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI * scale, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_autoscale_on(False)
    _Painter(axes, root).paint(root, {}, 0.0, 0.0)
    with files.replacing(path, "wb") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box: the font lacks it
        figure.savefig(file, format="png")


class _Painter:
    """Walks the elements in order; what comes later lies above."""

    def __init__(self, axes: Any, root: ElementTree.Element) -> None:
        self.axes = axes
        self.named = {one.get("id"): one for one in root.iter() if one.get("id")}
        self.depth = 0.0

    def paint(
        self, element: ElementTree.Element, above: dict[str, str], x: float, y: float
    ) -> None:
        kind = element.tag.removeprefix(_SPACE)
        if kind in _SILENT:
            return
        style = above | {k: v for k, v in element.attrib.items() if k in _INHERITED}
        dx, dy, angle = _moved(element.get("transform", ""))
        x, y = x + dx, y + dy
        self.depth += 1
        if kind in ("svg", "g"):
            for child in element:
                self.paint(child, style, x, y)
        elif kind == "use":
            self.paint(self.named[element.get("href", "")[1:]], style, x, y)
        elif kind == "text":
            self._text(element, style, x, y, angle)
        elif kind == "image":
            self._image(element, x, y)
        elif kind in ("rect", "line", "path"):
            self._shape(kind, element, style, x, y)
        else:
            raise InputError(f"a picture with <{kind}> cannot be written as PNG; take .svg")

    def _shape(
        self, kind: str, element: ElementTree.Element, style: dict[str, str], x: float, y: float
    ) -> None:
        from matplotlib import patches
        from matplotlib.path import Path as Outline

        def at(name: str) -> float:
            return float(element.get(name, "0"))

        shape: Any
        if kind == "rect":
            wide, high = at("width"), at("height")
            round_by = min(at("rx"), wide / 2, high / 2)
            if wide <= 0 or high <= 0:
                return
            if round_by:
                shape = patches.FancyBboxPatch(
                    (x + at("x") + round_by, y + at("y") + round_by),
                    wide - 2 * round_by,
                    high - 2 * round_by,
                    boxstyle=patches.BoxStyle.Round(pad=round_by),
                )
            else:
                shape = patches.Rectangle((x + at("x"), y + at("y")), wide, high)
        elif kind == "line":
            ends = [(x + at("x1"), y + at("y1")), (x + at("x2"), y + at("y2"))]
            shape = patches.PathPatch(Outline(ends))
        else:
            shape = patches.PathPatch(_outline(element.get("d", ""), x, y))
        whole = float(style.get("opacity", "1"))
        fill = "none" if kind == "line" else style.get("fill", "#000")
        stroke = style.get("stroke", "none")
        shape.set_facecolor(_colour(fill, whole * float(style.get("fill-opacity", "1"))))
        shape.set_edgecolor(_colour(stroke, whole * float(style.get("stroke-opacity", "1"))))
        thick = float(style.get("stroke-width", "1")) if stroke != "none" else 0.0
        shape.set_linewidth(thick * 72 / _DPI)
        shape.set_antialiased(thick > 0 or kind != "rect")  # no seams between cells
        shape.set_zorder(self.depth)
        self.axes.add_patch(shape)

    def _text(
        self, element: ElementTree.Element, style: dict[str, str], x: float, y: float, angle: float
    ) -> None:
        family = style.get("font-family", "sans-serif")
        self.axes.text(
            x + float(element.get("x", "0")),
            y + float(element.get("y", "0")),
            "".join(element.itertext()).replace("$", r"\$"),
            fontsize=float(style.get("font-size", "12")) * 72 / _DPI,
            family="DejaVu Sans Mono" if family == "monospace" else "DejaVu Sans",
            weight=style.get("font-weight", "normal"),
            style=style.get("font-style", "normal"),
            color=_colour(style.get("fill", "#000"), float(style.get("opacity", "1"))),
            ha=_ANCHORS[style.get("text-anchor", "start")],
            va="baseline",
            rotation=-angle,
            rotation_mode="anchor",
            zorder=self.depth,
        )

    def _image(self, element: ElementTree.Element, x: float, y: float) -> None:
        from matplotlib.image import AxesImage

        from captious.evidence.images import decode_image

        kind, _, content = element.get("href", "").partition(";base64,")
        if not kind.startswith("data:image/"):
            raise InputError("only photographs inside the picture can be written as PNG")
        x, y = x + float(element.get("x", "0")), y + float(element.get("y", "0"))
        wide, high = float(element.get("width", "0")), float(element.get("height", "0"))
        extent = (x, x + wide, y + high, y)
        shown = AxesImage(self.axes, extent=extent, interpolation="bilinear", zorder=self.depth)
        photograph = decode_image(base64.b64decode(content), "a photograph in the picture")
        shown.set_data(np.asarray(photograph))
        self.axes.add_artist(shown)


def _moved(transform: str) -> tuple[float, float, float]:
    """``translate(x,y) rotate(a)`` as numbers."""
    x = y = angle = 0.0
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", transform):
        values = [float(v) for v in re.findall(_NUMBER, inside)]
        if name == "translate":
            x, y = values[0], values[1] if len(values) > 1 else 0.0
        elif name == "rotate" and len(values) == 1:
            angle = values[0]
        else:
            raise InputError(f"a picture with {name}({inside}) cannot be written as PNG; take .svg")
    return x, y, angle


def _colour(text: str, opacity: float) -> tuple[float, float, float, float]:
    from matplotlib.colors import to_rgba

    if text == "none":
        return 0.0, 0.0, 0.0, 0.0
    name, _, inside = text.partition("(")
    if name in ("rgb", "hsl") and inside:
        a, b, c = (float(v) for v in re.findall(_NUMBER, inside))
        if name == "hsl":
            return *colorsys.hls_to_rgb(a / 360, c / 100, b / 100), opacity
        return a / 255, b / 255, c / 255, opacity
    red, green, blue, _ = to_rgba(text)
    return red, green, blue, opacity


def _outline(text: str, x: float, y: float) -> Any:
    """A path of M, L, C, Q, Z and the short l, h, v."""
    from matplotlib.path import Path as Outline

    points: list[tuple[float, float]] = []
    codes: list[int] = []
    here = start = (x, y)
    for letter, values in _commands(text):
        if letter in "MLCQZz":
            pairs = [(x + a, y + b) for a, b in zip(values[::2], values[1::2], strict=True)]
        else:
            step = {"l": values, "h": [*values, 0.0], "v": [0.0, *values]}[letter]
            pairs = [(here[0] + step[0], here[1] + step[1])]
        if letter in "Zz":
            points.append(start)
            codes.append(int(Outline.CLOSEPOLY))
            here = start
            continue
        code = {"M": Outline.MOVETO, "C": Outline.CURVE4, "Q": Outline.CURVE3}.get(
            letter, Outline.LINETO
        )
        points += pairs
        codes += [int(code)] * len(pairs)
        here = pairs[-1]
        if letter == "M":
            start = here
    return Outline(points, codes)


def _commands(text: str) -> Iterator[tuple[str, list[float]]]:
    for letter, inside in re.findall(r"([A-Za-z])([^A-Za-z]*)", text):
        if letter not in "MLCQZzlhv":
            raise InputError(f"a path with {letter!r} cannot be written as PNG; take .svg")
        yield letter, [float(v) for v in re.findall(_NUMBER, inside)]
