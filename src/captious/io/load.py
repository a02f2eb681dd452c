"""Join captions, references, images and labels into one checked CaptionSet.

Everything that is wrong is collected and reported together, with file and row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.evidence.images import handed_over
from captious.io import sources
from captious.io.sources import Source, key
from captious.types import CaptionSet

MAX_CHARS = 100_000
MAX_REFERENCES = 10_000
_NAMES = (str, PathLike, int, float)


def load(
    captions: Any,
    references: Any = None,
    *,
    images: Any = None,
    systems: Sequence[str] | None = None,
    objects: Any = None,
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
        say: called with remarks that are no errors (references that no caption uses).

    Raises:
        InputError: with every problem that was found.
    """
    if isinstance(captions, CaptionSet):
        return captions
    if isinstance(objects, str | Path):
        raise InputError(f"{objects}: labels from files are read by a job, not by load")
    several = paths_in(captions)
    parts = [_source(c, "captions") for c in several or [captions]]
    names = list(systems) if systems else _names(several)
    if len(names) != len(parts):
        raise InputError(f"{len(parts)} caption files, but {len(names)} system names")
    problems: list[str] = []
    pool = References(references, problems) if references is not None else None
    out = _Rows(problems)
    for part, name in zip(parts, names, strict=True):
        out.add(part, name, pool, images, objects)
    if problems:
        raise InputError(problems)
    if pool is not None and say is not None and (extra := pool.unused()):
        say(extra)
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


