"""Explanations of the captions that a report shows, computed within a bound of time and size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from captious import registry
from captious.engine.explain import explainer
from captious.engine.table import ScoreTable
from captious.errors import CaptiousError, UsageError
from captious.io.labels import label
from captious.progress import Progress
from captious.report import pictures
from captious.report.pictures import photograph
from captious.types import Alignment, Explanation, Flow, LabelledPhotograph, Part, SceneGraphs

_DRAWN = (Alignment, Flow, SceneGraphs)
"""Parts that are small as a picture; the page itself draws the others."""


@dataclass
class Explained:
    """What was explained: row -> list of explanations; and what was not, with the reason."""

    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def explain_table(table: ScoreTable, rows: list[int], seconds: float, letters: int) -> Explained:
    """Explain rows by every metric of a table, turn by turn, until time or room is used up.

    Args:
        table: a stored table.
        rows: which rows, the most important first.
        seconds: bound on the time; a single explanation is never cut in half.
        letters: bound on the size of all explanations together.
    """
    done = Explained()
    if seconds <= 0:
        done.left_out.append("explanations were switched off")
        return done
    start = time.monotonic()
    titles = {registry.text_form(s.metric): title_of(s.metric.name) for s in table.steps}
    turns: dict[str, Callable[[int], Explanation]] = {}
    with Progress("explaining", len(rows) * len(titles), "explanations") as bar:
        for step in table.steps:
            form = registry.text_form(step.metric)
            try:
                turns[form] = explainer(table.samples, step.metric, rows)
            except CaptiousError as err:
                done.left_out.append(f"{titles[form]} is not explained: {_line(err)}")
        used = 0
        for number, row in enumerate(rows):
            for form in list(turns):
                if time.monotonic() - start > seconds or used > letters:
                    why = f"{seconds:g} s" if used <= letters else "their share of the file"
                    done.left_out.append(
                        f"{number:,} of {len(rows):,} captions are explained: the explanations "
                        f"used up {why} (--explain-seconds changes the time)"
                    )
                    return done
                try:
                    told = plain(titles[form], turns[form](row))
                except UsageError as err:  # the contract's answer of a metric without explanation
                    del turns[form]
                    done.left_out.append(f"{titles[form]} is not explained: {_line(err)}")
                    continue
                except CaptiousError as err:  # this caption only
                    told = {"metric": titles[form], "text": _line(err), "parts": []}
                used += len(json.dumps(told))
                done.rows.setdefault(row, []).append(told)
                bar.advance()
    return done


def title_of(name: str) -> str:
    """Return the name of a metric as papers print it."""
    return {"bertscore": "BERTScore", "vilbertscore": "ViLBERTScore", "bleu": "BLEU"}.get(
        name, label(name)
    )


def _line(err: CaptiousError) -> str:
    return " ".join(str(err).split())[:300]


def plain(title: str, told: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data that the page draws."""
    return {"metric": title, "text": told.text, "parts": [plain_part(p) for p in told.parts]}


def plain_part(part: Part) -> dict[str, Any]:
    """Return a part as plain data; small pictures are drawn here."""
    kind = type(part).__name__
    if isinstance(part, _DRAWN):
        return {"kind": kind, "svg": pictures.picture(part)}
    if isinstance(part, LabelledPhotograph):  # drawn on the page's own photograph
        return {"kind": kind, **photograph.plain(part)}
    data = _rounded(asdict(part))
    if kind == "RegionAttention":
        data.pop("reference_texts")
        data.pop("caption_text")
    return {"kind": kind, **data}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value
