"""What is looked at: regions of a photograph coloured by weight.

Where caption and references have a weight for each region, two pictures stand side by side: the
heat of a spot is the mean weight of the regions that cover it, scaled over both pictures alike, and
the telling regions are outlined. Otherwise the photograph is shown once per word, its regions as
opaque as the word looks at them.
"""

from __future__ import annotations

import textwrap
from html import escape

import numpy as np

from captious.evidence.images import data_uri
from captious.report.pictures import palette
from captious.text.tokens import is_word
from captious.types import Floats, RegionAttention

_CELLS = 24
_WIDTH = 420
_TEXTS = 5
_LINE = 17
_KEY = 22
_SMALL = 170
_ACROSS = 5
_TOP = 3


def draw(part: RegionAttention) -> str:
    """Draw what is looked at, with the photograph inside where its file can be read."""
    return _panels(part) if part.caption and part.references else _thumbnails(part)


def heat(part: RegionAttention) -> tuple[Floats, Floats]:
    """Maps ``[24, 24]`` of references and caption in 0..1."""
    boxes = np.array(part.boxes)
    centre = (np.arange(_CELLS) + 0.5) / _CELLS
    inside_x = (boxes[:, 0, None] <= centre) & (centre <= boxes[:, 2, None])
    inside_y = (boxes[:, 1, None] <= centre) & (centre <= boxes[:, 3, None])
    cover = (inside_y[:, :, None] & inside_x[:, None, :]).astype(float)
    # A small region says more about a spot than a large one that happens to contain it.
    cover /= cover.sum((1, 2), keepdims=True).clip(min=1)
    total = cover.sum(0).clip(min=1e-9)
    maps = [
        (cover * np.array(weights)[:, None, None]).sum(0) / total
        for weights in (part.references, part.caption)
    ]
    low, high = min(one.min() for one in maps), max(one.max() for one in maps)
    spread = max(high - low, 1e-9)
    return (maps[0] - low) / spread, (maps[1] - low) / spread


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
        out += _outlines(part, sides[panel], tall)
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
        "pictures; numbers on the plates: weight of the region)</text>",
    ]


def _heat_cells(values: Floats, tall: int) -> list[str]:
    cell_w, cell_h = _WIDTH / _CELLS, tall / _CELLS
    return [
        f'<rect x="{x * cell_w:.1f}" y="{y * cell_h:.1f}" width="{cell_w:.1f}" '
        f'height="{cell_h:.1f}" fill="{palette.viridis(float(value))}" fill-opacity=".45"/>'
        for (y, x), value in np.ndenumerate(values)
    ]


def _outlines(part: RegionAttention, weights: tuple[float, ...], tall: int) -> list[str]:
    """The telling regions: outlined twice and labelled on a plate, to be seen on any ground."""
    out: list[str] = []
    labels: list[str] = []
    plates: list[tuple[float, float]] = []
    for order, (ink, number) in enumerate(zip(palette.DARK, part.telling, strict=False)):
        x1, y1, x2, y2 = part.boxes[number]
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
    spoken = [k for k, word in enumerate(part.words) if is_word(word)]
    order = sorted(spoken, key=lambda k: -shares[k])[:_TOP]
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
