"""In how many documents (images) does an n-gram occur? Counted, merged, saved, looked up."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import assets
from captious.errors import InputError, UsageError
from captious.reading import read_arrays, reading
from captious.text import gram_kernels, ngrams
from captious.text.machine_code import side_by_side
from captious.text.ngrams import Hashes
from captious.types import CaptionSet, TextPool

_FORMAT = 1
_ORDERS = range(1, ngrams.ORDERS + 1)

Counts = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class DocumentFrequency:
    """Frequencies per order and the number of documents they were counted in.

    Attributes:
        grams: per order, n-gram hashes (any order).
        counts: per order, in how many documents each occurs.
        documents: number of documents.
        label: how the signature names it, ``corpus(images=5000)`` or ``coco-val``.
        tokenizer: of the text it was counted on.
        stem: whether the words were stemmed.
        members: for merging: the key of each document and its n-grams, where known.
    """

    grams: tuple[Hashes, ...]
    counts: tuple[Counts, ...]
    documents: int
    label: str
    tokenizer: str
    stem: bool
    members: _Members | None = field(default=None, repr=False)

    @cached_property
    def _sorted(self) -> tuple[tuple[Hashes, Counts], ...]:
        out = []
        for names, counts in zip(self.grams, self.counts, strict=True):
            if len(names) > 1 and not bool((names[1:] > names[:-1]).all()):
                order = np.argsort(names)
                names, counts = names[order], counts[order]
            out.append((names, counts))
        return tuple(out)

    def __getstate__(self) -> dict[str, Any]:
        """Other processes get the fields, not what was derived from them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def lookup(self, order: int, names: Hashes) -> Counts:
        """Return the frequencies of n-grams of one order (1-based); an unseen one has 0."""
        known, counts = self._sorted[order - 1]
        if not len(known):
            return np.zeros(len(names), np.uint32)
        at = np.minimum(np.searchsorted(known, names), len(known) - 1)
        return np.where(known[at] == names, counts[at], 0)

    def idf(self, pool: TextPool, order: int) -> npt.NDArray[np.float64]:
        """Return ln N - ln max(1, df) for every n-gram of a pool."""
        table = ngrams.table(pool, self.tokenizer, self.stem)
        members = self.members
        if members is not None and members.pool is pool and members.frequencies is None:
            df = self.counts[order - 1]  # counted on this very pool: same columns
        else:
            df = self.lookup(order, table.grams[order - 1])
        return np.log(float(self.documents)) - np.log(np.maximum(df, 1.0))

    def gram_frequencies(self, pool: TextPool, order: int) -> Counts:
        """Return the frequency of every n-gram of ``ngrams.compiled``, text by text."""
        members = self.members
        if members is not None and members.pool is pool and members.frequencies is not None:
            return members.frequencies[order - 1]
        grams = ngrams.compiled(pool, self.tokenizer, self.stem)
        if grams is None:
            raise RuntimeError("this is for pools whose n-grams were counted by compiled code")
        known, counts = self.grams[order - 1], self.counts[order - 1]
        return gram_kernels.looked_up(known, self._slots(order), counts, grams[order - 1].names)

    @cached_property
    def idf_by_frequency(self) -> npt.NDArray[np.float64]:
        """The weight, ln N - ln max(1, df), of every frequency that occurs."""
        most = max((int(counts.max(initial=0)) for counts in self.counts), default=0)
        df = np.arange(most + 1, dtype=np.float64)
        return np.log(float(self.documents)) - np.log(np.maximum(df, 1.0))

    def _slots(self, order: int) -> npt.NDArray[np.int32]:
        """Return a table of slots over the n-grams of one order; made once."""
        made: dict[int, Any] = self.__dict__.setdefault("_slots_by_order", {})
        if order not in made:
            made[order] = gram_kernels.spread(self.grams[order - 1])
        return made[order]

    @property
    def fingerprint(self) -> str:
        """Short hash of the content, for signatures."""
        return self.digest[:8]

    @cached_property
    def digest(self) -> str:
        """Hash of the content."""
        digest = hashlib.sha256(f"{self.documents}".encode())
        for names, counts in self._sorted:
            seen = counts > 1
            digest.update(names[seen].tobytes() + counts[seen].astype("<i8").tobytes())
        return digest.hexdigest()

    def sealed(self) -> DocumentFrequency:
        """Return the counts alone, in order, ready to be added to those of other documents."""
        grams, counts = zip(*self._sorted, strict=True)
        return replace(self, grams=grams, counts=counts, members=None)

    def frequent(self) -> DocumentFrequency:
        """Return the counts of n-grams that more than one document holds; the others weigh 1."""
        kept = [(names[counts > 1], counts[counts > 1]) for names, counts in self._sorted]
        grams, counts = zip(*kept, strict=True)
        return replace(self, grams=grams, counts=counts, members=None)

    def save(self, path: Path) -> None:
        """Write the table; n-grams of frequency 1 are left out (unseen counts the same)."""
        arrays: dict[str, Any] = {}
        for n, (names, counts) in enumerate(self._sorted, 1):
            seen = counts > 1
            arrays[f"grams{n}"] = names[seen]
            arrays[f"counts{n}"] = counts[seen].astype(np.uint32)
        facts = {
            "format": _FORMAT,
            "documents": self.documents,
            "tokenizer": self.tokenizer,
            "stem": self.stem,
        }
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        part = path.with_name(path.name + ".part")
        with open(part, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(part, path)


@dataclass(frozen=True, eq=False)
class _Members:
    """Which references belong to which document; enough to count again after a merge.

    Attributes:
        keys: of the documents.
        presence: after a merge, per order, the n-grams and which document holds them.
        pool: before it, the texts;
        references: those that are references,
        document: and which document each belongs to.
        frequencies: per order, in how many documents each n-gram of the pool occurs, where
            compiled code has counted.
    """

    keys: npt.NDArray[np.object_]
    presence: tuple[tuple[Hashes, Any], ...] | None = None
    pool: TextPool | None = None
    references: npt.NDArray[np.int32] | None = None
    document: npt.NDArray[np.int64] | None = None
    frequencies: tuple[Counts, ...] | None = None

    def matrices(self, tokenizer: str, stem: bool) -> tuple[tuple[Hashes, Any], ...]:
        """Return per order the n-grams and a (documents, grams) matrix of occurrence."""
        if self.presence is not None or self.pool is None or self.document is None:
            return self.presence or ()
        from scipy import sparse

        table = ngrams.table(self.pool, tokenizer, stem)
        incidence = sparse.csr_matrix(
            (np.ones(len(self.document), np.int32), (self.document, self.references)),
            shape=(len(self.keys), len(self.pool) + 1),
        )
        return tuple(
            (names, _presence(incidence, counts))
            for names, counts in zip(table.grams, table.counts, strict=True)
        )


def count(samples: CaptionSet, tokenizer: str, stem: bool, by: str) -> DocumentFrequency:
    """Count over the references of ``samples``.

    Args:
        samples: whose references are the documents.
        tokenizer: name of the tokeniser.
        stem: whether words are stemmed first.
        by: ``image`` (all references of one image are one document, however many captions are
            judged) or ``row`` (every judged caption counts its references again).
    """
    if by == "image":
        first, document = np.unique(samples.image_codes, return_index=True, return_inverse=True)[1:]
        keys = samples.image_keys[first]
        document = document[samples.reference_rows]
    elif by == "row":
        keys = np.array(
            [f"{s}\0{i}" for s, i in zip(samples.systems, samples.ids, strict=True)], object
        )
        document = samples.reference_rows
    else:
        raise UsageError(f"df can count by 'image' or by 'row', not by {by!r}")
    label = f"corpus({by}s={len(keys)})"
    held = _Members(keys, None, samples.pool, samples.reference, document)
    compiled = ngrams.compiled(samples.pool, tokenizer, stem)
    if compiled is not None:
        order = np.argsort(document, kind="stable")
        references, of = samples.reference[order], document[order]
        counted = side_by_side(
            lambda g: gram_kernels.documents(g, references, of), compiled, len(samples.pool)
        )
        grams, found_in, frequencies = zip(*counted, strict=True)
        held = replace(held, frequencies=frequencies)
        return DocumentFrequency(grams, found_in, len(keys), label, tokenizer, stem, held)
    matrices = held.matrices(tokenizer, stem)
    counts = tuple(
        np.bincount(m.indices, minlength=m.shape[1]).astype(np.uint32)[: len(names)]
        for names, m in matrices
    )
    names = tuple(names for names, _ in matrices)
    return DocumentFrequency(names, counts, len(keys), label, tokenizer, stem, held)


def merge(a: DocumentFrequency, b: DocumentFrequency, by: str) -> DocumentFrequency:
    """Join two countings; a document that is in both is counted once, with all its n-grams."""
    if a.members is None and b.members is None:
        return _added(a, b, by)
    if a.members is None or b.members is None:
        raise UsageError("counts that are sealed merge with sealed counts only")
    from scipy import sparse

    keys, where = np.unique(
        np.concatenate([a.members.keys, b.members.keys]).astype(str), return_inverse=True
    )
    gather = sparse.csr_matrix(
        (np.ones(len(where), np.int32), (where, np.arange(len(where)))),
        shape=(len(keys), len(where)),
    )
    left, right = (x.members.matrices(a.tokenizer, a.stem) for x in (a, b) if x.members)
    grams, counts, presence = [], [], []
    for (ga, pa_), (gb, pb) in zip(left, right, strict=True):
        names = np.union1d(ga, gb)
        both = sparse.vstack([_recode(pa_, ga, names), _recode(pb, gb, names)]).tocsr()
        joined = _presence(gather, both)
        grams.append(names)
        presence.append((names, joined))
        counts.append(np.bincount(joined.indices, minlength=len(names)).astype(np.uint32))
    return DocumentFrequency(
        tuple(grams),
        tuple(counts),
        len(keys),
        f"corpus({by}s={len(keys)})",
        a.tokenizer,
        a.stem,
        _Members(keys.astype(object), tuple(presence)),
    )


def _added(a: DocumentFrequency, b: DocumentFrequency, by: str) -> DocumentFrequency:
    """Add the counts of disjoint documents."""
    grams, counts = [], []
    kernels = gram_kernels.kernels(len(a.grams[-1]) + len(b.grams[-1]) >> 3)
    for left, right in zip(a._sorted, b._sorted, strict=True):
        if kernels is not None:
            names, total = gram_kernels.united(*left, *right)
        else:
            names = np.union1d(left[0], right[0])
            total = np.zeros(len(names), np.uint32)
            for part, held in (left, right):
                total[np.searchsorted(names, part)] += held
        grams.append(names)
        counts.append(total)
    documents = a.documents + b.documents
    label = f"corpus({by}s={documents})"
    return DocumentFrequency(tuple(grams), tuple(counts), documents, label, a.tokenizer, a.stem)


def load(name: str, tokenizer: str, stem: bool) -> DocumentFrequency:
    """Open a saved table by path, or a built-in one by name (``coco-val``)."""
    path = assets.resolve(f"df-{name}") if f"df-{name}" in assets.known() else Path(name)
    if not path.exists():
        kind = InputError if path.suffix or path.name != name else UsageError  # a file, or a name
        raise kind(
            f"df={name!r} is neither 'corpus', nor a built-in table ('coco-val'), nor a file. "
            "`captious df build` makes one from your references."
        )
    facts_of_file = path.stat()
    return _opened(path, name, tokenizer, stem, (facts_of_file.st_size, facts_of_file.st_mtime_ns))


@lru_cache(maxsize=8)
def _opened(
    path: Path, name: str, tokenizer: str, stem: bool, state: tuple[int, int]
) -> DocumentFrequency:
    """Read a table; ``state`` is its size and time, so that a changed file is read again."""
    with reading(path, "a document-frequency table of captious", "build it again"):
        file = read_arrays(path)
        facts = json.loads(bytes(file["facts"]))
        grams = tuple(file[f"grams{n}"].astype(np.uint64) for n in _ORDERS)
        counts = tuple(file[f"counts{n}"].astype(np.uint32) for n in _ORDERS)
        if any(g.ndim != 1 or g.shape != c.shape for g, c in zip(grams, counts, strict=True)):
            raise InputError(f"{path}: its arrays do not fit each other; build it again")
        if not isinstance(facts["documents"], int) or not {"tokenizer", "stem"} <= set(facts):
            raise InputError(f"{path}: it does not say what was counted; build it again")
    if facts.get("format") != _FORMAT:
        raise InputError(f"{path}: made by another version of captious; build it again")
    for what, have, want in (
        ("tokenizer", facts["tokenizer"], tokenizer),
        ("stem", facts["stem"], stem),
    ):
        if have != want:
            raise UsageError(
                f"the table {path.name} was counted with {what}={have!r}, "
                f"but the metric uses {what}={want!r}"
            )
    return DocumentFrequency(
        grams, counts, int(facts["documents"]), Path(name).stem, tokenizer, stem
    )


def _presence(rows: Any, matrix: Any) -> Any:
    """Return which column occurs in which group of rows."""
    out = (rows @ matrix).tocsr()
    out.data = np.ones(len(out.data), np.int8)
    return out


def _recode(matrix: Any, old: Hashes, new: Hashes) -> Any:
    """Move the columns named ``old`` to their places among the sorted names ``new``."""
    from scipy import sparse

    at = np.searchsorted(new, old)
    return sparse.csr_matrix(
        (matrix.data, at[matrix.indices] if len(old) else matrix.indices, matrix.indptr),
        shape=(matrix.shape[0], max(len(new), 1)),
    )
