"""Asking a vision-language model of transformers on this machine: LLaVA, Qwen-VL, Idefics, ...

Any folder or hub name that ``AutoModelForImageTextToText`` and ``AutoProcessor`` can open. The
question is put as the model's own chat template has it; where there is none, the mark of the image
stands in front of the question. The answer is written greedily, and every token keeps the
probabilities of the likeliest ones at its place, as a service would report them.
"""

from __future__ import annotations

import hashlib
import io
from functools import lru_cache
from pathlib import Path
from typing import Any

from captious import assets, settings
from captious.errors import InputError, MissingAsset
from captious.models.judge_answers import Answer, Question, Token
from captious.models.model_folder import settings_sha
from captious.models.text_encoder import locate as locate_folder
from captious.reading import reading

NEW_TOKENS = 8
TOP = 20
_IMAGE_MARK = "<image>"


class LocalJudge:
    """A model that is ready to be asked.

    Attributes:
        name: what its answers are stored under: the folder's name and a checksum of its content.
    """

    def __init__(self, model: str, folder: Path, dtype: str, device: str) -> None:
        from transformers import AutoModelForImageTextToText, AutoProcessor
        from transformers.utils import logging

        self.name = known_as(model, folder, dtype)
        shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
        logging.disable_progress_bar()
        logging.set_verbosity_error()  # it would remark on picture readers that we do not need
        try:
            with reading(folder, "a vision-language model of transformers", "download it again"):
                self._processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
                both: Any = AutoModelForImageTextToText.from_pretrained(
                    folder, local_files_only=True, dtype=dtype, output_loading_info=True
                )
        finally:
            logging.set_verbosity(level)
            if shown:
                logging.enable_progress_bar()
        loaded, info = both
        missing = sorted(info["missing_keys"])
        if missing:
            raise InputError(
                f"{folder}: {len(missing)} parameters are missing: {', '.join(missing[:6])}"
            )
        self._model = loaded.to(device).eval().requires_grad_(False)
        self._device = device

    def ask(self, question: Question) -> Answer:
        """Return what the model writes, with the probabilities of the likeliest tokens."""
        import torch

        model_inputs = self._inputs(question)
        asked = model_inputs["input_ids"].shape[1]
        with torch.inference_mode():
            said = self._model.generate(
                **model_inputs,
                do_sample=False,
                num_beams=1,
                max_new_tokens=NEW_TOKENS,
                output_logits=True,
                return_dict_in_generate=True,
            )
        written = said.sequences[0, -len(said.logits) :]
        tokens = []
        for number, logits in zip(written.tolist(), said.logits, strict=True):
            if number in self._ends:
                break
            tokens.append(self._token(number, torch.softmax(logits[0].float(), dim=-1)))
        text = "".join(token for token, _ in tokens).strip()
        return Answer(text, tuple(tokens), int(asked), len(tokens))

    def _inputs(self, question: Question) -> Any:
        from PIL import Image

        picture = Image.open(io.BytesIO(question.picture)).convert("RGB")
        processor = self._processor
        if getattr(processor, "chat_template", None):
            content = [{"type": "image"}, {"type": "text", "text": question.text}]
            prompt = processor.apply_chat_template(
                [{"role": "user", "content": content}], add_generation_prompt=True
            )
        else:
            mark = getattr(processor, "image_token", None) or _IMAGE_MARK
            prompt = f"{mark}\n{question.text}"
        model_inputs = processor(text=[prompt], images=[picture], return_tensors="pt")
        kind = next(self._model.parameters()).dtype
        return {
            name: value.to(self._device, kind if value.is_floating_point() else value.dtype)
            for name, value in model_inputs.items()
        }

    def _token(self, number: int, shares: Any) -> Token:
        """Return a token with the likeliest ones at its place; equal texts are added up."""
        options: dict[str, float] = {}
        best = shares.topk(min(TOP, len(shares)))
        for other, share in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            text = self._text(other)
            options[text] = options.get(text, 0.0) + share
        token = self._text(number)
        options.setdefault(token, float(shares[number]))
        return token, options

    def _text(self, number: int) -> str:
        return str(self._processor.tokenizer.decode([number]))

    @property
    def _ends(self) -> frozenset[int]:
        end = self._model.generation_config.eos_token_id
        return frozenset([end] if isinstance(end, int) else end or [])


def locate(model: str) -> Path:
    """Return the folder of a model.

    Raises:
        MissingAsset: it is not on this machine; the message says how to get it.
    """
    try:
        return locate_folder(model, "vision-language model")
    except MissingAsset:
        raise MissingAsset(
            f"the vision-language model {model!r} is not on this machine. Give the folder of a "
            "model of transformers, let captious fetch it from the model hub with --download, or "
            "ask a service: judge(endpoint='http://localhost:8000/v1',model='NAME')"
        ) from None


def known_as(model: str, folder: Path, dtype: str) -> str:
    """Return the name that a model's answers are stored under.

    A checksum of weights, number type, table of pieces, template of questions and the other
    settings is part of it: answers of another model in the same folder are not taken for its own,
    and whoever replays stored answers names the very model.
    """
    parts = [assets.digest(file) for file in sorted(folder.glob("*.safetensors"))]
    if not parts:
        raise InputError(f"{folder}: there is no file of weights (*.safetensors)")
    whole = "\0".join([*parts, settings_sha(folder), dtype])
    return f"{Path(model).name}@{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def load(model: str, dtype: str) -> LocalJudge:
    """Open a model once per process.

    Raises:
        MissingAsset: it is not on this machine.
        InputError: transformers cannot open it.
    """
    folder = locate(model)
    stamp = tuple((f.name, f.stat().st_mtime_ns) for f in sorted(folder.iterdir()))
    return _opened(model, folder, dtype, settings.torch_device(), stamp)


@lru_cache(maxsize=1)
def _opened(model: str, folder: Path, dtype: str, device: str, stamp: Any) -> LocalJudge:
    return LocalJudge(model, folder, dtype, device)
