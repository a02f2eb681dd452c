"""The trainer of ViLBERT on a toy world: it learns, resumes exactly, and writes what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from captious.errors import InputError, UsageError  # noqa: E402
from captious.evidence.region_formats import open_regions  # noqa: E402
from captious.evidence.regions import MemoryRegions, RegionSet, save_regions  # noqa: E402
from captious.metrics.vilbertscore import Vilbertscore  # noqa: E402
from captious.models import fit, scan  # noqa: E402
from captious.models.image_text import WordPieces  # noqa: E402
from captious.models.vilbert import Vilbert  # noqa: E402
from captious.models.vilbert_config import VilbertConfig  # noqa: E402
from captious.models.vilbert_heads import Heads  # noqa: E402
from captious.models.vilbert_load import load_vilbert, save_vilbert  # noqa: E402
from captious.training.machine_captions import _TEMPLATES, machine_captions  # noqa: E402
from captious.training.scan_run import Sources  # noqa: E402
from captious.training.vilbert import VilbertTrainer, folded, start_text  # noqa: E402
from captious.training.vilbert_batches import (  # noqa: E402
    Batches,
    VilbertData,
    VilbertOptions,
    Vocabulary,
)
from captious.training.vilbert_judge import (  # noqa: E402
    DevJudge,
    MachineJudge,
    pairs_of,
    recalls,
)
from captious.training.vilbert_looking import (  # noqa: E402
    LOOK,
    LookingBatches,
    LookingTrainer,
    looking_loss,
    seeing_loss,
    shift,
)
from captious.training.vilbert_objectives import (  # noqa: E402
    alignment_loss,
    calm_start,
    preference_loss,
    sharpen,
    token_f,
)
from captious.training.vilbert_run import train  # noqa: E402
from captious.training.vilbert_teacher import Found, LookingTeacher, WholeCaptions  # noqa: E402
from captious.training.whitened import Whitening  # noqa: E402
from captious.types import CaptionSet  # noqa: E402
from seeing import Seeing  # noqa: E402

GOLDEN = Path(__file__).parent / "golden" / "vilbert"
SMALL = VilbertConfig(
    vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=12, v_feature_size=8, v_target_size=4,
    v_hidden_size=16, v_num_hidden_layers=1, v_num_attention_heads=2, v_intermediate_size=16,
    bi_hidden_size=16, bi_num_attention_heads=2, v_biattention_id=(0,), t_biattention_id=(1,),
)  # fmt: skip
PIECES = Vocabulary(30, 4, (0, 1, 2, 3, 4))
OPTIONS = VilbertOptions(
    steps=8, images=8, learning_rate=3e-3, warmup=2, validate=4, whitened=8, longest=8
)


def toy(images: int = 16, kinds: int = 4) -> VilbertData:
    """Photographs of a few kinds of things; a caption names the kind."""
    rng = np.random.default_rng(0)
    kind = np.arange(images) % kinds
    features = rng.normal(0, 0.2, (images, 4, 8))
    features[np.arange(images)[:, None], np.arange(4), kind[:, None]] += 3
    captions = [[(1, 5 + k, 10 + int(rng.integers(5)), 2) for _ in range(3)] for k in kind.tolist()]
    boxes = rng.random((images, 4, 5))
    return VilbertData(torch.tensor(features).float(), torch.tensor(boxes).float(), captions)


def judge(model, heads):
    return {"random": 0.0, "near": 0.0, "select": 0.0}


def test_heads_have_the_names_of_the_original():
    wanted = json.loads((GOLDEN / "full_size_parameters.json").read_text())
    with torch.device("meta"):
        heads = Heads(VilbertConfig())
    mine = {f"cls.{name}": list(value.shape) for name, value in heads.state_dict().items()}
    assert mine == {k: v for k, v in wanted.items() if k.startswith("cls.")}


def test_words_are_masked_in_references_only_and_regions_alike_for_all():
    data = toy()
    options = replace(OPTIONS, masked=0.5, blank=0.4, left_out=0.0)
    batch = Batches(data, PIECES, options, 4)()
    many = len(batch["features"])
    assert len(batch["ids"]) == 4 * many
    told = batch["wanted"] != -100
    assert told[:many].any()
    assert not told[many:].any()
    assert not (batch["ids"][many:] == PIECES.mask).any()
    assert not torch.isin(batch["wanted"][told], torch.tensor(PIECES.specials)).any()
    assert not (batch["words"] & told).any()  # a masked word has no part in F
    assert batch["hidden"].any()
    assert (batch["features"][batch["hidden"]] == 0).all()
    assert not batch["hidden"][:, 0].any()
    blank = batch["blank"]
    assert 0 < blank.sum() < many
    assert (batch["features"][blank] == 0).all()
    assert not batch["hidden"][blank].any()


def test_the_four_captions_and_their_relevance():
    near = torch.full((16, 1), 3)
    vectors = torch.nn.functional.normalize(torch.randn(16, 3, 5), dim=-1)
    data = replace(toy(), near=near, teacher=vectors)
    batches = Batches(data, PIECES, OPTIONS, 4)
    assert {batches._similar(k) for k in range(3)} == {3}
    assert {batches._other(5) for _ in range(300)} == set(range(16)) - {5}
    one = np.array([0]), np.array([2])
    chosen = [(np.array([0]), np.array([1])), one, (np.array([3]), np.array([0])), one]
    found = batches._relevance(chosen)[0]
    cosine = vectors[0] @ torch.stack([vectors[0, 2], vectors[3, 0], vectors[0, 2]]).T
    assert found[0] == pytest.approx(float(cosine[:2, 0].mean()), abs=1e-6)  # itself left out
    assert found[1] == pytest.approx(float(cosine[:, 1].mean()), abs=1e-6)
    assert found[2] == pytest.approx(float(cosine[:, 2].mean()), abs=1e-6)


def test_f_of_the_trainer_is_f_of_the_metric():
    """The worked example of the metric: a-the .5, dog-dog 1, all else 0."""
    a, dog, the = [1.0, 0, 0], [0, 0, 1.0], [0.5, 0.75**0.5, 0]
    caption, reference = torch.tensor([[a, dog, a]]), torch.tensor([[the, dog]])
    said, counted = torch.tensor([[True, True, False]]), torch.tensor([[True, True]])
    assert token_f(reference, counted, caption, said).item() == pytest.approx(0.75)


def test_alignment_prefers_the_caption_whose_words_are_in_the_regions():
    regions = torch.eye(4)[:, None].expand(4, 3, 4)
    words = torch.eye(4)[:, None].expand(4, 2, 4)
    real = torch.ones(4, 2, dtype=torch.bool)
    right = alignment_loss(words, real, regions)
    wrong = alignment_loss(words.flip(0), real, regions)
    assert right < 0.01
    assert wrong > 5


def test_states_of_frozen_text_are_those_of_the_model(tmp_path):
    torch.manual_seed(0)
    text = Vilbert(SMALL).state_dict()
    trainer = VilbertTrainer(SMALL, toy(), PIECES, OPTIONS, tmp_path, text)
    trainer.train()
    assert trainer._fixed
    ids = torch.tensor([[1, 5, 6, 2, 0], [1, 5, 3, 7, 2], [1, 5, 6, 2, 0]])
    with torch.no_grad():
        wanted = trainer.model.text_alone(ids, ids != 0, None)
    for _ in range(2):
        found = trainer.alone(ids)
        np.testing.assert_allclose(found[ids != 0], wanted[ids != 0], atol=2e-3)
    assert (1, 5, 6, 2) in trainer._seen


def test_preference_wants_the_own_caption_on_top():
    own, wrong = torch.tensor([0.8]), torch.tensor([[0.6, 0.3]])
    assert preference_loss(own, wrong) < 0.05
    assert preference_loss(wrong[:, 1], torch.tensor([[0.8, 0.6]])) > 5


def test_sharpened_attention_has_the_wanted_length_in_every_block():
    config = replace(SMALL, v_biattention_id=(0, 1), t_biattention_id=(0, 1))
    model = Vilbert(config)
    words, regions = torch.randn(9, 16), torch.randn(9, 16)
    sharpen(model, words, regions, 20.0)
    for block in model.encoder.c_layer:
        own = block.biattention
        lengths = own.query2(words).norm(dim=-1).mean() * own.key1(regions).norm(dim=-1).mean()
        # The mean over heads of the attention's logits at a cosine of 1.
        assert lengths.item() / 8**0.5 / 2 == pytest.approx(20, rel=1e-3)


def test_new_blocks_start_calm(tmp_path):
    """Before training, text that passes the blocks comes out as it would without them, nearly."""
    config = replace(SMALL, initializer_range=0.2)
    torch.manual_seed(3)
    model = Vilbert(config)
    ids = torch.tensor([[1, 5, 6, 7, 2]])
    calm_start(model, ids)
    model.eval()
    states = model.embeddings(ids, None)
    plain = model.encoder.layer[0](states, None)
    image = model.image_alone(torch.randn(1, 4, 8), torch.rand(1, 4, 5), None)
    (through, _), *_ = model.together(plain, None, image, None)
    centred = plain - plain.mean(-1, keepdim=True)
    cosine = torch.nn.functional.cosine_similarity(through, centred, dim=-1)
    assert cosine.min() > 0.99
    assert through.std(-1).mean().item() == pytest.approx(plain.std(-1).mean().item(), rel=0.05)


def test_it_learns_which_captions_belong(tmp_path):
    options = replace(
        OPTIONS, steps=120, images=16, validate=120, masked=0.05, words=0.1, regions=0.1, blank=0.0
    )
    near = torch.tensor([[(k + n) % 16 for n in (1, 2, 3)] for k in range(16)])  # other kinds
    data = replace(toy(), near=near)
    trainer = VilbertTrainer(replace(SMALL, initializer_range=0.2), data, PIECES, options, tmp_path)
    judged = DevJudge(data, PIECES.specials)
    before = judged(trainer.model.eval(), trainer.heads.eval())["near"]
    trainer.run(judged)
    after = trainer.history[-1]
    assert after["near"] >= 0.9
    assert after["near"] > before
    found = recalls(trainer.model, trainer.heads, trainer.data, 16)
    assert found["captions_r10_of_16"] > 80


def test_a_stopped_run_ends_like_an_uninterrupted_one(tmp_path):
    whole = VilbertTrainer(SMALL, toy(), PIECES, OPTIONS, tmp_path / "a")
    whole.run(judge)
    part = VilbertTrainer(SMALL, toy(), PIECES, OPTIONS, tmp_path / "b")
    part.run(judge, stop_after=5)  # one step beyond the checkpoint is done again
    again = VilbertTrainer(SMALL, toy(), PIECES, OPTIONS, tmp_path / "b")
    assert again.resume()
    assert again.step == 4
    again.run(judge)
    for (name, a), b in zip(
        whole.model.state_dict().items(), again.model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0, msg=name)
    assert [e["step"] for e in again.history] == [4, 8]
    other = VilbertTrainer(SMALL, toy(), PIECES, replace(OPTIONS, seed=2), tmp_path / "b")
    with pytest.raises(UsageError, match="other options"):
        other.resume()


def test_whitening_folds_into_plain_weights():
    torch.manual_seed(0)
    raw = torch.randn(20, 4, 12) @ torch.randn(12, 12) + 3
    whitening = Whitening.sampled(raw, 8)
    model = Vilbert(SMALL).eval()
    whole = folded(model, whitening, "toy")
    assert whole.config.v_feature_size == 12
    assert whole.config.features == "toy"
    seen = ((raw[:2] - whitening.mean) @ whitening.matrix).float()
    boxes = torch.rand(2, 4, 5)
    torch.testing.assert_close(
        whole.image_alone(raw[:2], boxes, None).states,
        model.image_alone(seen, boxes, None).states, atol=1e-4, rtol=0,
    )  # fmt: skip


def text_folder(folder: Path) -> Path:
    """A text encoder of the width of the toy model, as a folder."""
    from safetensors.torch import save_file

    folder.mkdir()
    torch.manual_seed(5)
    names = {
        name: torch.randn_like(value)
        for name, value in Vilbert(SMALL).state_dict().items()
        if name.startswith(("embeddings.", "encoder.layer."))
    }
    save_file({**names, "pooler.dense.weight": torch.zeros(1)}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def test_text_stream_starts_from_an_encoder_and_is_left_out_of_the_file(tmp_path):
    from safetensors.torch import load_file

    encoder = text_folder(tmp_path / "text")
    state = load_file(encoder / "model.safetensors")
    options = replace(OPTIONS, frozen_layers=1)
    trainer = VilbertTrainer(SMALL, toy(), PIECES, options, tmp_path / "run", state)
    trainer.run(judge)
    trainer.model.eval()
    mine = trainer.model.state_dict()
    for name, value in state.items():
        if name.startswith(("embeddings.", "encoder.layer.0.")):
            assert torch.equal(mine[name], value), name
    assert not torch.equal(
        mine["encoder.layer.1.output.dense.weight"], state["encoder.layer.1.output.dense.weight"]
    )
    save_vilbert(trainer.model, tmp_path / "out", half=False, text_from=str(encoder))
    written = load_file(tmp_path / "out" / "model.safetensors")
    assert "bert.embeddings.word_embeddings.weight" not in written
    assert "bert.encoder.layer.0.output.dense.weight" not in written
    assert "bert.encoder.layer.1.output.dense.weight" in written
    again, keys = load_vilbert(tmp_path / "out")
    assert keys.missing == ()
    for a, b in zip(again.state_dict().values(), mine.values(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(UsageError, match=r"\(30, 16\) is expected"):
        start_text(Vilbert(SMALL), {"embeddings.word_embeddings.weight": torch.zeros(9, 9)})


def test_data_that_do_not_fit_are_refused():
    data = toy()
    with pytest.raises(InputError, match="16 images have regions"):
        VilbertData(data.features, data.boxes, data.captions[:3])
    with pytest.raises(InputError, match="captions of every image"):
        VilbertData(data.features, data.boxes, [[], *data.captions[1:]])


def files(tmp_path: Path, vary: bool = False) -> Sources:
    """Twelve photographs of four things, with mirrored ones, in files."""
    rng = np.random.default_rng(0)
    words = ["dog", "cat", "boat", "tree"]
    sets, turned, lines = {}, {}, []
    for number in range(12):
        count = 3 + number % 2 * vary
        boxes = np.tile(np.float32([0, 0, 5, 5]), (count, 1))
        features = rng.normal(size=(count, 10)) + np.eye(10)[number % 4] * 3
        sets[f"{number}.jpg"] = RegionSet(features, boxes, 10, 10)
        turned[f"{number}.jpg"] = RegionSet(features + 9, boxes + np.float32([5, 0, 5, 0]), 10, 10)
        lines += [f"{number}.jpg#{k}\ta {words[number % 4]} here" for k in range(2)]
    stores = [
        save_regions(MemoryRegions(some, "toy features"), tmp_path / name).path
        for some, name in ((sets, "regions"), (turned, "mirrored"))
    ]
    (tmp_path / "captions.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "train.txt").write_text(" ".join(f"{n}.jpg" for n in range(8)))
    (tmp_path / "dev.txt").write_text(" ".join(f"{n}.jpg" for n in range(8, 12)))
    return Sources(
        captions=tmp_path / "captions.txt", regions=stores[0], flipped=stores[1],
        train=tmp_path / "train.txt", dev=tmp_path / "dev.txt", teacher=None, word_vectors=None,
    )  # fmt: skip


def grounding(folder: Path) -> Path:
    """A small SCAN with random weights."""
    torch.manual_seed(0)
    words = scan.Vocabulary(
        {w: i for i, w in enumerate((*scan.SPECIALS, "a", "dog", "cat", "boat", "tree", "here"))}
    )
    model = scan.Scan(scan.ScanConfig(img_dim=10, word_dim=6, embed_size=8, vocab_size=len(words)))
    scan.save(model, words, folder, {"features": "toy features"})
    return folder


def test_a_teacher_that_looks_compares_with_random_captions_and_their_words(tmp_path):
    sources = files(tmp_path)
    names = [f"{n}.jpg" for n in range(8)]
    texts = [[f"a {w} here", f"a {w}"] for w in ("dog", "cat", "boat", "tree") * 2]
    spelled = [
        [["a", w[:2], f"##{w[2:]}", "here"], ["a", w]] for w in ("dog", "cat", "boat", "tree") * 2
    ]
    stores = [open_regions(p) for p in (sources.regions, sources.flipped)]
    folder = grounding(tmp_path / "scan")
    teacher = LookingTeacher(folder, stores, names, texts, spelled, {"a", "here"})
    assert teacher.places((1, 0)).tolist() == [-1, 2, 2, -1]  # behind <start> and "a"
    assert teacher.places((1, 1)).tolist() == [-1, 2]
    pairs = [
        [(i, k) for i in range(8) for k in range(2)],
        [(7 - i, k) for i in range(8) for k in range(2)],
    ]
    model, words = scan.load(folder)
    model.eval()
    assert len(teacher.usual_words) == 8  # one word of each caption can be shown
    which, at = torch.tensor([[3, 3, 3], [3, 5, 3]]), torch.tensor([[0, 1, 2], [0, 2, 0]])
    for flip in (0, 1):
        found = teacher(which, at, pairs, flip)
        assert len(found) == 32
        with torch.inference_mode():
            seen = np.stack([stores[flip]["3.jpg"].features[0], stores[flip]["5.jpg"].features[2]])
            own = [stores[flip]["3.jpg"].features, np.concatenate([seen, seen[:1]])]
            for row in range(2):
                regions = model.image(torch.tensor(np.array(own[row]))[None].float())
                usual = model.similarity(regions, *teacher.usual)[0]
                single = (teacher.usual_words @ regions[0].T).amax(1)
                for value, (i, k) in zip(found[16 * row : 16 * row + 16], pairs[row], strict=True):
                    ids, lengths = scan.pad([words.encode(texts[i][k].split())])
                    states = model.text(ids, lengths)
                    whole = (
                        model.similarity(regions, states, lengths)[0, 0] - usual.mean()
                    ) / usual.std()
                    word = ((states[0, 2] @ regions[0].T).max() - single.mean()) / single.std()
                    wanted = torch.full((4 - 2 * k,), float(whole + word) / 2)
                    assert torch.allclose(value.fits, wanted, atol=0.02)
                    dots = value.dots[1]
                    assert torch.allclose(dots, states[0, 2] @ regions[0].T, atol=0.01)
                    assert (
                        value.dots.isnan().all(1).tolist()
                        == [True, False, False, True][: 4 - 2 * k]
                    )
    # Pieces that name nothing get the mean of those that do; without any, the caption's value.
    spelled[0][0] = ["dog", "cat", "here", "a"]
    texts[0][0] = "dog cat here a"
    teacher = LookingTeacher(folder, stores, names, texts, spelled, {"a", "here"})
    first = torch.zeros(1, 3, dtype=torch.long), torch.arange(3)[None]
    dog, cat, *rest = teacher(*first, [[(0, 0)]])[0].fits.tolist()
    assert rest == pytest.approx([(dog + cat) / 2] * 2, abs=1e-5)
    none = LookingTeacher(folder, stores, names, texts, spelled, {"a", "here", "dog", "cat"})
    assert len(set(none(*first, [[(0, 0)]])[0].fits.tolist())) == 1


class Whole:
    """One network of `fit` with random weights; a caption's vector is drawn from its letters."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        config = fit.FitConfig(img_dim=10, regions=3, inner=6, dim=4, piece_dim=5, pieces=7)
        self.members = [fit.FitNetwork(config).eval() for _ in range(2)]

    def texts(self, texts):
        drawn = [torch.Generator().manual_seed(sum(map(ord, text))) for text in texts]
        return torch.stack([torch.randn(8, generator=one) for one in drawn])


