"""Stands where pycocoevalcap has it; see :mod:`captious.compat.pycocoevalcap`."""
