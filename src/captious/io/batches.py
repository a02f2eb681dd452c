"""Captions in batches: files, folders, globs, tars and addresses of any length, read once through.

A batch is a small caption set. Rows of one image that stand side by side stay in one batch. A row
that cannot be judged (no caption, half a line of JSON) is in the batch with the reason, so that one
bad row in a million does not stop the other 999,999.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from captious.errors import InputError
from captious.io.batch_formats import COLUMNS, KINDS, kind_of, tables
from captious.io.load import Album
from captious.io.references import References
from captious.reading import is_address, reading
from captious.types import CaptionSet

ROWS = 20_000
"""Rows of a batch: some 100 MB of working memory with five references each."""

MANIFEST = "captious.json"
"""What a folder of scores holds; it has no rows."""


@dataclass(frozen=True)
class Batch:
    """Rows to be judged.

    Attributes:
        samples: the captions.
        problems: row -> why it cannot be judged; its caption is empty.
    """

    samples: CaptionSet
    problems: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.samples)

    def part(self, start: int, stop: int) -> Batch:
        """Return some rows."""
        samples = self.samples.take(np.arange(start, stop)).compact()
        problems = {r - start: w for r, w in self.problems.items() if start <= r < stop}
        return Batch(samples, problems)

    def sound(self) -> CaptionSet:
        """Return the rows that can be judged."""
        if not self.problems:
            return self.samples
        return self.samples.take([i for i in range(len(self)) if i not in self.problems])


def shards(place: str | Path) -> list[str]:
    """Return the files that a file, a folder, a glob or an address names, in order.

    Raises:
        InputError: there is none, or one has an ending that cannot be read in batches.
    """
    text = str(place)
    if is_address(text):
        listed = _addresses(text) if glob.has_magic(text) else [text]
    elif Path(text).is_dir():
        inside = sorted(p for p in Path(text).iterdir() if p.name != MANIFEST)
        listed = [str(p) for p in inside if kind_of(str(p)) in KINDS]
    elif glob.has_magic(text) and not Path(text).exists():
        listed = sorted(glob.glob(text, recursive=True))
    else:
        listed = [text]
    if not listed:
        raise InputError(f"{place}: holds no caption files ({', '.join('.' + k for k in KINDS)})")
    wrong = [f for f in listed if kind_of(f) not in KINDS]
    if wrong:
        raise InputError(
            [f"{f}: only {', '.join('.' + k for k in KINDS)} can be read in batches" for f in wrong]
        )
    return listed


def _addresses(text: str) -> list[str]:
    import fsspec

    scheme = text.partition("://")[0]
    with reading(text, "an address that fsspec opens"):
        return sorted(f"{scheme}://{p.lstrip('/')}" if scheme != "file" else p
                      for p in fsspec.filesystem(scheme).glob(text))  # fmt: skip


class Reader:
    """Reads batches from a list of files; can be read again from the start.

    Args:
        files: as :func:`shards` lists them, each with the name of its system.
        references: those that stand in files of their own (held in memory).
        images: folder of the photographs.
        rows: about how many rows a batch has.
    """

    def __init__(
        self,
        files: Iterable[tuple[str, str]],
        references: References | None = None,
        images: Path | None = None,
        rows: int = ROWS,
    ) -> None:
        self.files = list(files)
        self.rows = max(1, rows)
        self._references = references
        self._folder = None if images is None else Album.of(images)

    def __iter__(self) -> Iterator[Batch]:
        many = len(self.files) > 1
        for path, system in self.files:
            prefix = f"{Path(path).name}:" if many else ""
            for table in _cut(tables(path, self.rows, prefix), self.rows):
                yield self._batch(table, system)

    def _batch(self, table: pa.Table, system: str) -> Batch:
        ids, images = (table.column(name).to_pylist() for name in ("id", "image"))
        if self._references is not None:
            listed = self._joined(ids, images, table.column("references"))
            table = table.set_column(table.column_names.index("references"), "references", listed)
        if self._folder is not None:
            named = pa.array(self._photographs(ids, images), pa.string())
            table = table.set_column(table.column_names.index("image"), "image", named)
        return batch_of(table, system)

    def _joined(self, ids: Any, images: Any, own: Any) -> Any:
        pool = self._references
        if pool is None or pool.by_row is not None:
            return own
        held = pool.by_id
        listed = [held.get(str(i)) or held.get(str(m)) for i, m in zip(ids, images, strict=True)]
        return pa.array(listed, COLUMNS["references"])

    def _photographs(self, ids: Any, images: Any) -> Any:
        folder = self._folder
        out = list(images)
        for row, (name, image) in enumerate(zip(ids, images, strict=True)):
            place = (
                None if folder is None else folder.find(str(image if image is not None else name))
            )
            out[row] = None if place is None else str(place)
        return out


def batch_of(table: pa.Table, system: str = "") -> Batch:
    """Return a batch from rows as :func:`captious.io.batch_formats.checked` gives them."""
    column = {name: table.column(name).combine_chunks() for name in table.column_names}
    samples = CaptionSet.of_arrow(
        column["caption"],
        column["references"],
        ids=column["id"].to_pylist(),
        images=column["image"].to_pylist(),
        systems=column["system"].fill_null(system).to_pylist(),
    )
    samples = _with_evidence(samples, column["objects"], column["photograph"])
    return Batch(samples, _told(column["problem"]))


def _with_evidence(samples: CaptionSet, objects: pa.Array, photographs: pa.Array) -> CaptionSet:
    if objects.null_count < len(objects):
        held = zip(samples.image_keys.tolist(), objects.to_pylist(), strict=True)
        samples = samples.with_labels({str(i): tuple(o) for i, o in held if o is not None})
    if photographs.null_count < len(photographs):
        held = zip(samples.images.tolist(), photographs.to_pylist(), strict=True)
        pictures = {str(i): p for i, p in held if p is not None}
        samples = replace(samples, evidence=replace(samples.evidence, photographs=pictures))
    return samples


def _told(problem: pa.Array) -> dict[int, str]:
    if problem.null_count == len(problem):
        return {}
    return {row: why for row, why in enumerate(problem.to_pylist()) if why is not None}


def _cut(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut where the image changes: neighbours of one image stay together, up to twice the size."""
    rest: pa.Table | None = None
    for table in tables:
        table = table if rest is None else pa.concat_tables([rest, table])
        rest = None
        while table.num_rows > rows:
            image = pc.coalesce(table.column("image"), table.column("id")).slice(0, 2 * rows)
            near = image.slice(rows - 1).to_pylist()
            same = next((i for i, name in enumerate(near) if name != near[0]), None)
            if same is None and table.num_rows < 2 * rows:
                break  # the image may go on in what comes next
            at = rows - 1 + (len(near) if same is None else same)
            yield table.slice(0, at)
            table = table.slice(at)
        rest = table
    if rest is not None and rest.num_rows:
        yield rest
