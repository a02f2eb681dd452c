"""The tables of the five papers: what stands in each row and column, and how it is computed here.

The printed numbers are in ``reported.json`` (paper -> table -> row -> column). A row lists the
metrics that can stand for it, the paper's own first; the first one that can run here is taken, and
where that is a substitute its note says so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Choice:
    """A metric that can stand for a row of a paper."""

    spec: str
    column: str
    note: str = ""


@dataclass(frozen=True)
class PaperColumn:
    """One column of a paper's table.

    Attributes:
        key: its name in ``reported.json``.
        protocol: how it is computed here; empty if it cannot be.
        group: the group of the set, or empty for the whole.
        missing: why it cannot be computed.
    """

    key: str
    protocol: str = ""
    group: str = ""
    missing: str = ""


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper."""

    paper: str
    name: str
    key: str
    title: str
    columns: tuple[PaperColumn, ...]
    rows: dict[str, tuple[Choice, ...] | str]
    scale: float = 1.0
    note: str = ""


@lru_cache(maxsize=1)
def reported() -> dict[str, Any]:
    """Return the printed numbers of all papers."""
    text = files("captious.papers").joinpath("reported.json").read_text("utf-8")
    return json.loads(text)


_WORD2VEC = "word2vec-google-news-300"
_MINILM = "encoder MiniLM (saw captions in training) instead of the paper's"
_GLOVE = "GloVe 50-d instead of word2vec"
_OURS = "our own small grounding model and regions; the paper's checkpoint cannot be had"


def _one(spec: str, column: str = "", note: str = "") -> tuple[Choice, ...]:
    return (Choice(spec, column or spec, note),)


def _bert(metric: str, column: str) -> tuple[Choice, ...]:
    full = "(encoder='bert-base-uncased')"
    return (Choice(metric + full, column + full), Choice(metric, column, _MINILM))


def _roberta(metric: str, column: str) -> tuple[Choice, ...]:
    full = "(encoder='roberta-large')"
    return (Choice(metric + full, column + full),)


CIDER = _one("cider_d(by='row')", "cider_d(by='row')", "CIDEr-D, one document per row")
WMD = (
    Choice(f"wmd(vectors='{_WORD2VEC}')", f"wmd(vectors='{_WORD2VEC}')"),
    Choice("wmd", "wmd", _GLOVE),
)
WORST = (
    Choice(f"wmd(vectors='{_WORD2VEC}')", f"wmd_worst(vectors='{_WORD2VEC}')"),
    Choice("wmd", "wmd_worst", _GLOVE),
)
VIFIDEL = (
    Choice(f"vifidel(vectors='{_WORD2VEC}')", f"vifidel(vectors='{_WORD2VEC}')"),
    Choice("vifidel", "vifidel", _GLOVE),
)
SPICE = _one("spice", note="spaCy scene graphs instead of CoreNLP's")
CLASSIC: dict[str, tuple[Choice, ...]] = {
    "BLEU-1": _one("bleu", "bleu_1"),
    "BLEU-4": _one("bleu", "bleu_4"),
    "ROUGE-L": _one("rouge_l"),
    "METEOR": _one("meteor"),
    "CIDEr": CIDER,
    "SPICE": SPICE,
}
TIGER = {
    "RRS": _one("tiger", "rrs", _OURS),
    "WDS": _one("tiger", "wds", _OURS),
    "TIGEr": _one("tiger", "tiger", _OURS),
}
BERT: dict[str, tuple[Choice, ...] | str] = {
    "BS (BERT)": _bert("bertscore", "bertscore_f"),
    "BS (RoBERTa)": _roberta("bertscore", "bertscore_f"),
    "Ours (BERT)": _bert("bert_tbr", "bert_tbr"),
    "Ours (RoBERTa)": _roberta("bert_tbr", "bert_tbr"),
    "Ours (RBT)": _roberta("bert_tbr", "bert_tbr"),
    "Ours (Unigram)": _one("unigram_tbr"),
    "LEIC (cited)": "LEIC is a trained network that was never released with weights",
}
EVAL: dict[str, tuple[Choice, ...] | str] = {
    f"Eval{x}": _one(f"eval_{x.lower()}(guard=False)", note="trained by us on other captioners")
    for x in ("MS", "CS", "MCS", "WCS", "MWS", "MWCS")
}


def _vilbert(star: str) -> dict[str, tuple[Choice, ...] | str]:
    note = "our own compact model; the paper's checkpoints cannot be had"
    reason = "the multi-task checkpoint cannot be had; give its path to vilbertscore(weights=...)"
    return {
        f"ViLBERTScore{star}_{x}": reason
        if star
        else _one("vilbertscore", f"vilbertscore_{x.lower()}", note)
        for x in "PRF"
    }