def test_whole_captions_are_judged_by_the_vector_of_what_is_shown(tmp_path):
    sources = files(tmp_path)
    names = [f"{n}.jpg" for n in range(8)]
    texts = [[f"a {w} here", f"one {w}"] for w in ("dog", "cat", "boat", "tree") * 2]
    stores = [open_regions(p) for p in (sources.regions, sources.flipped)]
    usual = [(i, 0) for i in range(8)]
    model = Whole()
    judge = WholeCaptions(model, stores, names, texts, usual)
    which, at = torch.tensor([[3, 3, 3], [3, 5, 3]]), torch.tensor([[0, 1, 2], [0, 2, 1]])
    asked = [[(3, 0), (5, 1)], [(2, 0), (2, 1)]]
    for flip, store in enumerate(stores):
        with torch.inference_mode():
            fits = judge(which, at, asked, flip)
            # All regions of a photograph, in order, are the photograph itself.
            features = torch.tensor(np.array(store["3.jpg"].features))[None].float()
            vector = torch.cat([net.image(features) for net in model.members], 1)[0] / 2**0.5
            random = model.texts([texts[i][k] for i, k in usual]) @ vector
            own = model.texts([texts[i][k] for i, k in asked[0]]) @ vector
        assert torch.allclose(fits[0], (own - random.mean()) / random.std(), atol=0.02)
        assert not torch.allclose(fits[1, 0], fits[1, 1])


