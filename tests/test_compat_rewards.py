"""Rewards: TRL's calling convention, verl's and OpenRLHF's, weights, scaling, masks."""

from __future__ import annotations

import asyncio
import importlib
import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import captious
from captious.errors import UsageError

TEXTS = ["a dog runs on grass", "a red bus", "a cat"]
REFERENCES = [["a dog runs on the grass"], ["a red bus on a street", "a bus"], ["a cat sleeps"]]


@pytest.fixture(scope="module")
def table():
    return captious.score(
        TEXTS, REFERENCES, metrics=["cider_d(df='coco-val')", "bleu_4", "rouge_l"], intervals=False
    )


def test_trl_calls(table):
    judge = captious.reward("cider_d")
    given = judge(
        prompts=["describe"] * 3,
        completions=TEXTS,
        completion_ids=[[1]] * 3,
        references=REFERENCES,
        trainer_state=None,
        log_extra=None,
    )
    assert given == pytest.approx(table["cider_d"].tolist(), rel=1e-12)
    assert all(type(value) is float for value in given)
    assert judge.__name__ == "cider_d_reward"
    assert judge(["p"] * 3, TEXTS, captions=REFERENCES) == given
    assert captious.reward("cider_d", references="gold")(None, TEXTS, gold=REFERENCES) == given


def test_conversations(table):
    judge = captious.reward("cider_d")
    chats = [
        [{"role": "assistant", "content": TEXTS[0]}],
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": f" {TEXTS[1]}\n"}],
        [{"role": "assistant", "content": [{"type": "text", "text": TEXTS[2]}]}],
    ]
    assert judge(completions=chats, references=REFERENCES) == pytest.approx(
        table["cider_d"].tolist(), rel=1e-12
    )


def test_components_and_scaling(table):
    summed = captious.reward({"cider_d": 1.0, "bleu_4": 0.5})(None, TEXTS, references=REFERENCES)
    assert summed == pytest.approx((table["cider_d"] + 0.5 * table["bleu_4"]).tolist())
    scaled = captious.reward(["cider_d", "rouge_l"], weights=[3, 1], scale=True)
    expected = (3 * table["cider_d"] / 10 + table["rouge_l"]) / 4
    assert scaled(None, TEXTS, references=REFERENCES) == pytest.approx(expected.tolist())

    def words(caption, references):
        return len(caption.split())

    assert captious.reward(words)(None, TEXTS, references=REFERENCES) == [5.0, 3.0, 2.0]
    with pytest.raises(UsageError, match="no bounds"):
        captious.reward(words, scale=True)
    with pytest.raises(UsageError, match="several columns"):
        captious.reward("bleu")
    with pytest.raises(UsageError, match="1 columns"):
        captious.reward("cider_d", weights=[1, 2])


def test_what_does_not_apply_is_none():
    judge = captious.reward("rouge_l", length=(2, 4))
    given = judge(None, TEXTS, references=[REFERENCES[0], None, []])
    assert given == [0.0, None, None]  # five words are too many
    assert captious.reward("rouge_l", length=(2, 4), outside=None)(
        None, TEXTS, references=REFERENCES
    )[0] is None  # fmt: skip
    tagged = captious.reward(
        "rouge_l", extract=lambda t: t.partition("<a>")[2] if "<a>" in t else None
    )
    assert tagged(None, ["hm <a>a cat", "a cat"], references=[["a cat"]] * 2) == [1.0, None]


def test_bad_use_names_the_index():
    judge = captious.reward("cider_d")
    with pytest.raises(ValueError, match=r"(?s)completions\[1\].*completions\[2\]"):
        judge(None, ["a", 5, [{"role": "user", "content": "x"}]], references=REFERENCES)
    with pytest.raises(ValueError, match="3 completions, but the column 'references' has 2"):
        judge(None, TEXTS, references=REFERENCES[:2])
    with pytest.raises(ValueError, match=r"no column holds references.*has: prompt_id"):
        judge(None, TEXTS, prompt_id=[1, 2, 3])
    with pytest.raises(ValueError, match=r"references\['1'\]\[0\] is int"):
        judge(None, TEXTS, references=[["a"], [3], ["b"]])


def test_verl_signature(table):
    judge = captious.reward("cider_d")
    one = judge.verl("coco", TEXTS[0], REFERENCES[0], {"index": 1})
    assert one == pytest.approx(table["cider_d"][0])
    assert judge.verl(
        data_source="coco", solution_str=TEXTS[0], ground_truth=REFERENCES[0], extra_info=None
    ) == pytest.approx(one)
    batch = judge.verl(
        data_sources=["coco"] * 3,
        solution_strs=TEXTS,
        ground_truths=[np.array(r, object) for r in REFERENCES],
        extra_infos=[None] * 3,
    )
    assert batch == pytest.approx(table["cider_d"].tolist())
    assert judge.verl("coco", TEXTS[0], []) == 0.0


