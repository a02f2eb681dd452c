"""What a report shows, as plain data: everything comes from a stored table.

Overview, tests, distributions and buckets are of all captions; the gallery holds as many samples as
the file has room for: the best, the worst, the most disputed and random ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from captious._version import __version__
from captious.engine.compare import Comparison, compare
from captious.engine.table import ScoreTable
from captious.errors import InputError
from captious.io.labels import label, times
from captious.report.extras import Extras
from captious.statistics import bootstrap
from captious.text.stoplists import stop_words
from captious.types import Floats, Ints

BINS = 24
DRAWS = 200
"""Bootstrap draws behind the intervals of buckets."""
_USUAL = ("bleu_4", "bertscore_f", "vilbertscore_f")
"""Columns that stand for their metric where that is not the first one."""
MOST_DOTS = 4000
"""Dots of the scatter beyond which a random part is shown."""


@dataclass(frozen=True)
class Shown:
    """The samples of the gallery: rows of the table by sample, and how they were chosen."""

    rows: list[list[int | None]]
    total: int
    how: str


def choose(table: ScoreTable, most: int, seed: int = bootstrap.SEED) -> Shown:
    """Return the samples to show, ``most`` captions at the utmost.

    Beyond that, a quarter each is taken of the best, the worst, those about which the metrics
    disagree most, and random ones.
    """
    listed = by_sample(table)
    room = max(1, most // len(table.corpora))
    if len(listed) <= room:
        return Shown(listed, len(listed), "")
    ranks = np.array([_ranks(table.values[c], table.columns[c].higher_is_better)
                      for c in table.values])  # fmt: skip
    level = np.zeros(len(table))
    spread = np.zeros(len(table))
    if len(ranks):
        known = ~np.isnan(ranks)
        count = known.sum(axis=0).clip(min=1)
        filled = np.where(known, ranks, 0.0)
        level = filled.sum(axis=0) / count
        spread = np.where(known, (ranks - level) ** 2, 0.0).sum(axis=0) / count
    held = [[r for r in rows if r is not None] for rows in listed]
    mean = np.array([level[rows].mean() for rows in held])
    dispute = np.array([spread[rows].max() for rows in held])
    part = max(1, room // 4)
    chosen = dict.fromkeys(np.argsort(-mean, kind="stable")[:part].tolist())
    chosen |= dict.fromkeys(np.argsort(mean, kind="stable")[:part].tolist())
    chosen |= dict.fromkeys(np.argsort(-dispute, kind="stable")[:part].tolist())
    for at in np.random.default_rng(seed).permutation(len(listed)).tolist():
        if len(chosen) >= room:
            break
        chosen.setdefault(at, None)
    how = (
        f"{part:,} best, {part:,} worst, {part:,} on which the metrics disagree most, "
        "and random ones"
    )
    return Shown([listed[at] for at in sorted(chosen)], len(listed), how)


def by_sample(table: ScoreTable) -> list[list[int | None]]:
    """Return the rows of every sample, one place per system."""
    number = {system: at for at, system in enumerate(table.corpora)}
    samples: dict[str, list[int | None]] = {}
    for row, (name, system) in enumerate(zip(table.ids, table.systems, strict=True)):
        samples.setdefault(str(name), [None] * len(number))[number[system]] = row
    return list(samples.values())


def _ranks(values: Floats, better: bool) -> Floats:
    """Return the place of each value between 0 (worst) and 1 (best)."""
    out = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = np.argsort(np.argsort(values[known] if better else -values[known], kind="stable"))
    out[known] = order / max(len(known) - 1, 1)
    return out


def contents(table: ScoreTable, shown: Shown, extras: Extras | None = None) -> dict[str, Any]:
    """Return everything except photographs and explanations; ``extras`` are the user's columns."""
    extras = extras or Extras()
    systems = list(table.corpora)
    names = list(table.values)
    comparison = _comparison(table)
    main = main_columns(table)
    job = table.job or {}
    axes = table.values | extras.numbers
    return {
        "version": __version__,
        "captions": len(table),
        "samples": shown.total,
        "images": len(set(table.images.tolist())),
        "systems": [s or "captions" for s in systems],
        "columns": [
            {
                "name": name,
                "label": label(name),
                "times": times(table.columns[name]),
                "low": _finite(table.columns[name].low),
                "high": _finite(table.columns[name].high),
                "better": table.columns[name].higher_is_better,
                "meaning": table.columns[name].meaning,
                "signature": table.signatures.get(name, ""),
                "main": name in main,
            }
            for name in names
        ],
        "axes": list(extras.numbers),
        "corpus": [
            [[_n(v), _n(v.low), _n(v.high)] for v in (table.corpora[s][c] for c in names)]
            for s in systems
        ],
        "tests": _tests(comparison, systems, names),
        "testing": None
        if comparison is None
        else {
            "level": comparison.level,
            "correction": comparison.correction,
            "trials": comparison.trials,
            "seed": comparison.seed,
            "count": len(comparison.differences),
        },
        "distributions": [_histogram(table, values, systems) for values in axes.values()],
        "differences": _differences(table, systems, names),
        "dots": _dots(table, shown, axes, systems),
        "items": items(table, shown.rows, reasons_of(table), extras),
        "buckets": buckets(table, extras),
        "shown": {"samples": len(shown.rows), "how": shown.how},
        "notes": [f"{text}: {count:,}" for text, count in table.notes.items()],
        "unscored": [
            [label(c), why, count]
            for (c, why), count in Counter((u.column, u.reason) for u in table.unscored).items()
        ][:50],
        "metrics": table.metric_forms,
        "files": {
            what: [_last(entry["path"]) for entry in job[what]]
            if isinstance(job.get(what), list)
            else _last(job[what])
            for what in ("captions", "references", "images", "objects", "regions")
            if job.get(what)
        },
    }


