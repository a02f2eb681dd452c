"""Models with one vector for a photograph and one for a text: CLIP and its kin.

A model is named by

* a folder of transformers, or a name on its hub: CLIP, SigLIP, SigLIP 2, LongCLIP, ALIGN, AltCLIP,
  Chinese-CLIP, whatever has ``get_image_features`` and ``get_text_features``;
* ``open_clip:ARCHITECTURE/TAG`` or ``open_clip:ARCHITECTURE@FILE``, where open_clip is installed.

``weights`` may name a state dict in OpenAI's form (:mod:`captious.models.openai_clip`) that takes
the place of the folder's weights; the folder then gives architecture, tokeniser, image settings.

Vectors have length 1. Texts of like length share a batch and are not padded beyond the longest
(SigLIP: padded to the full length, as it was trained). Vectors of photographs are kept on disk,
known by the content of the photograph.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious import assets, settings
from captious.errors import InputError, MissingAsset, MissingExtra, UsageError
from captious.evidence.images import open_photograph
from captious.models.embedding_cache import EmbeddingCache
from captious.models.model_folder import revision, settings_sha
from captious.models.pixels import Pixels
from captious.models.text_encoder import batches, weights_sha
from captious.models.text_encoder import locate as locate_folder
from captious.progress import Progress
from captious.reading import reading

Vectors = npt.NDArray[np.float32]

OPEN_CLIP = "open_clip:"
DTYPES = ("float32", "bfloat16", "float16")
IMAGE_CACHE_BYTES = 2_000_000_000
_IMAGES_AT_ONCE = 32
_PIECES_AT_ONCE = 4096


class DualEncoder(ABC):
    """A model that is ready: texts and photographs to unit vectors.

    Attributes:
        name: how it was asked for.
        identity: everything that vectors depend on, for caches and signatures.
        limit: the longest text, in pieces with the model's own marks.
        weights_sha: of the weights.
        settings_sha: of what else decides vectors: layers and activations, tables of pieces.
        revision: the commit of a model of the hub.
    """

    name: str
    limit: int
    pixels: str
    weights_sha: str
    settings_sha: str
    revision: str

    def __init__(self, dtype: str, device: str) -> None:
        self.dtype, self.device = dtype, device

    @property
    def identity(self) -> str:
        """Weights, settings of network and pictures, number type and kind of device."""
        kind = self.device.split(":")[0]
        return f"{self.weights_sha}/{self.settings_sha}/{self.pixels}/{self.dtype}/{kind}"

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], npt.NDArray[np.bool_]]:
        """Return the pieces of each text, cut to the limit, and which texts were cut."""

    @abstractmethod
    def _texts(self, pieces: Sequence[list[int]]) -> Any:
        """Return the vectors of one batch."""

    @abstractmethod
    def _pictures(self, pictures: Sequence[Any]) -> Any:
        """Return the vectors of one batch of RGB pictures."""

    def texts(self, texts: Sequence[str]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return a unit vector per text, and which texts were longer than the model can read."""
        pieces, cut = self.tokenize(texts)
        order = sorted(range(len(texts)), key=lambda at: len(pieces[at]))
        vectors: list[Any] = [None] * len(texts)
        with Progress(f"reading with {self.name}", len(texts), "texts") as bar:
            for batch in batches(order, [len(p) for p in pieces], _PIECES_AT_ONCE):
                for at, vector in zip(batch, self._unit(self._texts, [pieces[i] for i in batch]),
                                      strict=True):  # fmt: skip
                    vectors[at] = vector
                bar.advance(len(batch))
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32), cut

    def images(
        self,
        photographs: Mapping[str, Path | bytes],
        digests: Mapping[str, str],
        upright: bool = True,
    ) -> tuple[dict[str, Vectors], dict[str, str]]:
        """Return a unit vector per image, and why an image has none.

        Args:
            photographs: file or encoded content by image.
            digests: what each photograph is known by.
            upright: whether pictures are turned as their EXIF mark says.
        """
        store = EmbeddingCache(settings.get().cache_dir / "image_vectors.sqlite", IMAGE_CACHE_BYTES)
        try:
            seen_as = self.identity if upright else f"{self.identity}/as stored"
            keys = {image: store.key(seen_as, 0, digests[image]) for image in photographs}
            kept = store.get(list(dict.fromkeys(keys.values())))
            known = {key: entry[1][0] for key, entry in kept.items()}
            problems: dict[str, str] = {}
            todo = {key: image for image, key in keys.items() if key not in known}
            waiting: list[tuple[bytes, Any]] = []
            with Progress(f"looking with {self.name}", len(todo), "photographs") as bar:
                for key, image in todo.items():
                    try:
                        waiting.append((key, open_photograph(photographs[image], image, upright)))
                    except InputError as error:
                        problems[image] = str(error)
                    if len(waiting) == _IMAGES_AT_ONCE:
                        known |= self._looked_at(waiting, store)
                        waiting = []
                    bar.advance()
            known |= self._looked_at(waiting, store)
        finally:
            store.close()
        seen = {image: known[key] for image, key in keys.items() if key in known}
        unread = {keys[image]: problem for image, problem in problems.items()}
        return seen, {i: unread[key] for i, key in keys.items() if key in unread}

    def _looked_at(
        self, waiting: Sequence[tuple[bytes, Any]], store: EmbeddingCache
    ) -> dict[bytes, Vectors]:
        if not waiting:
            return {}
        vectors = self._unit(self._pictures, [picture for _, picture in waiting])
        made = {key: vector for (key, _), vector in zip(waiting, vectors, strict=True)}
        store.put((key, (np.zeros(1, np.int32), vector[None])) for key, vector in made.items())
        return made

    def _unit(self, encode: Callable[[Any], Any], batch: Any) -> Vectors:
        import torch

        with torch.inference_mode():
            vectors = encode(batch).float()
            return torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()


