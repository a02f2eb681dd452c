"""The verbs by what a person wants, and the words that people try first.

This module imports nothing, so that ``captious --help`` costs nothing.
"""

from __future__ import annotations

VERBS: dict[str, dict[str, str]] = {
    "Score and compare": {
        "demo": "try it: score bundled photographs and write a report",
        "score": "score captions against references and images",
        "compare": "test whether one system is better than another",
        "verify": "recompute stored scores and check that they still hold",
    },
    "Look": {
        "report": "write stored scores as one HTML page",
        "explain": "show why a caption got its score",
        "serve": "start the explorer (runs in a browser) and the HTTP API",
    },
    "Judge metrics": {
        "meta": "measure how well metrics agree with people",
        "probe": "spoil captions on purpose and see whether a metric notices",
        "reproduce": "recompute the tables and figures of the papers",
        "data": "list the sets of human judgements and how to get them",
    },
    "Clean and choose": {
        "filter": "keep the rows that meet a condition on scores",
        "select": "keep the best share of the rows by a score",
        "rerank": "pick the best of several captions for each image",
        "audit": "find captions that do not fit their photograph",
    },
    "Prepare": {
        "metrics": "list the metrics, their names and what each needs",
        "doctor": "say what is installed and how to get the rest",
        "detect": "find the objects in photographs",
        "regions": "extract or convert region features of photographs",
        "df": "build or show document frequencies for CIDEr",
        "tokenize": "tokenise text as the metrics do",
        "calibrate": "find the threshold and baselines of a text encoder",
        "completion": "print a completion script for bash, zsh or fish",
    },
    "Train": {
        "train": "train a model: eyes, fit, scan, words, vilbert, composite or lm",
    },
}
"""Heading -> verb -> what it does."""

_WORDS: dict[str, str] = {
    "score": "evaluate eval run test judge rate grade assess calculate compute measure cider bleu",
    "compare": "diff significance ttest vs versus ab benchmark",
    "verify": "validate recheck rerun",
    "report": "html view show plot visualize visualise page summary",
    "explain": "why inspect debug interpret attribute",
    "meta": "correlate correlation human agreement meta-eval metaeval kendall",
    "probe": "attack adversarial robustness fool game",
    "reproduce": "paper papers replicate table results",
    "data": "datasets dataset download sets judgements judgments",
    "metrics": "list ls names available",
    "doctor": "check status info env install setup diagnose version",
    "detect": "objects labels detection yolo boxes",
    "regions": "features extract bottom-up",
    "df": "idf frequencies document-frequency",
    "tokenize": "tokenise tokens ptb tokenizer",
    "calibrate": "threshold baseline baselines rescale",
    "completion": "completions autocomplete complete",
    "train": "finetune fine-tune learn fit",
    "demo": "example quickstart tutorial try start",
    "filter": "clean prune curate",
    "serve": "server http api rest explore explorer browse browser gui ui web dashboard",
}

MEANT: dict[str, str] = {word: verb for verb, words in _WORDS.items() for word in words.split()}
"""A word that people try -> the verb that does it."""

OPTIONS: dict[str, str] = {
    "--annotations": "--refs",
    "--ground-truth": "--refs",
    "--gt": "--refs",
    "--targets": "--refs",
    "--labels": "--objects",
    "--photos": "--images",
    "--image-dir": "--images",
    "--img": "--images",
    "--image-folder": "--images",
    "--features": "--regions",
    "--save": "--output",
    "--out-file": "--output",
    "--scorers": "--metrics",
    "--gpu": "--device",
    "--cuda": "--device",
    "--workers": "--threads",
    "--jobs": "--threads",
    "--latex": "--format",
    "--json": "--format",
    "--verbose": "--quiet",
    "--silent": "--quiet",
    "--bootstrap": "--no-intervals",
    "--alpha": "--level",
    "--dataset": "--set",
}
"""An option that people try -> the one that does it."""
