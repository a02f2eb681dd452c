"""METEOR's English paraphrase table as a memory-mapped index.

The table pairs 430,639 phrases with 5,274,084 paraphrases of up to seven words. As text it fills
272 MB and needs about a gigabyte in a Java heap. Here it becomes a trie over word numbers plus one
array of targets: 52 MB on disk, of which a run touches only the pages it needs. The
index is built once per table into the cache; its hash is checked when it is opened, once for as
long as size and time of its files stay the same.

A phrase is known by its *node*: the trie maps (node, next word) to a node, and node 0 is the
empty phrase. The probabilities of the table are not kept: METEOR does not use them.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from captious import assets, settings
from captious.errors import InputError
from captious.progress import Progress
from captious.reading import Budget, opened, reading, regular

LONGEST: Final = 7
_FORMAT: Final = 2
_ARRAYS: Final = ("labels", "children", "sources", "bounds", "targets")
_CHUNK: Final = 1 << 23
_BLOCK: Final = 1 << 17  # pairs that are sifted at once
_FEW: Final = 50  # below this share of a table, searching is cheaper than marking
_SHIFT: Final = 20  # while building, an edge is (node << 20 | word)
_WORD: Final = (1 << _SHIFT) - 1

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Paraphrases:
    """The index, opened.

    Attributes:
        words: the words of all phrases; a word's number is its place.
        labels: the word on every edge of the trie; edge ``e`` leads to node ``e + 1``.
        children: edges out of node ``v`` are ``children[v]:children[v + 1]``, sorted by word.
        sources: nodes of the phrases that have paraphrases, sorted.
        bounds: targets of ``sources[s]`` are ``targets[bounds[s]:bounds[s + 1]]``.
        targets: nodes of the paraphrases, in the order of the table.
        fingerprint: short sha256 of the table that the index was made from.
    """

    words: list[str]
    labels: Int32s
    children: Int32s
    sources: Int32s
    bounds: Int32s
    targets: Int32s
    fingerprint: str

    @classmethod
    def open(cls, path: Path | str | None = None) -> Paraphrases:
        """Open the index of an installed pycocoevalcap's table, or of the table at ``path``.

        The first call builds it (under a minute) into the cache directory of the settings.
        """
        table = locate(path)
        digest = assets.remembered_digest(table)
        home = settings.get().cache_dir / "meteor" / f"paraphrases-{_FORMAT}-{digest[:16]}"
        if not (home / "index.json").is_file():
            _build(table, home)
        return _load(home, digest[:12])

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def pairs_among(self, nodes: Int64s) -> tuple[Int32s, Int32s, Int32s]:
        """Return (phrase, paraphrase, rank) for all pairs with both sides among ``nodes``.

        ``nodes`` is sorted and free of repeats; results are places in it. The rank orders the
        paraphrases of one phrase as the table does.
        """
        size = len(self.children)
        among_nodes, row = Places(nodes, size), Places(self.sources, size)(nodes)
        phrases = np.flatnonzero(row >= 0)
        source = row[phrases]
        count = self.bounds[source + 1] - self.bounds[source]
        # Common words have thousands of paraphrases, few of which occur: sift block by block.
        blocks = np.split(phrases, np.flatnonzero(np.diff(np.cumsum(count) // _BLOCK)) + 1)
        kept_blocks: list[tuple[Int32s, Int32s, Int32s]] = []
        for block in blocks:
            begin = self.bounds[row[block]]
            count = self.bounds[row[block] + 1] - begin
            rank = np.arange(count.sum(), dtype=np.int32)
            rank -= np.repeat(np.cumsum(count, dtype=np.int32) - count, count)
            target = among_nodes(self.targets[np.repeat(begin, count) + rank])
            phrase = np.repeat(block.astype(np.int32), count)
            keep = target >= 0
            kept_blocks.append((phrase[keep], target[keep], rank[keep]))
        phrase, target, rank = (np.concatenate(column) for column in zip(*kept_blocks, strict=True))
        return phrase, target, rank


class Places:
    """Where values stand among chosen ones, sorted and below ``size``; -1 for others.

    A few values are searched for; with many, all of them have a place in one table.
    """

    def __init__(self, chosen: npt.NDArray[Any], size: int) -> None:
        self.chosen, self.size = chosen, size

    @cached_property
    def _table(self) -> Int32s:
        table = np.full(self.size, -1, np.int32)
        table[self.chosen] = np.arange(len(self.chosen))
        return table

    def __call__(self, values: npt.NDArray[Any]) -> Int32s:
        """Return the place of each value."""
        if len(values) * _FEW >= self.size:
            return np.asarray(self._table[values])
        place = np.searchsorted(self.chosen, values)
        found = place < len(self.chosen)
        found[found] = self.chosen[place[found]] == values[found]
        return np.where(found, place, -1).astype(np.int32)


def distinct(values: npt.NDArray[Any], size: int) -> Int64s:
    """Return the distinct values below ``size``, sorted."""
    if len(values) * _FEW < size:
        return np.unique(values).astype(np.int64)
    seen = np.zeros(size, bool)
    seen[values] = True
    return np.flatnonzero(seen)


def locate(path: Path | str | None = None) -> Path:
    """Find the table: the installed one, the file at ``path``, or the one in METEOR's folder."""
    table_path = None if path is None else Path(path)
    if table_path is not None and table_path.suffix == ".jar":
        table_path = table_path.parent
    if table_path is not None and table_path.is_dir():
        table_path = table_path / "data" / "paraphrase-en.gz"
    return assets.resolve("meteor-paraphrases", table_path, wanted_by="meteor(paraphrase=True)")


