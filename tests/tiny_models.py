"""Small image-text models with random weights that are the same everywhere, made where tests run.

Weights come from numpy's legacy generator, seeded by the tensor's name, so that goldens can be
compared without shipping weights. Nothing here was trained; only the arithmetic is of interest.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

WIDTH, LAYERS, DIM, PATCH, SIDE, CONTEXT, RANK = 64, 2, 32, 16, 48, 40, 4
LONG_CONTEXT = 248  # Long-CLIP's own code knows no other length
WORDS = ("a", "the", "photo", "depicts", "dog", "cat", "man", "horse", "on", "beach", "street")


def vocabulary() -> dict[str, int]:
    """Bytes, bytes that end a word, some whole words, the two marks: the end mark is the last."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    pieces = letters + [f"{letter}</w>" for letter in letters]
    for first, second in merges():
        pieces.append(first + second)
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def merges() -> list[tuple[str, str]]:
    """Merges that build the words from left to right."""
    out: dict[tuple[str, str], None] = {}
    for word in WORDS:
        parts = [*word[:-1], f"{word[-1]}</w>"]
        stem = parts[0]
        for part in parts[1:]:
            out[stem, part] = None
            stem += part
    return list(out)


def numbers(name: str, *shape: int, scale: float = 0.2) -> np.ndarray:
    """Fixed random numbers for a tensor of this name."""
    return np.random.RandomState(zlib.crc32(name.encode())).randn(*shape).astype("f4") * scale


def openai_state(lora: bool = False, long: bool = False) -> dict[str, np.ndarray]:
    """A CLIP with a vision transformer in OpenAI's form; on request LoRA or Long-CLIP parts."""
    n_words = len(vocabulary())
    context = LONG_CONTEXT if long else CONTEXT
    shapes: dict[str, tuple[int, ...]] = {
        "positional_embedding": (context, WIDTH),
        "text_projection": (WIDTH, DIM),
        "token_embedding.weight": (n_words, WIDTH),
        "visual.class_embedding": (WIDTH,),
        "visual.positional_embedding": ((SIDE // PATCH) ** 2 + 1, WIDTH),
        "visual.proj": (WIDTH, DIM),
        "visual.conv1.weight": (WIDTH, 3, PATCH, PATCH),
    }
    for norm in ("ln_final", "visual.ln_pre", "visual.ln_post"):
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (WIDTH,)
    for side in ("", "visual."):
        for layer in range(LAYERS):
            stem = f"{side}transformer.resblocks.{layer}."
            shapes |= {
                f"{stem}attn.in_proj_weight": (3 * WIDTH, WIDTH),
                f"{stem}attn.in_proj_bias": (3 * WIDTH,),
                f"{stem}attn.out_proj.weight": (WIDTH, WIDTH),
                f"{stem}attn.out_proj.bias": (WIDTH,),
                f"{stem}mlp.c_fc.weight": (4 * WIDTH, WIDTH),
                f"{stem}mlp.c_fc.bias": (4 * WIDTH,),
                f"{stem}mlp.c_proj.weight": (WIDTH, 4 * WIDTH),
                f"{stem}mlp.c_proj.bias": (WIDTH,),
            }
            for norm in ("ln_1", "ln_2"):
                shapes[f"{stem}{norm}.weight"] = shapes[f"{stem}{norm}.bias"] = (WIDTH,)
            if lora:
                shapes |= {
                    f"{stem}attn.in_proj_weight_lora_A": (RANK, WIDTH),
                    f"{stem}attn.in_proj_weight_lora_B": (3 * WIDTH, RANK),
                    f"{stem}attn.out_proj.lora_A": (RANK, WIDTH),
                    f"{stem}attn.out_proj.lora_B": (WIDTH, RANK),
                    f"{stem}mlp.c_fc.lora_A": (RANK, WIDTH),
                    f"{stem}mlp.c_fc.lora_B": (4 * WIDTH, RANK),
                    f"{stem}mlp.c_proj.lora_A": (RANK, 4 * WIDTH),
                    f"{stem}mlp.c_proj.lora_B": (WIDTH, RANK),
                }
    if lora:
        shapes["visual.conv1.lora_A"] = (RANK * PATCH, 3 * PATCH)
        shapes["visual.conv1.lora_B"] = (WIDTH * PATCH, RANK * PATCH)
    if long:
        shapes["positional_embedding_res"] = (context, WIDTH)
    state = {name: numbers(name, *shape) for name, shape in shapes.items()}
    for name in state:
        if ".ln_" in f".{name}" and name.endswith("weight"):
            state[name] = state[name] + 1
    state["visual.proj"] = -state["visual.proj"]  # most cosines are positive this way round
    return state | {"logit_scale": np.array(2.6592, "f4")}


def save_state(path: Path, lora: bool = False, long: bool = False) -> Path:
    """Write the state dict as PAC-S is distributed: a torch file with the key ``state_dict``."""
    import torch

    state = {n: torch.from_numpy(np.array(v)) for n, v in openai_state(lora, long).items()}
    torch.save({"state_dict": state, "epoch": 3}, path)
    return path


def save_clip(folder: Path) -> Path:
    """Write a folder of transformers with the weights of :func:`openai_state`."""
    from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

    from captious.models import openai_clip

    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary()
    end = words["<|endoftext|>"]
    tokenizer = CLIPTokenizer(vocab=words, merges=merges(), model_max_length=CONTEXT)
    tokenizer.save_pretrained(folder)
    side = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_hidden_layers": LAYERS,
            "num_attention_heads": 1, "projection_dim": DIM}  # fmt: skip
    text = side | {
        "vocab_size": len(words),
        "max_position_embeddings": CONTEXT,
        "bos_token_id": end - 1,
        "eos_token_id": end,
        "pad_token_id": end,
    }
    vision = side | {"patch_size": PATCH, "image_size": SIDE}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=DIM)
    model = CLIPModel(config)
    model.load_state_dict(openai_clip.read(save_state(folder / "weights.pth")), strict=False)
    (folder / "weights.pth").unlink()
    model.save_pretrained(folder)
    processor = {"do_resize": True, "size": {"shortest_edge": SIDE}, "do_center_crop": True,
                 "crop_size": {"height": SIDE, "width": SIDE}, "resample": 3}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def save_siglip(folder: Path) -> Path:
    """Write a SigLIP folder with transformers' own random weights."""
    import torch
    from transformers import CLIPTokenizer, SiglipConfig, SiglipModel

    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary()
    CLIPTokenizer(vocab=words, merges=merges(), model_max_length=16).save_pretrained(folder)
    side = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 2}  # fmt: skip
    text = side | {"vocab_size": len(words), "max_position_embeddings": 16}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = SiglipModel(SiglipConfig(
            text_config=text, vision_config=side | {"patch_size": 16, "image_size": 32}
        ))  # fmt: skip
    model.save_pretrained(folder)
    processor = {"size": {"height": 32, "width": 32}, "resample": 3, "do_normalize": True,
                 "image_mean": [0.5] * 3, "image_std": [0.5] * 3}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


