"""Tables of all metrics on one set after the other, for the page of results."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from captious.engine.evidence import photographs_of
from captious.errors import InputError
from captious.judgements import protocols
from captious.meta import agreement, diagnostics, pictures
from captious.meta.evaluate import Evaluation, Result
from captious.meta.tables import grid, paragraph, short
from captious.papers.analyses import wanted
from captious.papers.bench import Bench, lacking_files

EXPERT = (
    "flickr8k-expert/tau-c-pooled",
    "flickr8k-expert/tau-b-mean",
    "flickr8k-expert/rho-pooled",
    "flickr8k-expert/r-mean",
)
CROWD = ("flickr8k-cf/tau-b", "flickr8k-cf/tau-c", "flickr8k-cf/tau-b-without-own")
PAIRS = (
    "pascal50s/strict-5refs",
    "pascal50s/half-5refs",
    "pascal50s/correct-5refs",
    "pascal50s-votes/half-5drawn+draws=1",
)
CXC = ("cxc-others/tau-b-B", "cxc-others/rho-B")
FOILS = ("nocaps-foil/half-allrefs", "nocaps-foil/strict-allrefs")
HEADLINES = {
    "Flickr8k-Expert, tau-c": EXPERT[0],
    "Flickr8k-CF, tau-b": CROWD[0],
    "PASCAL-50S, accuracy": PAIRS[0],
    "CxC half B, tau-b": CXC[0],
    "nocaps-FOIL, accuracy": FOILS[0],
}
_MINOR = (
    "bleu_2", "bleu_3", "spice_", "scene_o", "scene_a", "scene_r", "scene_c", "wmd_", "bertscore_p",
    "bertscore_r", "vilbertscore_p", "vilbertscore_r", "cider_d(", "scan_", "rrs", "wds", "slor",
    "stumbles", "chair_i", "chair_recall", "chair_s", "noun_support_", "div_", "mbleu_4",
    "self_cider", "vocabulary", "novel", "composite",
)  # fmt: skip
"""Parts of other columns; ``composite`` is ``eval_mwcs`` under its other name."""


def minor(column: str) -> bool:
    """Say whether a column is a part of another: one line per metric is enough to compare.

    Example:
        >>> minor("bleu_2"), minor("bleu_4"), minor("spice_color"), minor("composite")
        (True, False, True, True)
    """
    return column.startswith(_MINOR)


def specs(bench: Bench) -> tuple[list[str], dict[str, str]]:
    """Return the metrics of the page, and why others cannot run."""
    fine, why = wanted(bench)
    if "cider_d" in fine:
        fine.insert(fine.index("cider_d") + 1, "cider_d(by='row')")
    return fine, why


_UNSEEN = {"chair": "chair(objects=False)", "captious_ref": "captious_ref(image=False)"}
"""What stands for a metric where there is neither photograph nor label to look at."""


def specs_on(bench: Bench, protocol: str) -> list[str]:
    """Return the metrics of the page for one set: on a set without pictures, what can do so."""
    fine = specs(bench)[0]
    try:
        samples = bench.judged(protocols.get(protocol).set).samples
    except InputError:  # the page says what is missing
        return fine
    if samples.objects is not None or photographs_of(samples):
        return fine
    return [_UNSEEN.get(spec, spec) for spec in fine]


def signatures(bench: Bench) -> list[str]:
    """Return one line for every metric that the bench has results of.

    Parts that differ between tables stand in braces: ``refs:{1,5,48}``.
    """
    by_metric: dict[str, dict[str, dict[str, None]]] = {}
    names: dict[str, str] = {}
    for (spec, *_), evaluation in bench.results().items():
        for result in evaluation.results:
            if result.signature:
                first, *parts = result.signature.split("|")
                names[spec] = first
                held = by_metric.setdefault(spec, {})
                for part in parts:
                    key, _, value = part.partition(":")
                    held.setdefault(key, {})[value] = None
    lines = []
    for spec in sorted(by_metric):
        parts = [
            f"{key}:{next(iter(values))}"
            if len(values) == 1
            else f"{key}:{{{','.join(sorted(values, key=_natural))}}}"
            for key, values in by_metric[spec].items()
        ]
        lines.append("|".join([names[spec], *parts]))
    return list(dict.fromkeys(lines))


def _natural(text: str) -> tuple[float, str]:
    return (float(text) if text.isdigit() else math.inf), text


@dataclass
class Page:
    """The sections about all metrics; notes of what is missing gather for the appendix.

    Attributes:
        bench: where results come from.
        folder: where pictures go.
        trials: permutations.
        why: metric -> why it has no row.
        gaps: metric -> how many captions of a set have no score.
    """

    bench: Bench
    folder: Path
    trials: int
    why: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)

    def headlines(self) -> str:
        """Return one number per set for the main column of every metric."""
        lacking = {title: self._lacking(name) for title, name in HEADLINES.items()}
        titles = [title for title, why in lacking.items() if not why]
        rows: dict[str, dict[str, float]] = {}
        for title in titles:
            for result in self._results(HEADLINES[title]):
                if not minor(result.metric):
                    scale = 100 if "accuracy" in title else 1
                    rows.setdefault(result.metric, {})[title] = scale * result.value
        cells = [["metric", *titles]]
        for metric in sorted(rows, key=lambda m: -rows[m].get(titles[0], -9.0)):
            shown = [_shown(rows[metric].get(t), t) for t in titles]
            cells.append([metric, *shown])
        said = paragraph(
            "One line per metric, sorted by the first column; the sections below have all columns, "
            "intervals and other protocols. Accuracy is in percent (PASCAL-50S: ties are wrong; "
            "nocaps-FOIL: ties count half)."
        )
        gone = [f"{t.partition(',')[0]}: {why}." for t, why in lacking.items() if why]
        return (
            f"## Which metric agrees best with people?\n\n{said}\n\n{grid(cells, 'markdown')}\n"
            + "".join(f"\n{paragraph(line)}\n" for line in gone)
        )

    def expert(self) -> str:
        """Return Flickr8k-Expert: four measures."""
        judged = self.bench.judged("flickr8k-expert")
        limit = "; ".join(f"{k} {v:.3f}" for k, v in agreement.ceiling(judged).items())
        return self._table(
            "How well do scores follow experts' ratings? (Flickr8k-Expert)",
            dict(zip(("tau-c, pooled", "tau-b, mean", "rho, pooled", "r, mean"), EXPERT,
                     strict=True)),
            f"People among themselves: {limit}.",
        )  # fmt: skip

    def crowd(self) -> str:
        """Return Flickr8k-CF."""
        return self._table(
            "How well do scores follow the crowd's ratings? (Flickr8k-CF)",
            dict(zip(("tau-b", "tau-c", "tau-b, own reference left out"), CROWD, strict=True)),
        )

    def pairs(self) -> str:
        """Return PASCAL-50S: rules for ties, and kinds of pairs."""
        votes = agreement.ceiling(self.bench.judged("pascal50s-votes"))
        limit = "; ".join(f"{k} {v:.3f}" for k, v in votes.items())
        whole = self._table(
            "Which of two captions is better? (PASCAL-50S)",
            dict(zip(("ties wrong", "ties half", "ties right", "direct votes, ties half"), PAIRS,
                     strict=True)),
            f"People among themselves (direct votes): {limit}.",
        )  # fmt: skip
        return whole + self._groups(
            "By kind of pair, ties half", PAIRS[1], ("HC", "HI", "HM", "MM")
        )

    def crisscrossed(self) -> str:
        """Return Crisscrossed Captions, half B."""
        return self._table(
            "How well does another photograph's caption fit? (Crisscrossed Captions, half B)",
            dict(zip(("tau-b", "rho"), CXC, strict=True)),
            self._labels(CXC[0]),
        )

    def foils(self) -> str:
        """Return nocaps-FOIL: is a wrong noun seen?"""
        name = FOILS[0]
        whole = self._table(
            "Is one wrong noun seen? (nocaps-FOIL)",
            dict(zip(("ties half", "ties wrong"), FOILS, strict=True)),
            self._labels(name),
        )
        if self._lacking(name):
            return whole
        domains = ("in-domain", "near-domain", "out-domain")
        return whole + self._groups("By domain, ties half", name, domains)

    def compared(self) -> str:
        """Return pictures of intervals and tests, and the tree of metrics that say the same."""
        parts = ["## Who beats whom?\n"]
        for name, title in ((EXPERT[0], "flickr8k-expert"), (PAIRS[1], "pascal50s")):
            parts.append(self._tested(self._together(name), title))
        evaluation = self._together(EXPERT[0])
        names, matrix = diagnostics.correlations(
            {k: v for k, v in evaluation.scores.items() if not minor(k)}
        )
        if len(names) > 1:
            tree = self.folder / "metric-tree.svg"
            pictures.dendrogram(names, diagnostics.linkage(matrix), tree)
            parts.append(
                "## Which metrics say the same?\n\n![Spearman's rho between metrics on "
                "Flickr8k-Expert, average linkage](pictures/metric-tree.svg)\n"
            )
        return "\n".join(parts)

    def diagnosed(self) -> str:
        """Return agreement by length, by agreement of the judges, and by kind of error."""
        parts = ["## Where do metrics and people differ?\n"]
        for name, title in ((EXPERT[0], "Flickr8k-Expert"), (PAIRS[3], "PASCAL-50S")):
            evaluation = self._together(name)
            for what, split in (
                ("by caption length", diagnostics.by_length(evaluation)),
                ("by agreement of the judges", diagnostics.by_judges(evaluation)),
                ("by kind of error", diagnostics.by_error(evaluation)),
            ):
                if split:
                    cells = diagnostics.cells(evaluation, split, keep=lambda m: not minor(m))
                    head = f"### {title}, {evaluation.protocol.measure} {what}"
                    parts.append(f"{head}\n\n{grid(cells, 'markdown')}\n")
        return "\n".join(parts)

    # -- parts ---------------------------------------------------------------------------------

    def _lacking(self, protocol: str) -> str:
        """Return why a set is not here, or nothing."""
        name = protocols.get(protocol).set
        try:
            self.bench.judged(name)
        except InputError as err:
            return lacking_files(err, name)
        return ""

    def _labels(self, protocol: str) -> str:
        """Say what metrics that look had to look at."""
        if self._lacking(protocol):
            return ""
        samples = self.bench.judged(protocols.get(protocol).set).samples
        if samples.evidence.labels is not None:
            joined = "val2014_objects" in samples.evidence.labels.source
            nouns = ", which joins COCO's instances with nouns of the references" if joined else ""
            return (
                f"Metrics of object labels read `{samples.evidence.labels.source}`{nouns}; "
                "[another page](results-companions.md) has them with labels that were detected."
            )
        if photographs_of(samples):
            return ""
        return (
            "Neither the photographs of this set nor labels of them are here: metrics that need "
            "one have no row, and `chair` and `captious_ref` stand with what references say alone."
        )

    def _together(self, protocol: str) -> Evaluation:
        return self.bench.together(specs(self.bench)[0], protocol)

    def _results(self, protocol: str) -> list[Result]:
        """Return the results of all metrics; those without a value are noted."""
        self.why |= specs(self.bench)[1]
        results = []
        name = protocols.get(protocol).set
        for spec in specs_on(self.bench, protocol):
            for result in self.bench.result(spec, protocol).results:
                if result.reason:
                    self.why[f"{result.metric} on {name}"] = short(result.reason, 200)
                    continue
                if result.unscored:
                    whole = result.n + result.unscored
                    self.gaps[f"{result.metric} on {name}"] = (
                        f"{result.unscored:,} of {whole:,} without a score"
                    )
                results.append(result)
        return results

    def _table(self, title: str, columns: dict[str, str], remark: str = "") -> str:
        """Return all metrics under several protocols; the first has intervals and sorts."""
        lacking = self._lacking(next(iter(columns.values())))
        if lacking:
            return f"## {title}\n\n{paragraph(f'Not computed: {lacking}.')}\n"
        first = next(iter(columns))
        rows: dict[str, dict[str, Result]] = {}
        for column, protocol in columns.items():
            for result in self._results(protocol):
                rows.setdefault(result.metric, {})[column] = result
        cells = [["metric", first, "95 % interval", *list(columns)[1:]]]
        for metric, row in sorted(rows.items(), key=lambda item: -_value(item[1].get(first))):
            interval = f"{row[first].low:.4f} .. {row[first].high:.4f}" if first in row else "-"
            values = {c: f"{row[c].value:.4f}" if c in row else "-" for c in columns}
            cells.append([metric, values.pop(first), interval, *values.values()])
        said = f"\n{paragraph(remark)}\n" if remark else ""
        return f"## {title}\n\n{grid(cells, 'markdown')}\n{said}"

    def _groups(self, title: str, protocol: str, groups: tuple[str, ...]) -> str:
        cells = [["metric", *groups, "all"]]
        for r in sorted(self._results(protocol), key=lambda r: -r.value):
            shares = (f"{100 * r.groups[g]:.1f}" for g in groups)
            cells.append([r.metric, *shares, f"{100 * r.value:.1f}"])
        return f"\n### {title}\n\n{grid(cells, 'markdown')}\n"

    def _tested(self, evaluation: Evaluation, name: str) -> str:
        columns = [r.metric for r in evaluation.results if not r.reason and not minor(r.metric)]
        tests = evaluation.tests(columns, trials=self.trials)
        pictures.intervals(evaluation, self.folder / f"{name}-intervals.svg", columns)
        pictures.beats(evaluation, tests, self.folder / f"{name}-beats.svg")
        close = [t for t in tests if t.corrected >= 0.05]
        told = (
            f"{evaluation.protocol.name}: {len(tests)} pairs of metrics were compared (PERM-BOTH "
            f"by image, {max(self.trials, 100 * len(tests)):,} permutations, Holm); "
            f"{len(tests) - len(close)} differ at p < .05. Not told apart: "
            + (", ".join(f"{t.a} and {t.b}" for t in close) or "none")
            + "."
        )
        return (
            f"{paragraph(told)}\n\n"
            f"![agreement with intervals](pictures/{name}-intervals.svg)\n\n"
            f"![who beats whom](pictures/{name}-beats.svg)\n"
        )


def _value(result: Result | None) -> float:
    return -9.0 if result is None else result.value


def _shown(value: float | None, title: str) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if "accuracy" in title else f"{value:.3f}"