@lru_cache(maxsize=2)
def _load(home: Path, fingerprint: str) -> Paraphrases:
    facts = json.loads((home / "index.json").read_text())
    for name, digest in facts["sha256"].items():
        if assets.remembered_digest(home / name) != digest:
            raise InputError(f"{home / name} is damaged: delete {home}, it will be rebuilt.")
    arrays = {name: np.load(home / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
    words = (home / "words.txt").read_text(encoding="utf-8").split("\n")
    return Paraphrases(words=words, fingerprint=fingerprint, **arrays)


def _build(table: Path, home: Path) -> None:
    """Convert the table into a folder that appears under its name only when it is whole."""
    home.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".building-", dir=home.parent))
    scratch.chmod(0o755)
    try:
        with reading(table, "METEOR's paraphrase table", "install pycocoevalcap again"):
            words, phrases, lengths, runs = _read(table)
        edges, nodes = _trie(phrases, lengths)
        del phrases, lengths
        source, target = np.repeat(nodes[: len(runs)], runs), nodes[len(runs) :]
        order = np.argsort(source, kind="stable")
        sources, counts = np.unique(source[order], return_counts=True)
        arrays: dict[str, npt.NDArray[Any]] = {
            "labels": (edges & _WORD).astype(np.int32),
            "children": np.searchsorted(edges >> _SHIFT, np.arange(len(edges) + 2)),
            "sources": sources,
            "bounds": np.concatenate([[0], np.cumsum(counts)]),
            "targets": target[order],
        }
        for name, array in arrays.items():
            np.save(scratch / f"{name}.npy", array.astype(np.int32, copy=False))
        (scratch / "words.txt").write_text("\n".join(words), encoding="utf-8")
        digests = {p.name: assets.digest(p) for p in sorted(scratch.iterdir())}
        facts = {"table": assets.digest(table), "pairs": len(target), "sha256": digests}
        (scratch / "index.json").write_text(json.dumps(facts, indent=1))
        try:
            os.rename(scratch, home)
        except OSError:  # another process was faster, or an unfinished folder is in the way
            if not (home / "index.json").is_file():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _lines(table: Path) -> Iterator[tuple[pa.Array, int]]:
    """Yield whole entries of the table, line by line, with the compressed bytes read so far."""
    rest = b""
    budget = Budget(table, regular(table))
    with opened(table) as raw, gzip.open(raw) as text:
        while block := text.read(_CHUNK):
            budget.spend(len(block))
            if len(rest) >= _CHUNK:
                raise InputError(f"{table}: an entry of more than {_CHUNK >> 20} MiB")
            lines = pc.split_pattern(pa.array([rest + block], pa.large_binary()), b"\n").flatten()
            whole = (len(lines) - 1) // 3 * 3
            rest = b"\n".join(lines.slice(whole).to_pylist())
            yield lines.slice(0, whole), raw.tell()
    if rest.strip():
        raise InputError(f"{table} ends in the middle of an entry: it must have three lines each.")


def _read(table: Path) -> tuple[list[str], Int32s, Int64s, Int64s]:
    """Return the vocabulary, all phrases as word numbers, their lengths, and run lengths.

    The phrases come first, one for each run of entries that share it, then all paraphrases.
    """
    numbers: dict[bytes, int] = {}
    ids: tuple[list[Int32s], list[Int32s]] = ([], [])
    lengths: tuple[list[Int64s], list[Int64s]] = ([], [])
    runs: list[Int64s] = []
    with Progress("building the METEOR paraphrase index", table.stat().st_size, "bytes") as bar:
        for lines, position in _lines(table):
            number = np.arange(len(lines) // 3) * 3
            grouped = pc.run_end_encode(lines.take(pa.array(number + 1)), run_end_type=pa.int64())
            runs.append(np.diff(grouped.run_ends.to_numpy(), prepend=0))
            for side, phrases in enumerate((grouped.values, lines.take(pa.array(number + 2)))):
                parts = pc.split_pattern(phrases, b" ")
                lengths[side].append(np.diff(parts.offsets.to_numpy()))
                coded = parts.flatten().dictionary_encode()
                known = [numbers.setdefault(w, len(numbers)) for w in coded.dictionary.to_pylist()]
                ids[side].append(np.array(known, np.int32)[coded.indices.to_numpy()])
            bar.advance(position - bar.done)
    if not runs or b"" in numbers or len(numbers) > _WORD:
        raise InputError(f"{table} is not METEOR's paraphrase table.")
    words = [word.decode() for word in numbers]
    phrases = np.concatenate(ids[0] + ids[1])
    return words, phrases, np.concatenate(lengths[0] + lengths[1]), np.concatenate(runs)


def _trie(phrases: Int32s, lengths: Int64s) -> tuple[Int64s, Int32s]:
    """Return the sorted edges of the trie and the node of every phrase.

    Nodes are numbered level by level, in the order of their edges.
    """
    starts = np.cumsum(lengths) - lengths
    node = np.zeros(len(lengths), np.int64)
    levels: list[Int64s] = []
    first = 1
    for depth in range(int(lengths.max())):
        live = np.flatnonzero(lengths > depth)
        edge = node[live] << _SHIFT | phrases[starts[live] + depth]
        edges, place = np.unique(edge, return_inverse=True)
        node[live] = first + place
        levels.append(edges)
        first += len(edges)
    # Nodes of a level have smaller numbers than those of the next, so all edges are in order.
    return np.concatenate(levels), node.astype(np.int32)
