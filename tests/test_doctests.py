"""Examples in docstrings are run, in every module."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import captious

MODULES = [
    m.name
    for m in pkgutil.walk_packages(captious.__path__, "captious.")
    if not m.name.startswith(("captious.__main__", "captious.weights"))
]


def opened(name):
    """Import a module; adapters need their host."""
    try:
        return import_module(name)
    except ModuleNotFoundError as err:
        if str(err.name).startswith("captious"):
            raise
        pytest.skip(f"{name} needs {err.name}")


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name, cache):
    found = doctest.testmod(opened(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    ours = [n for n in MODULES if not n.startswith("captious.compat")]
    examples = sum(bool(t.examples) for n in ours for t in finder.find(import_module(n)))
    assert examples >= 25