def test_the_whole_caption_is_half_of_what_the_teacher_says(tmp_path):
    sources = files(tmp_path)
    names = [f"{n}.jpg" for n in range(8)]
    texts = [[f"a {w} here"] for w in ("dog", "cat", "boat", "tree") * 2]
    spelled = [[text.split() for text in own] for own in texts]
    stores = [open_regions(sources.regions)]
    told = grounding(tmp_path / "scan"), stores, names, texts, spelled, {"a", "here", "dog"}
    which, at = torch.tensor([[0, 0, 0]]), torch.arange(3)[None]
    alone = LookingTeacher(*told)(which, at, [[(0, 0)]])[0].fits[0]  # no region shows a dog
    both = LookingTeacher(*told, whole=Whole())
    with torch.inference_mode():
        overall = both.overall(which, at, [[(0, 0)]], 0)[0, 0]
    assert abs(float(overall - alone)) > 0.1
    fits = both(which, at, [[(0, 0)]])[0].fits[0]
    assert float(fits) == pytest.approx(float(alone + overall) / 2, abs=1e-4)


def test_words_that_fit_are_to_be_moved_and_others_are_not():
    still = torch.nn.functional.normalize(torch.randn(2, 3, 16), dim=-1)
    u = torch.nn.functional.normalize(torch.randn(16), dim=0)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert shift(torch.tensor([-9.0, 0, 0.75, 3, 9])).tolist() == pytest.approx(
        [-1.6, -0.5, 0, 1.5, 2]
    )
    far = torch.tensor([[0.0, 0.0, 7.0], [1.0, 0.5, 0.0]])
    right = still + 0.5 * far[..., None] * u
    right[0, 2] = 9.0  # padding
    assert float(looking_loss(7 * right, mask, still, u, far, 0.5)) == pytest.approx(0, abs=1e-6)
    assert float(looking_loss(still, mask, still, u, far, 0.5)) > 0.1
    # Words that fit come closer to each other, and go away from those that do not.
    a, b = torch.nn.functional.normalize(torch.randn(2, 2000, 16), dim=-1)

    def cosine(x, y):
        return torch.cosine_similarity(a + x * 0.5 * u, b + y * 0.5 * u).mean()

    assert cosine(1, 1) > cosine(1, 0) + 0.1
    assert cosine(1, 0) > cosine(1, -1) + 0.1


