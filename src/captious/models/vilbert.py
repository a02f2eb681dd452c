"""ViLBERT: a text and a vision transformer that read each other through co-attention blocks.

Lu et al. 2019 (and 12-in-1, 2020). Parameters carry the names of the original checkpoints below
their prefix ``bert.``. The pieces of the forward pass can be asked for one by one, because the
score needs few of them:

* :meth:`Vilbert.text_alone`: text up to the first block; depends on the text only.
* :meth:`Vilbert.image_alone`: regions up to the first block, with the projections that the block
  makes of them; depends on the image only, so one call serves all texts of an image.
* :meth:`Vilbert.together`: the blocks, up to the one that is asked for and no further.

:meth:`Vilbert.forward` is all of it, with the poolers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.errors import InputError
from captious.models.vilbert_config import VilbertConfig

_EPS = 1e-12
_ACTIVATION: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
}


class ImageStart(NamedTuple):
    """What the blocks take of an image: states, and the first block's projections of them."""

    states: Tensor
    query: Tensor
    key: Tensor
    value: Tensor

    def take(self, index: Tensor) -> ImageStart:
        """The images at ``index``, once per pair of text and image."""
        return ImageStart(*(tensor.index_select(0, index) for tensor in self))


class Output(NamedTuple):
    """Everything the original class returns."""

    text: list[Tensor]
    image: list[Tensor]
    last_text: Tensor
    last_image: Tensor
    pooled_text: Tensor
    pooled_image: Tensor


def key_mask(mask: Tensor | None) -> Tensor | None:
    """A mask over positions ``[b, n]`` in the form attention takes; None where all are real."""
    if mask is None or bool(mask.all()):
        return None
    return mask.bool()[:, None, None, :]


def _heads(states: Tensor, heads: int) -> Tensor:
    return states.unflatten(-1, (heads, -1)).transpose(1, 2)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None, dropout: float
) -> Tensor:
    q, k, v = (_heads(tensor, heads) for tensor in (query, key, value))
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    return attended.transpose(1, 2).flatten(2)


class _Residual(nn.Module):
    """LN(dense(x) + residual)."""

    def __init__(self, wide: int, out: int, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(wide, out)
        self.LayerNorm = nn.LayerNorm(out, eps=_EPS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(states)) + residual)


