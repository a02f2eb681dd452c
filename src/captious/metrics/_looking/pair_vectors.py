"""Vectors of photographs, captions and references by one image-text model, each made once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.evidence.images import photograph_digest
from captious.models.dual_encoder import DualEncoder, Vectors
from captious.types import CaptionSet, Floats, WorkKey


@dataclass(frozen=True)
class PairVectors:
    """What the model made of a batch.

    Attributes:
        rows: numbers of the rows that can be scored.
        reasons: row -> why it cannot be scored.
        image: cosine of photograph and caption, per scored row.
        reference: greatest cosine of the caption and a reference, per scored row; empty if unasked.
        notes: how many texts were cut.
    """

    rows: list[int]
    reasons: dict[int, str]
    image: Floats
    reference: Floats
    notes: dict[str, int]

    @classmethod
    def of(
        cls,
        samples: CaptionSet,
        model: DualEncoder,
        prefix: str,
        references: bool,
        release: bool = False,
    ) -> PairVectors:
        """Look at the photographs and read the texts of a batch.

        Args:
            samples: the batch.
            model: reads and looks.
            prefix: what is put in front of every text.
            references: whether references are read.
            release: as the authors' programs do: pictures as they are stored, whatever their EXIF
                mark says, and empty captions read as the bare prefix.
        """
        reasons = _unscorable(samples, references, release)
        seen, problems = _seen(samples, model, reasons, upright=not release)
        for row, image in enumerate(samples.images.tolist()):
            if row not in reasons and image not in seen:
                reasons[row] = problems.get(str(image), f"there is no photograph {image!r}")
        rows = [row for row in range(len(samples)) if row not in reasons]
        read = _Reader(samples, model, prefix)
        captions = read.vectors(samples.caption[rows])
        photographs = np.array([seen[str(samples.images[row])] for row in rows], np.float32)
        image = np.einsum("ij,ij->i", captions, photographs.reshape(captions.shape))
        nearest: list[float] = []
        if references:
            part = samples.take(rows)
            flat = read.vectors(part.reference)
            bounds = part.offsets.tolist()
            for row, (a, b) in enumerate(zip(bounds, bounds[1:], strict=False)):
                nearest.append(float((flat[a:b] @ captions[row]).max()))
        notes = read.notes(samples, rows, references)
        return cls(rows, reasons, image.astype(np.float64), np.array(nearest), notes)


class _Reader:
    """Texts with their prefix; what one metric read, the next one finds in the text pool."""

    def __init__(self, samples: CaptionSet, model: DualEncoder, prefix: str) -> None:
        self.pool, self.model = samples.pool, model
        self.prefix = f"{prefix.rstrip()} " if prefix.strip() else ""
        key = WorkKey[dict[int, tuple[Vectors, bool]]]("pair vectors", (model.identity, prefix))
        self.known = self.pool.derived(key, dict)

    def vectors(self, numbers: npt.NDArray[np.int32]) -> Vectors:
        new = [n for n in dict.fromkeys(numbers.tolist()) if n not in self.known]
        texts = [self.prefix + text for text in self.pool.strings(np.array(new, np.int64))]
        made, cut = self.model.texts(texts)
        for number, vector, short in zip(new, made, cut.tolist(), strict=True):
            self.known[number] = vector, short
        if not len(numbers):
            return np.zeros((0, 1), np.float32)
        return np.stack([self.known[n][0] for n in numbers.tolist()])

    def notes(self, samples: CaptionSet, rows: list[int], references: bool) -> dict[str, int]:
        limit = self.model.limit
        part = samples.take(rows)
        counts = {f"captions cut to {limit} tokens": part.caption}
        if references:
            counts[f"references cut to {limit} tokens"] = part.reference
        remarks = {
            remark: sum(self.known[n][1] for n in numbers.tolist())
            for remark, numbers in counts.items()
        }
        return {remark: count for remark, count in remarks.items() if count}


def _unscorable(samples: CaptionSet, references: bool, release: bool) -> dict[int, str]:
    reasons: dict[int, str] = {}
    counts = samples.reference_counts
    for row, (image, text) in enumerate(zip(samples.images, samples.captions(), strict=True)):
        if image is None:
            reasons[row] = "the sample has no image"
        elif not text.strip() and not release:
            reasons[row] = "the caption is empty"
        elif references and counts[row] == 0:
            reasons[row] = "no references"
    return reasons


def _seen(
    samples: CaptionSet, model: DualEncoder, reasons: dict[int, str], upright: bool
) -> tuple[dict[str, Vectors], dict[str, str]]:
    """Vectors of the photographs that scorable rows name, and why some have none."""
    evidence = samples.evidence
    names = [str(i) for row, i in enumerate(samples.images.tolist()) if row not in reasons]
    photographs: dict[str, Path | bytes] = {}
    for image in dict.fromkeys(names):
        if image in evidence.photographs:
            photographs[image] = evidence.photographs[image]
        elif os.path.isfile(image):
            photographs[image] = Path(image)
    digests = {
        image: evidence.digests.get(image) or photograph_digest(file)
        for image, file in photographs.items()
    }
    return model.images(photographs, digests, upright)