def test_the_first_heads_are_to_see_what_the_teacher_sees():
    words, regions = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    dots = words @ regions.mT
    dots[0, 0] = torch.nan
    whole = torch.randn(2, 1, 8)
    query = torch.cat([20 * words, torch.randn(2, 3, 4)], 2)  # two heads of four
    key = torch.cat([whole, torch.cat([regions, torch.randn(2, 5, 4)], 2)], 1)
    assert float(seeing_loss(query, key, dots, 2)) == pytest.approx(0, abs=1e-9)
    # a head that sees nothing has an error as large as the teacher's dot products themselves
    there = dots[~dots.isnan()]
    nothing = float(seeing_loss(0 * query, key, dots, 2))
    assert nothing == pytest.approx(
        float(there.square().mean() / there.var(correction=0)), rel=1e-5
    )
    assert float(seeing_loss(query, key, torch.full_like(dots, torch.nan), 2)) == 0


class Looks:
    """A teacher of the toy world: a caption fits as much of a set of regions as is of its kind."""

    def __init__(self, data: VilbertData, kinds: int = 4) -> None:
        own = torch.arange(len(data.captions)) % kinds
        self.regions = [own[:, None, None].expand(-1, 3, 1), own[:, None, None].expand(-1, 3, 1)]
        self.kinds = kinds

    def __call__(self, which, at, texts, store=0):
        out = []
        for mine, some in zip(self.regions[store][which, at], texts, strict=True):
            for i, _ in some:
                same = (mine == i % self.kinds).float().flatten()
                fits = torch.tensor([1.5 + 1.5 * float(same.mean()), 1.5])
                out.append(Found(fits, torch.stack([same, torch.full_like(same, torch.nan)])))
        return out


