"""TIGEr explained: how much references and caption weigh each region, and what each word looks at.

The regions in which they differ most are listed with the words that each attends to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.errors import InputError
from captious.text.stoplists import telling_words
from captious.types import Explanation, Floats, RegionAttention, Sample

if TYPE_CHECKING:
    from captious.evidence.regions import RegionSet
    from captious.metrics.tiger import Tiger
    from captious.models.grounding import GroundingModel

_SHOWN = 4
_LARGER = 4  # a box this many times as large is another kind of box
_MUCH = 6  # ranks that differ by a sixth of all regions differ much


def explain(
    metric: Tiger, model: GroundingModel, regions: RegionSet, sample: Sample
) -> Explanation:
    """Text, data and regions of one sample."""
    from captious.models.grounding import attention, grounding_vectors, stack

    texts = list(dict.fromkeys([sample.caption, *sample.references]))
    if not sample.references:
        raise InputError("tiger needs at least one reference")
    block, lengths = stack(model.words(texts))
    vectors = model.regions(regions)
    hard = metric.profile == "paper"
    grounded = grounding_vectors(model, vectors, block, lengths, hard, metric.smooth)
    ground = grounded.numpy().astype(np.float64)
    weights, _ = attention(model, vectors, block, lengths, hard, metric.smooth)
    place = {text: number for number, text in enumerate(texts)}
    candidate = ground[0]
    reference = ground[[place[text] for text in sample.references]].mean(axis=0)
    tiger, rrs, wds = metric.compare(reference[None], candidate[None])[0].tolist()
    words = model.tokens(sample.caption)
    mine = weights[0, :, : int(lengths[0])].numpy()
    boxes = None if regions.boxes is None else np.asarray(regions.boxes, float)
    shown = _telling(reference, candidate, boxes)
    listed = [
        {
            "region": number,
            "box": None if boxes is None else [round(float(v), 1) for v in boxes[number]],
            "candidate": float(candidate[number]),
            "reference": float(reference[number]),
            "words": [
                [words[k], round(float(mine[number][k]), 3)]
                for k in telling_words(words, mine[number])
            ],
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
    drawn = _part(data, (("TIGEr", tiger), ("RRS", rrs), ("WDS", wds)))
    return Explanation(_text(data), data, () if drawn is None else (drawn,))


def _telling(reference: Floats, candidate: Floats, boxes: Floats | None) -> list[int]:
    """Regions to point at: the strongest of each side, then where the ranks differ much.

    Where the two sides agree, the next strongest regions follow: a small difference in rank among
    regions that nobody looks at tells nothing. A region that lies on one before it is passed over.
    """
    rank = np.argsort(np.argsort(-reference)) - np.argsort(np.argsort(-candidate))
    apart = np.abs(rank)
    order = [int(reference.argmax()), int(candidate.argmax())]
    much = max(2, len(rank) // _MUCH)
    order += [int(k) for k in np.argsort(-apart, kind="stable") if apart[k] >= much]
    order += [int(k) for k in np.argsort(-(reference + candidate), kind="stable")]
    shown: list[int] = []
    for number in dict.fromkeys(order):
        if boxes is None or not any(_on(boxes[number], boxes[other]) for other in shown):
            shown.append(number)
    return shown[:_SHOWN]


def _on(box: Floats, other: Floats) -> bool:
    """Whether two boxes of like size share half of the smaller one.

    All boxes lie on the region that is the whole image: that tells nothing about them.
    """
    low, high = np.maximum(box[:2], other[:2]), np.minimum(box[2:], other[2:])
    least, most = sorted(float(np.prod(b[2:] - b[:2])) for b in (box, other))
    return bool(np.prod(np.clip(high - low, 0, None)) > least / 2 and most < _LARGER * least)


def _text(data: dict[str, Any]) -> str:
    lines = [
        f"TIGEr {data['tiger']:.4f} = (RRS {data['rrs']:.4f} + WDS {data['wds']:.4f}) / 2",
        f"caption: {data['caption']}",
        "how well each region matches, and the content words with the most weight there:",
    ]
    for region in data["regions"]:
        where = "" if region["box"] is None else f" ({_place(region['box'], data['size'])})"
        lines.append(
            f"  region {region['region']}{where}: caption {region['candidate']:+.3f}, references "
            f"{region['reference']:+.3f}; words {_words(region)}"
        )
    return "\n".join(lines)


def _place(box: Sequence[float], size: Sequence[float]) -> str:
    """Say where in the image a box is.

    Example:
        >>> _place((0, 0, 10, 10), (90, 60)), _place((40, 25, 50, 35), (90, 60))
        ('top left', 'middle')
        >>> _place((0, 0, 90, 60), (90, 60)), _place((60, 20, 90, 40), (90, 60))
        ('the whole image', 'right')
    """
    wide, tall = size
    if not wide or not tall:
        return ", ".join(f"{value:g}" for value in box)
    if (box[2] - box[0]) * (box[3] - box[1]) > 0.9 * wide * tall:
        return "the whole image"
    across = ("left", "", "right")[min(2, int(1.5 * (box[0] + box[2]) / wide))]
    down = ("top", "", "bottom")[min(2, int(1.5 * (box[1] + box[3]) / tall))]
    return f"{down} {across}".strip() or "middle"


def _words(region: dict[str, Any]) -> str:
    return ", ".join(f"{word} {weight:.2f}" for word, weight in region["words"])


def _part(data: dict[str, Any], scores: tuple[tuple[str, float], ...]) -> RegionAttention | None:
    """What is looked at, as typed data; None where the regions have no place in the image."""
    if data["boxes"] is None or not data["size"][0] or np.isnan(data["boxes"]).any():
        return None
    boxes = np.array(data["boxes"]) / np.array(data["size"] * 2, float)
    return RegionAttention(
        "what the caption and the references look at",
        data["image"],
        (int(data["size"][0]), int(data["size"][1])),
        tuple(map(tuple, boxes.round(5).tolist())),
        tuple(data["words"]),
        tuple(map(tuple, np.array(data["attention"]).T.tolist())),
        caption=tuple(data["candidate"]),
        references=tuple(data["reference"]),
        telling=tuple(region["region"] for region in data["regions"]),
        caption_text=data["caption"],
        reference_texts=tuple(data["references"]),
        scores=scores,
    )