# What the tiny LLaVA writes after a character: a rating 0.d, or a letter.
_NEXT = {":": "0", "?": "AB", "0": ".", ".": "2578", **dict.fromkeys("AB2578", "$")}


def save_llava(folder: Path) -> Path:
    """Write a LLaVA of made-up weights: it answers 0.d, or A or B to a question mark, and ends.

    One token per character. Its layers are random and see the photograph; on top of them the
    readout prefers, after a character, what `_NEXT` names. Which digit it writes depends on the
    random layers, so photograph and question decide the probabilities.
    """
    import string

    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    folder.mkdir(parents=True, exist_ok=True)
    marks = ["<unk>", "<s>", "$", "<image>"]  # "$" ends the answer
    letters = [c for c in string.printable if c not in "$"]
    words = {c: number for number, c in enumerate(marks + letters)}
    table = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    table.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    table.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=table, unk_token="<unk>", bos_token="<s>", eos_token="$", pad_token="$",
        extra_special_tokens={"image_token": "<image>"},
    )  # fmt: skip
    template = (
        "{% for m in messages %}{% for part in m['content'] %}{% if part['type'] == 'image' %}"
        "<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
    )
    LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer, patch_size=16, vision_feature_select_strategy="default",
        chat_template=template, num_additional_image_tokens=1,
    ).save_pretrained(folder)  # fmt: skip
    wide = len(words)
    small = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(hidden_size=16, image_size=32, patch_size=16, **small),
        text_config=LlamaConfig(
            vocab_size=wide, hidden_size=2 * wide, num_key_value_heads=2, head_dim=16,
            bos_token_id=1, eos_token_id=2, pad_token_id=2, tie_word_embeddings=False, **small,
        ),
        image_token_index=words["<image>"], vision_feature_layer=-1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = LlavaForConditionalGeneration(config)
        for parameter in model.model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    with torch.no_grad():
        model.model.language_model.embed_tokens.weight[:, :wide] = 20 * torch.eye(wide)
        readout = 0.02 * torch.randn(wide, 2 * wide, generator=torch.Generator().manual_seed(6))
        for before, after in _NEXT.items():
            for number, character in enumerate(after):
                readout[words[character], words[before]] += 1 - 0.02 * number
        model.lm_head.weight.copy_(readout)
    model.generation_config.eos_token_id = 2
    model.save_pretrained(folder)
    return folder