def test_sets_of_regions_are_mixed_and_the_teacher_is_asked_about_them():
    data = replace(toy(), looking=Looks(toy()), near=torch.arange(16)[:, None] % 4)
    options = replace(LOOK, images=16, longest=8, feature_dropout=0.0, blank=0.3, left_out=0.0)
    batch = LookingBatches(data, PIECES, options, 4)()
    many = len(batch["features"])
    assert batch["features"].shape == (16, 4, 8)
    assert batch["ids"].shape == batch["far"].shape == (4 * many, 4)
    blank = (batch["features"] == 0).all(2).all(1)
    assert 0 < blank.sum() < many
    assert (batch["far"][blank.repeat(4)] == 0).all()
    assert not batch["whole"][blank].any()
    kind = batch["features"][:, 1:, :4].argmax(2)
    same = (kind == kind[:, :1]).all(1)
    assert (same | ~batch["whole"])[~blank].all()  # what is whole shows one photograph
    assert not same[~blank].all()
    named = batch["ids"].reshape(4, many, -1)[:, :, 1] - 5
    share = (kind[None] == named[:, :, None]).float().mean(2).flatten()
    wanted = torch.stack([share / 2, share, torch.zeros_like(share), share / 2], 1)
    there = ~blank.repeat(4)
    assert torch.allclose(batch["far"][there], wanted[there] + 0.5, atol=1e-6)
    there = (kind.repeat(4, 1) == named.flatten()[:, None]) & ~blank.repeat(4)[:, None]
    assert torch.equal(batch["dots"][:, 1] == 1, there)
    assert batch["dots"][:, [0, 2, 3]].isnan().all()
    assert torch.equal(batch["dots"][:, 1].isnan().all(1), blank.repeat(4))
    mean = batch["features"][:, 1:].mean(1)
    assert torch.allclose(batch["features"][:, 0], mean, atol=1e-6)
    data.looking.regions = [one[:, :2] for one in data.looking.regions]
    with pytest.raises(InputError, match="2 regions per photograph, the region features have 3"):
        LookingBatches(data, PIECES, options, 4)()


