"""Stored runs, ready to be looked at: pages of the gallery, photographs, explanations on demand.

What sorting and searching need is kept as arrays, so a page of a hundred thousand captions is found
in milliseconds. A few runs stay open; the one that was looked at longest ago is closed.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import registry
from captious.engine.explain import explain
from captious.engine.table import ScoreTable
from captious.errors import CaptiousError, InputError
from captious.evidence.images import open_image
from captious.report import contents, explained
from captious.types import Floats

OPEN = 4
"""Runs that stay open."""

ORDERS = 32
"""Orders of the gallery that are kept per run: the next page of one costs nothing."""

MODES = ("all", "different", "regressions", "unscored", "cut")
SORTS = ("file", "best", "worst", "difference", "gain", "disagree")
_CUT = frozenset(
    ("a", "an", "the", "of", "in", "on", "at", "by", "with", "to", "from", "and", "or", "is", "are",
     "his", "their", "its", "while", "near")
)  # fmt: skip
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_explaining = Lock()  # networks are shared


@dataclass(frozen=True)
class Asked:
    """Which samples of the gallery, in which order; names of columns and systems."""

    mode: str = "all"
    sort: str = "file"
    find: str = ""
    metric: str = ""
    base: str = ""
    vs: str = ""
    x: str = ""
    y: str = ""


class View:
    """One stored run.

    Args:
        path: of the stored table.
        within: the only folder that photographs may lie in; None where the operator named the
            table.
    """

    def __init__(self, path: Path, within: Path | None) -> None:
        self.table = ScoreTable.load(path)
        self._within = within
        self.samples = contents.by_sample(self.table)
        self._rows = np.array(
            [[-1 if r is None else r for r in rows] for rows in self.samples], np.int64
        ).reshape(len(self.samples), len(self.table.corpora))
        self._systems = {s or "captions": at for at, s in enumerate(self.table.corpora)}
        self._places: dict[str, Floats] = {}
        self._orders: dict[Asked, npt.NDArray[np.int64]] = {}
        self._lock = Lock()

    def warm(self) -> None:
        """Make what filters and searches need, so that the first of them need not wait."""
        for name in ("_by_id", "_reasons", "_text", "_different", "_unscored", "_cut"):
            getattr(self, name)

    # -- gallery -----------------------------------------------------------------------------

    def page(self, asked: Asked, offset: int, count: int) -> tuple[int, list[dict[str, Any]]]:
        """Return how many samples fit, and some of them."""
        with self._lock:
            order = self._orders.get(asked)
            if order is None:
                order = self._orders[asked] = self._order(asked, self._kept(asked))
                while len(self._orders) > ORDERS:
                    del self._orders[next(iter(self._orders))]
        return len(order), self._items(order[offset : offset + count].tolist())

    def sample(self, name: str) -> dict[str, Any]:
        """Return one sample.

        Raises:
            InputError: there is none of that id.
        """
        at = self._by_id.get(name)
        if at is None:
            raise InputError(f"there is no sample {name!r} in this run")
        return self._items([at])[0]

    def _items(self, places: list[int]) -> list[dict[str, Any]]:
        listed = [self.samples[at] for at in places]
        items = contents.items(self.table, listed, self._reasons)
        for item, rows in zip(items, listed, strict=True):
            item["rows"] = rows
            if self._within is not None and item["image"]:
                item["image"] = Path(item["image"]).name  # where it lies is our own business
        return items

    def _kept(self, asked: Asked) -> npt.NDArray[np.int64]:
        fine = np.ones(len(self.samples), bool)
        if asked.mode == "different":
            fine = self._different
        elif asked.mode == "unscored":
            fine = self._unscored
        elif asked.mode == "cut":
            fine = self._cut
        elif asked.mode == "regressions":
            fine = self._difference(asked) < 0
        kept = np.flatnonzero(fine)
        for word in asked.find.lower().split():
            kept = kept[self._holding(word)[kept]]
        return kept

    def _holding(self, word: str) -> npt.NDArray[np.bool_]:
        """Return which samples hold a text: one search through all texts behind each other."""
        text, starts = self._text
        held = np.zeros(len(self.samples), bool)
        at, place = 0, text.find(word)
        while place >= 0:
            at = bisect_right(starts, place, at) - 1
            held[at] = True
            place = text.find(word, starts[at + 1])  # the rest of this sample changes nothing
        return held

    def _order(self, asked: Asked, kept: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if asked.sort == "file":
            return kept
        if asked.sort in ("best", "worst"):
            values = self._mean(self._column(asked.metric))
            key = -values if asked.sort == "best" else values
        elif asked.sort in ("difference", "gain"):
            key = self._difference(asked) * (1 if asked.sort == "difference" else -1)
        else:
            x, y = (self._place(self._column(name)) for name in (asked.x, asked.y))
            with np.errstate(invalid="ignore"):
                key = -np.nanmax(np.where(np.isnan(x - y), -1.0, np.abs(x - y)), axis=1)
        key = np.where(np.isnan(key), np.inf, key)
        return kept[np.argsort(key[kept], kind="stable")]

    def _column(self, name: str) -> str:
        if name not in self.table.values:
            return next(iter(self.table.values))
        return name

    def _values(self, column: str) -> Floats:
        """Return samples x systems, better first in sign: higher is better."""
        values = self.table.values[column] * (
            1.0 if self.table.columns[column].higher_is_better else -1.0
        )
        return np.where(self._rows >= 0, values[self._rows], np.nan)

    def _mean(self, column: str) -> Floats:
        values = self._values(column)
        known = ~np.isnan(values)
        total = np.where(known, values, 0.0).sum(axis=1)
        return np.where(known.any(axis=1), total / known.sum(axis=1).clip(min=1), np.nan)

    def _difference(self, asked: Asked) -> Floats:
        values = self._values(self._column(asked.metric))
        last = values.shape[1] - 1
        base = self._systems.get(asked.base, 0)
        return values[:, self._systems.get(asked.vs, min(1, last))] - values[:, base]

    def _place(self, column: str) -> Floats:
        """Return where each value stands among all, from 0 to 1."""
        held = self._places.get(column)
        if held is None:
            values = self._values(column)
            known = np.sort(values[~np.isnan(values)])
            places = np.searchsorted(known, values) / max(len(known) - 1, 1)
            held = self._places[column] = np.where(np.isnan(values), np.nan, places)
        return held

    @cached_property
    def _by_id(self) -> dict[str, int]:
        ids = self.table.ids
        return {str(ids[self._first(rows)]): at for at, rows in enumerate(self.samples)}

    @cached_property
    def _reasons(self) -> contents.Reasons:
        return contents.reasons_of(self.table)

    @cached_property
    def _text(self) -> tuple[str, list[int]]:
        """All ids, captions and references as one text, and where each sample begins."""
        captions, references = self.table.captions, self.table.samples.references()
        texts = []
        for rows in self.samples:
            first = self._first(rows)
            said = [captions[row] for row in rows if row is not None]
            texts.append("\n".join([str(self.table.ids[first]), *said, *references[first]]).lower())
        starts = np.cumsum([0, *(len(text) + 1 for text in texts)]).tolist()
        return "\n".join(texts), starts

    @cached_property
    def _different(self) -> npt.NDArray[np.bool_]:
        captions = self.table.captions
        return np.array(
            [len({captions[r] for r in rows if r is not None}) > 1 for rows in self.samples]
        )

    @cached_property
    def _unscored(self) -> npt.NDArray[np.bool_]:
        lacking = np.zeros(len(self.table), bool)
        for values in self.table.values.values():
            lacking |= np.isnan(values)
        return np.asarray((lacking[self._rows] & (self._rows >= 0)).any(axis=1))

    @cached_property
    def _cut(self) -> npt.NDArray[np.bool_]:
        last = [(_WORD.findall(text[-60:].lower()) or [""])[-1] for text in self.table.captions]
        cut = np.array([not word or word in _CUT for word in last])
        return np.asarray((cut[self._rows] & (self._rows >= 0)).any(axis=1))

    def _first(self, rows: list[int | None]) -> int:
        return next(row for row in rows if row is not None)

    # -- one caption -------------------------------------------------------------------------

    def picture(self, row: int, width: int) -> bytes:
        """Return the photograph of a row as a small JPEG.

        Raises:
            InputError: it has none, or it may not be shown.
        """
        image = self.table.samples.images[self._known(row)]
        if image is None:
            raise InputError("this caption has no photograph")
        path = Path(image)
        if self._within is not None and self._within not in path.resolve().parents:
            raise InputError("this caption has no photograph")
        picture = open_image(path)
        picture.thumbnail((width, width))
        out = io.BytesIO()
        picture.save(out, "JPEG", quality=80)
        return out.getvalue()

    def explain(self, row: int) -> list[dict[str, Any]]:
        """Explain a caption by every metric of the run."""
        self._known(row)
        told = []
        for step in self.table.steps:
            title = explained.title_of(step.metric.name)
            try:
                with _explaining:
                    explanation = explain(self.table.samples, step.metric, row)
                told.append(explained.plain(title, explanation))
            except CaptiousError as err:
                told.append({"metric": title, "text": str(err), "parts": []})
        return told

    def _known(self, row: int) -> int:
        if not 0 <= row < len(self.table):
            raise InputError(f"there is no row {row}; the run has {len(self.table):,}")
        return row

    @property
    def forms(self) -> list[str]:
        """The metrics of the run."""
        return [registry.text_form(step.metric) for step in self.table.steps]


class Views:
    """Runs that are open."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, View] = OrderedDict()
        self._lock, self._opening = Lock(), Lock()

    def get(self, name: str, make: Callable[[], View]) -> View:
        """Return a run, opening it where it is not open."""
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        with self._opening:
            with self._lock:
                if name in self._held:
                    return self._held[name]
            made = make()
            Thread(target=made.warm, daemon=True).start()
            with self._lock:
                self._held[name] = made
                while len(self._held) > OPEN:
                    self._held.popitem(last=False)
        return made

    def drop(self, name: str) -> None:
        """Close a run."""
        with self._lock:
            self._held.pop(name, None)
