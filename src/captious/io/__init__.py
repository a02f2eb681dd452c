"""Files in and out: caption files of every usual shape -> CaptionSet, ScoreTable -> files."""

from captious.io.load import load

__all__ = ["load"]
