"""Mean vectors of many captions by a frozen encoder, kept in a file while they are made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from captious.models.fit import means
from captious.models.text_encoder import TextEncoder
from captious.progress import track

_TEXTS = 4096


def mean_vectors(encoder: TextEncoder, texts: Sequence[str], file: Path) -> Tensor:
    """Mean of the unit vectors of every text, in half precision; a second call reads ``file``."""
    key = text_key(encoder, texts)
    note = file.with_suffix(".json")
    file.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    begin = int(known.get("done", 0)) if known.get("key") == key and file.exists() else 0
    block = np.lib.format.open_memmap(
        file, "r+" if begin else "w+", np.float16, (len(texts), encoder.width)
    )
    for start in track(range(begin, len(texts), _TEXTS), "encoding captions", unit="blocks"):
        encoded = encoder.encode(list(texts[start : start + _TEXTS]), encoder.layers)
        encoder.forget()
        block[start : start + _TEXTS] = means(encoded).half().numpy()
        block.flush()
        done = min(len(texts), start + _TEXTS)
        note.write_text(json.dumps({"key": key, "done": done}), encoding="utf-8")
    return torch.from_numpy(np.array(block))


def text_key(encoder: TextEncoder, texts: Sequence[str]) -> str:
    """What the vectors depend on, as a short text."""
    whole = json.dumps([encoder.weights_sha, list(texts)])
    return hashlib.sha256(whole.encode()).hexdigest()
