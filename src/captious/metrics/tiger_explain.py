"""TIGEr explained: two pictures side by side, references and candidate, regions coloured by weight.

The heat of a spot is the mean weight of the regions that cover it, scaled over both pictures alike.
The regions in which candidate and references differ most are outlined and listed with the words
that each attends to.
"""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.errors import InputError
from captious.evidence.images import data_uri
from captious.types import Explanation, Floats, Sample

if TYPE_CHECKING:
    from captious.evidence.regions import RegionSet
    from captious.metrics.tiger import Tiger
    from captious.models.grounding import GroundingModel

_CELLS = 24
_WIDTH = 420
_SHOWN = 4
_TEXTS = 5
_LINE = 17
_INKS = ("#b3005e", "#00598c", "#8a5a00", "#1d6b2f")  # dark enough for white letters


def explain(
    metric: Tiger, model: GroundingModel, regions: RegionSet, sample: Sample
) -> Explanation:
    """Text, data and SVG of one sample."""
    from captious.models.grounding import attention, grounding_vectors, stack

    texts = list(dict.fromkeys([sample.caption, *sample.references]))
    if not sample.references:
        raise InputError("tiger needs at least one reference")
    block, lengths = stack(model.words(texts))
    vectors = model.regions(regions)
    hard = metric.profile == "paper"
    found = grounding_vectors(model, vectors, block, lengths, hard, metric.smooth)
    ground = found.numpy().astype(np.float64)
    weights, _ = attention(model, vectors, block, lengths, hard, metric.smooth)
    place = {text: number for number, text in enumerate(texts)}
    candidate = ground[0]
    reference = ground[[place[text] for text in sample.references]].mean(axis=0)
    tiger, rrs, wds = metric.compare(reference[None], candidate[None])[0].tolist()
    words = model.tokens(sample.caption)
    mine = weights[0, :, : int(lengths[0])].numpy()
    shown = _telling(reference, candidate)
    boxes = None if regions.boxes is None else np.asarray(regions.boxes, float)
    listed = [
        {
            "region": number,
            "box": None if boxes is None else [round(float(v), 1) for v in boxes[number]],
            "candidate": float(candidate[number]),
            "reference": float(reference[number]),
            "words": _top(words, mine[number]),
        }
        for number in shown
    ]
    data: dict[str, Any] = {
        "image": sample.image,
        "caption": sample.caption,
        "references": list(sample.references),
        "tiger": tiger,
        "rrs": rrs,
        "wds": wds,
        "size": [regions.width, regions.height],
        "boxes": None if boxes is None else boxes.round(1).tolist(),
        "candidate": candidate.tolist(),
        "reference": reference.tolist(),
        "each_reference": [ground[place[text]].tolist() for text in sample.references],
        "words": words,
        "attention": mine.round(4).tolist(),
        "regions": listed,
    }
    return Explanation(_text(data), data, svg(data))


def _telling(reference: Floats, candidate: Floats) -> list[int]:
    """Regions to point at: the strongest of each side first, then where the ranks differ most."""
    rank = np.argsort(np.argsort(-reference)) - np.argsort(np.argsort(-candidate))
    order = [int(reference.argmax()), int(candidate.argmax())]
    order += [int(number) for number in np.argsort(-np.abs(rank), kind="stable")]
    return list(dict.fromkeys(order))[:_SHOWN]


def _top(words: list[str], weights: Floats, count: int = 3) -> list[list[Any]]:
    order = np.argsort(-weights, kind="stable")[:count]
    return [[words[number], round(float(weights[number]), 3)] for number in order]


def _text(data: dict[str, Any]) -> str:
    lines = [
        f"TIGEr {data['tiger']:.4f} = (RRS {data['rrs']:.4f} + WDS {data['wds']:.4f}) / 2",
        f"caption: {data['caption']}",
    ]
    for one in data["regions"]:
        where = "" if one["box"] is None else f" at {one['box']}"
        lines.append(
            f"region {one['region']}{where}: candidate {one['candidate']:+.3f}, references "
            f"{one['reference']:+.3f}; attends to {_words(one)}"
        )
    return "\n".join(lines)


def heat(data: dict[str, Any]) -> tuple[Floats, Floats] | None:
    """Maps ``[24, 24]`` of references and candidate in 0..1, or None without boxes."""
    if data["boxes"] is None or not data["size"][0] or np.isnan(data["boxes"]).any():
        return None
    boxes = np.array(data["boxes"]) / np.array(data["size"] * 2, float)
    centre = (np.arange(_CELLS) + 0.5) / _CELLS
    inside_x = (boxes[:, 0, None] <= centre) & (centre <= boxes[:, 2, None])
    inside_y = (boxes[:, 1, None] <= centre) & (centre <= boxes[:, 3, None])
    cover = (inside_y[:, :, None] & inside_x[:, None, :]).astype(float)
    # A small region says more about a spot than a large one that happens to contain it.
    cover /= cover.sum((1, 2), keepdims=True).clip(min=1)
    total = cover.sum(0).clip(min=1e-9)
    maps = [
        (cover * np.array(data[side])[:, None, None]).sum(0) / total
        for side in ("reference", "candidate")
    ]
    low, high = min(one.min() for one in maps), max(one.max() for one in maps)
    spread = max(high - low, 1e-9)
    return (maps[0] - low) / spread, (maps[1] - low) / spread