def test_references_of_another_name_do_for_every_trainer(table):
    """captious.reward(references="gold") is a column of TRL; verl and OpenRLHF hand them over."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    judge = captious.reward("cider_d", references="gold")
    assert judge.verl("coco", TEXTS[0], REFERENCES[0]) == pytest.approx(table["cider_d"][0])
    given = judge.openrlhf(TEXTS, [""] * 3, REFERENCES)["rewards"]
    expected = torch.tensor(table["cider_d"], dtype=torch.float32)
    torch.testing.assert_close(given, expected)


def test_photographs_reach_a_metric_that_looks():
    """TRL's column of lists of images; verl's extra_info; none at all is an error, not a zero."""

    def bright(caption, image):
        return 0.0 if image is None else 1.0

    judge = captious.reward(bright)
    assert judge(None, TEXTS, images=[["x.jpg"], [], ["z.jpg"]])[::2] == [1.0, 1.0]
    assert judge.verl("coco", TEXTS[0], None, {"image": "x.jpg"}) == 1.0
    assert judge(None, TEXTS, images=["x.jpg"] * 3, answer=[None] * 3) == [1.0] * 3
    named = captious.reward(bright, images="photo")
    given = named.verl(
        solution_strs=TEXTS, ground_truths=[None] * 3, extra_infos=[{"photo": "x.jpg"}] * 3
    )
    assert given == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="fit needs region features"):
        captious.reward("fit").verl("coco", TEXTS[0], None)


def test_openrlhf_signature(table):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    judge = captious.reward("cider_d", scale=True)
    given = judge.openrlhf([f"describe: {t}" for t in TEXTS], ["describe: "] * 3, REFERENCES)
    expected = torch.tensor(table["cider_d"] / 10, dtype=torch.float32)
    torch.testing.assert_close(given["rewards"], expected)
    assert set(given) == {"rewards", "scores", "extra_logs"}


@pytest.mark.parametrize(
    ("query", "prompt"),
    [
        ("say: a dog runs", "say: "),
        ("say: a dog runs</s>", "say: "),
        ("<s> say: a dog runs</s></s>", "say: "),
        (
            "<|im_start|>user\nsay<|im_end|>\na dog runs<|im_end|>\n",
            "<|im_start|>user\nsay<|im_end|>",
        ),
        ("say:a dog runs<end_of_turn>", "say: "),
        ("a dog runs<eos><pad><pad>", "another prompt"),
    ],
)
def test_openrlhf_hands_over_prompt_and_marks(query, prompt):
    """Its queries are decoded with special tokens, which are no part of the caption."""
    pytest.importorskip("torch", reason="torch is not installed")
    judge = captious.reward("rouge_l")
    assert judge.openrlhf([query], [prompt], [["a dog runs"]])["rewards"].item() == 1.0


def _openrlhf_agent(monkeypatch):
    """Its module of executors, without the rest of its package, which imports deepspeed."""
    host = pytest.importorskip("openrlhf", reason="the host openrlhf is not installed")
    utils = types.ModuleType("openrlhf.utils")
    utils.__path__ = [str(Path(host.__path__[0]) / "utils")]
    monkeypatch.setitem(sys.modules, "openrlhf.utils", utils)
    return importlib.import_module("openrlhf.utils.agent")


def test_the_executor_of_openrlhf_takes_it(tmp_path, monkeypatch):
    """OpenRLHF's own executor loads the file of --remote_rm_url, decodes, and calls the function.

    Its engine (vLLM) is the one thing that is replaced: it gives a fixed answer and its end mark.
    """
    agent = _openrlhf_agent(monkeypatch)
    torch = pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = {w: i for i, w in enumerate(["</s>", "say:", *" ".join(TEXTS).split()])}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="</s>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="</s>")
    file = tmp_path / "reward.py"
    file.write_text("import captious\nreward_func = captious.reward('cider_d').openrlhf\n")
    executor = agent.SingleTurnAgentExecutor(str(file))

    class Engine:
        def __init__(self, text):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            self.made = types.SimpleNamespace(
                token_ids=[*ids, tokenizer.eos_token_id], finish_reason="stop", logprobs=None
            )

        async def generate(self, *_args, **_others):
            return types.SimpleNamespace(outputs=[self.made])

    settings = types.SimpleNamespace(max_tokens=32, logprobs=None)
    expected = captious.reward("cider_d")(None, TEXTS, references=REFERENCES)
    for text, references, value in zip(TEXTS, REFERENCES, expected, strict=True):
        done = asyncio.run(
            executor.execute("say:", references, settings, 64, tokenizer, Engine(text))
        )
        assert done["scores"] is not None, "the executor caught an error of the reward"
        # What its sample generator does with them.
        torch.testing.assert_close(torch.tensor([done["reward"]]), torch.tensor([value]))
        assert list(done["extra_logs"]) == ["cider_d_reward"]


def test_verl_hands_over_arrays(table):
    """Its columns are arrays of objects, whose truth value is an error."""
    judge = captious.reward("cider_d")
    given = judge.verl(
        data_sources=np.array(["coco"] * 3),
        solution_strs=np.array(TEXTS),
        ground_truths=np.array([np.array(r, dtype=object) for r in REFERENCES], dtype=object),
        extra_infos=np.array([{"index": i} for i in range(3)]),
    )
    assert given == pytest.approx(table["cider_d"].tolist(), rel=1e-12)


@pytest.mark.parametrize("kind", ["naive", "batch"])
def test_the_reward_managers_of_verl_take_it(kind):
    """verl's own managers decode a batch and call the function; extra_info is an array there."""
    pytest.importorskip("verl.workers.reward_manager", reason="the host verl is not installed")
    torch = pytest.importorskip("torch")
    from verl import DataProto
    from verl.workers.reward_manager import BatchRewardManager, NaiveRewardManager

    words = ["<pad>", "say:", *" ".join(TEXTS).split()]
    tokenizer = types.SimpleNamespace(
        decode=lambda ids, skip_special_tokens: " ".join(words[int(i)] for i in ids)
    )
    answers = [[words.index(w) for w in text.split()] for text in TEXTS]
    longest = max(map(len, answers))
    responses = torch.tensor([a + [0] * (longest - len(a)) for a in answers])
    prompts = torch.ones((3, 1), dtype=torch.long)
    mask = torch.cat([prompts, (responses > 0).long()], dim=1)
    tensors = {"prompts": prompts, "responses": responses, "attention_mask": mask}
    columns = {
        "data_source": ["coco"] * 3,
        "reward_model": [{"ground_truth": np.array(r, dtype=object)} for r in REFERENCES],
        "extra_info": [{"index": i} for i in range(3)],
    }
    columns = {name: np.array(rows, dtype=object) for name, rows in columns.items()}
    judge = captious.reward("cider_d")
    manager = {"naive": NaiveRewardManager, "batch": BatchRewardManager}[kind]
    made = manager(tokenizer, 0, compute_score=judge.verl)
    given = made(DataProto.from_dict(tensors=tensors, non_tensors=columns))
    expected = torch.tensor(judge(None, TEXTS, references=REFERENCES))
    torch.testing.assert_close(given.sum(dim=1), expected)
    ends = [len(a) - 1 for a in answers]
    torch.testing.assert_close(given[range(3), ends], expected)  # on the last token of each