def lookers(tmp_path: Path, before: int, **asked):
    """Runs that learn to look in the toy world, all from one first run."""
    data = replace(toy(), mirrored=(toy().features, toy().boxes), looking=Looks(toy()))
    first = replace(OPTIONS, steps=before, validate=before)
    VilbertTrainer(SMALL, data, PIECES, first, tmp_path / "first").run(judge)
    asked = {"align_steps": 20, **asked}
    options = replace(LOOK, images=16, longest=8, learning_rate=1e-2, average=0.9, **asked)

    def fresh(name: str) -> LookingTrainer:
        out = LookingTrainer(SMALL, data, PIECES, options, tmp_path / name)
        out.start_from(tmp_path / "first")
        return out

    return fresh


def test_a_run_begins_with_the_average_of_a_file(tmp_path):
    options = replace(OPTIONS, average=0.5)
    first = VilbertTrainer(SMALL, toy(), PIECES, options, tmp_path / "first")
    first.run(judge)
    then = VilbertTrainer(SMALL, toy(), PIECES, OPTIONS, tmp_path / "then")
    then.start_from(tmp_path / "first/checkpoint.pt")
    for name, value in first.averaged().items():
        assert torch.equal(value, then.model.state_dict()[name]), name
    with pytest.raises(InputError, match="--start"):
        then.start_from(tmp_path / "nothing")


