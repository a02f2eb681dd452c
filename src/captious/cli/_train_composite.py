"""``captious train composite``: captions in, a folder with the model, its log and curve out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.cli import _options
from captious.errors import InputError, UsageError

if TYPE_CHECKING:
    from captious.training.composite import Data, Judged, Options
    from captious.training.sampling import Drawn

_PAPER = "meteor,wmd,cider(df='coco-val'),spice"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the trainer."""
    parser.add_argument("--human", type=Path, metavar="FILE",
                        help="captions that people wrote, by image id")  # fmt: skip
    parser.add_argument("--machine", type=Path, nargs="+", default=[], metavar="FILE",
                        help="captions of captioners, one file each, by image id")  # fmt: skip
    parser.add_argument("--refs", "-r", type=Path, metavar="FILE",
                        help="references by image id (may be the file of --human)")  # fmt: skip
    parser.add_argument("--inputs", default=_PAPER, metavar="COLUMNS",
                        help=f"score columns to learn from (default: {_PAPER})")  # fmt: skip
    parser.add_argument("--objective", choices=("classify", "rate", "rank"), default="classify",
                        help="learn to tell people from machines, to rate, or to rank")  # fmt: skip
    parser.epilog = (
        "The setting of Sharif et al. 2018: --others 0 --gamed 0 --stop-on all --accuracy 0.5 "
        "--judgements flickr8k-expert --exclude flickr8k-expert composite. The shipped eval_* were "
        "trained with three captions of other images and one gamed version per human caption, on "
        "3,000 COCO images, and stopped by half of the photographs of flickr8k-expert."
    )
    parser.add_argument("--judgements", metavar="SET",
                        help="judgement set (flickr8k-expert, ... or a file): half of its images "
                        "picks the epoch; rate and rank learn from the rest")  # fmt: skip
    parser.add_argument("--stop-on", choices=("half", "all"), default="half",
                        help="which images of --judgements pick the epoch: half, so that the other "
                        "half can test the model, or all, as in the paper (classify only; default: "
                        "half)")  # fmt: skip
    parser.add_argument("--exclude", nargs="+", default=[], metavar="SET",
                        help="leave out images with a caption that is also in these judgement "
                        "sets or caption files, as the paper does with its validation and test "
                        "sets")  # fmt: skip
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of the judgement sets")
    parser.add_argument("--regions", type=Path, metavar="STORE",
                        help="region features, for inputs that look at the image")  # fmt: skip
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FOLDER",
                        help="folder for the model")  # fmt: skip
    parser.add_argument("--hidden", type=int, nargs="*", default=[72, 72], metavar="UNITS",
                        help="hidden layers (default: 72 72; none for a weighted sum)")  # fmt: skip
    parser.add_argument("--scale", choices=("raw", "z", "ranks"), default="raw",
                        help="how features are scaled first (default: raw)")  # fmt: skip
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--epochs", type=int, default=700, help="at most this many epochs")
    parser.add_argument(
        "--patience", type=int, default=60, help="stop after this many epochs without a better tau"
    )
    parser.add_argument("--batch", type=int, default=6650, help="examples per batch")
    parser.add_argument("--l2", type=float, default=1e-4, help="weight of the L2 penalty")
    parser.add_argument("--accuracy", type=float, default=0.6,
                        help="accuracy on unseen images that an epoch must reach")  # fmt: skip
    draw = parser.add_argument_group("examples of the classifier, per image")
    draw.add_argument("--positives", type=int, default=3, help="human captions")
    draw.add_argument("--negatives", type=int, default=3, help="machine captions")
    draw.add_argument(
        "--others",
        type=int,
        default=3,
        help="human captions of other images as negatives; the paper: 0",
    )
    draw.add_argument(
        "--gamed",
        type=int,
        default=1,
        help="spoilt versions per human caption as negatives; the paper: 0",
    )
    draw.add_argument("--references", type=int, default=4, help="references per example")