class TransformersDual(DualEncoder):
    """A model of transformers, from a folder."""

    def __init__(
        self, name: str, path: Path, weights: Path | None, dtype: str, device: str
    ) -> None:
        import torch
        from transformers import AutoConfig, AutoModel, AutoTokenizer
        from transformers.utils import logging

        super().__init__(dtype, device)
        self.name = name
        shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
        logging.disable_progress_bar()
        logging.set_verbosity_error()  # what it would say of missing keys is an error below
        kind = getattr(torch, dtype)
        try:
            with reading(path, "an image-text model of transformers", "download it again"):
                config = AutoConfig.from_pretrained(path, local_files_only=True)
                self._tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
                if weights is None:
                    _stretch(config, path)
                    model, info = AutoModel.from_pretrained(
                        path,
                        config=config,
                        local_files_only=True,
                        dtype=kind,
                        output_loading_info=True,
                    )
                    missing = sorted(info["missing_keys"])
        finally:
            logging.set_verbosity(level)
            if shown:
                logging.enable_progress_bar()
        if weights is not None:
            model, missing = _with_state(path, config, weights)
        if missing:
            listed = ", ".join(missing[:12]) + (", ..." if len(missing) > 12 else "")
            raise InputError(f"{weights or path}: {len(missing)} parameters are missing: {listed}")
        if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
            raise UsageError(
                f"{name}: a {type(model).__name__} has no vectors for photographs and texts; "
                "CLIP, SigLIP and similar models have"
            )
        if "spatial_shapes" in inspect.signature(model.get_image_features).parameters:
            raise UsageError(
                f"{name}: a {type(model).__name__} reads patches of any shape (NaFlex), which "
                "captious does not prepare; name a model of fixed size, such as "
                "google/siglip2-base-patch16-224"
            )
        self._model = model.to(device, kind).eval().requires_grad_(False)
        text = getattr(config, "text_config", config)
        self.limit = int(text.max_position_embeddings)
        self._full = str(config.model_type).startswith("siglip")
        side = int(getattr(getattr(config, "vision_config", config), "image_size", 224))
        self._pixels = Pixels.read(path, side)
        self.pixels = self._pixels.signature
        self.weights_sha = assets.digest(weights)[:8] if weights else weights_sha(path)
        self.settings_sha, self.revision = settings_sha(path), revision(path)
        probe = self._tokenizer("a", verbose=False, return_special_tokens_mask=True)
        self._suffix = list(probe["special_tokens_mask"])[::-1].index(0)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], npt.NDArray[np.bool_]]:
        """Cut at the limit; the model's closing mark stays."""
        if not texts:
            return [], np.zeros(0, bool)
        pieces = self._tokenizer(
            list(texts), padding=False, truncation=False, verbose=False, return_attention_mask=False
        )["input_ids"]
        cut = np.array([len(p) > self.limit for p in pieces], bool)
        for at in np.flatnonzero(cut).tolist():
            end = len(pieces[at]) - self._suffix
            pieces[at] = pieces[at][: self.limit - self._suffix] + pieces[at][end:]
        return pieces, cut

    def _texts(self, pieces: Sequence[list[int]]) -> Any:
        import torch

        longest = self.limit if self._full else max(map(len, pieces))
        pad = self._tokenizer.pad_token_id or 0
        filled = [[*p, *[pad] * (longest - len(p))] for p in pieces]
        if self._full:  # SigLIP reads its padding, on whichever side its tokeniser puts it
            if self._tokenizer.padding_side == "left":
                filled = [
                    row[len(p) :] + row[: len(p)] for p, row in zip(pieces, filled, strict=True)
                ]
            ids = torch.tensor(filled, device=self.device)
            return _pooled(self._model.get_text_features(input_ids=ids))
        ids = torch.tensor(filled, device=self.device)
        real = torch.tensor([[1] * len(p) + [0] * (longest - len(p)) for p in pieces])
        real = real.to(self.device)
        return _pooled(self._model.get_text_features(input_ids=ids, attention_mask=real))

    def _pictures(self, pictures: Sequence[Any]) -> Any:
        import torch

        values = torch.from_numpy(np.stack([self._pixels(p) for p in pictures]))
        values = values.to(self.device, getattr(torch, self.dtype))
        return _pooled(self._model.get_image_features(pixel_values=values))