_COMPOSITE = "the COMPOSITE ratings are not here (`captious data composite`)"
_EXPERT, _PASCAL = "flickr8k-expert", "pascal50s/strict-5refs"
_KINDS = ("HC", "HI", "HM", "MM")


def _pascal(whole: str, protocol: str = _PASCAL) -> tuple[PaperColumn, ...]:
    return (*(PaperColumn(k, protocol, k) for k in _KINDS), PaperColumn(whole, protocol))


def _cited(rows: dict[str, tuple[Choice, ...]]) -> dict[str, tuple[Choice, ...]]:
    return {f"{k} (cited)": v for k, v in rows.items()}


_VIFIDEL_ROWS: dict[str, tuple[Choice, ...] | str] = {
    "BLEU1": CLASSIC["BLEU-1"],
    "BLEU4": CLASSIC["BLEU-4"],
    "ROUGE_L": CLASSIC["ROUGE-L"],
    "METEOR": CLASSIC["METEOR"],
    "CIDEr": CIDER,
    "SPICE": SPICE,
    "WMD_best": WMD,
    "WMD_worst": WORST,
    "LM": _one("lm", note="our own language model of COCO captions"),
    "VIFIDEL gold": VIFIDEL,
    "VIFIDEL D500": "labels of an Open Images detector are not here (captious detect, --objects)",
    "VIFIDEL+LM": _one("vifidel_lm", note=_GLOVE),
    "VIFIDEL+CIDEr": _one("vifidel_cider", note=_GLOVE),
}
_BY_COUNT = {
    "0": "pascal50s/half-0refs",
    "1": "pascal50s/half-1drawn",
    "5": "pascal50s/half-5refs",
    "48": "pascal50s/half-48drawn",
}
_TIES = "the paper leaves the tie rule open: ties count half here"

