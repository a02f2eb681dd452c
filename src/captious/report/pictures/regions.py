"""What is looked at: regions of a photograph coloured by weight.

Where caption and references have a weight for each region, two pictures stand side by side: the
heat of a spot is the mean weight of the regions around it, scaled over both pictures alike and
stronger in colour where more is looked at. The telling regions are outlined where they are hottest:
the regions are boxes of a grid, and the thing that is meant fills a part of its box. Otherwise the
photograph is shown once per word, its regions as opaque as the word looks at them.
"""

from __future__ import annotations

import textwrap
from html import escape

import numpy as np

from captious.evidence.images import data_uri
from captious.report.pictures import palette
from captious.text.stoplists import telling_words
from captious.types import Floats, RegionAttention

_CELLS = 24
_WIDTH = 420
_TEXTS = 5
_LINE = 17
_KEY = 22
_SMALL = 170
_ACROSS = 5
_TOP = 3
_HOT = 0.7  # share of a box's range of heat from which a spot belongs to the thing meant


def draw(part: RegionAttention) -> str:
    """Draw what is looked at, with the photograph inside where its file can be read."""
    return _panels(part) if part.caption and part.references else _thumbnails(part)


def heat(part: RegionAttention) -> tuple[Floats, Floats]:
    """Maps ``[24, 24]`` of references and caption in 0..1.

    A region speaks for its middle more than for its edge, and a small one more than a large one
    that happens to contain the spot.
    """
    near = _nearness(np.array(part.boxes))
    total = near.sum(0).clip(min=1e-9)
    maps = [
        (near * np.array(weights)[:, None, None]).sum(0) / total
        for weights in (part.references, part.caption)
    ]
    low, high = min(values.min() for values in maps), max(values.max() for values in maps)
    spread = max(high - low, 1e-9)
    return (maps[0] - low) / spread, (maps[1] - low) / spread


def _nearness(boxes: Floats) -> Floats:
    """``[regions, 24, 24]``: a hill over each box, all of the same volume."""
    centre = (np.arange(_CELLS) + 0.5) / _CELLS

    def hill(low: Floats, high: Floats) -> Floats:
        middle, half = (low + high) / 2, ((high - low) / 2).clip(min=0.5 / _CELLS)
        return np.asarray(np.exp(-2 * ((centre - middle[:, None]) / half[:, None]) ** 2))

    hills = hill(boxes[:, 1], boxes[:, 3])[:, :, None] * hill(boxes[:, 0], boxes[:, 2])[:, None, :]
    return np.asarray(hills / hills.sum((1, 2), keepdims=True).clip(min=1e-9))


def hottest(
    box: tuple[float, float, float, float], values: Floats
) -> tuple[float, float, float, float]:
    """The part of a box around its hottest spot, at least half of each side.

    Example:
        >>> hottest((0.0, 0.0, 1.0, 1.0), np.diag([1.0] + 23 * [0.0]))
        (0.0, 0.0, 0.5, 0.5)
    """
    x1, y1, x2, y2 = box
    left, right = _span(x1, x2)
    top, bottom = _span(y1, y2)
    inside = values[top:bottom, left:right]
    hot = inside >= inside.min() + _HOT * (inside.max() - inside.min())
    rows, columns = np.flatnonzero(hot.any(1)), np.flatnonzero(hot.any(0))
    x = _widened(left + int(columns[0]), left + int(columns[-1]) + 1, left, right)
    y = _widened(top + int(rows[0]), top + int(rows[-1]) + 1, top, bottom)
    return (
        max(x1, x[0] / _CELLS), max(y1, y[0] / _CELLS),
        min(x2, x[1] / _CELLS), min(y2, y[1] / _CELLS),
    )  # fmt: skip


def _span(low: float, high: float) -> tuple[int, int]:
    """First and last + 1 cell of a stretch, at least one cell."""
    first = min(int(low * _CELLS + 0.5), _CELLS - 1)
    return first, max(min(int(high * _CELLS + 0.5), _CELLS), first + 1)