class OpenClipDual(DualEncoder):
    """A model of open_clip, with its own tokeniser and image settings."""

    def __init__(self, name: str, dtype: str, device: str) -> None:
        import open_clip
        import torch

        super().__init__(dtype, device)
        self.name = name
        architecture, tag, file = _open_clip_parts(name)
        if architecture not in open_clip.list_models():
            raise UsageError(f"open_clip knows no architecture {architecture!r}")
        model, _, transform = open_clip.create_model_and_transforms(
            architecture, pretrained=file or tag, precision="fp32", device="cpu"
        )
        self._model = model.to(device, getattr(torch, dtype)).eval().requires_grad_(False)
        self._transform = transform
        self._tokenizer = open_clip.get_tokenizer(architecture)
        self.limit = int(self._tokenizer.context_length)
        self.pixels = f"open_clip-{open_clip.__version__}-{_short(_built(transform))}"
        self.weights_sha = assets.digest(Path(file))[:8] if file else _state_sha(self._model)
        self.settings_sha = _short(
            json.dumps(open_clip.get_model_config(architecture), sort_keys=True, default=str),
            _built(model),
            type(self._tokenizer).__name__,
            str(self.limit),
        )
        self.revision = tag or "file"

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], npt.NDArray[np.bool_]]:
        """Use open_clip's own table; it fills up with zeros to the full length."""
        rows = self._tokenizer(list(texts)).tolist() if texts else []
        return rows, np.array([self._length(text) > self.limit for text in texts], bool)

    def _length(self, text: str) -> int:
        """Pieces of a text with the marks around it; open_clip has tables of its own and others."""
        if hasattr(self._tokenizer, "encode"):
            return len(self._tokenizer.encode(text)) + 2
        clean = getattr(self._tokenizer, "clean_fn", str)
        return len(self._tokenizer.tokenizer(clean(text), verbose=False)["input_ids"])

    def _texts(self, pieces: Sequence[list[int]]) -> Any:
        import torch

        return self._model.encode_text(torch.tensor(list(pieces), device=self.device))

    def _pictures(self, pictures: Sequence[Any]) -> Any:
        import torch

        values = torch.stack([self._transform(p) for p in pictures])
        return self._model.encode_image(values.to(self.device, getattr(torch, self.dtype)))