def test_learning_to_look_moves_what_fits(tmp_path):
    trainer = lookers(tmp_path, 100, steps=250, validate=250, feature_dropout=0.0, matching=0.0)(
        "run"
    )
    ids = torch.tensor([[1, 5, 10, 2], [1, 6, 10, 2]])
    before = trainer.still(ids)
    trainer.run(judge)
    assert torch.equal(trainer.still(ids), before)  # the beginning is not forgotten
    model = trainer.model.eval()
    model.load_state_dict(trainer.averaged())
    options = replace(trainer.options, seed=9, blank=0.2)
    batch = LookingBatches(trainer.data, PIECES, options, 4)()
    with torch.inference_mode():
        start = model.image_alone(batch["features"], batch["boxes"], None)
        states = trainer.read(trainer.texts(batch["ids"]), start, 4).text[-1]
        states = torch.nn.functional.normalize(states, dim=-1)
        moved = (states - trainer.still(batch["ids"])) @ trainer.direction
    both = torch.stack([moved.flatten(), batch["far"].flatten()])
    assert float(torch.corrcoef(both)[0, 1]) > 0.6
    blank = (batch["features"] == 0).all(2).all(1).repeat(4)
    assert float(moved[blank].abs().mean()) < 0.5 * float(moved[~blank].abs().mean())


def test_learning_to_look_resumes_exactly(tmp_path):
    fresh = lookers(tmp_path, 4, steps=8, validate=4)
    whole = fresh("whole")
    assert set(whole.losses(whole.batches())) == {"looking", "seeing", "matching", "grading"}
    whole = fresh("whole")
    whole.run(judge)
    fresh("parts").run(judge, stop_after=4)
    rest = fresh("parts")
    assert rest.resume()
    rest.run(judge)
    for name, value in whole.average.items():
        assert torch.equal(value, rest.average[name]), name


def test_without_a_run_to_start_from_words_stay_where_the_encoder_has_them(tmp_path):
    data = replace(toy(), looking=Looks(toy()))
    options = replace(LOOK, images=16, longest=8, steps=2, align_steps=2, validate=2)
    trainer = LookingTrainer(SMALL, data, PIECES, options, tmp_path)
    ids, mask = torch.tensor([[1, 5, 10, 2], [1, 6, 2, 0]]), torch.tensor([4, 3])
    model = trainer.model.eval()
    alone = []
    with torch.no_grad():  # the block comes before the second layer
        for row, length in zip(ids, mask, strict=True):
            alone.append(
                model.encoder.layer[0](model.embeddings(row[None, :length], None), None)[0]
            )
    trainer.run(judge)
    states = trainer.still(ids)
    for row, own in zip(states, alone, strict=True):
        wanted = torch.nn.functional.normalize(own, dim=-1)
        assert torch.allclose(row[: len(own)], wanted, atol=2e-3)
    assert not states[1, 3].any()


def test_learning_to_look_needs_a_teacher(tmp_path):
    with pytest.raises(UsageError, match="grounding model"):
        LookingBatches(toy(), PIECES, LOOK, 4)()


def test_mirrored_photographs_come_with_their_boxes(tmp_path):
    data = toy()
    turned = data.features + 100, data.boxes + 100
    batch = Batches(replace(data, mirrored=turned), PIECES, replace(OPTIONS, blank=0.0), 4)()
    flip = batch["targets"].mean((1, 2)) > 50
    assert 0 < flip.sum() < len(flip)
    assert torch.equal(batch["boxes"].mean((1, 2)) > 50, flip)
    assert torch.equal(data.features, toy().features)  # the data themselves stay


def test_what_is_chosen_is_the_average(tmp_path):
    options = replace(OPTIONS, average=0.5)
    trainer = VilbertTrainer(SMALL, toy(), PIECES, options, tmp_path / "run")
    trainer.run(judge)
    best = torch.load(tmp_path / "run/best.pt", weights_only=True)["model"]
    name = "encoder.c_layer.0.biOutput.dense2.weight"
    assert torch.equal(best[name], trainer.average[name])
    assert not torch.equal(best[name], trainer.model.state_dict()[name])