def _widened(first: int, last: int, low: int, high: int) -> tuple[int, int]:
    """Let a stretch grow on both sides, within its bounds, until it is half of them."""
    wanted = (high - low + 1) // 2
    while last - first < wanted:
        first = max(low, first - 1)
        if last - first < wanted:
            last = min(high, last + 1)
    return first, last


def _panels(part: RegionAttention) -> str:
    width, height = part.size
    tall = round(_WIDTH * height / width)
    photo = data_uri(part.image, 2 * _WIDTH)
    printed = "   ".join(f"{name} {value:.3f}" for name, value in part.scores)
    below = (
        _wrapped("references", part.reference_texts),
        [*_wrapped("caption", (part.caption_text,)), (palette.INK, printed)],
    )
    whole = 2 * _WIDTH + 30
    deep = tall + 54 + _KEY + _LINE * max(map(len, below))
    lines = [
        (ink, f"region {number}: the caption attends to {_words(part, number)}")
        for ink, number in zip(palette.DARK, part.telling, strict=False)
    ]
    high = deep + _LINE * len(lines) + 14
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{high}" '
        f'viewBox="0 0 {whole} {high}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(printed)}</title>",
        f'<rect width="{whole}" height="{high}" fill="#fff"/>',
    ]
    titles = (f"what the references look at (mean of {len(part.reference_texts)})",
              "what the caption looks at")  # fmt: skip
    sides = (part.references, part.caption)
    for panel, (title, values) in enumerate(zip(titles, heat(part), strict=True)):
        left = 10 + panel * (_WIDTH + 10)
        out.append(
            f'<g transform="translate({left},24)"><text y="-8" font-weight="bold">{title}</text>'
        )
        out.append(palette.ground(photo, _WIDTH, tall))
        out += _heat_cells(values, tall)
        out += _outlines(part, sides[panel], values, tall)
        for number, (ink, line) in enumerate(below[panel]):
            y = tall + _KEY + 18 + _LINE * number
            out.append(f'<text y="{y}" fill="{ink}">{escape(line)}</text>')
        out.append("</g>")
    out += _key(tall + 34)
    for number, (ink, line) in enumerate(lines):
        y = deep + _LINE * number
        out.append(f'<rect x="10" y="{y - 10}" width="10" height="10" fill="{ink}"/>')
        out.append(f'<text x="26" y="{y}">{escape(line)}</text>')
    return "\n".join([*out, "</svg>"])


def _key(y: int) -> list[str]:
    """What the colours mean: both pictures share one scale."""
    wide, steps = 160, 16
    each = wide / steps
    cells = [
        f'<rect x="{78 + k * each:.1f}" y="{y}" width="{each + 0.5:.1f}" height="10" '
        f'fill="{palette.viridis(k / (steps - 1))}"/>'
        for k in range(steps)
    ]
    return [
        f'<text x="10" y="{y + 9}" fill="{palette.QUIET}">looks little</text>',
        *cells,
        f'<text x="{78 + wide + 8}" y="{y + 9}" fill="{palette.QUIET}">much (one scale for both '
        "pictures; plates: number and weight of a region, outlined where it is hottest)</text>",
    ]


def _heat_cells(values: Floats, tall: int) -> list[str]:
    cell_w, cell_h = _WIDTH / _CELLS, tall / _CELLS
    return [
        f'<rect x="{x * cell_w:.1f}" y="{y * cell_h:.1f}" width="{cell_w:.1f}" '
        f'height="{cell_h:.1f}" fill="{palette.viridis(float(value))}" '
        f'fill-opacity="{0.2 + 0.35 * float(value):.2f}"/>'
        for (y, x), value in np.ndenumerate(values)
    ]


