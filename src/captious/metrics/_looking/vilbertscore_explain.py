"""ViLBERTScore explained: the token matching with the image beside the one without it.

"Without" is the same network given a blank image. The text lists which similarities the
image raised or lowered most; the parts are both matrices and, for the five words of the caption
that the photograph moved most, the regions they attend to at the chosen layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.metrics.base import Explanation
from captious.text.tokens import is_word
from captious.types import CaptionSet, Floats, MatchMatrix, Part, RegionAttention, Sample

if TYPE_CHECKING:
    from captious.metrics.vilbertscore import Vilbertscore
    from captious.models.image_text import ImageTextEncoder, Text

_SHOWN = 4
_REGIONS = 3
_WORDS = 5


def explain(metric: Vilbertscore, encoder: ImageTextEncoder, sample: Sample) -> Explanation:
    """Text, data and parts of one sample."""
    layer = metric.chosen_layer(encoder)
    clean = replace(metric, profile="clean")  # the matrices show words only
    texts = clean.tokenize([sample.caption, *sample.references], encoder)
    image = metric.picture(sample.image, encoder, sample.evidence)
    cosines = _cosines(clean, texts, image, encoder, layer)
    blind = _cosines(clean, texts, encoder.blank(), encoder, layer)
    best = int(np.argmax([_f(cosine) for cosine in cosines]))
    caption, reference = encoder.pieces.spell(texts[0]), encoder.pieces.spell(texts[best + 1])
    values = metric.stats(CaptionSet.of([sample]), None).rows[0]
    change = cosines[best] - blind[best]
    data: dict[str, Any] = {
        "scores": dict(zip((c.name for c in metric.columns), map(float, values), strict=True)),
        "image": sample.image,
        "layer": layer,
        "reference": sample.references[best],
        "caption_pieces": caption,
        "reference_pieces": reference,
        "cosine": cosines[best].tolist(),
        "cosine_without_image": blind[best].tolist(),
        "f_without_image": _f(blind[best]),
        "raised": _extremes(change, reference, caption, 1),
        "lowered": _extremes(change, reference, caption, -1),
        "words": [],
        "whole": [],
    }
    data |= _looks(metric, encoder, texts[0], image, sample, layer, caption)
    moved = cosines[best].max(0, initial=0.0) - blind[best].max(0, initial=0.0)
    shown = _most(moved, caption)
    return Explanation(
        _text(data, values, shown), data, _parts(data, cosines[best], blind[best], moved, shown)
    )


def _most(moved: Floats, pieces: list[str]) -> list[int]:
    """Return which words the photograph moved most, in the order of the caption."""
    spoken = [k for k, piece in enumerate(pieces) if is_word(piece)]
    return sorted(sorted(spoken, key=lambda k: -abs(moved[k]))[:_WORDS])


def _cosines(
    metric: Vilbertscore, texts: list[Text], image: Any, encoder: ImageTextEncoder, layer: int
) -> list[Floats]:
    """Reference pieces by caption pieces, for each reference."""
    encoded = metric.vectors(texts, [0] * len(texts), [image], encoder, layer)
    by_text = [encoded.vectors[a:b].numpy().astype(np.float64)
               for a, b in zip(encoded.offsets, encoded.offsets[1:], strict=False)]  # fmt: skip
    return [reference @ by_text[0].T for reference in by_text[1:]]


def _f(matrix: Floats) -> float:
    if not matrix.size:
        return 0.0
    p, r = float(matrix.max(0).mean()), float(matrix.max(1).mean())
    return 2 * p * r / (p + r) if p > 0 and r > 0 else 0.0


def _extremes(change: Floats, rows: list[str], columns: list[str], sign: int) -> list[list[Any]]:
    """The pairs of words whose similarity the image changed most in one direction."""
    order = np.argsort(-sign * change, axis=None, kind="stable")[:_SHOWN]
    places = [divmod(int(at), len(columns)) for at in order] if change.size else []
    return [
        [rows[i], columns[j], round(float(change[i, j]), 4)]
        for i, j in places
        if sign * change[i, j] > 0
    ]


def _looks(
    metric: Vilbertscore,
    encoder: ImageTextEncoder,
    text: Text,
    image: Any,
    sample: Sample,
    layer: int,
    words: list[str],
) -> dict[str, Any]:
    """Attention of each caption word over the regions."""
    shares = None if metric.blind else encoder.look(text, image, layer)
    if shares is None or encoder.feature_size is None or sample.image is None:
        return {}
    first = 2 if encoder.task else 1
    shown = shares[first : first + text.words].numpy()
    boxes = np.asarray(image.boxes[:, :4], np.float64)
    regions = metric.store(sample.evidence)[sample.image]
    whole = (boxes == [0, 0, 1, 1]).all(1) & encoder.needs_boxes  # says nothing about where
    listed = []
    for word, share in zip(words, shown, strict=True):
        top = [i for i in np.argsort(-share, kind="stable").tolist() if not whole[i]][:_REGIONS]
        listed.append([word, [[i, round(float(share[i]), 4)] for i in top]])
    return {
        "words": listed,
        "whole": shown[:, whole].sum(1).round(4).tolist(),
        "attention": shown.round(5).tolist(),
        "boxes": boxes.round(4).tolist() if encoder.needs_boxes else None,
        "size": [regions.width, regions.height],
    }


def _text(data: dict[str, Any], values: Floats, shown: list[int]) -> str:
    """Say what matters; of the words, those that the photograph moved most."""
    p, r, f = values
    lines = [
        f"vilbertscore P {p:.4f} R {r:.4f} F {f:.4f} (layer {data['layer']})",
        f"nearest reference: {data['reference']}",
        f"its F: {_f(np.array(data['cosine'])):.4f} with the image, "
        f"{data['f_without_image']:.4f} without",
    ]
    for what in ("raised", "lowered"):
        told = ", ".join(f"{a} ~ {b} {c:+.3f}" for a, b, c in data[what])
        lines.append(f"the image {what}: {told or 'nothing'}")
    for k in shown if data["words"] else ():
        (word, top), whole = data["words"][k], data["whole"][k]
        seen = [f"region {i} {share:.2f}" for i, share in top]
        seen += [f"the whole image {whole:.2f}"] if whole else []
        lines.append(f"  {word:<14} looks at {', '.join(seen)}")
    return "\n".join(lines)


def _parts(
    data: dict[str, Any], cosine: Floats, blind: Floats, moved: Floats, most: list[int]
) -> tuple[Part, ...]:
    if not cosine.size:
        return ()
    rows, columns = tuple(data["reference_pieces"]), tuple(data["caption_pieces"])
    change = tuple(f"{v:+.2f}" for v in cosine.max(1) - blind.max(1))
    seen, unseen = (tuple(map(tuple, matrix.tolist())) for matrix in (cosine, blind))
    parts: list[Part] = [
        MatchMatrix("cosine with the image (change)", rows, columns, seen, notes=change),
        MatchMatrix("cosine without the image", rows, columns, unseen),
    ]
    if data["words"] and data["boxes"] is not None:
        parts.append(
            RegionAttention(
                "what the words that the photograph moved most look at",
                data["image"],
                (int(data["size"][0]), int(data["size"][1])),
                tuple(map(tuple, data["boxes"])),
                tuple(f"{columns[k]} {moved[k]:+.2f}" for k in most),
                tuple(tuple(data["attention"][k]) for k in most),
                whole=tuple(i for i, box in enumerate(data["boxes"]) if box == [0, 0, 1, 1]),
                scores=(("ViLBERTScore F", data["scores"]["vilbertscore_f"]),),
            )
        )
    return tuple(parts)
