"""A self-critical run on the demo's captions: ``python benchmarks/reward_run.py``.

A tiny model (a vector per photograph, a GRU) is taught the references for a short while, then
trained with ``captious.reward("cider_d")`` of sampled captions against that of its greedy caption.
Prints the mean reward of greedy captions; it rises. One core, about a minute.
"""

from __future__ import annotations

import json

import torch

import captious
from captious import demo
from captious.text import ptb

WIDTH, LONGEST, SAMPLES = 64, 16, 8


class Writer(torch.nn.Module):
    """A vector per photograph, unrolled by a GRU."""

    def __init__(self, images: int, words: int) -> None:
        super().__init__()
        self.image = torch.nn.Embedding(images, WIDTH)
        self.word = torch.nn.Embedding(words, WIDTH)
        self.cell = torch.nn.GRUCell(WIDTH, WIDTH)
        self.out = torch.nn.Linear(WIDTH, words)

    def write(self, image: torch.Tensor, greedy: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Return words (0 ends) and the log-probability of each caption."""
        state = self.image(image)
        word = torch.zeros_like(image)
        open_ = torch.ones(len(image), dtype=torch.bool)
        words, total = [], torch.zeros(len(image))
        for _ in range(LONGEST):
            state = self.cell(self.word(word), state)
            logits = torch.log_softmax(self.out(state), 1)
            word = logits.argmax(1) if greedy else torch.multinomial(logits.exp(), 1)[:, 0]
            total = total + torch.where(open_, logits.gather(1, word[:, None])[:, 0], 0.0)
            open_ = open_ & (word != 0)
            word = torch.where(open_, word, 0)
            words.append(word)
        return torch.stack(words, 1), total

    def loss(self, image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of references."""
        state, word, total = self.image(image), torch.zeros_like(image), torch.zeros(())
        for at in range(target.shape[1]):
            state = self.cell(self.word(word), state)
            total = total + torch.nn.functional.cross_entropy(self.out(state), target[:, at])
            word = target[:, at]
        return total / target.shape[1]


def main() -> None:
    torch.manual_seed(3)
    torch.set_num_threads(1)
    references = list(json.loads(demo.references_file().read_text()).values())
    tokens = [[ptb.tokenize(text) for text in listed] for listed in references]
    words = ["", *sorted({w for listed in tokens for text in listed for w in text})]
    number = {word: i for i, word in enumerate(words)}
    pairs = [(i, [number[w] for w in t][:LONGEST]) for i, some in enumerate(tokens) for t in some]
    image = torch.tensor([i for i, _ in pairs])
    target = torch.tensor([t + [0] * (LONGEST - len(t)) for _, t in pairs])
    model = Writer(len(references), len(words))
    reward = captious.reward("cider_d")
    everyone = torch.arange(len(references))

    def rewards(written: torch.Tensor, images: list[int]) -> torch.Tensor:
        texts = [" ".join(words[w] for w in row if w) for row in written.tolist()]
        found = reward(completions=texts, references=[references[i] for i in images])
        return torch.tensor([value or 0.0 for value in found])

    def report(when: str) -> None:
        with torch.no_grad():
            greedy = rewards(model.write(everyone, True)[0], everyone.tolist())
        print(f"{when:32} mean CIDEr-D of greedy captions {greedy.mean():.3f}")

    steps = torch.optim.Adam(model.parameters(), 3e-3)
    report("untrained")
    for _ in range(40):
        steps.zero_grad()
        model.loss(image, target).backward()
        steps.step()
    report("after 40 steps on references")
    steps = torch.optim.Adam(model.parameters(), 1e-3)
    many = everyone.repeat_interleave(SAMPLES)
    for step in range(1, 301):
        with torch.no_grad():
            baseline = rewards(model.write(everyone, True)[0], everyone.tolist())
        written, logs = model.write(many, False)
        gain = rewards(written, many.tolist()) - baseline.repeat_interleave(SAMPLES)
        steps.zero_grad()
        (-(gain * logs).mean()).backward()
        steps.step()
        if step % 100 == 0:
            report(f"after {step} self-critical steps")


if __name__ == "__main__":
    main()
