"""``captious meta``: how well does a metric agree with people?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.errors import UsageError
from captious.io.grids import Part
from captious.spec import split


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "meta",
        description="Score judged captions and measure the agreement with people under a named "
        "protocol. Example: captious meta bleu meteor --set flickr8k-expert --data FOLDER. "
        "Your own function works too: captious meta my_metric.py:score",
    )
    parser.add_argument(
        "metrics",
        nargs="*",
        metavar="METRIC",
        default=[],
        help="metrics, file.py:function, or 'all' (default: all)",
    )
    parser.add_argument(
        "--metrics", "-m", dest="more", nargs="+", default=[], metavar="METRIC",
        help="the same, as an option",
    )  # fmt: skip
    parser.add_argument(
        "--set",
        "-s",
        dest="judged",
        default="flickr8k-expert",
        metavar="NAME",
        help="judgement set, or a file of your own judgements "
        "(default: %(default)s; `captious data` lists them)",
    )
    parser.add_argument(
        "--protocol",
        "-p",
        metavar="NAME",
        help="e.g. flickr8k-expert/tau-b-mean; --list shows them",
    )
    group = parser.add_argument_group("changes to the protocol (they become part of its name)")
    group.add_argument("--references", type=int, metavar="K", help="draw K references per image")
    group.add_argument("--draws", type=int, metavar="N", help="draw references N times and average")
    group.add_argument("--draw-seed", type=int, metavar="S", help="seed of these draws")
    group.add_argument(
        "--drop-equal",
        choices=["no", "row", "image"],
        help="remove references that equal the caption: from its own (row), or from those of "
        "all captions of the image",
    )
    group.add_argument(
        "--keep-own", action="store_true", help="keep captions that are their own reference"
    )
    group.add_argument(
        "--part", metavar="NAME", help="one part of the set only, e.g. coco of composite"
    )
    group.add_argument(
        "--systems",
        choices=["human", "machine"],
        help="only captions by people, or by captioners",
    )
    group.add_argument(
        "--joined",
        action="store_true",
        default=None,
        help="join the references of a caption into one text",
    )
    add_places(parser)
    parser.add_argument(
        "--external",
        nargs="+",
        default=[],
        metavar="[NAME=]FILE",
        help="scores computed elsewhere (CSV, JSON, JSON lines, parquet), as further columns: "
        "matched by id, or by image and caption; pairs may be in one row (caption_a, "
        "score_a, caption_b, score_b)",
    )
    parser.add_argument("--list", action="store_true", help="list the protocols and stop")
    parser.add_argument(
        "--tests",
        action="store_true",
        help="test every pair of metrics (PERM-BOTH, Holm)",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=1000,
        metavar="N",
        help="bootstrap draws and permutations (default: 1000; 0: no intervals)",
    )
    parser.add_argument(
        "--diagnose",
        action="store_true",
        help="agreement by caption length and by how well the judges agree; "
        "correlation between the metrics",
    )
    parser.add_argument(
        "--disagreements",
        type=int,
        nargs="?",
        const=3,
        metavar="N",
        help="show N captions of each kind of disagreement with people: photograph, caption, human "
        "score, the metric's group and value (default: 3)",
    )
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help="write a matrix of who beats whom (.svg, .png, .pdf)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="also write a page (.html): correlations with intervals, who beats whom, fewer "
        "references, score groups, sensitivity",
    )
    parser.add_argument(
        "--format", "-f", choices=["text", "markdown", "csv", "json"], default="text"
    )
    _options.output(parser)
    _options.running(parser)
    parser.set_defaults(run=run)


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where judgements, labels and features lie."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder of the judgement sets (default: $CAPTIOUS_DATA)",
    )
    parser.add_argument(
        "--objects",
        nargs="+",
        default=[],
        metavar="[NAME=]FILE",
        help="object labels of the images, for label metrics; labels of several files are "
        "merged; `gold` are the labels of the set itself, `detector` detects objects in the "
        "photographs",
    )
    parser.add_argument(
        "--regions",
        type=Path,
        nargs="+",
        metavar="STORE",
        help="region features of the images (stores of different kinds, or folders of stores)",
    )
    parser.add_argument(
        "--no-store",
        action="store_true",
        help="compute all scores again and keep none in the cache folder",
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate and write."""
    from captious.judgements import outside_scores, protocols
    from captious.meta import tables
    from captious.meta.evaluate import evaluate
    from captious.meta.scoring import Scorer

    if args.list:
        for p in protocols.PROTOCOLS.values():
            sys.stdout.write(
                f"{p.name}: {p.describe()}" + (f" [{p.used_by}]" * bool(p.used_by)) + "\n"
            )
        return 0
    if args.trials < 0:
        raise UsageError("--trials must be 0 or more")
    if args.report is not None and args.report.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{args.report}: a report is written as .html")
    with _options.active(args):
        outside = [outside_scores.load(text) for text in args.external]
        named = [part for word in [*args.metrics, *args.more] for part in split(word)]
        names = named or ([] if outside else None)
        scorer = Scorer(names, not args.no_store, args.regions, outside)
        judged = judgements(args)
        name = args.protocol or protocols.DEFAULTS.get(args.judged)
        if name is None:
            from captious.judgements.judgement_set import Pairs

            name = "strict" if isinstance(judged.judged, Pairs) else "tau-b-mean"
        protocol = protocols.get(name, judged.name).changed(
            references=args.references,
            draws=args.draws,
            seed=args.draw_seed,
            drop_own=False if args.keep_own else None,
            drop_equal=args.drop_equal,
            part=args.part,
            systems=args.systems,
            joined=args.joined,
        )
        evaluation = evaluate(
            judged, protocol, scorer, resamples=args.trials, seed=_options.seed(args)
        )
        asked = args.tests or args.picture or args.report
        tests = evaluation.tests(trials=args.trials or 1000) if asked else []
        shown_tests = tests if args.tests else []
        text = tables.render(evaluation, shown_tests, args.format, not args.quiet)
        parts: list[Part] = []
        if args.format == "text":
            parts = tables.parts(evaluation, shown_tests, signatures=not args.quiet)
        if args.diagnose and args.format in ("text", "markdown"):
            from captious.meta import diagnostics

            text += "\n" + diagnostics.render(evaluation, args.format)
            parts += diagnostics.parts(evaluation)
        if args.disagreements is not None:
            text, examples = _with_disagreements(text, evaluation, args)
            parts += examples
        if args.picture:
            from captious.meta import pictures

            pictures.beats(evaluation, tests, args.picture)
            if not args.quiet:
                _options.remark(f"wrote {args.picture}")
        if args.report:
            from captious.io import files
            from captious.meta import page

            swept = page.sweep(evaluation, protocol, scorer)
            with files.replacing(args.report) as file:
                file.write(page.page(evaluation, tests, swept))
            if not args.quiet:
                _options.remark(f"wrote {args.report}")
    _options.write(args, text, parts if args.format == "text" else ())
    return 0


