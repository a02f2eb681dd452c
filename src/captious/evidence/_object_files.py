"""Readers of object annotations and detections; each yields one :class:`Found` per object.

An image that was looked at and holds nothing yields a `Found` whose label is None, so that "no
object" and "not looked at" stay apart.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from captious.errors import InputError
from captious.evidence.classes import COCO, readable
from captious.reading import (
    parse_json,
    read_bytes,
    read_json,
    read_parquet,
    read_text,
    reading,
    regular,
)

Box = tuple[float, float, float, float]


class Found(NamedTuple):
    """An object in an image; `box` is left, top, right, bottom in the file's own units."""

    image: str
    label: str | None
    score: float | None = None
    box: Box | None = None


_IMAGE = ("image", "image_id", "imageid", "file_name", "filename", "img", "id")
_LABEL = ("label", "labels", "object", "objects", "name", "names", "class", "category", "labelname")
_SCORE = ("score", "confidence", "conf", "probability")


def read(path: Path) -> Iterator[Found]:
    """Yield what a file or folder of annotations holds, whatever known format it has.

    Raises:
        InputError: the format is not known, or a file is damaged.
    """
    if path.is_dir():
        files = sorted(path.rglob("*.xml"))
        if not files:
            raise InputError(f"{path}: no VOC annotation (.xml) in this folder")
        for file in files:
            with reading(file, "a VOC annotation"):
                yield from _voc(file)
        return
    regular(path)
    readers = {".xml": _voc, ".json": _json, ".jsonl": _json_lines, ".parquet": _parquet,
               ".csv": _csv, ".tsv": _csv}  # fmt: skip
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: object labels come as {', '.join(readers)} or a VOC folder")
    with reading(path, "object labels"):
        yield from reader(path)


