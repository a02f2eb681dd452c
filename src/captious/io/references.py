"""References by id or by position, and how ids of captions, references and images meet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from captious.calling import key, text_problem
from captious.errors import InputError
from captious.io import sources
from captious.io.sources import Source

_ENDINGS = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".txt", ".xml")


def paths_in(value: Any) -> list[Path] | None:
    """Return the paths that a value holds, or None where it holds data.

    A text is a path. Several texts are paths if each ends like a file (``a.json``) and none has a
    line break; otherwise they are captions.

    Example:
        >>> [p.name for p in paths_in(["a.json", "b.json"])]
        ['a.json', 'b.json']
        >>> paths_in(["a dog", "a cat"]) is None
        True
    """
    if isinstance(value, str | Path):
        return [Path(value)]
    if not isinstance(value, Sequence) or not value:
        return None
    if all(isinstance(v, Path) for v in value):
        return list(value)
    if all(isinstance(v, str | Path) and _like_a_file(str(v)) for v in value):
        return [Path(v) for v in value]
    return None


def _like_a_file(text: str) -> bool:
    name = text.lower().removesuffix(".gz")
    return name.endswith(_ENDINGS) and "\n" not in text and len(text) < 4096


def source_of(value: Any, what: str) -> Source:
    """Read a file, or take rows that were handed over in Python."""
    if isinstance(value, Path):
        return sources.read(value)
    value = _rows(value, what)
    if value is None or (hasattr(value, "__len__") and len(value) == 0):
        raise InputError(f"{what}: nothing was given")
    if not isinstance(value, Iterable):
        raise InputError(f"{what}: expected a list, a dictionary or a path, not {value!r}")
    if isinstance(value, Mapping):
        return sources.of_json(value, what)
    source = sources.of_json(list(value), what)
    source.indexed = True
    return source


def columns_of(rows: Any) -> Source | None:
    """Return the columns of a frame, an Arrow table, a dataset or records; None of all else.

    Raises:
        InputError: no column holds captions.
    """
    framed = hasattr(rows, "columns") or hasattr(rows, "column_names")
    records = isinstance(rows, Sequence) and len(rows) > 0 and isinstance(rows[0], Mapping)
    if not framed and not records:
        return None
    source = source_of(rows, "captions")
    if source.caption is None:
        raise InputError("captions: no column holds captions; call it 'caption'")
    if source.image is source.id:  # one column, image_id: a name and no picture
        source.image = None
    return source


def _rows(value: Any, what: str) -> Any:
    """Return the rows of a frame, an Arrow table or a dataset as records; all else as it is."""
    if isinstance(value, Mapping) and value and all(hasattr(v, "features") for v in value.values()):
        raise InputError(f"{what}: a dataset of several splits; choose one of {list(value)}")
    if hasattr(value, "to_pylist") and hasattr(value, "schema"):  # Arrow
        return value.to_pylist()
    if hasattr(value, "to_dicts") and hasattr(value, "columns"):  # polars
        return value.to_dicts()
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # pandas
        value = value.to_dict("records")
        for record in value:
            record.update(
                {k: v.tolist() for k, v in record.items() if hasattr(v, "tolist") and
                 getattr(v, "ndim", 0) == 1}
            )  # fmt: skip
    return value


def examples(names: Iterable[str]) -> str:
    """Return a few of the names, quoted."""
    listed = list(islice(names, 4))
    return ", ".join(map(repr, listed[:3])) + (", ..." if len(listed) > 3 else "") or "none"


_NUMBERED = re.compile(r"(?:.*[_-])?0*(\d{1,18})(?:\.\w+)?", re.DOTALL)


class ByNumber:
    """Finds ``COCO_val2014_000000000042.jpg`` for the id 42, and the other way round.

    Example:
        >>> files = ByNumber(["COCO_val2014_000000000042.jpg", "a_1.jpg", "b_1.jpg"])
        >>> files.get("42"), files.get("1"), files.get("dog_42")
        ('COCO_val2014_000000000042.jpg', None, None)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[int, list[str]] = {}
        for name in names:
            if (number := _NUMBERED.fullmatch(name)) is not None:
                self._names.setdefault(int(number[1]), []).append(name)

    def get(self, name: str) -> str | None:
        """Return the only name of the same number; one of the two must be a bare number."""
        number = _NUMBERED.fullmatch(name)
        same = [] if number is None else self._names.get(int(number[1]), [])
        if len(same) == 1 and any(Path(n).stem.isdigit() for n in (name, same[0])):
            return same[0]
        return None


