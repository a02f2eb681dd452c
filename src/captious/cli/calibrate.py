"""``captious calibrate``: threshold and baselines of a text encoder, from random pairs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.errors import InputError, UsageError


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "calibrate",
        description="Score random pairs of sentences at every layer of an encoder. The mean recall "
        "is the usual threshold of bert_tbr; P, R and F are baselines for bertscore.",
    )
    parser.add_argument("model", help="minilm, mpnet, a folder, or a hub name")
    parser.add_argument(
        "--texts",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="sentences like those you will score: references in any format, or text lines",
    )
    parser.add_argument("--pairs", type=int, default=5000, help="random pairs (default: 5000)")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")
    parser.add_argument(
        "--output", "-o", "--out", type=Path, metavar="FILE", help="write the baselines as JSON"
    )
    parser.add_argument("--idf", type=Path, help="also write an idf table of these texts (JSON)")
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compute and print one line per layer."""
    from captious.metrics._matching import encoder_baselines
    from captious.models import piece_idf, text_encoder
    from captious.models.encoder_defaults import defaults

    if args.pairs < 100:
        raise UsageError(f"--pairs {args.pairs}: at least 100 pairs are needed")
    texts = _texts(args.texts)
    with _options.active(args):
        encoder = text_encoder.load(args.model, args.dtype)
        seed = _options.seed(args)
        rows = encoder_baselines.baselines(encoder, texts, args.pairs, seed)
        source = ", ".join(p.name for p in args.texts) + f" ({len(set(texts))} texts)"
        if args.output is not None:
            made = encoder_baselines.as_json(encoder, rows, args.pairs, seed, source)
            args.output.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
        if args.idf is not None:
            piece_idf.save(texts, encoder, args.idf)
    known = defaults(args.model)
    sys.stdout.write("layer\tP\tR\tF\tsd(R)\tthreshold\n")
    for row in rows:
        mark = "\t*" if known is not None and row.layer == known.tbr_layer else ""
        sys.stdout.write(
            f"{row.layer}\t{row.p:.4f}\t{row.r:.4f}\t{row.f:.4f}\t{row.r_sd:.4f}\t{row.r:.2f}{mark}\n"
        )
    last = rows[-1].layer if known is None else known.tbr_layer
    line = f"bert_tbr(model='{args.model}', layer={last}, threshold={rows[last].r:.2f})"
    _options.remark(f"for example {line}")
    if args.output is not None:
        _options.remark(f"bertscore(model='{args.model}', baseline='{args.output}')")
    if args.idf is not None:
        _options.remark(f"bert_tbr(idf='{args.idf}') uses these weights")
    return 0


def _texts(paths: list[Path]) -> list[str]:
    """Read all texts of reference files; a .txt file holds one sentence per line."""
    from captious.io.references import References

    out: list[str] = []
    for path in paths:
        problems: list[str] = []
        refs = References([path], problems)
        if problems:
            raise InputError(problems)
        lists = refs.by_row if refs.by_row is not None else list(refs.by_id.values())
        for entry in lists:
            out.extend([entry] if isinstance(entry, str) else entry)
    return out
