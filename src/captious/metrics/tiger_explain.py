"""TIGEr explained: two pictures side by side, references and candidate, regions coloured by weight.

The heat of a spot is the mean weight of the regions that cover it, scaled over both pictures alike.
The regions in which candidate and references differ most are outlined and listed with the words
that each attends to.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.errors import InputError
from captious.evidence.images import data_uri, open_image
from captious.types import Explanation, Floats, Sample

if TYPE_CHECKING:
    from captious.evidence.regions import RegionSet
    from captious.metrics.tiger import Tiger
    from captious.models.grounding import GroundingModel

_CELLS = 24
_WIDTH = 420
_SHOWN = 4


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
    ground = grounding_vectors(model, vectors, block, lengths, hard).numpy().astype(np.float64)
    weights, _ = attention(model, vectors, block, lengths, hard)
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
        words = ", ".join(f"{word} {weight:.2f}" for word, weight in one["words"])
        where = "" if one["box"] is None else f" at {one['box']}"
        lines.append(
            f"region {one['region']}{where}: candidate {one['candidate']:+.3f}, references "
            f"{one['reference']:+.3f}; attends to {words}"
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
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH + 30}" height="{tall + 150}" '
        f'viewBox="0 0 {2 * _WIDTH + 30} {tall + 150}" font-family="sans-serif" font-size="12">',
        f"<title>TIGEr {data['tiger']:.4f}</title>",
    ]
    titles = (f"references (mean of {len(data['references'])})", "candidate")
    for panel, (title, values) in enumerate(zip(titles, maps, strict=True)):
        left = 10 + panel * (_WIDTH + 10)
        out.append(f'<g transform="translate({left},24)"><text y="-8">{title}</text>')
        if photo:
            out.append(
                f'<image width="{_WIDTH}" height="{tall}" href="{photo}" '
                'preserveAspectRatio="none"/>'
            )
        else:
            out.append(f'<rect width="{_WIDTH}" height="{tall}" fill="#888"/>')
        cell_w, cell_h = _WIDTH / _CELLS, tall / _CELLS
        for y in range(_CELLS):
            for x in range(_CELLS):
                red, green, blue = _colour(float(values[y, x]))
                out.append(
                    f'<rect x="{x * cell_w:.1f}" y="{y * cell_h:.1f}" width="{cell_w:.1f}" '
                    f'height="{cell_h:.1f}" fill="rgb({red},{green},{blue})" fill-opacity=".45"/>'
                )
        side = "reference" if panel == 0 else "candidate"
        for one in data["regions"]:
            x1, y1, x2, y2 = (v * _WIDTH / width for v in one["box"])
            out.append(
                f'<rect x="{x1:.1f}" y="{y1:.1f}" width="{x2 - x1:.1f}" height="{y2 - y1:.1f}" '
                'fill="none" stroke="#fff" stroke-width="1.5"/>'
                f'<text x="{x1 + 3:.1f}" y="{y1 + 14:.1f}" fill="#fff" stroke="#000" '
                f'stroke-width=".4">{one["region"]}: {one[side]:+.2f}</text>'
            )
        out.append("</g>")
    lines = [
        f"{data['caption']}   TIGEr {data['tiger']:.3f}  RRS {data['rrs']:.3f}  WDS "
        f"{data['wds']:.3f}"
    ]
    lines += [
        f"region {one['region']} attends to "
        + ", ".join(f"{word} {weight:.2f}" for word, weight in one["words"])
        for one in data["regions"]
    ]
    for number, line in enumerate(lines):
        out.append(f'<text x="10" y="{tall + 46 + 18 * number}">{escape(line)}</text>')
    out.append("</svg>")
    return "\n".join(out)


def png(data: dict[str, Any], target: Path | str) -> Path:
    """The same picture as PNG."""
    from PIL import Image, ImageDraw

    maps = heat(data)
    if maps is None:
        raise InputError("without boxes there is nothing to draw")
    width, height = data["size"]
    tall = round(_WIDTH * height / width)
    canvas = Image.new("RGB", (2 * _WIDTH + 30, tall + 150), "white")
    draw = ImageDraw.Draw(canvas)
    try:
        photo = open_image(data["image"]).resize((_WIDTH, tall))
    except InputError:
        photo = Image.new("RGB", (_WIDTH, tall), "#888888")  # features alone: no photograph here
    for panel, values in enumerate(maps):
        pixels = np.array([[_colour(float(v)) for v in row] for row in values], np.uint8)
        overlay = Image.fromarray(pixels).resize((_WIDTH, tall), Image.Resampling.BILINEAR)
        left = 10 + panel * (_WIDTH + 10)
        canvas.paste(Image.blend(photo, overlay, 0.45), (left, 24))
        draw.text((left, 6), ("references", "candidate")[panel], fill="black")
        side = ("reference", "candidate")[panel]
        for one in data["regions"]:
            x1, y1, x2, y2 = (v * _WIDTH / width for v in one["box"])
            draw.rectangle((left + x1, 24 + y1, left + x2, 24 + y2), outline="white")
            draw.text((left + x1 + 3, 26 + y1), f"{one['region']}: {one[side]:+.2f}", fill="white")
    for number, line in enumerate(_text(data).splitlines()):
        draw.text((10, tall + 34 + 16 * number), line, fill="black")
    target = Path(target)
    canvas.save(target, format="PNG")
    return target


def _colour(value: float) -> tuple[int, int, int]:
    """Blue over white to red."""
    value = min(max(value, 0.0), 1.0)
    if value < 0.5:
        share = value * 2
        return int(40 + 200 * share), int(70 + 170 * share), 220
    share = (value - 0.5) * 2
    return 235, int(240 - 190 * share), int(220 - 180 * share)