TABLES = (
    PaperTable(
        "tiger",
        "table1",
        "table1_correlation",
        "TIGEr, Table 1: caption-level correlation",
        (
            PaperColumn("composite_tau", missing=_COMPOSITE),
            PaperColumn("composite_rho", missing=_COMPOSITE),
            PaperColumn("flickr8k_tau", f"{_EXPERT}/tau-c-pooled"),
            PaperColumn("flickr8k_rho", f"{_EXPERT}/rho-pooled"),
        ),
        {**CLASSIC, **TIGER},
        note="BLEU-4: the printed tau .138 and rho .387 cannot come from one list of scores; .138 "
        "is near what scores floored to 0 give",
    ),
    PaperTable(
        "tiger",
        "table2",
        "table2_pascal50s_accuracy",
        "TIGEr, Table 2: PASCAL-50S accuracy",
        _pascal("All"),
        {**CLASSIC, "TIGEr": TIGER["TIGEr"]},
        100.0,
        note="the paper does not say which five references it drew",
    ),
    PaperTable(
        "composite",
        "table1",
        "table1_kendall",
        "Sharif et al., Table 1: Kendall tau",
        (PaperColumn("tau", missing=_COMPOSITE),),
        {
            "BLEU": CLASSIC["BLEU-4"],
            "ROUGE-L": CLASSIC["ROUGE-L"],
            "METEOR": CLASSIC["METEOR"],
            "CIDEr": CIDER,
            "SPICE": SPICE,
            "WMD": WMD,
            **EVAL,
        },
        note="its 6,993 captions are no part of the released ratings that could be named",
    ),
    PaperTable(
        "composite",
        "table2",
        "table2_pascal50s_accuracy",
        "Sharif et al., Table 2: PASCAL-50S accuracy",
        _pascal("AVG"),
        {
            "BLEU": CLASSIC["BLEU-4"],
            "ROUGE-L": CLASSIC["ROUGE-L"],
            "METEOR": CLASSIC["METEOR"],
            "CIDEr": CIDER,
            "SPICE": SPICE,
            "WMD": WMD,
            **EVAL,
        },
        100.0,
    ),
    PaperTable(
        "bert_tbr",
        "table3",
        "table3_kendall",
        "BERT-TBR, Table 3: Kendall tau",
        (
            PaperColumn("flickr8k", f"{_EXPERT}/tau-b-mean"),
            PaperColumn("composite", missing=_COMPOSITE),
        ),
        {
            **CLASSIC,
            **{
                k: BERT[k]
                for k in (
                    "BS (RoBERTa)",
                    "BS (BERT)",
                    "LEIC (cited)",
                    "Ours (RoBERTa)",
                    "Ours (Unigram)",
                    "Ours (BERT)",
                )
            },
        },
        note="the printed baseline rows follow no protocol that could be found; the paper's own "
        "rows follow this one (Unigram .471)",
    ),
    PaperTable(
        "bert_tbr",
        "table4",
        "table4_pascal50s_accuracy",
        "BERT-TBR, Table 4: PASCAL-50S accuracy",
        _pascal("All"),
        {**CLASSIC, **{k: BERT[k] for k in ("Ours (RBT)", "BS (BERT)", "Ours (BERT)")}},
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
            PaperColumn("composite", missing=_COMPOSITE),
        ),
        {
            **_cited(CLASSIC),
            "BERTScore (cited)": BERT["BS (BERT)"],
            "BERT-TBR (cited)": BERT["Ours (BERT)"],
            **_vilbert(""),
            **_vilbert("*"),
        },
        note="the cited rows are BERT-TBR's, under another protocol than the paper's own",
    ),
    PaperTable(
        "vilbertscore",
        "table2",
        "table2_pascal50s_accuracy",
        "ViLBERTScore, Table 2: PASCAL-50S accuracy",
        _pascal("All"),
        {**CLASSIC, **_vilbert(""), **_vilbert("*")},
        100.0,
        note="the released script scores the second candidate as a reference; the tie rule is open",
    ),
    PaperTable(
        "vifidel",
        "table1",
        "table1_pascal_mm_accuracy",
        "VIFIDEL, Table 1: PASCAL-50S MM accuracy by number of references",
        tuple(PaperColumn(k, p, "MM") for k, p in _BY_COUNT.items()),
        _VIFIDEL_ROWS,
        note=_TIES,
    ),
    PaperTable(
        "vifidel",
        "table2",
        "table2_composite_coco_spearman",
        "VIFIDEL, Table 2: COMPOSITE (COCO part), Spearman rho",
        tuple(
            PaperColumn(f"{n}ref_{what}", missing=_COMPOSITE)
            for n in (5, 1, 0)
            for what in ("relevance", "thoroughness")
        ),
        {k: v for k, v in _VIFIDEL_ROWS.items() if not k.startswith("VIFIDEL")}
        | {
            "VIFIDEL no refs gold+D500": VIFIDEL,
            "VIFIDEL gold+D500": VIFIDEL,
            "VIFIDEL no refs + LM": _one("vifidel_lm"),
            "VIFIDEL+CIDEr": _one("vifidel_cider"),
        },
    ),
    PaperTable(
        "vifidel",
        "table3",
        "table3_detector_ablation_spearman",
        "VIFIDEL, Table 3: detectors, COMPOSITE",
        tuple(
            PaperColumn(f"{f}_{what}", missing=_COMPOSITE)
            for f in ("nofreq", "freq")
            for what in ("relevance", "thoroughness")
        ),
        dict.fromkeys(("gold", "D80", "D500", "gold+D500", "D80+D500"), VIFIDEL),
    ),
    PaperTable(
        "vifidel",
        "table5",
        "table5_pascal_all",
        "VIFIDEL, Table 5: PASCAL-50S accuracy with 0 and 1 references",
        tuple(
            PaperColumn(f"{n}_{k}", _BY_COUNT[n], "" if k == "all" else k)
            for n in ("0", "1")
            for k in (*_KINDS, "all")
        ),
        {
            k: v
            for k, v in _VIFIDEL_ROWS.items()
            if k
            in (
                "BLEU1",
                "BLEU4",
                "ROUGE_L",
                "METEOR",
                "CIDEr",
                "SPICE",
                "VIFIDEL gold",
                "VIFIDEL D500",
            )
        },
        note=_TIES,
    ),
    PaperTable(
        "vifidel",
        "table6",
        "table6_pascal_all",
        "VIFIDEL, Table 6: PASCAL-50S accuracy with 5 and 48 references",
        tuple(
            PaperColumn(f"{n}_{k}", _BY_COUNT[n], "" if k == "all" else k)
            for n in ("5", "48")
            for k in (*_KINDS, "all")
        ),
        {
            k: v
            for k, v in _VIFIDEL_ROWS.items()
            if k
            in (
                "BLEU1",
                "BLEU4",
                "ROUGE_L",
                "METEOR",
                "CIDEr",
                "SPICE",
                "VIFIDEL gold",
                "VIFIDEL D500",
            )
        },
        note=_TIES,
    ),
)
