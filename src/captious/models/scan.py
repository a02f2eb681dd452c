"""SCAN, the stacked cross attention network: regions and words in one space, and how they meet.

Lee et al., "Stacked Cross Attention for Image-Text Matching" (2018). Image side: a linear map of
region features to unit vectors ``v``. Text side: word embeddings and a (bi-directional) GRU to unit
vectors ``w``, forward and backward states averaged. A *query* set attends over a *context* set:

    c     = query . context                       (cosines, as both are unit vectors)
    chat  = g(c) / |g(c)| over the queries,       g = LeakyReLU 0.1         ("clipped_l2norm")
    alpha = softmax over the context of lambda * chat
    s     = cosine(query, sum alpha * context)    one value per query

``i2t``: regions attend over words; ``t2i``: words attend over regions. The image-caption score is
the aggregate of ``s`` over the queries.

The attended vector itself is never formed: its dot product with the query is ``sum alpha * c`` and
its length the root of ``alpha' G alpha`` with the Gram matrix ``G`` of the context. That turns all
pairs of a batch into a few small matrix products, which is what makes training on a CPU practical.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from captious.errors import InputError, UsageError
from captious.reading import json_object, read_json, reading

EPS = 1e-8
PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
NORMS = ("softmax", "l2norm", "clipped_l2norm", "l1norm", "clipped_l1norm", "clipped", "no_norm")
AGGREGATIONS = ("LogSumExp", "Mean", "Max", "Sum")


@dataclass(frozen=True)
class ScanConfig:
    """The options of the original that shape the model, under their original names."""

    img_dim: int = 2048
    word_dim: int = 300
    embed_size: int = 1024
    vocab_size: int = 4
    num_layers: int = 1
    bi_gru: bool = True
    precomp_enc_type: str = "basic"
    no_imgnorm: bool = False
    no_txtnorm: bool = False
    cross_attn: str = "t2i"
    raw_feature_norm: str = "clipped_l2norm"
    agg_func: str = "LogSumExp"
    lambda_softmax: float = 9.0
    lambda_lse: float = 6.0
    margin: float = 0.2
    max_violation: bool = False

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.raw_feature_norm, NORMS, "raw_feature_norm"),
            (self.agg_func, AGGREGATIONS, "agg_func"),
            (self.cross_attn, ("t2i", "i2t"), "cross_attn"),
            (self.precomp_enc_type, ("basic", "weight_norm"), "precomp_enc_type"),
        ):
            if value not in known:
                raise UsageError(f"{what} is {value!r}, not one of {', '.join(known)}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ScanConfig:
        """Pick our fields out of any options; what SCAN knows beyond them does not matter here."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in options.items() if key in known})


class ImageSide(nn.Module):
    """Region features -> region vectors."""

    def __init__(self, config: ScanConfig) -> None:
        super().__init__()
        self.fc = nn.Linear(config.img_dim, config.embed_size)
        if config.precomp_enc_type == "weight_norm":
            # The release's form has one gain for the whole matrix.
            weight = self.fc.weight.detach()
            del self.fc.weight
            self.fc.weight_g = nn.Parameter(weight.norm())
            self.fc.weight_v = nn.Parameter(weight)
        else:
            nn.init.xavier_uniform_(self.fc.weight)
            nn.init.zeros_(self.fc.bias)
        self.unit = not config.no_imgnorm
        self.weight_norm = config.precomp_enc_type == "weight_norm"

    def forward(self, features: Tensor) -> Tensor:
        """``[..., img_dim]`` to ``[..., embed_size]``."""
        if self.weight_norm:  # the layer then has no plain weight
            gain, direction = self.fc.get_parameter("weight_g"), self.fc.get_parameter("weight_v")
            weight = gain * direction / direction.norm()
        else:
            weight = self.fc.weight
        out = nn.functional.linear(features, weight, self.fc.bias)
        return unit(out) if self.unit else out


class TextSide(nn.Module):
    """Word ids -> contextual word vectors."""

    def __init__(self, config: ScanConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.word_dim)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        self.rnn = nn.GRU(
            config.word_dim,
            config.embed_size,
            config.num_layers,
            batch_first=True,
            bidirectional=config.bi_gru,
        )
        self.unit = not config.no_txtnorm
        self.both_ways = config.bi_gru

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """``[b, l]`` padded ids to ``[b, l, embed_size]``; padding comes out as zeros."""
        return self.contextual(self.embed(ids), lengths)

    def contextual(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """The recurrent part alone, for a trainer that makes its own embeddings."""
        packed = nn.utils.rnn.pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=embedded.shape[1]
        )
        if self.both_ways:
            half = out.shape[2] // 2
            out = (out[..., :half] + out[..., half:]) / 2
        return unit(out) if self.unit else out