def run(args: argparse.Namespace) -> int:
    """Draw, compute features, train, write."""
    from captious.io import files
    from captious.learned import features, model_file
    from captious.training.composite import Options, fit
    from captious.training.curve import draw_curve

    options = Options(
        objective=args.objective,
        hidden=tuple(args.hidden),
        rate=args.rate,
        epochs=args.epochs,
        batch=args.batch,
        l2=args.l2,
        patience=args.patience,
        accuracy=args.accuracy,
        scale=args.scale,
        gamed=1.0 if args.objective != "classify" else 0.0,
        seed=_options.seed(args),
    )
    inputs = features.parse_inputs(args.inputs)
    judged, learned = _judgements(args, inputs, options)
    if args.objective == "classify":
        data, identities, said = _examples(args, inputs)
    elif learned is None:
        raise UsageError(f"--objective {args.objective} learns from ratings: give --judgements SET")
    else:
        data, identities, said = learned

    def report(entry: dict[str, float]) -> None:
        if not args.quiet:
            _options.remark("  ".join(f"{k} {v:.4g}" for k, v in entry.items() if k != "step"))

    divisors = None
    if args.scale == "raw":
        divisors = [10.0 if i.metric.name in ("cider", "cider_d") else 1.0 for i in inputs]
    facts = {"name": args.output.name, "data": said, "judgements": args.judgements}
    if args.judgements and args.objective == "classify":
        facts["epoch picked by"] = f"tau-b with the mean ratings of {args.stop_on} of its images"
    done = fit(data, inputs, identities, options, judged, divisors, facts, report)
    done.model.facts["quality"] = done.best
    model_file.save(done.model, args.output)
    with files.replacing(args.output / "log.json") as file:
        file.write(json.dumps(done.history, indent=1) + "\n")
    draw_curve(done.history, args.output / "curve.png", ("loss",), ("tau", "accuracy"))
    _options.remark(
        f"epoch {done.best['epoch']:.0f} was best; wrote {args.output}; "
        f"use it as composite(model='{args.output}')"
    )
    return 0


def _examples(
    args: argparse.Namespace, inputs: Any
) -> tuple[Data, tuple[dict[str, str], ...], dict[str, Any]]:
    """Draw human and machine captions and compute their features."""
    import numpy as np

    from captious.learned import features
    from captious.training import sampling
    from captious.training.composite import Data

    if args.human is None or args.refs is None:
        raise UsageError("a classifier learns from --human, --machine and --refs files")
    human, refs = _by_image(args.human), _by_image(args.refs)
    known = _known_texts(args)
    overlap = {
        i for captions in (human, refs) for i, texts in captions.items() if known & _forms(texts)
    }
    if overlap:
        human = {i: texts for i, texts in human.items() if i not in overlap}
        _options.remark(f"{len(overlap):,} images share a caption with --exclude: left out")
    if not human:
        raise InputError("--exclude leaves no image to learn from")
    machine = {
        path.stem: {image: texts[0] for image, texts in _by_image(path).items()}
        for path in args.machine
    }
    how = sampling.Draw(args.positives, args.negatives, args.others, args.gamed, args.references)
    drawn: Drawn = sampling.draw(human, machine, refs, how, _options.seed(args))
    table = features.table(drawn.samples, inputs)
    table.require(inputs, "training examples")
    gamed = np.flatnonzero(drawn.partner >= 0)
    counts = {k: int((drawn.kinds == k).sum()) for k in dict.fromkeys(drawn.kinds.tolist())}
    said = {"examples": counts, "images": len(set(drawn.images.tolist())),
            "captioners": sorted(machine), "references": how.references,
            "images left out because a caption is in --exclude": len(overlap)}  # fmt: skip
    data = Data(
        table.values,
        drawn.labels.astype(np.float64),
        drawn.images,
        drawn.weights(),
        drawn.partner[gamed],
        gamed,
    )
    return data, table.identities, said


