"""The pre-training heads of ViLBERT, under the names of the original checkpoints (``cls.*``).

Masked words are told from the last text states, masked regions from the last vision states, and
whether text and image belong together from the product of the pooled states. The score uses none
of them.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from captious.models.vilbert import Output
from captious.models.vilbert_config import VilbertConfig

MATCH = 0
"""The class of pairs that belong together; 1 is the other."""


class _Transform(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.dense = nn.Linear(wide, wide)
        self.LayerNorm = nn.LayerNorm(wide, eps=1e-12)

    def forward(self, states: Tensor) -> Tensor:
        return self.LayerNorm(F.gelu(self.dense(states)))


class _Words(nn.Module):
    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        self.transform = _Transform(config.hidden_size)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.bias = nn.Parameter(self.decoder.weight.new_zeros(config.vocab_size))

    def forward(self, states: Tensor) -> Tensor:
        return self.decoder(self.transform(states)) + self.bias


class _Regions(nn.Module):
    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        self.transform = _Transform(config.v_hidden_size)
        self.decoder = nn.Linear(config.v_hidden_size, config.v_target_size)

    def forward(self, states: Tensor) -> Tensor:
        return self.decoder(self.transform(states))


class Heads(nn.Module):
    """Words, regions, matching."""

    def __init__(self, config: VilbertConfig) -> None:
        super().__init__()
        self.predictions = _Words(config)
        self.imagePredictions = _Regions(config)
        self.bi_seq_relationship = nn.Linear(config.bi_hidden_size, 2)

    def match(self, out: Output) -> Tensor:
        """Logits of belonging together and not."""
        return self.bi_seq_relationship(F.dropout(
            out.pooled_text * out.pooled_image, 0.1, self.training
        ))  # fmt: skip
