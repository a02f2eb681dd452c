"""What METEOR needs: words as numbers, phrases, the alignment, compiled where that pays."""
