"""How rare a word piece is: counted over the sentences of a run, merged, or read from a file.

A document is a sentence. With ``references`` it is a reference of an image, counted once however
many captions of that image are judged, so the weights do not depend on which systems are in the
run. With ``all`` it is every reference and caption of every row, as BERT-TBR's release counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, UsageError
from captious.models.text_encoder import TextEncoder
from captious.reading import json_object, reading
from captious.types import CaptionSet

_FORMAT = 1
_CHUNK = 16384
FORMULAS = ("smooth", "plain")


@dataclass(frozen=True, eq=False)
class PieceIdf:
    """Document frequencies of pieces.

    Attributes:
        keys: one number per document (sorted, distinct), which makes merging exact.
        pieces: distinct pieces of the documents, end to end.
        offsets: document ``i`` holds ``pieces[offsets[i]:offsets[i + 1]]``.
        size: of the vocabulary.
        label: how a signature names it.
        table: frequency per piece and number of documents, for a table read from a file.
    """

    keys: npt.NDArray[np.uint64]
    pieces: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    size: int
    label: str
    table: tuple[npt.NDArray[np.int64], int] | None = None

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.keys) if self.table is None else self.table[1]

    @cached_property
    def frequency(self) -> npt.NDArray[np.int64]:
        """In how many documents each piece occurs."""
        if self.table is not None:
            return self.table[0]
        return np.bincount(self.pieces, minlength=self.size).astype(np.int64)

    @cached_property
    def digest(self) -> str:
        """What decides the weights, as a hash."""
        digest_so_far = hashlib.sha256(f"{self.documents}|{self.size}".encode())
        digest_so_far.update(np.ascontiguousarray(self.frequency, "<i8").tobytes())
        return digest_so_far.hexdigest()

    def weights(self, formula: str = "smooth") -> npt.NDArray[np.float64]:
        """Return the idf of each piece.

        Args:
            formula: ``smooth`` is ln((N + 1)/(df + 1)); ``plain`` is lg(N/df), where a piece that
                was never seen counts as seen once.
        """
        if formula == "smooth":
            return np.log((self.documents + 1.0) / (self.frequency + 1.0))
        return np.log10(max(self.documents, 1) / np.maximum(self.frequency, 1))

    def name(self) -> str:
        """Return the signature's word for it."""
        return self.label if self.table is not None else f"{self.label}(n={self.documents})"


def count(samples: CaptionSet, encoder: TextEncoder, corpus: str) -> PieceIdf:
    """Count over a run.

    Args:
        samples: the run, or a shard of it.
        encoder: whose pieces are counted.
        corpus: ``references`` or ``all``.
    """
    if corpus == "references":
        scope = samples.image_keys[samples.reference_rows]
        text = samples.reference
    else:
        row = [f"{s}\0{i}" for s, i in zip(samples.systems, samples.ids, strict=True)]
        rows = np.array(row, dtype=object)
        scope = np.concatenate([rows[samples.reference_rows], rows])
        text = np.concatenate([samples.reference, samples.caption])
    unique, inverse = np.unique(text, return_inverse=True)
    parts: list[npt.NDArray[np.int32]] = []
    sizes: list[npt.NDArray[np.int64]] = []
    hashes = np.zeros(len(unique), np.uint64)
    for start in range(0, len(unique), _CHUNK):
        strings = samples.pool.strings(unique[start : start + _CHUNK])
        pieces, lengths = _distinct(encoder.tokenize(strings)[0])
        parts.append(pieces)
        sizes.append(lengths)
        hashes[start : start + len(strings)] = [_hash(s) for s in strings]
    offsets = np.zeros(len(unique) + 1, np.int64)
    np.cumsum(np.concatenate(sizes) if sizes else [], out=offsets[1:])
    places, where = np.unique(scope.astype(str), return_inverse=True)
    place = np.array([_hash(str(p)) for p in places], np.uint64)[where]
    # An odd multiplier keeps (place, text) pairs apart; the sum wraps around on purpose.
    pairs = place * np.uint64(0x9E3779B97F4A7C15) + hashes[inverse]
    keys, first = np.unique(pairs, return_index=True)
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    kept, bounds = _take(joined, offsets, inverse[first])
    return PieceIdf(keys, kept, bounds, len(encoder.vocabulary), corpus)