def test_learning_to_look_by_command(tmp_path, capsys):
    pytest.importorskip("spacy")
    from captious import cli

    sources = files(tmp_path)
    config = tmp_path / "config.json"
    wide = replace(SMALL, vocab_size=30522, max_position_embeddings=40)
    config.write_text(json.dumps(wide.to_json()))
    common = [
        "train", "vilbert", "--regions", str(sources.regions), "--captions", str(sources.captions),
        "--train", str(sources.train), "--dev", str(sources.dev), "--config", str(config),
        "--text", "none", "--teacher", "none", "--batch", "4", "--steps", "2",
    ]  # fmt: skip
    assert cli.main([*common, "-o", str(tmp_path / "first")]) == 0
    assert cli.main([*common, "--look", "scan-coco", "-o", str(tmp_path / "x")]) == 2
    assert "--start" in capsys.readouterr().err
    assert cli.main([*common, "--whole", "fit-coco", "-o", str(tmp_path / "x")]) == 2
    assert "--look" in capsys.readouterr().err
    last = [*common, "--start", str(tmp_path / "first")]
    last += ["--look", str(grounding(tmp_path / "scan"))]
    assert cli.main([*last, "--flipped", str(sources.flipped), "-o", str(tmp_path / "last")]) == 0
    facts = json.loads((tmp_path / "last/config.json").read_text())
    assert facts["training"]["average"] == LOOK.average
    assert (tmp_path / "last/model.safetensors").exists()


def test_from_files_to_a_folder_that_the_metric_reads(tmp_path):
    pytest.importorskip("matplotlib")
    sources = replace(files(tmp_path, vary=True), flipped=None)
    store = sources.regions
    config = replace(SMALL, vocab_size=30522, max_position_embeddings=40)
    told: list = []
    folder = train(sources, config, OPTIONS, tmp_path / "out", None, told.append)
    assert [entry["step"] for entry in told] == [4, 8]
    card = (folder / "README.md").read_text()
    assert "toy features" in (folder / "config.json").read_text()
    assert "images: 8" in card
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    metric = Seeing(Vilbertscore(model=str(folder)), str(store))
    given = CaptionSet.build(["a dog here"], [["one dog", "a cat"]], images=["0.jpg"])
    metric.prepare(given)
    assert np.isfinite(metric.stats(given, None).rows).all()


def test_machine_captions_are_templates_of_people_s_words():
    pytest.importorskip("spacy")
    captions = [
        ["A brown dog is chasing a red ball .", "A dog runs in the snow ."],
        ["Two women are sitting on a bench .", "Women on a wooden bench near a lake ."],
        ["Hm .", "Ah !"],
    ]
    made = machine_captions(captions, 3, seed=1)
    assert [len(one) for one in made] == [3, 3, 0]  # nothing is named in the last
    assert made == machine_captions(captions, 3, seed=1)
    assert made != machine_captions(captions, 3, seed=2)
    words = {"dog", "ball", "snow", "brown", "red", "chasing", "standing"}
    templates = {word for one in _TEMPLATES for word in one.split()}
    for one in made[0]:
        assert set(one.split()) <= words | templates
        assert words & set(one.split())


WORLD = [
    (thing, place)
    for thing in ("dog", "boat", "horse", "child", "bird", "truck")
    for place in ("beach", "street", "field", "table")
]


def test_machine_captions_are_judged_by_the_references_that_f_does_not_see():
    pytest.importorskip("spacy")
    captions = [[f"a {w} on the {p}", f"one {w} at a {p}", f"the {w}"] for w, p in WORLD]
    near = torch.stack([(torch.arange(1, 21) + i) % len(WORLD) for i in range(len(WORLD))])
    pieces = WordPieces(None, 30522)

    def vectors(texts):
        """Bags of the world's words."""
        names = sorted({word for pair in WORLD for word in pair})
        bags = [[[float(n in t.split()) for n in names] for t in some] for some in texts]
        return torch.nn.functional.normalize(torch.tensor(bags) + 1e-3, dim=-1)

    judge = MachineJudge(captions, near, pieces, vectors, images=12)
    assert len(judge.rows) == len(judge.texts) == 12
    assert judge.oracle.shape == (12, 4, 3)
    same = {
        text: torch.nn.functional.one_hot(torch.tensor(text), 30522).float()
        for _, text in pairs_of(judge.rows)
    }
    words = judge.agreement([same[text] for _, text in pairs_of(judge.rows)])
    noise = judge.agreement([torch.randn(len(t), 8) for _, t in pairs_of(judge.rows)])
    assert words > 0.7 > noise
