"""Looking at regions: rows grouped by image, grounding vectors, what a word attends to."""