def merge(a: PieceIdf, b: PieceIdf) -> PieceIdf:
    """Join the counts of two shards; a document in both counts once."""
    if a.table is not None:
        return a
    keys, first = np.unique(np.concatenate([a.keys, b.keys]), return_index=True)
    pieces = np.concatenate([a.pieces, b.pieces])
    offsets = np.concatenate([a.offsets, b.offsets[1:] + a.offsets[-1]])
    kept, bounds = _take(pieces, offsets, first)
    return PieceIdf(keys, kept, bounds, a.size, a.label)


def save(texts: Iterable[str], encoder: TextEncoder, path: Path) -> int:
    """Count over texts, write a table that freezes the weights, return the number of texts."""
    counts: Counter[int] = Counter()
    strings = list(dict.fromkeys(texts))
    for start in range(0, len(strings), _CHUNK):
        for pieces in encoder.tokenize(strings[start : start + _CHUNK])[0]:
            counts.update(set(pieces))
    words = encoder.vocabulary
    whole = {
        "format": _FORMAT,
        "documents": len(strings),
        "vocabulary": encoder.vocabulary_sha,
        "frequency": {words[p]: n for p, n in sorted(counts.items())},
    }
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(whole, ensure_ascii=False, indent=0), "utf-8")
    os.replace(part, path)
    return len(strings)


def load(path: str, encoder: TextEncoder) -> PieceIdf:
    """Read a table written by :func:`save`."""
    file = Path(path).expanduser()
    if not file.is_file():
        kind = InputError if Path(path).suffix else UsageError  # a file, or a word
        raise kind(
            f"idf={path!r} is neither 'references', 'all', 'off', nor a file. "
            "`captious calibrate MODEL --texts FILE --idf OUT.json` makes one."
        )
    facts = file.stat()
    return _load(str(file), facts.st_size, facts.st_mtime_ns, encoder)


@lru_cache(maxsize=4)
def _load(path: str, size: int, changed: int, encoder: TextEncoder) -> PieceIdf:
    with reading(path, "an idf table of captious", "make it again with `captious calibrate`"):
        whole = json_object(path, "an idf table of captious")
        documents, pieces = int(whole["documents"]), dict(whole["frequency"])
        made_for, form = str(whole["vocabulary"]), whole["format"]
    if form != _FORMAT or made_for != encoder.vocabulary_sha:
        raise UsageError(
            f"the idf table {path} was made for another vocabulary than that of {encoder.name!r}; "
            "make it again with `captious calibrate`"
        )
    frequency = np.zeros(len(encoder.vocabulary), np.int64)
    number = {p: i for i, p in enumerate(encoder.vocabulary)}
    with reading(path, "an idf table of captious", "make it again with `captious calibrate`"):
        for piece, n in pieces.items():
            frequency[number[piece]] = n
    sha = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]
    none = np.zeros(0, np.int64)
    return PieceIdf(
        none.astype(np.uint64), none.astype(np.int32), np.zeros(1, np.int64), len(frequency),
        f"{Path(path).stem}({sha})", (frequency, documents),
    )  # fmt: skip


def _hash(text: str) -> int:
    whole = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8).digest(), "little")


def _distinct(texts: list[list[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the distinct pieces of each text end to end, and how many each has."""
    flat = np.concatenate([np.array(t, np.int64) for t in texts])
    text = np.repeat(np.arange(len(texts), dtype=np.int64), [len(t) for t in texts])
    codes = np.unique((text << 32) | flat)
    return (codes & 0xFFFFFFFF).astype(np.int32), np.bincount(codes >> 32, minlength=len(texts))


def _take(
    flat: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], index: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the runs at ``index`` end to end, with their bounds."""
    counts = np.diff(offsets)[index]
    bounds = np.zeros(len(index) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    return flat[np.repeat(offsets[:-1][index], counts) + within], bounds