def _source(value: Any, what: str) -> Source:
    if isinstance(value, Path):
        return sources.read(value)
    value = _rows(value, what)
    if value is None or (hasattr(value, "__len__") and len(value) == 0):
        raise InputError(f"{what}: nothing was given")
    if not isinstance(value, Iterable):
        raise InputError(f"{what}: a list, a dictionary or a path is wanted, not {value!r}")
    return sources.of_json(value if isinstance(value, Mapping) else list(value), what)


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

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
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
                f"{part.path}: this file holds references (several texts per image), not one "
                "caption each; give it with --refs"
            )
            return
        size = len(part)
        refs = pool.for_rows(part) if pool is not None else part.references
        pictures = _Images(images, part, pool.source_names if pool else {}, self.problems)
        labels = _labels(objects, part, self.problems)
        seen: dict[tuple[str, str], int] = {}
        for row in range(size):
            given = part.id[row] if part.id is not None else None
            name_of = key(given) if given is not None else str(row)
            system = name
            if part.system is not None and part.system[row] not in (None, ""):
                system = str(part.system[row])
            before = seen.setdefault((system, name_of), row)
            if before != row:
                self.problems.append(
                    f"{part.where(row)}: the id {name_of!r} was used already at {part.unit} "
                    f"{before + part.first}; ids must be distinct within a system"
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
            self.images.append(pictures.of(row))
            self.objects.append(labels(row))
        self.photographs |= pictures.photographs

    def _checked(self, given: Any, part: Source, row: int) -> list[str]:
        if given is None:
            return []
        if isinstance(given, Mapping) or not isinstance(given, Iterable):
            self.problems.append(
                f"{part.where(row)}: references are a list of texts, not {given!r}"
            )
            return []
        texts = [given] if isinstance(given, str) else list(given)
        if len(texts) > MAX_REFERENCES:
            self.problems.append(f"{part.where(row)}: {len(texts)} references are too many")
            return []
        for i, text in enumerate(texts, 1):
            if (wrong := text_problem(text)) is not None:
                self.problems.append(f"{part.where(row)}: reference {i} {wrong}")
        return texts


def text_problem(value: Any) -> str | None:
    """Return what is wrong with a caption, or None. Empty text is a caption."""
    if type(value) is str and value.isascii() and len(value) <= MAX_CHARS:
        return None
    if not isinstance(value, str):
        if value is None or (isinstance(value, float) and value != value):
            return 'is missing (null or NaN); write "" for an empty one'
        return f"is {type(value).__name__} ({repr(value)[:40]}), not text"
    if len(value) > MAX_CHARS:
        return f"has {len(value):,} characters; more than {MAX_CHARS:,} is no caption"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair; the text was cut inside a character"
    return None


class References:
    """References by id (or image), or by position."""

    def __init__(self, given: Any, problems: list[str]) -> None:
        self.problems = problems
        paths = paths_in(given)
        found = [_source(g, "references") for g in paths or [given]]
        self.source_names: dict[str, str] = {}
        for part in found:
            self.source_names |= part.files_of
        self.path = found[0].path
        self.by_id: dict[str, list[Any]] = {}
        self.by_row: list[Any] | None = None
        self.used: set[str] = set()
        if all(p.parallel for p in found):
            self._by_position(found)
        else:
            self._by_name(found)

    def _by_position(self, found: list[Source]) -> None:
        streams = [p.references if p.references is not None else p.caption or [] for p in found]
        if len(found) == 1:
            self.by_row = streams[0]
            return
        if len({len(s) for s in streams}) > 1:
            sizes = ", ".join(f"{p.path}: {len(s)}" for p, s in zip(found, streams, strict=True))
            self.problems.append(f"the reference files have different numbers of lines ({sizes})")
        self.by_row = [list(r) for r in zip(*streams, strict=False)]

    def _by_name(self, found: list[Source]) -> None:
        for part in found:
            texts = part.references if part.references is not None else part.caption
            names = part.id if part.id is not None else part.image
            if names is None or texts is None:
                self.problems.append(f"{part.path}: references need an id (or image_id) each")
                continue
            for row, (name, text) in enumerate(zip(names, texts, strict=True)):
                listed = (
                    [text] if isinstance(text, str) or not isinstance(text, list | tuple) else text
                )
                for i, one in enumerate(listed, 1):
                    if (wrong := text_problem(one)) is not None:
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
        out: list[Any] = []
        lacking: list[str] = []
        for row in range(size):
            names = [c[row] for c in (part.id, part.image) if c is not None and c[row] is not None]
            names = [key(n) for n in names] or [str(row)]
            found = next((n for n in names if n in self.by_id), None)
            if found is None:
                lacking.append(f"{names[0]!r} ({part.unit} {row + part.first})")
                out.append(None)
            else:
                self.used.update(names)
                out.append(self.by_id[found])
        if lacking:
            shown = ", ".join(lacking[:8]) + (", ..." if len(lacking) > 8 else "")
            self.problems.append(
                f"{part.path}: {len(lacking)} of {size} captions have no references in "
                f"{self.path}; ids: {shown}"
            )
        return out

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


@dataclass(frozen=True)
class Album:
    """Photographs by the name that captions call them; where they lie is somebody else's choice.

    With an album, nothing in a caption file is read as a path: a name that the album does not
    hold stays a name.
    """

    files: Mapping[str, Path]

    def __str__(self) -> str:
        return "the photographs that were given"


class _Images:
    """The image of a row: a name of its own, or a file in the folder that the user gave."""

    def __init__(
        self, images: Any, part: Source, names: dict[str, str], problems: list[str]
    ) -> None:
        self.part, self.problems, self.listed = part, problems, None
        self.folder: Path | Album | None = None
        self.names = names | part.files_of
        self.photographs: dict[str, bytes] = {}
        if isinstance(images, Album):
            self.folder, self.files = images, dict(images.files)
            self.stems = {Path(name).stem: p for name, p in self.files.items()}
        elif isinstance(images, str | Path):
            folder = Path(images)
            if not folder.is_dir():
                problems.append(f"{folder}: this is not a folder of images")
            else:
                self.folder = folder
                self.files = {p.name: p for p in folder.iterdir() if p.is_file()}
                self.stems = {p.stem: p for p in self.files.values()}
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
        given = part.image[row] if part.image is not None else None
        if given is not None and not isinstance(given, _NAMES):
            return self._name(given, f"{part.where(row)}: its image")
        if self.folder is None:
            return None if given is None or given == "" else key(given)
        if given is None:
            given = part.id[row] if part.id is not None else row
        name = self.names.get(key(given), key(given))
        base = Path(name).name
        found = self.files.get(base) or self.stems.get(base) or self.stems.get(Path(base).stem)
        if found is None and not self.files:
            return None if part.image is None else f"image:{base}"
        if found is None:
            self.problems.append(f"{part.where(row)}: no image file for {name!r} in {self.folder}")
            return None
        return str(found)

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
    given = part.objects
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
        given = list(objects)
        if len(given) != len(part):
            problems.append(f"{len(part)} captions, but {len(given)} lists of labels")
            given = None
    if given is None:
        return lambda row: None

    def own(row: int) -> Any:
        value = given[row]
        if value is None:
            return None
        if isinstance(value, str):
            value = [value] if value else []
        if not isinstance(value, Iterable) or not all(isinstance(v, str) for v in value):
            problems.append(f"{part.where(row)}: object labels must be texts")
            return None
        return list(value)

    return own
