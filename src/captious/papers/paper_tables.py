"""The tables of the five papers: what stands in each row and column, and how it is computed here.

The printed numbers are in ``reported.json`` (paper -> table -> row -> column). A row lists the
metrics that can stand for it, the paper's own first; the first one that can run here is taken, and
where that is a substitute its note says so. Nothing is marked as missing here: whether a column can
be computed is seen from the files that are there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

PROFILE = "{profile}"  # stands in a spec for the profile that --profile names


@dataclass(frozen=True)
class Choice:
    """A metric that can stand for a row of a paper.

    Attributes:
        spec: the metric; ``{profile}`` in it is replaced.
        column: its column, without parameters.
        note: what differs from the paper.
        objects: where object labels come from (``gold``, ``D500``, ``gold+D500``, ``detector``);
            empty takes what the set brings or the user gave.
    """

    spec: str
    column: str
    note: str = ""
    objects: str = ""


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        label: as shown.
        choices: what can stand for it, or why nothing does.
        printed: its name in ``reported.json``; empty if it is ours.
        human: the kind of agreement among people that stands here (``agreement.ceiling``).
    """

    label: str
    choices: tuple[Choice, ...] | str = ()
    printed: str = ""
    human: str = ""


@dataclass(frozen=True)
class PaperColumn:
    """One column of a paper's table.

    Attributes:
        key: its name in ``reported.json``.
        protocol: how it is computed here.
        group: the group of the set, or empty for the whole.
        options: parameters that this column changes in every row's metric, e.g. ``counts=True``.
    """

    key: str
    protocol: str
    group: str = ""
    options: str = ""


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper.

    Attributes:
        paper: which paper.
        name: e.g. ``table1``.
        key: its name in ``reported.json``.
        title: as shown.
        columns: its columns.
        rows: its rows.
        scale: 100 for percent.
        note: what one has to know of the printed numbers.
        p: what the paper says of its p-values.
        profile: the profile that ``{profile}`` stands for unless the user names one.
    """

    paper: str
    name: str
    key: str
    title: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[Row, ...]
    scale: float = 1.0
    note: str = ""
    p: str = ""
    profile: str = "paper"


@lru_cache(maxsize=1)
def reported() -> dict[str, Any]:
    """Return the printed numbers of all papers."""
    text = files("captious.papers").joinpath("reported.json").read_text("utf-8")
    return json.loads(text)


_WORD2VEC = "word2vec-google-news-300"
_MINILM = "encoder MiniLM (saw captions in training) instead of the paper's"
_GLOVE = "GloVe 50-d instead of word2vec"
_OURS = "our own small grounding model and regions instead of the paper's"
Rows = dict[str, tuple[Choice, ...] | str]


def _one(spec: str, column: str = "", note: str = "") -> tuple[Choice, ...]:
    return (Choice(spec, column or spec.partition("(")[0], note),)


def _rows(rows: Rows, cited: str = "") -> tuple[Row, ...]:
    return tuple(Row(label + cited, choices, label + cited) for label, choices in rows.items())


def _tbr(parts: str, encoder: str) -> tuple[Choice, ...]:
    """BERT-TBR or one of its parts with the paper's encoder; MiniLM may stand for BERT-base."""
    told = f"profile='{PROFILE}'" + (f",parts='{parts}'" if parts != "TBR" else "")
    own = Choice(f"bert_tbr({told},model='{encoder}')", "bert_tbr")
    if encoder != "bert-base-uncased":
        return (own,)
    return (own, Choice(f"bert_tbr({told})", "bert_tbr", _MINILM))


def vectors(spec: str, column: str, objects: str = "", note: str = "") -> tuple[Choice, ...]:
    """Return a metric with the paper's word vectors, or with those that come with captious."""
    name, _, rest = spec.rstrip(")").partition("(")
    told = ",".join(filter(None, (rest, f"vectors='{_WORD2VEC}'")))
    plain = "; ".join(filter(None, (_GLOVE, note)))
    return (
        Choice(f"{name}({told})", column, note, objects),
        Choice(spec, column, plain, objects),
    )