def _known_texts(args: argparse.Namespace) -> set[str]:
    """Return all captions and references of what --exclude names, in comparable form."""
    from captious.judgements import sets

    out: set[str] = set()
    for name in args.exclude:
        if name in sets.names():
            samples = sets.load_ratings(name, sets.data_root(args.data)).samples
            out |= _forms([*samples.captions(), *(r for s in samples.references() for r in s)])
        else:
            out |= _forms([t for texts in _by_image(Path(name)).values() for t in texts])
    return out


def _forms(texts: list[str]) -> set[str]:
    from captious.judgements.judgement_set import same_text

    return {same_text(t) for t in texts}


def _judgements(
    args: argparse.Namespace, inputs: Any, options: Options
) -> tuple[Judged | None, tuple[Data, Any, dict[str, Any]] | None]:
    """Return judgements to stop by, and (rate, rank) those to learn from, of other images."""
    if args.judgements is None:
        return None, None
    import numpy as np

    from captious.judgements import sets
    from captious.judgements.judgement_set import JudgementSet, Ratings
    from captious.judgements.sets import user_files
    from captious.learned import features
    from captious.meta.evaluate import mean_rating
    from captious.training.composite import Data, Judged

    collection: JudgementSet
    if args.judgements in sets.names():
        collection = sets.load_ratings(args.judgements, sets.data_root(args.data))
    else:
        collection = user_files.load(Path(args.judgements))
    if not isinstance(collection.judged, Ratings):
        raise UsageError(f"{args.judgements} holds choices between captions; this needs ratings")
    collection = collection.without_own()
    judged = collection.judged
    if not isinstance(judged, Ratings):
        raise UsageError(f"{args.judgements}: this needs ratings")
    rows, ratings = mean_rating(judged)
    table = features.table(collection.samples, inputs)
    known = np.isfinite(table.values[rows]).all(axis=1)
    if not known.any():
        table.require(inputs, args.judgements)
    if not known.all():
        _options.remark(
            f"{int((~known).sum()):,} judged captions lack an input score and are left out"
        )
    rows, ratings = rows[known], ratings[known]
    images = np.unique(collection.units.astype(str))
    order = np.random.default_rng(options.seed).permutation(len(images))
    first = np.isin(collection.units[rows].astype(str), images[order[: len(images) // 2]])
    if args.stop_on == "all":
        if options.objective != "classify":
            raise UsageError("--stop-on all leaves nothing to learn from: rate and rank learn from "
                             "the other half of the judgements")  # fmt: skip
        return Judged(table.values[rows], ratings), None
    if first.all() or not first.any():
        raise InputError(f"{args.judgements}: judgements of at least two images are needed")
    stop = Judged(table.values[rows[first]], ratings[first])
    if options.objective == "classify":
        return stop, None
    target = (ratings[~first] - judged.low) / (judged.high - judged.low)
    data = Data(table.values[rows[~first]], target, collection.units[rows[~first]])
    said = {"ratings": int((~first).sum()), "set": collection.name}
    return stop, (data, table.identities, said)


def _by_image(path: Path) -> dict[str, list[str]]:
    """Read captions by image id from a file of any known shape."""
    from captious.calling import key as image_key
    from captious.io import sources

    source = sources.read(path)
    keys = source.id if source.id is not None else source.image
    if keys is None:
        raise InputError(f"{path}: captions must carry an image id, so that files can be joined")
    out: dict[str, list[str]] = {}
    for row, key in enumerate(keys):
        for column in (source.caption, source.references):
            entry = None if column is None else column[row]
            texts = [entry] if isinstance(entry, str) else list(entry or ())
            out.setdefault(image_key(key), []).extend(t for t in texts if isinstance(t, str))
    empty = [k for k, v in out.items() if not v]
    if empty:
        raise InputError(f"{path}: {len(empty):,} images have no caption (first: {empty[0]!r})")
    return out
