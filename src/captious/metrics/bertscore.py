"""BERTScore: greedy matching of contextual token vectors.

Zhang et al. 2020. Every token of the caption is matched with the most similar one in the reference
(precision), every token of the reference with the most similar one in the caption (recall);
similarity is the cosine of the vectors at one hidden state of a text encoder. [CLS] and [SEP] can
be matched but have no weight of their own. With several references the maximum of P, of R and of F
is taken separately, as bert-score does.

Worked example, with cosines a-a 1, a-the .5, dog-dog 1 and all else 0: caption "a dog" against
"the dog" has P = R = (.5 + 1)/2 = .75.

Cosines can be negative (at the last layer of sentence encoders). Where P or R is not positive, F is
0 here. bert-score computes 2PR/(P + R) all the same, which can be any number if the signs differ:
``profile='release'`` does so, too, and a remark counts the captions whose F is above both P and R.

Known deviation from bert-score 0.3.13: there the zeros that fill up a batch take part in the
maximum, so a score may change with the batch; here they do not. Baselines for rescaling come from
the table of bert-score where it is known, else from ``captious calibrate``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious.errors import CaptiousError, InputError, MissingAsset, UsageError
from captious.metrics._matching.token_blocks import Block, batches, blocks, padded
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.models import piece_idf, text_encoder
from captious.models.encoder_defaults import Baseline, defaults
from captious.models.piece_idf import PieceIdf
from captious.models.text_encoder import TextEncoder
from captious.reading import json_object, reading
from captious.types import CaptionSet, Floats, Ints, MatchMatrix, Sample

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class BertScore(Metric):
    """BERTScore precision, recall and F.

    Args:
        model: ``minilm`` or ``mpnet`` (from pip), a folder, or a hub name; the paper's English
            default is ``roberta-large``.
        layer: hidden state, 0 = embeddings; None = the encoder's known default.
        idf: ``off``, ``references`` (of this run), ``all`` (captions too), or a table's path.
        pool: over references, ``max`` or ``mean``.
        baseline: ``off``, ``known`` (the published value), or a file of ``captious calibrate``.
        dtype: ``float32``, ``bfloat16`` or ``float16`` for the encoder.
        profile: ``clean`` (F is 0 where P or R is not positive) or ``release`` (the formula as the
            released program has it, whatever the signs).
    """

    model: str = "minilm"
    layer: int | None = None
    idf: str = "off"
    pool: str = "max"
    baseline: str = "off"
    dtype: str = "float32"
    profile: str = "clean"

    name: ClassVar[str] = "bertscore"
    renamed: ClassVar[dict[str, str]] = {"encoder": "model"}
    columns: ClassVar[tuple[Column, ...]] = (
        Column("bertscore_p", -1.0, 1.0, "precision: how much of the caption a reference supports"),
        Column("bertscore_r", -1.0, 1.0, "recall: how much of a reference the caption covers"),
        Column("bertscore_f", -1.0, 1.0, "F1: harmonic mean of the two"),
    )
    modules: ClassVar[dict[str, str]] = {"torch": "neural", "transformers": "neural"}
    batch: ClassVar[int] = 131072  # rows that share references meet in one batch
    identity: ClassVar[float | None] = 1.0

    def __post_init__(self) -> None:
        if self.pool not in ("max", "mean"):
            raise UsageError(f"bertscore: pool is 'max' or 'mean', not {self.pool!r}")
        if self.profile not in ("clean", "release"):
            raise UsageError(f"bertscore: profile is 'clean' or 'release', not {self.profile!r}")

    def missing(self) -> list[CaptiousError]:
        """Name absent packages and an absent model."""
        return missing_parts(self, self.model)

    def prepare(self, samples: CaptionSet) -> PieceIdf | None:
        """Count the pieces of the references, if they are to be weighted."""
        encoder = text_encoder.load(self.model, self.dtype)
        encoder.expect(self._layer())
        return idf_context(samples, encoder, self.idf)

    def merge(self, a: Any, b: Any) -> Any:
        """Join the counts of two shards."""
        return b if a is None else a if b is None else piece_idf.merge(a, b)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return P, R, F of each caption."""
        encoder = text_encoder.load(self.model, self.dtype)
        weights = idf_weights(encoder, context, "smooth")
        rows = np.full((len(samples), 3), np.nan)
        cut = np.zeros(len(samples), bool)
        for block in blocks(samples, encoder, self._layer()):
            counts = np.array([len(r) for r in block.references])
            captions = np.repeat(block.captions, counts)
            references = np.concatenate(block.references)
            pairs = score_pairs(
                block, captions, references, weights, encoder.device, self.profile == "release"
            )
            starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
            if self.pool == "max":
                rows[block.rows] = np.maximum.reduceat(pairs, starts, axis=0)
            else:
                rows[block.rows] = np.add.reduceat(pairs, starts, axis=0) / counts[:, None]
            cut[block.rows] = cut_rows(block)
        notes = cut_note(cut, encoder)
        wild = int(np.count_nonzero(rows[:, 2] > rows[:, :2].max(axis=1) + 1e-6))
        if wild:
            notes["P and R have opposite signs for a reference, so F has no meaning"] = wild
        base = np.array(self._baseline(), np.float64)
        return Stats((rows - base) / (1.0 - base), no_references(samples), notes)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the weights, the layer, and what the idf was counted on."""
        encoder = text_encoder.load(self.model, self.dtype)
        parts = {"layer": str(self._layer())} | encoder.signed()
        if context is not None:
            parts["idf"] = context.name()
        if self.baseline not in ("off", "known"):
            digest = hashlib.sha256(Path(self.baseline).read_bytes()).hexdigest()
            parts["baseline"] = f"{Path(self.baseline).stem}({digest[:8]})"
        return parts

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show the matrix of similarities with the reference of the highest F."""
        encoder = text_encoder.load(self.model, self.dtype)
        weights = idf_weights(encoder, context, "smooth")
        texts = [sample.caption, *sample.references]
        encoded = encoder.encode(texts, self._layer())
        other = np.arange(1, len(texts))
        block = Block(np.zeros(1, np.int64), np.zeros(1, np.int64), [other], encoded)
        pairs = score_pairs(
            block, np.zeros_like(other), other, weights, encoder.device, self.profile == "release"
        )
        best = int(np.argmax(pairs[:, 2])) + 1
        at = [slice(encoded.offsets[k], encoded.offsets[k + 1]) for k in (0, best)]
        matrix = (encoded.vectors[at[1]] @ encoded.vectors[at[0]].T).numpy()
        words = [[encoder.vocabulary[p] for p in encoded.pieces[a]] for a in at]
        idf = [weights[encoded.pieces[a]] * ~encoded.marks[a] for a in at]
        value = self.stats(CaptionSet.of([sample]), context).rows[0]
        data = {
            "scores": dict(zip((c.name for c in self.columns), map(float, value), strict=True)),
            "reference": texts[best],
            "per_reference": pairs.tolist(),
            "caption_pieces": words[0],
            "reference_pieces": words[1],
            "caption_weights": idf[0].tolist(),
            "reference_weights": idf[1].tolist(),
            "cosine": matrix.tolist(),
        }
        lines = [f"bertscore P {value[0]:.4f} R {value[1]:.4f} F {value[2]:.4f}"]
        lines.append(f"nearest reference: {texts[best]}")
        lines.append("each of its words, the word of the caption nearest to it, their cosine:")
        for k, word in enumerate(words[1]):
            if idf[1][k] > 0:
                j = int(np.argmax(matrix[k]))
                lines.append(f"  {word:<14} -> {words[0][j]:<14} {matrix[k, j]:.3f}")
        drawn = MatchMatrix(
            "cosine",
            tuple(words[1]),
            tuple(words[0]),
            tuple(map(tuple, matrix.tolist())),
            weights=tuple(idf[1].tolist()),
        )
        return Explanation("\n".join(lines), data, (drawn,))

    def _layer(self) -> int:
        return text_encoder.choose_layer(self.model, self.layer, "bertscore")

    def _baseline(self) -> Baseline:
        if self.baseline == "off":
            return (0.0, 0.0, 0.0)
        if self.baseline != "known":
            return read_baseline(self.baseline, self._layer())
        known = defaults(self.model)
        table = known.baselines if known is not None else {}
        if self._layer() not in table:
            raise UsageError(
                f"no baseline is known for {self.model!r} at layer {self._layer()}. Compute it: "
                f"captious calibrate {self.model} --texts FILE -o baseline.json, "
                "then bertscore(baseline='baseline.json')"
            )
        return table[self._layer()]


