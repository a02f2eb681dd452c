"""GRPO with TRL's trainer and our reward: ``python benchmarks/grpo_run.py`` (needs trl).

A tiny GPT-2 (two layers, made here; nothing is fetched) learns the references of the demo's
photographs for a short while and is then trained by ``trl.GRPOTrainer`` with
``captious.reward("cider_d")``. Prints the mean reward of greedy and of sampled captions.
One core, two minutes. TRL's requirements would replace the CPU build of torch: install it apart,
with ``pip install trl torch==2.13.0``.
"""

from __future__ import annotations

import json
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import captious
from captious import demo
from captious.text import ptb

LONGEST, STEPS = 16, 200


def main() -> None:
    torch.manual_seed(3)
    torch.set_num_threads(1)
    listed = json.loads(demo.references_file().read_text())
    tokens = {name: [ptb.tokenize(t)[:LONGEST] for t in texts] for name, texts in listed.items()}
    words = sorted({w for texts in tokens.values() for text in texts for w in text} | set(listed))
    vocabulary = {w: i for i, w in enumerate(["<pad>", "<end>", "<unk>", *words])}
    cut = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    cut.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=cut, pad_token="<pad>", eos_token="<end>", unk_token="<unk>",
        padding_side="left",
    )  # fmt: skip
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(vocabulary), n_positions=64, n_embd=96, n_layer=2, n_head=4,
            bos_token_id=1, eos_token_id=1, pad_token_id=0,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = 0, 1
    reward = captious.reward("cider_d")

    def report(when: str) -> None:
        model.eval()
        asked = tokenizer(list(listed), return_tensors="pt", padding=True)
        means = []
        for sampled, each in ((False, 1), (True, 8)):
            with torch.no_grad():
                out = model.generate(
                    input_ids=asked["input_ids"], attention_mask=asked["attention_mask"],
                    max_new_tokens=LONGEST, do_sample=sampled, num_return_sequences=each, top_k=0,
                )  # fmt: skip
            texts = tokenizer.batch_decode(out[:, asked["input_ids"].shape[1] :], True)
            references = [texts_of for texts_of in listed.values() for _ in range(each)]
            values = reward(completions=texts, references=references)
            means.append(sum(value or 0.0 for value in values) / len(values))
        print(f"{when:30} mean CIDEr-D: greedy {means[0]:.3f}, sampled {means[1]:.3f}", flush=True)

    report("untrained")
    _learn(model, tokenizer, tokens)
    report("after 60 steps on references")
    rows = [{"prompt": name, "references": texts} for name, texts in listed.items()]
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=56, num_generations=8,
            max_completion_length=LONGEST, max_steps=STEPS, learning_rate=1e-4, beta=0.0,
            logging_steps=50, report_to=[], use_cpu=True, bf16=False, save_strategy="no",
            disable_tqdm=True, seed=3,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=model, reward_funcs=reward, args=settings, train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
        )  # fmt: skip
        trainer.train()
    report(f"after {STEPS} steps of GRPO")


def _learn(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, tokens: dict) -> None:
    texts = [f"{name} {' '.join(t)} <end>" for name, some in tokens.items() for t in some]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    steps = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(60):
        steps.zero_grad()
        model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels
        ).loss.backward()
        steps.step()


if __name__ == "__main__":
    main()
