"""Backbones: a photograph in, a feature map out.

They run through ONNX Runtime where it is installed (3 to 5 times faster than torch on a CPU); the
exported graph is kept in the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from captious import assets, settings
from captious.errors import InputError, MissingExtra
from captious.reading import read_bytes, reading

Floats = NDArray[np.float32]


class Backbone(Protocol):
    """Photograph in, feature map out."""

    name: str
    dim: int

    def maps(self, pixels: Floats) -> Floats:
        """``[h, w, 3]`` values 0..255 to a map ``[dim, rows, columns]``."""
        ...


@dataclass
class EfficientNetLite:
    """An ImageNet backbone that installs from the package index (1,280 channels, stride 32)."""

    name: str = "efficientnet-lite0"
    weights: Path | None = None
    threads: int = 1
    dim: int = 1280
    _run: Callable[[Floats], Floats] | None = field(default=None, repr=False)

    def maps(self, pixels: Floats) -> Floats:
        """Feature map of one photograph."""
        batch = ((pixels - 127.0) / 128.0).transpose(2, 0, 1)[None]
        return self.open()(np.ascontiguousarray(batch, np.float32))[0]

    def open(self) -> Callable[[Floats], Floats]:
        """The network, ready to run; exported and loaded on the first call."""
        if self._run is None:
            self._run = self._open()
        return self._run

    def _path(self) -> Path:
        return assets.resolve(self.name, self.weights)

    def _open(self) -> Callable[[Floats], Floats]:
        path = self._path()
        try:
            import onnxruntime
        except ImportError:
            return _torch_runner(self.name, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        graph = _exported(self.name, path)
        try:
            session = open_graph(graph, options)
        except InputError:  # a damaged file in our own cache: make it again
            graph.unlink(missing_ok=True)
            session = open_graph(_exported(self.name, path), options)

        def run(batch: Floats) -> Floats:
            return np.asarray(session.run(None, {"pixels": batch})[0], np.float32)

        return run


def open_graph(path: Path, options: Any) -> Any:
    """Open a network in ONNX format; only weights inside the file are read.

    Raises:
        InputError: the file is damaged, or wants other files beside it.
    """
    import onnxruntime

    with reading(path, "a network in ONNX format"):
        return onnxruntime.InferenceSession(
            read_bytes(path), options, providers=["CPUExecutionProvider"]
        )


def base_network(name: str, path: Path) -> Any:
    """Return the torch network of a backbone; ``path`` holds its weights or its last stage."""
    try:
        import torch
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise MissingExtra("efficientnet_lite_pytorch", "regions", "region extraction") from error
    # The library pads for one input size; any multiple of 32 pads alike, its default 260 does not.
    base = base_of(name)
    network = EfficientNet.from_name(base, 3, image_size=384)
    whole = path if base == name else assets.resolve(base)
    network.load_state_dict(torch.load(whole, map_location="cpu", weights_only=True))
    if base != name:
        _replace_last_stage(network, path)
    return network.eval()


def _torch_network(name: str, path: Path) -> Any:
    network = base_network(name, path)
    import torch

    class Maps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: Any) -> Any:
            return self.network.extract_features(pixels)

    return Maps().eval()


def base_of(name: str) -> str:
    """Return the ImageNet backbone that ``lite2-captions`` begins with; another is its own."""
    tuned = re.fullmatch(r"(lite\d)-[\w-]+", name)
    return f"efficientnet-{tuned[1]}" if tuned else name


def _replace_last_stage(network: Any, folder: Path) -> None:
    """Load the last stage that ``captious train eyes`` made, over that of ImageNet."""
    from safetensors.torch import load_file

    file = folder / "model.safetensors"
    with reading(file, "the last stage of a backbone", "reinstall captious, or train it again"):
        stage = {key: value.float() for key, value in load_file(file).items()}
    own = network.state_dict()
    wrong = [key for key, value in stage.items() if key not in own or own[key].shape != value.shape]
    if wrong or not stage:
        raise InputError(f"{file}: not a last stage of this backbone ({', '.join(wrong[:3])})")
    network.load_state_dict(own | stage)


def _torch_runner(name: str, path: Path) -> Callable[[Floats], Floats]:
    import torch

    network = _torch_network(name, path)

    def run(batch: Floats) -> Floats:
        with torch.inference_mode():
            return np.asarray(network(torch.from_numpy(batch)).numpy(), np.float32)

    return run


def _exported(name: str, path: Path) -> Path:
    """The ONNX graph of a backbone, exported once into the cache."""
    weights = path / "model.safetensors" if path.is_dir() else path
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:12]
    target = settings.get().cache_dir / "onnx" / f"{name}-{digest}.onnx"
    if target.exists():
        return target
    import torch

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    axes = {0: "batch", 2: "height", 3: "width"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the stable exporter announces its successor
        torch.onnx.export(
            _torch_network(name, path),
            (torch.zeros(1, 3, 384, 384),),
            str(temporary),
            input_names=["pixels"],
            output_names=["maps"],
            dynamic_axes={"pixels": axes, "maps": axes},
            opset_version=17,
            dynamo=False,
        )
    temporary.replace(target)
    return target