def load(name: str, weights: str = "", dtype: str = "float32") -> DualEncoder:
    """Open a model once per process.

    Args:
        name: folder, name on the hub, or ``open_clip:...``.
        weights: state dict in OpenAI's form that takes the place of the folder's weights.
        dtype: number type of the computation.

    Raises:
        MissingAsset: it is not on this machine.
    """
    place = locate(name, weights)
    file = Path(weights).expanduser() if weights else None
    state = (place, _state(place), _state(file))
    return _opened(name, weights, dtype, settings.torch_device(), state)


def locate(name: str, weights: str = "") -> Path | None:
    """Return the folder of a model (None for open_clip), after a check that all files are there.

    Raises:
        MissingAsset: something is not on this machine; the message says how to get it.
    """
    if weights and not Path(weights).expanduser().is_file():
        raise MissingAsset(f"there is no file {weights!r} with weights")
    if name.startswith(OPEN_CLIP):
        from importlib.util import find_spec

        if find_spec("open_clip") is None:
            raise MissingExtra("open_clip", "open_clip", f"the model {name!r}")
        file = _open_clip_parts(name)[2]
        if file and not Path(file).is_file():
            raise MissingAsset(f"there is no file {file!r} with weights")
        return None
    return locate_folder(name, "image-text model")


@lru_cache(maxsize=2)
def _opened(name: str, weights: str, dtype: str, device: str, state: Any) -> DualEncoder:
    if name.startswith(OPEN_CLIP):
        return OpenClipDual(name, dtype, device)
    file = Path(weights).expanduser() if weights else None
    return TransformersDual(name, state[0], file, dtype, device)


def _open_clip_parts(name: str) -> tuple[str, str, str]:
    """Architecture, tag and file of ``open_clip:ARCHITECTURE/TAG`` or ``...@FILE``."""
    rest = name.removeprefix(OPEN_CLIP)
    architecture, _, file = rest.partition("@")
    if file:
        return architecture, "", file
    architecture, _, tag = rest.partition("/")
    if not tag:
        raise UsageError(
            f"{name!r}: write open_clip:ARCHITECTURE/TAG or open_clip:ARCHITECTURE@FILE"
        )
    return architecture, tag, ""


def _with_state(path: Path, config: Any, weights: Path) -> tuple[Any, list[str]]:
    """Make the model that a folder describes and put a state dict of OpenAI's form into it."""
    from transformers import CLIPModel

    from captious.models import openai_clip

    if config.model_type != "clip":
        raise UsageError(
            f"weights={str(weights)!r} fits a CLIP; {path} describes {config.model_type}"
        )
    tensors = openai_clip.read(weights)
    positions = tensors["text_model.embeddings.position_embedding.weight"]
    config.text_config.max_position_embeddings = int(positions.shape[0])
    model = CLIPModel(config)
    own = model.state_dict()
    strange = sorted(n for n, t in tensors.items() if n not in own or own[n].shape != t.shape)
    if strange:
        odd = strange[0]
        raise InputError(
            f"{weights}: its tensor for {odd} has no place in the model that {path}/config.json "
            "describes; name the folder of the same architecture"
        )
    missing, _ = model.load_state_dict(tensors, strict=False)
    return model, sorted(name for name in missing if not name.endswith("position_ids"))


def _stretch(config: Any, path: Path) -> None:
    """Take the number of positions from the weights: Long-CLIPs of the hub keep CLIP's 77."""
    file = path / "model.safetensors"
    if config.model_type != "clip" or not file.is_file():
        return
    from safetensors import safe_open

    table = "text_model.embeddings.position_embedding.weight"
    with safe_open(file, "pt") as held:
        if table in held.keys():  # noqa: SIM118 - not a mapping
            config.text_config.max_position_embeddings = held.get_slice(table).get_shape()[0]


def _short(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _built(thing: Any) -> str:
    """What a network or a transform consists of, without the places of functions in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _state_sha(model: Any) -> str:
    """Hash the weights of a model that has no file of its own to name."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:8]


def _pooled(answer: Any) -> Any:
    """Newer versions of transformers answer with the pooled vector inside an object."""
    return getattr(answer, "pooler_output", answer)


def _state(place: Path | None) -> Any:
    if place is None:
        return None
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    return tuple((f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file())
