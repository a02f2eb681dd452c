"""Fixtures that many tests share."""

from __future__ import annotations

import json
import os
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow checks to `make test-full` (pytest -m 'full or not full')."""
    if config.getoption("-m"):
        return
    for item in items:
        if "full" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow; run by make test-full"))


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
