"""Fill in what is known of the images: labels from files, or from the detector."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from captious import assets
from captious.engine.plan import Step
from captious.errors import InputError
from captious.types import CaptionSet, Need


def labelled(samples: CaptionSet, paths: Sequence[Path]) -> CaptionSet:
    """Return the samples with object labels from annotation or detection files.

    Raises:
        InputError: no image of the samples is in the files.
    """
    from captious.evidence.objects import ObjectStore

    store = ObjectStore.read(*paths)
    keys = samples.image_keys.astype(str).tolist()
    found = np.empty(len(samples), dtype=object)
    known = {key: store.labels(key) for key in dict.fromkeys(keys)}
    found[:] = [known[key] for key in keys]
    if all(labels is None for labels in known.values()):
        ours, theirs = (", ".join(map(repr, names[:3])) for names in (keys, list(store.by_image)))
        raise InputError(
            f"{store.source}: holds no labels for any image of the captions; images are called "
            f"{ours} in the captions and {theirs} in this file"
        )
    return replace(samples, objects=found, objects_from=store.source)


def completed(samples: CaptionSet, steps: Sequence[Step]) -> CaptionSet:
    """Run the default detector where labels are needed, none are given and pictures are there."""
    wanted = any(Need.IMAGE_OBJECTS in s.metric.needs for s in steps)
    if not wanted or samples.objects is not None:
        return samples
    held = [i for i in dict.fromkeys(samples.images.tolist()) if i is not None]
    paths = [i for i in held if Path(i).is_file()]
    if not paths or find_spec("cv2") is None or assets.available(_default()) is None:
        return samples  # the plan says what is missing
    from captious.evidence.detect import THRESHOLD
    from captious.evidence.detect_run import detected_store

    store, skipped = detected_store(paths)
    for reason in skipped:
        sys.stderr.write(f"captious: no objects found: {reason}\n")
    known = {path: store.labels(path) for path in paths}
    found = np.empty(len(samples), dtype=object)
    found[:] = [known.get(i) for i in samples.images]
    return replace(samples, objects=found, objects_from=f"{store.source}({THRESHOLD:g})")


def _default() -> str:
    from captious.evidence.detect import DEFAULT

    return DEFAULT
