"""``captious detect``: object labels of photographs, for VIFIDEL."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from captious.cli import _options
from captious.errors import InputError


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "detect",
        description="Find objects in photographs and write them to a parquet file that "
        "`captious score --objects FILE` reads. Run it again to continue where it stopped.",
    )
    parser.add_argument(
        "photos", nargs="+", type=Path, metavar="PHOTOS", help="folders of photographs, or files"
    )
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FILE.parquet")
    parser.add_argument(
        "--detector", metavar="NAME",
        help="ssd-mobilenet-v2-coco (default), words-coco (a thousand nouns over grid regions), "
        "imagenet (the backbones' own classes over grid regions), or name or folder of a "
        "transformers detector: DETR, RT-DETR, YOLOS, OWL-ViT, OWLv2",
    )  # fmt: skip
    parser.add_argument(
        "--labels", metavar="FILE", help="what OWL-ViT or OWLv2 should look for, one label per line"
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="lowest confidence to keep (default: 0.3, words-coco 0.2, imagenet 0.5)",
    )
    parser.add_argument(
        "--max-pixels", type=int, metavar="N", help="refuse larger pictures (default: 80 million)"
    )
    parser.add_argument(
        "--sheet", type=Path, metavar="PNG", help="also draw a contact sheet with the boxes"
    )
    _options.running(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Detect, write, and say what was skipped."""
    from captious.evidence.detect import DEFAULT, default_threshold, load_detector
    from captious.evidence.detect_run import detect_images
    from captious.evidence.images import MAX_PIXELS

    images = list_photos(args.photos)
    with _options.active(args):
        name = args.detector or DEFAULT
        detector = load_detector(name, args.labels)
        done = detect_images(
            images,
            detector,
            args.output,
            default_threshold(name) if args.threshold is None else args.threshold,
            args.max_pixels or MAX_PIXELS,
        )
        if args.sheet:
            from captious.evidence.sheet import contact_sheet

            contact_sheet(done.out, images, args.sheet)
    for reason in done.skipped:
        sys.stderr.write(f"captious: skipped {reason}\n")
    if not args.quiet:
        _options.remark(
            f"{done.looked_at} photographs processed, {done.kept} were done before, "
            f"{len(done.skipped)} skipped; wrote {done.out}"
        )
    return 0


def list_photos(places: list[Path]) -> list[tuple[str, Path]]:
    """Return `(key, path)` of all photographs; keys are paths below the folder that was named."""
    from captious.evidence.images import find_images

    photographs: dict[str, Path] = {}
    for place in places:
        for path in find_images(place):
            key = path.relative_to(place).as_posix() if place.is_dir() else path.name
            if photographs.setdefault(key, path) != path:
                raise InputError(
                    f"two photographs are called {key!r}: {photographs[key]} and {path}"
                )
    if not photographs:
        raise InputError(f"no photograph in {', '.join(map(str, places))}")
    return list(photographs.items())