def _voc(path: Path) -> Iterator[Found]:
    """PASCAL VOC: one XML per image."""
    content = read_bytes(path)
    try:
        parser = ElementTree.XMLParser(target=_Elements())
        parser.feed(content)
        root = parser.close()
    except InputError as error:
        raise InputError(f"{path}: refused, {error}") from None
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{path}: not valid XML ({error})") from error
    image = root.findtext("filename") or path.stem
    objects = root.findall("object")
    for item in objects:
        name = item.findtext("name")
        if not name:
            raise InputError(f"{path}: an object without a name")
        corners = [item.findtext(f"bndbox/{c}") for c in ("xmin", "ymin", "xmax", "ymax")]
        numbers = [float(c) for c in corners if c]
        box = (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else None
        yield Found(image, readable(name), None, box)
    if not objects:
        yield Found(image, None)


class _Elements(ElementTree.TreeBuilder):
    """Builds a tree, and refuses a document type as the parser meets it, in whatever encoding."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise InputError("an annotation has no document type (DTD)")


def _json(path: Path) -> Iterator[Found]:
    """COCO instances, COCO detections, Visual Genome or a plain `image -> labels`."""
    content = read_json(path)
    if isinstance(content, dict) and {"annotations", "categories"} <= set(content):
        yield from _coco_instances(path, content)
    elif isinstance(content, dict):
        for image, objects in content.items():
            yield from _plain(path, str(image), objects)
    elif isinstance(content, list):
        for row in content:
            yield from _record(path, row)
    else:
        raise InputError(f"{path}: expected an object or a list")


def _json_lines(path: Path) -> Iterator[Found]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            yield from _record(path, parse_json(line, f"{path}, line {number}"))


def _coco_instances(path: Path, content: dict[str, Any]) -> Iterator[Found]:
    for part in ("categories", "images", "annotations"):
        rows = content.get(part, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{path}: '{part}' is not a list of objects")
    names = {c["id"]: readable(str(c["name"])) for c in content["categories"]}
    files = {i["id"]: str(i.get("file_name", i["id"])) for i in content.get("images", [])}
    seen = set()
    for item in content["annotations"]:
        if item.get("category_id") not in names:
            raise InputError(f"{path}: category {item.get('category_id')!r} has no name")
        seen.add(item["image_id"])
        image = files.get(item["image_id"], str(item["image_id"]))
        yield Found(image, names[item["category_id"]], None, _corners(item.get("bbox")))
    for number, image in files.items():
        if number not in seen:
            yield Found(image, None)


def _record(path: Path, row: Any) -> Iterator[Found]:
    """One entry of a list: a COCO detection, a Visual Genome image, or image with labels."""
    if not isinstance(row, dict):
        raise InputError(f"{path}: expected a list of objects, found {str(row)[:40]!r}")
    image = _first(row, _IMAGE)
    if image is None:
        raise InputError(f"{path}: an entry has no image: {str(row)[:60]}")
    if "category_id" in row:
        if row["category_id"] not in COCO:
            raise InputError(
                f"{path}: category {row['category_id']!r} is not a COCO id (1 to 90); write names "
                "instead: a column 'label'"
            )
        yield Found(
            str(image), COCO[row["category_id"]], row.get("score"), _corners(row.get("bbox"))
        )
        return
    yield from _plain(path, str(image), _first(row, _LABEL, ()), _first(row, _SCORE))


def _plain(path: Path, image: str, objects: Any, score: Any = None) -> Iterator[Found]:
    """Labels in any usual dress: strings, or objects with a name and perhaps score and box."""
    if isinstance(objects, str):
        objects = [objects]
    if not isinstance(objects, Iterable):
        raise InputError(f"{path}: the labels of {image!r} are not a list")
    empty = True
    for item in objects:
        empty = False
        if isinstance(item, str):
            yield Found(image, readable(item), None if score is None else float(score))
            continue
        name = _first(item, _LABEL) if isinstance(item, dict) else None
        if isinstance(name, list):  # Visual Genome: synonyms, the first is the usual one
            name = name[0] if name else None
        if not name:
            raise InputError(f"{path}: an object of {image!r} has no name")
        confidence = _first(item, _SCORE)
        yield Found(
            image,
            readable(str(name)),
            None if confidence is None else float(confidence),
            _any_box(item),
        )
    if empty:
        yield Found(image, None)


def _csv(path: Path) -> Iterator[Found]:
    """Open Images boxes or labels, or rows of image and label(s)."""
    with io.StringIO(read_text(path), newline="") as file:
        rows = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        fields = {name.strip().lower(): name for name in rows.fieldnames or ()}
        image = next((fields[f] for f in _IMAGE if f in fields), None)
        label = next((fields[f] for f in _LABEL if f in fields), None)
        score = next((fields[f] for f in _SCORE if f in fields), None)
        if image is None or label is None:
            raise InputError(f"{path}: expected a header with the columns 'image' and 'label'")
        codes: dict[str, str] | None = None
        for row in rows:
            confidence = float(row[score]) if score and row[score] else None
            text = (row[label] or "").strip()
            if text.startswith("/"):
                codes = _descriptions(path) if codes is None else codes
                if confidence != 0.0:  # Open Images: 0 = people checked that it is absent
                    yield Found(row[image], readable(codes.get(text, text)), confidence)
                continue
            parts = [p.strip() for p in text.replace("|", ";").split(";") if p.strip()]
            for part in parts:
                yield Found(row[image], readable(part), confidence)
            if not parts:
                yield Found(row[image], None)


def _descriptions(path: Path) -> dict[str, str]:
    """The names of Open Images codes such as /m/0bt9lr, from the file beside the annotations."""
    for file in sorted(path.parent.glob("*class-descriptions*.csv")):
        with io.StringIO(read_text(file), newline="") as rows:
            return {r[0]: r[1] for r in csv.reader(rows) if len(r) > 1}
    raise InputError(
        f"{path}: its labels are codes; put Open Images' class-descriptions CSV beside it"
    )


def _parquet(path: Path) -> Iterator[Found]:
    """Detections of `captious detect` (a row per object) or rows of image and list of labels."""
    table = read_parquet(path)
    names = set(table.column_names)
    image = next((f for f in _IMAGE if f in names), None)
    label = next((f for f in _LABEL if f in names), None)
    if image is None or label is None:
        raise InputError(f"{path}: expected the columns 'image' and 'label' (or 'objects')")
    boxed = {"left", "top", "right", "bottom"} <= names
    for batch in table.to_batches():
        for row in batch.to_pylist():
            value = row[label]
            if value is None:
                yield Found(str(row[image]), None)
            elif isinstance(value, list):
                yield from _plain(path, str(row[image]), value)
            else:
                corners = (row["left"], row["top"], row["right"], row["bottom"]) if boxed else None
                box = None if corners is None or corners[0] is None else corners
                yield Found(str(row[image]), readable(value), _first(row, _SCORE), box)


def _first(row: dict[str, Any], names: tuple[str, ...], default: Any = None) -> Any:
    """The first of these keys that is there, whatever its case."""
    lower = {str(k).lower(): v for k, v in row.items()}
    return next((lower[n] for n in names if n in lower), default)


def _corners(box: Any) -> Box | None:
    """COCO's x, y, width, height as corners."""
    if not isinstance(box, list) or len(box) != 4:
        return None
    x, y, wide, high = (float(v) for v in box)
    return x, y, x + wide, y + high


def _any_box(item: dict[str, Any]) -> Box | None:
    if "box" in item and isinstance(item["box"], list) and len(item["box"]) == 4:
        left, top, right, bottom = (float(v) for v in item["box"])
        return left, top, right, bottom
    if {"x", "y", "w", "h"} <= set(item):
        return _corners([item["x"], item["y"], item["w"], item["h"]])
    return _corners(item.get("bbox"))
