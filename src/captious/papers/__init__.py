"""The five papers: their tables and figures, printed values beside recomputed ones."""