def test_it_travels():
    judge = captious.reward({"cider_d": 1.0, "rouge_l": 2.0}, scale=True, length=(1, 20))
    other = pickle.loads(pickle.dumps(judge))
    given = judge(None, TEXTS, references=REFERENCES)
    assert other(None, TEXTS, references=REFERENCES) == given


def test_the_trainer_of_trl_takes_it():
    """The real GRPOTrainer computes rewards with it (its own method, no model)."""
    grpo = pytest.importorskip("trl.trainer.grpo_trainer", reason="the host trl is not installed",
                               exc_type=ImportError)  # fmt: skip
    torch = pytest.importorskip("torch")
    from types import SimpleNamespace

    judge = captious.reward("cider_d", scale=True)
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        reward_funcs=[judge],
        reward_processing_classes=[None],
        reward_func_names=[judge.__name__],
        state=SimpleNamespace(global_step=0, is_world_process_zero=False),
        environments=None,
        _log_completion_extra=None,
        _log_metric=None,
        args=SimpleNamespace(report_to=[]),
        _current_train_step_time=0.0,
        _metrics={"train": {}},
        model=SimpleNamespace(training=True),
    )
    inputs = [{"prompt": "p", "references": r} for r in REFERENCES]
    import contextlib
    from unittest import mock

    with (
        mock.patch.object(grpo, "profiling_context", return_value=contextlib.nullcontext()),
        mock.patch.object(grpo, "gather", lambda x: x),
    ):
        got = grpo.GRPOTrainer._calculate_rewards(trainer, inputs, ["p"] * 3, TEXTS, [[1]] * 3)
    expected = torch.tensor(judge(None, TEXTS, references=REFERENCES))[:, None]
    torch.testing.assert_close(got, expected)
