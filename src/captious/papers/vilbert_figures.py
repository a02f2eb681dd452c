"""Figure 3 of the ViLBERTScore paper: agreement by layer, for every model that is here."""

from __future__ import annotations

from captious.errors import InputError, UsageError
from captious.judgements import protocols
from captious.meta.tables import short
from captious.papers.analyses import Analysis, left_out, usable
from captious.papers.bench import Bench, lacking_files
from captious.papers.paper_tables import Choice
from captious.papers.reproduce import asked_spec

LAYERS = 12  # of the deepest encoder; what a model has not fails at once
SETS = {"Flickr8k-Expert": "flickr8k-expert/tau-b-mean", "COMPOSITE": "composite/tau-b"}
MODELS = {
    "ViLBERTScore": "vilbertscore(model='vilbert-pretrained'",
    "ViLBERTScore*": "vilbertscore(model='vilbert-multitask',profile='release'",
    "our compact ViLBERT": "vilbertscore(",
    "BERTScore (text alone)": "bertscore(",
}


def _spec(begin: str, layer: int) -> str:
    comma = "" if begin.endswith("(") else ","
    spec = f"{begin}{comma}layer={layer})"
    return asked_spec(Choice(spec, ""))


def demands(bench: Bench) -> list[tuple[str, str, str]]:
    """Return what the figure takes scores of."""
    here = [b for b in MODELS.values() if usable((_spec(b, 1),))[0]]
    return [(_spec(b, k), p, "") for b in here for k in range(1, LAYERS + 1) for p in SETS.values()]


def layers(bench: Bench) -> Analysis:
    """ViLBERTScore, Figure 3: agreement by layer; the same curve for BERTScore."""
    cells = [["set", "model", "column", "layer", "tau-b", "95 % interval"]]
    panels: dict[str, tuple[tuple[float, ...], dict[str, list[float]]]] = {}
    why: dict[str, str] = {}
    for title, name in SETS.items():
        try:
            bench.judged(protocols.get(name).set)
        except InputError as err:
            why[title] = lacking_files(err, protocols.get(name).set)
            continue
        lines: dict[str, list[float]] = {}
        for model, begin in MODELS.items():
            fine, lacking = usable((_spec(begin, 1),))
            if not fine:
                why[model] = next(iter(lacking.values()))
                continue
            for layer in range(1, LAYERS + 1):
                try:
                    evaluation = bench.result(_spec(begin, layer), name)
                except UsageError:
                    break  # deeper than this model is
                stopped = next((r.reason for r in evaluation.results if r.reason), "")
                if stopped:
                    if layer == 1:
                        why[f"{model}, {title}"] = short(stopped)
                    break
                for r in evaluation.results:
                    column = r.metric.partition("(")[0]
                    lines.setdefault(f"{model} {column[-1].upper()}", []).append(r.value)
                    interval = f"[{r.low:.4f}, {r.high:.4f}]" if r.low == r.low else ""
                    cells.append([title, model, column, str(layer), f"{r.value:.4f}", interval])
        longest = max((len(v) for v in lines.values()), default=0)
        if lines:
            panels[title] = (
                tuple(float(i) for i in range(1, longest + 1)),
                {k: v + [float("nan")] * (longest - len(v)) for k, v in lines.items()},
            )
    return Analysis(
        "ViLBERTScore, Figure 3: agreement by layer",
        cells,
        [
            "the figure has no printed numbers; BERTScore is the text-only companion",
            "tau-b with the mean rating (Flickr8k-Expert), with the rating (COMPOSITE)",
            *left_out(why),
        ],
        axes=("layer", "tau-b"),
        panels=panels,
    )
