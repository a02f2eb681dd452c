"""Two thousand damaged files over all readers: read, or refused with an error of captious."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).parent / "fuzz" / "campaign.py"

for needed in ("torch", "transformers", "h5py", "lmdb", "PIL", "safetensors"):
    pytest.importorskip(needed)


def test_no_reader_is_surprised(tmp_path):
    code = (
        f"import sys, json; sys.path.insert(0, {str(CAMPAIGN.parent)!r})\n"
        "from pathlib import Path; import campaign\n"
        f"found = campaign.run(2000, 35, 20261117, Path({str(tmp_path / 'out')!r}))\n"
        "found.pop('by_reader'); print(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    bad = [one for one in found["defects"] if one[2] != "net"]
    assert not bad, "\n".join(map(str, bad[:20]))
    assert found["inputs"] > found["readers"]  # each valid input, and damage
    assert found["classes"]["refused"] > found["classes"]["read"] > 0


def test_the_campaign_sees_defects(tmp_path, monkeypatch):
    """A reader that raises, dies, hangs or eats memory is counted as what it is."""
    sys.path.insert(0, str(CAMPAIGN.parent))
    try:
        import campaign
        import readers
    finally:
        sys.path.remove(str(CAMPAIGN.parent))
    plain = tmp_path / "seed"
    plain.mkdir()
    reader = readers.Reader("x", lambda f: (f / "a").write_bytes(b"x" * 9), lambda f: 1 / 0, "a")
    child = campaign.Child.__new__(campaign.Child)
    child.readers = {"x": reader}
    reader.make(plain)
    assert child.read("x", plain)[0] == "raw"
    child.smaller("x", plain, "ZeroDivisionError: division by zero")
    assert len((plain / "a").read_bytes()) <= 1
