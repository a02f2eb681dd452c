"""BERT-TBR: BERTScore's recall made for several references (cut, combine, remove).

Yi et al. 2020, "Improving Image Captioning Evaluation by Considering Inter References Variance".
T: a cosine not above the threshold is not a match. B: the references are combined into one, without
what they say twice. R: the recall is multiplied by a second one without stop words.

    S(x, Y) = max cos(x, y) over y in Y, if it is above the threshold, else 0
    Rcomb = sum idf(r) S(r, c) / sum idf(r) [S(r, c) > 0]   over the combined reference
    Rrm   = sum S(r', c') / |r'|                            without stop words
    score = Rcomb * Rrm

Worked example, threshold .4, one reference "a dog runs" with idf 0, 1, 2, caption "a puppy",
cosines dog-puppy .8 and everything else below .4 except a-a 1: Rcomb = 1*.8/1 = .8 (what has no
match is left out), Rrm = .8/2 = .4 (dog, runs), score .32.

Profiles, because paper and release differ:

    ========  =========================  ==========  ============  ==============  ================
    profile   tokens added to a base     bases       |r'| counts   idf documents   idf formula
    ========  =========================  ==========  ============  ==============  ================
    clean     without match in what is   all, mean   all           references      ln((N+1)/(df+1))
              collected so far
    paper     the same                   one, drawn  all           references      lg(N/df)
    release   without match in the base  all, mean   matched only  refs, captions  ln((N+1)/(df+1))
              and in earlier references
    ========  =========================  ==========  ============  ==============  ================

The release also scores each added token with the vector of another one (two index slips); the
profile ``release`` reproduces that, the others do not. An empty reference is passed over (the
release keeps it as a base); empty captions, and captions or references of stop words alone, get 0.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious.errors import CaptiousError, UsageError, did_you_mean
from captious.metrics._matching import tbr_kernel
from captious.metrics._matching.token_blocks import Block, batches, blocks, joined, padded
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.metrics.bertscore import (
    cut_note,
    cut_rows,
    idf_context,
    idf_weights,
    missing_parts,
    no_references,
)
from captious.models import piece_idf, text_encoder
from captious.models.encoder_defaults import defaults
from captious.models.piece_idf import PieceIdf
from captious.models.text_encoder import TextEncoder
from captious.text.stoplists import stop_words
from captious.text.stopwords_tbr import TBR
from captious.types import CaptionSet, Floats, Ints, MatchMatrix, Sample

if TYPE_CHECKING:
    import torch


_MOST = 1 << 24  # captions times bases times pieces that are scored at once


@dataclass(frozen=True)
class Profile:
    """One reading of the method; see the table in the module's docstring."""

    combine: str
    bases: str
    denominator: str
    idf: str
    formula: str
    slips: bool = False


PROFILES = {
    "clean": Profile("grow", "all", "all", "references", "smooth"),
    "paper": Profile("grow", "one", "all", "references", "plain"),
    "release": Profile("marks", "all", "matched", "all", "smooth", slips=True),
}

_TOLD = 12
"""Pieces that an explanation in words names; the others are one line."""

# The ablation of the paper: does it cut, how are references joined, does it remove stop words?
PARTS: dict[str, tuple[bool, str, bool]] = {
    "BS": (False, "none", False),
    "T": (True, "none", False),
    "TB": (True, "combine", False),
    "TBR": (True, "combine", True),
    "TcatR": (True, "cat", True),
    "TR": (True, "none", True),
}


