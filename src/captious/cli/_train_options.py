"""Options that trainers on captions and region features share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

BFLOAT16 = "matrix products in bfloat16: faster if the processor supports it"


def add_data(parser: argparse.ArgumentParser) -> None:
    """Say what is learned from, and where the model goes."""
    parser.add_argument("--regions", type=Path, required=True, metavar="STORE",
                        help="region features of the train and dev photographs")  # fmt: skip
    add_captions(parser)


def add_captions(parser: argparse.ArgumentParser) -> None:
    """Say which captions, which photographs, and where the model goes."""
    parser.add_argument("--captions", type=Path, required=True, metavar="FILE",
                        help="Karpathy JSON (with its splits), or IMAGE#N TAB CAPTION")  # fmt: skip
    parser.add_argument("--train", type=Path, metavar="LIST", help="names of the train images")
    parser.add_argument("--dev", type=Path, metavar="LIST", help="names of the dev images")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FOLDER",
                        help="folder for the model")  # fmt: skip


def add_run(
    parser: argparse.ArgumentParser, steps: int, batch: int, inner: int, validate: int
) -> None:
    """Say how long and how fast; the numbers are the defaults."""
    parser.add_argument("--steps", type=int, default=steps, help="training steps")
    parser.add_argument("--batch", type=int, default=batch, help="photographs per batch")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--inner", type=int, default=inner, help="width of the hidden layer")
    parser.add_argument("--validate", type=int, default=validate, metavar="STEPS",
                        help="steps between validations")  # fmt: skip
    parser.add_argument("--bfloat16", action="store_true", help=BFLOAT16)


def line(entry: dict[str, Any]) -> str:
    """Return what was measured at a validation, on one line."""
    return "  ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in entry.items()
    )
