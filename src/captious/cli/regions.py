"""``captious regions``: region features of photographs, for TIGEr and ViLBERTScore."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.errors import UsageError
from captious.evidence.detect import DEFAULT as DETECTOR
from captious.reading import read_text


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "regions",
        description="Extract region features of all photographs of a folder, a tar or a zip "
        "(read in place), or convert region features of another kind (*_ims.npy, .tsv, .h5, LMDB, "
        "folders of npz, imgs_rcnn pickles), into a folder that `--regions` reads. "
        "Run it again to continue where it stopped.",
    )
    parser.add_argument(
        "source",
        type=Path,
        metavar="PHOTOS",
        help="folder, .tar, .tar.gz or .zip of photographs; or region features",
    )
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="REGIONS")
    parser.add_argument(
        "--count", type=int, default=36, help="regions per photograph (default: 36)"
    )
    parser.add_argument(
        "--backbone", nargs="+", metavar="NAME",
        help="backbones whose features are concatenated (default: lite0-captions lite2-captions on "
        "squares of 256 pixels, what tiger, scan, fit and the word detector read)",
    )  # fmt: skip
    parser.add_argument(
        "--for", dest="reader", metavar="METRIC",
        help="make the features that the model of this metric reads",
    )  # fmt: skip
    parser.add_argument(
        "--clip", type=Path, metavar="PATH", help="crop vectors of a CLIP-type model"
    )
    parser.add_argument(
        "--detector", nargs="?", const=DETECTOR, metavar="NAME",
        help="let up to 12 boxes of a detector replace the smallest grid boxes (without "
        f"a name: {DETECTOR}); the shipped SCAN model was trained on the grid alone",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=Path, metavar="LIST", help="only the photographs listed in this file"
    )
    parser.add_argument(
        "--flip", action="store_true", help="mirror the photographs (for `captious train`)"
    )
    parser.add_argument(
        "--square", type=int, metavar="PIXELS",
        help="squash photographs to a square of this side (default: 256; with --backbone, "
        "photographs keep their shape)",
    )  # fmt: skip
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Extract or convert."""
    with _options.active(args):
        if _is_features(args.source):
            from captious.evidence.region_formats import convert_pickle, open_regions
            from captious.evidence.regions import save_regions

            pickled = args.source.suffix in {".pkl", ".pickle", ".p"}
            opened = convert_pickle(args.source) if pickled else open_regions(args.source)
            store = save_regions(opened, args.output)
            problems: list[str] = []
        else:
            from captious.evidence.extract import extract_folder

            if args.clip is not None:
                if args.detector or args.flip:
                    raise UsageError("--clip takes neither --detector nor --flip")
                from captious.evidence.extract_clip import ClipCrops

                maker: Any = ClipCrops(args.clip, args.count)
            else:
                maker = _maker(args)
            only = None if args.only is None else _names(args.only)
            store, problems = extract_folder(args.source, args.output, maker, only=only)
    for problem in problems:
        sys.stderr.write(f"captious: skipped {problem}\n")
    if not args.quiet:
        _options.remark(
            f"{args.output}: regions of {len(store):,} images, features of length {store.dim} "
            f"({store.source}); {len(problems)} photographs skipped"
        )
    return 0


def _maker(args: argparse.Namespace) -> Any:
    """Return the extractor that the options describe."""
    from captious.evidence.extract import DEFAULT_KIND, extractor, extractor_of

    choice = {"detect": args.detector, "flip": args.flip}
    if args.backbone:
        if args.reader:
            raise UsageError("--for chooses the backbones: leave out --backbone")
        return extractor(args.backbone, args.count, side=args.square, **choice)
    kind = DEFAULT_KIND if args.reader is None else _kind_read_by(args.reader)
    usual = extractor_of(kind)
    names = [backbone.name for backbone in usual.backbones]
    return extractor(names, args.count, side=args.square or usual.side, **choice)


def _kind_read_by(name: str) -> str:
    """Return the kind of features that the model of a metric reads."""
    from captious import registry
    from captious.engine.evidence import kinds_read

    kinds = [kind for kind in kinds_read([registry.create(name)]) if kind]
    if len(kinds) != 1:
        said = f"reads several kinds: {', '.join(kinds)}" if kinds else "reads no region features"
        raise UsageError(f"--for {name}: {name} {said}")
    return kinds[0]


def _names(path: Path) -> list[str]:
    """Names of photographs, one per line."""
    lines = read_text(path).splitlines()
    return [line.strip() for line in lines if line.strip()]


def _is_features(path: Path) -> bool:
    if path.is_dir():
        return any((path / name).exists() for name in ("store.json", "data.mdb")) or any(
            path.glob("*.np[yz]")
        )
    return path.suffix in {".npy", ".tsv", ".h5", ".hdf5", ".pkl", ".pickle", ".p", ".lmdb"}