def _last(path: Any) -> str:
    """Return the last part of a path: a report is sent to others, a home folder need not be."""
    return str(path).rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def main_columns(table: ScoreTable) -> set[str]:
    """Return the column that stands for each metric."""
    columns = set()
    for step in table.steps:
        main = main_column([c.name for c in step.columns])
        columns.add(
            next(n for n, c in zip(step.names, step.columns, strict=True) if c.name == main)
        )
    return columns


def main_column(names: Sequence[str]) -> str:
    """Return the column that stands for a metric of several.

    Example:
        >>> main_column(["bleu_1", "bleu_2", "bleu_3", "bleu_4"]), main_column(["tiger", "rrs"])
        ('bleu_4', 'tiger')
    """
    return next((name for name in names if name in _USUAL), names[0])


def _comparison(table: ScoreTable) -> Comparison | None:
    """Test every pair of systems; None where there is one, or where samples differ."""
    if len(table.corpora) < 2:
        return None
    try:
        return compare(table)
    except InputError:
        return None


def _tests(
    comparison: Comparison | None, systems: list[str], names: list[str]
) -> list[list[float | int | None]]:
    """Return column, a, b, difference b - a, its interval, corrected p, significant or not."""
    if comparison is None:
        return []
    at = {s: i for i, s in enumerate(systems)}
    column = {c: i for i, c in enumerate(names)}
    return [
        [column[d.column], at[d.a], at[d.b], _r(d.difference), _r(d.low), _r(d.high),
         _r(d.corrected), int(d.significant)]
        for d in comparison.differences
    ]  # fmt: skip


