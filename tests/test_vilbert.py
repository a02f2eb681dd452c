"""ViLBERT and the other image-text encoders: the original's states, names, and clear refusals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from safetensors.torch import load_file, save_file  # noqa: E402

from captious.errors import InputError  # noqa: E402
from captious.evidence.regions import RegionSet  # noqa: E402
from captious.models import image_text, vilbert_load  # noqa: E402
from captious.models.image_text import Regions, Text  # noqa: E402
from captious.models.vilbert import Vilbert  # noqa: E402
from captious.models.vilbert_config import VilbertConfig, from_mapping, read_config  # noqa: E402

GOLDEN = Path(__file__).parent / "golden" / "vilbert"
CASES = ("interleaved_layers", "multitask_2conect", "pretrained_2conect")
VOCABULARY = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"] + [f"w{i}" for i in range(5, 120)]


def golden(case: str) -> tuple[Vilbert, dict, dict]:
    model, _ = vilbert_load.load_vilbert(
        GOLDEN / f"{case}.weights.safetensors", GOLDEN / f"{case}.config.json"
    )
    given = load_file(GOLDEN / f"{case}.inputs.safetensors")
    return model, given, load_file(GOLDEN / f"{case}.outputs.safetensors")


def as_folder(case: str, folder: Path) -> Path:
    """A golden model as a user keeps one: a folder with its vocabulary."""
    folder.mkdir(exist_ok=True)
    shutil.copy(GOLDEN / f"{case}.weights.safetensors", folder / "model.safetensors")
    shutil.copy(GOLDEN / f"{case}.config.json", folder / "config.json")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return folder


@pytest.mark.parametrize("case", CASES)
def test_every_state_of_the_original(case):
    model, given, wanted = golden(case)
    task = 7 if model.config.task_tokens else None
    for side in ("cand", "ref"):
        ids, mask = given[f"{side}.input_ids"], given[f"{side}.attention_mask"]
        out = model(ids, mask, given["features"], given["spatials"], given["image_mask"], task,
                    pool_blocks=True)  # fmt: skip
        assert len(out.text) == model.config.blocks == 2
        for k in range(2):
            torch.testing.assert_close(
                out.text[k], wanted[f"{side}.text_layer_{k}"], atol=1e-5, rtol=0
            )
            torch.testing.assert_close(
                out.image[k], wanted[f"{side}.vision_layer_{k}"], atol=1e-5, rtol=0
            )
        torch.testing.assert_close(
            out.pooled_text, wanted[f"{side}.pooled_text"], atol=1e-5, rtol=0
        )
        torch.testing.assert_close(
            out.pooled_image, wanted[f"{side}.pooled_vision"], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_the_short_way_gives_the_same_states(case, layer, tmp_path):
    """Each text and image alone first, then pairs in any batch, nothing behind the layer."""
    encoder = image_text.load(str(as_folder(case, tmp_path / case)))
    given = load_file(GOLDEN / f"{case}.inputs.safetensors")
    wanted = load_file(GOLDEN / f"{case}.outputs.safetensors")
    images = [
        Regions(f[m == 1].numpy(), s[m == 1].numpy())
        for f, s, m in zip(given["features"], given["spatials"], given["image_mask"], strict=True)
    ]
    texts, rows = [], []
    for side in ("cand", "ref"):
        for row in range(3):
            real = given[f"{side}.attention_mask"][row] == 1
            ids = given[f"{side}.input_ids"][row][real]
            texts.append(Text(tuple(ids.tolist()), len(ids) - 2, False))
            state = wanted[f"{side}.text_layer_{layer - 1}"][row, : len(ids) + encoder.task]
            rows.append(torch.nn.functional.normalize(state, dim=-1))
    which = [0, 1, 2, 0, 1, 2]
    found = encoder.states(texts, which, images, layer)
    alone = [
        encoder.states([t], [0], [images[w]], layer)[0] for t, w in zip(texts, which, strict=True)
    ]
    for a, b, c in zip(found, rows, alone, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)
        torch.testing.assert_close(a, c, atol=1e-5, rtol=0)


def test_only_what_the_layer_needs_is_computed(tmp_path):
    encoder = image_text.load(str(as_folder("interleaved_layers", tmp_path / "m")))
    called: list[str] = []
    rows: dict[str, int] = {}
    for name, module in encoder.model.named_modules():

        def seen(mod, args, out, name=name):
            called.append(name)
            if name in ("v_embeddings", "embeddings"):
                rows[name] = rows.get(name, 0) + len(args[0])

        module.register_forward_hook(seen)
    rng = np.random.default_rng(0)
    images = [Regions(rng.random((n, 24), np.float32), rng.random((n, 5), np.float32))
              for n in (4, 6)]  # fmt: skip
    texts = [Text((1, w, 2), 1, False) for w in (7, 8, 9, 7)]
    encoder.states(texts, [0, 0, 1, 1], images, layer=1)
    assert rows == {"v_embeddings": 2, "embeddings": 3}  # distinct images, distinct texts
    assert "encoder.layer.1" in called
    assert "encoder.v_layer.0" in called
    for name in ("encoder.layer.2", "encoder.v_layer.1", "encoder.c_layer.1.biattention.query2",
                 "encoder.c_layer.0.v_output", "encoder.c_layer.0.biattention.key2",
                 "encoder.c_layer.0.biOutput.q_dense2", "t_pooler"):  # fmt: skip
        assert name not in called


def test_attention_over_regions_explains_the_text_state():
    """The shares sum to one, and are those that the fused kernel used."""
    model, given, _ = golden("multitask_2conect")
    ids, mask = given["cand.input_ids"], given["cand.attention_mask"]
    text = model.text_alone(ids, model.text_mask(mask, 7), 7)
    start = model.image_alone(given["features"], given["spatials"], given["image_mask"])
    looks: list = []
    list(model.together(text, model.text_mask(mask, 7), start, given["image_mask"], 1, looks))
    torch.testing.assert_close(looks[0].sum(-1), torch.ones(3, 15))
    assert (looks[0].mT[given["image_mask"] == 0] == 0).all()
    block = model.encoder.c_layer[0]
    uniform = start._replace(key=torch.zeros_like(start.key))
    torch.testing.assert_close(
        block.look(text, uniform, None), torch.full((3, 15, 7), 1 / 7), atol=1e-6, rtol=0
    )


def test_names_and_shapes_of_the_full_size():
    wanted = json.loads((GOLDEN / "full_size_parameters.json").read_text())
    with torch.device("meta"):
        model = Vilbert(replace(VilbertConfig(), task_tokens=20))
    mine = {f"bert.{name}": list(value.shape) for name, value in model.state_dict().items()}
    assert mine == {k: v for k, v in wanted.items() if k.startswith("bert.")}
    assert len(mine) == 520
    assert sum(int(np.prod(shape)) for shape in mine.values()) == 246_742_016
    others = set(wanted) - set(mine)
    assert all(name.startswith(vilbert_load._HEADS) for name in others)


# -- files -----------------------------------------------------------------------------------


@pytest.fixture
def state():
    return load_file(GOLDEN / "multitask_2conect.weights.safetensors")


CONFIG = GOLDEN / "multitask_2conect.config.json"


def test_original_checkpoint_file_with_old_names_and_heads(state, tmp_path):
    old = {}
    for name, value in state.items():
        stem, _, last = name.rpartition(".")
        if "LayerNorm" in stem:
            name = f"{stem}.{'gamma' if last == 'weight' else 'beta'}"
        old[f"module.{name}"] = value
    old["module.vil_logit.weight"] = torch.zeros(1, 64)
    old["module.cls.bi_seq_relationship.bias"] = torch.zeros(2)
    torch.save(old, tmp_path / "multi_task_model.bin")
    model, keys = vilbert_load.load_vilbert(tmp_path / "multi_task_model.bin", CONFIG)
    plain, _ = vilbert_load.load_vilbert(GOLDEN / "multitask_2conect.weights.safetensors", CONFIG)
    for (name, a), b in zip(model.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert keys.heads == ("vil_logit.weight", "cls.bi_seq_relationship.bias")
    assert keys.missing == ()
    assert "vil_logit.weight" in str(keys)


def test_what_the_score_does_without_may_be_missing(state, tmp_path):
    for name in ("bert.t_pooler.dense.weight", "bert.encoder.c_layer.0.biOutput.q_dense1.bias"):
        del state[name]
    save_file(state, tmp_path / "m.safetensors")
    _, keys = vilbert_load.load_vilbert(tmp_path / "m.safetensors", CONFIG)
    assert sorted(keys.missing) == [
        "bert.encoder.c_layer.0.biOutput.q_dense1.bias", "bert.t_pooler.dense.weight",
    ]  # fmt: skip


def test_missing_alien_and_misshapen_keys_are_all_named(state, tmp_path):
    del state["bert.encoder.layer.3.output.dense.bias"]
    state["bert.encoder.layer.4.output.dense.bias"] = torch.zeros(48)
    state["bert.v_embeddings.image_embeddings.weight"] = torch.zeros(64, 25)
    save_file(state, tmp_path / "m.safetensors")
    with pytest.raises(InputError) as caught:
        vilbert_load.load_vilbert(tmp_path / "m.safetensors", CONFIG)
    told = str(caught.value)
    assert "1 parameters are missing: bert.encoder.layer.3.output.dense.bias" in told
    assert "no place in this model: bert.encoder.layer.4.output.dense.bias" in told
    assert "image_embeddings.weight is (64, 25), the configuration says (64, 24)" in told


def test_without_configuration_the_full_size_is_tried_and_said(state, tmp_path):
    torch.save(state, tmp_path / "m.bin")
    with pytest.raises(InputError, match=r"no config=PATH was named"):
        vilbert_load.load_vilbert(tmp_path / "m.bin")


class Evil:
    def __reduce__(self):
        return (exit, (3,))


def test_code_in_a_checkpoint_is_refused(state, tmp_path):
    torch.save({**state, "extra": Evil()}, tmp_path / "m.bin")
    with pytest.raises(InputError, match="refused"):
        vilbert_load.load_vilbert(tmp_path / "m.bin", CONFIG)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"a": torch.zeros(1)}, "not a ViLBERT checkpoint"),
        ([1, 2], "not a state dict"),
        ({"bert.x": 3}, "hold no tensor"),
    ],
)
def test_other_files_are_refused(content, told, tmp_path):
    torch.save(content, tmp_path / "m.bin")
    with pytest.raises(InputError, match=told):
        vilbert_load.load_vilbert(tmp_path / "m.bin", CONFIG)


def test_our_folder_comes_back(tmp_path):
    model, _, _ = golden("interleaved_layers")
    vilbert_load.save_vilbert(model, tmp_path / "ours", {"features": "made up"}, half=False)
    again, keys = vilbert_load.load_vilbert(tmp_path / "ours")
    assert again.config == replace(model.config, features="made up")
    assert again.config.identity == model.config.identity
    assert keys.missing == keys.heads == ()
    for a, b in zip(again.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    vilbert_load.save_vilbert(model, tmp_path / "half")
    small, _ = vilbert_load.load_vilbert(tmp_path / "half")
    assert next(small.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_attention_heads": 5}, "hidden_size 48 cannot be shared"),
        ({"t_biattention_id": [2]}, "different lengths"),
        ({"t_biattention_id": [3, 2]}, "does not rise"),
        ({"v_biattention_id": [0, 9]}, r"does not rise within 0\.\.2"),
        ({"hidden_act": "tanh"}, "hidden_act is one of"),
        ({"hidden_size": "48"}, "hidden_size must be of type int"),
        ({"dynamic_attention": True}, "another network"),
    ],
)
def test_bad_configurations(change, told):
    with pytest.raises(InputError, match=told):
        from_mapping({**json.loads(CONFIG.read_text()), **change})


def test_configuration_files_that_are_none(tmp_path):
    (tmp_path / "c.json").write_text("[1]")
    with pytest.raises(InputError, match="not a configuration"):
        read_config(tmp_path / "c.json")
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_config(tmp_path / "c.json")
    with pytest.raises(InputError, match="there is no such file"):
        read_config(tmp_path / "absent.json")


def test_too_many_pieces_or_other_features_are_refused_by_the_model():
    model, given, _ = golden("pretrained_2conect")
    with pytest.raises(InputError, match="41 tokens does not fit a model with 40"):
        model.text_alone(torch.ones(1, 41, dtype=torch.long), None, None)
    with pytest.raises(InputError, match="length 23 do not fit a model that needs 24"):
        model.image_alone(given["features"][..., :23], given["spatials"], None)


# -- tokeniser and regions -----------------------------------------------------------------------


def test_tokeniser_of_bert_base_uncased_is_the_default():
    pieces = image_text.WordPieces(None, 30522)
    assert pieces.marks == (101, 102)
    one = pieces.tokenize(["A man riding surfboards."], 37)[0]
    assert pieces.spell(one) == ["a", "man", "riding", "surf", "##boards", "."]
    assert (one.ids[0], one.ids[-1], one.words, one.cut) == (101, 102, 6, False)
    with pytest.raises(InputError, match="30522 tokens and the model has vectors for 120"):
        image_text.WordPieces(None, 120)


def test_long_texts_are_cut_with_or_without_the_end_mark():
    pieces = image_text.WordPieces(None, 30522)
    text = " ".join(["dog"] * 50)
    kept = pieces.tokenize([text], 37)[0]
    assert (len(kept.ids), kept.words, kept.ids[-1], kept.cut) == (37, 35, 102, True)
    lost = pieces.tokenize([text], 37, keep_end=False)[0]
    assert (len(lost.ids), lost.words, lost.cut) == (37, 35, True)
    assert lost.ids[-1] != 102
    assert pieces.tokenize([" ".join(["dog"] * 35)], 37)[0].cut is False


def test_regions_get_the_whole_image_in_front():
    given = RegionSet(
        np.array([[2, 4], [4, 8]], np.float16),
        np.array([[0, 0, 50, 20], [10, 10, 100, 40]], np.float32), 100, 40,
    )  # fmt: skip
    found = image_text.as_regions("x", given, 2, boxes=True, whole=True)
    np.testing.assert_allclose(found.features, [[3, 6], [2, 4], [4, 8]])
    np.testing.assert_allclose(
        found.boxes,
        [[0, 0, 1, 1, 1], [0, 0, 0.5, 0.5, 0.25], [0.1, 0.25, 1, 1, 0.675]], atol=1e-6,
    )  # fmt: skip


# -- models of transformers ------------------------------------------------------------------------


def small_lxmert():
    from transformers import LxmertConfig, LxmertModel

    return LxmertModel(
        LxmertConfig(
            vocab_size=120, hidden_size=32, num_attention_heads=4, intermediate_size=40,
            l_layers=2, x_layers=2, r_layers=1, visual_feat_dim=12, max_position_embeddings=24,
        )
    )  # fmt: skip


def small_visual_bert():
    from transformers import VisualBertConfig, VisualBertModel

    return VisualBertModel(
        VisualBertConfig(
            vocab_size=120, hidden_size=32, num_attention_heads=4, intermediate_size=40,
            num_hidden_layers=3, visual_embedding_dim=12, max_position_embeddings=24,
        )
    )  # fmt: skip


def small_vilt():
    from transformers import ViltConfig, ViltModel

    return ViltModel(
        ViltConfig(
            vocab_size=120, hidden_size=32, num_attention_heads=4, intermediate_size=40,
            num_hidden_layers=3, image_size=64, patch_size=32, max_position_embeddings=24,
        )
    )  # fmt: skip


SMALL = {"lxmert": small_lxmert, "visual_bert": small_visual_bert, "vilt": small_vilt}


def saved(kind: str, folder: Path) -> Path:
    pytest.importorskip("transformers")
    torch.manual_seed(3)
    model = SMALL[kind]()
    for value in model.parameters():
        value.data.normal_(0, 0.3)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    if kind == "vilt":
        (folder / "preprocessor_config.json").write_text('{"size": {"shortest_edge": 64}}')
    return folder


def direct(kind: str, encoder, text: Text, image, layer: int):
    """The plain call of transformers for one text and one image, without padding."""
    model = encoder.model
    ids = torch.tensor([text.ids])
    if kind == "lxmert":
        out = model(
            input_ids=ids, visual_feats=torch.tensor(image.features)[None],
            visual_pos=torch.tensor(image.boxes)[None, :, :4], output_hidden_states=True,
        )  # fmt: skip
        return out.language_hidden_states[2 + layer - 1][0]
    if kind == "visual_bert":
        out = model(
            input_ids=ids, visual_embeds=torch.tensor(image.features)[None],
            output_hidden_states=True,
        )  # fmt: skip
        return out.hidden_states[layer][0, : ids.shape[1]]
    out = model(input_ids=ids, pixel_values=image[None], pixel_mask=torch.ones_like(image[:1]),
                output_hidden_states=True)  # fmt: skip
    states = out.last_hidden_state if layer == 3 else out.hidden_states[layer]
    return states[0, : ids.shape[1]]


@pytest.fixture(params=list(SMALL))
def other(request, tmp_path):
    """An encoder of transformers and two images of different size."""
    kind = request.param
    encoder = image_text.load(str(saved(kind, tmp_path / "m")))
    rng = np.random.default_rng(1)
    if kind == "vilt":
        from PIL import Image

        images = []
        for number, size in enumerate(((100, 80), (140, 70))):
            pixels = rng.integers(0, 256, (*size[::-1], 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"{number}.png")
            images.append(encoder.see(str(tmp_path / f"{number}.png"), None))
    else:
        images = [
            encoder.see(
                "x",
                RegionSet(5 * rng.random((n, 12), np.float32),
                          np.tile(np.float32([1, 2, 30, 40]), (n, 1)), 60, 50),
            )
            for n in (5, 3)
        ]  # fmt: skip
    return kind, encoder, images


def test_other_encoders_give_the_states_of_transformers(other):
    """Masks, region inputs and the early exit: any batch gives what the plain call gives."""
    kind, encoder, images = other
    assert encoder.kind == kind
    texts = [Text((1, 7, 8, 9, 10, 2), 4, False), Text((1, 30, 2), 1, False),
             Text((1, 40, 41, 2), 2, False)]  # fmt: skip
    which = [0, 1, 0]
    for layer in range(1, encoder.layers + 1):
        found = encoder.states(texts, which, images, layer)
        for text, image, state in zip(texts, which, found, strict=True):
            wanted = torch.nn.functional.normalize(
                direct(kind, encoder, text, images[image], layer), dim=-1
            )
            torch.testing.assert_close(state, wanted, atol=1e-5, rtol=0)
    blank = encoder.states(texts[:1], [0], [encoder.blank()], encoder.layers)[0]
    assert not torch.allclose(blank, found[0], atol=2e-3)  # the image matters


def test_other_encoders_say_where_words_look(other):
    kind, encoder, images = other
    shares = encoder.look(Text((1, 7, 8, 2), 2, False), images[0], encoder.layers)
    if kind == "vilt":
        assert shares is None
    else:
        assert shares.shape == (4, 5)
        torch.testing.assert_close(shares.sum(-1), torch.ones(4))


def test_other_encoders_with_missing_parameters_are_refused(tmp_path):
    folder = saved("lxmert", tmp_path / "m")
    state = load_file(folder / "model.safetensors")
    del state["encoder.x_layers.1.lang_inter.dense.weight"]
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"1 parameters are missing: encoder\.x_layers\.1"):
        image_text.load(str(folder))


def test_other_architectures_are_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(InputError, match="type 'gpt2'; vilbertscore knows vilbert, lxmert"):
        image_text.load(str(tmp_path))