class _Intermediate(nn.Module):
    def __init__(self, wide: int, out: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(wide, out)
        self.activation = _ACTIVATION[activation]

    def forward(self, states: Tensor) -> Tensor:
        return self.activation(self.dense(states))


class _SelfAttention(nn.Module):
    def __init__(self, wide: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(wide, wide) for _ in range(3))
        self.heads, self.dropout = heads, dropout

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        projected = self.query(states), self.key(states), self.value(states)
        return _attend(*projected, self.heads, mask, dropout)


class _Attention(nn.Module):
    def __init__(self, wide: int, heads: int, inner: float, outer: float) -> None:
        super().__init__()
        self.self = _SelfAttention(wide, heads, inner)
        self.output = _Residual(wide, wide, outer)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        return self.output(self.self(states, mask), states)


class _Layer(nn.Module):
    """One ordinary transformer layer of either stream."""

    def __init__(
        self, wide: int, heads: int, middle: int, activation: str, inner: float, outer: float
    ) -> None:
        super().__init__()
        self.attention = _Attention(wide, heads, inner, outer)
        self.intermediate = _Intermediate(wide, middle, activation)
        self.output = _Residual(middle, wide, outer)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        states = self.attention(states, mask)
        return self.output(self.intermediate(states), states)


class _BiAttention(nn.Module):
    """Projections of both streams; 1 is vision, 2 is text."""

    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        image, text, shared = config.v_hidden_size, config.hidden_size, config.bi_hidden_size
        self.query1, self.key1, self.value1 = (nn.Linear(image, shared) for _ in range(3))
        self.query2, self.key2, self.value2 = (nn.Linear(text, shared) for _ in range(3))


class _BiOutput(nn.Module):
    """Back into both streams. The ``q_dense`` exist in the checkpoints but nothing uses them."""

    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        image, text, shared = config.v_hidden_size, config.hidden_size, config.bi_hidden_size
        self.dense1, self.q_dense1 = (nn.Linear(shared, image) for _ in range(2))
        self.dense2, self.q_dense2 = (nn.Linear(shared, text) for _ in range(2))
        self.LayerNorm1 = nn.LayerNorm(image, eps=_EPS)
        self.LayerNorm2 = nn.LayerNorm(text, eps=_EPS)
        self.dropout1 = nn.Dropout(config.v_hidden_dropout_prob)
        self.dropout2 = nn.Dropout(config.hidden_dropout_prob)


class CoAttention(nn.Module):
    """One block: each stream attends to the other, then passes its own feed-forward net."""

    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        c = config
        self.heads = c.bi_num_attention_heads
        self.drop_text, self.drop_image = (
            c.attention_probs_dropout_prob,
            c.v_attention_probs_dropout_prob,
        )
        self.biattention = _BiAttention(c)
        self.biOutput = _BiOutput(c)
        self.v_intermediate = _Intermediate(c.v_hidden_size, c.v_intermediate_size, c.v_hidden_act)
        self.v_output = _Residual(c.v_intermediate_size, c.v_hidden_size, c.v_hidden_dropout_prob)
        self.t_intermediate = _Intermediate(c.hidden_size, c.intermediate_size, c.hidden_act)
        self.t_output = _Residual(c.intermediate_size, c.hidden_size, c.hidden_dropout_prob)

    def project_image(self, image: Tensor, query: bool = True) -> ImageStart:
        """Vision states with their projections; without query where only text goes on."""
        own = self.biattention
        return ImageStart(
            image, own.query1(image) if query else image, own.key1(image), own.value1(image)
        )

    def text(self, text: Tensor, image: ImageStart, mask: Tensor | None) -> Tensor:
        """Text that has looked at the image."""
        dropout = self.drop_image if self.training else 0.0
        query = self.biattention.query2(text)
        seen = _attend(query, image.key, image.value, self.heads, mask, dropout)
        out = self.biOutput
        text = out.LayerNorm2(out.dropout2(out.dense2(seen)) + text)
        return self.t_output(self.t_intermediate(text), text)

    def image(self, text: Tensor, image: ImageStart, mask: Tensor | None) -> Tensor:
        """Regions that have looked at the text."""
        dropout = self.drop_text if self.training else 0.0
        key, value = self.biattention.key2(text), self.biattention.value2(text)
        read = _attend(image.query, key, value, self.heads, mask, dropout)
        out = self.biOutput
        states = out.LayerNorm1(out.dropout1(out.dense1(read)) + image.states)
        return self.v_output(self.v_intermediate(states), states)

    def look(self, text: Tensor, image: ImageStart, mask: Tensor | None) -> Tensor:
        """How much each word attends to each region, mean over heads: ``[b, words, regions]``."""
        q, k = (_heads(x, self.heads) for x in (self.biattention.query2(text), image.key))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return scores.float().softmax(-1).mean(1)


class _TextEmbeddings(nn.Module):
    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        wide = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, wide)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, wide)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, wide)
        if config.task_tokens:
            self.task_embeddings = nn.Embedding(config.task_tokens, wide)
        self.LayerNorm = nn.LayerNorm(wide, eps=_EPS)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, task: int | None) -> Tensor:
        places = self.position_embeddings.num_embeddings
        if ids.shape[1] > places:
            raise InputError(
                f"a text of {ids.shape[1]} tokens does not fit a model with {places} positions"
            )
        # The segment is always the first one: row 0 of the type table.
        states = self.word_embeddings(ids) + self.token_type_embeddings.weight[0]
        states = states + self.position_embeddings.weight[: ids.shape[1]]
        if task is not None:
            # Behind [CLS], without a position of its own; the words keep theirs.
            token = self.task_embeddings.weight[task].expand(len(ids), 1, -1)
            states = torch.cat([states[:, :1], token, states[:, 1:]], 1)
        return self.dropout(self.LayerNorm(states))


class _ImageEmbeddings(nn.Module):
    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        self.image_embeddings = nn.Linear(config.v_feature_size, config.v_hidden_size)
        self.image_location_embeddings = nn.Linear(5, config.v_hidden_size)
        self.LayerNorm = nn.LayerNorm(config.v_hidden_size, eps=_EPS)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, features: Tensor, boxes: Tensor) -> Tensor:
        wanted = self.image_embeddings.in_features
        if features.shape[-1] != wanted:
            raise InputError(
                f"region features of length {features.shape[-1]} do not fit a model that needs "
                f"{wanted}"
            )
        states = self.image_embeddings(features) + self.image_location_embeddings(boxes)
        return self.dropout(self.LayerNorm(states))


class _Encoder(nn.Module):
    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        c = config
        text = (c.hidden_size, c.num_attention_heads, c.intermediate_size, c.hidden_act,
                c.attention_probs_dropout_prob, c.hidden_dropout_prob)  # fmt: skip
        image = (c.v_hidden_size, c.v_num_attention_heads, c.v_intermediate_size, c.v_hidden_act,
                 c.v_attention_probs_dropout_prob, c.v_hidden_dropout_prob)  # fmt: skip
        self.layer = nn.ModuleList(_Layer(*text) for _ in range(c.num_hidden_layers))
        self.v_layer = nn.ModuleList(_Layer(*image) for _ in range(c.v_num_hidden_layers))
        self.c_layer = nn.ModuleList(CoAttention(c) for _ in range(c.blocks))


