"""What the compact ViLBERT learns beside masked words, masked regions and matching.

* *Alignment*: the first block's own queries (words) and keys (regions) have to tell which caption
  belongs to which photograph of the batch, before anything is mixed. A few thousand photographs are
  too few for the attention to find out by itself what it should look at.
* *Agreement*: the score itself. F between a reference and a caption, both read with the photograph,
  has to correlate with how relevant a teacher finds the caption for the photograph.
* *Grading*: the matching head's value of a caption has to correlate with that relevance, too.
  Right or wrong alone teaches it nothing about captions that are half right.
* *Preference*: F of the photograph's own caption has to be above F of wrong ones. Words alone
  settle much of the agreement; a similar photograph's caption can only be told by looking.
* *Contribution*: what the photograph adds to F (over F given a blank one) has to be more for
  the own caption than for wrong ones.

:func:`calm_start` makes new blocks harmless at the start, so that a pretrained text stream behind
them reads what it is used to.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captious.models.vilbert import CoAttention, Vilbert, key_mask
from captious.models.vilbert_heads import MATCH
from captious.training.scan import correlation_loss


def token_f(reference: Tensor, counted: Tensor, caption: Tensor, said: Tensor) -> Tensor:
    """F of matching tokens, as ViLBERTScore has it: ``[b]`` from states ``[b, n, d]``.

    ``counted`` and ``said`` mark the positions that take part.
    """
    cosine = F.normalize(reference, dim=-1) @ F.normalize(caption, dim=-1).mT
    both = counted[:, :, None] & said[:, None, :]
    cosine = cosine.masked_fill(~both, -1.0)

    def mean(best: Tensor, part: Tensor) -> Tensor:
        return (best * part).sum(1) / part.sum(1).clamp(min=1)

    recall, precision = mean(cosine.amax(2), counted), mean(cosine.amax(1), said)
    both = precision + recall
    return 2 * precision * recall / torch.where(both.abs() < 1e-3, 1e-3, both)


def alignment_loss(
    words: Tensor, real: Tensor, regions: Tensor, temperature: float = 0.05
) -> Tensor:
    """Contrast of all captions and photographs of a batch, each caption's own on the diagonal.

    A caption's value for a photograph is the mean over its words of the best cosine with a region.
    """
    q, k = F.normalize(words, dim=-1), F.normalize(regions, dim=-1)
    best = torch.einsum("cnd,ird->icnr", q, k).amax(-1)
    value = (best * real).sum(-1) / real.sum(-1).clamp(min=1) / temperature
    own = torch.arange(len(value))
    return (F.cross_entropy(value, own) + F.cross_entropy(value.T, own)) / 2


def grading_loss(logits: Tensor, relevance: Tensor, there: Tensor) -> Tensor:
    """How little the matching head's values follow a teacher's.

    Args:
        logits: of the matching head, captions in blocks, each in the order of the photographs.
        relevance: of each photograph's captions ``[images, captions]``.
        there: photographs that count.
    """
    value = (logits[:, MATCH] - logits[:, 1 - MATCH]).reshape(relevance.shape[::-1]).T
    if int(there.sum()) < 2:  # no correlation
        return logits.new_zeros(())
    return correlation_loss(value[there], relevance[there])


def preference_loss(own: Tensor, wrong: Tensor, temperature: float = 0.05) -> Tensor:
    """Cross entropy of the own caption among the wrong ones ``[b, k]``."""
    value = torch.cat([own[:, None], wrong], 1) / temperature
    return F.cross_entropy(value, torch.zeros(len(value), dtype=torch.long))


def sharpen(model: Vilbert, words: Tensor, regions: Tensor, scale: float = 20.0) -> None:
    """Let the attention of the blocks begin where alignment has led the first one.

    Alignment learns directions (cosines) only. Here queries and keys get the length at which a
    cosine of 1 is ``scale`` in the softmax, and later blocks take over those of the first.
    """
    first = cast(CoAttention, model.encoder.c_layer[0])
    own = first.biattention
    with torch.no_grad():
        length = own.query2(words).norm(dim=-1).mean() * own.key1(regions).norm(dim=-1).mean()
        wanted = scale * first.heads * (own.query2.out_features / first.heads) ** 0.5
        factor = (wanted / length).sqrt()
        for layer in (own.query2, own.key1):
            layer.weight.mul_(factor)
            layer.bias.mul_(factor)
    for module in model.encoder.c_layer[1:]:
        block = cast(CoAttention, module).biattention
        block.query2.load_state_dict(own.query2.state_dict())
        block.key1.load_state_dict(own.key1.state_dict())


def calm_start(model: Vilbert, ids: Tensor) -> None:
    """Blocks that add nothing yet and keep the spread of the states that pass through them.

    The spread is measured on the captions ``ids``: a layer behind a block then finds its input as
    large as in the text encoder it came from.
    """
    at = list(model.config.t_biattention_id)
    model.eval()
    with torch.inference_mode():
        mask = ids != 0
        states = model.embeddings(ids, None)
        spreads = []
        for number, layer in enumerate([*model.encoder.layer, None]):
            if number in at:
                spreads.append(states[mask].std(-1).mean().item())
            if layer is not None:
                states = layer(states, key_mask(mask))
    for module, spread in zip(model.encoder.c_layer, spreads, strict=True):
        block = cast(CoAttention, module)
        for norm in (block.biOutput.LayerNorm2, block.t_output.LayerNorm):
            nn.init.constant_(norm.weight, spread)
        for dense in (block.biOutput.dense2, block.t_output.dense):
            nn.init.zeros_(dense.weight)
            nn.init.zeros_(dense.bias)