def _with_disagreements(
    text: str, evaluation: Any, args: argparse.Namespace
) -> tuple[str, Sequence[Part]]:
    """Add examples of every metric to the rendered table; return them as tables, too."""
    import json

    from captious.meta import disagreements

    if args.disagreements < 1:
        raise UsageError("--disagreements takes the number of examples of each kind, 1 or more")
    shown = [
        e
        for m in evaluation.scores
        for e in disagreements.examples(evaluation, m, args.disagreements)
    ]
    if args.format == "json":
        whole = json.loads(text) | {"disagreements": disagreements.to_json(shown)}
        return json.dumps(whole, indent=1) + "\n", ()
    if args.format == "csv":
        raise UsageError("--disagreements is written as text, markdown or JSON, not as CSV")
    return text + "\n" + disagreements.render(shown, args.format), disagreements.parts(shown)


def judgements(args: argparse.Namespace) -> Any:
    """Load the judgement set that the options name, with object labels if given."""
    from captious.judgements import labels, sets
    from captious.judgements.judgement_set import JudgementSet
    from captious.judgements.sets import user_files

    path = Path(args.judged)
    if args.judged not in sets.names() and (path.suffix or path.exists()):
        judged = user_files.load(path)
    else:
        sets.card(args.judged)  # a wrong name is reported before a missing folder
        collection = sets.load(args.judged, sets.data_root(args.data))
        if not isinstance(collection, JudgementSet):
            raise UsageError(
                f"{args.judged} holds published scores of systems and no captions; "
                "`captious reproduce bert_tbr table1` correlates them with the judgements"
            )
        judged = collection
    return labels.labelled(judged, labels.parse(args.objects))