def score_pairs(
    block: Block, left: Ints, right: Ints, weights: Floats, device: str, raw_f: bool = False
) -> Floats:
    """Return P, R, F of text pairs; P is weighted over the left pieces, R over the right.

    F is 0 where P or R is not positive: a harmonic mean of numbers of different sign can be
    anything (P .30 and R -.29 give -17.4). ``raw_f`` applies the formula all the same.
    """
    import torch

    encoded = block.encoded
    weight = torch.from_numpy(weights[encoded.pieces] * ~encoded.marks).to(device)
    vectors = encoded.vectors.to(device)
    scores = np.zeros((len(left), 3))
    for pick in batches(encoded.lengths[right], encoded.lengths[left]):
        a, real_a = padded(encoded.offsets[left[pick]], encoded.lengths[left[pick]])
        b, real_b = padded(encoded.offsets[right[pick]], encoded.lengths[right[pick]])
        cosine = torch.bmm(vectors[a], vectors[b].mT).clamp_(-1.0, 1.0)  # rounding passes 1
        off_a = ~torch.from_numpy(real_a).to(device)
        off_b = ~torch.from_numpy(real_b).to(device)
        cosine.masked_fill_(off_a[:, :, None] | off_b[:, None, :], -2.0)  # below every cosine
        p = _weighted_mean(cosine.amax(2), weight[a], off_a)
        r = _weighted_mean(cosine.amax(1), weight[b], off_b)
        content_a, content_b = (
            weight[x].masked_fill(o, 0).sum(1) for x, o in ((a, off_a), (b, off_b))
        )
        scored = (content_a > 0) & (content_b > 0)
        total = p + r
        fine = total != 0 if raw_f else (p > 0) & (r > 0)
        f = torch.where(fine, 2 * p * r / torch.where(fine, total, 1.0), 0.0)
        scores[pick] = torch.where(scored[:, None], torch.stack([p, r, f], 1), 0.0).cpu().numpy()
    return scores