def _histogram(table: ScoreTable, values: Floats, systems: list[str]) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    if not len(known):
        return {"low": 0, "high": 1, "counts": [[0] * BINS for _ in systems]}
    low, high = float(known.min()), float(known.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = []
    for system in systems:
        mine = values[(table.systems == system) & np.isfinite(values)]
        counts.append(np.histogram(mine, BINS, (low, high))[0].tolist())
    return {"low": _r(low), "high": _r(high), "counts": counts}


def _differences(table: ScoreTable, systems: list[str], names: list[str]) -> list[dict[str, Any]]:
    """Return for each pair of systems and column where resampled differences fall."""
    if len(systems) < 2 or len(systems) > 6:
        return []
    images = table.images.astype(str)
    keys, groups = np.unique(images, return_inverse=True)
    if len(keys) < 2:
        return []
    resampled: dict[tuple[str, str], Floats] = {}
    draws = 500 if len(keys) <= 20_000 else 100
    for system in systems:
        mine = table.systems == system
        parts = [bootstrap.group(b[mine], groups[mine], len(keys)) for b in table.blocks]
        drawn = bootstrap.resampled([p[0] for p in parts], [p[1] for p in parts], draws, table.seed)
        for step, (totals, counts) in zip(table.steps, drawn, strict=True):
            values = step.metric.corpus(totals, counts)
            for name, at in zip(step.names, step.index, strict=True):
                resampled[system, name] = values[:, at]
    out = []
    for (i, a), (j, b) in combinations(enumerate(systems), 2):
        for k, name in enumerate(names):
            gap = resampled[b, name] - resampled[a, name]
            gap = gap[np.isfinite(gap)]
            if not len(gap):
                continue
            low, high = min(float(gap.min()), 0.0), max(float(gap.max()), 0.0)
            counts = np.histogram(gap, 40, (low, high if high > low else low + 1))[0]
            out.append({"a": i, "b": j, "c": k, "low": _r(low), "high": _r(high),
                        "counts": counts.tolist()})  # fmt: skip
    return out


def _dots(
    table: ScoreTable, shown: Shown, axes: dict[str, Floats], systems: list[str]
) -> dict[str, Any]:
    """Return the values of captions outside the gallery, so that the scatter shows the crowd."""
    inside = {row for rows in shown.rows for row in rows if row is not None}
    others = np.array([row for row in range(len(table)) if row not in inside], np.int64)
    if len(others) > MOST_DOTS:
        others = np.sort(np.random.default_rng(table.seed).permutation(others)[:MOST_DOTS])
    at = {s: i for i, s in enumerate(systems)}
    return {
        "systems": [at[s] for s in table.systems[others]],
        "values": [[_r(v) for v in values[others].tolist()] for values in axes.values()],
    }


Reasons = dict[tuple[str, str], dict[str, str]]


def reasons_of(table: ScoreTable) -> Reasons:
    """Return why captions were not scored: by id and system, by column."""
    reasons: Reasons = {}
    for u in table.unscored:
        reasons.setdefault((u.id, u.system), {})[u.column] = u.reason
    return reasons


def items(
    table: ScoreTable,
    listed: list[list[int | None]],
    reasons: Reasons,
    extras: Extras | None = None,
) -> list[dict[str, Any]]:
    """Return what the gallery shows of some samples, each a list of rows, one per system."""
    names = list(table.values)
    columns = [*table.values.values(), *(extras or Extras()).numbers.values()]
    items = []
    for rows in listed:
        first = next(row for row in rows if row is not None)
        sample = table.samples[first]
        captions: list[dict[str, Any] | None] = []
        for row in rows:
            if row is None:
                captions.append(None)
                continue
            key = (str(table.ids[row]), str(table.systems[row]))
            entry: dict[str, Any] = {
                "t": table.captions[row],
                "v": [_r(float(values[row])) for values in columns],
            }
            if key in reasons:
                entry["why"] = {str(names.index(c)): r for c, r in reasons[key].items()
                                if c in names}  # fmt: skip
            captions.append(entry)
        items.append(
            {
                "id": sample.id,
                "image": sample.image,
                "refs": list(sample.references),
                "objects": list(sample.objects or ()),
                "captions": captions,
            }
        )
    return items


# -- buckets -----------------------------------------------------------------------------------


def buckets(table: ScoreTable, extras: Extras) -> list[dict[str, Any]]:
    """Return corpus values by length, agreement, rare words and the user's columns."""
    lengths = np.array([len(text.split()) for text in table.captions], float)
    agree, rare = _of_references(table)
    out = []
    for title, values, low, high, unit in (
        ("caption length", lengths, "short", "long", "words"),
        ("agreement of the references", agree, "they differ", "they agree", "%"),
        ("rare words in the references", rare, "common words", "rare words", ""),
        *((name, values, "low", "high", "n") for name, values in extras.numbers.items()),
    ):
        parts = _thirds(values)
        if len(parts) < 2:
            continue
        middle = ["in between"] if len(parts) == 3 else []
        words = [low, *middle, high]
        out.append(
            {
                "title": title,
                "parts": [
                    {"label": word, "range": _range(values[mask], unit), "n": int(mask.sum()),
                     "values": _bucket(table, mask)}
                    for word, mask in zip(words, parts, strict=True)
                ],
            }
        )  # fmt: skip
    for title, words_of in extras.words.items():
        out.append({"title": title, "parts": [
            {"label": word, "range": "", "n": int((words_of == word).sum()),
             "values": _bucket(table, words_of == word)}
            for word in sorted({w for w in words_of if w is not None})
        ]})  # fmt: skip
    return out


def _of_references(table: ScoreTable) -> tuple[Floats, Floats]:
    """Return how far the references of each row agree, and how rare their words are.

    Agreement: by what part of the other references a content word is said, on the mean.
    """
    small = stop_words("nltk")
    blank = str.maketrans(dict.fromkeys(".,;:!?\"'()", " "))
    references = [tuple(texts) for texts in table.samples.references()]
    said: dict[tuple[str, ...], Counter[str]] = {}
    for texts in references:
        if texts not in said:
            words = (w for t in texts for w in set(t.lower().translate(blank).split()))
            said[texts] = Counter(words)
    seen = Counter(word for counts in said.values() for word in counts if word not in small)
    rarity = {word: math.log(len(said) / count) for word, count in seen.items()}
    told: dict[tuple[str, ...], tuple[float, float]] = {}
    for texts, counts in said.items():
        content = [word for word in counts if word in rarity]
        if not content:
            told[texts] = math.nan, math.nan
            continue
        mean = sum(counts[word] for word in content) / len(content)
        agree = (mean - 1) / (len(texts) - 1) if len(texts) > 1 else math.nan
        told[texts] = agree, sum(rarity[word] for word in content) / len(content)
    facts = np.array([told[texts] for texts in references], float).reshape(-1, 2)
    return facts[:, 0], facts[:, 1]


def _thirds(values: Floats) -> list[npt.NDArray[np.bool_]]:
    """Cut into three parts of about the same size; equal values stay together."""
    known = np.isfinite(values)
    if known.sum() < 6:
        return []
    low, high = np.quantile(values[known], [1 / 3, 2 / 3])
    parts = [known & (values <= low), known & (values > low) & (values <= high),
             known & (values > high)]  # fmt: skip
    return [part for part in parts if part.any()]


def _range(values: Floats, unit: str) -> str:
    low, high = float(values.min()), float(values.max())
    if unit == "words":
        span = f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
        return f"{span} words"
    if unit == "n":
        return f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{100 * low:.1f} to {100 * high:.1f} % of words shared" if unit == "%" else ""


def _bucket(table: ScoreTable, mask: npt.NDArray[np.bool_]) -> list[list[list[float | None]]]:
    """Return systems x columns of value, low, high."""
    out = []
    for system in table.corpora:
        mine = mask & (table.systems == system)
        blocks = [b[mine] for b in table.blocks]
        values: dict[str, list[float | None]] = {}
        keys, groups = np.unique(table.images[mine].astype(str), return_inverse=True)
        drawn = None
        if len(keys) > 1:
            parts = [bootstrap.group(b, groups.astype(np.int64), len(keys)) for b in blocks]
            draws = DRAWS if len(keys) <= 20_000 else 60
            drawn = bootstrap.resampled(
                [p[0] for p in parts], [p[1] for p in parts], draws, table.seed
            )
        for number, (step, block) in enumerate(zip(table.steps, blocks, strict=True)):
            point = step.metric.aggregate(block)
            low = high = np.full(len(point), np.nan)
            if drawn is not None:
                low, high = bootstrap.interval(step.metric.corpus(*drawn[number]))
            for name, at in zip(step.names, step.index, strict=True):
                values[name] = [_n(point[at]), _n(low[at]), _n(high[at])]
        out.append([values[name] for name in table.values])
    return out


def rows_of(shown: Shown) -> Ints:
    """Return the rows of the table that the gallery shows."""
    return np.array([row for rows in shown.rows for row in rows if row is not None], np.int64)


def _r(value: float) -> float | None:
    """Round to what can be seen: five significant digits."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _n(value: Any) -> float | None:
    return _r(float(value))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