class Scan(nn.Module):
    """Both sides and the score between them."""

    def __init__(self, config: ScanConfig) -> None:
        super().__init__()
        self.config = config
        self.image: ImageSide | _Beside = ImageSide(config)
        self.text: TextSide | _Beside = TextSide(config)

    def similarity(self, regions: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Scores of all images (rows) with all captions (columns), the model's own direction."""
        mask = word_mask(lengths, words.shape[1])
        attended = attend_words if self.config.cross_attn == "i2t" else attend_regions
        values = attended(
            regions, words, mask, self.config.lambda_softmax, self.config.raw_feature_norm
        )
        keep = None if self.config.cross_attn == "i2t" else mask[None]
        return aggregate(values, self.config.agg_func, self.config.lambda_lse, keep)

    def grounding(self, regions: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """Grounding vectors ``[images, captions, regions]``: always regions over words."""
        return attend_words(
            regions,
            words,
            word_mask(lengths, words.shape[1]),
            self.config.lambda_softmax,
            self.config.raw_feature_norm,
        )


class Joined(Scan):
    """Several models side by side: a dot product is the mean of theirs.

    Trainings that differ in nothing but the seed err differently; together they err less. They must
    share vocabulary, features, direction and normalisation.
    """

    def __init__(self, members: Sequence[Scan]) -> None:
        nn.Module.__init__(self)
        self.config, self.count = members[0].config, len(members)
        self.image = _Beside([member.image for member in members])
        self.text = _Beside([member.text for member in members])


class _Beside(nn.Module):
    """Vectors of several sides end to end, of unit length if theirs are."""

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the vectors of all parts in one."""
        return torch.cat([part(*inputs) for part in self.parts], -1) / len(self.parts) ** 0.5


def unit(vectors: Tensor) -> Tensor:
    """Unit length along the last axis, the original's way (epsilon added to the norm)."""
    return vectors * (1 / (root(vectors.pow(2).sum(-1, keepdim=True)) + EPS))


def word_mask(lengths: Tensor, width: int) -> Tensor:
    """``[captions, width]``: True where a word stands."""
    return torch.arange(width, device=lengths.device)[None] < lengths[:, None]


def normalise(scores: Tensor, how: str, over: int) -> Tensor:
    """The attention's first step, along the axis of the queries."""
    if how == "no_norm":
        return scores
    if how == "softmax":
        return scores.softmax(over)
    if how.startswith("clipped"):
        scores = nn.functional.leaky_relu(scores, 0.1)
    if how.endswith("l2norm"):
        return scores * (1 / (root(scores.pow(2).sum(over, keepdim=True)) + EPS))
    if how.endswith("l1norm"):
        return scores * (1 / (scores.abs().sum(over, keepdim=True) + EPS))
    return scores


def attend_words(
    regions: Tensor, words: Tensor, mask: Tensor, smooth: float, norm: str = "clipped_l2norm"
) -> Tensor:
    """Each region attends over the words: cosines ``[images, captions, regions]``."""
    dots = torch.einsum("ind,cld->icnl", regions, words)
    weights = word_attention(dots, mask, smooth, norm)
    gram = words @ words.transpose(1, 2)
    shape = weights.shape
    flat = weights.transpose(0, 1).reshape(shape[1], -1, shape[3])
    square = ((flat @ gram) * flat).sum(-1).reshape(shape[1], shape[0], shape[2]).transpose(0, 1)
    length = root(regions.pow(2).sum(-1))[:, None]
    return (weights * dots).sum(-1) / (length * root(square)).clamp(min=EPS)


def word_attention(dots: Tensor, mask: Tensor, smooth: float, norm: str) -> Tensor:
    """Attention of regions over words from dot products ``[..., captions, regions, words]``."""
    scores = smooth * normalise(dots, norm, over=-2)
    return scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)


def attend_regions(
    regions: Tensor, words: Tensor, mask: Tensor, smooth: float, norm: str = "clipped_l2norm"
) -> Tensor:
    """Each word attends over the regions: cosines ``[images, captions, words]``."""
    dots = torch.einsum("ind,cld->icln", regions, words)
    hidden = ~mask[None, :, :, None]
    filled = dots.masked_fill(hidden, -torch.inf if norm == "softmax" else 0.0)
    weights = (smooth * normalise(filled, norm, over=-2)).softmax(-1)
    gram = regions @ regions.transpose(1, 2)
    shape = weights.shape
    flat = weights.reshape(shape[0], -1, shape[3])
    square = ((flat @ gram) * flat).sum(-1).reshape(shape[:3])
    length = root(words.pow(2).sum(-1))[None]
    return (weights * dots).sum(-1) / (length * root(square)).clamp(min=EPS)


def root(square: Tensor) -> Tensor:
    """Square root whose slope stays finite at zero (padding is zero)."""
    return square.clamp(min=1e-18).sqrt()


def aggregate(values: Tensor, how: str, smooth: float, mask: Tensor | None = None) -> Tensor:
    """Pool the queries' cosines (last axis) into one score."""
    if how == "LogSumExp":
        scaled = values * smooth
        if mask is not None:
            scaled = scaled.masked_fill(~mask, -torch.inf)
        return scaled.logsumexp(-1) / smooth
    if how == "Max":
        if mask is not None:
            values = values.masked_fill(~mask, -torch.inf)
        return values.amax(-1)
    if mask is not None:
        values = values * mask
    total = values.sum(-1)
    if how == "Sum":
        return total
    return total / (values.shape[-1] if mask is None else mask.sum(-1))


def contrastive_loss(scores: Tensor, margin: float, hardest: bool) -> Tensor:
    """Hinge loss of a square score matrix: other captions (rows) and other images (columns)."""
    right = scores.diagonal()
    captions = (margin + scores - right[:, None]).clamp(min=0)
    images = (margin + scores - right[None]).clamp(min=0)
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    captions, images = captions.masked_fill(own, 0), images.masked_fill(own, 0)
    if hardest:
        return captions.amax(1).sum() + images.amax(0).sum()
    return captions.sum() + images.sum()


_VOWELS = frozenset("aeiouy")


class Vocabulary:
    """Words -> ids, the original's json (``word2idx``) or a plain list of words in id order.

    Args:
        words: ids by word.
        frequent: how many words, the first ones, an unknown word may be put together of; the
            original knows of no such thing (0).
    """

    def __init__(self, words: Mapping[str, int], frequent: int = 0) -> None:
        self.ids = dict(words)
        self.frequent = frequent
        missing = [word for word in SPECIALS if word not in self.ids]
        if missing:
            raise InputError(f"the vocabulary lacks {', '.join(missing)}")

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """Read either json form."""
        data = read_json(path)
        if isinstance(data, list) and all(isinstance(word, str) for word in data):
            return cls({word: index for index, word in enumerate(data)})
        if isinstance(data, dict) and isinstance(data.get("word2idx"), dict):
            ids = data["word2idx"]
            if all(type(index) is int and 0 <= index < len(ids) for index in ids.values()):
                return cls(ids)
        raise InputError(f"{path}: neither a list of words nor an original SCAN vocabulary")

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """``<start>``, the words, ``<end>``; unknown words share one id."""
        unknown = self.ids["<unk>"]
        inner = [self.ids.get(token, unknown) for token in tokens]
        return [self.ids["<start>"], *inner, self.ids["<end>"]]

    def parts(self, word: str) -> list[str]:
        """The word, or the known words that it is made of: hyphenated, or two written as one.

        Labels and hasty captions have many (``diningtable``). Of several cuts the one whose rarer
        part is the most frequent is taken.
        """
        if not self.frequent or word in self.ids:
            return [word]
        pieces = [piece for piece in word.split("-") if piece]
        if len(pieces) > 1 and all(piece in self.ids for piece in pieces):
            return pieces
        cuts = [(word[:at], word[at:]) for at in range(2, len(word) - 2)]
        scores = [
            (max(self.ids[part] for part in cut), list(cut))
            for cut in cuts
            if all(self._may_be_part(part) for part in cut)
        ]
        return min(scores)[1] if scores else [word]

    def _may_be_part(self, part: str) -> bool:
        # Two letters make a part where they are an abbreviation: tv, not an or is.
        long = len(part) > 2 or _VOWELS.isdisjoint(part)
        return long and self.ids.get(part, self.frequent) < self.frequent

    def words(self) -> list[str]:
        """All words in id order."""
        return sorted(self.ids, key=self.ids.__getitem__)


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Id lists to a padded matrix and lengths."""
    lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.long)
    ids = torch.full((len(sequences), int(lengths.max())), PAD, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
    return ids, lengths


def load_original(path: Path) -> Scan:
    """A checkpoint of the original code, without running anything it contains."""
    from captious.models.checkpoints import load_torch

    data = load_torch(path)
    with reading(path, "a SCAN checkpoint"):
        return _original(data, path)


def _original(data: Any, path: Path) -> Scan:
    from captious.models.checkpoints import options_of

    if not isinstance(data, dict) or not {"model", "opt"} <= set(data):
        raise InputError(f"{path}: not a SCAN checkpoint (expected the keys 'model' and 'opt')")
    image, text = data["model"]
    config = ScanConfig.of(options_of(data["opt"]))
    config = replace(
        config,
        vocab_size=int(text["embed.weight"].shape[0]),
        # Old Python-2 runs stored neither; the tensors know.
        precomp_enc_type="weight_norm" if "fc.weight_v" in image else "basic",
        bi_gru="rnn.weight_ih_l0_reverse" in text,
    )
    _fit(path, config, {**image, **text})
    model = Scan(config)
    if "fc.weight_g" in image:
        image = {**image, "fc.weight_g": image["fc.weight_g"].reshape(())}
    model.image.load_state_dict(image)
    model.text.load_state_dict(text)
    return model.eval()


def _fit(path: Path, config: ScanConfig, weights: Mapping[str, Any]) -> None:
    from captious.models.checkpoints import fit_sizes

    fit_sizes(path, weights, config.vocab_size, config.embed_size, config.word_dim, config.img_dim)
    if type(config.num_layers) is not int or not 0 < config.num_layers <= len(weights):
        raise InputError(f"{path}: {config.num_layers} layers, but the weights hold fewer")


def load(path: Path | str, vocabulary: Path | str | None = None) -> tuple[Scan, Vocabulary]:
    """A model of ours (a folder) or an original checkpoint (a file, with its vocabulary json)."""
    path = Path(path)
    if path.is_dir():
        with reading(path, "a SCAN model of captious", "copy or train it again"):
            return _load_folder(path, vocabulary)
    if vocabulary is None:
        raise UsageError(
            f"{path.name}: an original checkpoint needs its vocabulary json too (vocabulary=PATH)"
        )
    return load_original(path), Vocabulary.read(Path(vocabulary))


def _load_folder(path: Path, vocabulary: Path | str | None) -> tuple[Scan, Vocabulary]:
    from captious.models.checkpoints import load_safetensors

    config = json_object(path / "config.json", "a SCAN configuration")
    if not isinstance(config.get("scan"), dict):
        raise InputError(f"{path}/config.json: 'scan' is not a set of options")
    shape, count = ScanConfig.of(config["scan"]), int(config.get("joined", 1))
    weights = load_safetensors(path / "model.safetensors")
    _fit(path, shape, weights)
    if not 1 <= count <= len(weights):
        raise InputError(f"{path}: {count} models in one, but the weights hold fewer")
    model = Scan(shape) if count == 1 else Joined([Scan(shape) for _ in range(count)])
    model.load_state_dict({name: value.float() for name, value in weights.items()})
    words = Vocabulary.read(Path(vocabulary) if vocabulary else path / "vocab.json")
    training = config.get("training", {})
    words.frequent = int(training.get("own_words", 0)) if isinstance(training, dict) else 0
    return model.eval(), words


def features_of(path: Path) -> str:
    """What region features one of our models was trained on, or an empty string."""
    config = json_object(path / "config.json", "a SCAN configuration")
    return str(config.get("features", ""))


def save(model: Scan, words: Vocabulary, path: Path, facts: Mapping[str, Any]) -> None:
    """Write a folder that :func:`load` reads: half-precision weights, config, vocabulary."""
    from safetensors.torch import save_file

    path.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().half().contiguous() for name, value in model.state_dict().items()}
    save_file(state, path / "model.safetensors")
    config = {"format": "captious-scan", "scan": asdict(model.config), **facts}
    if isinstance(model, Joined):
        config["joined"] = model.count
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (path / "vocab.json").write_text(
        json.dumps(words.words(), ensure_ascii=False, indent=0) + "\n", encoding="utf-8"
    )