def _weighted_mean(best: torch.Tensor, weight: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
    weight = weight.masked_fill(padding, 0.0)
    total = weight.sum(1)
    return (best.double() * weight).sum(1) / total.masked_fill(total == 0, 1.0)


def idf_context(samples: CaptionSet, encoder: TextEncoder, idf: str) -> PieceIdf | None:
    """Return the counts that a metric's ``idf`` parameter asks for."""
    if idf == "off":
        return None
    if idf in ("references", "all"):
        return piece_idf.count(samples, encoder, idf)
    return piece_idf.load(idf, encoder)


def idf_weights(encoder: TextEncoder, context: PieceIdf | None, formula: str) -> Floats:
    """Return a weight per piece; 1 where nothing was counted."""
    if context is None:
        return np.ones(len(encoder.vocabulary))
    return context.weights(formula)


def read_baseline(path: str, layer: int) -> Baseline:
    """Read one layer's baseline from a file of ``captious calibrate``."""
    file = Path(path).expanduser()
    if not file.is_file():
        kind = InputError if file.suffix or file.name != path else UsageError  # a file, or a word
        raise kind(f"baseline={path!r} is neither 'off', 'known' nor a file")
    with reading(path, "a file of `captious calibrate`", "make it again"):
        layers = json_object(file, "a file of `captious calibrate`")["layers"]
        baselines = {int(x["layer"]): (float(x["p"]), float(x["r"]), float(x["f"])) for x in layers}
    if layer not in baselines:
        raise UsageError(f"{path} has no layer {layer}, only {', '.join(map(str, baselines))}")
    return baselines[layer]


def missing_parts(metric: Metric, encoder: str) -> list[CaptiousError]:
    """Return what a metric with a text encoder lacks."""
    errors = Metric.missing(metric)
    if all(find_spec(m) is not None for m in metric.modules):
        try:
            text_encoder.locate(encoder)
        except MissingAsset as err:
            errors.append(err)
    return errors


def no_references(samples: CaptionSet) -> dict[int, str]:
    """Return the reason for rows without a reference."""
    return {int(i): "no reference" for i in np.flatnonzero(samples.reference_counts == 0)}


def cut_rows(block: Block) -> Any:
    """Return which rows of a block had a text cut to the model's length."""
    cut = block.encoded.cut
    return cut[block.captions] | np.array([cut[r].any() for r in block.references], bool)


def cut_note(cut: Any, encoder: TextEncoder) -> dict[str, int]:
    """Return the remark that counts cut texts."""
    n = int(np.count_nonzero(cut))
    return {f"captions or references cut to {encoder.limit} tokens": n} if n else {}