def svg(data: dict[str, Any]) -> str | None:
    """The picture as SVG, with the photograph inside it where its file can be read."""
    maps = heat(data)
    if maps is None:
        return None
    width, height = data["size"]
    tall = round(_WIDTH * height / width)
    photo = data_uri(data["image"], 2 * _WIDTH)
    below = (
        _wrapped("references", data["references"]),
        _wrapped("candidate", [data["caption"]]) + [("#000", line) for line in _scores(data)],
    )
    whole = 2 * _WIDTH + 30
    deep = tall + 54 + _LINE * max(map(len, below))
    lines = [
        (colour, f"region {one['region']}: the candidate attends to " + _words(one))
        for colour, one in zip(_INKS, data["regions"], strict=False)
    ]
    high = deep + _LINE * len(lines) + 14
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{high}" '
        f'viewBox="0 0 {whole} {high}" font-family="sans-serif" font-size="12">',
        f"<title>TIGEr {data['tiger']:.4f}</title>",
        f'<rect width="{whole}" height="{high}" fill="#fff"/>',
    ]
    titles = (f"what the references look at (mean of {len(data['references'])})",
              "what the candidate looks at")  # fmt: skip
    for panel, (title, values) in enumerate(zip(titles, maps, strict=True)):
        left = 10 + panel * (_WIDTH + 10)
        out.append(
            f'<g transform="translate({left},24)"><text y="-8" font-weight="bold">{title}</text>'
        )
        if photo:
            out.append(
                f'<image width="{_WIDTH}" height="{tall}" href="{photo}" '
                'preserveAspectRatio="none"/>'
            )
        else:
            out.append(f'<rect width="{_WIDTH}" height="{tall}" fill="#888"/>')
        out += _heat_cells(values, tall)
        out += _outlines(data, ("reference", "candidate")[panel], width)
        for number, (ink, line) in enumerate(below[panel]):
            out.append(f'<text y="{tall + 18 + _LINE * number}" fill="{ink}">{escape(line)}</text>')
        out.append("</g>")
    for number, (ink, line) in enumerate(lines):
        y = deep + _LINE * number
        out.append(f'<rect x="10" y="{y - 10}" width="10" height="10" fill="{ink}"/>')
        out.append(f'<text x="26" y="{y}">{escape(line)}</text>')
    out.append("</svg>")
    return "\n".join(out)


def _heat_cells(values: Floats, tall: int) -> list[str]:
    cell_w, cell_h = _WIDTH / _CELLS, tall / _CELLS
    out = []
    for (y, x), value in np.ndenumerate(values):
        red, green, blue = _colour(float(value))
        out.append(
            f'<rect x="{x * cell_w:.1f}" y="{y * cell_h:.1f}" width="{cell_w:.1f}" '
            f'height="{cell_h:.1f}" fill="rgb({red},{green},{blue})" fill-opacity=".45"/>'
        )
    return out


def _outlines(data: dict[str, Any], side: str, width: int) -> list[str]:
    """The regions of the list: outlined twice and labelled on a plate, to be seen on any ground."""
    out: list[str] = []
    labels: list[str] = []
    plates: list[tuple[float, float]] = []
    for number, (ink, one) in enumerate(zip(_INKS, data["regions"], strict=False)):
        x1, y1, x2, y2 = (v * _WIDTH / width for v in one["box"])
        # Regions often share a corner: each is drawn, and labelled, a little further inside.
        inset = 1.5 + 3 * number
        box = (
            f'x="{x1 + inset:.1f}" y="{y1 + inset:.1f}" width="{x2 - x1 - 2 * inset:.1f}" '
            f'height="{y2 - y1 - 2 * inset:.1f}" fill="none"'
        )
        out.append(f'<rect {box} stroke="#fff" stroke-width="4"/>')
        out.append(f'<rect {box} stroke="{ink}" stroke-width="2"/>')
        label = f"{one['region']}: {one[side]:+.2f}"
        x, y = x1 + inset, y1 + inset
        while any(abs(x - px) < 70 and abs(y - py) < _LINE for px, py in plates):
            y += _LINE
        plates.append((x, y))
        labels.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="68" height="{_LINE - 1}" fill="{ink}"/>'
            f'<text x="{x + 4:.1f}" y="{y + 12:.1f}" fill="#fff" font-weight="bold" '
            f'font-size="11">{label}</text>'
        )
    return out + labels


def _scores(data: dict[str, Any]) -> list[str]:
    return [f"TIGEr {data['tiger']:.3f}   RRS {data['rrs']:.3f}   WDS {data['wds']:.3f}"]


def _words(one: dict[str, Any]) -> str:
    return ", ".join(f"{word} {weight:.2f}" for word, weight in one["words"])


def _wrapped(what: str, texts: list[str]) -> list[tuple[str, str]]:
    """Lines of text with their colour, no wider than a panel."""
    lines = [("#666", f"{what}:")]
    for text in texts[:_TEXTS]:
        lines += [("#000", line) for line in textwrap.wrap(text, 64) or ["(empty)"]]
    if len(texts) > _TEXTS:
        lines.append(("#666", f"and {len(texts) - _TEXTS} more"))
    return lines


def _colour(value: float) -> tuple[int, int, int]:
    """Blue over white to red."""
    value = min(max(value, 0.0), 1.0)
    if value < 0.5:
        share = value * 2
        return int(40 + 200 * share), int(70 + 170 * share), 220
    share = (value - 0.5) * 2
    return 235, int(240 - 190 * share), int(220 - 180 * share)