@dataclass(frozen=True)
class BertTbr(Metric):
    """BERT-TBR: matched recall against the combination of all references.

    Args:
        profile: ``clean``, ``paper`` or ``release``.
        parts: ``TBR``, or for the ablation ``BS`` (the recall of BERTScore with idf: every
            reference piece counts, also one whose best cosine is not positive), ``T``, ``TB``,
            ``TR``, ``TcatR``.
        model: ``minilm`` or ``mpnet`` (from pip), a folder, or a hub name; the paper's are
            ``bert-base-uncased`` and ``roberta-large``.
        layer: hidden state, 0 = embeddings; None = the encoder's known default.
        threshold: the cut; None = known for the encoder (0.4 BERT-base, 0.83 RoBERTa-large).
        idf: ``references``, ``all``, ``off``, a table's path, or None = as the profile says.
        stop_words: ``tbr`` (the release's list), ``nltk``, ``sklearn``, ``none``, or a file.
        pool: over references where they are not combined (BS, T, TR): ``max`` or ``mean``.
        seed: which base the profile ``paper`` draws.
        dtype: ``float32``, ``bfloat16`` or ``float16`` for the encoder.
    """

    profile: str = "clean"
    parts: str = "TBR"
    model: str = "minilm"
    layer: int | None = None
    threshold: float | None = None
    idf: str | None = None
    stop_words: str = "tbr"
    pool: str = "max"
    seed: int = 0
    dtype: str = "float32"

    name: ClassVar[str] = "bert_tbr"
    renamed: ClassVar[dict[str, str]] = {"encoder": "model"}
    columns: ClassVar[tuple[Column, ...]] = (
        Column("bert_tbr", 0.0, 1.0, "how much of all references together the caption covers"),
    )
    modules: ClassVar[dict[str, str]] = {"torch": "neural", "transformers": "neural"}
    identity: ClassVar[float | None] = 1.0
    batch: ClassVar[int] = 131072  # rows that share references meet in one batch

    def __post_init__(self) -> None:
        for what, value, known in (
            ("profile", self.profile, list(PROFILES)),
            ("parts", self.parts, list(PARTS)),
            ("pool", self.pool, ["max", "mean"]),
        ):
            if value not in known:
                raise UsageError(
                    f"bert_tbr: {what} is one of {', '.join(known)}, not {value!r}."
                    f"{did_you_mean(value, known)}"
                )

    def missing(self) -> list[CaptiousError]:
        """Name absent packages and an absent model."""
        return missing_parts(self, self.model)

    def prepare(self, samples: CaptionSet) -> PieceIdf | None:
        """Count in how many documents each piece occurs."""
        encoder = text_encoder.load(self.model, self.dtype)
        encoder.expect(self._layer())
        return idf_context(samples, encoder, self.idf or PROFILES[self.profile].idf)

    def merge(self, a: Any, b: Any) -> Any:
        """Join the counts of two shards."""
        return b if a is None else a if b is None else piece_idf.merge(a, b)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the score of each caption."""
        encoder = text_encoder.load(self.model, self.dtype)
        tables, notes = self._tables(encoder, context, len(samples))
        rows = np.full((len(samples), 1), np.nan)
        cut = np.zeros(len(samples), bool)
        for block in blocks(samples, encoder, self._layer()):
            rows[block.rows, 0] = self._score(block, tables, encoder.device)
            cut[block.rows] = cut_rows(block)
        return Stats(rows, no_references(samples), notes | cut_note(cut, encoder))

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the weights, the layer, the threshold, and what the idf was counted on."""
        encoder = text_encoder.load(self.model, self.dtype)
        parts = {"layer": str(self._layer())} | encoder.signed()
        parts["threshold"] = f"{self._threshold():g}"
        parts["idf"] = context.name() if context is not None else "off"
        if self.stop_words not in ("tbr", "nltk", "sklearn", "none"):
            listed = "\n".join(sorted(_stop_list(self.stop_words))).encode()
            parts["stop_words"] = (
                f"{Path(self.stop_words).stem}({hashlib.sha256(listed).hexdigest()[:8]})"
            )
        return parts

    # -- the score -----------------------------------------------------------------------------

    def _score(self, block: Block, tables: _Tables, device: str) -> Floats:
        """Return the scores of a block's rows: references first, once per group of rows."""
        references = [self._kept(r, block) for r in block.references]
        groups: dict[bytes, int] = {}
        lists: list[Ints] = []
        group = np.zeros(len(references), np.int64)
        for i, refs in enumerate(references):
            group[i] = groups.setdefault(refs.tobytes(), len(groups))
            if group[i] == len(lists):
                lists.append(refs)
        lengths = block.encoded.lengths
        counts = np.array([len(r) for r in lists], np.int64)
        totals = np.array([int(lengths[r].sum()) for r in lists], np.int64)
        scores = np.zeros(len(references))
        vectors = block.encoded.vectors.to(device)
        for count in np.unique(counts[counts > 0]).tolist():
            same = np.flatnonzero(counts == count)
            for pick in batches(totals[same]):
                chosen = same[pick]
                joint = _Joint.of([lists[g] for g in chosen], block, vectors, tables)
                taken, swapped = self._combined(joint, [lists[g] for g in chosen], block)
                place = np.full(len(lists), -1)
                place[chosen] = np.arange(len(chosen))
                rows = np.flatnonzero(place[group] >= 0)
                most = max(1, _MOST // taken[0].numel())
                for batch in batches(lengths[block.captions[rows]]):
                    for start in range(0, len(batch), most):
                        at = rows[batch[start : start + most]]
                        value = self._rows(
                            block, at, place[group[at]], joint, taken, swapped, tables
                        )
                        scores[at] = value.cpu().numpy()
        return scores

    def _rows(
        self,
        block: Block,
        rows: Ints,
        group: Ints,
        joint: _Joint,
        taken: torch.Tensor,
        swapped: torch.Tensor | None,
        tables: _Tables,
    ) -> torch.Tensor:
        """Score some captions against the combined references of their groups."""
        import torch

        view = _Caption.of(block, rows, tables, joint.refs.vectors.device)
        which = torch.from_numpy(group).to(view.content.device)
        vectors = joint.all_vectors[view.at]
        cosine = torch.bmm(joint.refs.vectors[which], vectors.mT)
        factors = tbr_kernel.factors(
            cosine,
            taken[which],
            None if swapped is None else swapped[which],
            joint.weight[which],
            joint.stop[which],
            view.content,
            view.stop,
            self._threshold() if PARTS[self.parts][0] else None,
            PROFILES[self.profile].denominator,
        )
        value = factors.combined * factors.removed if PARTS[self.parts][2] else factors.combined
        if PARTS[self.parts][1] == "none" and self.pool == "max":
            return value.amax(1)
        return value.mean(1)

    def _combined(
        self, joint: _Joint, lists: list[Ints], block: Block
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return which pieces each base takes, and the release's wrong vectors if asked for."""
        import torch

        profile, how = PROFILES[self.profile], PARTS[self.parts][1]
        if how != "combine":
            return tbr_kernel.combine(joint.refs, 0.0, how), None
        taken = tbr_kernel.combine(joint.refs, self._threshold(), profile.combine)
        if profile.bases == "one":
            drawn = torch.tensor([self._draw(r, block) for r in lists], device=taken.device)
            taken = taken[torch.arange(len(lists), device=taken.device), drawn][:, None, :]
        return taken, tbr_kernel.release_rows(joint.refs, taken) if profile.slips else None

    def _draw(self, refs: Ints, block: Block) -> int:
        """Draw a base by the references' own content: no dependence on place or batch."""
        digest = hashlib.blake2b(f"{self.seed}".encode(), digest_size=8)
        for r in refs:
            start, stop = block.encoded.offsets[r], block.encoded.offsets[r + 1]
            digest.update(block.encoded.pieces[start:stop].tobytes() + b"|")
        return int.from_bytes(digest.digest(), "little") % len(refs)

    def _kept(self, refs: Ints, block: Block) -> Ints:
        """Leave out empty references, which the release keeps as bases."""
        if PROFILES[self.profile].slips:
            return refs
        marks = block.encoded.prefix + block.encoded.suffix
        return refs[block.encoded.lengths[refs] > marks]

    def _tables(
        self, encoder: TextEncoder, context: PieceIdf | None, n: int
    ) -> tuple[_Tables, dict[str, int]]:
        profile = PROFILES[self.profile]
        weights = idf_weights(encoder, context, profile.formula)
        notes = {}
        if n and context is not None and not profile.slips and not _any_rare(context, weights):
            weights = np.ones_like(weights)
            notes = {"every word occurs in every document: all words weigh the same": n}
        return _Tables(weights, _stop_table(self.stop_words, encoder)), notes

    def _layer(self) -> int:
        return text_encoder.choose_layer(self.model, self.layer, "tbr")

    def _threshold(self) -> float:
        if self.threshold is not None:
            return self.threshold
        known, layer = defaults(self.model), self._layer()
        if known is not None and known.threshold is not None and layer == known.tbr_layer:
            return known.threshold
        if known is not None and layer in known.baselines:
            return known.baselines[layer][1]
        raise UsageError(
            f"no threshold is known for the encoder {self.model!r} at layer {layer}: give "
            f"threshold=X. The rule is the recall of random pairs, which "
            f"`captious calibrate {self.model} --texts FILE` computes."
        )

    # -- saying why ----------------------------------------------------------------------------

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show which piece of the references finds which word, and what it adds to the score."""
        encoder = text_encoder.load(self.model, self.dtype)
        tables, _ = self._tables(encoder, context, 1)
        samples = CaptionSet.of([sample])
        score = float(self.stats(samples, context).rows[0, 0])
        block = next(iter(blocks(samples, encoder, self._layer())), None)
        references = (
            self._kept(block.references[0], block) if block is not None else np.zeros(0, int)
        )
        data: dict[str, Any] = {"score": score, "threshold": self._threshold()}
        if block is None or not len(references):
            return Explanation(f"bert_tbr {score:.4f}: there is no reference with words", data)
        joint = _Joint.of([references], block, block.encoded.vectors, tables)
        taken, swapped = self._combined(joint, [references], block)
        view = _Caption.of(block, np.zeros(1, np.int64), tables, joint.refs.vectors.device)
        columns = np.flatnonzero(view.content[0].numpy())
        rows = np.flatnonzero(taken[0].any(0).numpy())
        data["adds"] = self._adds(joint, view, taken, swapped)[rows].tolist()
        source = rows if swapped is None else swapped[0, 0].numpy()[rows]
        captions = block.encoded.vectors[view.at[0][columns]]
        matrix = (joint.refs.vectors[0][source] @ captions.T).numpy()
        return self._explained(
            data, encoder, block, joint, rows, view.at[0][columns], matrix, tables
        )

    def _adds(
        self, joint: _Joint, view: _Caption, taken: torch.Tensor, swapped: torch.Tensor | None
    ) -> Floats:  # fmt: skip
        """Return what every reference piece adds to the score of one caption."""
        cosine = joint.refs.vectors @ joint.all_vectors[view.at].mT
        cuts, how, removes = PARTS[self.parts]
        threshold = self._threshold() if cuts else None
        adds = tbr_kernel.shares(cosine, taken, swapped, joint.weight, view.content, threshold)[0]
        if removes:
            factors = tbr_kernel.factors(
                cosine, taken, swapped, joint.weight, joint.stop, view.content, view.stop,
                threshold, PROFILES[self.profile].denominator,
            )  # fmt: skip
            adds = adds * factors.removed[0][:, None]
        if how == "none" and self.pool == "max":
            return adds[int(adds.sum(1).argmax())].numpy()
        return adds.mean(0).numpy()

    def _explained(
        self, data: dict[str, Any], encoder: TextEncoder, block: Block, joint: _Joint,
        rows: Ints, caption_at: Ints, matrix: Any, tables: _Tables,
    ) -> Explanation:  # fmt: skip
        pieces = block.encoded.pieces[joint.at[0][rows]]
        caption = block.encoded.pieces[caption_at]
        words = [encoder.vocabulary[p] for p in pieces]
        columns = [encoder.vocabulary[p] for p in caption]
        owner = joint.refs.owner[0].numpy()[rows].tolist()
        stop, caption_stop = tables.stop[pieces].tolist(), tables.stop[caption].tolist()
        weights, threshold = tables.weights[pieces], self._threshold()
        adds = data.pop("adds")
        data |= {
            "pieces": [
                {"piece": w, "reference": o, "stop_word": s, "idf": float(i), "adds": a}
                for w, o, s, i, a in zip(words, owner, stop, weights, adds, strict=True)
            ],
            "caption": [
                {"piece": w, "stop_word": s} for w, s in zip(columns, caption_stop, strict=True)
            ],
            "cosine": matrix.tolist(),
            "kept": (matrix > threshold).tolist(),
        }
        lines = [f"bert_tbr {data['score']:.4f} ({self.profile}, cut at {threshold:g})"]
        telling = set(np.argsort(-np.abs(adds), kind="stable")[:_TOLD].tolist())
        for k, word in enumerate(words):
            if k not in telling:
                continue
            best = int(np.argmax(matrix[k])) if len(columns) else -1
            hit = best >= 0 and matrix[k, best] > threshold
            match = f"{columns[best]:<14} {matrix[k, best]:.3f}" if hit else "no match"
            tail = " (stop word)" if stop[k] else ""
            lines.append(
                f"  ref {owner[k] + 1} {word:<14} idf {weights[k]:5.2f} -> {match:<20} "
                f"{adds[k]:+.4f}{tail}"
            )
        if len(words) > len(telling):
            rest = sum(a for k, a in enumerate(adds) if k not in telling)
            lines.append(f"  {f'{len(words) - len(telling)} other tokens':<54} {rest:+.4f}")
        lines.append("The last column adds up to the score.")
        drawn = MatchMatrix(
            f"tokens of the references x caption, cut at {threshold:g}",
            tuple(words),
            tuple(columns),
            tuple(map(tuple, matrix.tolist())),
            threshold,
            tuple(map(float, weights)),
            tuple(stop),
            tuple(caption_stop),
            tuple(f"ref {o + 1}" for o in owner),
        )
        return Explanation("\n".join(lines), data, (drawn,))


@dataclass(frozen=True, eq=False)
class _Tables:
    """Weight and stop flag of every piece of the vocabulary."""

    weights: Floats
    stop: Any


@dataclass(frozen=True, eq=False)
class _Joint:
    """All pieces of all references of several groups, padded."""

    refs: tbr_kernel.References
    weight: torch.Tensor
    stop: torch.Tensor
    at: Ints
    all_vectors: torch.Tensor

    @classmethod
    def of(cls, lists: list[Ints], block: Block, vectors: torch.Tensor, tables: _Tables) -> _Joint:
        import torch

        at, real, owner = joined(lists, block.encoded)
        pieces = block.encoded.pieces[at]
        content = real & ~block.encoded.marks[at]
        device = vectors.device

        def tensor(x: Any) -> torch.Tensor:
            return torch.from_numpy(x).to(device)

        refs = tbr_kernel.References(vectors[at], tensor(owner), tensor(content), len(lists[0]))
        return cls(refs, tensor(tables.weights[pieces]), tensor(tables.stop[pieces]), at, vectors)


@dataclass(frozen=True, eq=False)
class _Caption:
    """Pieces of several captions, padded."""

    at: Ints
    content: torch.Tensor
    stop: torch.Tensor

    @classmethod
    def of(cls, block: Block, rows: Ints, tables: _Tables, device: Any) -> _Caption:
        import torch

        text = block.captions[rows]
        at, real = padded(block.encoded.offsets[text], block.encoded.lengths[text])
        content = torch.from_numpy(real & ~block.encoded.marks[at]).to(device)
        stop = torch.from_numpy(tables.stop[block.encoded.pieces[at]]).to(device)
        return cls(at, content, stop)


def _any_rare(context: PieceIdf, weights: Floats) -> bool:
    """Return whether some piece that was counted has a weight."""
    return bool((weights[context.frequency > 0] > 0).any())


def _stop_list(name: str) -> frozenset[str]:
    return TBR if name == "tbr" else stop_words(name)


@lru_cache(maxsize=8)
def _stop_table(name: str, encoder: TextEncoder) -> Any:
    listed = _stop_list(name)
    return np.array([w in listed for w in encoder.words], bool)