CIDER = _one("cider_d(by='row')", "cider_d", "CIDEr-D, one document per row")
WMD = vectors("wmd", "wmd")
WORST = vectors("wmd", "wmd_worst")
SPICE = _one("spice", note="spaCy scene graphs instead of CoreNLP's")
CLASSIC: Rows = {
    "BLEU-1": _one("bleu", "bleu_1"),
    "BLEU-4": _one("bleu", "bleu_4"),
    "ROUGE-L": _one("rouge_l"),
    "METEOR": _one("meteor"),
    "CIDEr": CIDER,
    "SPICE": SPICE,
}
TIGER: Rows = {
    "RRS": _one("tiger", "rrs", _OURS),
    "WDS": _one("tiger", "wds", _OURS),
    "TIGEr": _one("tiger", "tiger", _OURS),
}
BERT: Rows = {
    "BS (BERT)": _tbr("BS", "bert-base-uncased"),
    "BS (RoBERTa)": _tbr("BS", "roberta-large"),
    "Ours (BERT)": _tbr("TBR", "bert-base-uncased"),
    "Ours (RoBERTa)": _tbr("TBR", "roberta-large"),
    "Ours (RBT)": _tbr("TBR", "roberta-large"),
    "Ours (Unigram)": _one("unigram_tbr"),
    "LEIC (cited)": "LEIC is a trained network whose weights were never released",
}
EVAL: Rows = {
    f"Eval{x}": _one(f"eval_{x.lower()}", note="trained by us on other captioners")
    for x in ("MS", "CS", "MCS", "WCS", "MWS", "MWCS")
}


def _vilbert(star: str) -> Rows:
    """The official checkpoint first; for the pre-trained model our compact one may stand."""
    weights, profile = ("vilbert-multitask", "release") if star else ("vilbert-pretrained", "clean")
    told = f"vilbertscore(model='{weights}',profile='{profile}')"
    note = "our own compact model and 36 regions instead of the paper's checkpoint and 100"
    rows: Rows = {}
    for x in "PRF":
        column = f"vilbertscore_{x.lower()}"
        own = Choice(told, column)
        rows[f"ViLBERTScore{star}_{x}"] = (
            (own,) if star else (own, Choice("vilbertscore", column, note))
        )
    return rows


_EXPERT, _PASCAL = "flickr8k-expert", "pascal50s/strict-5refs"
KINDS = ("HC", "HI", "HM", "MM")


def _pascal(whole: str, protocol: str = _PASCAL) -> tuple[PaperColumn, ...]:
    return (*(PaperColumn(k, protocol, k) for k in KINDS), PaperColumn(whole, protocol))


def _pick(rows: Rows, *labels: str) -> Rows:
    return {label: rows[label] for label in labels}


# -- VIFIDEL: the paper's profile and our measured default, each with named labels -------------

_DETECTED = "our detector (SSD-MobileNetV2, 80 classes) instead of the paper's D500"


def _vifidel(label: str, objects: str, spec: str = "vifidel", options: str = "") -> tuple[Row, ...]:
    """Return a printed row twice: with the paper's profile, and with our measured default."""
    rows = []
    for profile in ("paper", "measured"):
        told = ",".join(filter(None, (f"profile='{profile}'", options)))
        choices = vectors(f"{spec}({told})", spec, objects)
        if objects == "D500":
            choices += vectors(f"{spec}({told})", spec, "detector", _DETECTED)
        rows.append(Row(f"{label} [{profile}]", choices, label))
    return tuple(rows)


_VIFIDEL_CLASSIC: Rows = {
    "BLEU1": CLASSIC["BLEU-1"],
    "BLEU4": CLASSIC["BLEU-4"],
    "ROUGE_L": CLASSIC["ROUGE-L"],
    "METEOR": CLASSIC["METEOR"],
    "CIDEr": CIDER,
    "SPICE": SPICE,
}
_VIFIDEL_MORE: Rows = {
    "WMD_best": WMD,
    "WMD_worst": WORST,
    "LM": _one("lm", note="our own language model of COCO captions"),
}
_VIFIDEL_PASCAL = (*_vifidel("VIFIDEL gold", "gold"), *_vifidel("VIFIDEL D500", "D500"))
_BY_COUNT = {
    "0": "pascal50s/half-0refs",
    "1": "pascal50s/half-1drawn",
    "5": "pascal50s/half-5refs",
    "48": "pascal50s/half-48drawn",
}
_TIES = "the paper leaves the tie rule open: ties count half here"
_SETS = {"relevance": "composite", "thoroughness": "composite-thoroughness"}
_UNION = (
    "labels of gold and D500 put together, each once; `--objects gold=FILE D500=FILE` names them"
)