def _outlines(
    part: RegionAttention, weights: tuple[float, ...], values: Floats, tall: int
) -> list[str]:
    """The telling regions: outlined twice and labelled on a plate, to be seen on any ground."""
    out: list[str] = []
    labels: list[str] = []
    plates: list[tuple[float, float]] = []
    for order, (ink, number) in enumerate(zip(palette.DARK, part.telling, strict=False)):
        x1, y1, x2, y2 = hottest(part.boxes[number], values)
        x1, y1, x2, y2 = x1 * _WIDTH, y1 * tall, x2 * _WIDTH, y2 * tall
        # Regions often share a corner: each is drawn, and labelled, a little further inside.
        inset = 1.5 + 3 * order
        box = (
            f'x="{x1 + inset:.1f}" y="{y1 + inset:.1f}" '
            f'width="{max(x2 - x1 - 2 * inset, 1):.1f}" '
            f'height="{max(y2 - y1 - 2 * inset, 1):.1f}" fill="none"'
        )
        out.append(f'<rect {box} stroke="#fff" stroke-width="4"/>')
        out.append(f'<rect {box} stroke="{ink}" stroke-width="2"/>')
        x, y = x1 + inset, y1 + inset
        while any(abs(x - px) < 70 and abs(y - py) < _LINE for px, py in plates):
            y += _LINE
        plates.append((x, y))
        labels.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="68" height="{_LINE - 1}" fill="{ink}"/>'
            f'<text x="{x + 4:.1f}" y="{y + 12:.1f}" fill="#fff" font-weight="bold" '
            f'font-size="11">{number}: {weights[number]:+.2f}</text>'
        )
    return out + labels


def _words(part: RegionAttention, region: int) -> str:
    shares = [share[region] for share in part.shares]
    order = telling_words(part.words, shares)
    return ", ".join(f"{part.words[k]} {shares[k]:.2f}" for k in order)


def _wrapped(what: str, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    """Lines of text with their colour, no wider than a panel."""
    lines = [(palette.QUIET, f"{what}:")]
    for text in texts[:_TEXTS]:
        lines += [(palette.INK, line) for line in textwrap.wrap(text, 64) or ["(empty)"]]
    if len(texts) > _TEXTS:
        lines.append((palette.QUIET, f"and {len(texts) - _TEXTS} more"))
    return lines


def _thumbnails(part: RegionAttention) -> str:
    """The photograph once per word; how much goes to the whole photograph is written beside."""
    width, height = part.size
    tall = round(_SMALL * height / max(width, 1)) if width else _SMALL
    photo = data_uri(part.image, 2 * _SMALL)
    across = min(_ACROSS, max(len(part.words), 1))
    deep = -(-len(part.words) // across) * (tall + 26) + 34
    wide = across * (_SMALL + 10) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{deep}" '
        f'viewBox="0 0 {wide} {deep}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(part.title)}</title>",
        f'<rect width="{wide}" height="{deep}" fill="#fff"/>',
        f'<text x="6" y="16" font-size="12" font-weight="bold">{escape(part.title)}</text>',
        f"<defs>{palette.ground(photo, _SMALL, tall, 'photo')}</defs>",
    ]
    for at, (word, shares) in enumerate(zip(part.words, part.shares, strict=True)):
        x, y = at % across * (_SMALL + 10) + 5, at // across * (tall + 26) + 40
        whole = sum(shares[k] for k in part.whole)
        told = escape(word)
        if whole:
            told += f' <tspan fill="{palette.QUIET}">({whole:.2f} whole)</tspan>'
        out.append(f'<g transform="translate({x},{y})"><text y="-4">{told}</text>')
        out.append('<use href="#photo"/>')
        places = [k for k in range(len(part.boxes)) if k not in part.whole]
        top = sorted(places, key=lambda k: -shares[k])[:_TOP]
        most = max((shares[k] for k in top), default=0.0) or 1.0
        for number in top:
            x1, y1, x2, y2 = part.boxes[number]
            share = shares[number]
            out.append(
                f'<rect x="{x1 * _SMALL:.1f}" y="{y1 * tall:.1f}" '
                f'width="{(x2 - x1) * _SMALL:.1f}" height="{(y2 - y1) * tall:.1f}" '
                f'fill="{palette.RED}" fill-opacity="{0.35 * share / most:.2f}" '
                f'stroke="{palette.RED}" stroke-width="1.5" '
                f'stroke-opacity="{share / most:.2f}"><title>{share:.3f}</title></rect>'
            )
        out.append("</g>")
    return "\n".join([*out, "</svg>"])
