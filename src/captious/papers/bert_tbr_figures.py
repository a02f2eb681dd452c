"""Tables 1, 2 and 5 of the BERT-TBR paper, and its settings: what is no plain table of metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from captious.errors import InputError
from captious.judgements import protocols, sets
from captious.judgements.judgement_set import SystemTable
from captious.judgements.sets import _coco, coco2015
from captious.meta import agreement
from captious.meta.tables import short
from captious.models.encoder_defaults import defaults
from captious.papers.analyses import Analysis, left_out, number
from captious.papers.bench import Bench
from captious.papers.paper_tables import BERT, CLASSIC, PROFILE, Choice, Rows, reported
from captious.papers.reproduce import asked_spec, choose
from captious.reading import read_parquet
from captious.types import CaptionSet, Floats

_EXPERT = "flickr8k-expert/tau-b-mean"
_JOINED = f"{_EXPERT}+joined=True"
_LEADERBOARD = {
    "ROUGE-L": "ROUGE_L",
    "BLEU-1": "Bleu_1",
    "BLEU-4": "Bleu_4",
    "CIDEr": "CIDEr",
    "METEOR": "METEOR",
    "SPICE": "SPICE",
}
_PARTS = {
    "BS(BERT-base)": "BS",
    "Ours (BERT+T)": "T",
    "Ours (BERT+T+cat+R)": "TcatR",
    "Ours (BERT+TB)": "TB",
    "Ours (BERT+TBR)": "TBR",
}
# The columns of coco/karpathy_test_systems.parquet that hold the captions of Table 5's captioners.
CAPTIONERS = {
    "AoAnet": "aoanet",
    "M2-Transformer": "m2_transformer",
    "SAT": "sat",
    "CNN+LSTM": "cnn_lstm",
    "NeuralTalk": "neuraltalk",
}
# A caption that ends in one of these breaks off.
_ARTICLES = ("a", "an", "the")
_OPEN = (*_ARTICLES, "of", "in", "on", "at", "with", "and", "or", "to", "by", "for", "from", "is",
         "are", "near", "next")  # fmt: skip


def _profiled(bench: Bench, choices: tuple[Choice, ...] | str) -> tuple[Choice | None, str]:
    """Return what stands for a row under the profile of this run."""
    if isinstance(choices, str):
        return None, choices
    profile = bench.profile or "paper"
    return choose(
        tuple(
            Choice(c.spec.replace(PROFILE, profile), c.column, c.note, c.objects) for c in choices
        ),
        bench,
    )


def _tbr(part: str) -> tuple[Choice, ...]:
    told = f"profile='{PROFILE}'" + (f",parts='{part}'" if part != "TBR" else "")
    note = "encoder MiniLM instead of BERT-base"
    return (
        Choice(f"bert_tbr({told},model='bert-base-uncased')", "bert_tbr"),
        Choice(f"bert_tbr({told})", "bert_tbr", note),
    )


def _of_teams(label: str) -> tuple[Choice, ...] | str:
    """Return the metric of a row of Tables 1 and 2, to be run on captions of the teams."""
    names: Rows = {
        "BS (BERT-base)": BERT["BS (BERT)"],
        "BS (RoBERTa-large)": BERT["BS (RoBERTa)"],
        **BERT,
        **CLASSIC,
        **{k: _tbr(v) for k, v in _PARTS.items()},
    }
    return names.get(label.removesuffix(" (cat)"), "captious has no metric for this row")


def team_scores(bench: Bench, label: str, table: SystemTable, joined: bool) -> tuple[Floats, str]:
    """Return the mean score of every team (NaN without captions), and why there is none.

    Captions of teams are read from ``coco2015/captions/TEAM.json`` (COCO results), references from
    the COCO captions.
    """
    means = np.full(len(table.systems), np.nan)
    teams = coco2015.team_captions(bench.root, table.systems)
    if len(teams) < 3:
        return means, (
            "runs with the captions of at least three teams: "
            f"{coco2015.CAPTIONS}/TEAM.json (COCO results on val2014 images)"
        )
    choice, why = _profiled(bench, _of_teams(label))
    if choice is None:
        return means, short(why)
    references = _coco.captions(bench.root)
    spec = asked_spec(choice)
    name = choice.column + spec[len(spec.partition("(")[0]) :]
    for at, team in enumerate(table.systems):
        captions = {i: c for i, c in teams.get(team, {}).items() if i in references}
        if not captions:
            continue
        samples = CaptionSet.build(
            list(captions.values()),
            [references[i] for i in captions],
            ids=[str(i) for i in captions],
            images=[str(i) for i in captions],
        )
        if joined:
            samples = protocols.with_joined(samples)
        columns = bench.columns([spec], samples, {})
        if name in columns:
            means[at] = float(np.nanmean(columns[name]))
    return means, ""


def coco_2015(bench: Bench) -> Analysis:
    """BERT-TBR, Table 1: Pearson r of systems with M1 and M2, with p-values."""
    table = sets.load("coco2015", bench.root)
    if not isinstance(table, SystemTable):
        raise InputError("coco2015 is not a table of systems")
    printed = reported()["bert_tbr"]["table1_coco2015_pearson"]
    cells = [["row", "human", "paper (p), 12 teams", "captions (p)",
              "C5 (p)", "leave one out", "C40 (p)", "leave one out"]]  # fmt: skip
    teams = np.array([t not in coco2015.NOT_TEAMS for t in table.systems])
    size = 0
    why: dict[str, str] = {}
    for label, row in printed.items():
        own, lacking = team_scores(bench, label, table, joined=False)
        if lacking:
            why[label] = lacking
        for human in ("M1", "M2"):
            y = table.human[human]
            line = [label, human, f"{row[human]:.3f} ({row[f'{human}_p']:.3f})"]
            line.append(_correlation(own, y, teams))
            for prefix in ("c5_", "c40_"):
                if label not in _LEADERBOARD:
                    line += ["-", "-"]
                    continue
                x = table.metrics[prefix + _LEADERBOARD[label]]
                keep = teams & ~np.isnan(x)
                size = int(keep.sum())
                low, high = agreement.leave_one_out(x[keep], y[keep])
                line += [_correlation(x, y, teams), f"{low:.2f} .. {high:.2f}"]
            cells.append(line)
    reasons: dict[str, list[str]] = {}
    for label, reason in why.items():
        reasons.setdefault(reason, []).append(label)
    return Analysis(
        "BERT-TBR, Table 1: COCO 2015, Pearson r of systems with people",
        cells,
        [
            f"C5, C40: published leaderboard scores of {size} teams (Human and Random left out), "
            "hidden test images; the paper scores captions of 12 teams, which it does not name, on "
            "validation images",
            "p: two-sided, teams taken as independent",
            *(f"dash in column captions, {', '.join(x)}: {r}" for r, x in reasons.items()),
            "dash in C5 and C40: the leaderboard does not show this metric",
            f"M1: {coco2015.HUMAN['M1']}; M2: {coco2015.HUMAN['M2']}",
        ],
    )


def _correlation(x: Floats, y: Floats, teams: np.ndarray) -> str:
    keep = teams & ~np.isnan(x)
    if keep.sum() < 3:
        return "-"
    p = agreement.p_value("r", x[keep], y[keep])
    return f"{agreement.pearson(x[keep], y[keep]):.3f} ({p:.3f})"


def ablation_demands(bench: Bench) -> list[tuple[str, str, str]]:
    """Return what Table 2 takes scores of."""
    demands = []
    for label in reported()["bert_tbr"]["table2_ablation_pearson"]:
        choice, _ = _profiled(bench, _of_teams(label))
        if choice is not None:
            demands.append(
                (asked_spec(choice), _JOINED if label.endswith("(cat)") else _EXPERT, "")
            )
    return demands


def ablation(bench: Bench) -> Analysis:
    """BERT-TBR, Table 2: the ablation; on Flickr8k where captions of the teams are not here."""
    printed = reported()["bert_tbr"]["table2_ablation_pearson"]
    table = sets.load("coco2015", bench.root)
    if not isinstance(table, SystemTable):
        raise InputError("coco2015 is not a table of systems")
    teams = np.array([t not in coco2015.NOT_TEAMS for t in table.systems])
    cells = [["row", "M1 paper / ours", "M2 paper / ours", "Flickr8k-Expert tau-b-mean, ours",
              "computed by", "remark"]]  # fmt: skip
    why: dict[str, str] = {}
    for label, row in printed.items():
        joined = label.endswith("(cat)")
        own, lacking = team_scores(bench, label, table, joined)
        keep = teams & ~np.isnan(own)
        r = [
            f"{agreement.pearson(own[keep], table.human[m][keep]):.3f}" if keep.sum() > 2 else "-"
            for m in ("M1", "M2")
        ]
        if lacking:
            why["M1, M2"] = lacking
        value, used, note = "-", "-", ""
        choice, missing = _profiled(bench, _of_teams(label))
        if choice is None:
            why[label] = short(missing)
        else:
            spec, note = asked_spec(choice), choice.note
            used = choice.column + spec[len(spec.partition("(")[0]) :]
            result = bench.result(spec, _JOINED if joined else _EXPERT).result(used)
            if result.reason:
                why[label] = short(result.reason)
            else:
                value = f"{result.value:.3f}"
        cells.append(
            [label, f"{row['M1']:.3f} / {r[0]}", f"{row['M2']:.3f} / {r[1]}", value, used, note]
        )
    return Analysis(
        "BERT-TBR, Table 2: ablation",
        cells,
        [
            f"profile {bench.profile or 'paper'}; BS is plain recall with idf (section 2.2), the "
            "same as in Tables 3 and 4",
            f"(cat): {protocols.get(_JOINED).describe()}",
            *left_out(why),
        ],
    )


def caption_specs(bench: Bench) -> list[str]:
    """Return the metrics of Table 5."""
    choice, _ = _profiled(bench, BERT["Ours (BERT)"])
    return [*([] if choice is None else [asked_spec(choice)]), "cider_d"]


def captioners(bench: Bench, only: tuple[str, ...] | None = None) -> Analysis:
    """BERT-TBR, Table 5: mean scores of captioners on COCO Karpathy-test."""
    content = _karpathy(bench)
    specs = list(only or caption_specs(bench))
    why: dict[str, str] = {}
    printed = reported()["bert_tbr"]["table5_captioners"]
    cells = [["captioner", "Ours (BERT) paper / ours", "CIDEr-D paper / ours"]]
    for label, row in printed.items():
        column = CAPTIONERS[label]
        mine: dict[str, float] = {}
        if column in content.column_names:
            images = [str(i) for i in content["image_id"].to_pylist()]
            samples = CaptionSet.build(
                content[column].to_pylist(),
                content["references"].to_pylist(),
                ids=images,
                images=images,
            )
            # The corpus value of both is the mean of the captions' values.
            columns = bench.columns(specs, samples, why)
            mine = {k.partition("(")[0]: float(np.nanmean(v)) for k, v in columns.items()}
        else:
            why[label] = f"runs with a column {column!r} in coco/karpathy_test_systems.parquet"
        cells.append(
            [
                label,
                f"{row['Ours (BERT)']:.4f} / {number(mine.get('bert_tbr'), 4)}",
                f"{row['CIDEr-D']:.3f} / {number(mine.get('cider_d'), 3)}",
            ]
        )
    return Analysis(
        "BERT-TBR, Table 5: captioners on COCO Karpathy-test",
        cells,
        [
            f"computed by {' and '.join(specs)}; with another encoder than the paper's the level "
            "of the first column is another one",
            *left_out(why),
        ],
    )


def _karpathy(bench: Bench) -> Any:
    path = bench.root / "coco/karpathy_test_systems.parquet"
    if not path.exists():
        raise InputError(f"{path} was not found: it holds captions of Karpathy's test images")
    return read_parquet(path)


def settings(bench: Bench) -> Analysis:
    """BERT-TBR, settings: thresholds, rows of Flickr8k, incomplete captions of M2."""
    printed = reported()["bert_tbr"]["settings"]
    cells = [["what", "paper", "ours"]]
    for key, encoder in (
        ("beta_bert_base", "bert-base-uncased"),
        ("beta_roberta_large", "roberta-large"),
    ):
        known = defaults(encoder)
        cells.append(
            [
                f"threshold, {encoder}",
                f"{printed[key]:g}",
                number(None if known is None else known.threshold, 2),
            ]
        )
    why: dict[str, str] = {}
    try:
        rows = len(bench.judged("flickr8k-expert").without_own().samples)
        cells.append(["rows of Flickr8k-Expert", f"{printed['flickr8k_used']:,}", f"{rows:,}"])
    except InputError as err:
        why["rows of Flickr8k-Expert"] = short(str(err))
    try:
        captions = _karpathy(bench)["m2_transformer"].to_pylist()
        for what, words in (("an article", _ARTICLES), ("an article, preposition, ...", _OPEN)):
            count = sum(broken_off(c, words) for c in captions)
            cells.append(
                [
                    f"captions of M2 that break off: last word is {what}",
                    printed["m2_incomplete_captions"],
                    f"{count:,}/{len(captions):,}",
                ]
            )
    except InputError as err:
        why["captions of M2"] = short(str(err))
    return Analysis(
        "BERT-TBR: settings and counts",
        cells,
        [
            "the paper does not say what counts as incomplete, nor which M2 captions it read",
            *left_out(why),
        ],
    )


def broken_off(caption: str, words: tuple[str, ...] = _ARTICLES) -> bool:
    """Say whether a caption ends in a word that cannot end one.

    Example:
        >>> broken_off("a bed and a tv in a"), broken_off("a bed.")
        (True, False)
    """
    last = caption.lower().rstrip(" .").split()[-1:]
    return bool(last) and last[0] in words
