"""Spoilt captions: attacks, edits, swaps, and the word lists that they share."""