class References:
    """References by id (or image), or by position."""

    what = "references"

    def __init__(self, references: Any, problems: list[str]) -> None:
        self.problems = problems
        paths = paths_in(references)
        sources = [source_of(g, "references") for g in paths or [references]]
        self.source_names: dict[str, str] = {}
        for part in sources:
            self.source_names |= part.files_of
        self.path = sources[0].path
        self.by_id: dict[str, list[Any]] = {}
        self.by_row: list[Any] | None = None
        self.used: set[str] = set()
        self._by_number: ByNumber | None = None
        self._matched_by_number = 0
        if all(p.parallel for p in sources):
            self._by_position(sources)
        else:
            self._by_name(sources)

    def _by_position(self, sources: list[Source]) -> None:
        streams = [p.references if p.references is not None else p.caption or [] for p in sources]
        if len(sources) == 1:
            self.by_row = streams[0]
            return
        if len({len(s) for s in streams}) > 1:
            sizes = ", ".join(f"{p.path}: {len(s)}" for p, s in zip(sources, streams, strict=True))
            self.problems.append(f"the reference files have different numbers of lines ({sizes})")
        self.by_row = [list(r) for r in zip(*streams, strict=False)]

    def _by_name(self, sources: list[Source]) -> None:
        for part in sources:
            texts = part.references if part.references is not None else part.caption
            names = part.id if part.id is not None else part.image
            if names is None or texts is None:
                self.problems.append(f"{part.path}: references need an id (or image_id) each")
                continue
            for row, (name, text) in enumerate(zip(names, texts, strict=True)):
                listed = (
                    [text] if isinstance(text, str) or not isinstance(text, list | tuple) else text
                )
                for i, entry in enumerate(listed, 1):
                    if (wrong := text_problem(entry)) is not None:
                        self.problems.append(f"{part.where(row)}: reference {i} {wrong}")
                self.by_id.setdefault(key(name), []).extend(listed)
                if part.image is not None and part.image is not part.id:
                    self.by_id.setdefault(key(part.image[row]), self.by_id[key(name)])

    def for_rows(self, part: Source) -> list[Any]:
        """Return the references of every row of a caption file."""
        size = len(part)
        if self.by_row is not None:
            rows = self.by_row
            if len(rows) != size:
                hint = ""
                if rows and all(isinstance(r, list | tuple) and len(r) == size for r in rows):
                    hint = (
                        f"; it looks transposed ({len(rows)} streams of {size} texts): "
                        "give one list of references per caption, e.g. list(zip(*references))"
                    )
                self.problems.append(
                    f"{part.path} has {size} captions, but {self.path} has {len(rows)} "
                    f"lists of references{hint}"
                )
                return [None] * size
            return rows
        return [None if k is None else self.by_id[k] for k in self._keys(part)]

    def lacking(self, part: Source) -> dict[int, str]:
        """Return the rows that have no references, with their id."""
        if self.by_row is not None:
            return {}
        return {
            row: self._names(part, row)[0] for row, k in enumerate(self._keys(part)) if k is None
        }

    def examples(self) -> str:
        """Return a few ids that have references."""
        return examples(self.by_id)

    def _names(self, part: Source, row: int) -> list[str]:
        """Return the names by which a row may be known."""
        named = [c[row] for c in (part.id, part.image) if c is not None and c[row] is not None]
        return [key(n) for n in named] or [str(row)]

    def _keys(self, part: Source) -> list[str | None]:
        """Return for every row the id under which its references stand."""
        out: list[str | None] = []
        for row in range(len(part)):
            names = self._names(part, row)
            known = next((n for n in names if n in self.by_id), None)
            if known is None:
                known = self._of_number(names)
            if known is not None:
                self.used.update((known, *names))
            out.append(known)
        return out

    def _of_number(self, names: list[str]) -> str | None:
        if self._by_number is None:
            self._by_number = ByNumber(self.by_id)
        known = next((k for n in names if (k := self._by_number.get(n)) is not None), None)
        self._matched_by_number += known is not None
        return known

    def remarks(self) -> list[str]:
        """Return what was noticed: references that belong to no caption, ids joined by number."""
        extra = self.unused()
        said = [] if extra is None else [extra]
        if self._matched_by_number:
            said.append(
                f"{self.path}: ids were matched by their number (42 = ..._000000000042.jpg)"
            )
        return said

    def unused(self) -> str | None:
        """Say which references belong to no caption; they are left out."""
        extra = [name for name in self.by_id if name not in self.used]
        if not extra:
            return None
        shown = ", ".join(extra[:5]) + (", ..." if len(extra) > 5 else "")
        return (
            f"{self.path}: {len(extra)} of {len(self.by_id)} images have references but no "
            f"caption; they are left out ({shown})"
        )