class _Pooler(nn.Module):
    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.dense = nn.Linear(wide, out)

    def forward(self, states: Tensor) -> Tensor:
        return F.relu(self.dense(states[:, 0]))


class Vilbert(nn.Module):
    """The two-stream model without heads."""

    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _TextEmbeddings(config)
        self.v_embeddings = _ImageEmbeddings(config)
        self.encoder = _Encoder(config)
        self.t_pooler = _Pooler(config.hidden_size, config.bi_hidden_size)
        self.v_pooler = _Pooler(config.v_hidden_size, config.bi_hidden_size)

    def text_mask(self, mask: Tensor, task: int | None) -> Tensor:
        """The mask over text positions, with one more where a task token is inserted."""
        return mask if task is None else torch.cat([torch.ones_like(mask[:, :1]), mask], 1)

    def text_alone(self, ids: Tensor, mask: Tensor | None, task: int | None) -> Tensor:
        """Text states ahead of the first block; ``mask`` is that of :meth:`text_mask`."""
        states = self.embeddings(ids, task)
        for layer in self.encoder.layer[: self.config.t_biattention_id[0]]:
            states = layer(states, key_mask(mask))
        return states

    def image_alone(self, features: Tensor, boxes: Tensor, mask: Tensor | None) -> ImageStart:
        """Vision states ahead of the first block, with its projections of them."""
        states = self.v_embeddings(features, boxes)
        for layer in self.encoder.v_layer[: self.config.v_biattention_id[0]]:
            states = layer(states, key_mask(mask))
        return cast(CoAttention, self.encoder.c_layer[0]).project_image(states)

    def together(
        self,
        text: Tensor,
        text_mask: Tensor | None,
        image: ImageStart,
        image_mask: Tensor | None,
        last: int | None = None,
        looks: list[Tensor] | None = None,
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Text and vision states after each block.

        Args:
            text: states of :meth:`text_alone`.
            text_mask: real text positions, None = all.
            image: states of :meth:`image_alone`.
            image_mask: real regions, None = all.
            last: stop after this block (1, 2, ...), whose vision states nobody needs: None comes
                in their place.
            looks: takes the attention of words over regions of each block.
        """
        c, net = self.config, self.encoder
        words, regions = key_mask(text_mask), key_mask(image_mask)
        for k, module in enumerate(net.c_layer):
            block = cast(CoAttention, module)
            final = k + 1 == last
            if k:
                for layer in net.layer[c.t_biattention_id[k - 1] : c.t_biattention_id[k]]:
                    text = layer(text, words)
                states = image.states
                for layer in net.v_layer[c.v_biattention_id[k - 1] : c.v_biattention_id[k]]:
                    states = layer(states, regions)
                image = block.project_image(states, query=not final)
            if looks is not None:
                looks.append(block.look(text, image, regions))
            seen = block.text(text, image, regions)
            if final:
                yield seen, None
                return
            image = image._replace(states=block.image(text, image, words))
            text = seen
            yield text, image.states

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        features: Tensor,
        boxes: Tensor,
        image_mask: Tensor | None = None,
        task: int | None = None,
        pool_blocks: bool = False,
    ) -> Output:
        """All states after each block, the last states and the pooled ones.

        The original pools the last states; but asked for the states of all blocks it pools those of
        the last block (``pool_blocks``) and throws away what comes behind.
        """
        mask = self.text_mask(mask, task)
        start = self.image_alone(features, boxes, image_mask)
        texts, images = [], []
        for text, image in self.together(self.text_alone(ids, mask, task), mask, start, image_mask):
            texts.append(text)
            images.append(image if image is not None else start.states)
        text, states = self._behind(texts[-1], mask, images[-1], image_mask)
        first = (texts[-1], images[-1]) if pool_blocks else (text, states)
        pooled = self.t_pooler(first[0]), self.v_pooler(first[1])
        return Output(texts, images, text, states, *pooled)

    def pooled(
        self, text: Tensor, text_mask: Tensor | None, image: ImageStart, image_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Pooled states of text and image, from :meth:`text_alone` and :meth:`image_alone`."""
        last, states = text, image.states
        for text_states, seen in self.together(text, text_mask, image, image_mask):
            last, states = text_states, states if seen is None else seen
        last, states = self._behind(last, text_mask, states, image_mask)
        return self.t_pooler(last), self.v_pooler(states)

    def _behind(
        self, text: Tensor, text_mask: Tensor | None, states: Tensor, image_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The layers of both streams behind the last block."""
        c = self.config
        for layer in self.encoder.layer[c.t_biattention_id[-1] :]:
            text = layer(text, key_mask(text_mask))
        for layer in self.encoder.v_layer[c.v_biattention_id[-1] :]:
            states = layer(states, key_mask(image_mask))
        return text, states