def _by_count(counts: tuple[str, ...]) -> tuple[PaperColumn, ...]:
    return tuple(
        PaperColumn(f"{n}_{k}", _BY_COUNT[n], "" if k == "all" else k)
        for n in counts
        for k in (*KINDS, "all")
    )


TABLES = (
    PaperTable(
        "tiger",
        "table1",
        "table1_correlation",
        "TIGEr, Table 1: caption-level correlation",
        (
            PaperColumn("composite_tau", "composite/tau-c"),
            PaperColumn("composite_rho", "composite/rho"),
            PaperColumn("flickr8k_tau", f"{_EXPERT}/tau-c-pooled"),
            PaperColumn("flickr8k_rho", f"{_EXPERT}/rho-pooled"),
        ),
        _rows(CLASSIC | TIGER),
        note="BLEU-4: the printed tau .138 and rho .387 cannot come from one list of scores; .138 "
        "is near what scores floored to 0 give",
        p="the paper: all p < .01",
    ),
    PaperTable(
        "tiger",
        "table2",
        "table2_pascal50s_accuracy",
        "TIGEr, Table 2: PASCAL-50S accuracy",
        _pascal("All"),
        _rows(CLASSIC | _pick(TIGER, "TIGEr")),
        100.0,
        note="the paper does not say which five references it drew",
    ),
    PaperTable(
        "composite",
        "table1",
        "table1_kendall",
        "Sharif et al., Table 1: Kendall tau",
        (PaperColumn("tau", "composite/tau-b"),),
        _rows(
            {"BLEU": CLASSIC["BLEU-4"]}
            | _pick(CLASSIC, "ROUGE-L", "METEOR", "CIDEr", "SPICE")
            | {"WMD": WMD}
            | EVAL
        ),
        note="its 6,993 captions are no part of the released ratings that could be named; ours are "
        "all 11,985",
        p="the paper: all p < .001",
    ),
    PaperTable(
        "composite",
        "table2",
        "table2_pascal50s_accuracy",
        "Sharif et al., Table 2: PASCAL-50S accuracy",
        _pascal("AVG"),
        _rows(
            {"BLEU": CLASSIC["BLEU-4"]}
            | _pick(CLASSIC, "ROUGE-L", "METEOR", "CIDEr", "SPICE")
            | {"WMD": WMD}
            | EVAL
        ),
        100.0,
    ),
    PaperTable(
        "bert_tbr",
        "table3",
        "table3_kendall",
        "BERT-TBR, Table 3: Kendall tau",
        (
            PaperColumn("flickr8k", f"{_EXPERT}/tau-b-mean"),
            PaperColumn("composite", "composite/tau-b"),
        ),
        (
            *_rows(
                CLASSIC
                | _pick(BERT, "BS (RoBERTa)", "BS (BERT)", "LEIC (cited)")
                | _pick(BERT, "Ours (RoBERTa)", "Ours (Unigram)", "Ours (BERT)")
            ),
            Row(
                "Inter-human (cited)",
                printed="Inter-human (cited)",
                human="tau-b, pairs of judges",
            ),
        ),
        note="the printed baseline rows follow no protocol that could be found; the paper's own "
        "rows follow this one (Unigram .471)",
    ),
    PaperTable(
        "bert_tbr",
        "table4",
        "table4_pascal50s_accuracy",
        "BERT-TBR, Table 4: PASCAL-50S accuracy",
        _pascal("All"),
        _rows(CLASSIC | _pick(BERT, "Ours (RBT)", "BS (BERT)", "Ours (BERT)")),
        100.0,
        note="the paper leaves tie rule and choice of references open",
    ),
    PaperTable(
        "vilbertscore",
        "table1",
        "table1_kendall",
        "ViLBERTScore, Table 1: Kendall tau",
        (
            PaperColumn("flickr8k", f"{_EXPERT}/tau-b-mean"),
            PaperColumn("composite", "composite/tau-b"),
        ),
        _rows(
            CLASSIC | {"BERTScore": BERT["BS (BERT)"], "BERT-TBR": BERT["Ours (BERT)"]}, " (cited)"
        )
        + _rows(_vilbert("") | _vilbert("*")),
        note="the cited rows are BERT-TBR's, whose baselines follow no protocol that could be "
        "found; the paper names 5,822 rows, here the 158 that are their own reference are left out",
    ),
    PaperTable(
        "vilbertscore",
        "table2",
        "table2_pascal50s_accuracy",
        "ViLBERTScore, Table 2: PASCAL-50S accuracy",
        _pascal("All"),
        _rows(CLASSIC | _vilbert("") | _vilbert("*")),
        100.0,
        note="the released script scores the second candidate as a reference; the tie rule is open",
    ),
    PaperTable(
        "vifidel",
        "table1",
        "table1_pascal_mm_accuracy",
        "VIFIDEL, Table 1: PASCAL-50S MM accuracy by number of references",
        tuple(PaperColumn(k, p, "MM") for k, p in _BY_COUNT.items()),
        _rows(_VIFIDEL_CLASSIC | _VIFIDEL_MORE)
        + _VIFIDEL_PASCAL
        + _vifidel("VIFIDEL+LM", "gold", "vifidel_lm")
        + _vifidel("VIFIDEL+CIDEr", "gold", "vifidel_cider"),
        note=_TIES,
    ),
    PaperTable(
        "vifidel",
        "table2",
        "table2_composite_coco_spearman",
        "VIFIDEL, Table 2: COMPOSITE (COCO part, system captions), Spearman rho",
        tuple(
            PaperColumn(f"{n}ref_{what}", f"{name}/rho-coco-machine-{n}refs")
            for n in (5, 1, 0)
            for what, name in _SETS.items()
        ),
        _rows(_VIFIDEL_CLASSIC | _VIFIDEL_MORE)
        + _vifidel("VIFIDEL no refs gold+D500", "gold+D500", options="references=0")
        + _vifidel("VIFIDEL gold+D500", "gold+D500")
        + _vifidel("VIFIDEL no refs + LM", "gold+D500", "vifidel_lm", "references=0")
        + _vifidel("VIFIDEL+CIDEr", "gold+D500", "vifidel_cider"),
        note=_UNION,
    ),
    PaperTable(
        "vifidel",
        "table3",
        "table3_detector_ablation_spearman",
        "VIFIDEL, Table 3: object sources with and without frequencies, COMPOSITE (COCO part)",
        tuple(
            PaperColumn(f"{f}_{what}", f"{name}/rho-coco-machine-5refs", options=f"counts={c}")
            for f, c in (("nofreq", False), ("freq", True))
            for what, name in _SETS.items()
        ),
        tuple(
            row
            for objects in ("gold", "D80", "D500", "gold+D500", "D80+D500")
            for row in _vifidel(objects, objects)
        ),
        note="the paper does not say how many references this table uses; five are used here. "
        "With frequencies, a label of a union counts as often as in the source that has it most",
    ),
    PaperTable(
        "vifidel",
        "table5",
        "table5_pascal_all",
        "VIFIDEL, Table 5: PASCAL-50S accuracy with 0 and 1 references",
        _by_count(("0", "1")),
        _rows(_VIFIDEL_CLASSIC) + _VIFIDEL_PASCAL,
        note=_TIES,
    ),
    PaperTable(
        "vifidel",
        "table6",
        "table6_pascal_all",
        "VIFIDEL, Table 6: PASCAL-50S accuracy with 5 and 48 references",
        _by_count(("5", "48")),
        _rows(_VIFIDEL_CLASSIC) + _VIFIDEL_PASCAL,
        note=_TIES,
    ),
)


def find_row(paper: str, name: str, label: str) -> Row:
    """Return a row of a table by its label."""
    for table in TABLES:
        if (table.paper, table.name) == (paper, name):
            return next(row for row in table.rows if row.label == label)
    raise LookupError(f"{paper} {name} {label}")
