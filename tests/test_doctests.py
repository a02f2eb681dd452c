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


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name, cache):
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = sum(bool(t.examples) for n in MODULES for t in finder.find(import_module(n)))
    assert examples >= 25
