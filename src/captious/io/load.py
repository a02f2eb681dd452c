"""Join captions, references, images and labels into one checked CaptionSet.

Everything that is wrong is collected and reported together, with file and row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from captious.calling import key, text_problem
from captious.errors import InputError
from captious.evidence.images import handed_over
from captious.io.references import (
    ByNumber,
    References,
    examples,
    paths_in,
    source_of,
)
from captious.io.sources import Source
from captious.types import CaptionSet

MAX_REFERENCES = 10_000
_NAMES = (str, PathLike, int, float)


def load(
    captions: Any,
    references: Any = None,
    *,
    images: Any = None,
    systems: Sequence[str] | None = None,
    objects: Any = None,
    skip_unmatched: bool = False,
    say: Callable[[str], None] | None = None,
) -> CaptionSet:
    """Read captions (and references) from files or Python objects.

    Args:
        captions: a path or several (one system each), a list of texts, a list of records, an
            ``{id: caption}`` dictionary, or a CaptionSet.
        references: a path or several, one list of texts per caption, or ``{id: [texts]}``.
        images: a folder, a list with one image per caption, or ``{id: image}``.
        systems: a name per caption file; file names by default.
        objects: one list of labels per caption, or ``{image or id: labels}``.
        skip_unmatched: leave out captions without references or image file instead of refusing.
        say: called with remarks that are not errors (references that no caption uses).

    Raises:
        InputError: with every problem that was found.
    """
    if isinstance(captions, CaptionSet):
        return captions
    if isinstance(objects, str | Path):
        raise InputError(f"{objects}: labels from files are read by a job, not by load")
    several = paths_in(captions)
    parts = [source_of(c, "captions") for c in several or [captions]]
    names = list(systems) if systems else _names(several)
    if len(names) != len(parts):
        raise InputError(f"{len(parts)} caption files, but {len(names)} system names")
    problems: list[str] = []
    pool = References(references, problems) if references is not None else None
    out = _Rows(problems, skip_unmatched)
    for part, name in zip(parts, names, strict=True):
        out.add(part, name, pool, images, objects)
    if problems:
        raise InputError(problems)
    if out.skipped and not out.captions:
        raise InputError("no caption is left: not one of them has references (or an image file)")
    if say is not None:
        for remark in [*out.skipped, *(pool.remarks() if pool is not None else ())]:
            say(remark)
    made = CaptionSet.build(
        out.captions,
        out.references,
        ids=out.ids,
        images=out.images,
        systems=out.systems,
        objects=out.objects if any(o is not None for o in out.objects) else None,
    )
    if not out.photographs:
        return made
    return replace(made, evidence=replace(made.evidence, photographs=out.photographs))


def _names(paths: list[Path] | None) -> list[str]:
    if not paths or len(paths) == 1:
        return [""]
    stems = [p.name.removesuffix(".gz").rsplit(".", 1)[0] for p in paths]
    if len(set(stems)) == len(stems):
        return stems
    return (
        [str(p) for p in paths]
        if len(set(paths)) == len(paths)
        else [f"{s}#{i}" for i, s in enumerate(stems, 1)]
    )


class _Rows:
    """Checked rows, and the complaints about those that are not."""

    def __init__(self, problems: list[str], skip_unmatched: bool = False) -> None:
        self.problems = problems
        self.skip_unmatched = skip_unmatched
        self.skipped: list[str] = []
        self.captions: list[str] = []
        self.references: list[list[str]] = []
        self.ids: list[str] = []
        self.images: list[str | None] = []
        self.systems: list[str] = []
        self.objects: list[list[str] | None] = []
        self.photographs: dict[str, bytes] = {}

    def add(
        self, part: Source, name: str, pool: References | None, images: Any, objects: Any
    ) -> None:
        if part.caption is None:
            self.problems.append(
                f"{part.path}: there are references (several texts per image), but no captions "
                "(a column 'caption')"
                if part.indexed
                else f"{part.path}: this file holds references (several texts per image), not one "
                "caption each; give it as references (--refs)"
            )
            return
        size = len(part)
        refs = pool.for_rows(part) if pool is not None else part.references
        pictures = _Images(images, part, pool.source_names if pool else {}, self.problems)
        labels = _labels(objects, part, self.problems)
        unmatched = pool.lacking(part) if pool is not None else {}
        pictured = [pictures.of(row) for row in range(size)]
        if self.skip_unmatched:
            dropped = {*unmatched, *pictures.unmatched}
            if dropped:
                self.skipped.append(f"{part.path}: left out {len(dropped)} of {size} captions")
        else:
            dropped = set()
            self._unmatched(part, unmatched, pool)
            self._unmatched(part, pictures.unmatched, pictures)
        seen: dict[tuple[str, str], int] = {}
        for row in range(size):
            if row in dropped:
                continue
            held_id = part.id[row] if part.id is not None else None
            name_of = key(held_id) if held_id is not None else str(row)
            system = name
            if part.system is not None and part.system[row] not in (None, ""):
                system = str(part.system[row])
            before = seen.setdefault((system, name_of), row)
            if before != row:
                self.problems.append(
                    f"{part.where(row)}: the id {name_of!r} was used already at {part.at(before)}; "
                    f"ids must be distinct within a system"
                )
            caption = part.caption[row]
            if (wrong := text_problem(caption)) is not None:
                self.problems.append(f"{part.where(row)}: the caption {wrong}")
            self.captions.append(caption)
            mine = refs[row] if refs is not None else None
            fresh = pool is None or pool.by_row is not None
            self.references.append(self._checked(mine, part, row) if fresh else mine or [])
            self.ids.append(name_of)
            self.systems.append(system)
            self.images.append(pictured[row])
            self.objects.append(labels(row))
        self.photographs |= pictures.photographs

    def _unmatched(
        self, part: Source, unmatched: dict[int, str], other: References | _Images | None
    ) -> None:
        """Complain about captions whose id is not on the other side, with examples of both."""
        if not unmatched or other is None:
            return
        rows = [f"{name!r} ({part.at(row)})" for row, name in list(unmatched.items())[:3]]
        more = ", ..." if len(unmatched) > 3 else ""
        self.problems.append(
            f"{part.path}: {len(unmatched)} of {len(part)} captions "
            f"{'has' if len(unmatched) == 1 else 'have'} no {other.what} in {other.path}. "
            f"Ids of such captions: {', '.join(rows)}{more}; "
            f"{other.what} there: {other.examples()}. --skip-unmatched leaves these captions out"
        )

    def _checked(self, labels: Any, part: Source, row: int) -> list[str]:
        if labels is None:
            return []
        if isinstance(labels, Mapping) or not isinstance(labels, Iterable):
            self.problems.append(
                f"{part.where(row)}: references are a list of texts, not {labels!r}"
            )
            return []
        texts = [labels] if isinstance(labels, str) else list(labels)
        if len(texts) > MAX_REFERENCES:
            self.problems.append(f"{part.where(row)}: {len(texts)} references are too many")
            return []
        for i, text in enumerate(texts, 1):
            if (wrong := text_problem(text)) is not None:
                self.problems.append(f"{part.where(row)}: reference {i} {wrong}")
        return texts


@dataclass(frozen=True)
class Album:
    """Photographs by the name that captions call them; where they lie is somebody else's choice.

    They are found by file name, with or without its ending, or by number. With an album, nothing in
    a caption file is read as a path: a name that the album does not hold stays a name.
    """

    files: Mapping[str, Path]

    @classmethod
    def of(cls, folder: Path) -> Album:
        """Return the photographs of a folder."""
        return cls({p.name: p for p in folder.iterdir() if p.is_file()})

    @cached_property
    def _stems(self) -> dict[str, Path]:
        return {Path(name).stem: path for name, path in self.files.items()}

    @cached_property
    def _by_number(self) -> ByNumber:
        return ByNumber(self.files)

    def find(self, name: str) -> Path | None:
        """Return the file of an image, or None."""
        base = Path(name).name
        known = self.files.get(base) or self._stems.get(base) or self._stems.get(Path(base).stem)
        return known or self.files.get(self._by_number.get(base) or "")

    def __str__(self) -> str:
        return "the photographs that were given"


class _Images:
    """The image of a row: a name of its own, or a file in the folder that the user gave."""

    what = "image files"

    def __init__(
        self, images: Any, part: Source, names: dict[str, str], problems: list[str]
    ) -> None:
        self.part, self.problems, self.listed = part, problems, None
        self.path = images
        self.album: Album | None = None
        self.unmatched: dict[int, str] = {}
        self.names = names | part.files_of
        self.photographs: dict[str, bytes] = {}
        if isinstance(images, Album):
            self.album = images
        elif isinstance(images, str | Path):
            folder = Path(images)
            if not folder.is_dir():
                problems.append(f"{folder}: this is not a folder of images")
            else:
                self.album = Album.of(folder)
        elif isinstance(images, Mapping):
            self.listed = [
                images.get(part.id[i] if part.id is not None else i) for i in range(len(part))
            ]
        elif images is not None:
            self.listed = list(images)
            if len(self.listed) != len(part):
                problems.append(f"{len(part)} captions, but {len(self.listed)} images")
                self.listed = None

    def of(self, row: int) -> str | None:
        if self.listed is not None:
            return self._name(self.listed[row], f"images[{row}]")
        part = self.part
        held_name = part.image[row] if part.image is not None else None
        if held_name is not None and not isinstance(held_name, _NAMES):
            return self._name(held_name, f"{part.where(row)}: its image")
        if self.album is None:
            return None if held_name is None or held_name == "" else key(held_name)
        if held_name is None:
            held_name = part.id[row] if part.id is not None else row
        name = self.names.get(key(held_name), key(held_name))
        if isinstance(self.path, Album) and not self.path.files:
            return None if part.image is None else f"image:{Path(name).name}"
        file = self.album.find(name)
        if file is None:
            self.unmatched[row] = name
            return None
        return str(file)

    def examples(self) -> str:
        """Return a few names of image files."""
        return examples(sorted(self.album.files)) if self.album is not None else ""

    def _name(self, picture: Any, where: str) -> str | None:
        """Return the name of a picture; one that is no file is kept as encoded bytes."""
        if picture is None or isinstance(picture, _NAMES):
            return None if picture is None else str(picture)
        try:
            name, content = handed_over(picture, where)
        except InputError as err:
            self.problems.extend(err.problems)
            return None
        if content is not None:
            self.photographs[name] = content
        return name


def _labels(objects: Any, part: Source, problems: list[str]) -> Any:
    labels = part.objects
    if isinstance(objects, Mapping):
        table = {key(k): v for k, v in objects.items()}

        def look(row: int) -> Any:
            for column in (part.image, part.id):
                if column is not None and column[row] is not None:
                    name = key(column[row])
                    for form in (name, Path(name).name, Path(name).stem):
                        if form in table:
                            return list(table[form])
            return None

        return look
    if objects is not None:
        labels = list(objects)
        if len(labels) != len(part):
            problems.append(f"{len(part)} captions, but {len(labels)} lists of labels")
            labels = None
    if labels is None:
        return lambda row: None

    def own(row: int) -> Any:
        value = labels[row]
        if value is None:
            return None
        if isinstance(value, str):
            value = [value] if value else []
        if not isinstance(value, Iterable) or not all(isinstance(v, str) for v in value):
            problems.append(f"{part.where(row)}: object labels must be texts")
            return None
        return list(value)

    return own
