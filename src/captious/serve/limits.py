"""What a service lets its callers cost, in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from captious import spec as specs
from captious.errors import CaptiousError, UsageError


@dataclass(frozen=True)
class Limits:
    """Bounds on what is asked for; beyond them a request is refused, and told why.

    Attributes:
        body: bytes of a JSON request.
        captions: captions of a request.
        references: references of a caption.
        letters: letters of a text.
        metrics: metrics of a request.
        waiting: captions that may wait to be scored; beyond, the answer is 429.
        together: captions that are scored in one go.
        prepared: lists of metrics that stay prepared.
        pixels: of a photograph.
        upload: bytes of an upload.
        files: files of an upload.
        rows: captions of a run.
        jobs: runs that may wait.
        seconds: how long a request may wait for its scores.
    """

    body: int = 32_000_000
    captions: int = 10_000
    references: int = 200
    letters: int = 20_000
    metrics: int = 40
    waiting: int = 20_000
    together: int = 2_048
    prepared: int = 8
    pixels: int = 40_000_000
    upload: int = 1_000_000_000
    files: int = 20_000
    rows: int = 1_000_000
    jobs: int = 20
    seconds: float = 300.0


class Busy(CaptiousError):
    """More is waiting than the limits allow; the caller should come back later."""


class Stopped(CaptiousError):
    """The service is being stopped and takes no more work."""


class TooLarge(CaptiousError):
    """A request is beyond the limits."""


_PATH = re.compile(r"[/\\]|^[.~]|\.\w{1,8}$")


@lru_cache(maxsize=256)
def check_metrics(metrics: tuple[str, ...], most: int, only: frozenset[str] | None) -> None:
    """Refuse metrics that a caller over the network may not ask for.

    A parameter can name a file (document frequencies, weights); files are the operator's.

    Raises:
        UsageError: a file is named, or a metric that this service does not offer.
        TooLarge: there are too many.
    """
    parsed = specs.parse_many(metrics)
    if len(parsed) > most:
        raise TooLarge(f"{len(parsed)} metrics; a request may name {most}")
    for spec in parsed:
        for parameter, value in spec.parameters:
            if isinstance(value, str) and (_PATH.search(value) or Path(value).exists()):
                raise UsageError(
                    f"{spec.name}: the parameter {parameter!r} names a file, which only the "
                    "operator of a service can do (captious serve --metrics)"
                )
    if only is not None:
        refused = [str(spec) for spec in parsed if str(spec) not in only]
        if refused:
            raise UsageError(
                f"this service does not offer {', '.join(refused)}. It offers: "
                f"{', '.join(sorted(only))}"
            )
