"""``captious probe``: how far can a metric be fooled?"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from captious.cli import _options
from captious.io import grids
from captious.types import CaptionSet


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "probe",
        description="Spoil captions in five ways (repetition, objects, shuffle, template, "
        "frequent) and report how often the untouched caption keeps the higher score. Several "
        "variants are tried per attack, and the one that the metric likes best counts. "
        "Example: captious probe captions.json --refs refs.json -m meteor,spice",
    )
    _options.data(parser)
    _options.metrics(parser)
    _options.output(parser)
    parser.add_argument("--attacks", nargs="+", metavar="NAME", help="only these attacks")
    parser.add_argument("--variants", type=int, default=3, help="tries per attack (default: 3)")
    parser.add_argument("--limit", type=int, default=500, help="captions to attack (default: 500)")
    parser.add_argument("--format", "-f", choices=["text", "json"], default="text")
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Attack and report."""
    from captious.meta import gaming
    from captious.perturb.attacks import ATTACKS

    with _options.active(args):
        samples = _fair(_options.read(args))
        seed = _options.seed(args)
        if len(samples) > args.limit:
            picked = np.random.default_rng(seed).choice(len(samples), args.limit, replace=False)
            samples = samples.take(np.sort(picked))
        probed = gaming.probe(
            samples,
            args.metrics,
            attacks=tuple(args.attacks or ATTACKS),
            variants=args.variants,
            seed=seed,
        )
    if args.format == "json":
        _options.write(args, json.dumps([asdict(f) for f in probed], indent=1) + "\n")
        return 0
    cells = [["metric", "attack", "captions", "untouched wins", "against one variant", "gain"]]
    for f in probed:
        shares = [f"{100 * f.held:.1f}%", f"{100 * f.held_one:.1f}%"]
        cells.append([f.column, f.attack, f"{f.captions:,}", *shares, f"{f.gain:+.2f}"])
    _options.write(args, grids.joined([cells], "text"), [cells])
    return 0


def _fair(samples: CaptionSet) -> CaptionSet:
    """Take a caption out of its own references: no gamed version could match itself."""
    same = samples.caption[samples.reference_rows] == samples.reference
    if not same.any():
        return samples
    counts = np.bincount(samples.reference_rows[~same], minlength=len(samples))
    offsets = np.zeros(len(samples) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    left = replace(samples, reference=samples.reference[~same], offsets=offsets)
    _options.remark(f"{int(same.sum()):,} captions were taken out of their own references")
    return left.take(np.flatnonzero(counts > 0)) if (counts == 0).any() else left
